"""Recognize what was captured before: files, transactions and sequence ids (decision 0022).

Three independent checks live here:

- Files (`recognize_files`): a file that was captured under its name, with the same size and the same
  first and last 64 KiB, is skipped. Of a file that has grown only the appended lines are captured.
- Sequence ids (`SequenceIdCheck`): they must ascend through a run. Ids that the trail already has are
  skipped.
- Transactions (`RepeatedTransactions`): a transaction that is sent twice in one run is captured once, if id and
  content are the same. Instead of the operations, only hash sums of them are remembered.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.kernels.rows import hash_strings
from trailgate.columnar.rows import text_view
from trailgate.errors import StorageError, TransactionError, Where
from trailgate.messages.bounds import ordered_length
from trailgate.model.changes import ChangeBatch, ChangeBlock, StateColumn
from trailgate.model.transactions import mask_begins
from trailgate.storage.files.addresses import LOCAL, locate, name_of
from trailgate.storage.files.manifest import CapturedFile
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.reading.message_files import (
    MessageFile,
    MessageFileList,
    MessageFiles,
    MessagePosition,
    position_of,
    with_place,
)

if TYPE_CHECKING:
    from trailgate.jobs.capture.owned import OwnedBatch

_FACTOR: Final = 6364136223846793005
_NULL: Final = (
    2147483648  # hashes of strings are smaller, so NULL and missing differ from all of them
)
_MISSING: Final = 2147483649


# A source that restarts sends at most its recent transactions again, so this many are remembered.
RECENT: Final = 1 << 20
_MISMATCH_HINT: Final = (
    "Two transactions with one id and different content are not a redelivery: do the ids come from the source, and are the messages complete? "
    "--unordered-ids captures both as they are"
)
_GROWN_HINT: Final = "The first of the two may have been cut off when the source stopped. --unordered-ids captures both as they are"
HINT: Final = (
    "Sequence ids (seqid) must ascend from message to message: capture the messages in order, or repeated ones in a separate run, "
    "which skips ids that the trail has. --unordered-ids captures them as they are"
)

# Bytes compared at each end of a file. Files up to twice this size are compared completely.
END: Final = 64 << 10
THREADS: Final = 8  # files opened at the same time: stores answer slowly
NEWLINES: Final = b"\n\r"


def hash_operations(batch: ChangeBatch) -> Longs:
    """Return a hash of each operation.

    Operations with the same table, type and values have the same hash.
    """
    found = np.zeros(batch.rows, np.int64)
    for block in batch.blocks:
        found[block.order] = _block_hashes(block)
    return found


class HashSums(NamedTuple):
    """Hash sums of consecutive operations: the hash of the first one, and an order-dependent sum over all."""

    first: int
    every: int


def hash_sums(numbers: Longs, starts: Longs, before: int) -> list[HashSums]:
    """Return the sums of the operations before the first start, and from each start to the next.

    `before` is the number of operations that the transaction open at the beginning already has.
    Because each operation is weighted by its ordinal in the transaction, the sums of a
    transaction's parts can be added.
    """
    bounds = np.append(0, starts)
    ordinals = np.arange(len(numbers))
    begins = np.repeat(np.append(-before, starts), np.diff(np.append(bounds, len(numbers))))
    # The weight of operation n of its transaction is an odd number that depends on n, so that
    # operations in another order have another sum. All sums wrap around at 64 bits.
    mixed = (numbers + 1) * ((ordinals - begins) * _FACTOR * 2 + 1)
    totals = np.append(0, np.cumsum(mixed))
    every = np.append(totals[starts], totals[-1]) - totals[bounds]
    # The appended 0 is read for a start at the very end (a transaction without operations here).
    first = np.append(numbers, 0)[bounds]
    return [*map(HashSums, first.tolist(), every.tolist())]


def _block_hashes(block: ChangeBlock) -> Longs:
    found = _strings(pa.array([block.table.name]), 1).repeat(len(block)) * 256 + block.op_type
    # A polynomial hash over all columns; unsigned overflow is intended.
    for image in (block.before, block.after):
        for column in image:
            found = found * _FACTOR + _values(column, len(block))
    return found


def _values(column: StateColumn, rows: int) -> Longs:
    if column.values is None:
        return np.full(rows, _MISSING, np.int64)
    values = column.values
    strings = values if pa.types.is_string(values.type) else pc.cast(values, pa.string())
    found = _strings(pc.fill_null(strings, ""), rows)
    if values.null_count:
        found[np.asarray(values.is_null())] = _NULL
    if column.missing is not None:
        found[column.missing] = _MISSING
    return found


def _strings(values: pa.Array, rows: int) -> Longs:
    offsets, data = text_view(values)
    found = np.empty(rows, np.int64)
    hash_strings(data, offsets, found)
    return found


class _Content(NamedTuple):
    """A transaction's number of operations, the hash of the first one, and the sum of all their hashes."""

    size: int
    first: int
    every: int


_NOTHING: Final = _Content(0, 0, 0)


@dataclass(slots=True)
class RepeatedTransactions:
    """The transactions seen in a run: their ids, numbers of operations and hash sums.

    `dropped` counts the operations of transactions that were sent twice. The oldest of more than
    `RECENT` transactions are forgotten.
    """

    dropped: int = 0
    _known: OrderedDict[str, _Content] = field(default_factory=OrderedDict)
    _open: str = ""
    _again: bool = False  # the open one was captured before
    _content: _Content = _NOTHING  # of the open one

    def select_new(self, csn: pa.Array, begins: Mask, numbers: Longs) -> Mask:
        """Return the mask of operations that were not captured before.

        `begins` marks the first operation of each transaction, `numbers` are the operations'
        hashes. Raises TransactionError, with the operation in `where.record`, if a repeated transaction
        has more operations than the first time, or different ones.
        """
        keep = np.ones(len(csn), bool)
        starts = np.flatnonzero(begins)
        bounds = np.append(starts, len(csn))
        # The operations before the first start belong to the transaction open from the batch
        # before.
        of_open, *others = hash_sums(numbers, starts, self._content.size)
        self._add(int(bounds[0]), of_open, keep, 0)
        sizes: Longs = np.diff(bounds)
        names = csn.take(pa.array(starts)).to_pylist()
        for name, begin, size, own in zip(
            names, starts.tolist(), sizes.tolist(), others, strict=True
        ):
            self._end(begin)
            self._open, self._content, self._again = name, _NOTHING, name in self._known
            self._add(size, own, keep, begin)
        return keep

    def _add(self, count: int, own: HashSums, keep: Mask, begin: int) -> None:
        """Add operations to the open transaction.

        Raises TransactionError if it repeats an earlier one with other content.
        """
        if not count:
            return
        size, first, every = self._content
        own_first = first if size else own.first
        self._content = _Content(size + count, own_first, (every + own.every) % (1 << 64))
        if not self._again:
            return
        keep[begin : begin + count] = False
        self.dropped += count
        known = self._known[self._open]
        if self._content.size > known.size:
            problem = f"the transaction {self._open} is repeated with {self._content.size} operations, but was captured with {known.size}"
            raise TransactionError(problem, where=Where(record=begin), hint=_GROWN_HINT)
        # A redelivered transaction is compared by its first operation at once, and by the sum once
        # it is complete. A shorter one so far may still be incomplete.
        if known.first != own_first or (
            known.size == self._content.size and known != self._content
        ):
            raise self._mismatch(begin)

    def _end(self, begin: int) -> None:
        """Remember the transaction that was open.

        Raises TransactionError if it repeats an earlier one with fewer operations.
        """
        if self._again and self._content.size < self._known[self._open].size:
            raise self._mismatch(max(begin - 1, 0))
        if self._again or not self._content.size:
            return
        self._known[self._open] = self._content
        if len(self._known) > RECENT:
            self._known.popitem(last=False)

    def _mismatch(self, row: int) -> TransactionError:
        problem = f"the transaction {self._open} is repeated with other operations"
        return TransactionError(problem, where=Where(record=row), hint=_MISMATCH_HINT)


@dataclass(frozen=True)
class SequenceIdRule:
    """How sequence ids are checked: against each other if they are `ordered`, and against the trail.

    `last` is the highest id in the trail, or None if the trail is not compared. `by_id` is set if
    transactions are known only by their ids.
    """

    prefix: str
    last: str | None
    ordered: bool = True
    by_id: bool = False

    def width(self, own: str) -> int:
        """Return the number of leading characters that decide an id's order; see `ordered_lengths`."""
        return ordered_length(own, by_id=self.by_id)

    @cached_property
    def of_trail(self) -> pa.Array:
        """The ids of all transactions in the trail. Reads the trail once."""
        from trailgate.storage.reading.trails import read_trail  # noqa: PLC0415  seldom needed

        found = read_trail(self.prefix, columns="csn").read_all()["csn"]
        return pc.unique(found.combine_chunks())


@dataclass(frozen=True, slots=True)
class SequenceIdSpan:
    """The first, last and highest id of a range.

    `place` is the position of the first id's message.
    """

    first: str
    last: str
    highest: str
    place: MessagePosition


class SequenceIdCheck:
    """Checks the sequence ids of one range, batch by batch. `skipped` and `late` count operations.

    Late operations have an id below the highest in the trail, but the trail does not contain them.
    They are captured.
    """

    def __init__(self, rule: SequenceIdRule, files: MessageFiles) -> None:
        self._rule, self._files = rule, files
        self.span: SequenceIdSpan | None = None
        self.skipped = self.late = 0
        self._repeats = RepeatedTransactions()

    def report(self) -> dict[str, Any]:
        """Return the id fields of the range's report."""
        return {
            "ids": self.span,
            "skipped_operations": self.skipped,
            "repeated_operations": self._repeats.dropped,
            "late_operations": self.late,
        }

    def select_new(self, batch: OwnedBatch, before: MessagePosition) -> Mask:
        """Return the mask of operations that are new.

        Raises TransactionError if ids are out of order.

        `before` is the position for errors in an operation whose message was in an earlier batch.
        """
        csn = batch.operations.in_order("csn")
        fresh = self._is_unknown(csn)
        if self._rule.by_id and self._rule.ordered:
            fresh &= self._select_unrepeated(batch, csn, before)
        rows = np.flatnonzero(fresh)
        if not len(rows):
            return fresh
        if len(rows) < len(csn):
            csn = csn.take(pa.array(rows))
        if self._rule.ordered:
            self._check_order(batch, csn, rows, before)
        highest = str(pc.max(csn))
        first, last = csn[0].as_py(), csn[-1].as_py()
        # The first id's position is needed to report an order error across ranges.
        if self.span is None:
            place = _place(batch, int(batch.message[rows[0]]), before)
            self.span = SequenceIdSpan(first, last, highest, place)
        else:
            own = self.span
            self.span = SequenceIdSpan(own.first, last, max(own.highest, highest), own.place)
        return fresh

    def _select_unrepeated(self, batch: OwnedBatch, csn: pa.Array, before: MessagePosition) -> Mask:
        """Return the mask of operations whose transaction did not come earlier in this run."""
        begins = mask_begins(batch.operations.tx_indicators())
        try:
            return self._repeats.select_new(csn, begins, hash_operations(batch.operations))
        except TransactionError as error:
            row = error.where.record or 0
            raise with_place(
                error, self._files, _place(batch, int(batch.message[row]), before)
            ) from None

    def _is_unknown(self, csn: pa.Array) -> Mask:
        """Return the mask of ids that the trail does not have.

        Reads the trail only if an id is not above its highest.
        """
        last = self._rule.last
        if last is None or not len(csn):
            return np.ones(len(csn), bool)
        width = self._rule.width(last)
        if self._rule.width(csn[0].as_py()) != width:
            own_width = self._rule.width(csn[0].as_py())
            problem = f"the sequence id {csn[0].as_py()} has {own_width} characters, but those in the trail have {width} ({last})"
            raise TransactionError(problem, hint="--again captures without comparing them")
        # Ids ascend, so ids above the trail's highest are new. Only lower ones need a look into the
        # trail.
        low = _mask(pc.less_equal(csn, last))
        if not low.any():
            return ~low
        known = low & _mask(pc.is_in(csn, self._rule.of_trail))
        self.skipped += int(known.sum())
        self.late += int((low & ~known).sum())
        return ~known

    def _check_order(
        self, batch: OwnedBatch, csn: pa.Array, rows: Longs, where: MessagePosition
    ) -> None:
        """Check that each transaction has a higher id than the previous one.

        Transactions in one message may share an id.
        """
        begun = mask_begins(batch.operations.tx_indicators()[rows])
        message = batch.message[rows]
        wrong = np.zeros(len(rows), bool)
        # Rows that begin a transaction in another message than the row before: they need a higher
        # id. All other rows may repeat the id of the row before.
        other = begun[1:] & (message[1:] != message[:-1])
        wrong[1:] = _mask(pc.less(csn[1:], csn[:-1])) | (other & _mask(pc.equal(csn[1:], csn[:-1])))
        if self.span is not None:
            first = csn[0].as_py()
            wrong[0] = first < self.span.last or (bool(begun[0]) and first == self.span.last)
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        before = csn[row - 1].as_py() if row else self.span.last if self.span else ""
        place = _place(batch, int(message[row]), where)
        raise with_place(out_of_order(csn[row].as_py(), before), self._files, place)


def _place(batch: OwnedBatch, message: int, last: MessagePosition) -> MessagePosition:
    return last if message < 0 else position_of(batch.messages, message)


def check_spans(spans: Iterable[SequenceIdSpan], files: MessageFiles) -> None:
    """Check the order of ids across ranges.

    Each range checked only its own. Raises TransactionError.
    """
    before: SequenceIdSpan | None = None
    for span in spans:
        if before is not None and span.first <= before.last:
            raise with_place(out_of_order(span.first, before.last), files, span.place)
        before = span


def out_of_order(own: str, before: str) -> TransactionError:
    """Return the error for an id that is not above the previous id."""
    what = "repeats" if own == before else f"follows the higher {before}"
    return TransactionError(f"the sequence id {own} {what}", hint=HINT)


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True)
class RecognizedFiles:
    """The messages that are left to capture, and the files that the trail must remember.

    The counts of files: `skipped` were captured before, `continued` have grown since, `changed`
    have the name of a captured file but other content, `copied` have the content of a captured file
    but another name.
    """

    files: MessageFiles
    remembered: tuple[CapturedFile, ...]
    skipped: int = 0
    continued: int = 0
    changed: int = 0
    copied: int = 0


def recognize_files(messages: MessageFiles, captured: Iterable[CapturedFile]) -> RecognizedFiles:
    """Remove the files that were captured before from `messages`.

    Raises StorageError if it is unclear whether a file was captured before.
    """
    known: defaultdict[str, list[CapturedFile]] = defaultdict(list)
    contents = set()
    for one in captured:
        known[one.name].append(one)
        contents.add((one.size, one.digest))
    left: list[MessageFile] = []
    remembered: list[CapturedFile] = []
    counts = dict.fromkeys(("skipped", "continued", "changed", "copied"), 0)
    for file, own in zip(messages.files, _describe(messages.files), strict=True):
        same_name = known.get(own.name, ())
        if any(_is_same(file, own, one) for one in same_name):
            counts["skipped"] += 1
            continue
        begin = _captured_bytes(messages, file, same_name)
        left.append(replace(file, begin=begin) if begin else file)
        remembered.append(own)
        counts["continued"] += begin > 0
        # A captured name with other content is a changed file, unless it has grown.
        counts["changed"] += not begin and bool(same_name)
        counts["copied"] += not same_name and (own.size, own.digest) in contents and own.size > 0
    kept = replace(messages, files=MessageFileList(left))
    return RecognizedFiles(kept, tuple(remembered), **counts)


def _describe(files: Sequence[MessageFile]) -> Iterable[CapturedFile]:
    if len(files) < 2 or locate(files[0].path)[0] is LOCAL:
        return map(_description, files)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_description, files))


def _description(file: MessageFile) -> CapturedFile:
    """Return what the trail remembers of a file."""
    modified = None
    # Of larger files the middle is not compared, so the modification time must be the same too.
    if file.size > 2 * END:
        store, place = locate(file.path)
        modified = store.get_file_info(place).mtime_ns
    return CapturedFile(name_of(file.path), file.size, _digest(file, file.size), modified)


def _digest(file: MessageFile, size: int) -> str:
    """Hash the first and the last `END` bytes of a file's first `size` bytes."""
    # The two ends [0, END) and [start, size) must not overlap in a short file.
    start = max(END, size - END)
    store, place = locate(file.path)
    if store is LOCAL and size <= END:  # a folder may have very many small files
        return hashlib.sha256(_read_small(place, size)).hexdigest()
    with OpenedFile(file.path, file.size, "messages") as opened:
        digest = hashlib.sha256(opened.read(0, min(END, size)))
        digest.update(opened.read(start, max(0, size - start)))
    return digest.hexdigest()


def _read_small(path: str, size: int) -> bytes:
    """Read a small local file."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            return os.read(handle, size)
        finally:
            os.close(handle)
    except OSError as error:
        problem = f"cannot open the messages: {error.strerror}"
        raise StorageError(problem, where=Where(source=path)) from error


def _is_same(file: MessageFile, own: CapturedFile, known: CapturedFile) -> bool:
    """Return whether a file is the same as the captured file of its name, by size and digest.

    Raises StorageError if they are the same but the file was modified at a different time.
    """
    if (own.size, own.digest) != (known.size, known.digest):
        return False
    if own.modified != known.modified:
        raise StorageError(
            "a file of this name, size, first and last bytes was captured already, but this one was modified at another time",
            where=Where(source=file.path),
            hint="If its messages are different, capture it alone with --again; otherwise leave it out",
        )
    return True


def _captured_bytes(
    messages: MessageFiles, file: MessageFile, known: Sequence[CapturedFile]
) -> int:
    """Return the number of bytes of a file that were captured already.

    Raises StorageError if the rest cannot be captured alone.

    Only appended complete lines can be captured alone.
    """
    if not known:
        return 0
    shorter = sorted((one for one in known if 0 < one.size < file.size), key=lambda one: -one.size)
    grown = next((one for one in shorter if _digest(file, one.size) == one.digest), None)
    if grown is None:
        return 0
    if file.codec is not None:
        raise _has_grown(file, grown, "it is compressed", "")
    if not (messages.per_line or file.json):
        raise _has_grown(file, grown, "a message is a whole file", "if messages are lines")
    with OpenedFile(file.path, file.size, "messages") as opened:
        # The last captured byte and the first new one: at least one of them must be a line end.
        border = bytes(opened.read(grown.size - 1, 2))
    if border[:1] != b"\n" and border[1] not in NEWLINES:
        raise _has_grown(file, grown, "its last line was not complete then", "")
    return grown.size


def _has_grown(file: MessageFile, known: CapturedFile, why: str, lines: str) -> StorageError:
    problem = f"the file was captured when it had {known.size} bytes, and has grown since: {why}"
    hint = "Put the new messages into a file of their own, or capture all of this one with --again"
    more = f"; {lines}, give --message-per line" if lines else ""
    return StorageError(problem, where=Where(source=file.path), hint=hint + more)
