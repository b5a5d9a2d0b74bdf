"""Message ids as ``jms.id`` selects them: they ascend, have one length, and a message that comes again is left out."""

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
from trailgate.columnar.checksums import checksums
from trailgate.errors import TransactionError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.properties.metadata import MetadataOptions
from trailgate.messages.transactions.bounds import Problem

JMS_MESSAGE_ID: Final = "JMSMessageID"
REMEMBERED: Final = 200_000
ANY_BODY: Final = -1  # in the place of a body's checksum that is not known
_FIXED: Final = (
    "Message ids (jms.id) must be unique, ascend, and have a fixed length, so that text order is their order: "
    "let the sender set a header that does, and name it by jms.id"
)
_ASCEND: Final = (
    "Message ids (jms.id) must ascend from message to message. --unordered-ids captures them as they are; "
    "a message whose id is remembered is left out all the same"
)
_UNIQUE: Final = (
    "Message ids (jms.id) must be unique: messages with one id and different bodies are not one message sent twice. "
    "Let jms.id name a header that each message has a value of its own in"
)
_ABSENT: Final = "jms.id names it: set it in the sender, or remove jms.id and $jmsid"


def _padded_ids(ids: pa.Array) -> pa.Array:
    """Return ids of ActiveMQ's clients with their numbers padded with zeros; others as they are.

    An id is ``ID:HOST-PORT-START-INSTANCE:CONNECTION:SESSION:PRODUCER:NUMBER``.
    """
    parts = pc.extract_regex(ids, _ACTIVEMQ)
    texts: list[pa.Array | str] = [pc.struct_field(parts, "name")]
    for (name, width), before in zip(_WIDTHS.items(), ("", *"--:", *":::"), strict=True):
        digits = pc.utf8_lpad(pc.struct_field(parts, name), width, "0")
        texts += [before, digits] if before else [digits]
    return pc.coalesce(pc.binary_join_element_wise(*texts, ""), ids)


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


class MessageIdKind(NamedTuple):
    """One word of ``jms.id``: the header that has the id, and how that is made fit for an order, None where it is taken as it is."""

    header: str
    reformat: Callable[[pa.Array], pa.Array] | None = None


# capture properties 2.1; any other value of jms.id is the name of a header.
MESSAGE_ID_KINDS: Final[Mapping[str, MessageIdKind]] = MappingProxyType(
    {
        "ogg": MessageIdKind("GG_ID"),
        "wmq": MessageIdKind(JMS_MESSAGE_ID),
        "activemq": MessageIdKind(JMS_MESSAGE_ID, _padded_ids),
    }
)


def message_id_kind(name: str | None) -> MessageIdKind:
    """Return what a value of ``jms.id`` selects; None is JMSMessageID."""
    name = name or JMS_MESSAGE_ID
    return MESSAGE_ID_KINDS.get(name, MessageIdKind(name))


def message_ids(messages: MessageBatch, name: str | None) -> pa.Array:
    """Return each message's id by a value of ``jms.id`` that is not ``time``; null where it lacks the header."""
    kind = message_id_kind(name)
    ids = messages.header(kind.header)
    return ids if kind.reformat is None else kind.reformat(ids)


class MessageIdRule(NamedTuple):
    """How the ids of messages are compared: the value of ``jms.id``, and whether they are to ascend."""

    name: str | None
    ordered: bool = True
    remembered: int = REMEMBERED

    @classmethod
    def of(
        cls, options: MetadataOptions, *, ordered: bool = True, remembered: int = REMEMBERED
    ) -> Self | None:
        """Return how a capture of these options compares ids; None: it does not."""
        return (
            cls(options.message_id, ordered, remembered) if options.compares_message_ids else None
        )


@dataclass(frozen=True, slots=True)
class Screened:
    """What is left of messages whose ids were looked at.

    ``kept`` are those that did not come before, None where that is all of them; ``problems`` count among all. ``last`` is the
    highest id after each message, None before the first one.
    """

    kept: Longs | None
    problems: tuple[Problem, ...]
    last: Sequence[str | None]

    @property
    def duplicates(self) -> int:
        """Return how many messages came before."""
        return 0 if self.kept is None else len(self.last) - len(self.kept)

    def applied(
        self, messages: MessageBatch, problems: tuple[Problem, ...]
    ) -> tuple[MessageBatch, tuple[Problem, ...]]:
        """Return the messages that are left, and their problems: those known before, and those of their ids."""
        known = {problem.message for problem in problems}
        every = (*problems, *(one for one in self.problems if one.message not in known))
        if self.kept is None:
            return messages, every
        place = {int(at): number for number, at in enumerate(self.kept.tolist())}
        moved = (replace(one, message=place[one.message]) for one in every if one.message in place)
        return messages.only(self.kept), tuple(moved)


class MessageIds:
    """Compares the ids of messages, batch by batch; the last ``remembered`` ones are known again.

    A message whose id and body came before is left out. Problems are ids that came before with another body, that have another
    length than the one before, or are lower and unknown, where they are to be ``ordered``.
    """

    def __init__(self, rule: MessageIdRule) -> None:
        self._name, self._ordered, self._remembered = rule
        self._known: dict[str, int] = {}  # the checksum of the body, by the id
        self._last: str | None = None

    def begin(self, last: str | None) -> None:
        """Note the highest id before the first message, where that is known; of its body nothing is."""
        if last is not None:
            self._known.setdefault(last, ANY_BODY)
            self._last = max(last, self._last or last)

    def screen(self, messages: MessageBatch) -> Screened:
        """Return what is left of a batch."""
        ids = message_ids(messages, self._name)
        names: list[str | None] = ids.to_pylist()
        sums = checksums(messages.data, messages.starts, messages.ends)
        if self._ascends(ids):
            self._known.update(zip(ids.to_pylist(), sums, strict=True))
            self._last = names[-1] if names else self._last
            self._forget()
            return Screened(None, (), names)
        return self._one_by_one(names, sums, absent=ids.null_count < len(ids))

    def _ascends(self, ids: pa.Array) -> bool:
        """Return whether ids are all higher than those before, and as long."""
        if not len(ids) or ids.null_count:
            return not len(ids)
        lengths = pc.min_max(pc.binary_length(ids)).as_py()
        width = lengths["max"] if self._last is None else len(self._last.encode())
        if lengths["min"] != width or lengths["max"] != width:
            return False
        if self._last is not None and ids[0].as_py() <= self._last:
            return False
        return pc.all(pc.greater(ids[1:], ids[:-1])).as_py() is not False

    def _one_by_one(self, names: list[str | None], sums: list[int], *, absent: bool) -> Screened:
        kept, last = np.ones(len(names), bool), []
        problems: list[Problem] = []
        for at, (own, checksum) in enumerate(zip(names, sums, strict=True)):
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
        return Screened(None if kept.all() else np.flatnonzero(kept), tuple(problems), last)

    def _error(self, own: str | None, *, absent: bool) -> TransactionError | None:
        """Return what is wrong with the id of a message that did not come before."""
        if own is None:
            header = message_id_kind(self._name).header
            problem = f"the message has no header {header} for its id"
            return TransactionError(problem, hint=_ABSENT) if absent else None
        if own in self._known:
            problem = f"the message id {own} came before, with another body"
            return TransactionError(problem, hint=_UNIQUE)
        if self._last is None:
            return None
        if len(own) != len(self._last):
            problem = f"the message id {own} has {len(own)} characters, and {self._last} before it has {len(self._last)}"
            return TransactionError(problem, hint=_FIXED)
        if self._ordered and own < self._last:
            problem = f"the message id {own} follows the higher {self._last}"
            return TransactionError(problem, hint=_ASCEND)
        return None

    def _forget(self) -> None:
        """Forget the ids that came first, where they are more than are remembered."""
        for own in list(islice(self._known, max(0, len(self._known) - self._remembered))):
            del self._known[own]
