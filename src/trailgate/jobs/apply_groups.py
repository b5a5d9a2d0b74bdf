"""What a group applies of a trail: its tables or MAP statements, and how another run of the group may differ from them.

A target keeps one position for all tables of a group. A table that joins later would lack what lies before that position, so a run with more tables than the one before stops, unless its
options state what to do. One with fewer tables continues: those that it drops are no longer applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

_SOURCE: Final = re.compile(
    r"(?P<trail>.*?)(?:\?(?P<kind>tables|map)=(?P<chosen>.*?))?(?:[?&]mode=(?P<mode>[a-z-]+))?",
    re.DOTALL,
)
EXCLUDED: Final = "!"


@dataclass(frozen=True, slots=True)
class GroupSource:
    """The source of a stored position: a trail, and the tables (or MAP statements, ``hr.t>copy.t``) of it, in lower case. ``kind`` is empty for all tables."""

    trail: str
    kind: str
    mode: str
    taken: frozenset[str]
    excluded: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the source of a position."""
        found = _SOURCE.fullmatch(text)
        assert found is not None  # every part is optional
        chosen = {one for one in (found["chosen"] or "").casefold().split(",") if one}
        excluded = {one for one in chosen if one.startswith(EXCLUDED)}
        return cls(
            found["trail"],
            found["kind"] or "",
            found["mode"] or "",
            frozenset(chosen - excluded),
            frozenset(one.removeprefix(EXCLUDED) for one in excluded),
        )

    def joining(self, before: GroupSource, is_absent: Callable[[str], bool]) -> list[str] | None:
        """Return the tables that this source has and an earlier one of the group had not, sorted; None if they are not sources of one group.

        ``is_absent`` states whether no table of the trail fits a pattern: one that is no longer excluded then joins nothing.
        """
        if (self.trail, self.mode) != (before.trail, before.mode):
            return None
        joined = {one.replace(">", " to ") for one in self.taken - before.taken}
        if self.kind == "tables" and not before.kind:  # all tables before
            return []
        if self.kind != before.kind:
            return sorted(joined) or ["all tables"]
        joined |= {one for one in before.excluded - self.excluded if not is_absent(one)}
        return sorted(joined)
