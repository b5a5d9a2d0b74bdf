"""Append rows to Parquet files: one file per table and batch.

``parquet:history/`` has the operations of HR.JOBS in ``history/hr/jobs/*.parquet``. A batch is
committed in three steps:

1. Write each file under a hidden name such as ``.trailgate-00000000020000012345.parquet``, which
   readers of a folder ignore.
2. Replace ``_trailgate/GROUP.json``, which lists these files and the position. This is the commit.
3. Rename the files to their visible names.

A run that was killed after step 2 leaves listed files under hidden names; the next run renames
them. Hidden files that are not listed belong to a batch that was not committed; they are removed.

While a run writes a batch, it locks the group, so that a second run does not remove its hidden
files. The lock is released between batches (``release``), so that two runs can take turns.
"""

from __future__ import annotations

import glob
import json
import os
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from trailgate.apply.effects.nets import build_complete_rows
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets.faults import DISK, build_concurrent_run_error, find_fault
from trailgate.apply.targets.target import AppliedPosition, GroupPosition, TablePosition
from trailgate.errors import (
    ApplyError,
    OptionError,
    StorageError,
    TargetLockedError,
    Where,
    WriteError,
)
from trailgate.storage.files.locks import lock

STATE: Final = "_trailgate"
HIDDEN: Final = "."
ENDING: Final = ".parquet"


class ParquetTarget:
    """The target of Parquet tables below a local folder. Existing files are never changed."""

    widens = False
    folds_names = False
    commits_alone = False

    def __init__(self, root: str, group: str) -> None:
        check_place(root)
        self._root, self._group = Path(root), group
        if group in (".", "..") or "/" in group:
            problem = f"{group!r} cannot be the name of a group's file"
            raise OptionError(problem, hint="Name another group: --group NAME")
        self._state = self._root / STATE / f"{group}.json"
        self._schemas: dict[str, pa.Schema] = {}
        self._written: dict[str, str] = {}
        self._positions: dict[str, str] = {}
        self._last: AppliedPosition | None = None
        self._lock: ExitStack | None = None
        self._is_known = False
        self._begin(writes=False)
        self._is_known = True

    def _begin(self, *, writes: bool) -> None:
        """Lock the group of a Parquet target, unless this run has locked it already, and read the group's state.

        Without ``writes``, this does nothing if the group has no state file yet. Raises
        TargetLockedError if another run of the group writes a batch, and TargetConflictError if one
        has done so since the last batch.
        """
        if self._lock is not None or not (writes or self._state.exists()):
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(lock(str(self._state.with_suffix("")), subject="group"))
            except WriteError:
                raise
            except StorageError as error:
                raise TargetLockedError(
                    error.problem, where=Where(source=str(self._root))
                ) from None
            before = self._last
            self._read_state()
            if self._is_known and self._last != before:
                raise build_concurrent_run_error(self._group, str(self._root))
            self._lock = stack.pop_all()

    def _read_state(self) -> None:
        if not self._state.exists():
            return
        state = _read_state_file(self._state)
        self._last = AppliedPosition(**state["position"])
        self._positions = dict(state["tables"])
        self._publish_files(state["files"])

    def _publish_files(self, files: dict[str, str]) -> None:
        """Give the Parquet files of the last batch their visible names, and remove hidden files of batches that were not committed.

        ``files`` has the file name of each table of the last batch.
        """
        for table, name in files.items():
            hidden = self._root / table / (HIDDEN + name)
            if hidden.exists():
                hidden.rename(self._root / table / name)
        # Only files of this group are removed; others may be written by other groups just now.
        start = f"{HIDDEN}{self._group}-"
        for table in self._positions:
            for left in (self._root / table).glob(f"{glob.escape(start)}*{ENDING}"):
                # The group a-b has files whose names begin like those of a.
                if left.name[len(start) : -len(ENDING)].isdecimal():
                    left.unlink()

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return a Parquet table's position from the group's state file.

        If ``table`` is None, return the position of all tables.
        """
        self._begin(writes=False)
        if table is None or self._last is None:
            return self._last
        at = self._positions.get(_relative_path(table))
        return None if at is None else AppliedPosition(self._last.trail, at)

    def positions(self) -> list[TablePosition]:
        """Return the position of each Parquet table, from the state file of the folder."""
        named = sorted(self._positions.items())
        return [TablePosition(name.replace("/", "."), at) for name, at in named]

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as its newest file defines it, or None if it has no file."""
        files = sorted((self._root / _relative_path(table)).glob(f"[!{HIDDEN}]*{ENDING}"))
        if not files:
            return None
        newest = max(files, key=lambda file: (file.stat().st_mtime_ns, file.name))
        try:
            return table.as_defined(table.name, pq.read_schema(newest))
        except (OSError, pa.ArrowException) as error:
            raise StorageError(str(error), where=Where(source=str(newest))) from None

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return the table unchanged, because Parquet can represent all of its types."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create the folder of a Parquet table."""
        self._begin(writes=True)
        self._folder(table).mkdir(parents=True, exist_ok=True)

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Do nothing, because the next Parquet file contains the new columns."""

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Do nothing, because written Parquet files do not change."""

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Raise OptionError, because rows in Parquet files cannot be looked up by key."""
        del table, keys, keys_alone
        raise OptionError("parquet: cannot look up rows by key", hint="Use --mode append")

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Read all rows of a Parquet table, from all of its files."""
        return table_rows(str(self._folder(table)))

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write the rows of one table to a Parquet file with a hidden name."""
        self._begin(writes=True)
        table = effects.nets.table
        rows = build_complete_rows(effects.nets)
        name = f"{self._group}-{at.position}{ENDING}"
        try:
            pq.write_table(rows, self._folder(table) / (HIDDEN + name))
        except (OSError, pa.ArrowException) as error:
            kind = find_fault(error, DISK) or ApplyError
            raise kind(str(error), where=Where(source=str(self._folder(table)))) from None
        self._written[_relative_path(table)] = name

    def commit(self, at: AppliedPosition) -> None:
        """Store the position and the list of the batch's files, then rename the files to their visible names."""
        self._begin(writes=True)
        self._positions |= dict.fromkeys(self._written, at.position)
        state = {"position": asdict(at), "tables": self._positions, "files": self._written}
        # Replacing the state is atomic: a killed run leaves the old state or the new one.
        draft = self._state.with_suffix(".draft")
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w") as file:
                json.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._state)
            self._publish_files(self._written)
        except OSError as error:
            raise WriteError(str(error), where=Where(source=str(self._state))) from None
        self._last, self._written = at, {}

    def rollback(self) -> None:
        """Delete the Parquet files of the batch."""
        for table, name in self._written.items():
            (self._root / table / (HIDDEN + name)).unlink(missing_ok=True)
        self._written = {}

    def release(self) -> None:
        """Release the lock, so that another run of the group can write a batch of Parquet files."""
        stack, self._lock = self._lock, None
        if stack is not None:
            stack.close()

    def close(self) -> None:
        """Release the lock. No Parquet file is open."""
        self.release()

    def _folder(self, table: TargetTable) -> Path:
        return self._root / _relative_path(table)


def check_place(root: str) -> None:
    """Raise OptionError if Parquet tables cannot be written below a folder, because it is in a store."""
    if "://" in root:
        hint = "Name a local folder, or use delta:, which supports object stores"
        raise OptionError(f"parquet: supports local folders, not {root}", hint=hint)


def open_tables(address: str, group: str) -> ParquetTarget:
    """Open a folder of Parquet tables for a group."""
    return ParquetTarget(address, group)


def _relative_path(table: TargetTable) -> str:
    """Return the path of a Parquet table's folder below the root. Raises OptionError if a part of its name cannot be a folder name."""
    for part in table.name:
        if part in (".", "..", STATE) or "/" in part or "\0" in part:
            problem = f"{part!r} cannot be the name of a folder"
            raise OptionError(problem, hint="MAP the table to another name")
    return "/".join(table.name)


def group_positions(root: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the Parquet tables below a folder."""
    if not Path(root).is_dir():
        raise StorageError("there is no such folder", where=Where(source=root))
    groups = []
    for file in sorted(Path(root, STATE).glob("*.json")):
        state = _read_state_file(file)
        whole = AppliedPosition(**state["position"])
        tables = [
            TablePosition(name.replace("/", "."), at)
            for name, at in sorted(state["tables"].items())
        ]
        groups.append(GroupPosition(file.stem, whole, tables))
    return groups


def _read_state_file(file: Path) -> dict[str, Any]:
    """Read the state file of a group of Parquet tables. Raises StorageError if it is damaged."""
    try:
        state = json.loads(file.read_text())
        AppliedPosition(**state["position"]), dict(state["tables"]), dict(state["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"the state cannot be read: {error}"
        raise StorageError(problem, where=Where(source=str(file))) from None
    return dict(state)


def table_rows(path: str) -> pa.RecordBatchReader:
    """Read all Parquet files in a table's folder. Raises StorageError if there are none."""
    try:
        files = sorted(map(str, Path(path).glob(f"[!{HIDDEN}]*{ENDING}")))
        if not files:
            raise StorageError("the folder has no Parquet files", where=Where(source=path))
        whole = pa.unify_schemas([pq.read_schema(file) for file in files])
        return ds.dataset(files, schema=whole).scanner().to_reader()
    except (OSError, pa.ArrowException) as error:
        raise StorageError(str(error), where=Where(source=path)) from None
