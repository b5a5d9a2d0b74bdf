"""The transactions of operations: where each begins and ends, and which messages are captured or refused together.

Input are the operations of a batch in the order of their messages (`RawOperations`). `chain_by_indicators` gives
each operation its indicator, its transaction id and its commit sequence number (CSN):

- Without an indicator property (txind), the operations of one message are one transaction.
- With one, a transaction may span several messages, or a message may have several transactions.
  Transactions are contiguous and never interleaved.

Contradictions, such as a begin inside a transaction, become problems of messages; the first problem
of each message counts. `TransactionState` is what is open after a batch; the next batch continues
from it. The begin and end logic itself is in `model/transactions.py`, shared with trails.

A *unit* is a set of messages that are captured or refused together (decision 0012). A unit begins
at a message that begins a transaction, and at a message before which nothing is open
(`unit_marks`). So an unreadable message never takes a finished transaction with it.

Some formats cut a long transaction into numbered messages. `check_segments` reports a missing,
repeated or unfinished one. IBM's documentation does not define the first number, nor whether
messages of single rows are numbered. Numbers of event publishing messages are therefore compared
only with the number before (`is_redelivered_start`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import take_text
from trailgate.columnar.rows import find_row_without_mark, first_other, text_view
from trailgate.errors import TrailgateError, TransactionError
from trailgate.messages.problems import FoundProblems, Problem, Problems
from trailgate.model.changes import ChangeBlock, indicators
from trailgate.model.kernels import BEGINS, BEGINS_INSIDE, ENDS
from trailgate.model.transactions import (
    FollowedTransactions,
    HeldOperation,
    find_begin_rows,
    follow,
    indicator_marks,
    mask_ends,
)

if TYPE_CHECKING:
    from trailgate.messages.messages import MessageBatch

AUTO: Final = "auto"
ROW: Final = "row"
NO_NUMBER: Final = -1
SEVERAL: Final = 0  # instead of a digest: the message has more than one operation
_ONCE_OR_TWICE: Final = (
    "With event_publishing.content=row both are rows of the transaction; with content=transaction the second one is a "
    "repeated message, and is skipped"
)
_DISORDER: Final = "A redelivered transaction begins with the same message number as before. Are the messages in order?"


NO_TEXT: Final = pa.array([], pa.string())

# Separates the ordered part of a transaction's sequence id from the transaction's own id.
POINT: Final = "."
ONE_MESSAGE: Final = "One message is one transaction unless an indicator (txind) marks where transactions begin and end"
INTERLEAVED: Final = "Transactions must be contiguous: each begins after the one before has ended"
_LOST: Final = "Was a message lost, or published again after a restart?"


@dataclass(frozen=True, slots=True)
class MessageBoundaries:
    """Facts about the operations on both sides of each boundary between messages, and about the first and last one.

    `rows` are these operations' row numbers, ascending. `numbers` are the numbers of their
    messages. `digests` are hashes of the bytes of an operation that is alone in its message.
    `content` is what a message has: "transaction", "row", or "auto" if that must be detected.
    """

    content: str
    rows: Longs
    numbers: Longs
    digests: Longs

    @staticmethod
    def join(parts: Sequence[tuple[MessageBoundaries, int]]) -> MessageBoundaries:
        """Concatenate parts. Each comes with the number of operations before it."""
        return MessageBoundaries(
            parts[0][0].content,
            np.concatenate([part.rows + before for part, before in parts]),
            np.concatenate([part.numbers for part, _ in parts]),
            np.concatenate([part.digests for part, _ in parts]),
        )


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The number of the last message and the digest of its last operation.

    `first` is set if that is the first operation of its transaction. `began` is the number of the
    transaction's first message, or `NO_NUMBER` if it is unknown.
    """

    number: int
    digest: int
    first: bool
    began: int


def last_message(boundaries: MessageBoundaries, opens: Mask, began: int) -> LastMessage:
    """Return the last message, to which the next batch is compared."""
    # The last element of `rows` is the batch's last operation.
    row = int(boundaries.rows[-1])
    return LastMessage(
        int(boundaries.numbers[-1]), int(boundaries.digests[-1]), bool(opens[row]), began
    )


def is_redelivered_start(content: str, before: LastMessage, after: LastMessage) -> bool:
    """Return whether a transaction is redelivered from its start at the second of two adjacent messages.

    Both messages have operations of the same transaction. Raises TransactionError if a message is
    missing or the numbers contradict each other.
    """
    if content == ROW or NO_NUMBER in (before.number, after.number):
        return False
    # Examples of (before, after): 2, 3 continues. 1, 4 lacks messages 2 and 3. With content=row 2,
    # 2 are two rows. 5, 1 begins again if the transaction began with message 1.
    if after.number > before.number + 1:
        problem = (
            f"message {after.number:04} of a transaction follows its message {before.number:04}"
        )
        hint = "Messages are missing, or event_publishing.content=row: then numbers mean nothing"
        raise TransactionError(problem, hint=hint)
    if after.number == before.number + 1:
        return False
    alone = SEVERAL not in (before.digest, after.digest)
    if after.number == before.number and content == AUTO and alone:
        if before.first and before.digest == after.digest:
            problem = f"two messages of a transaction, numbered {after.number:04}, are the same"
            raise TransactionError(problem, hint=_ONCE_OR_TWICE)
        return False
    if before.began not in (NO_NUMBER, after.number):
        problem = (
            f"message {after.number:04} of a transaction follows its message {before.number:04}, "
            f"and the transaction began with message {before.began:04}"
        )
        raise TransactionError(problem, hint=_DISORDER)
    return True


@dataclass(frozen=True, slots=True)
class RawOperations:
    """Operations before they are grouped into transactions. Arrays have one element per operation.

    Each of the `blocks` has one operation type, or inserts and updates without before values; ids
    and indicators are still to be filled in. An operation that is not captured is in no block. With
    `by_id`, operations of one transaction are consecutive and have the same `seq_id`, and only the
    end marks of `tx_ind` count.

    `excluded` is 1 for operations of excluded users and transactions, and -1 for operations
    without a user or transaction name. `tx_ids_generated` is one value for all operations, or one for each.
    `notes` are warnings that a run reports once. `segments` is the number, from 1, of an
    operation's message in its transaction, if messages are numbered.
    """

    blocks: tuple[ChangeBlock, ...]
    message: Longs
    tx_ind: Octets | None
    tx_id: pa.Array
    seq_id: pa.Array
    tx_ids_generated: bool | Mask
    excluded: Longs | None = None
    notes: frozenset[str] = frozenset()
    by_id: bool = False
    segments: Longs | None = None
    boundaries: MessageBoundaries | None = None

    @staticmethod
    def join(
        parts: Sequence[RawOperations], *, indicated: bool, by_id: bool = False
    ) -> RawOperations:
        """Concatenate parts in the order of their messages.

        `indicated` and `by_id` describe the result if there are no parts.
        """
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.zeros(0, np.int64)
            marked = np.zeros(0, np.uint8) if indicated else None
            return RawOperations(
                blocks=(),
                message=none,
                tx_ind=marked,
                tx_id=NO_TEXT,
                seq_id=NO_TEXT,
                tx_ids_generated=True,
                by_id=by_id,
            )
        blocks, before, boundaries = [], 0, []
        for raw in parts:
            boundaries += [] if raw.boundaries is None else [(raw.boundaries, before)]
            blocks += [replace(b, order=b.order + before) for b in raw.blocks]
            before += len(raw.message)
        marks = [raw.tx_ind for raw in parts if raw.tx_ind is not None]
        segments = [raw.segments for raw in parts if raw.segments is not None]
        excluded = [raw.excluded for raw in parts if raw.excluded is not None]
        return RawOperations(
            blocks=tuple(blocks),
            message=np.concatenate([raw.message for raw in parts]),
            tx_ind=np.concatenate(marks) if marks else None,
            tx_id=pa.concat_arrays([raw.tx_id for raw in parts]),
            seq_id=pa.concat_arrays([raw.seq_id for raw in parts]),
            tx_ids_generated=_are_generated([raw.tx_ids_generated for raw in parts]),
            excluded=np.concatenate(excluded) if excluded else None,
            notes=frozenset().union(*(raw.notes for raw in parts)),
            by_id=parts[0].by_id,
            segments=np.concatenate(segments) if segments else None,
            boundaries=MessageBoundaries.join(boundaries) if boundaries else None,
        )


def _are_generated(parts: Sequence[bool | Mask]) -> bool | Mask:
    """Concatenate the `tx_ids_generated` of consecutive parts."""
    masks = [part for part in parts if not isinstance(part, bool)]
    return np.concatenate(masks) if masks else parts[0]


@dataclass(frozen=True, slots=True)
class MessageUnitMarks:
    """For each message, whether its first operation `opens` a transaction and whether it `starts` a unit.

    `closed` is set if nothing is open after the last message.
    """

    opens: Mask
    starts: Mask
    closed: bool = True

    @property
    def numbers(self) -> Longs:
        """Each message's unit number; 0 is the unit that was open before the batch."""
        return np.cumsum(self.starts, dtype=np.int64)

    def is_broken(self, bad: Longs, *, before: bool) -> bool:
        """Return whether the last unit is broken: one of its messages is `bad`, or it was broken `before`."""
        # Example: starts [1, 0, 1] gives the units [1, 1, 2]; messages before the first start are
        # in unit 0.
        unit = self.numbers
        last = int(unit[-1]) if len(unit) else 0
        return (last == 0 and before) or bool((unit[bad[bad >= 0]] == last).any())


def unit_marks(  # noqa: PLR0913  columns
    message: Longs,
    opens: Mask,
    ends: Mask,
    opened: Mask,
    unreadable: Longs,
    *,
    is_open: bool,
    awaiting: Mask | None = None,
) -> MessageUnitMarks:
    """Find the units of messages.

    `message`, `opens` and `ends` have one element per operation: its message, and whether it begins
    or ends a transaction. `opened` has one element per message. It is already set for unreadable
    messages that are known to open a transaction, and is filled in for the others.

    A message starts a unit if it opens a transaction, or if nothing is open before it. Something is
    open after a message if its last operation does not end a transaction; a message without
    operations changes nothing. After an unreadable message something may be open. After an
    `awaiting` message, to which later messages may add parts, something is open until the next
    message that opens a transaction.

    Example: four messages, B = begin, M = middle, E = end:

        message      0: B M   1: E    2: unreadable   3: B E
        opens        True     False   False           True
        open after   True     False   True            False
        starts       True     False   True            True
    """
    # `last[m]` is the row of the last operation up to message m, and `last - counts + 1` the row of
    # its first one.
    counts = np.bincount(message, minlength=len(opened))
    last = np.cumsum(counts) - 1  # operation, up to each message
    some = counts > 0
    opened[some] = opens[(last - counts + 1)[some]]
    open_after = np.zeros(len(opened), bool)
    open_after[some] = ~ends[last[some]]
    open_after[unreadable] = True
    known = some.copy()
    known[unreadable] = True
    number = np.arange(len(opened))
    if awaiting is not None:
        # For each message, the number of the last awaiting message and of the last message that
        # opens a transaction, up to and including itself.
        begun, waits = (np.where(mask, number, -1) for mask in (opened, awaiting))
        waits, begun = np.maximum.accumulate(waits), np.maximum.accumulate(begun)
        awaited = (waits >= 0) & (waits >= begun)
        open_after |= awaited
        known |= awaited
    # Messages without operations take over the state of the last known message before them, or
    # `is_open` if there is none.
    of = np.maximum.accumulate(np.where(known, number, -1))
    open_after = np.where(of < 0, is_open, open_after[of])
    starts = opened | ~np.append(is_open, open_after)[:-1]
    return MessageUnitMarks(opened, starts, not np.append(is_open, open_after)[-1])


@dataclass(frozen=True, slots=True)
class TransactionState:
    """What is open after a batch: a transaction, or a unit that is already broken.

    `held` and `excluded` belong to the open transaction; see `model/transactions.py`. If
    transactions are known by their ids, `count` is the number of its operations so far. `segment`
    is the number of its last message, if messages have segment numbers, and `last` describes that
    message otherwise. `waiting` are messages of the open unit that wait for later ones;
    `unreadable` are the problems of the bad ones among them.
    """

    tx_id: str | None = None
    csn: str | None = None
    broken: bool = False
    id_length: int | None = None
    held: HeldOperation | None = None
    excluded: bool = False
    count: int = 0
    segment: int = 0
    last: LastMessage | None = None
    waiting: tuple[MessageBatch, ...] = ()
    unreadable: Sequence[Problem] = ()

    @property
    def is_open(self) -> bool:
        """Whether the next message continues the unit before it."""
        return self.tx_id is not None or self.broken or bool(self.waiting)


@dataclass(frozen=True, slots=True)
class ChainedTransactions:
    """The result of `chain_by_indicators`: each operation's indicator and ids, and which operations are kept.

    `ordinals` number the operations of each transaction, if sequence ids are built from them.
    `ended_before` is set if the transaction open before the batch has ended without another
    operation.
    """

    tx_ind: npt.NDArray[np.uint8]
    tx_id: pa.Array
    csn: pa.Array
    kept: Mask
    marks: MessageUnitMarks
    problems: Problems
    state: TransactionState
    ordinals: Longs | None = None
    ended_before: bool = False


def open_transaction_error(state: TransactionState) -> TrailgateError | None:
    """Return the error of a transaction that is still open at the end of the input, or None."""
    if state.tx_id is None or state.broken:
        return None
    return TransactionError(
        f"transaction {state.tx_id} has not ended at the end of the input",
        hint="Its last operation must carry the end indicator (txind.endval)",
    )


def chain_by_indicators(
    raw: RawOperations, messages: int, problems: Iterable[Problem], state: TransactionState
) -> ChainedTransactions:
    """Group operations into transactions by indicators.

    Adds the problems found to the problems of the parser.
    """
    bad = FoundProblems(problems)
    unreadable = bad.messages
    length = check_lengths(raw, bad, state.id_length)
    if raw.tx_ind is None:
        # True for the first operation of each message. The slices with `[: len(...)]` cut the
        # arrays to length 0 if there are no operations.
        new = np.append(True, raw.message[1:] != raw.message[:-1])[: len(raw.message)]
        # Every message is a complete transaction: its first operation begins it, its last one ends
        # it.
        letters = indicators(new, np.append(new[1:], True)[: len(new)])
        followed = follow(indicator_marks(letters))
        every = np.ones(messages, bool)
        marks, state = MessageUnitMarks(every, every), TransactionState()
    else:
        letters = raw.tx_ind
        followed = follow(indicator_marks(letters), is_open=state.is_open)
        opens, ends = followed.marks & BEGINS != 0, followed.marks & ENDS != 0
        opened = np.zeros(messages, bool)
        marks = unit_marks(raw.message, opens, ends, opened, unreadable, is_open=state.is_open)
    return _check(raw, followed, letters, marks, bad, replace(state, id_length=length))


def check_lengths(
    raw: RawOperations,
    bad: FoundProblems,
    length: int | None,
    *,
    operation_ids: bool = False,
) -> int | None:
    """Add a problem to every message with a sequence id of another length than the first one.

    Ids are compared as text, which is their order only if all have the same length. Returns that
    length.
    """
    if not len(raw.message):
        return length
    if raw.by_id and not operation_ids:
        # Fast path: one kernel call checks that every id has a point at this width.
        width = raw.seq_id[0].as_py().find(POINT) if length is None else length
        if width >= 0 and find_row_without_mark(raw.seq_id, width, POINT) < 0:
            return int(width)
        lengths = np.asarray(ordered_lengths(raw.seq_id))
    else:
        lengths = np.diff(text_view(raw.seq_id)[0])
    length = int(lengths[0]) if length is None else length
    for i in np.flatnonzero(lengths != length).tolist():
        error = TransactionError(
            f"sequence id {raw.seq_id[i].as_py()} has {lengths[i]} characters, but those before have {length}",
            hint="seqid must have a fixed length, because ids are compared as text",
        )
        bad.add(int(raw.message[i]), error)
    return length


def ordered_lengths(ids: pa.Array) -> pa.Array:
    """Return the length of the ordered part of each sequence id: the characters before the first point.

    After the point follows the transaction's own id, whose length may vary.
    """
    points = pc.find_substring(ids, POINT)
    return pc.if_else(pc.less(points, 0), pc.binary_length(ids), points)


def ordered_length(own: str, *, by_id: bool) -> int:
    """Return the length of the ordered part of one id. Only with `by_id` does a point end it."""
    return len(own.partition(POINT)[0]) if by_id else len(own)


def kept_operations(raw: RawOperations, bad: FoundProblems) -> Mask:
    """Return the mask of operations whose messages are good."""
    if not bad:
        return np.ones(len(raw.message), bool)
    return ~np.isin(raw.message, bad.messages)


def _check(
    raw: RawOperations,
    followed: FollowedTransactions,
    letters: Octets,
    marks: MessageUnitMarks,
    bad: FoundProblems,
    state: TransactionState,
) -> ChainedTransactions:
    """Complete the operations' transactions.

    Messages that contradict earlier ones become problems.
    """
    unit = marks.numbers
    opens = followed.marks & BEGINS != 0
    unended = _find_unended(raw, followed, marks)
    _check_bounds(raw, followed, unended, unit, bad, state)
    tx_id = first_values(raw.tx_id, opens, state.tx_id)
    csn = first_values(raw.seq_id, opens, state.csn)
    _check_members(raw, tx_id, bad)
    _check_contiguous(raw, opens, bad)
    _check_ends(raw, unended, unit, bad, state)
    after = TransactionState(id_length=state.id_length)
    if not marks.closed:
        after = _open_after(raw, tx_id, csn, marks, bad, state)
    return ChainedTransactions(
        tx_ind=letters,
        tx_id=tx_id,
        csn=csn,
        kept=kept_operations(raw, bad),
        marks=marks,
        problems=bad.every(),
        state=after,
    )


def _find_unended(
    raw: RawOperations, followed: FollowedTransactions, marks: MessageUnitMarks
) -> Mask:
    """Return the mask of operations that begin a unit although a transaction is open.

    Only the open one is bad.
    """
    first = np.append(True, raw.message[1:] != raw.message[:-1])[: len(raw.message)]
    unended: Mask = (followed.faults == BEGINS_INSIDE) & first & marks.opens[raw.message]
    return unended


def _check_bounds(
    raw: RawOperations,
    followed: FollowedTransactions,
    unended: Mask,
    unit: Longs,
    bad: FoundProblems,
    state: TransactionState,
) -> None:
    """Add a problem for each operation that begins inside a transaction or continues outside one.

    All operations after it in the same unit are bad too.
    """
    unit_of = unit[raw.message]
    rows = np.flatnonzero((followed.faults != 0) & ~unended)
    # For each unit, the row of its first wrong operation; len(own) if there is none. Assigning in
    # reverse order lets the first one win.
    since = np.full(len(unit) + 1, len(unit_of))  # by unit: its first wrong operation
    since[unit_of[rows[::-1]]] = rows[::-1]
    wrong = np.arange(len(unit_of)) >= since[unit_of]
    # Unit 0 is broken already, so its contradictions mean nothing.
    if state.broken:
        wrong &= unit_of != 0
    for i in np.flatnonzero(wrong).tolist():
        begins = followed.marks[i] & BEGINS
        what = "begins inside another one" if begins else "continues without having begun"
        error = TransactionError(f"transaction {raw.tx_id[i].as_py()} {what}", hint=INTERLEAVED)
        bad.add(int(raw.message[i]), error)


def first_values(values: pa.Array, opens: Mask, before: str | None) -> pa.Array:
    """Replace each value by the value of its transaction's first operation.

    `before` is the value of the transaction open before.
    """
    if opens.all():
        return values
    begin = find_begin_rows(opens)
    if begin[0] >= 0:
        # In most batches all values of a transaction are equal: then no copy is needed.
        alike = not values.null_count and first_other(values, begin) < 0
        return values if alike else take_text(values, begin)
    # Rows of the transaction that was open before have begin -1: take null, then fill in its value.
    taken = values.take(pa.array(begin, mask=begin < 0))
    return taken if before is None else pc.fill_null(taken, before)


def _check_members(raw: RawOperations, tx_id: pa.Array, bad: FoundProblems) -> None:
    """Add a problem to each message whose operations have different ids within one transaction."""
    if raw.tx_ids_generated is True or raw.tx_id is tx_id:
        return
    hint = INTERLEAVED if raw.tx_ind is not None else ONE_MESSAGE
    # A null id has nothing to compare. Generated ids differ by construction and are ignored.
    differs = ~np.asarray(pc.fill_null(pc.equal(raw.tx_id, tx_id), True))
    differs &= ~np.asarray(raw.tx_ids_generated)
    for i in np.flatnonzero(differs).tolist():
        error = TransactionError(
            f"transaction {raw.tx_id[i].as_py()} within transaction {tx_id[i].as_py()}",
            hint=hint,
        )
        bad.add(int(raw.message[i]), error)


def _check_contiguous(raw: RawOperations, opens: Mask, bad: FoundProblems) -> None:
    """Add a problem to each message in which a transaction's id returns after another one."""
    begun = np.flatnonzero(opens)
    own = raw.message[begun]
    if raw.tx_ids_generated is True or not (own[2:] == own[:-2]).any():
        return
    codes = np.asarray(pc.fill_null(raw.tx_id.take(begun).dictionary_encode().indices, -1))
    # Sorted by message, then by id; equal ids stay in their order. Two neighbours with the same id
    # that are more than one transaction apart have another one between them.
    order = np.lexsort((codes, own))
    before, after = order[:-1], order[1:]
    again = (own[before] == own[after]) & (codes[before] == codes[after]) & (after - before > 1)
    again &= codes[after] >= 0
    written = np.broadcast_to(~np.asarray(raw.tx_ids_generated), opens.shape)[begun]
    for i in np.sort(begun[after[again & written[after]]]).tolist():
        error = TransactionError(
            f"transaction {raw.tx_id[i].as_py()} continues after another one", hint=INTERLEAVED
        )
        bad.add(int(raw.message[i]), error)


def _check_ends(
    raw: RawOperations,
    unended: Mask,
    unit: Longs,
    bad: FoundProblems,
    state: TransactionState,
) -> None:
    """Add a problem to each unit whose transaction is still open when the next unit begins."""
    for row in np.flatnonzero(unended).tolist():
        before = int(raw.message[row - 1]) if row else -1
        if state.broken and (not row or unit[before] == 0):
            continue
        own = raw.tx_id[row - 1].as_py() if row else state.tx_id
        problem = f"transaction {own} has not ended when the next one begins"
        bad.add(before, TransactionError(problem, hint=INTERLEAVED))


def _open_after(
    raw: RawOperations,
    tx_id: pa.Array,
    csn: pa.Array,
    marks: MessageUnitMarks,
    bad: FoundProblems,
    state: TransactionState,
) -> TransactionState:
    """Return the state after messages of which the last may leave a transaction open."""
    if marks.is_broken(bad.messages, before=state.broken):
        # A broken unit is skipped to its end, whatever is open in it.
        return TransactionState(broken=True, id_length=state.id_length)
    unit = marks.numbers
    if not len(raw.message) or unit[raw.message[-1]] != unit[-1]:
        return state
    return replace(state, tx_id=tx_id[-1].as_py(), csn=csn[-1].as_py(), broken=False)


def check_segments(
    raw: RawOperations,
    opens: Mask,
    unreadable: Longs,
    bad: FoundProblems,
    state: TransactionState,
) -> int:
    """Check that segment numbers follow each other: 1, 2, 3 ... in each transaction.

    `opens` marks the operations that begin a transaction. `unreadable` are messages that may have
    any operations. Returns the last segment of the transaction open at the end, or 0.
    """
    segments, message = raw.segments, raw.message
    if segments is None or not len(segments):
        return 0 if len(unreadable) else state.segment
    before = np.append(state.segment, segments[:-1])
    ended = _ends(raw.tx_ind, len(segments))
    # Whether a transaction with segments is open before each row.
    open_before = np.append(state.segment > 0, ~ended[:-1]) & (before > 0)
    first = np.append(True, message[1:] != message[:-1])
    expected = np.where(opens, 1, before + 1)
    # Checked only at the first operation of a message: a new transaction begins with segment 1,
    # others follow the segment before. A segment of 0 is not numbered.
    wrong = first & (segments > 0) & (segments != expected) & (opens | (before > 0))
    unended = first & opens & open_before
    last = np.append(-1, message[:-1])
    for row in np.flatnonzero(wrong | unended).tolist():
        if ((unreadable >= last[row]) & (unreadable < message[row])).any():
            continue  # what is missing may be in it
        if unended[row]:
            bad.add(int(last[row]), missing_end_error())
        if wrong[row]:
            error = _out_of_order(raw, row, int(before[row]), opens=bool(opens[row]))
            bad.add(int(message[row]), error)
    if ended[-1] or (len(unreadable) and unreadable[-1] > message[-1]):
        return 0
    return int(segments[-1])


def missing_end_error() -> TransactionError:
    """Return the error of a transaction whose last segment is missing when the next transaction begins."""
    problem = "the previous transaction has not ended when the next one begins"
    return TransactionError(problem, hint=_LOST)


def unended_problem(state: TransactionState) -> Problem | None:
    """Return the problem of a transaction whose last segment is missing at the end of the input, or None."""
    if not state.segment or state.broken:
        return None
    problem = f"transaction {state.tx_id} has not ended at the end of the input: segment {state.segment} is not its last one"
    return Problem(-1, TransactionError(problem, hint="Capture its other messages with it"))


def _ends(indicator: Octets | None, count: int) -> Mask:
    return np.zeros(count, bool) if indicator is None else mask_ends(indicator)


def _out_of_order(raw: RawOperations, row: int, before: int, *, opens: bool) -> TransactionError:
    assert raw.segments is not None
    own, name = int(raw.segments[row]), raw.seq_id[row].as_py()
    if opens:
        problem = f"transaction {name} begins with segment {own}"
    else:
        problem = f"segment {own} follows segment {before} of transaction {name}"
    return TransactionError(problem, hint=_LOST)
