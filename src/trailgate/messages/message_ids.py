"""Recognize redelivered messages by the ids in their headers, which `jms.id` selects.

`MessageIds` remembers the ids of the last messages and the checksums of their bodies. A message whose
id is remembered is a duplicate, and is removed from its batch. These ids must ascend and all have the
same length, so that a capture can continue after the highest one; the ids of ActiveMQ are padded for
that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.gather import checksums
from trailgate.errors import TransactionError
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.problems import Problem

JMS_MESSAGE_ID: Final = "JMSMessageID"
# Message ids: many times the number of messages that brokers send ahead.
REMEMBERED: Final = 200_000
ANY_BODY: Final = -1  # instead of the checksum of an unknown body
_FIXED: Final = (
    "Message ids (jms.id) must be unique, ascend, and have a fixed length, because they are compared as text: "
    "let the sender set such a header, and name it in jms.id"
)
_ASCEND: Final = (
    "Message ids (jms.id) must ascend from message to message. --unordered-ids captures them as they are; "
    "a message whose id is remembered is skipped even then"
)
_UNIQUE: Final = (
    "Message ids (jms.id) must be unique: messages with one id and different bodies are not one message sent twice. "
    "Let jms.id name a header with a different value in each message"
)
_ABSENT: Final = "jms.id names it: set it in the sender, or remove jms.id and $jmsid"

HEADERS_HINT: Final = (
    "Headers come with .jsonl files ({'body': ..., 'headers': {...}} a line), "
    "brokers and Kafka; plain files have none"
)
_WIDTHS: Final = {
    "port": 5,
    "start": 13,
    "instance": 10,
    "connection": 10,
    "session": 10,
    "producer": 10,
    "number": 10,
}
_ACTIVEMQ: Final = (
    r"^(?P<name>ID:.*-)(?P<port>\d+)-(?P<start>\d+)-(?P<instance>\d+)"
    r":(?P<connection>-?\d+):(?P<session>-?\d+):(?P<producer>-?\d+):(?P<number>\d+)$"
)


def _padded_ids(ids: pa.Array) -> pa.Array:
    """Pad the numbers in message ids of ActiveMQ with zeros, so that text order is number order.

    Other ids are unchanged.

    An id is `ID:HOST-PORT-START-INSTANCE:CONNECTION:SESSION:PRODUCER:NUMBER`.
    """
    parts = pc.extract_regex(ids, _ACTIVEMQ)
    strings: list[pa.Array | str] = [pc.struct_field(parts, "name")]
    for (name, width), before in zip(_WIDTHS.items(), ("", *"--:", *":::"), strict=True):
        digits = pc.utf8_lpad(pc.struct_field(parts, name), width, "0")
        strings += [before, digits] if before else [digits]
    return pc.coalesce(pc.binary_join_element_wise(*strings, ""), ids)


class MessageIdHeader(NamedTuple):
    """What a value of `jms.id` selects: the header with the message id.

    `reformat` makes the ids sortable as text; None if they already are.
    """

    header: str
    reformat: Callable[[pa.Array], pa.Array] | None = None


# capture properties 2.1; any other value of jms.id is the name of a header.
MESSAGE_ID_HEADERS: Final[Mapping[str, MessageIdHeader]] = MappingProxyType(
    {
        "ogg": MessageIdHeader("GG_ID"),
        "wmq": MessageIdHeader(JMS_MESSAGE_ID),
        "activemq": MessageIdHeader(JMS_MESSAGE_ID, _padded_ids),
    }
)


def message_id_header(name: str | None) -> MessageIdHeader:
    """Return which header the message ids are read from: that of a keyword of `jms.id`, or the one with its name.

    None selects JMSMessageID.
    """
    name = name or JMS_MESSAGE_ID
    return MESSAGE_ID_HEADERS.get(name, MessageIdHeader(name))


def read_message_ids(messages: MessageBatch, name: str | None) -> pa.Array:
    """Read the id of each message of a batch from the header of `jms.id`, or null if the message does not have it.

    `name` is the value of `jms.id`, but not `time`.
    """
    selected = message_id_header(name)
    ids = messages.header(selected.header)
    return ids if selected.reformat is None else selected.reformat(ids)


class MessageIdRule(NamedTuple):
    """How message ids are compared: the value of `jms.id`, whether they must ascend, and how many are remembered."""

    name: str | None
    ordered: bool = True
    remembered: int = REMEMBERED

    @classmethod
    def of(
        cls, options: MetadataOptions, *, ordered: bool = True, remembered: int = REMEMBERED
    ) -> Self | None:
        """Return the rule for these options, or None if message ids are not compared."""
        return (
            cls(options.message_id, ordered, remembered) if options.compares_message_ids else None
        )


@dataclass(frozen=True, slots=True)
class DeduplicatedMessages:
    """The result of deduplicating a batch by message ids.

    `kept` are the numbers of new messages, or None if all are new. `problems` refer to message
    numbers in the original batch. `last[i]` is the highest id up to message i, or None before the
    first id.
    """

    kept: Longs | None
    problems: Sequence[Problem]
    last: Sequence[str | None]

    @property
    def duplicates(self) -> int:
        """The number of redelivered messages in the batch."""
        return 0 if self.kept is None else len(self.last) - len(self.kept)

    def apply(
        self, messages: MessageBatch, problems: Sequence[Problem]
    ) -> tuple[MessageBatch, Sequence[Problem]]:
        """Remove the duplicates from the messages and from their problems.

        The returned problems are `problems` and those of the deduplication, numbered for the
        remaining messages. A message that already has a problem gets no second one.
        """
        known = {problem.message for problem in problems}
        every = (*problems, *(one for one in self.problems if one.message not in known))
        if self.kept is None:
            return messages, every
        place = {int(at): number for number, at in enumerate(self.kept.tolist())}
        moved = (replace(one, message=place[one.message]) for one in every if one.message in place)
        return messages.only(self.kept), tuple(moved)


class MessageIds:
    """Deduplicates messages by their ids, batch by batch.

    The last `remembered` ids are kept in memory.

    A message is skipped if an earlier one had the same id and body. It is a problem if the same id
    comes with a different body, if an id differs in length from the highest id so far, or if only
    some messages of a batch have an id. With `ordered`, a new id must also be higher than all
    earlier ones.
    """

    def __init__(self, rule: MessageIdRule) -> None:
        self._name, self._ordered, self._remembered = rule
        self._known: dict[str, int] = {}  # the checksum of the body, by the id
        self._last: str | None = None

    def begin(self, last: str | None) -> None:
        """Set the highest id of earlier messages, or None if it is unknown.

        The body of that message is unknown, so a message with this id counts as a duplicate
        whatever its body is.
        """
        if last is not None:
            self._known.setdefault(last, ANY_BODY)
            self._last = max(last, self._last or last)

    def deduplicate(self, messages: MessageBatch) -> DeduplicatedMessages:
        """Find the messages of a batch whose ids are new, and the problems of ids."""
        ids = read_message_ids(messages, self._name)
        names: list[str | None] = ids.to_pylist()
        sums = checksums(messages.data, messages.starts, messages.ends)
        # The fast path for new, ascending ids: all are kept, without a loop in Python.
        if self._ascends(ids):
            self._known.update(zip(ids.to_pylist(), sums, strict=True))
            self._last = names[-1] if names else self._last
            self._forget()
            return DeduplicatedMessages(None, (), names)
        return self._one_by_one(names, sums, absent=ids.null_count < len(ids))

    def _ascends(self, ids: pa.Array) -> bool:
        """Return whether all ids ascend, from the last known id on, and have the same length.

        In that case none of them can be a duplicate.
        """
        if not len(ids) or ids.null_count:
            return not len(ids)
        lengths = pc.min_max(pc.binary_length(ids)).as_py()
        # Compared in bytes: all ids must be as long as the last one.
        width = lengths["max"] if self._last is None else len(self._last.encode())
        if lengths["min"] != width or lengths["max"] != width:
            return False
        if self._last is not None and ids[0].as_py() <= self._last:
            return False
        return pc.all(pc.greater(ids[1:], ids[:-1])).as_py() is not False

    def _one_by_one(
        self, names: list[str | None], sums: list[int], *, absent: bool
    ) -> DeduplicatedMessages:
        kept, last = np.ones(len(names), bool), []
        problems: list[Problem] = []
        for at, (own, checksum) in enumerate(zip(names, sums, strict=True)):
            # ANY_BODY matches a message whose body is unknown, such as the last one before a
            # restart.
            if own is not None and self._known.get(own) in (checksum, ANY_BODY):
                kept[at] = False
            else:
                error = self._error(own, absent=absent)
                if error is not None:
                    problems.append(Problem(at, error))
                elif own is not None:
                    self._known[own] = checksum
                    self._last = own if self._last is None else max(own, self._last)
            last.append(self._last)
        self._forget()
        return DeduplicatedMessages(
            None if kept.all() else np.flatnonzero(kept), tuple(problems), last
        )

    def _error(self, message_id: str | None, *, absent: bool) -> TransactionError | None:
        """Return the error of a message that is not a duplicate, or None if its id is good.

        A missing id (None) is an error only with `absent`, which means that other messages of the
        batch have an id.
        """
        if message_id is None:
            header = message_id_header(self._name).header
            problem = f"the message has no header {header} for its id"
            return TransactionError(problem, hint=_ABSENT) if absent else None
        if message_id in self._known:
            problem = f"the message id {message_id} was received before with a different body"
            return TransactionError(problem, hint=_UNIQUE)
        if self._last is None:
            return None
        if len(message_id) != len(self._last):
            problem = f"the message id {message_id} has {len(message_id)} characters, but {self._last} before it has {len(self._last)}"
            return TransactionError(problem, hint=_FIXED)
        if self._ordered and message_id < self._last:
            problem = f"the message id {message_id} follows the higher {self._last}"
            return TransactionError(problem, hint=_ASCEND)
        return None

    def _forget(self) -> None:
        """Remove the oldest ids if there are more than should be remembered."""
        for own in list(islice(self._known, max(0, len(self._known) - self._remembered))):
            del self._known[own]
