"""Which rules match in a run: those without a match are named at its end, and so are messages without operations.

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
from trailgate.messages.xml.paths import ANY
from trailgate.messages.xml.rules import Rule

MOST_NAMES: Final = 1000  # that a batch passes on
_MATCHED, _NAME, _EMPTY = "matched ", "name ", "empty"


class Coverage:
    """Takes down which of some rules match."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.every = [f"{_MATCHED}{rule.name}" for top in rules for rule in top.all()]
        self.noted = frozenset(self.every)

    def seen(
        self, messages: MessageBatch, findings: Findings, names: Iterable[str]
    ) -> frozenset[str]:
        """Return the notes of a batch."""
        seen = np.zeros(len(self.every), bool)
        for found in (findings.outer, findings.operations, findings.columns):
            note_rules(found.records, found.width, seen)
        with_any = np.zeros(len(messages), bool)
        with_any[findings.message] = True
        notes = self._notes(seen)
        if len(notes) < len(self.noted):
            notes |= {f"{_NAME}{name}" for name in sorted(names)[:MOST_NAMES]}
        return notes if with_any.all() else notes | {_EMPTY}

    def _notes(self, seen: Mask) -> frozenset[str]:
        if seen.all():
            return self.noted
        return frozenset(self.every[number] for number in np.flatnonzero(seen).tolist())

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end; nothing of rules where no message could be read."""
        if not any(note.startswith((_MATCHED, _NAME, _EMPTY)) for note in notes):
            return notes
        names = {note.removeprefix(_NAME) for note in notes if note.startswith(_NAME)}
        said = {note for note in notes if not note.startswith((_MATCHED, _NAME, _EMPTY))}
        if _EMPTY in notes:
            said.add("the rules find no operation in some messages; trailgate explain shows why")
        for rule in self._unmatched(self.rules, notes):
            near = like(rule, names)
            there = f"; the messages have {', '.join(near)}" if near else ""
            said.add(f"the rule {rule.name} never matched: {rule.match or '.'}{there}")
        return frozenset(said)

    def _unmatched(self, rules: Iterable[Rule], notes: frozenset[str]) -> Iterator[Rule]:
        """Yield the rules that never matched where the rule above them did."""
        for rule in rules:
            if f"{_MATCHED}{rule.name}" in notes:
                yield from self._unmatched(rule.subrules, notes)
            else:
                yield rule


def like(rule: Rule, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are most like those of a rule's match which did not occur."""
    known = set(names)
    steps = () if rule.match is None else rule.match.steps
    wanted = {step.name.local for step in steps} - known - {ANY.local}
    return tuple(sorted({near for name in wanted if (near := nearest(name, known))}))
