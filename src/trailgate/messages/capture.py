"""Messages to operations: one object that parses batches of messages by given properties.

Parsing is all or nothing for a message: the good ones of a batch keep their speed, each bad
one its own error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import take_text
from trailgate.columnar.positions import numbered
from trailgate.errors import OptionError, TrailgateError
from trailgate.messages.extract.rules import CaptureRules
from trailgate.messages.extract.selection import TableSelections
from trailgate.messages.parsers import format_for
from trailgate.messages.parsing.isolating import isolate_bad
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageParser
from trailgate.messages.properties.metadata import MetadataOptions
from trailgate.messages.transactions.block_rows import one_row, taken
from trailgate.messages.transactions.bounds import (
    Problem,
    Transactions,
    TransactionState,
    chain,
    open_at_end,
)
from trailgate.messages.transactions.by_id import chain_by_id
from trailgate.messages.transactions.held import Held
from trailgate.messages.transactions.images import (
    image_notes,
    shaped,
    with_operation_types,
)
from trailgate.messages.transactions.raw_operations import RawOperations
from trailgate.messages.transactions.remaining import Remaining, remaining
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.tables import Definitions
from trailgate.operations.operations_table import to_operations
from trailgate.operations.values import parser_for

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
        """Return the operations as rows of the operations table."""
        return to_operations(self.batch)


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
            format_for(self.options),
            self.options,
            self.definitions,
            self.rules,
            now=self.now,
            first_file=self.first_file,
        )

    def __reduce__(self) -> tuple[object, ...]:
        members = (self.options, self.definitions, self.rules, self.now, self.first_file)
        return Capture, members

    @cached_property
    def _selections(self) -> TableSelections:
        return TableSelections(self.rules)

    @property
    def spans_messages(self) -> bool:
        """Return whether a transaction may span messages."""
        return self.options.spans_messages

    def check(self) -> None:
        """Raise DefinitionError for a column whose type cannot be captured, OptionError for a rule that does not fit."""
        for table in self.definitions:
            if self._selections.of(table) is not None:
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

    def parse(
        self,
        messages: MessageBatch,
        state: TransactionState | None = None,
        unreadable: tuple[Problem, ...] = (),
    ) -> Parsed:
        """Return the operations of the messages, transactions chained on from ``state``.

        Never raises for a bad message: it is in ``problems``, with those that are known to
        be ``unreadable`` already and have empty bodies.
        """
        isolated = isolate_bad(self._parser, messages)
        indicated, by_id = self.options.txind is not None, self.options.by_id
        raw = RawOperations.joined(isolated.parts, indicated=indicated, by_id=by_id)
        problems = (*unreadable, *isolated.problems)
        state = state or TransactionState()
        done = (chain_by_id if by_id else chain)(raw, len(messages), problems, state)
        hold = by_id or (self.spans_messages and not self.rules.takes_all)
        return self._finished(raw, done, remaining(raw, done, state, hold=hold), messages)

    def _finished(
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
            blocks.extend(self._shaped(rest.released))
            message, numbers = np.append(-1, message), numbers + 1
        for block in raw.blocks:
            picked = block if every else taken(block, np.flatnonzero(rest.captured[block.order]))
            if len(picked):
                placed = _placed(picked, raw, done, rest)
                blocks.extend(self._shaped(replace(placed, order=numbers[picked.order])))
            if rest.held_row >= 0 and (held := np.flatnonzero(block.order == rest.held_row)).size:
                one = _placed(one_row(block, int(held[0])), raw, done, rest)
                after = replace(after, held=Held(one, rest.held_first))
        problems = tuple(_sourced(problem, messages) for problem in done.problems)
        batch = ChangeBatch(tuple(blocks), len(message))
        marks, notes = done.marks, raw.notes.union(*map(image_notes, blocks))
        return Parsed(batch, message, marks.opens, marks.starts, problems, after, notes)

    def _shaped(self, block: ChangeBlock) -> Iterator[ChangeBlock]:
        """Yield what the trail gets of operations of one type."""
        selection = self._selections.of(block.table)
        assert selection is not None
        typed = with_operation_types(block) if selection.asks_types else block
        tokens = selection.with_tokens(typed).tokens
        return shaped(selection.without_columns(replace(block, tokens=tokens)), self.rules)

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end, from the notes of all that it parsed."""
        return self._parser.format.said(notes) | self.options.notes

    def finish(self, state: TransactionState) -> TrailgateError | None:
        """Return the error of a transaction that the input's end leaves open, if one is.

        Where transactions are known by their ids alone, the input's end is that of the last one: see ``ended``.
        """
        return None if self.options.by_id else open_at_end(state)

    def ended(self, state: TransactionState) -> ChangeBatch:
        """Return the operation that was held until the end of the input, if one was."""
        if not self.options.by_id or state.held is None or state.broken:
            return ChangeBatch((), 0)
        return ChangeBatch(tuple(self._shaped(state.held.released(last=True))), 1)


def _placed(
    block: ChangeBlock, raw: RawOperations, done: Transactions, rest: Remaining
) -> ChangeBlock:
    """Return operations with what is known of their transactions."""
    own_csn = done.csn is raw.seq_id
    given = block.seq_id
    return replace(
        block,
        tx_ind=rest.tx_ind[block.order],
        tx_id=take_text(done.tx_id, block.order),
        csn=given if own_csn else take_text(done.csn, block.order),
        seq_id=given if done.ordinals is None else numbered(given, done.ordinals[block.order]),
    )


def _sourced(problem: Problem, messages: MessageBatch) -> Problem:
    if problem.message >= 0:
        source, place = messages.place(problem.message)
        problem.error.located(source=source, message=place)
    return problem
