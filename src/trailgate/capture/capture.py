"""Parse batches of messages into operations.

One `Capture` object does this for one set of properties.

A message is parsed completely or not at all. The parser works on the whole batch and raises an
error at the first problem, so bad messages are removed step by step (`isolate_bad`):

- If one check finds several bad messages at once (`BadMessagesError`), they are removed and the
  rest of the batch is parsed again.
- If an error names only one record, the batch is halved until the bad message is alone.

The good messages are therefore still parsed at the speed of a batch, and each bad message gets its
own error.

After parsing, `chain_by_indicators` or `chain_by_id` groups the operations into transactions.
`TransactionState` passes an open transaction from one batch to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.capture.captured_operations import CapturedOperations, select_captured
from trailgate.capture.formats import parser_type_of
from trailgate.columnar.gather import take_text
from trailgate.columnar.numbers import append_ten_digits
from trailgate.columnar.rows import BadRowIsolation, distinct_numbers, first_of_each
from trailgate.errors import OptionError, TrailgateError
from trailgate.expressions.capture_rules import CaptureRules, TableSelections
from trailgate.messages.by_id import chain_by_id
from trailgate.messages.by_indicators import chain_by_indicators
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.images import image_notes, shape_images, with_operation_types
from trailgate.messages.message_batch import (
    TOMBSTONE,
    MessageBatch,
    MessageCutter,
    WaitingFormat,
)
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.parser import MessageParser
from trailgate.messages.problems import (
    NO_PROBLEMS,
    NOTHING_LATER,
    Lookahead,
    MessageErrors,
    Problem,
    Problems,
)
from trailgate.messages.raw_operations import RawOperations, ordered_length
from trailgate.messages.records import BadMessagesError
from trailgate.messages.segments import unended_problem
from trailgate.messages.skipped import NOT_SKIPPED, SkippedMessages
from trailgate.messages.units import ChainedTransactions, TransactionState, open_transaction_error
from trailgate.model.changes import BEGIN, RECORD_LENGTH, ChangeBatch, ChangeBlock
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Definitions
from trailgate.model.transactions import HeldOperation
from trailgate.model.values import parser_for
from trailgate.options import check_calls

EXAMINED: Final = (
    64  # messages with an error that names no record, in which an earlier one is sought
)


def isolate_bad(
    parser: MessageParser, messages: MessageBatch
) -> tuple[list[RawOperations], Problems]:
    """Parse a batch of messages, and parse it again without bad messages until the rest is good.

    Return the operations of its good messages, in order, and the problems of its bad ones.
    """
    parts: list[RawOperations] = []
    bad = MessageErrors()
    isolation = BadRowIsolation(len(messages))
    for rows in isolation:
        with isolation:
            parts += _parse_good(parser, messages, rows, bad)
    alone = MessageErrors(isolation.errors)
    if not bad and not alone:
        return parts, NO_PROBLEMS
    bad.add(*alone.first_of_each())
    numbers, errors = bad.first_of_each()
    errors = _with_first_records(parser, messages, numbers, errors)
    return parts, Problems.of_columns(numbers, errors, parser.ids_of(messages.only(numbers)))


def _with_first_records(
    parser: MessageParser, messages: MessageBatch, numbers: Longs, errors: ErrorColumns
) -> ErrorColumns:
    """Make the error of each bad captured message name the message's first faulty record.

    `numbers` are the bad messages. If a message has several faulty records, its error may name a
    later one, because each check runs over all records of the batch before the next check.
    """
    record = errors.column("record")
    later = np.flatnonzero(np.asarray(pc.fill_null(record, 1)) > 1)
    # An error of the syntax has no record, and may be in any. Few such messages are examined, because
    # each takes longer than a good one.
    unknown = np.flatnonzero(np.asarray(record.is_null()))[:EXAMINED]
    rows = np.sort(np.append(later, unknown))
    offsets = np.asarray(pc.fill_null(errors.column("offset"), 0))[rows]
    if not offsets.any():
        return errors
    earlier = parser.format.records_before(messages, numbers[rows], offsets)
    if earlier is None:
        return errors
    # Each record is a message now, so this call ends here.
    _, problems = isolate_bad(parser, earlier.batch)
    if not len(problems):
        return errors
    owners, first = first_of_each(earlier.message[problems.message])
    faulty = problems.message[first]
    own = problems.errors.take(first)
    offset = pc.add(pc.fill_null(own.column("offset"), 0), pa.array(earlier.offset[faulty]))
    own = own.replace(record=earlier.number[faulty], offset=offset)
    which = np.arange(len(errors))
    which[rows[owners]] = len(errors) + np.arange(len(owners))
    return ErrorColumns.join([errors, own]).take(which)


def _parse_good(
    parser: MessageParser, messages: MessageBatch, rows: range, bad: MessageErrors
) -> list[RawOperations]:
    """Parse a range of captured messages without those in `bad`.

    Bad messages found on the way are added to it.
    """
    numbers = np.arange(rows.start, rows.stop)
    if bad:
        numbers = numbers[~np.isin(numbers, bad.first_of_each()[0])]
    while len(numbers):
        part = messages.slice(rows.start, rows.stop)
        if len(numbers) < len(part):
            # Message i of the remaining batch was `numbers[i]` before, so `numbers[i] - i` messages
            # were removed ahead of it. Example: of 0, 1, 2, 3 message 1 is bad: numbers = [0, 2,
            # 3], removed = [0, 1, 1].
            removed = numbers - np.arange(len(numbers))
            part = replace(messages.only(numbers), removed=removed)
        try:
            raw = parser.parse(part)
        except BadMessagesError as several:
            bad.add(numbers[several.messages], several.columns)
            numbers = np.delete(numbers, several.messages)
        else:
            # Nothing was removed and the batch was not halved: messages have their numbers already.
            if len(numbers) == len(messages):
                return [raw]
            skipped = raw.skipped.with_numbers(numbers[raw.skipped.message])
            return [replace(raw, message=numbers[raw.message], skipped=skipped)]
    return []


__all__ = ["Capture", "MessageBatch", "Parsed", "Problem", "TransactionState"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The operations of a batch of messages, grouped into transactions.

    `batch` contains the operations, and `problems` are the errors of bad messages. `state` is the
    state after the batch, for parsing the next one.

    `message` is the index in the batch of each operation's message. It is -1 for an operation of an
    earlier batch that was held back until it was known whether its transaction has another captured
    operation. `opens` marks the messages that begin a transaction, and `starts_unit` the messages
    that begin a unit (messages that are captured or rejected together).

    `batch` excludes the operations of bad messages, but not the operations of other messages of the
    same unit: the caller drops incomplete units. A problem with message -1 belongs to the unit that
    was open before this batch. `notes` are warnings that a run reports once. `skipped` are the
    messages that contain no operation.
    """

    batch: ChangeBatch
    message: Longs
    opens: Mask
    starts_unit: Mask
    problems: Problems
    state: TransactionState
    notes: frozenset[str] = frozenset()
    skipped: SkippedMessages = NOT_SKIPPED

    def operations(self) -> pa.RecordBatch:
        """Convert the operations to rows of the operations table.

        A token whose value is known only when its record is written (RECORDLENGTH) is null.
        """
        blocks = [replace(block, tokens=_known(block.tokens)) for block in self.batch.blocks]
        return to_operations(ChangeBatch(blocks, self.batch.rows))


def _known(tokens: pa.MapArray | None) -> pa.MapArray | None:
    """Return user tokens with null instead of the placeholder for a record's length.

    The length (RECORDLENGTH) is known only when the record is written.
    """
    if tokens is None:
        return None
    later = pc.equal(tokens.items, RECORD_LENGTH).fill_null(False)
    if not pc.any(later).as_py():
        return tokens
    values = pc.if_else(later, pa.scalar(None, pa.string()), tokens.items)
    return pa.MapArray.from_arrays(tokens.offsets, tokens.keys, values)


@check_calls
@dataclass(frozen=True)
class Capture:
    """A capture: the options, definitions and rules by which a worker parses messages.

    It can be pickled.

    `now` is the value of `*ts`, in microseconds since 1970 UTC. `first_file` is added to the
    numbers of source files, so that generated ids continue where an earlier run ended.
    """

    options: MetadataOptions
    definitions: Definitions
    rules: CaptureRules = field(default_factory=CaptureRules)
    now: int = 0
    first_file: int = 0

    @cached_property
    def _parser(self) -> MessageParser:
        return MessageParser(
            format=parser_type_of(self.options).format(self.options),
            options=self.options,
            definitions=self.definitions,
            rules=self.rules,
            now=self.now,
            first_file=self.first_file,
        )

    @cached_property
    def _waiting_format(self) -> WaitingFormat | None:
        """The message format if its messages may have to wait for later ones, otherwise None."""
        own = self._parser.format
        return own if isinstance(own, WaitingFormat) else None

    def __reduce__(self) -> tuple[object, ...]:
        members = (self.options, self.definitions, self.rules, self.now, self.first_file)
        return Capture, members

    @cached_property
    def spans_messages(self) -> bool:
        """Whether a transaction may span several captured messages."""
        return self.options.spans_messages

    @property
    def cutter(self) -> MessageCutter | None:
        """The cutter for messages too large for memory, or None if the message format has no cutter."""
        return parser_type_of(self.options).cutter(self.options)

    @property
    def tables(self) -> Definitions:
        """The definitions of the captured tables."""
        wanted = (table for table in self.definitions if self.rules.wants(table.name))
        return Definitions(tuple(wanted), self.definitions.database)

    def unmatched_warnings(self) -> list[str]:
        """Return a warning for each TABLE statement of the capture that matches no defined table.

        Returns [] if no table is defined.
        """
        known = sorted({table.name for table in self.definitions})
        return self.rules.unmatched_warnings(known) if known else []

    def check(self) -> None:
        """Check the types of all captured columns, and the rules.

        Raises DefinitionError if a column has a type that cannot be captured, OptionError if
        transactions are excluded by an owner or a name that the messages do not have.
        """
        selections = TableSelections(self.rules)
        for table in self.definitions:
            if selections.of(table) is not None:
                for column in table.columns:
                    parser_for(column)
        given = (self.options.txowner, self.options.txname)
        for name, source, left_out in zip(
            ("txowner", "txname"), given, (self.rules.users, self.rules.transactions), strict=True
        ):
            if left_out and source is None:
                problem = f"transactions are excluded by {name}, which the properties do not set"
                hint = f"Set {name}, or remove EXCLUDEUSER and EXCLUDETRANS"
                raise OptionError(problem, hint=hint)

    def state_after(
        self, csn: str | None, *, broken: bool = False, bad: str | None = None
    ) -> TransactionState:
        """Return the state in which new messages follow the last transaction of a trail.

        `broken` means that the messages may continue a bad unit. `bad` is the id of the transaction
        at the end of that unit, if it is known.
        """
        length = None
        if self.options.has_sequence_ids and csn:
            length = ordered_length(csn, by_id=self.options.by_id)
        return TransactionState(tx_id=bad, csn=bad, broken=broken, id_length=length)

    def parse(
        self,
        messages: MessageBatch,
        state: TransactionState | None = None,
        unreadable: Sequence[Problem] = (),
    ) -> Parsed:
        """Parse messages into operations, continuing the open transaction of `state`.

        Never raises for a bad message: its error is in `problems`. `unreadable` are the problems of
        messages that are already known to be bad (their bodies are empty); they are included.
        Tombstones are not problems if the format supports them.

        If messages may have to wait for later ones, for example for the rest of a large object, the
        waiting messages are kept in the returned state.
        """
        unreadable = Problems.of(unreadable)
        if self.options.has_tombstones and len(unreadable):
            other = pc.not_equal(unreadable.errors.column("problem"), TOMBSTONE)
            unreadable = unreadable.where(np.asarray(other))
        state, holding = state or TransactionState(), self._waiting_format
        if holding is None:
            return self._parse(messages, state, unreadable)
        waiting = state.waiting
        # `before` messages wait from earlier batches; this batch's messages are numbered after
        # them.
        before = sum(map(len, waiting))
        unreadable = Problems.join([Problems.of(state.unreadable), unreadable.moved(before)])
        # For example, parts of a large object arrived, but it is not complete yet: parse nothing.
        if waiting and holding.continues(messages):
            waits = replace(state, waiting=(*waiting, messages), unreadable=unreadable)
            return _all_waiting(messages, waits)
        every = MessageBatch.join((*waiting, messages))
        complete = holding.complete(every)
        # Messages [0, count) are parsed now, the others wait. `later` describes the waiting ones.
        count, later = complete.count, complete.later
        parsed = self._parse(
            every.slice(0, count),
            replace(state, waiting=(), unreadable=()),
            unreadable.where(unreadable.message < count),
            later.of_first(count),
        )
        result = _of_this_batch(parsed, every, before)
        if count == len(every):
            return result
        after, following = parsed.state, later.following
        if after.tx_id is None and after.broken:  # the waiting messages belong to that unit
            after = replace(after, tx_id=following, csn=following)
        elif count >= before and following not in (None, after.tx_id):
            # The first waiting message has another transaction id than the last parsed one, so it
            # begins a transaction and a unit. `count - before` is its index in this batch.
            result.opens[count - before] = result.starts_unit[count - before] = True
        waiting = (every.slice(count, len(every)),)
        still_bad = unreadable.where(unreadable.message >= count).moved(-count)
        return replace(result, state=replace(after, waiting=waiting, unreadable=still_bad))

    def _parse(
        self,
        messages: MessageBatch,
        state: TransactionState,
        unreadable: Problems,
        later: Lookahead = NOTHING_LATER,
    ) -> Parsed:
        parts, bad = isolate_bad(self._parser, messages)
        indicated, by_id = self.options.txind is not None, self.options.by_id
        raw = RawOperations.join(parts, indicated=indicated, by_id=by_id)
        # An unreadable message has an empty body, which is an error of some formats too.
        bad = bad.without_messages(unreadable.message)
        problems = Problems.join([unreadable, bad])
        if by_id:
            own = self.options.operation_ids
            done = chain_by_id(raw, len(messages), problems, state, operation_ids=own, later=later)
        else:
            spans = self.spans_messages
            done = chain_by_indicators(raw, len(messages), problems, state, spans=spans)
        # The last operation of an open transaction is held back if its indicator may still change:
        # because the transaction's end is unknown (by id), or because later operations may be
        # excluded.
        hold = by_id or (self.spans_messages and not self.rules.takes_all)
        return self._finish(raw, done, select_captured(raw, done, state, hold=hold), messages)

    def _finish(
        self,
        raw: RawOperations,
        done: ChainedTransactions,
        rest: CapturedOperations,
        messages: MessageBatch,
    ) -> Parsed:
        blocks: list[ChangeBlock] = []
        after, every = rest.state, bool(rest.captured.all())
        # `numbers` maps a row of `raw` to its row among the captured ones: [1, 0, 1] becomes [0, 0,
        # 1].
        message, numbers = (
            (raw.message, np.arange(len(raw.message)))
            if every
            else (raw.message[rest.captured], np.cumsum(rest.captured) - 1)
        )
        # The released operation comes first and belongs to an earlier message (-1); all others move
        # by one.
        if rest.released is not None:
            blocks.append(self._shape(rest.released))
            message, numbers = np.append(-1, message), numbers + 1
        for block in raw.blocks:
            picked = block if every else block.take(np.flatnonzero(rest.captured[block.order]))
            if len(picked):
                order = numbers[picked.order]
                blocks.append(self._shape(_with_transactions(picked, raw, done, rest, order)))
            if rest.held_row >= 0 and (held := np.flatnonzero(block.order == rest.held_row)).size:
                held_block = block.take(held)
                one = _with_transactions(held_block, raw, done, rest, held_block.order)
                after = replace(after, held=HeldOperation(one, int(one.tx_ind[0]) == BEGIN))
        problems = _with_sources(done.problems, messages)
        batch = ChangeBatch(tuple(blocks), len(message))
        marks, notes = done.marks, raw.notes.union(*map(image_notes, blocks))
        return Parsed(
            batch=batch,
            message=message,
            opens=marks.opens,
            starts_unit=marks.starts,
            problems=problems,
            state=after,
            notes=notes,
            skipped=raw.skipped.without_messages(problems.message),
        )

    def _shape(self, block: ChangeBlock) -> ChangeBlock:
        """Apply the rules of the table (TABLE statements, COLS, TOKENS ...) to a block of one operation type."""
        selection = self._parser.selections.of(block.table)
        assert selection is not None
        # TOKENS may depend on the operation type, so key updates are marked for them. The block
        # itself stays unmarked, because `shape_images` marks key updates later.
        typed = with_operation_types(block) if selection.asks_types else block
        tokens = selection.with_tokens(typed).tokens
        with_tokens = block if tokens is block.tokens else replace(block, tokens=tokens)
        return shape_images(selection.without_columns(with_tokens), self.rules)

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Combine the notes of all parsed batches into the warnings that a run prints at its end."""
        return self._parser.format.warnings(notes) | self.options.notes

    def warnings_of_part(self, notes: frozenset[str]) -> frozenset[str]:
        """Return the warnings that are certain after a part of a run, for example a range of its messages."""
        return self._parser.format.warnings_of_part(notes)

    def finish(self, state: TransactionState) -> TrailgateError | None:
        """Build the error for captured input that ends too early: in a transaction or with waiting messages.

        Returns None if it ends correctly.
        """
        problems = self.at_end(state).problems
        return problems[0].error if problems else None

    def at_end(self, state: TransactionState) -> Parsed:
        """Complete the captured input: parse waiting messages and release a held operation.

        The result has the form of a result for a batch without messages.

        If transactions are identified only by their ids, the end of the input ends the last one,
        and its last operation is released. Problems are the errors of input that ends too early.
        """
        nothing = MessageBatch(pa.py_buffer(b""), *np.zeros((4, 0), np.int64))
        if not self.options.by_id:
            error = open_transaction_error(state)
            ended = Problems.of(() if error is None else (Problem(-1, error),))
            return replace(_all_waiting(nothing, state), problems=ended)
        parsed, waiting = _all_waiting(nothing, state), state.waiting
        if waiting:
            every = MessageBatch.join(waiting)
            assert self._waiting_format is not None
            # Nothing follows: messages that still wait for a part are now incomplete.
            later = replace(self._waiting_format.complete(every).later, following=None)
            alone = replace(state, waiting=(), unreadable=())
            parsed = self._parse(every, alone, Problems.of(state.unreadable), later)
            parsed = _of_this_batch(parsed, every, len(every))
        open_still = unended_problem(parsed.state)
        if open_still is not None:
            problems = Problems.join([parsed.problems, Problems.of([open_still])])
            return replace(parsed, problems=problems)
        held = parsed.state.held
        if held is None or parsed.state.broken:
            return parsed
        # The held operation is the last one of its transaction: release it with that indicator.
        batch, after = parsed.batch, replace(parsed.state, held=None)
        last = self._shape(held.release(last=True))
        blocks = (*batch.blocks, replace(last, order=last.order + batch.rows))
        return replace(
            parsed,
            batch=ChangeBatch(blocks, batch.rows + 1),
            message=np.append(parsed.message, -1),
            state=after,
        )


def _with_transactions(
    block: ChangeBlock,
    raw: RawOperations,
    done: ChainedTransactions,
    rest: CapturedOperations,
    order: Longs,
) -> ChangeBlock:
    """Fill in the transaction columns of a block of captured operations.

    `block.order` are the rows of its operations in `raw`, `done` and `rest`, and `order` their
    numbers in the new batch.
    """
    # The same object: the CSN is the sequence id, which the block has already. Nothing needs to be
    # copied.
    own_csn = done.csn is raw.seq_id
    given = block.seq_id
    return block.with_columns(
        order=order,
        tx_ind=rest.tx_ind[block.order],
        tx_id=take_text(done.tx_id, block.order),
        csn=given if own_csn else take_text(done.csn, block.order),
        seq_id=given
        if done.ordinals is None
        else append_ten_digits(given, done.ordinals[block.order]),
    )


def _all_waiting(messages: MessageBatch, state: TransactionState) -> Parsed:
    """Return the result for a batch whose messages must all wait for later ones: it contains no operations yet."""
    none = np.zeros(len(messages), bool)
    return Parsed(
        batch=ChangeBatch((), 0),
        message=np.zeros(0, np.int64),
        opens=none,
        starts_unit=none,
        problems=NO_PROBLEMS,
        state=state,
    )


def _of_this_batch(parsed: Parsed, messages: MessageBatch, before: int) -> Parsed:
    """Renumber the result of parsing so that message 0 is the first message of this batch.

    `parsed` is the result for `messages`. The first `before` of them come from earlier batches, and
    the last ones may not be parsed yet. A problem in an earlier message gets message number -1, and
    its file and offset are in `place`.
    """
    if not before and len(parsed.opens) == len(messages):
        return parsed
    opens, starts = np.zeros(len(messages), bool), np.zeros(len(messages), bool)
    opens[: len(parsed.opens)], starts[: len(parsed.opens)] = parsed.opens, parsed.starts_unit
    problems = parsed.problems
    # Problems in earlier messages [0, before) keep their position; others are only renumbered, and
    # -1 stays -1.
    earlier = (problems.message >= 0) & (problems.message < before)
    files, offsets = problems.files.copy(), problems.offsets.copy()
    files[earlier] = messages.files[problems.message[earlier]]
    offsets[earlier] = messages.offsets[problems.message[earlier]]
    number = np.maximum(problems.message - before, -1)
    problems = replace(problems, message=number, files=files, offsets=offsets)
    return replace(
        parsed,
        message=np.maximum(parsed.message - before, -1),
        opens=opens[before:],
        starts_unit=starts[before:],
        problems=problems,
        skipped=parsed.skipped.with_numbers(np.maximum(parsed.skipped.message - before, -1)),
    )


def _with_sources(problems: Problems, messages: MessageBatch) -> Problems:
    """Add the source and the offset of its message to each problem of a captured batch."""
    own = problems.message >= 0
    if not own.any():
        return problems
    rows = problems.message[own]
    sources: str | pa.Array = messages.source
    if not sources:
        numbers, which = distinct_numbers(messages.files[rows])
        names = pa.array([f"file {number}" for number in numbers.tolist()], pa.string())
        sources = names[0].as_py() if len(names) == 1 else names.take(pa.array(which))
    placed = problems.errors.take(np.flatnonzero(own))
    placed = placed.with_place(source=sources, message=messages.offsets[rows])
    if own.all():
        return replace(problems, errors=placed)
    # The two parts are joined one after the other; `order` takes them back to their original order. Example:
    # own = [1, 0, 1] joins the rows 0, 2, 1, and the order [0, 2, 1] restores 0, 1, 2.
    order = np.argsort(np.append(np.flatnonzero(own), np.flatnonzero(~own)), kind="stable")
    others = problems.errors.take(np.flatnonzero(~own))
    return replace(problems, errors=ErrorColumns.join([placed, others]).take(order))
