"""A batch of the messages that a range owns, with their operations and problems."""

from __future__ import annotations

from dataclasses import dataclass

from trailgate.arrays import Longs, Mask
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.problems import NO_PROBLEMS, Problems
from trailgate.messages.skipped import NOT_SKIPPED, SkippedMessages
from trailgate.model.changes import ChangeBatch


@dataclass(frozen=True, slots=True)
class OwnedBatch:
    """A batch of the messages that a range of a capture owns, and their operations.

    `starts_unit` marks the messages that begin a unit: a unit is a set of messages that are
    captured or quarantined together. The first unit may have begun in the previous batch, and the
    last unit may continue in the next batch. An operation with `message` -1 belongs to an earlier
    message of the open unit. `problems` are in the order of their messages, one for each bad
    message; message -1 is the unit that was open before the batch. `unreadable` are the problems of
    messages that could not be read, with their raw bytes. `skipped` are the messages without
    operations.
    """

    messages: MessageBatch
    operations: ChangeBatch
    message: Longs
    starts_unit: Mask
    problems: Problems
    unreadable: Problems = NO_PROBLEMS
    skipped: SkippedMessages = NOT_SKIPPED
