"""Files of Parquet, for rows that are only added: one file a table and batch.

``parquet:history/`` has the operations of HR.JOBS in ``history/hr/jobs/*.parquet``. Files are written under hidden names, which readers of a folder leave out; then the state
``_trailgate/GROUP.json`` lists them with the position, and that is the commit; then they get their names. A run that finds listed files under hidden names gives these theirs, and removes hidden files that
are not listed.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from trailgate.apply.effects.batch import TableChanges, fill_missing_with_null
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets.faults import DISK, fault_of
from trailgate.apply.targets.target import GroupPosition, Position, TablePosition
from trailgate.errors import ApplyError, OptionError, StorageError, Where, WriteError

STATE: Final = "_trailgate"
HIDDEN: Final = "."
ENDING: Final = ".parquet"


class TableTarget:
    """The tables below a folder of this machine."""

    widens = False
    commits_alone = False

    def __init__(self, root: str, group: str) -> None:
        if "://" in root:
            hint = "Name a folder, or delta:, which stores have too"
            raise OptionError(f"parquet: takes a folder, not {root}", hint=hint)
        self._root, self._group = Path(root), group
        if group in (".", "..") or "/" in group:
            raise OptionError(f"{group!r} cannot be the name of a group's file")
        self._state = self._root / STATE / f"{group}.json"
        self._schemas: dict[str, pa.Schema] = {}
        self._written: dict[str, str] = {}
        self._positions: dict[str, str] = {}
        self._last: Position | None = None
        self._read_state()

    def _read_state(self) -> None:
        if not self._state.exists():
            return
        state = _state_of(self._state)
        self._last = Position(**state["position"])
        self._positions = dict(state["tables"])
        self._show(state["files"])

    def _show(self, files: dict[str, str]) -> None:
        """Give the files of the last batch their names, and remove hidden ones that no batch has."""
        for table, name in files.items():
            hidden = self._root / table / (HIDDEN + name)
            if hidden.exists():
                hidden.rename(self._root / table / name)
        for table in self._positions:
            for left in (self._root / table).glob(f"{HIDDEN}{self._group}-*{ENDING}"):
                left.unlink()

    def position(self, table: TargetTable | None) -> Position | None:
        """Return how far a table was applied, or with None how far all tables were."""
        if table is None or self._last is None:
            return self._last
        at = self._positions.get(_inside(table))
        return None if at is None else Position(self._last.trail, at)

    def positions(self) -> list[TablePosition]:
        """Return how far each table was applied."""
        named = sorted(self._positions.items())
        return [TablePosition(name.replace("/", "."), at) for name, at in named]

    def held(self, table: TargetTable) -> TargetTable | None:
        """Return the table as its last file has it; None where there is none."""
        files = sorted((self._root / _inside(table)).glob(f"[!{HIDDEN}]*{ENDING}"))
        if not files:
            return None
        newest = max(files, key=lambda file: (file.stat().st_mtime_ns, file.name))
        try:
            return table.as_held(table.name, pq.read_schema(newest))
        except (OSError, pa.ArrowException) as error:
            raise StorageError(str(error), where=Where(source=str(newest))) from None

    def planned(self, table: TargetTable) -> TargetTable:
        """Return a table that is to be created: its types keep all that Arrow's do."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create the folder of a table."""
        self._folder(table).mkdir(parents=True, exist_ok=True)

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Do nothing: the next file has the columns."""

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Do nothing: files stay as they are."""

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Refuse to look for rows."""
        del table, keys, keys_alone
        raise OptionError("parquet: has no rows by their keys")

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows."""
        return table_rows(str(self._folder(table)))

    def write(self, effects: TableChanges, at: Position) -> None:
        """Write the rows of one table under a hidden name."""
        table = effects.nets.table
        rows = pa.table(
            [one.values for one in fill_missing_with_null(effects.nets)], schema=table.schema
        )
        name = f"{self._group}-{at.position}{ENDING}"
        try:
            pq.write_table(rows, self._folder(table) / (HIDDEN + name))
        except (OSError, pa.ArrowException) as error:
            kind = fault_of(error, DISK) or ApplyError
            raise kind(str(error), where=Where(source=str(self._folder(table)))) from None
        self._written[_inside(table)] = name

    def commit(self, at: Position) -> None:
        """List the files of the batch with its position, and then show them."""
        self._positions |= dict.fromkeys(self._written, at.position)
        state = {"position": asdict(at), "tables": self._positions, "files": self._written}
        draft = self._state.with_suffix(".draft")
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w") as file:
                json.dump(state, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._state)
            self._show(self._written)
        except OSError as error:
            raise WriteError(str(error), where=Where(source=str(self._state))) from None
        self._last, self._written = at, {}

    def rollback(self) -> None:
        """Remove the files of the batch."""
        for table, name in self._written.items():
            (self._root / table / (HIDDEN + name)).unlink(missing_ok=True)
        self._written = {}

    def release(self) -> None:
        """Do nothing: no file is open between batches."""

    def close(self) -> None:
        """Do nothing."""

    def _folder(self, table: TargetTable) -> Path:
        return self._root / _inside(table)


def _inside(table: TargetTable) -> str:
    """Return the path of a table's folder; raises OptionError for a name that cannot be one."""
    for part in table.name:
        if part in (".", "..", STATE) or "/" in part or "\0" in part:
            problem = f"{part!r} cannot be the name of a folder"
            raise OptionError(problem, hint="MAP the table to another name")
    return "/".join(table.name)


def group_positions(root: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the tables below a folder."""
    if not Path(root).is_dir():
        raise StorageError("there is no such folder", where=Where(source=root))
    found = []
    for file in sorted(Path(root, STATE).glob("*.json")):
        state = _state_of(file)
        whole = Position(**state["position"])
        tables = [
            TablePosition(name.replace("/", "."), at)
            for name, at in sorted(state["tables"].items())
        ]
        found.append(GroupPosition(file.stem, whole, tables))
    return found


def _state_of(file: Path) -> dict[str, Any]:
    """Return the state in a file; raises StorageError."""
    try:
        state = json.loads(file.read_text())
        Position(**state["position"]), dict(state["tables"]), dict(state["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"the state cannot be read: {error}"
        raise StorageError(problem, where=Where(source=str(file))) from None
    return dict(state)


def table_rows(path: str) -> pa.RecordBatchReader:
    """Return a reader of a table by its folder."""
    try:
        files = sorted(map(str, Path(path).glob(f"[!{HIDDEN}]*{ENDING}")))
        if not files:
            raise StorageError("no files of Parquet here", where=Where(source=path))
        whole = pa.unify_schemas([pq.read_schema(file) for file in files])
        return ds.dataset(files, schema=whole).scanner().to_reader()
    except (OSError, pa.ArrowException) as error:
        raise StorageError(str(error), where=Where(source=path)) from None
