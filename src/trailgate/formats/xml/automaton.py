"""Compile XML rules into the tables of a finite automaton, which the XML scanner executes.

The path of a rule is appended to the paths of the rules around it, which results in a *pattern*: a
list of steps from the document. A state is the set of (pattern, number of steps done) that an
element has reached. Each element name leads from one state to the next. When a pattern is complete,
the actions of its rules are executed: open a record, store an attribute, store the text, and so on.

Example: the rule tx matches `/all/tx`, and its column rule reads `id/text()`. There are two
patterns, p = all/tx and q = all/tx/id. After `<all><tx><id>` the states are {p0, q0}, {p1, q1},
{p2, q2}, {q3}: p2 opens a record, and q3 stores the text at the end tag.

Predicates on a tag (`order[@type='new']`) choose among several next states when the tag's
attributes are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import product
from math import prod
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Offsets
from trailgate.formats.xml.kernels.tables import (
    ACTION,
    ANCHORS,
    BY_ATTRIBUTE,
    BY_POSITION,
    BY_TEXT,
    CHOICE,
    COLUMNS,
    DOCUMENT,
    EMPTY,
    FIELD,
    FIRST,
    GROUP,
    HEADS,
    INSTANCE,
    KIND,
    LOOSE,
    OPERATIONS,
    ORDER,
    OUTER,
    PHASES,
    SECOND,
    SPACE,
    ActionType,
    RuleArrays,
)
from trailgate.formats.xml.matches import AGAIN, PATHS
from trailgate.formats.xml.rules import (
    ANY,
    ElementPart,
    PathName,
    PathPredicate,
    PathStep,
    RulePath,
    RuleType,
    XmlRule,
)
from trailgate.messages.property_reader import ValueSource

# The number of states can grow exponentially with the number of paths that begin with //. Rules with more
# states than this are left to the general engine.
_MOST_STATES: Final = 1 << 16
_MOST_CELLS: Final = 1 << 24  # elements of the step table: different rows times names
_MOST_OUTCOMES: Final = 1 << 14  # combinations of the predicates' values on one tag
KINDS: Final = 4

Pattern = tuple[PathStep, ...]
State = frozenset[tuple[int, int]]  # (pattern, number of its steps that are done)


_ANYWHERE: Final = PathStep(ANY, anywhere=True)
# What happens at the end of an element from which a path takes this part.
_ENDING: Final[dict[ElementPart | None, ActionType]] = {
    ElementPart.TEXT: ActionType.TEXT,
    ElementPart.EXACT_TEXT: ActionType.EXACT_TEXT,
    ElementPart.CONTENT: ActionType.CONTENT,
}
# What happens at the start of an element from which a path takes this part.
_STARTING: Final[dict[ElementPart | None, ActionType]] = {
    None: ActionType.EXISTS,
    ElementPart.NAME: ActionType.NAME,
    ElementPart.POSITION: ActionType.POSITION,
}


class PredicateGroup(NamedTuple):
    """Predicates of XML paths that compare the same thing, so that at most one of them is true.

    They compare an attribute, the text, or the position among the elements that satisfy the
    predicates `before`.
    """

    part: ElementPart
    name: PathName
    before: tuple[PathPredicate, ...] = ()


Condition = tuple[PredicateGroup, str]


class NotForScannerError(Exception):
    """Raised for XML rules that only the general engine supports.

    The text names the construct that the scanner does not support.
    """


class ActionPhase(IntEnum):
    """When an action of the scanner is executed: at a start tag, in this order, or at the end tag."""

    OPEN = 0
    START = 1
    ATTRIBUTE = 2
    END = 3


@dataclass(frozen=True, slots=True)
class AnchoredValue:
    """A value found from an element around the rule's element, such as `../id/text()`.

    The element around it gets its own record, the anchor. The scan stores the value in the anchor,
    and afterwards it is copied to the property `name` in the records of rule number `rule` with the
    type `kind`. `pointer` is the field of these records with the number of their anchor. In the
    anchor, `theirs` is the field of the value, and `again` the field that marks repeated values, or
    -1. (While rules are compiled, `pointer`, `theirs` and `again` are numbers of slots and
    pointers, not of fields.)
    """

    kind: int
    rule: int
    name: str
    pointer: int
    theirs: int
    again: int


@dataclass(frozen=True, slots=True)
class Automaton:
    """The XML rules, compiled to tables that the scanner's loop reads.

    `formats/xml/kernels/tables.py` describes the columns of each table.

    For each record type, `slots` maps properties to fields, and `widths` is the number of fields.
    `letters` is the number of element names per namespace, and `spaces` are the namespaces in the
    rules. `groups` is the largest number of predicate groups in one choice. `anchored` are the
    values that the scan finds from elements around a rule's element. `nests` is set if matches may
    be nested, so that records are not in the order of operations.
    """

    elements: tuple[str, ...]
    attributes: tuple[str, ...]
    letters: int
    spaces: tuple[str, ...]
    step: Offsets
    choices: Longs
    outcomes: Longs
    predicates: Longs
    bounds: Longs
    actions: Longs
    literals: bytes
    slots: tuple[Mapping[str, int], ...]
    widths: tuple[int, ...]
    anchored: tuple[AnchoredValue, ...]
    instances: int
    counters: int
    groups: int
    nests: bool

    @property
    def arrays(self) -> RuleArrays:
        """The tables of the XML rules in the form that kernels accept."""
        return RuleArrays(
            step=self.step,
            choices=self.choices,
            outcomes=self.outcomes,
            predicates=self.predicates,
            bounds=self.bounds,
            actions=self.actions,
            letters=self.letters,
            instances=self.instances,
            counters=self.counters,
        )


@dataclass(slots=True, eq=False)
class _Placed:
    """The pattern of an XML rule's elements, and the rule's *instance* for each record type.

    An instance is a number. During a scan, it finds the open record of the rule and type.
    """

    pattern: Pattern
    instances: dict[int, int]


def compile_rules(rules: Sequence[XmlRule], namespaces: Mapping[str, str]) -> Automaton:
    """Compile XML rules to the tables of an automaton.

    `namespaces` maps their prefixes. Raises NotForScannerError for unsupported constructs.
    """
    actions = _Actions(namespaces)
    for rule in rules:
        actions.add(rule, _Placed((), {}))
    return _Tables(actions).automaton(nests=_may_nest(rules))


def _may_nest(rules: Sequence[XmlRule]) -> bool:
    """Return whether a scan may open the records of XML operations in an order other than the final one.

    This is possible if a rule with operation rules below it matches nested elements (`//`), or is
    not the only rule for operations or transactions on its level.
    """
    makers = [rule for rule in rules if rule.type is not RuleType.COLUMN]
    over = [rule for rule in makers if any(r.type is RuleType.OPERATION for r in rule.subrules)]
    if over and len(makers) > 1:
        return True
    anywhere = any(step.anywhere for rule in over for step in _steps(rule))
    return anywhere or any(_may_nest(rule.subrules) for rule in over)


def _steps(rule: XmlRule) -> Pattern:
    return () if rule.match is None else rule.match.steps


@dataclass(slots=True)
class _Actions:
    """The actions of the XML rules, by the pattern of the elements at which they are executed.

    `rows` has the actions of each pattern. For each record type, `slots` numbers the values that
    its records store, and `pointers` is the number of anchors that they refer to.
    """

    namespaces: Mapping[str, str]
    spaces: dict[str, int] = field(default_factory=dict)
    rows: dict[Pattern, list[tuple[ActionPhase, tuple[int, ...]]]] = field(default_factory=dict)
    slots: list[dict[object, int]] = field(default_factory=lambda: [{} for _ in range(KINDS)])
    kinds: list[int] = field(default_factory=list)  # the record type of each instance
    anchors: dict[tuple[Pattern, ...], int] = field(default_factory=dict)
    pointers: list[int] = field(default_factory=lambda: [0] * KINDS)
    anchored: list[AnchoredValue] = field(default_factory=list)
    # Instances whose values may be at any depth below them (`//`).
    loose: set[int] = field(default_factory=set)
    attributes: dict[str, int] = field(default_factory=dict)
    literals: bytearray = field(default_factory=bytearray)

    def add(self, rule: XmlRule, above: _Placed) -> None:
        """Add the actions of an XML rule and its subrules. `above` is the rule around it."""
        own = _steps(rule)
        # Patterns are lists of steps downwards: a match that leads up cannot be appended.
        if rule.match is not None and rule.match.up:
            raise NotForScannerError("a match that begins with ..")
        placed = _Placed(above.pattern + own, {})
        self._check(own)
        for kind in _kinds(rule):
            placed.instances[kind] = instance = self._instance(kind)
            owner = above.instances.get(OPERATIONS if kind == COLUMNS else OUTER, -1)
            # How to find the record of the enclosing match from this element.
            level = self._level(above.pattern, own) if owner >= 0 else 0
            if level == LOOSE:
                self.loose.add(owner)
            # Transactions are records of the type OUTER too, so the row states which ones are.
            opens = rule.type is RuleType.TRANSACTION
            row = (ActionType.RECORD, instance, level, owner, kind, rule.number, int(opens))
            self._add_action(placed.pattern, ActionPhase.OPEN, row)
            if kind == OPERATIONS and placed.pattern:
                self._add_action(
                    placed.pattern, ActionPhase.END, (ActionType.CLOSE, instance, 0, 0, kind)
                )
        for name, source in rule.values.items():
            if isinstance(source, RulePath):
                self._value(rule, placed, name, source)
            elif name.endswith("value"):
                self._literal(placed, name, source)
        for subrule in rule.subrules:
            self.add(subrule, placed)

    def _instance(self, kind: int) -> int:
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def _add_action(self, pattern: Pattern, phase: ActionPhase, row: tuple[int, ...]) -> None:
        self.rows.setdefault(pattern, []).append((phase, row))

    def _check(self, steps: Iterable[PathStep]) -> None:
        for step in steps:
            for name in (step.name, *(p.attribute for p in step.predicates)):
                self.space(name)

    @staticmethod
    def _level(over: Pattern, steps: Pattern) -> int:
        """Return how an action finds the element of `over` from an element that is `steps` below it.

        The result is the number of levels up if `steps` have no `//`. Otherwise it is `DOCUMENT`
        minus the element's depth, or `LOOSE` if `over` has `//` too, so that the depth is not
        known.
        """
        if not any(step.anywhere for step in steps):
            return len(steps)
        if not any(step.anywhere for step in over):
            return DOCUMENT - len(over)
        return LOOSE

    def _literal(self, placed: _Placed, name: str, source: ValueSource) -> None:
        data = source.name.encode()
        for kind, instance in placed.instances.items():
            slot = self._slot(kind, name)
            row = (ActionType.LITERAL, instance, 0, slot, kind, len(self.literals), len(data))
            self._add_action(placed.pattern, ActionPhase.START, row)
        self.literals += data

    def _slot(self, kind: int, name: object) -> int:
        return self.slots[kind].setdefault(name, len(self.slots[kind]))

    def _value(self, rule: XmlRule, placed: _Placed, name: str, path: RulePath) -> None:
        """Add the action that stores a value in the rule's records, or in the anchor at which its path begins."""
        self._check(path.steps)
        for kind in placed.instances:
            self._slot(kind, name)
        if path.absolute or path.up:
            around = ((),) if path.absolute else _around(placed.pattern, path.up)
            if around:  # otherwise the path leads above the document
                self._value_around(rule, placed, name, path, around)
            return
        level = self._level(placed.pattern, path.steps)
        for kind, instance in placed.instances.items():
            if level == LOOSE:
                self.loose.add(instance)
            place = (instance, level, self._slot(kind, name), kind, *self._again(kind, name))
            self._store_value(placed.pattern + path.steps, path, place, name)

    def _value_around(
        self, rule: XmlRule, placed: _Placed, name: str, path: RulePath, around: tuple[Pattern, ...]
    ) -> None:
        """Add the actions for a value found from outside the rule's element (see `AnchoredValue`).

        `around` are the patterns of that element.
        """
        anchor = self._anchor(around)
        own = (rule.number, name)
        slot, again = self._slot(ANCHORS, own), (-1, 0)
        # For these properties, repeated values are reported (see coverage.py).
        if name in PATHS:
            again = (self._slot(ANCHORS, (*own, AGAIN)), 1)
            for kind in placed.instances:
                self._slot(kind, AGAIN)
        for over in around:
            level = self._level(over, path.steps)
            if level == LOOSE:
                raise NotForScannerError(".. from below // to below //")
            self._store_value(over + path.steps, path, (anchor, level, slot, ANCHORS, *again), own)
        for kind, instance in placed.instances.items():
            mine = {a.name for a in self.anchored if (a.rule, a.kind) == (rule.number, kind)}
            # Pointers are numbered within a rule: different rules never share a record, so the same
            # fields can be used again.
            pointer = len(mine)
            self.pointers[kind] = max(self.pointers[kind], pointer + 1)
            self.anchored.append(
                AnchoredValue(
                    kind=kind,
                    rule=rule.number,
                    name=name,
                    pointer=pointer,
                    theirs=slot,
                    again=again[0],
                )
            )
            up = DOCUMENT if path.absolute else path.up
            row = (ActionType.POINT, instance, 0, pointer, kind, anchor, up)
            self._add_action(placed.pattern, ActionPhase.START, row)

    def _again(self, kind: int, name: str) -> tuple[int, int]:
        """Return the slot that marks repeated values in match records, and the bit of a property in it.

        Returns (-1, 0) for a property whose repeated values are not marked.
        """
        return (self._slot(kind, AGAIN), 1 << PATHS.index(name)) if name in PATHS else (-1, 0)

    def _anchor(self, patterns: tuple[Pattern, ...]) -> int:
        if patterns not in self.anchors:
            self.anchors[patterns] = anchor = self._instance(ANCHORS)
            for pattern in patterns:
                self._add_action(
                    pattern, ActionPhase.OPEN, (ActionType.RECORD, anchor, 0, -1, ANCHORS, -1)
                )
        return self.anchors[patterns]

    def _store_value(
        self, pattern: Pattern, path: RulePath, place: tuple[int, ...], name: object
    ) -> None:
        """Add the action that stores the value of a path at the elements with a pattern.

        `place` contains the columns of the action's row from `INSTANCE` on. Elements found with
        `//` may be nested: in `<a><a></a></a>` the inner one ends first, but the value of the outer
        one counts, because it begins first. So the offset of the element that supplied the value is
        stored too.
        """
        part = None if path.accessor is None else path.accessor.part
        # Attributes are found by the number of their name, which takes the place of an action type.
        if part is ElementPart.ATTRIBUTE:
            assert path.accessor is not None
            letter = self.attribute(path.accessor.attribute)
            self._add_action(pattern, ActionPhase.ATTRIBUTE, (letter, *place))
        elif part in _ENDING and not pattern:  # the document itself has no text
            size = 0 if part is ElementPart.EXACT_TEXT else EMPTY
            self._add_action(
                pattern, ActionPhase.START, (ActionType.LITERAL, *place[:KIND], 0, size)
            )
        elif part in _ENDING:
            order = 0
            if any(step.anywhere for step in path.steps):
                order = 1 + self._slot(place[KIND - 1], (name, "order"))
            self._add_action(pattern, ActionPhase.END, (_ENDING[part], *place, order))
        else:
            self._add_action(pattern, ActionPhase.START, (_STARTING[part], *place[:KIND]))

    def field(self, kind: int, slot: int) -> int:
        """Return the number of the match record's field in which a slot's value begins.

        A record of type `kind` has fixed fields, then pointers to anchors, then two fields for each
        slot.
        """
        return HEADS[kind] + self.pointers[kind] + 2 * slot

    def resolve(self, phase: ActionPhase, row: tuple[int, ...]) -> tuple[int, ...]:
        """Return an action with its slots and pointers replaced by numbers of fields in match records."""
        what, slot, kind = row[0], row[FIELD], row[KIND]
        if phase is not ActionPhase.ATTRIBUTE:
            if what == ActionType.RECORD:
                return *row, *[0] * (ORDER - len(row)), int(row[INSTANCE] in self.loose)
            if what == ActionType.CLOSE:
                return row
            if what == ActionType.POINT:
                return *row[:FIELD], HEADS[kind] + slot, *row[FIELD + 1 :]
        if phase in {ActionPhase.ATTRIBUTE, ActionPhase.END} and row[SECOND]:
            row = *row[:FIRST], self.field(kind, row[FIRST]), *row[SECOND:]
        # Slots are stored plus 1 in this column, because 0 means that the order is not stored.
        if len(row) > ORDER and row[ORDER]:
            row = *row[:ORDER], self.field(kind, row[ORDER] - 1)
        return *row[:FIELD], self.field(kind, slot), *row[FIELD + 1 :]

    def attribute(self, name: PathName) -> int:
        """Return an XML attribute name's number, from 1, with its namespace in the bits above `SPACE`."""
        number = self.attributes.setdefault(name.local, len(self.attributes) + 1)
        return number + (self.space(name) << SPACE)

    def space(self, name: PathName) -> int:
        """Return the number of an XML name's namespace, from 1, or 0 for a name without a prefix."""
        if not name.prefix:
            return 0
        return self.spaces.setdefault(self.namespaces[name.prefix], len(self.spaces) + 1)


def _around(pattern: Pattern, up: int) -> tuple[Pattern, ...]:
    """Return the patterns of the XML elements `up` levels above those of a pattern.

    Returns () if that is above the document. Example: one level above `a//b` is `a` or any element
    below it, `a//*`.
    """
    patterns: dict[Pattern, None] = {pattern: None}
    for _ in range(up):
        above: dict[Pattern, None] = {}
        for steps in patterns:
            if steps:
                above[steps[:-1]] = None
            if steps and steps[-1].anywhere:
                # `//` may have skipped any number of elements, so the parent can also be one of
                # those.
                above[*steps[:-1], _ANYWHERE] = None
        patterns = above
    return tuple(patterns)


def _kinds(rule: XmlRule) -> Iterator[int]:
    """Yield the types of the records that an XML rule's matches get: COLUMNS, OPERATIONS or OUTER."""
    if rule.type is RuleType.COLUMN:
        yield COLUMNS
    elif rule.type is RuleType.OPERATION and not rule.groups:
        yield OPERATIONS
    if (
        any(subrule.type is RuleType.OPERATION for subrule in rule.subrules)
        or rule.type is RuleType.TRANSACTION
    ):
        yield OUTER


class _Tables:
    """Builds the states of the automaton for XML rules, and the tables of their transitions and actions.

    A state is the set of patterns that the open elements have matched so far, with the step that
    each one has reached.
    """

    def __init__(self, actions: _Actions) -> None:
        self.actions = actions
        self.patterns = list(actions.rows)
        self.literals = bytearray(actions.literals)
        self.elements = sorted({name for steps in self.patterns for name in _names(steps)})
        self.letters = {name: i for i, name in enumerate(self.elements, 1)}
        self.count = (len(self.elements) + 1) * (len(actions.spaces) + 1)
        self.states: dict[State, int] = {}
        self.left: list[State] = []  # all states, in the order of their numbers
        self.choices: list[tuple[int, ...]] = []
        self.outcomes: list[int] = []
        self.predicates: list[int] = []
        self.counters: dict[PredicateGroup, int] = {}
        self.groups = 0

    def automaton(self, *, nests: bool) -> Automaton:
        """Build the automaton of the XML rules: the tables of all reachable states."""
        self._state(frozenset((pattern, 0) for pattern in range(len(self.patterns))))
        rows: dict[tuple[int, ...], int] = {}
        own_rows: list[int] = []
        # Computing a state's row may add new states, until no new ones appear.
        while len(own_rows) < len(self.states):
            row = tuple(self._row(self.left[len(own_rows)]))
            own_rows.append(rows.setdefault(row, len(rows)))
            if len(rows) * self.count > _MOST_CELLS:
                raise NotForScannerError("too many names")
        # The first part of `step` has the offset of each state's row. States with equal rows share
        # one.
        step = np.empty(len(own_rows) + len(rows) * self.count, np.int32)
        step[: len(own_rows)] = np.array(own_rows) * self.count + len(own_rows)
        step[len(own_rows) :] = np.array(list(rows), np.int32).reshape(-1)
        bounds, actions = self._acts()
        own = self.actions
        kinds = range(KINDS)
        return Automaton(
            elements=tuple(self.elements),
            attributes=tuple(own.attributes),
            letters=len(self.elements) + 1,
            spaces=tuple(own.spaces),
            step=step,
            choices=_table(self.choices, CHOICE),
            outcomes=np.array(self.outcomes or [0], np.int64),
            predicates=np.array(self.predicates or [0], np.int64),
            bounds=bounds,
            actions=_table(actions, ACTION),
            literals=bytes(self.literals),
            slots=tuple(
                {str(name): own.field(kind, slot) for name, slot in own.slots[kind].items()}
                for kind in kinds
            ),
            widths=tuple(own.field(kind, len(own.slots[kind])) for kind in kinds),
            anchored=tuple(
                replace(
                    each,
                    pointer=HEADS[each.kind] + each.pointer,
                    theirs=own.field(ANCHORS, each.theirs),
                    again=-1 if each.again < 0 else own.field(ANCHORS, each.again),
                )
                for each in own.anchored
            ),
            instances=len(own.kinds),
            counters=len(self.counters),
            groups=self.groups,
            nests=nests,
        )

    def _state(self, state: State) -> int:
        if state not in self.states:
            if len(self.states) >= _MOST_STATES:
                raise NotForScannerError("too many states")
            self.states[state] = len(self.states)
            self.left.append(state)
        return self.states[state]

    def _row(self, state: State) -> list[int]:
        """Return a state's row of the step table: the next state for each element name and namespace.

        Name 0 is any other name, and namespace 0 any other namespace.
        """
        next_steps = [self.patterns[p][i : i + 1] for p, i in state]
        names = {name for steps in next_steps for name in _names(steps)}
        spaces = {self.actions.space(step.name) for steps in next_steps for step in steps}
        size = len(self.elements) + 1
        row: list[int] = []
        for space in range(len(self.actions.spaces) + 1):
            if space and space not in spaces:  # same as any other namespace
                row += row[:size]
                continue
            # The state for all other names; then replace it for the names that steps mention.
            own = [self._after(state, None, space)] * size
            for name in sorted(names):
                own[self.letters[name]] = self._after(state, name, space)
            row += own
        return row

    def _after(self, state: State, name: str | None, space: int) -> int:
        """Return the next state of the automaton for an XML element of a name and namespace.

        A negative value -1 - n is the choice n, if predicates decide.
        """
        sure: set[tuple[int, int]] = set()
        chosen: list[tuple[tuple[int, int] | None, list[Condition]]] = []
        # Sorted, because a set's order would number choices and states differently in each process.
        for pattern, done in sorted(state):
            if done == len(self.patterns[pattern]):
                continue
            step = self.patterns[pattern][done]
            # With // the element may also be passed: the same step is tried below it.
            if step.anywhere:
                sure.add((pattern, done))
            if step.name.local not in {ANY.local, name}:
                continue
            if self.actions.space(step.name) not in {0, space}:
                continue
            conditions, reached = _conditions(step, name)
            if conditions:
                chosen.append(((pattern, done + 1) if reached else None, conditions))
            elif reached:
                sure.add((pattern, done + 1))
        if not chosen:
            return self._state(frozenset(sure))
        return self._choice(frozenset(sure), chosen)

    def _choice(
        self, sure: State, chosen: Sequence[tuple[tuple[int, int] | None, list[Condition]]]
    ) -> int:
        values: dict[PredicateGroup, dict[str, int]] = {}
        needed: dict[PredicateGroup, list[int]] = {}
        for _, conditions in chosen:
            met: list[int] = []
            for group, value in conditions:
                known = values.setdefault(group, {})
                # A position counts only elements that satisfy the predicates before it.
                needed.setdefault(group, met.copy() if group.part is ElementPart.POSITION else [])
                # Example: of `[@type='new']` and `[@type='old']`, "new" is digit 1 and "old" digit
                # 2; 0 is any other value.
                digit = known.setdefault(value, len(known) + 1)
                met += [list(values).index(group), digit]
        sizes = [len(known) + 1 for known in values.values()]
        if prod(sizes) > _MOST_OUTCOMES:
            raise NotForScannerError("too many predicates of one element")
        first, outcome = len(self.predicates), len(self.outcomes)
        self.groups = max(self.groups, len(values))
        self.predicates += [0] * (GROUP * len(values))
        for number, (group, known) in enumerate(values.items()):
            place = first + number * GROUP
            self.predicates[place : place + GROUP] = self._group(group, known, needed[group])
        self.outcomes += [0] * prod(sizes)
        alone: dict[Condition, set[tuple[int, int]]] = {}
        for to, conditions in chosen:
            if to is not None and len(conditions) == 1:
                alone.setdefault(conditions[0], set()).add(to)
        several = [
            (to, conditions) for to, conditions in chosen if to is not None and len(conditions) > 1
        ]
        words = [[None, *known] for known in values.values()]
        # All combinations of the groups' values. The first group varies fastest, as in
        # `choose_state`.
        for number, digits in enumerate(product(*reversed(words))):
            hold = {
                (group, value)
                for group, value in zip(values, reversed(digits), strict=True)
                if value is not None
            }
            # The states reached if all conditions of a step hold.
            more = {to for to, conditions in several if hold.issuperset(conditions)}
            more = more.union(*(alone.get(condition, ()) for condition in hold))
            self.outcomes[outcome + number] = self._state(sure | more)
        self.choices.append((first, len(values), outcome))
        return -len(self.choices)

    def _group(
        self, group: PredicateGroup, values: Iterable[str], needed: Sequence[int]
    ) -> list[int]:
        """Build the row of a group of predicates on an XML tag.

        `values` are compared with the group's attribute, text or position. `needed` are pairs of
        another group and the value that it must have. Both are appended to `predicates`, and the
        row contains their offsets.
        """
        by, what = BY_TEXT, 0
        if group.part is ElementPart.POSITION:
            by, what = BY_POSITION, self.counters.setdefault(group, len(self.counters))
        elif group.part is ElementPart.ATTRIBUTE:
            by, what = BY_ATTRIBUTE, self.actions.attribute(group.name)
        # A row refers to its literals and needs by their place in the same array, after all rows.
        place = len(self.predicates)
        for value in values:
            self.predicates += (int(value), 0) if by == BY_POSITION else self._literal(value)
        after = len(self.predicates)
        self.predicates += needed
        return [by, what, place, (after - place) // 2, after, len(needed) // 2]

    def _literal(self, text: str) -> tuple[int, int]:
        """Append the text of a predicate to the literals of the rules, and return its bounds."""
        start = len(self.literals)
        self.literals += text.encode()
        return start, len(self.literals)

    def _acts(self) -> tuple[Longs, list[tuple[int, ...]]]:
        """Collect the actions of the automaton's states.

        Returns the bounds of each state's actions by phase, and the actions.
        """
        bounds, rows = [0], []
        for state in self.states:
            ended = sorted(p for p, done in state if done == len(self.patterns[p]))
            state_actions = [each for p in ended for each in self.actions.rows[self.patterns[p]]]
            for phase in ActionPhase:
                own = list(dict.fromkeys(row for when, row in state_actions if when is phase))
                if phase is ActionPhase.OPEN:
                    # Records open in the order of their rules' numbers, so that a subrule finds its
                    # parent's record open.
                    own.sort(key=lambda row: row[5])
                elif phase is ActionPhase.END:
                    # By action type, in the order of `ActionType`: values are stored before CLOSE
                    # ends their record.
                    own.sort(key=lambda row: row[0])
                rows += [self.actions.resolve(phase, row) for row in own]
                bounds.append(len(rows))
        assert len(ActionPhase) == PHASES
        return np.array(bounds, np.int64), rows


def _names(steps: Iterable[PathStep]) -> Iterator[str]:
    """Yield the element names that steps of rule paths mention."""
    for step in steps:
        if step.name.local != ANY.local:
            yield step.name.local
        yield from (p.value for p in step.predicates if p.part is ElementPart.NAME)


def _conditions(step: PathStep, name: str | None) -> tuple[list[Condition], bool]:
    """Return the conditions of a path step for a tag with this name, and whether the step can succeed.

    If a name() predicate fails, the position predicates before it still count the element.
    """
    conditions: list[Condition] = []
    for number, predicate in enumerate(step.predicates):
        if predicate.part is ElementPart.NAME:
            if predicate.value != name:
                counted = any(group.part is ElementPart.POSITION for group, _ in conditions)
                return conditions if counted else [], False
            continue
        counts = predicate.part is ElementPart.POSITION
        compared = step.name if counts else predicate.attribute
        before = step.predicates[:number] if counts else ()
        conditions.append((PredicateGroup(predicate.part, compared, before), predicate.value))
    return conditions, True


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Longs:
    """Join rows of the automaton's tables to one array, each padded with zeros to `width` numbers.

    If there are none, one row is zeros.
    """
    table = np.zeros((max(1, len(rows)), width), np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table.reshape(-1)
