"""What a live trail holds after its checkpoint: whole transactions, an open one, a torn record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trailgate.arrays import CHUNK, Mask, Octets
from trailgate.errors import DecodeError, StorageError, Where
from trailgate.model.changes import ChangeBatch
from trailgate.model.kernels import APART, BEGINS, UNDOES
from trailgate.model.transactions import begins_of, follow
from trailgate.storage.files.listing import TrailFile
from trailgate.storage.files.manifest import HINT, Checkpoint, TransactionMark
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.format.record_types import Role
from trailgate.trail.format.tokens import LOGCSN, TRANID, ByteOrder
from trailgate.trail.records.framing import find_sound, trail_bytes
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_view import RecordView, view_records
from trailgate.trail.records.transactions import CLOSES, record_marks


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where the source continues: from ``source_position``, without the first ``transactions``.

    ``source_position`` is that of the last commit, None where there was none. After that commit
    ``transactions`` whole ones were found; ``last`` is the last whole transaction of the trail.
    ``abandoned``: an unfinished one was found, which the source gives again.
    """

    source_position: str | None = None
    transactions: int = 0
    last: TransactionMark | None = None
    abandoned: bool = False

    def skip(self, batches: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
        """Yield what the source gives from its position on, without what the trail has already.

        Raises StorageError where the source gives other transactions than before, or fewer.
        """
        skipped = Skipped(self)
        for batch in batches:
            rest = skipped.rest(batch)
            if rest is not None:
                yield rest
        skipped.finish()


class Skipped:
    """Leaves out the transactions that the trail has already, batch by batch; see ``Recovered.skip``."""

    def __init__(self, recovered: Recovered) -> None:
        self._recovered, self._seen = recovered, 0

    @property
    def is_done(self) -> bool:
        """Return whether nothing more is left out."""
        count = self._recovered.transactions
        return self._seen > count or not count

    def rest(self, batch: ChangeBatch) -> ChangeBatch | None:
        """Return what of a batch the trail does not have, None where that is nothing."""
        if self.is_done:
            return batch
        count = self._recovered.transactions
        begins = begins_of(batch.tx_indicators())
        number = self._seen + np.cumsum(begins)
        self._check(batch, begins & (number == count))
        self._seen = int(number[-1]) if batch.rows else self._seen
        return batch.where(number > count) if self._seen > count else None

    def finish(self) -> None:
        """Raise StorageError where the source has given fewer transactions than the trail has."""
        count = self._recovered.transactions
        if self._seen < count:
            problem = f"the source gave {self._seen} of {count} transactions again"
            raise StorageError(f"{problem} that the trail has already")

    def _check(self, batch: ChangeBatch, last: Mask) -> None:
        """Raise StorageError where the last transaction that is passed over is not the trail's."""
        for order in np.flatnonzero(last).tolist():
            given, kept = mark_of(batch, order), self._recovered.last
            if kept is None or (given.tx_id, given.csn) != (kept.tx_id, kept.csn):
                problem = f"the source gives {given} where the trail has {kept}"
                raise StorageError(problem, hint="Does it begin at the position that it was given?")


def mark_of(batch: ChangeBatch, order: int) -> TransactionMark:
    """Return the transaction and commit time of an operation."""
    block, row = batch.find(order)
    return TransactionMark(block.tx_id[row].as_py(), block.csn[row].as_py(), int(block.op_ts[row]))


@dataclass(frozen=True, slots=True)
class Tail:
    """What a trail holds up to its end; ``file`` and ``offset`` are the end of its last whole record.

    ``last`` is the last whole transaction, ``current`` that of the last change. ``torn``: the last file has
    more bytes; where its header is not whole, ``offset`` is 0. ``path`` is that file's, if there is one.
    """

    file: int
    offset: int
    transactions: int = 0
    last: TransactionMark | None = None
    current: TransactionMark | None = None
    is_open: bool = False
    torn: bool = False
    path: Path | None = None


def file_path(prefix: str, number: int, digits: int) -> Path:
    """Return the path of a trail's file."""
    return Path(f"{prefix}{number:0{digits}}")


def files_after(prefix: str, checkpoint: Checkpoint) -> list[TrailFile]:
    """Return the checkpoint's file and those after it; raises StorageError where one is not ours."""
    found: list[TrailFile] = []
    for number in range(checkpoint.file, checkpoint.begun + 2):
        path = file_path(prefix, number, checkpoint.digits)
        if not path.exists():
            continue
        if number > checkpoint.begun or number > checkpoint.file + len(found):
            problem = f"the checkpoint does not know of file {path.name}, or of a gap before it"
            raise StorageError(problem, where=Where(source=prefix))
        found.append(TrailFile(str(path), number, path.stat().st_size))
    if checkpoint.offset and (not found or found[0].size < checkpoint.offset):
        problem = (
            f"file {checkpoint.file} is shorter than the checkpoint's {checkpoint.offset} bytes"
        )
        raise StorageError(problem, where=Where(source=prefix), hint=HINT)
    return found


def read_tail(prefix: str, checkpoint: Checkpoint) -> Tail:
    """Return what follows a checkpoint, record headers read in columns."""
    tail = Tail(checkpoint.file, checkpoint.offset, 0, checkpoint.last, checkpoint.last)
    for file in files_after(prefix, checkpoint):
        if tail.torn:
            problem = f"file {tail.file} ends inside a record and is not the last one"
            raise StorageError(problem, where=Where(source=prefix))
        tail = _through(file, replace(tail, file=file.number, path=Path(file.path)), checkpoint)
    return tail


def _through(file: TrailFile, tail: Tail, checkpoint: Checkpoint) -> Tail:
    place = checkpoint.offset if file.number == checkpoint.file else 0
    holds = place > 0
    with TrailFileReader(file) as reader:
        try:
            place = max(place, reader.begin)
        except DecodeError:
            return replace(tail, offset=0, torn=True)
        order = reader.header.order if reader.header else ByteOrder.BIG
        while True:
            found = _read_records(reader.read(place, CHUNK), order)
            if not len(found.view):
                break
            holds |= bool((found.view.role != Role.METADATA).any())
            tail = _follow(tail, found)
            place += found.view.end
    # A file that was only begun may lack some of its metadata: it is begun again.
    return replace(tail, offset=place if holds else 0, torn=not holds or place < file.size)


@dataclass(frozen=True, slots=True)
class _TailRecords:
    """Whole records of one file."""

    data: Octets
    order: ByteOrder
    view: RecordView

    def mark(self, record: int) -> TransactionMark:
        """Return the transaction that a record begins."""
        found = decode_record(self.data, int(self.view.offsets[record]), order=self.order)
        tx_id, csn = (
            raw if raw is None else raw.decode() for raw in map(found.token, (TRANID, LOGCSN))
        )
        return TransactionMark(tx_id, csn, found.io_time)


def _read_records(data: Octets, order: ByteOrder) -> _TailRecords:
    """Return the records up to the first bytes that are none: nothing vouches for those."""
    found, _ = find_sound(data, order)
    return _TailRecords(data, order, view_records(trail_bytes(data, 0, order), found))


def _follow(tail: Tail, found: _TailRecords) -> Tail:
    """Return what is there with further records."""
    view = found.view
    followed = follow(record_marks(view, view.indicator), is_open=tail.is_open)
    begins = np.flatnonzero(followed.marks & BEGINS)
    ends = np.flatnonzero(followed.marks & CLOSES)
    own = np.flatnonzero(followed.marks & (APART | UNDOES) == 0)

    def mark(record: int) -> TransactionMark | None:
        """Return the transaction of a record, whose begin may be among earlier records."""
        before = begins[begins <= record]
        known = found.mark(int(before[-1])) if len(before) else tail.current
        return None if known is None else replace(known, io_time=int(view.io_time[record]))

    return replace(
        tail,
        transactions=tail.transactions + len(ends),
        last=mark(int(ends[-1])) if len(ends) else tail.last,
        current=mark(int(own[-1])) if len(own) else tail.current,
        is_open=followed.is_open,
    )
