"""Rules compiled to tables that the scanner follows: states over element names, and what is done in each.

The path of a rule's match is joined to those of the rules above it: a pattern of steps from the document. A state is
the set of patterns' steps that an element has reached. Predicates of a tag choose among states once its attributes are known.
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
from trailgate.formats.xml.findings import AGAIN, PATHS
from trailgate.formats.xml.kernels.names import (
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
    What,
)
from trailgate.formats.xml.rules import ANY, Name, Part, Path, Predicate, Rule, RuleType, Step
from trailgate.messages.properties import ValueSource

_MOST_STATES: Final = 1 << 16
_MOST_CELLS: Final = 1 << 24  # of the step table: different rows by names
_MOST_OUTCOMES: Final = 1 << 14  # of the predicates of one tag
KINDS: Final = 4

Pattern = tuple[Step, ...]
State = frozenset[tuple[int, int]]  # patterns, and how many of its steps are done


class Group(NamedTuple):
    """What predicates compare: an attribute, the text, or the number among elements of a name that meet those ``before``. One value of a group holds at most."""

    part: Part
    name: Name
    before: tuple[Predicate, ...] = ()


Condition = tuple[Group, str]


class NotForScannerError(Exception):
    """Rules that only the general way applies; the text names the construct."""


class Phase(IntEnum):
    """When an action is done: at a start tag in this order, or at the end tag."""

    OPEN = 0
    START = 1
    ATTRIBUTE = 2
    END = 3


@dataclass(frozen=True, slots=True)
class Anchored:
    """A value that is found from an element around the rule's: in the slot ``theirs`` of the anchor that ``pointer`` of a record names.

    ``again`` is where the anchor notes further values of a path, -1 where nobody asks.
    """

    kind: int
    rule: int
    name: str
    pointer: int
    theirs: int
    again: int


@dataclass(frozen=True, slots=True)
class Automaton:
    """The tables of rules; ``kernels.names`` describes their rows.

    ``slots`` are the properties that records of each kind have places for, and the fields of these; ``widths`` are how many fields
    each kind has.
    ``letters`` is how many names of elements there are in each namespace, ``spaces`` are the namespaces of the rules. ``groups`` is how many of them one choice has at most.
    ``nests`` states that matches may lie within others, so that records do not come in the order of operations.
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
    anchored: tuple[Anchored, ...]
    instances: int
    counters: int
    groups: int
    nests: bool


@dataclass(slots=True, eq=False)
class _Placed:
    """A rule with the pattern of its elements, and its record of each kind."""

    pattern: Pattern
    instances: dict[int, int]


def compile_rules(rules: Sequence[Rule], namespaces: Mapping[str, str]) -> Automaton:
    """Return the tables of rules, with the namespaces of their prefixes; raises NotForScannerError for what the scanner does not follow."""
    actions = _Actions(namespaces)
    for rule in rules:
        actions.add(rule, _Placed((), {}))
    return _Tables(actions).automaton(nests=_may_nest(rules))


def _may_nest(rules: Sequence[Rule]) -> bool:
    """Return whether operations may begin within others that their rules list before them."""
    makers = [rule for rule in rules if rule.type is not RuleType.COLUMN]
    over = [rule for rule in makers if any(r.type is RuleType.OPERATION for r in rule.subrules)]
    if over and len(makers) > 1:
        return True
    anywhere = any(step.anywhere for rule in over for step in _steps(rule))
    return anywhere or any(_may_nest(rule.subrules) for rule in over)


def _steps(rule: Rule) -> Pattern:
    return () if rule.match is None else rule.match.steps


@dataclass(slots=True)
class _Actions:
    """The actions of rules, by the pattern of the elements that they are done at."""

    namespaces: Mapping[str, str]
    spaces: dict[str, int] = field(default_factory=dict)
    rows: dict[Pattern, list[tuple[Phase, tuple[int, ...]]]] = field(default_factory=dict)
    slots: list[dict[object, int]] = field(default_factory=lambda: [{} for _ in range(KINDS)])
    kinds: list[int] = field(default_factory=list)  # of each instance
    anchors: dict[tuple[Pattern, ...], int] = field(default_factory=dict)
    pointers: list[int] = field(default_factory=lambda: [0] * KINDS)
    anchored: list[Anchored] = field(default_factory=list)
    loose: set[int] = field(
        default_factory=set
    )  # instances that may have their values anywhere below
    attributes: dict[str, int] = field(default_factory=dict)
    literals: bytearray = field(default_factory=bytearray)

    def add(self, rule: Rule, above: _Placed) -> None:
        """Add the actions of a rule and of those below it."""
        own = _steps(rule)
        if rule.match is not None and rule.match.up:
            raise NotForScannerError("a match that begins with ..")
        placed = _Placed(above.pattern + own, {})
        self._check(own)
        for kind in _kinds(rule):
            placed.instances[kind] = instance = self._instance(kind)
            owner = above.instances.get(OPERATIONS if kind == COLUMNS else OUTER, -1)
            level = self._level(above.pattern, own) if owner >= 0 else 0
            if level == LOOSE:
                self.loose.add(owner)
            opens = rule.type is RuleType.TRANSACTION
            row = (What.RECORD, instance, level, owner, kind, rule.number, int(opens))
            self._act(placed.pattern, Phase.OPEN, row)
            if kind == OPERATIONS and placed.pattern:
                self._act(placed.pattern, Phase.END, (What.CLOSE, instance, 0, 0, kind))
        for name, source in rule.values.items():
            if isinstance(source, Path):
                self._value(rule, placed, name, source)
            elif name.endswith("value"):
                self._literal(placed, name, source)
        for subrule in rule.subrules:
            self.add(subrule, placed)

    def _instance(self, kind: int) -> int:
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def _act(self, pattern: Pattern, phase: Phase, row: tuple[int, ...]) -> None:
        self.rows.setdefault(pattern, []).append((phase, row))

    def _check(self, steps: Iterable[Step]) -> None:
        for step in steps:
            for name in (step.name, *(p.attribute for p in step.predicates)):
                self.space(name)

    @staticmethod
    def _level(over: Pattern, steps: Pattern) -> int:
        """Return where the element of ``over`` is, seen from one that steps lead to from it.

        That is so many levels up, a fixed depth as ``DOCUMENT`` - depth, or ``LOOSE``.
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
            row = (What.LITERAL, instance, 0, slot, kind, len(self.literals), len(data))
            self._act(placed.pattern, Phase.START, row)
        self.literals += data

    def _slot(self, kind: int, name: object) -> int:
        return self.slots[kind].setdefault(name, len(self.slots[kind]))

    def _value(self, rule: Rule, placed: _Placed, name: str, path: Path) -> None:
        """Add what finds a value: for the rule's own records, or for the anchor that a path begins at."""
        self._check(path.steps)
        for kind in placed.instances:
            self._slot(kind, name)
        if path.absolute or path.up:
            around = ((),) if path.absolute else _around(placed.pattern, path.up)
            if around:  # else it is above the document
                self._value_around(rule, placed, name, path, around)
            return
        level = self._level(placed.pattern, path.steps)
        for kind, instance in placed.instances.items():
            if level == LOOSE:
                self.loose.add(instance)
            place = (instance, level, self._slot(kind, name), kind, *self._again(kind, name))
            self._found(placed.pattern + path.steps, path, place, name)

    def _value_around(
        self, rule: Rule, placed: _Placed, name: str, path: Path, around: tuple[Pattern, ...]
    ) -> None:
        """Add what finds a value from the element around the rule's that has one of the patterns ``around``."""
        anchor = self._anchor(around)
        own = (rule.number, name)
        slot, again = self._slot(ANCHORS, own), (-1, 0)
        if name in PATHS:
            again = (self._slot(ANCHORS, (*own, AGAIN)), 1)
            for kind in placed.instances:
                self._slot(kind, AGAIN)
        for over in around:
            level = self._level(over, path.steps)
            if level == LOOSE:
                raise NotForScannerError(".. from below // to below //")
            self._found(over + path.steps, path, (anchor, level, slot, ANCHORS, *again), own)
        for kind, instance in placed.instances.items():
            mine = {a.name for a in self.anchored if (a.rule, a.kind) == (rule.number, kind)}
            pointer = len(mine)
            self.pointers[kind] = max(self.pointers[kind], pointer + 1)
            self.anchored.append(Anchored(kind, rule.number, name, pointer, slot, again[0]))
            up = DOCUMENT if path.absolute else path.up
            row = (What.POINT, instance, 0, pointer, kind, anchor, up)
            self._act(placed.pattern, Phase.START, row)

    def _again(self, kind: int, name: str) -> tuple[int, int]:
        """Return the slot of further values and the bit of a property's path there."""
        return (self._slot(kind, AGAIN), 1 << PATHS.index(name)) if name in PATHS else (-1, 0)

    def _anchor(self, patterns: tuple[Pattern, ...]) -> int:
        if patterns not in self.anchors:
            self.anchors[patterns] = anchor = self._instance(ANCHORS)
            for pattern in patterns:
                self._act(pattern, Phase.OPEN, (What.RECORD, anchor, 0, -1, ANCHORS, -1))
        return self.anchors[patterns]

    def _found(self, pattern: Pattern, path: Path, place: tuple[int, ...], name: object) -> None:
        """Add the action that stores what a path's accessor gives; ``place`` is the rest of its row, from the instance on.

        Elements that ``//`` finds may be in each other, and end in another order than they begin: the place of the first is kept too.
        """
        part = None if path.accessor is None else path.accessor.part
        if part is Part.ATTRIBUTE:
            assert path.accessor is not None
            letter = self.attribute(path.accessor.attribute)
            self._act(pattern, Phase.ATTRIBUTE, (letter, *place))
        elif part in _ENDING and not pattern:  # the document has no text of its own
            size = 0 if part is Part.EXACT_TEXT else EMPTY
            self._act(pattern, Phase.START, (What.LITERAL, *place[:KIND], 0, size))
        elif part in _ENDING:
            order = 0
            if any(step.anywhere for step in path.steps):
                order = 1 + self._slot(place[KIND - 1], (name, "order"))
            self._act(pattern, Phase.END, (_ENDING[part], *place, order))
        else:
            self._act(pattern, Phase.START, (_STARTING[part], *place[:KIND]))

    def field(self, kind: int, slot: int) -> int:
        """Return the field of a record that a slot begins at."""
        return HEADS[kind] + self.pointers[kind] + 2 * slot

    def placed(self, phase: Phase, row: tuple[int, ...]) -> tuple[int, ...]:
        """Return an action with the field of a record for its slot or pointer."""
        what, slot, kind = row[0], row[FIELD], row[KIND]
        if phase is not Phase.ATTRIBUTE:
            if what == What.RECORD:
                return *row, *[0] * (ORDER - len(row)), int(row[INSTANCE] in self.loose)
            if what == What.CLOSE:
                return row
            if what == What.POINT:
                return *row[:FIELD], HEADS[kind] + slot, *row[FIELD + 1 :]
        if phase in {Phase.ATTRIBUTE, Phase.END} and row[SECOND]:
            row = *row[:FIRST], self.field(kind, row[FIRST]), *row[SECOND:]
        if len(row) > ORDER and row[ORDER]:
            row = *row[:ORDER], self.field(kind, row[ORDER] - 1)
        return *row[:FIELD], self.field(kind, slot), *row[FIELD + 1 :]

    def attribute(self, name: Name) -> int:
        """Return the number of an attribute's name, from 1, with its namespace above ``SPACE`` bits."""
        number = self.attributes.setdefault(name.local, len(self.attributes) + 1)
        return number + (self.space(name) << SPACE)

    def space(self, name: Name) -> int:
        """Return the number of a name's namespace, from 1, or 0 for a name without a prefix."""
        if not name.prefix:
            return 0
        return self.spaces.setdefault(self.namespaces[name.prefix], len(self.spaces) + 1)


def _around(pattern: Pattern, up: int) -> tuple[Pattern, ...]:
    """Return the patterns of the elements so many levels above those of a pattern; none where that is above the document."""
    found: dict[Pattern, None] = {pattern: None}
    for _ in range(up):
        above: dict[Pattern, None] = {}
        for steps in found:
            if steps:
                above[steps[:-1]] = None
            if steps and steps[-1].anywhere:
                above[*steps[:-1], _ANYWHERE] = None
        found = above
    return tuple(found)


_ANYWHERE: Final = Step(ANY, anywhere=True)
_ENDING: Final[dict[Part | None, What]] = {
    Part.TEXT: What.TEXT,
    Part.EXACT_TEXT: What.EXACT_TEXT,
    Part.CONTENT: What.CONTENT,
}
_STARTING: Final[dict[Part | None, What]] = {
    None: What.EXISTS,
    Part.NAME: What.NAME,
    Part.POSITION: What.POSITION,
}


def _kinds(rule: Rule) -> Iterator[int]:
    """Yield the kinds of records that a rule's match has."""
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
    """Makes states of the patterns that actions have."""

    def __init__(self, actions: _Actions) -> None:
        self.actions = actions
        self.patterns = list(actions.rows)
        self.literals = bytearray(actions.literals)
        self.elements = sorted({name for steps in self.patterns for name in _names(steps)})
        self.letters = {name: i for i, name in enumerate(self.elements, 1)}
        self.count = (len(self.elements) + 1) * (len(actions.spaces) + 1)
        self.states: dict[State, int] = {}
        self.left: list[State] = []  # in the order of their numbers
        self.choices: list[tuple[int, ...]] = []
        self.outcomes: list[int] = []
        self.predicates: list[int] = []
        self.counters: dict[Group, int] = {}
        self.groups = 0

    def automaton(self, *, nests: bool) -> Automaton:
        """Return the tables of all states that can be reached."""
        self._state(frozenset((pattern, 0) for pattern in range(len(self.patterns))))
        rows: dict[tuple[int, ...], int] = {}
        own_rows: list[int] = []
        while len(own_rows) < len(self.states):
            row = tuple(self._row(self.left[len(own_rows)]))
            own_rows.append(rows.setdefault(row, len(rows)))
            if len(rows) * self.count > _MOST_CELLS:
                raise NotForScannerError("too many names")
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
        """Return the states after an element of each name, in each namespace; 0 is every other name, and every other namespace."""
        next_steps = [self.patterns[p][i : i + 1] for p, i in state]
        names = {name for steps in next_steps for name in _names(steps)}
        spaces = {self.actions.space(step.name) for steps in next_steps for step in steps}
        size = len(self.elements) + 1
        row: list[int] = []
        for space in range(len(self.actions.spaces) + 1):
            if space and space not in spaces:  # as any other
                row += row[:size]
                continue
            own = [self._after(state, None, space)] * size
            for name in sorted(names):
                own[self.letters[name]] = self._after(state, name, space)
            row += own
        return row

    def _after(self, state: State, name: str | None, space: int) -> int:
        """Return the state after an element of a name and namespace, or -1 - the choice that predicates make."""
        sure: set[tuple[int, int]] = set()
        chosen: list[tuple[tuple[int, int] | None, list[Condition]]] = []
        for pattern, done in sorted(state):
            if done == len(self.patterns[pattern]):
                continue
            step = self.patterns[pattern][done]
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
        values: dict[Group, dict[str, int]] = {}
        needed: dict[Group, list[int]] = {}
        for _, conditions in chosen:
            met: list[int] = []
            for group, value in conditions:
                known = values.setdefault(group, {})
                needed.setdefault(group, met.copy() if group.part is Part.POSITION else [])
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
        for number, digits in enumerate(product(*reversed(words))):
            hold = {
                (group, value)
                for group, value in zip(values, reversed(digits), strict=True)
                if value is not None
            }
            more = {to for to, conditions in several if hold.issuperset(conditions)}
            more = more.union(*(alone.get(condition, ()) for condition in hold))
            self.outcomes[outcome + number] = self._state(sure | more)
        self.choices.append((first, len(values), outcome))
        return -len(self.choices)

    def _group(self, group: Group, values: Iterable[str], needed: Sequence[int]) -> list[int]:
        """Return the row of a group, whose values and needs are added after all rows."""
        by, what = BY_TEXT, 0
        if group.part is Part.POSITION:
            by, what = BY_POSITION, self.counters.setdefault(group, len(self.counters))
        elif group.part is Part.ATTRIBUTE:
            by, what = BY_ATTRIBUTE, self.actions.attribute(group.name)
        place = len(self.predicates)
        for value in values:
            self.predicates += (int(value), 0) if by == BY_POSITION else self._literal(value)
        after = len(self.predicates)
        self.predicates += needed
        return [by, what, place, (after - place) // 2, after, len(needed) // 2]

    def _literal(self, text: str) -> tuple[int, int]:
        """Add a literal; return where it begins and ends."""
        start = len(self.literals)
        self.literals += text.encode()
        return start, len(self.literals)

    def _acts(self) -> tuple[Longs, list[tuple[int, ...]]]:
        """Return the bounds of each state's actions, by phase, and the actions."""
        bounds, rows = [0], []
        for state in self.states:
            ended = sorted(p for p, done in state if done == len(self.patterns[p]))
            mine = [each for p in ended for each in self.actions.rows[self.patterns[p]]]
            for phase in Phase:
                own = list(dict.fromkeys(row for when, row in mine if when is phase))
                if phase is Phase.OPEN:
                    own.sort(key=lambda row: row[5])
                elif phase is Phase.END:
                    own.sort(key=lambda row: row[0])
                rows += [self.actions.placed(phase, row) for row in own]
                bounds.append(len(rows))
        assert len(Phase) == PHASES
        return np.array(bounds, np.int64), rows


def _names(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the names that steps compare elements with."""
    for step in steps:
        if step.name.local != ANY.local:
            yield step.name.local
        yield from (p.value for p in step.predicates if p.part is Part.NAME)


def _conditions(step: Step, name: str | None) -> tuple[list[Condition], bool]:
    """Return what a tag of this name must meet, and whether a step can lead there.

    Where its name is another than a predicate's, positions before that are counted all the same.
    """
    found: list[Condition] = []
    for number, predicate in enumerate(step.predicates):
        if predicate.part is Part.NAME:
            if predicate.value != name:
                counted = any(group.part is Part.POSITION for group, _ in found)
                return found if counted else [], False
            continue
        counts = predicate.part is Part.POSITION
        compared = step.name if counts else predicate.attribute
        before = step.predicates[:number] if counts else ()
        found.append((Group(predicate.part, compared, before), predicate.value))
    return found, True


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Longs:
    """Return rows as one array, each of the same width; an empty table has a row of zeros."""
    table = np.zeros((max(1, len(rows)), width), np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table.reshape(-1)
