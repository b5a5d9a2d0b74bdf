"""Find out what follows a live trail's checkpoint: complete transactions, an open one, or an incomplete record.

``read_tail`` reads the files from the checkpoint on, and counts their transactions. The source then
repeats everything since the checkpoint, and ``DuplicateSkipper`` drops as many transactions from it
as the trail already has, after a comparison of the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trailgate.arrays import CHUNK, Mask, Octets
from trailgate.errors import DecodeError, StorageError, Where
from trailgate.model.changes import ChangeBatch
from trailgate.model.kernels import APART, BEGINS, UNDOES
from trailgate.model.tables import Definitions
from trailgate.model.transactions import follow, mask_begins
from trailgate.options import check_calls
from trailgate.storage.files.trail_files import COPY_AGAIN, TrailFile, TrailFiles, TrailPosition
from trailgate.storage.files.trail_names import trail_file_path
from trailgate.storage.live.checkpoint import Checkpoint, TransactionMark, mark_transaction
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.storage.reading.transaction_spans import find_last_begin, find_last_end
from trailgate.trail.format.record_types import RecordRole
from trailgate.trail.format.tokens import LOGCSN, TRANID, ByteOrder
from trailgate.trail.records.framing import find_records_until_damage, wrap_trail_bytes
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_view import RecordColumns, view_records
from trailgate.trail.records.transactions import CLOSES, record_marks


@check_calls
@dataclass(frozen=True, slots=True)
class Recovered:
    """The state of a live trail after a start: where its source must continue, and which transactions to skip there.

    The source continues at ``source_position``, which was recorded with the last commit (None: from
    its beginning). The trail already contains the first ``transactions`` complete transactions
    after that position; ``last`` is the last of them. ``abandoned`` means that the trail also
    contained bytes that the source must repeat: an incomplete transaction, or in overwrite mode
    anything after the last commit.
    """

    source_position: str | None = None
    transactions: int = 0
    last: TransactionMark | None = None
    abandoned: bool = False

    def skip(self, batches: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
        """Yield the source's batches without the operations that the trail already has.

        Raises StorageError if the source returns different transactions than before, or fewer.
        """
        skipped = DuplicateSkipper(self)
        for batch in batches:
            rest = skipped.rest(batch)
            if rest is not None:
                yield rest
        skipped.finish()


class DuplicateSkipper:
    """Skips the transactions that the live trail already has, batch by batch. See ``Recovered.skip``."""

    def __init__(self, recovered: Recovered) -> None:
        self._recovered, self._seen = recovered, 0

    @property
    def is_done(self) -> bool:
        """True once the source has returned a transaction that the trail does not have, or if it has none."""
        count = self._recovered.transactions
        return self._seen > count or not count

    @property
    def is_behind(self) -> bool:
        """True until the source has returned all transactions that the trail contains.

        A commit before that would state a position before the trail's end: the transactions after
        it would be appended again.
        """
        return self._seen < self._recovered.transactions

    def rest(self, batch: ChangeBatch) -> ChangeBatch | None:
        """Return a batch's operations that the live trail does not have yet, or None if it has all."""
        if self.is_done:
            return batch
        count = self._recovered.transactions
        begins = mask_begins(batch.tx_indicators())
        # The number of each operation's transaction, counted from the source's position.
        number = self._seen + np.cumsum(begins)
        self._check(batch, begins & (number == count))
        self._seen = int(number[-1]) if batch.rows else self._seen
        return batch.where(number > count) if self._seen > count else None

    def finish(self) -> None:
        """Raise StorageError if the source returned fewer transactions than the trail has."""
        count = self._recovered.transactions
        if self._seen < count:
            problem = f"the source repeated only {self._seen} of the {count} transactions"
            raise StorageError(f"{problem} that the trail already has")

    def _check(self, batch: ChangeBatch, last: Mask) -> None:
        """Raise StorageError if the last skipped transaction is not the same as in the trail."""
        for order in np.flatnonzero(last).tolist():
            received, expected = mark_transaction(batch, order), self._recovered.last
            if expected is None or (received.tx_id, received.csn) != (expected.tx_id, expected.csn):
                problem = f"the source returned {received}, but the trail has {expected}"
                raise StorageError(problem, hint="Does the source start at the requested position?")


@dataclass(frozen=True, slots=True)
class CheckpointTail:
    """The records of a live trail after its checkpoint.

    ``file`` and ``offset`` are the end of the last complete record. ``transactions`` is the number
    of complete transactions, and ``last`` the last of them. ``current`` is the transaction of the
    last change, and ``is_open`` means that it has not ended.

    ``torn``: the last file has more bytes after ``offset``; the offset is 0 if the file header is
    incomplete. ``path`` is the path of the last file, if there is one.
    """

    file: int
    offset: int
    transactions: int = 0
    last: TransactionMark | None = None
    current: TransactionMark | None = None
    is_open: bool = False
    torn: bool = False
    path: Path | None = None


def files_after(prefix: str, checkpoint: Checkpoint) -> list[TrailFile]:
    """Return the checkpoint's file and the files after it.

    Raises StorageError if a file was not begun by this writer, or if the checkpoint's file does not
    have the committed bytes.
    """
    after_checkpoint: list[TrailFile] = []
    for number in range(checkpoint.file, checkpoint.begun + 2):
        path = trail_file_path(prefix, number, checkpoint.digits)
        if not path.exists():
            continue
        if number > checkpoint.begun or number > checkpoint.file + len(after_checkpoint):
            problem = (
                f"the checkpoint does not include file {path.name}, or a file before it is missing"
            )
            raise StorageError(problem, where=Where(source=prefix))
        after_checkpoint.append(TrailFile(str(path), number, path.stat().st_size))
    _check_committed(prefix, checkpoint, after_checkpoint)
    return after_checkpoint


def _check_committed(
    prefix: str, checkpoint: Checkpoint, after_checkpoint: Sequence[TrailFile]
) -> None:
    """Raise StorageError if the checkpoint's file does not have the committed bytes, or is a different file."""
    if not checkpoint.offset:
        return
    problem = ""
    if not after_checkpoint:
        problem = f"the file is missing, but the checkpoint states {checkpoint.offset} bytes"
    elif after_checkpoint[0].size < checkpoint.offset:
        size = after_checkpoint[0].size
        problem = f"the file has {size} bytes, but the checkpoint states {checkpoint.offset}"
    else:
        try:
            problem = _describe_difference(after_checkpoint[0], checkpoint)
        except DecodeError as error:
            problem = f"the committed bytes are damaged: {error.problem}"
    if problem:
        path = trail_file_path(prefix, checkpoint.file, checkpoint.digits)
        raise StorageError(problem, where=Where(source=str(path)), hint=COPY_AGAIN.format(prefix))


def _describe_difference(file: TrailFile, checkpoint: Checkpoint) -> str:
    """Return a sentence if a file is not the one in which the checkpoint's last transaction ends, or "".

    Without this check, a different file would be continued, or the committed bytes would be taken
    for bytes of an interrupted run.
    """
    committed = TrailFiles("", (replace(file, size=checkpoint.offset),), Definitions(()))
    with TrailFileReader(committed.files[0]) as reader:
        reader.check_number()
        if reader.end_of_records() != checkpoint.offset:
            return f"no record ends at byte {checkpoint.offset}, where the committed bytes end"
        end = find_last_end(committed, committed.end, committed.begin)
        before_end = end and TrailPosition(end.number, end.offset - 1)
        begin = before_end and find_last_begin(committed, before_end)
        if begin is None or checkpoint.last is None:
            return ""  # the last transaction begins in an earlier file, or nothing is committed yet
        found = _mark(reader.read(begin.offset, LONGEST), 0, reader.order)
    known = checkpoint.last
    if (found.tx_id, found.csn) == (known.tx_id, known.csn):
        return ""
    return f"the last committed transaction is {found.csn or found.tx_id}, but the checkpoint states {known.csn or known.tx_id}"


def read_tail(prefix: str, checkpoint: Checkpoint) -> CheckpointTail:
    """Read the records after a live trail's checkpoint. Only their headers are decoded, all at once."""
    tail = CheckpointTail(checkpoint.file, checkpoint.offset, 0, checkpoint.last, checkpoint.last)
    for file in files_after(prefix, checkpoint):
        if tail.torn:
            problem = f"file {tail.file} ends inside a record and is not the last one"
            raise StorageError(problem, where=Where(source=prefix))
        tail = _through(file, replace(tail, file=file.number, path=Path(file.path)), checkpoint)
    return tail


def _through(file: TrailFile, tail: CheckpointTail, checkpoint: Checkpoint) -> CheckpointTail:
    offset = checkpoint.offset if file.number == checkpoint.file else 0
    has_changes = offset > 0
    with TrailFileReader(file) as reader:
        try:
            offset = max(offset, reader.begin)
        except DecodeError:
            return replace(tail, offset=0, torn=True)
        order = reader.header.order if reader.header else ByteOrder.BIG
        while True:
            tail_records = _read_records(reader.read(offset, CHUNK), order)
            # No complete record is left.
            if not len(tail_records.view):
                break
            has_changes |= bool((tail_records.view.role != RecordRole.METADATA).any())
            tail = _follow(tail, tail_records)
            offset += tail_records.view.end
    # A file without any change may lack some of its metadata records, so it is begun again.
    return replace(
        tail, offset=offset if has_changes else 0, torn=not has_changes or offset < file.size
    )


@dataclass(frozen=True, slots=True)
class _TailRecords:
    """Complete records of a file of a live trail, after the checkpoint."""

    data: Octets
    order: ByteOrder
    view: RecordColumns

    def mark(self, record: int) -> TransactionMark:
        """Decode the transaction that begins with a trail record."""
        return _mark(self.data, int(self.view.offsets[record]), self.order)


def _mark(data: Octets, offset: int, order: ByteOrder) -> TransactionMark:
    """Decode the transaction that begins with the trail record at an offset."""
    record = decode_record(data, offset, order=order)
    tx_id, csn = (
        raw if raw is None else raw.decode() for raw in map(record.token, (TRANID, LOGCSN))
    )
    return TransactionMark(tx_id, csn, record.io_time)


def _read_records(data: Octets, order: ByteOrder) -> _TailRecords:
    """Find the records in ``data``, which begins with a record, up to the first damaged or incomplete one.

    The bytes after them are not used.
    """
    sound_records, _ = find_records_until_damage(data, order)
    return _TailRecords(data, order, view_records(wrap_trail_bytes(data, 0, order), sound_records))


def _follow(tail: CheckpointTail, tail_records: _TailRecords) -> CheckpointTail:
    """Extend the tail by the records that follow it in the live trail, and return it.

    Their transactions are counted, and ``last`` and ``current`` are updated.
    """
    view = tail_records.view
    followed = follow(record_marks(view, view.indicator), is_open=tail.is_open)
    begins = np.flatnonzero(followed.marks & BEGINS)
    ends = np.flatnonzero(followed.marks & CLOSES)
    # Records that belong to transactions: not comments and the like, and not restart records.
    changes = np.flatnonzero(followed.marks & (APART | UNDOES) == 0)

    def mark(record: int) -> TransactionMark | None:
        """Return the transaction of a trail record, which may have begun in earlier records."""
        # The last begin at or before the record. None means that the transaction began before these
        # records, as the tail knows it.
        before = begins[begins <= record]
        known = tail_records.mark(int(before[-1])) if len(before) else tail.current
        return None if known is None else replace(known, io_time=int(view.io_time[record]))

    return replace(
        tail,
        transactions=tail.transactions + len(ends),
        last=mark(int(ends[-1])) if len(ends) else tail.last,
        current=mark(int(changes[-1])) if len(changes) else tail.current,
        is_open=followed.is_open,
    )
