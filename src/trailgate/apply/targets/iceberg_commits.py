"""Commit new rows to an Iceberg table in one snapshot, together with a position.

This module contains all parts of pyiceberg that are not public (``tests/test_private_parts.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import ExpireSnapshots, _OverwriteFiles

FILE_BYTES: Final = 64 << 20  # of a data file in memory: a changed row rewrites its file


class SingleAttempt(Transaction):
    """An Iceberg transaction that fails if another writer has committed to the table since it was loaded.

    pyiceberg repeats a lost commit on top of the newer snapshot: two runs that apply the same
    operations would both commit.
    """

    def _rebuild_snapshot_updates(self) -> None:
        raise CommitFailedException("it has a newer snapshot")


class ReplacedFiles(_OverwriteFiles):
    """An Iceberg snapshot that replaces data files, and drops the manifests that list only files deleted earlier.

    pyiceberg keeps these manifests forever, so each commit would be slower than the one before.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        return [
            one
            for one in super()._existing_manifests()
            if one.has_added_files() or one.has_existing_files()
        ]


def commit_rows(
    table: Table,
    removed: Sequence[DataFile],
    rows: Iterable[pa.Table],
    properties: Mapping[str, str],
    keep: int = 0,
) -> None:
    """Commit rows to an Iceberg table in one snapshot, and set ``properties`` of the snapshot and of the table.

    The rows replace the data files ``removed``; if there are none, they are appended. Only the last
    ``keep`` snapshots are kept; 0 keeps all. Raises CommitFailedException if the table was changed
    since it was loaded.
    """
    stored = dict(properties)
    with SingleAttempt(table) as transaction:
        files: Any
        if removed:
            files = ReplacedFiles(
                Operation.OVERWRITE, transaction, table.io, snapshot_properties=stored
            )
        else:
            files = transaction.update_snapshot(stored).merge_append()
        with files:
            for file in removed:
                files.delete_data_file(file)
            # Files are named by this number and the commit's id, so all calls share one counter.
            numbers = count()
            for part in _join_small(rows):
                for file in _dataframe_to_data_files(
                    table.metadata, part, table.io, files.commit_uuid, numbers
                ):
                    files.append_data_file(file)
        transaction.set_properties(stored)
        older = [one.snapshot_id for one in table.metadata.snapshots][: 1 - keep]
        if keep and older:
            ExpireSnapshots(transaction).by_ids(older).commit()


def _join_small(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join Arrow tables of rows until they are large enough for a data file. Skips empty ones."""
    joined: list[pa.Table] = []
    for part in parts:
        if len(part):
            joined.append(part)
        if sum(one.nbytes for one in joined) >= FILE_BYTES:
            yield pa.concat_tables(joined)
            joined = []
    if joined:
        yield pa.concat_tables(joined)
