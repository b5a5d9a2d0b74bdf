"""Which rules match in a run, and which of their paths find values: what never does is named at its end, and so are messages without operations.

Batches pass this on as notes, one text a fact, which any process can put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import nearest
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.xml.findings import Findings
from trailgate.messages.xml.kernels.cells import note_rules
from trailgate.messages.xml.kernels.layout import ABSENT
from trailgate.messages.xml.paths import ANY, Part, Path
from trailgate.messages.xml.rules import Rule

MOST_NAMES: Final = 1000  # that a batch passes on
_MATCHED, _NAME, _EMPTY, _FOUND = "matched ", "name ", "empty", "found "
_OWN: Final = (_MATCHED, _NAME, _EMPTY, _FOUND)
_VALUES: Final = ("value", "before.value", "after.value", "txowner", "txname")


class Coverage:
    """Takes down which of some rules match."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.every = [f"{_MATCHED}{rule.name}" for top in rules for rule in top.all()]
        self.names = [rule.name for top in rules for rule in top.all()]
        self.paths = {
            rule.name: tuple(name for name in _VALUES if isinstance(rule.values.get(name), Path))
            for top in rules
            for rule in top.all()
        }
        self.noted = frozenset(self.every)
        self.whole = sum(map(len, self.paths.values())) + len(self.noted)

    def seen(
        self, messages: MessageBatch, findings: Findings, names: Iterable[str]
    ) -> frozenset[str]:
        """Return the notes of a batch."""
        seen = np.zeros(len(self.every), bool)
        for found in (findings.outer, findings.operations, findings.columns):
            note_rules(found.records, found.width, seen)
        with_any = np.zeros(len(messages), bool)
        with_any[findings.message] = True
        notes = self._notes(seen) | self._found(findings)
        if len(notes) < self.whole:
            notes |= {f"{_NAME}{name}" for name in sorted(names)[:MOST_NAMES]}
        return notes if with_any.all() else notes | {_EMPTY}

    def _notes(self, seen: Mask) -> frozenset[str]:
        if seen.all():
            return self.noted
        return frozenset(self.every[number] for number in np.flatnonzero(seen).tolist())

    def _found(self, findings: Findings) -> frozenset[str]:
        """Return the notes of the paths that find a value, or an element without content."""
        notes = set()
        for found in (findings.outer, findings.operations, findings.columns):
            for name in found.fields.keys() & set(_VALUES):
                lengths = found.records[found.fields[name] + 1 :: found.width]
                rules = np.bincount(found.records[:: found.width][lengths != ABSENT])
                own = {self.names[number] for number in np.flatnonzero(rules).tolist()}
                notes |= {f"{_FOUND}{rule} {name}" for rule in own if name in self.paths[rule]}
        return frozenset(notes)

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end; nothing of rules where no message could be read."""
        if not any(note.startswith(_OWN) for note in notes):
            return notes
        names = {note.removeprefix(_NAME) for note in notes if note.startswith(_NAME)}
        said = {note for note in notes if not note.startswith(_OWN)}
        if _EMPTY in notes:
            said.add("the rules find no operation in some messages; trailgate explain shows why")
        for rule in self._unmatched(self.rules, notes):
            there = _there(like(rule.match, names))
            said.add(f"the rule {rule.name} never matched: {rule.match or '.'}{there}")
        for top in self.rules:
            for rule in top.all():
                if f"{_MATCHED}{rule.name}" in notes:
                    said.update(self._without_values(rule, notes, names))
        return frozenset(said)

    def _without_values(self, rule: Rule, notes: frozenset[str], names: set[str]) -> Iterator[str]:
        """Yield what is noted of paths that never find a value. One image alone may be there: then only names are noted that others are like."""
        paths = self.paths[rule.name]
        missed = [name for name in paths if f"{_FOUND}{rule.name} {name}" not in notes]
        for name in missed:
            path = rule.values[name]
            assert isinstance(path, Path)
            near = like(path, names)
            if near or len(missed) == len(paths):
                yield f"{rule.name}.{name} never found anything: {path}{_there(near)}"

    def _unmatched(self, rules: Iterable[Rule], notes: frozenset[str]) -> Iterator[Rule]:
        """Yield the rules that never matched where the rule above them did."""
        for rule in rules:
            if f"{_MATCHED}{rule.name}" in notes:
                yield from self._unmatched(rule.subrules, notes)
            else:
                yield rule


def _there(near: tuple[str, ...]) -> str:
    return f"; the messages have {', '.join(near)}" if near else ""


def like(path: Path | None, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are most like those of a path which did not occur."""
    known = set(names)
    if path is None:
        return ()
    wanted = {step.name.local for step in path.steps}
    if path.accessor is not None and path.accessor.part is Part.ATTRIBUTE:
        wanted.add(path.accessor.attribute.local)
    wanted -= known | {ANY.local}
    return tuple(sorted({near for name in wanted if (near := nearest(name, known))}))
