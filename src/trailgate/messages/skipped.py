"""Messages that contain no operation: their numbers in a batch, the reason, and their totals in a run.

A parser finds them (`SkippedMessages`), because only it knows the records of a message. A run adds
them up by reason (`SkippedTotals`) and prints for each reason the number of messages and the place
of the first one (decision 0149). Messages that a format names in its notes, such as tombstones, are
not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, octets
from trailgate.columnar.gather import gather
from trailgate.errors import count_noun
from trailgate.messages.message_batch import MessageBatch


class SkipReason(Enum):
    """The reason why a message contains no operation and is skipped.

    A value is the predicate of a sentence, such as "is empty", for one message and for several.
    """

    EMPTY = "is empty", "are empty"
    # Its note is the one of empty files, which names the file.
    EMPTY_FILE = "is an empty file", "are empty files"
    MARK = "contains only a byte order mark", "contain only a byte order mark"
    BLANK = "contains only blanks", "contain only blanks"
    EMPTY_ARRAY = "contains only an array without elements", "contain only arrays without elements"
    NO_MATCH = "matches no rule of an operation", "match no rule of an operation"
    NO_RECORD = "contains no record", "contain no record"


_REASONS: Final = tuple(SkipReason)
_HINTS: Final = {SkipReason.NO_MATCH: ". trailgate explain shows why"}


class SkippedCount(NamedTuple):
    """The number of messages that were skipped for one reason, and the place of the first one."""

    messages: int
    first: str


SkippedTotals = Mapping[SkipReason, SkippedCount]


@dataclass(frozen=True, slots=True, eq=False)
class SkippedMessages:
    """The messages of a batch that contain no operation, in order.

    `message` is -1 for a message of an earlier batch, which had to wait for later ones. `reason` is
    an index into the members of `SkipReason`. `files` and `offsets` are the messages' positions.
    """

    message: Longs
    reason: Longs
    files: Longs
    offsets: Longs

    @staticmethod
    def of(messages: MessageBatch, numbers: Longs, other: SkipReason) -> SkippedMessages:
        """Find the reason why these messages of a batch contain no operation.

        `other` is the reason for a message that is neither empty nor blank.
        """
        if not len(numbers):
            return NOT_SKIPPED
        marked = messages.without_marks()
        starts, ends = marked.starts[numbers], marked.ends[numbers]
        bodies = gather(octets(messages.data), starts, ends).view("string")
        content = pc.binary_length(pc.ascii_trim_whitespace(bodies)).to_numpy()
        reason = np.where(content == 0, _number(SkipReason.BLANK), _number(other))
        reason[starts == ends] = _number(SkipReason.MARK)
        reason[messages.starts[numbers] == ends] = _number(SkipReason.EMPTY)
        return SkippedMessages(numbers, reason, messages.files[numbers], messages.offsets[numbers])

    @staticmethod
    def join(parts: Sequence[SkippedMessages]) -> SkippedMessages:
        """Concatenate the skipped messages of several parts of a batch."""
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else NOT_SKIPPED
        names = ("message", "reason", "files", "offsets")
        return SkippedMessages(
            *(np.concatenate([getattr(part, name) for part in filled]) for name in names)
        )

    def __len__(self) -> int:
        return len(self.message)

    def without_messages(self, messages: Longs) -> SkippedMessages:
        """Return the skipped messages except those with these numbers."""
        if not len(self) or not len(messages):
            return self
        return self.where(~np.isin(self.message, messages))

    def where(self, mask: Mask) -> SkippedMessages:
        """Return the skipped messages that the mask selects."""
        if mask.all():
            return self
        return SkippedMessages(
            self.message[mask], self.reason[mask], self.files[mask], self.offsets[mask]
        )

    def with_numbers(self, message: Longs) -> SkippedMessages:
        """Return the skipped messages with their numbers in the batch replaced by `message`."""
        return replace(self, message=message)

    def in_empty_files(self, mask: Mask) -> SkippedMessages:
        """Change the reason of empty messages to EMPTY_FILE if they are complete files.

        The mask has one element per skipped message: whether a message is a complete file.
        """
        empty = mask & (self.reason == _number(SkipReason.EMPTY))
        return replace(self, reason=np.where(empty, _number(SkipReason.EMPTY_FILE), self.reason))

    def totals(self, place: Callable[[int], object]) -> SkippedTotals:
        """Count the skipped messages by reason. `place(i)` returns the location of message i."""
        reasons, first, counts = np.unique(self.reason, return_index=True, return_counts=True)
        return {
            _REASONS[reason]: SkippedCount(count, str(place(at)))
            for reason, at, count in zip(
                reasons.tolist(), first.tolist(), counts.tolist(), strict=True
            )
        }


_NONE: Final = np.zeros(0, np.int64)
NOT_SKIPPED: Final = SkippedMessages(_NONE, _NONE, _NONE, _NONE)


def _number(reason: SkipReason) -> int:
    return _REASONS.index(reason)


def add_skipped(*totals: SkippedTotals) -> SkippedTotals:
    """Add up the skipped messages of consecutive parts of a run, by reason."""
    added: dict[SkipReason, SkippedCount] = {}
    for part in totals:
        for reason, one in part.items():
            known = added.get(reason)
            added[reason] = (
                one if known is None else known._replace(messages=known.messages + one.messages)
            )
    return added


def count_skipped(totals: SkippedTotals) -> int:
    """Return the number of skipped messages, for all reasons together."""
    return sum(one.messages for one in totals.values())


def skipped_notes(totals: SkippedTotals) -> Iterable[str]:
    """Yield a sentence for each reason: how many messages were skipped, and which one first.

    Empty files have no sentence here: the warnings about input files name them.
    """
    for reason in _REASONS:
        one = totals.get(reason)
        if one is None or reason is SkipReason.EMPTY_FILE:
            continue
        alone = one.messages == 1
        predicate, verb = reason.value[not alone], "was" if alone else "were"
        place = one.first if alone else f"the first is {one.first}"
        counted = count_noun(one.messages, "message")
        yield f"{counted} {predicate} and {verb} skipped: {place}{_HINTS.get(reason, '')}"
