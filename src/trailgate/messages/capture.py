"""Messages to operations: one object that parses batches of messages by given properties.

Parsing is all or nothing for a message: the good ones of a batch keep their speed, each bad
one its own error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import take_text
from trailgate.errors import TrailgateError
from trailgate.messages.parsers import format_for
from trailgate.messages.parsing.isolating import isolate_bad
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageParser
from trailgate.messages.properties.extract import CaptureRules
from trailgate.messages.properties.metadata import MetadataOptions
from trailgate.messages.transactions.block_rows import taken
from trailgate.messages.transactions.bounds import (
    Problem,
    Transactions,
    TransactionState,
    chain,
    open_at_end,
)
from trailgate.messages.transactions.images import image_notes, shaped
from trailgate.messages.transactions.raw_operations import RawOperations
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.tables import Definitions
from trailgate.operations.operations_table import to_operations
from trailgate.operations.values import parser_for

__all__ = ["Capture", "MessageBatch", "Parsed", "Problem", "TransactionState"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The operations of a batch of messages, with their transactions worked out.

    ``message`` is each operation's message (an index into the batch). ``opens`` marks the messages
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

    @property
    def spans_messages(self) -> bool:
        """Return whether a transaction may span messages (an indicator is configured)."""
        return self.options.txind is not None

    def check(self) -> None:
        """Raise DefinitionError for a column whose type cannot be captured."""
        for table in self.definitions:
            if self.rules.wants(table.name):
                for column in table.columns:
                    parser_for(column)

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
        raw = RawOperations.joined(isolated.parts, indicated=self.spans_messages)
        problems = (*unreadable, *isolated.problems)
        done = chain(raw, len(messages), problems, state or TransactionState())
        return self._finished(raw, done, messages)

    def _finished(self, raw: RawOperations, done: Transactions, messages: MessageBatch) -> Parsed:
        blocks: list[ChangeBlock] = []
        wanted = done.kept
        numbers = np.cumsum(wanted) - 1
        for block in raw.blocks:
            rows = np.flatnonzero(wanted[block.order])
            picked = taken(block, rows)
            if not len(picked):
                continue
            own_csn = done.csn is raw.seq_id
            placed = replace(
                picked,
                order=numbers[picked.order],
                tx_ind=done.tx_ind[picked.order],
                tx_id=take_text(done.tx_id, picked.order),
                csn=picked.seq_id if own_csn else take_text(done.csn, picked.order),
            )
            blocks.extend(shaped(placed, self.rules))
        problems = tuple(_sourced(problem, messages) for problem in done.problems)
        batch = ChangeBatch(tuple(blocks), int(wanted.sum()))
        marks, notes = done.marks, raw.notes.union(*map(image_notes, blocks))
        return Parsed(
            *(batch, raw.message[wanted], marks.opens, marks.starts, problems, done.state, notes)
        )

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end, from the notes of all that it parsed."""
        return self._parser.format.said(notes) | self.options.notes

    def finish(self, state: TransactionState) -> TrailgateError | None:
        """Return the error of a transaction that the input's end leaves open, if one is."""
        return open_at_end(state)


def _sourced(problem: Problem, messages: MessageBatch) -> Problem:
    if problem.message >= 0:
        source, place = messages.place(problem.message)
        problem.error.located(source=source, message=place)
    return problem
