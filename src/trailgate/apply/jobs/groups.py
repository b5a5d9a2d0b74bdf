"""What a group applies of a trail: its tables or MAP statements, and how another run of the group may differ from them.

A target keeps one position for all tables of a group. A table that joins later would lack what lies before that position, so a run with more tables than the one before stops, unless its
options state what to do. One with fewer tables continues: those that it drops are no longer applied.

The source of a position keeps the MAP statements that were dropped, as long as no other one writes their targets: if one of them is put back, the position of its target is that of its own operations, and
it may catch up from there. A further source could not, since that position would hide what it has before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from trailgate.model.table_patterns import TablePatterns

_SOURCE: Final = re.compile(
    r"(?P<trail>.*?)(?:\?(?P<kind>tables|map)=(?P<chosen>.*?))?(?:[?&]mode=(?P<mode>[a-z-]+))?(?:&dropped=(?P<dropped>.*))?",
    re.DOTALL,
)
EXCLUDED: Final = "!"


def target_of(statement: str) -> str:
    """Return the target of a MAP statement as a source has it; empty if it states none."""
    return statement.partition(">")[2].partition(":")[0]


@dataclass(frozen=True, slots=True)
class GroupSource:
    """The source of a stored position: a trail, and the tables (or MAP statements, ``hr.t>copy.t``) of it, in lower case. ``kind`` is empty for all tables; ``dropped`` are statements of earlier runs."""

    trail: str
    kind: str
    mode: str
    taken: frozenset[str]
    excluded: frozenset[str]
    dropped: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the source of a position."""
        found = _SOURCE.fullmatch(text)
        assert found is not None  # every part is optional
        chosen = _names(found["chosen"])
        excluded = {one for one in chosen if one.startswith(EXCLUDED)}
        return cls(
            found["trail"],
            found["kind"] or "",
            found["mode"] or "",
            frozenset(chosen - excluded),
            frozenset(one.removeprefix(EXCLUDED) for one in excluded),
            frozenset(_names(found["dropped"])),
        )

    def joining(self, before: GroupSource, is_absent: Callable[[str], bool]) -> list[str] | None:
        """Return the tables that this source has and an earlier one of the group had not, sorted; None if they are not sources of one group.

        ``is_absent`` states whether no table of the trail fits a pattern: one that is no longer excluded then joins nothing.
        """
        if (self.trail, self.mode) != (before.trail, before.mode):
            return None
        joined = set(self.taken - before.taken)
        if self.kind == "tables" and not before.kind:  # all tables before
            return []
        if self.kind != before.kind:
            return sorted(joined) or ["all tables"]
        joined |= {one for one in before.excluded - self.excluded if not is_absent(one)}
        return sorted(joined)

    def further(self, before: GroupSource) -> list[str]:
        """Return the statements that an earlier source of the group never had, sorted."""
        return sorted(self.taken - before.taken - before.dropped)


def continued_source(text: str, before: str) -> str:
    """Return a source with the MAP statements that an earlier one of its group had and it has not, but for those whose targets others write."""
    own, earlier = GroupSource.read(text), GroupSource.read(before)
    if own.kind != "map":
        return text
    written = TablePatterns(tuple(map(target_of, own.taken)))
    dropped = sorted(
        one
        for one in (earlier.taken | earlier.dropped) - own.taken
        if target_of(one) and "*" not in one and not written.fits_end(target_of(one))
    )
    return f"{text}&dropped={','.join(dropped)}" if dropped else text


def shown(statement: str) -> str:
    """Return a table, or a MAP statement, as messages name it."""
    return statement.replace(">", " to ")


def _names(text: str | None) -> set[str]:
    return {one for one in (text or "").casefold().split(",") if one}
