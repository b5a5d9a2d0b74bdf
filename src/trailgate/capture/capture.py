"""Messages to operations: one object that parses batches of messages by given properties.

Parsing is all or nothing for a message: the good ones of a batch keep their speed, each bad one its own error. Where a check finds all bad
messages at once they are left out, and the rest is parsed again. Only for an error of one place is the batch halved, until the bad message is alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.capture.formats import row_of
from trailgate.columnar.digits import with_numbers
from trailgate.columnar.gather import take_text
from trailgate.columnar.rows import Isolation
from trailgate.errors import OptionError, TrailgateError
from trailgate.expressions.selection import CaptureRules, TableSelections
from trailgate.messages.bounds import (
    Problem,
    RawOperations,
    Transactions,
    TransactionState,
    chain,
    open_at_end,
    ordered_length,
    unended_problem,
)
from trailgate.messages.by_id import NOTHING_LATER, Later, Remaining, chain_by_id, remaining
from trailgate.messages.images import image_notes, shape, with_operation_types
from trailgate.messages.messages import (
    TOMBSTONE,
    Holding,
    MessageBatch,
    MessageCutter,
)
from trailgate.messages.parser import MessageParser
from trailgate.messages.properties import MetadataOptions
from trailgate.messages.records import BadMessagesError
from trailgate.model.changes import BEGIN, RECORD_LENGTH, ChangeBatch, ChangeBlock
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Definitions
from trailgate.model.transactions import Held
from trailgate.model.values import parser_for


def isolate_bad(
    parser: MessageParser, messages: MessageBatch
) -> tuple[list[RawOperations], list[Problem]]:
    """Return the operations of a batch's good messages, in order, and the problems of the bad ones."""
    parts: list[RawOperations] = []
    bad: dict[int, TrailgateError] = {}
    isolation = Isolation(len(messages))
    for rows in isolation:
        with isolation:
            parts += _parse_good(parser, messages, rows, bad)
    every = bad | isolation.errors
    if not every:
        return parts, []
    numbers = np.array(sorted(every), np.int64)
    ids = dict(zip(numbers.tolist(), parser.ids_of(messages.only(numbers)), strict=True))
    return parts, [Problem(number, error, ids[number]) for number, error in every.items()]


def _parse_good(
    parser: MessageParser, messages: MessageBatch, rows: range, bad: dict[int, TrailgateError]
) -> list[RawOperations]:
    """Return the operations of the messages of a part that are not ``bad``; those that one check finds to be are added to these."""
    numbers = np.arange(rows.start, rows.stop)
    if bad:
        numbers = numbers[~np.isin(numbers, list(bad))]
    while len(numbers):
        part = messages.slice(rows.start, rows.stop)
        if len(numbers) < len(part):
            left_out = numbers - np.arange(len(numbers))
            part = replace(messages.only(numbers), left_out=left_out)
        try:
            raw = parser.parse(part)
        except BadMessagesError as several:
            bad.update((int(numbers[at]), error) for at, error in several.errors.items())
            numbers = np.delete(numbers, list(several.errors))
        else:
            return [replace(raw, message=numbers[raw.message])]
    return []


__all__ = ["Capture", "MessageBatch", "Parsed", "Problem", "TransactionState"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The operations of a batch of messages, with their transactions worked out.

    ``message`` is each operation's message (an index into the batch); -1 is a message before the batch, whose operation
    was held until it was known whether another one of its transaction is captured. ``opens`` marks the messages
    that begin a transaction, ``starts_unit`` those that begin a unit. Operations of messages with a problem are not
    in ``batch``; those of other messages of the same unit are: dropping a unit is the caller's
    part. A problem's message is -1 where it lies in the unit that was open before this batch. ``notes`` are what a
    run notes once about its messages.
    """

    batch: ChangeBatch
    message: Longs
    opens: Mask
    starts_unit: Mask
    problems: tuple[Problem, ...]
    state: TransactionState
    notes: frozenset[str] = frozenset()

    def operations(self) -> pa.RecordBatch:
        """Return the operations as rows of the operations table.

        A token whose value is known only when its record is written (RECORDLENGTH) is null.
        """
        blocks = [replace(block, tokens=_known(block.tokens)) for block in self.batch.blocks]
        return to_operations(ChangeBatch(blocks, self.batch.rows))


def _known(tokens: pa.MapArray | None) -> pa.MapArray | None:
    """Return tokens with null for the values that the writer of their records fills in."""
    if tokens is None:
        return None
    later = pc.equal(tokens.items, RECORD_LENGTH).fill_null(False)
    if not pc.any(later).as_py():
        return tokens
    values = pc.if_else(later, pa.scalar(None, pa.string()), tokens.items)
    return pa.MapArray.from_arrays(tokens.offsets, tokens.keys, values)


@dataclass(frozen=True)
class Capture:
    """What is needed to parse messages: options, definitions and rules; it travels to workers.

    ``now`` is what ``*ts`` gives, in microseconds since 1970 UTC. ``first_file`` is added to the
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
            row_of(self.options).format(self.options),
            self.options,
            self.definitions,
            self.rules,
            self.now,
            self.first_file,
        )

    def __reduce__(self) -> tuple[object, ...]:
        members = (self.options, self.definitions, self.rules, self.now, self.first_file)
        return Capture, members

    @cached_property
    def spans_messages(self) -> bool:
        """Return whether a transaction may span messages."""
        return self.options.spans_messages

    @property
    def cutter(self) -> MessageCutter | None:
        """Return what cuts messages that are too long for memory, None where there are none such."""
        return row_of(self.options).cutter(self.options)

    @property
    def tables(self) -> Definitions:
        """Return the definitions of the tables that are captured."""
        wanted = (table for table in self.definitions if self.rules.wants(table.name))
        return Definitions(tuple(wanted), self.definitions.database)

    def check(self) -> None:
        """Raise DefinitionError for a column whose type cannot be captured, OptionError for a rule that does not fit."""
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
                problem = f"transactions are left out by {name}, which the properties do not have"
                hint = f"Set {name}, or remove EXCLUDEUSER and EXCLUDETRANS"
                raise OptionError(problem, hint=hint)

    def state_after(
        self, csn: str | None, *, broken: bool = False, bad: str | None = None
    ) -> TransactionState:
        """Return the state with which messages follow a trail's last transaction.

        ``broken``: they may continue a bad unit; ``bad`` is the id of the transaction that it ends with, where that is known.
        """
        length = None
        if self.options.gives_ids and csn:
            length = ordered_length(csn, by_id=self.options.by_id)
        return TransactionState(tx_id=bad, csn=bad, broken=broken, id_length=length)

    def parse(
        self,
        messages: MessageBatch,
        state: TransactionState | None = None,
        unreadable: tuple[Problem, ...] = (),
    ) -> Parsed:
        """Return the operations of the messages, transactions chained on from ``state``.

        Never raises for a bad message: it is in ``problems``, with those that are known to
        be ``unreadable`` already and have empty bodies. Tombstones are none of these if the format has them.
        """
        if self.options.has_tombstones:
            unreadable = tuple(one for one in unreadable if one.error.problem != TOMBSTONE)
        state, holding = state or TransactionState(), self._parser.format
        if not isinstance(holding, Holding):
            return self._parse(messages, state, unreadable)
        waiting = state.waiting
        before = sum(map(len, waiting))
        unreadable = (*state.unreadable, *_move(unreadable, before))
        if waiting and holding.continues(messages):
            waits = replace(state, waiting=(*waiting, messages), unreadable=unreadable)
            return _nothing(messages, waits)
        every = MessageBatch.join((*waiting, messages))
        complete = holding.complete(every)
        count, later = complete.count, complete.later
        parsed = self._parse(
            every.slice(0, count),
            replace(state, waiting=(), unreadable=()),
            tuple(problem for problem in unreadable if problem.message < count),
            later.of_first(count),
        )
        found = _of_batch(parsed, every, before)
        if count == len(every):
            return found
        after, following = parsed.state, later.following
        if after.tx_id is None and after.broken:  # what waits is of the same unit
            after = replace(after, tx_id=following, csn=following)
        elif count >= before and following not in (None, after.tx_id):
            found.opens[count - before] = found.starts_unit[count - before] = True
        waiting = (every.slice(count, len(every)),)
        still_bad = _move([p for p in unreadable if p.message >= count], -count)
        return replace(found, state=replace(after, waiting=waiting, unreadable=still_bad))

    def _parse(
        self,
        messages: MessageBatch,
        state: TransactionState,
        unreadable: tuple[Problem, ...],
        later: Later = NOTHING_LATER,
    ) -> Parsed:
        parts, bad = isolate_bad(self._parser, messages)
        indicated, by_id = self.options.txind is not None, self.options.by_id
        raw = RawOperations.join(parts, indicated=indicated, by_id=by_id)
        problems = (*unreadable, *bad)
        if by_id:
            own = self.options.operation_ids
            done = chain_by_id(raw, len(messages), problems, state, operation_ids=own, later=later)
        else:
            done = chain(raw, len(messages), problems, state)
        hold = by_id or (self.spans_messages and not self.rules.takes_all)
        return self._finish(raw, done, remaining(raw, done, state, hold=hold), messages)

    def _finish(
        self, raw: RawOperations, done: Transactions, rest: Remaining, messages: MessageBatch
    ) -> Parsed:
        blocks: list[ChangeBlock] = []
        message, numbers, after = (
            raw.message[rest.captured],
            np.cumsum(rest.captured) - 1,
            rest.state,
        )
        every = bool(rest.captured.all())
        if rest.released is not None:
            blocks.extend(self._shape(rest.released))
            message, numbers = np.append(-1, message), numbers + 1
        for block in raw.blocks:
            picked = block if every else block.take(np.flatnonzero(rest.captured[block.order]))
            if len(picked):
                order = numbers[picked.order]
                blocks.extend(self._shape(_place(picked, raw, done, rest, order)))
            if rest.held_row >= 0 and (held := np.flatnonzero(block.order == rest.held_row)).size:
                own = block.take(held)
                one = _place(own, raw, done, rest, own.order)
                after = replace(after, held=Held(one, int(one.tx_ind[0]) == BEGIN))
        problems = tuple(_source(problem, messages) for problem in done.problems)
        batch = ChangeBatch(tuple(blocks), len(message))
        marks, notes = done.marks, raw.notes.union(*map(image_notes, blocks))
        return Parsed(batch, message, marks.opens, marks.starts, problems, after, notes)

    def _shape(self, block: ChangeBlock) -> Iterator[ChangeBlock]:
        """Yield what the trail gets of operations of one type."""
        selection = self._parser.selections.of(block.table)
        assert selection is not None
        typed = with_operation_types(block) if selection.asks_types else block
        tokens = selection.with_tokens(typed).tokens
        with_tokens = block if tokens is block.tokens else replace(block, tokens=tokens)
        return shape(selection.without_columns(with_tokens), self.rules)

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end, from the notes of all that it parsed."""
        return self._parser.format.warnings(notes) | self.options.notes

    def finish(self, state: TransactionState) -> TrailgateError | None:
        """Return the error of what the input's end leaves open, if anything is: a transaction, or messages that wait for others."""
        problems = self.at_end(state).problems
        return problems[0].error if problems else None

    def at_end(self, state: TransactionState) -> Parsed:
        """Return what the end of the input ends, as of a batch without messages, or the error of what it leaves open.

        Where transactions are known by their ids alone it ends the last one.
        """
        nothing = MessageBatch(pa.py_buffer(b""), *np.zeros((4, 0), np.int64))
        if not self.options.by_id:
            error = open_at_end(state)
            problems = () if error is None else (Problem(-1, error),)
            return replace(_nothing(nothing, state), problems=problems)
        parsed, waiting = _nothing(nothing, state), state.waiting
        if waiting:
            every = MessageBatch.join(waiting)
            assert isinstance(self._parser.format, Holding)
            later = replace(self._parser.format.complete(every).later, following=None)
            alone = replace(state, waiting=(), unreadable=())
            parsed = self._parse(every, alone, state.unreadable, later)
            parsed = _of_batch(parsed, every, len(every))
        open_still = unended_problem(parsed.state)
        if open_still is not None:
            return replace(parsed, problems=(*parsed.problems, open_still))
        held = parsed.state.held
        if held is None or parsed.state.broken:
            return parsed
        batch, after = parsed.batch, replace(parsed.state, held=None)
        last = self._shape(held.release(last=True))
        blocks = (*batch.blocks, *(replace(b, order=b.order + batch.rows) for b in last))
        return replace(
            parsed,
            batch=ChangeBatch(blocks, batch.rows + 1),
            message=np.append(parsed.message, -1),
            state=after,
        )


def _place(
    block: ChangeBlock, raw: RawOperations, done: Transactions, rest: Remaining, order: Longs
) -> ChangeBlock:
    """Return operations with what is known of their transactions, and their places in the batch."""
    own_csn = done.csn is raw.seq_id
    given = block.seq_id
    return replace(
        block,
        order=order,
        tx_ind=rest.tx_ind[block.order],
        tx_id=take_text(done.tx_id, block.order),
        csn=given if own_csn else take_text(done.csn, block.order),
        seq_id=given if done.ordinals is None else with_numbers(given, done.ordinals[block.order]),
    )


def _move(problems: Iterable[Problem], by: int) -> tuple[Problem, ...]:
    """Return problems of messages that have so many more before them."""
    return tuple(replace(problem, message=problem.message + by) for problem in problems)


def _nothing(messages: MessageBatch, state: TransactionState) -> Parsed:
    """Return what messages give that wait: no operations yet."""
    none = np.zeros(len(messages), bool)
    return Parsed(ChangeBatch((), 0), np.zeros(0, np.int64), none, none, (), state)


def _of_batch(parsed: Parsed, messages: MessageBatch, before: int) -> Parsed:
    """Return what was parsed of messages, of which the first are ``before`` the batch, and of the last none may have been parsed."""
    if not before and len(parsed.opens) == len(messages):
        return parsed
    opens, starts = np.zeros(len(messages), bool), np.zeros(len(messages), bool)
    opens[: len(parsed.opens)], starts[: len(parsed.opens)] = parsed.opens, parsed.starts_unit
    problems = tuple(
        replace(problem, message=max(problem.message - before, -1))
        if not 0 <= problem.message < before
        else replace(
            problem,
            message=-1,
            place=(int(messages.files[problem.message]), int(messages.offsets[problem.message])),
        )
        for problem in parsed.problems
    )
    return replace(
        parsed,
        message=np.maximum(parsed.message - before, -1),
        opens=opens[before:],
        starts_unit=starts[before:],
        problems=problems,
    )


def _source(problem: Problem, messages: MessageBatch) -> Problem:
    if problem.message >= 0:
        source, place = messages.place(problem.message)
        problem.error.with_place(source=source, message=place)
    return problem
