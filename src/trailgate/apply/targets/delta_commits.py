"""Find a group's last commit in the log of a Delta table, to tell whether the table still has its rows.

A RESTORE is a commit of its own, after which the table has the rows of an older version. The
application transactions of later versions remain, so they do not show what the table has::

    version  commit
    2        position 0:500
    3        OPTIMIZE
    4        position 0:900
    5        RESTORE to version 3

The commits that made the rows of version 5 are 5, 3, 2 and so on. So the operations after 0:500 are
missing.

Other writers may have committed since the group did, for example an OPTIMIZE, so up to 100 commits
are read, from the newest back. Usually the newest one is the right one. ``DeltaTable.history`` is
not used, because it lists and reads the complete log.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSystem

from trailgate.apply.targets.delta_errors import convert_open_error
from trailgate.apply.targets.delta_places import DeltaPlace

LOG: Final = "_delta_log"
COMMITS_SEARCHED: Final = 100


class GroupCommit(NamedTuple):
    """A group's last commit among those that made a Delta table's rows: the version of its application transaction, its CSN and commit time.

    All are None if there is no such commit.
    """

    transaction: int | None = None
    csn: str | None = None
    op_ts: int | None = None


def find_group_commit(
    place: DeltaPlace, app: str, version: int, checked: int | None = None
) -> GroupCommit | None:
    """Find the last commit with the application ``app`` among those that made the rows of a version of a Delta table.

    Returns None if it is not found: it is older than the commits that are searched or kept, or at
    or before the version ``checked``. If a RESTORE does not state a version (it may state a time),
    nothing before it counts.
    """
    log = place.open_folder()
    for _ in range(COMMITS_SEARCHED):
        if version == checked:
            return None
        if version < 0:
            return GroupCommit()
        try:
            actions = _read_commit(log, version)
        except FileNotFoundError:  # removed by a cleanup of the log
            return None
        except (DeltaError, OSError) as error:
            raise convert_open_error(error, place.address) from None
        found = (one["commitInfo"] for one in actions if "commitInfo" in one)
        info: dict[str, Any] = next(found, {})
        for transaction in (one["txn"] for one in actions if "txn" in one):
            if transaction["appId"] == app:
                return _decode_commit(transaction["version"], info)
        if info.get("operation") == "RESTORE":
            restored = info["operationParameters"].get("version")
            if restored is None:
                return GroupCommit()
            version = int(restored)
        else:
            version -= 1
    return None


def _read_commit(log: FileSystem, version: int) -> list[dict[str, Any]]:
    """Return the actions of a commit in the log of a Delta table."""
    with log.open_input_stream(f"{LOG}/{version:020d}.json") as file:
        return [json.loads(line) for line in file.read().splitlines()]


def _decode_commit(transaction: int, info: dict[str, Any]) -> GroupCommit:
    # A session stores the position as a JSON text (``apply/spark/delta.py``).
    stored = {**info, **json.loads(info.get("userMetadata") or "{}")}
    op_ts = stored.get("trailgate.op_ts")
    csn = stored.get("trailgate.csn") or None
    return GroupCommit(transaction, csn, int(op_ts) if op_ts else None)
