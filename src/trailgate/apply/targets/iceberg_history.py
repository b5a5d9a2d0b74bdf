"""Read from the snapshots of an Iceberg table whether it still has the rows of a group's last commit.

A rollback makes an older snapshot the current one. The table keeps its properties, and the later
snapshots for a while::

    snapshot  parent  position
    1         -       0:500
    2         1       0:900
    3         1       -         of another writer, after a rollback to 1; the current one

The rows of snapshot 3 were made by 3 and 1, so the operations after 0:500 are missing.

Snapshots expire, and pyiceberg then removes them as parents of the others. So a snapshot without a
parent need not be the first one, and one with a position that a tag or a branch keeps need not be
newer than the current one::

    snapshot  parent  position
    2         -       0:900     with a tag
    5         -       -         after 3 and 4, which are expired; the current one

Nobody knows whether the rows of 2 are in 5. They are not if the current one's first ancestor is the
table's first snapshot, with the sequence number 1, or also an ancestor of the one with the position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from trailgate.apply.targets.checkpoints import RestoredState

FIRST_SEQUENCE: Final = 1


class IcebergSnapshot(NamedTuple):
    """A snapshot of an Iceberg table: the ID of its parent, and the group's position in its properties, or None for each.

    ``sequence`` is its sequence number, or None if it is unknown.
    """

    parent: int | None
    position: str | None
    sequence: int | None = None


class IcebergHistory(NamedTuple):
    """What the snapshots of an Iceberg table tell about a group's commits.

    ``position`` is the newest one of the current snapshot and its ancestors, and ``highest`` the
    highest one of all snapshots, or "". ``is_known`` is False if there may have been a newer
    position among ancestors that are expired.
    """

    position: str | None
    highest: str
    is_known: bool

    @classmethod
    def read(cls, current: int | None, snapshots: Mapping[int, IcebergSnapshot]) -> IcebergHistory:
        """Read the snapshots of an Iceberg table, by their IDs. ``current`` is the current one's, or None if there is none."""
        chain = list(_list_ancestors(current, snapshots))
        position = next((snapshots[one].position for one in chain if snapshots[one].position), None)
        newest = max(snapshots, key=lambda one: snapshots[one].position or "", default=None)
        highest = "" if newest is None else snapshots[newest].position or ""
        if position is not None:
            is_known = True
        elif chain:
            is_first = snapshots[chain[-1]].sequence == FIRST_SEQUENCE
            is_later = bool(highest) and chain[-1] in _list_ancestors(newest, snapshots)
            is_known = is_first or is_later
        else:  # a table that was replaced, or created anew
            is_known = bool(highest)
        return cls(position, highest, is_known)

    def find_restored(self, stored: str, listed: str) -> RestoredState | None:
        """Return what an Iceberg table has if it was rolled back to a snapshot before the group's last one.

        Returns None if it was not, or if that is unknown. ``stored`` is the position in the table's
        own properties, and ``listed`` the one in the group's checkpoint, or "".
        """
        # Without any position somebody has created the table anew.
        if not (stored or self.highest) or not self.is_known:
            return None
        return RestoredState.find(self.position, max(stored, self.highest, listed))


def _list_ancestors(
    snapshot: int | None, snapshots: Mapping[int, IcebergSnapshot]
) -> Iterator[int]:
    """Yield the ID of a snapshot and of its ancestors, as far as they are not expired, newest first."""
    while snapshot is not None and snapshot in snapshots:
        yield snapshot
        snapshot = snapshots[snapshot].parent
