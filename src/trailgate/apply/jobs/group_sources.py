"""Compare the tables and MAP statements of a group's last run with those of this run.

A target stores one position for all tables of a group. A table that joins the group later would
lack the operations before that position. So if a run has more tables or MAP statements than the
previous one, it stops, unless the option ``changed_maps`` defines what to do. A run with fewer
tables continues; the dropped tables are no longer applied.

The source of a stored position is a string such as

    /data/dirdat/ot?map=hr.t>copy.t,hr.u>copy.u&mode=history&dropped=hr.v>copy.v

It contains dropped MAP statements as long as no other statement writes their target table. If such
a statement is used again, its table still has its old position and can catch up from there. A new
statement that writes an existing table cannot catch up: the table already has a position, so all
operations before it would be skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from trailgate.model.table_names import TablePatterns

# TRAIL?tables=A,B&mode=M, or TRAIL?map=A>B,C>D&mode=M&dropped=E>F; every part is optional.
_SOURCE: Final = re.compile(
    r"(?P<trail>.*?)(?:\?(?P<kind>tables|map)=(?P<chosen>.*?))?(?:[?&]mode=(?P<mode>[a-z-]+))?(?:&dropped=(?P<dropped>.*))?",
    re.DOTALL,
)
EXCLUDED: Final = "!"  # before an excluded pattern, such as !hr.tmp_*


def find_map_target(statement: str) -> str:
    """Return the target table of a MAP statement in a group's stored source, such as ``hr.t>copy.t``, or "" if it has none."""
    return statement.partition(">")[2].partition(":")[0]


@dataclass(frozen=True, slots=True)
class GroupSource:
    """The parsed source of a stored position: a trail and the tables or MAP statements applied from it, in lower case.

    ``kind`` is "tables", "map", or "" if all tables are applied. ``mode`` is the apply mode, or ""
    for "current". ``taken`` and ``excluded`` are the included and the excluded patterns or
    statements. ``dropped`` are MAP statements of earlier runs of the group.
    """

    trail: str
    kind: str
    mode: str
    taken: frozenset[str]
    excluded: frozenset[str]
    dropped: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the stored text of a group's source: a trail, and tables or MAP statements."""
        match = _SOURCE.fullmatch(text)
        assert match is not None  # the pattern also matches ""
        chosen = _names(match["chosen"])
        excluded = {one for one in chosen if one.startswith(EXCLUDED)}
        return cls(
            match["trail"],
            match["kind"] or "",
            match["mode"] or "",
            frozenset(chosen - excluded),
            frozenset(one.removeprefix(EXCLUDED) for one in excluded),
            frozenset(_names(match["dropped"])),
        )

    def joining(self, before: GroupSource, is_absent: Callable[[str], bool]) -> list[str] | None:
        """Return the sorted tables or statements that are in this source but not in ``before``, or None if the two sources cannot belong to the same group.

        ``["all tables"]`` means that a run which chose tables is followed by one that applies all.
        ``is_absent`` returns whether no table of the trail matches a pattern. Such a pattern adds
        no table when it is no longer excluded.
        """
        if (self.trail, self.mode) != (before.trail, before.mode):
            return None
        joined = set(self.taken - before.taken)
        # The earlier source applied all tables, so none can join.
        if self.kind == "tables" and not before.kind:
            return []
        if self.kind != before.kind:
            return sorted(joined) or ["all tables"]
        # A table also joins when the pattern that excluded it is removed.
        joined |= {one for one in before.excluded - self.excluded if not is_absent(one)}
        return sorted(joined)

    def find_new_statements(self, before: GroupSource) -> list[str]:
        """Return the sorted MAP statements of this run that the group has not had before."""
        return sorted(self.taken - before.taken - before.dropped)


def add_dropped_statements(text: str, before: str) -> str:
    """Add to a group's source the MAP statements that earlier runs of the group had and this run does not.

    Statements whose target table is written by a statement of this run are skipped, and so are
    statements with a wildcard.
    """
    current, earlier = GroupSource.read(text), GroupSource.read(before)
    if current.kind != "map":
        return text
    # Keep a dropped statement as long as no current one writes its target. With a wildcard target it
    # is not known which tables it wrote, so it is forgotten.
    written = TablePatterns(tuple(map(find_map_target, current.taken)))
    dropped = sorted(
        one
        for one in (earlier.taken | earlier.dropped) - current.taken
        if find_map_target(one) and "*" not in one and not written.fits_end(find_map_target(one))
    )
    return f"{text}&dropped={','.join(dropped)}" if dropped else text


def format_map_statement(statement: str) -> str:
    """Format a table or MAP statement of a group's stored source for messages: ``hr.t>copy.t`` becomes ``hr.t to copy.t``."""
    return statement.replace(">", " to ")


def _names(text: str | None) -> set[str]:
    return {one for one in (text or "").casefold().split(",") if one}
