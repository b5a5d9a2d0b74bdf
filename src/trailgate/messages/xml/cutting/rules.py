"""Which rules find the same in a message that is cut where their elements end as in the whole one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trailgate.messages.properties.values import Lookup
from trailgate.messages.properties.xml_rules import RuleType
from trailgate.messages.xml.automaton import Automaton, NotForScannerError, compile_rules
from trailgate.messages.xml.paths import Part, Path, Step
from trailgate.messages.xml.rules import Rule


class NotCuttableError(Exception):
    """Rules that need the whole message; the text has the reason."""


def compile_cuts(rules: Sequence[Rule]) -> Automaton:
    """Return the tables that find the elements of the rules at the top; raises NotCuttableError.

    What is around such an element is known by its start tags alone: no rule may ask for more.
    """
    kinds = {rule.type for rule in rules}
    indicated = any("txind" in rule.values for top in rules for rule in top.all())
    if any(rule.match is None for rule in rules) or (RuleType.OPERATION in kinds and not indicated):
        raise NotCuttableError("the whole message is one transaction")
    for rule in rules:
        assert rule.match is not None
        if any(_counts(step) for step in rule.match.steps):
            raise NotCuttableError(f"the match of {rule.name} counts elements")
        _check(rule, 0)
    alone = [replace(rule, values=Lookup(), subrules=()) for rule in rules]
    try:
        return compile_rules(alone)
    except NotForScannerError as reason:
        raise NotCuttableError(f"the match of a rule at the top has {reason}") from None


def _check(rule: Rule, depth: int) -> None:
    """Raise NotCuttableError where a value of a rule, ``depth`` elements below the top one, is not known within that."""
    for name, path in _paths(rule):
        if path.absolute or path.up > depth:
            _check_outside(f"{rule.name}.{name}", path)
        if path.up == depth and not path.steps and not path.absolute:
            _check_accessor(f"{rule.name}.{name}", path, (Part.POSITION,))
    for subrule in rule.subrules:
        up, steps = (0, ()) if subrule.match is None else (subrule.match.up, subrule.match.steps)
        if up > depth:
            raise NotCuttableError(f"the match of {subrule.name} leads out of the rule at the top")
        _check(subrule, depth - up + len(steps))


def _paths(rule: Rule) -> Iterator[tuple[str, Path]]:
    return ((name, path) for name, path in rule.values.items() if isinstance(path, Path))


def _check_outside(name: str, path: Path) -> None:
    """Raise NotCuttableError for a path out of the top element to more than the start tags around it."""
    root_alone = path.absolute and len(path.steps) == 1 and not path.steps[0].anywhere
    if path.steps and not (root_alone and not _counts(path.steps[0])):
        raise NotCuttableError(f"{name} is found beside the element of the rule at the top")
    _check_accessor(name, path, (Part.POSITION, Part.TEXT, Part.CONTENT))


def _check_accessor(name: str, path: Path, refused: tuple[Part, ...]) -> None:
    if path.accessor is not None and path.accessor.part in refused:
        problem = f"{name} asks for the {path.accessor} of an element that is cut, or is counted"
        raise NotCuttableError(problem)


def _counts(step: Step) -> bool:
    return any(each.part in {Part.POSITION, Part.TEXT} for each in step.predicates)
