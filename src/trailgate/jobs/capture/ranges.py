"""Capture one byte range of the messages into a staging folder.

Which messages does a range own? A *run* extends from a message that begins a transaction up to the
next such message. A range owns the runs that begin in it. A message alone shows whether it begins a
run, so two ranges that are read independently agree on their boundary:

    bytes        0 ............ 100 ............ 200
    runs         [A........][B........][C...][D....]
    range 0-100  owns A and B, and reads on past byte 100 until C begins
    range 100-   skips the rest of B, and owns C and D

`RangeReader` implements this rule, for capture and for Spark. A run consists of one or more units:
a *unit* is a set of messages that are captured or quarantined together, usually the messages of one
transaction (`messages/units.py`, decision 0012). `run_range` writes the good units of a range as
trail files. A unit with a bad message is rolled back, and all its messages are quarantined
(`quarantine_writer.py`). For this, the positions of its earlier messages are kept in memory.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.capture.capture import Capture, Parsed
from trailgate.columnar.rows import BadRowIsolation, first_of_each
from trailgate.errors import DecodeError, TrailgateError, TransactionError, Where
from trailgate.jobs.capture.owned_batch import OwnedBatch
from trailgate.jobs.capture.quarantine_writer import MessagePositions, QuarantineWriter
from trailgate.jobs.capture.sequence_ids import SequenceIdCheck, SequenceIdSpan
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.message_ids import MessageIds
from trailgate.messages.problems import Problem, Problems
from trailgate.messages.skipped import (
    SkippedMessages,
    SkippedTotals,
    add_skipped,
    count_skipped,
)
from trailgate.messages.units import TransactionState
from trailgate.model.changes import ChangeBatch
from trailgate.model.operation_counts import Counts, add_counts, count_operations
from trailgate.storage.reading.message_files import (
    MessageFiles,
    MessageRange,
    position_of,
    read_messages,
    with_message_place,
    with_message_places,
)
from trailgate.storage.reading.message_lines import MessagePosition, ReadMessages
from trailgate.storage.writing.segments import (
    EncodedOperations,
    Mark,
    Segment,
    SegmentWriter,
)
from trailgate.trail.writing.writer import EncodedTrail

if TYPE_CHECKING:
    from trailgate.jobs.capture.plan import CaptureJob

WITH_OTHERS: Final = "another message of its transaction is bad"
OTHERS: Final = "Another message of its transaction is bad: "
TAIL: Final = 64  # messages after a range's end that are read first to find the next run
FIRST_PART: Final = 64  # messages parsed first if a bad one stops the run
GROWTH: Final = 8  # factor from one part to the next


class _Span(NamedTuple):
    """The messages [begin, stop) of a batch, which a range of a capture owns."""

    begin: int
    stop: int


class RangeReader:
    """Reads and parses the messages that the range `own` of a capture owns. Can be used once.

    `start` is the position of the first message that the range owns, and `end` of the first one
    that the next range owns. They are known when all batches have been read; `start` stays None if
    the range owns nothing. `last` is the position of the last message read. Messages with an id
    that `ids` has already seen are skipped, and counted in `duplicates`.

    With `stops`, reading ends at the first bad message. Messages are then parsed in parts of
    growing size, so that a file full of bad messages does not result in an error for each.
    """

    def __init__(
        self,
        capture: Capture,
        files: MessageFiles,
        own: MessageRange,
        ids: MessageIds | None = None,
        *,
        stops: bool = False,
    ) -> None:
        self._part = FIRST_PART if stops else None
        self._capture, self._files, self._own, self._ids = capture, files, own, ids
        self.duplicates = 0
        self._begun = own.start == files.start  # nothing is before the input
        # The messages before a range's first run belong to the range before: their errors do not count.
        self._state = TransactionState(broken=not self._begun)
        self.last = own.start
        self.notes: frozenset[str] = frozenset()
        self.start: MessagePosition | None = None
        self.end: MessagePosition | None = None

    @property
    def id_length(self) -> int | None:
        """The number of characters of the range's sequence ids, or None if it has read none."""
        return self._state.id_length

    def batches(self) -> Iterator[OwnedBatch]:
        """Yield the messages that the range of a capture owns, batch by batch.

        Reads past the range's end until a message begins a transaction: the messages before it
        belong to this range too.
        """
        for read, after in self._read():
            batch = read.messages
            # If transactions never span messages, or this range owns no run, the first message
            # after its end belongs to the next range.
            if after and not self._continues():
                self.end = position_of(batch, 0)
                return
            batch, problems, unreadable = self._deduplicate(read)
            parsed = self._capture.parse(batch, self._state, problems)
            self._state, self.notes = parsed.state, self.notes | parsed.notes
            # Skip messages up to the first that opens a transaction: they belong to the range
            # before. After the end, stop at the first that opens one. If transactions never span
            # messages, the range begins with its first message, which may be bad.
            owns_first = self._begun or not self._capture.spans_messages
            begin = 0 if owns_first else _first(parsed.opens)
            stop = _first(parsed.opens) if after else len(batch)
            if self._begun or begin < stop:
                own = _Span(begin, stop)
                yield from self._owned_part(batch, parsed, own, unreadable)
            if stop < len(batch):
                self.end = position_of(batch, stop)
                return
        self.end = self._files.end
        if self._begun:
            yield from self._at_end()

    def _deduplicate(self, read: ReadMessages) -> tuple[MessageBatch, Sequence[Problem], Problems]:
        """Skip the redelivered messages of a batch: those whose ids have been seen before.

        Returns the other messages, all their problems, and the problems of those messages that
        could not be read.
        """
        if self._ids is None:
            return read.messages, read.problems, read.problems
        fresh = self._ids.deduplicate(read.messages)
        self.duplicates += fresh.duplicates
        messages, problems = fresh.apply(read.messages, read.problems)
        unreadable = read.problems
        if fresh.kept is not None:
            unreadable = unreadable.where(np.isin(unreadable.message, fresh.kept))
            number = np.searchsorted(fresh.kept, unreadable.message)
            unreadable = replace(unreadable, message=number)
        return messages, problems, unreadable

    def _continues(self) -> bool:
        return self._begun and self._capture.spans_messages

    def _read(self) -> Iterator[tuple[ReadMessages, bool]]:
        """Yield the batches from the range's start on, each with True if it is after its end.

        A batch across the range's end is cut there.

        The first batch after the end has `TAIL` messages, and each further one twice as many,
        because a message that begins a transaction usually comes soon.
        """
        for read in read_messages(self._files, self._own.start):
            begin = self._inside(read.messages)
            for start, stop in self._parts(begin):
                yield read.part(start, stop), False
            size = TAIL
            while begin < len(read.messages):
                stop = min(begin + size, len(read.messages))
                yield read.part(begin, stop), True
                begin, size = stop, 2 * size

    def _parts(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield the parts [start, stop) in which `count` messages of a batch are parsed."""
        start = 0
        while start < count:
            stop = count if self._part is None else min(start + self._part, count)
            yield start, stop
            start = stop
            if self._part is not None:
                self._part *= GROWTH

    def _inside(self, batch: MessageBatch) -> int:
        """Count the messages of a batch that begin before the range's end."""
        file, offset = self._own.end
        # Positions are compared by file number first, then by offset.
        before = (batch.files < file) | ((batch.files == file) & (batch.offsets < offset))
        return int(before.sum())

    def _owned_part(
        self, batch: MessageBatch, parsed: Parsed, own: _Span, unreadable: Problems
    ) -> Iterator[OwnedBatch]:
        """Yield the messages of a batch that the range owns, with their problems, or nothing if there are neither.

        `unreadable` are the problems of messages that could not be read.
        """
        begin, stop = own
        # Before this range's first run, an operation of an earlier message (-1) belongs to another
        # range.
        first = -1 if self._begun else begin  # -1: an operation held back from an earlier batch
        number = parsed.problems.message
        owned = (number >= begin) & (number < stop) | (number < 0) & self._begun
        problems = self._add_positions(parsed.problems.where(owned), batch, begin)
        if self.start is None and begin < stop:
            self.start = position_of(batch, begin)
        self._begun = True
        if begin < stop:
            self.last = position_of(batch, stop - 1)
        elif not len(problems):
            return
        inside = (parsed.message >= first) & (parsed.message < stop)
        unread = (unreadable.message >= begin) & (unreadable.message < stop)
        yield OwnedBatch(
            messages=batch.slice(begin, stop),
            operations=parsed.batch.where(inside),
            message=parsed.message[inside] - begin,
            starts_unit=parsed.starts_unit[begin:stop],
            problems=problems,
            unreadable=unreadable.where(unread).moved(-begin),
            skipped=self._select_skips(parsed, own, first),
        )

    def _select_skips(self, parsed: Parsed, own: _Span, first: int) -> SkippedMessages:
        """Return the messages without operations that the range owns, numbered from `own.begin` on.

        `first` is the number of the first one to return, which may be -1.
        """
        number = parsed.skipped.message
        skipped = parsed.skipped.where((number >= first) & (number < own.stop))
        return skipped.with_numbers(np.maximum(skipped.message - own.begin, -1))

    def _add_positions(self, problems: Problems, batch: MessageBatch, begin: int) -> Problems:
        """Add the source and position to the errors of bad messages.

        In the result, the message `begin` of the batch has the number 0.
        """
        if not len(problems):
            return problems
        number = problems.message
        own = number >= 0
        # A problem in the unit that was open before a batch is at its own place, or at the last message.
        unknown = problems.files < 0
        files = np.where(unknown, self.last.file, problems.files)
        offsets = np.where(unknown, self.last.offset, problems.offsets)
        files[own], offsets[own] = batch.files[number[own]], batch.offsets[number[own]]
        errors = with_message_places(problems.errors, self._files, files, offsets)
        moved = np.where(own, number - begin, -1)
        return replace(problems, message=moved, errors=errors).last_of_each()

    def _at_end(self) -> Iterator[OwnedBatch]:
        """Yield a last batch, without messages, if the end of the input has an effect.

        It may complete a transaction, whose operations are then returned, or be an error because a
        transaction is open.
        """
        parsed = self._capture.at_end(self._state)
        self.notes |= parsed.notes
        none = np.zeros(0, np.int64)
        nothing = MessageBatch(pa.py_buffer(b""), none, none, none, none)
        problems = self._add_positions(parsed.problems[:1], nothing, 0)
        if len(problems) or parsed.batch.rows or len(parsed.skipped):
            yield OwnedBatch(
                messages=nothing,
                operations=parsed.batch,
                message=parsed.message,
                starts_unit=none.astype(bool),
                problems=problems,
                skipped=parsed.skipped,
            )


def count_skipped_of_range(skipped: SkippedMessages, files: MessageFiles) -> SkippedTotals:
    """Count the messages that a range of a capture skipped, by reason, with the location of the first ones."""
    if not len(skipped):
        return {}
    lined = np.array([files.is_lined(number) for number in np.unique(skipped.files).tolist()])
    alone = ~lined[np.unique(skipped.files, return_inverse=True)[1]]

    def place(at: int) -> Where:
        position = MessagePosition(int(skipped.files[at]), int(skipped.offsets[at]))
        return with_message_place(DecodeError(""), files, position).where

    return skipped.in_empty_files(alone).totals(place)


def _first(mask: Mask) -> int:
    """Return the index of the first True element of a mask, or its length if there is none."""
    indices = np.flatnonzero(mask)
    return int(indices[0]) if len(indices) else len(mask)


def encode_or_reject(
    encoding: Callable[[ChangeBatch], EncodedTrail | None], batch: ChangeBatch, message: Longs
) -> tuple[EncodedTrail | None, dict[int, TrailgateError]]:
    """Encode a batch of a range's operations as trail records, or find the messages that cannot be written.

    If encoding fails, returns None and the error of each message that cannot be written, by its number.
    `message` is the message of each operation.
    """
    if not batch.rows:
        return encoding(batch), {}
    isolation = BadRowIsolation(batch.rows)
    for rows in isolation:
        with isolation:
            # The first attempt covers all rows, and succeeds for good batches. Only after an error
            # does Isolation halve the rows.
            if len(rows) == batch.rows:
                return encoding(batch), {}
            number = np.arange(batch.rows)
            encoding(batch.where((number >= rows.start) & (number < rows.stop)))
    blamed: dict[int, TrailgateError] = {}
    for row, error in isolation.errors.items():
        blamed.setdefault(int(message[row]), error)
    return None, blamed


@dataclass(frozen=True, slots=True)
class BadUnits:
    """The bad units of a batch, in order, and the first error of each.

    Unit 0 is the unit that was open when the batch began. If it was already bad then, `before` is
    the reason, and `units` does not contain 0.
    """

    units: Longs
    errors: ErrorColumns
    before: str | None = None

    @staticmethod
    def of(bad: Problems, unit: Longs, before: str | None) -> BadUnits:
        """Find the units of a batch's bad messages. `unit` is the unit of each message.

        `before` is the reason for unit 0 if it was already bad before the batch.
        """
        # A message below 0 stands for the unit that was open before, 0. maximum only makes it an index.
        message = bad.message
        own = np.where(message < 0, 0, unit[np.maximum(message, 0)] if len(unit) else 0)
        # `first` is the index of the first bad message of each unit, whose error counts.
        units, first = first_of_each(own)
        if before is not None and len(units) and units[0] == 0:
            units, first = units[1:], first[1:]
        return BadUnits(units, bad.errors.take(first), before)

    def __contains__(self, unit: int) -> bool:
        return (unit == 0 and self.before is not None) or bool((self.units == unit).any())

    def reason(self, unit: int) -> str | None:
        """Return the reason why a unit of messages is bad, or None if it is good."""
        if unit == 0 and self.before is not None:
            return self.before
        at = np.flatnonzero(self.units == unit)
        return str(self.errors[int(at[0])]) if len(at) else None

    def contain(self, units: Longs) -> Mask:
        """Return a boolean mask with an element for each of `units`: whether the unit is bad."""
        bad: Mask = np.isin(units, self.units)
        return bad if self.before is None else bad | (units == 0)

    def reasons_of(self, units: Longs) -> pa.StringArray:
        """Return the reason for each of these units, which are all bad and ascend."""
        if self.before is None:
            return self.errors.take(np.searchsorted(self.units, units)).texts()
        others = self.errors.take(np.searchsorted(self.units, units[units > 0])).texts()
        before = pa.repeat(self.before, int((units == 0).sum()))
        return pa.concat_arrays([before, others])  # units ascend, so unit 0 comes first


NO_BAD_UNITS: Final = BadUnits(np.zeros(0, np.int64), ErrorColumns.of_errors(()))


@dataclass(frozen=True, slots=True)
class RangeReport:
    """The result of capturing one range, from which the capture is published.

    `segments` are the trail files that it wrote, and `quarantine` is the name of its quarantine
    file. `error` is the error that stopped the capture, if any. `start` is the position of the
    first message that it owns, and `end` of the first one that the next range owns. `ids` are its
    first, last and highest sequence id. `reasons` counts its bad messages; `errors` lists them in a
    dry run only.
    """

    index: int
    segments: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=dict)
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    quarantine: str | None = None
    error: TrailgateError | None = None
    start: MessagePosition | None = None
    end: MessagePosition | None = None
    id_length: int | None = None
    notes: frozenset[str] = frozenset()
    ids: SequenceIdSpan | None = None
    skipped_operations: int = 0
    repeated_operations: int = 0
    late_operations: int = 0
    duplicate_messages: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[TrailgateError, ...] = ()
    skipped: SkippedTotals = field(default_factory=dict)

    @property
    def skipped_messages(self) -> int:
        """The number of messages without operations in the range."""
        return count_skipped(self.skipped)


@dataclass(slots=True)
class _Unit:
    """The open unit of a range, to which later messages may still belong.

    `mark` is the state of the trail writer before the unit, to roll back to, `positions` are the
    positions of its messages, and `reason` is the reason why it is bad, if it is bad. `skipped` are
    its messages without operations.
    """

    mark: Mark = ()
    counts: Counts = field(default_factory=dict)
    transactions: int = 0
    positions: list[MessagePositions] = field(default_factory=list)
    reason: str | None = None
    skipped: SkippedTotals = field(default_factory=dict)


class RangeCapture:
    """Captures the messages of a range: writes good units as trail records, quarantines bad ones.

    Without a writer (in a dry run) it only parses and checks them.
    """

    def __init__(self, job: CaptureJob, owned: RangeReader, writer: SegmentWriter | None) -> None:
        self._owned, self._files, self._writer = owned, job.source, writer
        self._stop, self._encoding = job.options.on_error == "stop", job.target.encoding()
        self._ids = None if job.ids is None else SequenceIdCheck(job.ids, job.source)
        self._counts: Counts = {}
        self._skipped: SkippedTotals = {}
        self._transactions = self._messages = 0
        self._unit = _Unit()
        path = None if writer is None else writer.folder / f"{writer.stem}.quarantine"
        self._quarantine = QuarantineWriter(path, job.source)
        self._bad: list[ErrorColumns] = []  # in a dry run
        self._counted: Counter[str] = Counter()
        self._bad_units = NO_BAD_UNITS  # of the last batch

    def run(self, index: int) -> RangeReport:
        """Capture the range, and return its report. `index` is the number of the range."""
        try:
            for batch in self._owned.batches():
                error = self._process(batch)
                if error is not None:
                    self._close()
                    return RangeReport(index, error=error)
            return self._report(index)
        finally:
            self._quarantine.close()

    def _process(self, batch: OwnedBatch) -> TrailgateError | None:
        """Write the good units of a batch of messages to the trail, and quarantine the others.

        Return the error that stops the run, if any.
        """
        if self._ids is not None:
            try:
                fresh = self._ids.select_new(batch, self._owned.last)
            except TransactionError as disorder:
                return disorder
            if not fresh.all():
                operations, message = batch.operations.where(fresh), batch.message[fresh]
                batch = replace(batch, operations=operations, message=message)
        encoded, blamed = encode_or_reject(self._encoding, batch.operations, batch.message)
        for at, error in blamed.items():
            place = self._owned.last if at < 0 else position_of(batch.messages, at)
            with_message_place(error, self._files, place)
        found = Problems.of([Problem(at, error) for at, error in blamed.items()])
        bad = Problems.join([batch.problems, found]).last_of_each()
        # -1, the open unit, sorts first.
        if len(bad) and self._stop:
            return bad[0].error
        self._messages += len(batch.messages)
        unit = np.cumsum(batch.starts_unit, dtype=np.int64)  # 0 is the unit that was open before
        kept = self._quarantine_bad(batch, bad, unit)
        operations, message = batch.operations, batch.message
        # `message` is -1 for operations of the unit that was open before; -1 indexes the appended
        # last element, which is whether unit 0 is good.
        good = np.append(kept, 0 not in self._bad_units)[message]  # -1 is the last slot
        if encoded is None or not good.all():
            operations, message = operations.where(good), message[good]
            encoded, _ = encode_or_reject(self._encoding, operations, message)
        assert encoded is not None
        written = EncodedOperations(encoded, operations)
        # The messages of bad units are quarantined, and not skipped.
        skipped = batch.skipped
        skipped = skipped.where(np.append(kept, 0 not in self._bad_units)[skipped.message])
        if len(unit):
            self._write_units(replace(batch, skipped=skipped), written, message, unit)
        else:
            self._write(written, 0, operations.rows)
            self._skip(skipped)
        return None

    def _write_units(
        self, batch: OwnedBatch, written: EncodedOperations, message: Longs, unit: Longs
    ) -> None:
        """Write the operations of a batch, which all belong to good units, as trail records.

        Units before the last one are complete, so they can no longer be rolled back. The last one
        may continue in the next batch. `message` and `unit` are the message of each operation and
        the unit of each message.
        """
        # `last` is the first message of the last unit, and `cut` the first operation of these
        # messages.
        last, cut = int(np.searchsorted(unit, unit[-1])), 0
        if unit[-1] > 0:
            cut = int(np.searchsorted(message, last))
            self._write(written, 0, cut)
            self._skip(batch.skipped.where(batch.skipped.message < last))
            self._commit()
            mark = () if self._writer is None else self._writer.mark()
            self._unit = _Unit(mark, reason=self._bad_units.reason(int(unit[-1])))
        self._write(written, cut, written.operations.rows)
        # If the batch begins no unit, a message of an earlier batch (-1) is in this unit too.
        least = last if unit[-1] > 0 else -1
        self._skip(batch.skipped.where(batch.skipped.message >= least))
        messages = batch.messages
        self._unit.positions.append(
            MessagePositions(messages.files[last:], messages.offsets[last:])
        )

    def _quarantine_bad(self, batch: OwnedBatch, bad: Problems, unit: Longs) -> Mask:
        """Quarantine all messages of bad units. Return a mask of the messages in good units.

        `bad` are the problems of a batch's bad messages, and `unit` is the unit of each message.
        """
        if not len(bad) and self._unit.reason is None:
            self._bad_units = NO_BAD_UNITS
            return np.ones(len(unit), bool)
        self._bad_units = units = BadUnits.of(bad, unit, self._unit.reason)
        reason = units.reason(0)
        if self._unit.reason is None and reason is not None:
            self._drop_unit(reason)
        self._count(bad.errors)
        refused = units.contain(unit)
        rows = np.flatnonzero(refused)
        # Of the messages in bad units, those in `own` are bad themselves and have their own reason. The others
        # get the reason of their unit.
        own = np.isin(rows, bad.message)

        def reasons(part: slice) -> pa.StringArray:
            mine, places = own[part], np.searchsorted(bad.message, rows[part][own[part]])
            texts = bad.errors.take(places).texts()
            if mine.all():
                return texts
            others = units.reasons_of(unit[rows[part][~mine]])
            others = pc.binary_join_element_wise(OTHERS, others, "")
            # Reasons of the own rows come first here; `order` takes them back to the order of `rows`.
            order = np.argsort(np.append(np.flatnonzero(mine), np.flatnonzero(~mine)))
            return pa.concat_arrays([texts, others]).take(pa.array(order))

        self._quarantine.add(batch.messages, rows, reasons, batch.unreadable)
        return ~refused

    def _count(self, errors: ErrorColumns) -> None:
        """Count the errors of bad messages by reason. In a dry run, also keep the errors."""
        if self._writer is None:
            self._bad.append(errors)
        self._counted.update(errors.reasons())

    def _drop_unit(self, reason: str) -> None:
        """Roll back the trail records of the open unit, and quarantine its messages."""
        unit = self._unit
        if self._writer is not None:
            self._writer.rollback(unit.mark)
        for positions in unit.positions:
            self._quarantine.add_earlier(positions, OTHERS + reason)
        self._unit = _Unit(unit.mark, reason=reason)

    def _write(self, written: EncodedOperations, begin: int, stop: int) -> None:
        if begin == stop:
            return
        counts, transactions = count_operations(written.operations, begin, stop)
        self._unit.counts = add_counts(self._unit.counts, counts)
        self._unit.transactions += transactions
        if self._writer is not None:
            self._writer.append(written, begin, stop)

    def _skip(self, skipped: SkippedMessages) -> None:
        """Count messages without operations in the open unit."""
        if len(skipped):
            more = count_skipped_of_range(skipped, self._files)
            self._unit.skipped = add_skipped(self._unit.skipped, more)

    def _commit(self) -> None:
        self._counts = add_counts(self._counts, self._unit.counts)
        self._skipped = add_skipped(self._skipped, self._unit.skipped)
        self._transactions += self._unit.transactions

    def _close(self) -> Mark:
        return () if self._writer is None else self._writer.close()

    def _report(self, index: int) -> RangeReport:
        self._commit()
        reasons, quarantined = self._counted, self._quarantine.count
        # The other quarantined messages are good, but in a unit with a bad one.
        others = quarantined - reasons.total()
        if others > 0:
            reasons[WITH_OTHERS] = others
        return RangeReport(
            index,
            segments=self._close(),
            counts=self._counts,
            messages=self._messages,
            transactions=self._transactions,
            operations=sum(count for kinds in self._counts.values() for count in kinds.values()),
            quarantined=quarantined,
            quarantine=self._quarantine.close(),
            start=self._owned.start,
            end=self._owned.end,
            id_length=self._owned.id_length,
            notes=self._owned.notes,
            **({} if self._ids is None else self._ids.report()),
            duplicate_messages=self._owned.duplicates,
            reasons=dict(reasons),
            errors=tuple(error for errors in self._bad for error in errors),
            skipped=self._skipped,
        )


def run_range(job: CaptureJob, index: int, part: MessageRange | None = None) -> RangeReport:
    """Capture one range into the staging folder. The error of a bad message is part of the report.

    If `part` is given, it is captured instead of the range `job.ranges[index]`.
    """
    # A copied Capture builds its own parser: parsers are not shared between threads.
    message_ids = None if job.message_ids is None else MessageIds(job.message_ids)
    own, stops = part or job.ranges[index], job.options.on_error == "stop"
    owned = RangeReader(replace(job.capture), job.source, own, message_ids, stops=stops)
    if job.options.dry_run:
        return RangeCapture(job, owned, None).run(index)
    with job.target.staged_folder() as folder:
        writer = job.target.writer(folder, f"{index:06d}-{uuid.uuid4().hex[:8]}")
        return RangeCapture(job, owned, writer).run(index)
