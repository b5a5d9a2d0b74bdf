"""Append changes to a live trail in place, and continue after interruptions.

Appended bytes are visible to readers as soon as ``append`` returns. They are durable, together with
the source's position, when ``commit`` returns. docs/recovery.md describes what happens at a start,
and why.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import DefinitionError, EncodeError, StorageError, TransactionError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.operations_table import conform_operations, from_operations
from trailgate.model.tables import Definitions
from trailgate.options import check_calls
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.locks import lock
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.storage.live.checkpoint import mark_transaction
from trailgate.storage.live.growing_file import Disk
from trailgate.storage.live.live_trail import AppendOptions, LiveTrail, Recovery, load_checkpoint
from trailgate.storage.live.recovery import Recovered
from trailgate.storage.writing.run_preparation import definitions_to_write
from trailgate.storage.writing.segments import count_fitting
from trailgate.storage.writing.trail_location import local_prefix, local_trail
from trailgate.storage.writing.transaction_chain import BETWEEN, check_continuation
from trailgate.trail.writing.writer import EncodedTrail, encode

__all__ = ["AppendOptions", "Recovered", "Recovery", "TrailAppender"]

LOG: Final = logging.getLogger(__name__)
DEFAULTS: Final = AppendOptions()
LONGEST_CSN: Final = 128  # bytes, as the file header has no room for more


@check_calls
class TrailAppender:
    """Appends change batches to a live trail. ``recovered`` states where the source continues.

    Transactions may span batches. Only one writer can open a trail at a time. Raises StorageError
    if the trail was not begun by an appender, or if another writer has it open.
    """

    def __init__(
        self,
        prefix: Address,
        definitions: Address | Definitions | None = None,
        options: AppendOptions = DEFAULTS,
        *,
        disk: Disk | None = None,
    ) -> None:
        self._prefix, self._options, disk = local_prefix(prefix), options, disk or Disk()
        self._broken, self._last = False, BETWEEN
        with ExitStack() as resources:
            # First the lock, so that nothing is read that another writer may be changing. If a
            # later step fails, the stack undoes the earlier ones in reverse.
            resources.enter_context(lock(self._prefix))
            known = load_checkpoint(self._prefix, options)
            location = local_trail(self._prefix)
            self._definitions = definitions_to_write(location, definitions)
            begun = known is not None
            for note in location.note_lost_definitions(options.trail_format, is_begun=begun):
                LOG.warning(note)
            disk.replace(Path(f"{self._prefix}.def"), write_sourcedefs(self._definitions))
            tables = self._definitions
            self._trail = LiveTrail(disk, self._prefix, options, tables, known)
            resources.callback(self._trail.files.close)
            self.recovered = self._trail.recover()
            self._resources = resources.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place(self) -> TrailPosition:
        """The end of the appended bytes in the live trail: file and offset."""
        return TrailPosition(self._trail.files.number, self._trail.files.size)

    def encode(self, batch: ChangeBatch) -> EncodedTrail:
        """Encode operations as ``append`` writes them to the live trail.

        Raises DefinitionError or EncodeError if they cannot be written.
        """
        blocks = [self._check(block) for block in batch.blocks]
        checked = ChangeBatch(blocks, batch.rows)
        return encode(checked, self._options.trail_format, self._definitions)

    def append_operations(self, rows: pa.RecordBatch) -> None:
        """Append rows of the operations table to the live trail. See ``append``."""
        self.append(from_operations(conform_operations(rows), self._definitions))

    def append(self, batch: ChangeBatch, encoded: EncodedTrail | None = None) -> None:
        """Append operations to the live trail. They are visible to readers when this returns.

        ``encoded`` is the result of ``encode``, if it was called before. A batch that cannot be
        written adds nothing. After a StorageError it is unknown how much of the batch was written:
        the trail must be opened again.
        """
        if not batch.rows:
            return
        last = check_continuation(batch, self._last).row(batch.rows - 1)
        if encoded is None:
            encoded = self.encode(batch)
        with self._steps():
            begin = 0
            while begin < batch.rows:
                begin = self._write(batch, encoded, begin)
        self._last = last
        if last.closes:
            self._trail.last = mark_transaction(batch, batch.rows - 1)

    def commit(self, source_position: str) -> None:
        """Make everything appended durable, together with the position at which the source continues.

        Raises TransactionError inside a transaction.
        """
        if not self._last.closes:
            raise TransactionError(
                "cannot commit inside a transaction: its end is not appended yet"
            )
        with self._steps():
            self._trail.commit(source_position)

    def close(self) -> None:
        """Close the live trail without committing."""
        self._resources.close()

    @contextmanager
    def _steps(self) -> Iterator[None]:
        if self._broken:
            problem = "writing was interrupted before: open the trail again"
            raise StorageError(problem, where=Where(source=self._prefix))
        # Stays True if the block raises.
        self._broken = True
        yield
        self._broken = False

    def _check(self, block: ChangeBlock) -> ChangeBlock:
        """Return a block with the live trail's definition of its table.

        Raises DefinitionError if the block's definition differs, or EncodeError if a CSN is too
        long.
        """
        where = Where(table=block.table.name)
        known = self._definitions.table(block.table.name)
        if known is not block.table and known != complete_table(block.table):
            raise DefinitionError("the table differs from the trail's definition", where=where)
        # File headers have room for a CSN of this size only, and are patched in place.
        longest = pc.max(pc.binary_length(block.csn)).as_py() or 0
        if longest > LONGEST_CSN:
            raise EncodeError(f"a CSN has {longest} bytes, the limit is {LONGEST_CSN}", where=where)
        return replace(block, table=known)

    def _write(self, batch: ChangeBatch, encoded: EncodedTrail, begin: int) -> int:
        """Write the operations from ``begin`` on that fit into the live trail's open file.

        If none fits or no file is open, begins a new file and writes nothing. Returns the index of
        the first operation that was not written.
        """
        files = self._trail.files
        end = count_fitting(
            encoded, begin, self._options.max_bytes - files.size, is_empty=files.is_empty
        )
        if not files.is_open or end == begin:
            if files.is_open:
                files.finish()
            self._trail.begin(mark_transaction(batch, begin))
            return begin
        body = memoryview(encoded.body)[int(encoded.starts[begin]) : int(encoded.starts[end])]
        files.write(body, (mark_transaction(batch, begin), mark_transaction(batch, end - 1)))
        return end
