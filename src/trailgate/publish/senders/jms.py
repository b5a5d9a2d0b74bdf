"""The JMS part of senders to queues, by STOMP or AMQP: the restart queue, and the properties that GoldenGate's JMS delivery sets.

``QueueSender`` is the base class of the senders by STOMP and AMQP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.columnar.strings import codes_to_letters
from trailgate.columnar.temporal import format_times
from trailgate.errors import (
    BrokerError,
    BrokerFullError,
    EncodeError,
    OptionError,
    StorageError,
    TrailgateError,
    Where,
)
from trailgate.live.brokers.address import BrokerAddress, check_tls_files
from trailgate.publish.senders.sender import (
    FULL,
    LargestMessage,
    OutgoingMessages,
    StoredState,
)

RESTART: Final = "trailgate.restart."
LOCK: Final = "~lock"  # the end of the name of a group's lock queue: elsewhere digits follow ~
LONGEST: Final = 255  # bytes of a queue's name at RabbitMQ
# Other characters could have a meaning in the address of a queue, for example > or * at ActiveMQ.
_OTHER: Final = re.compile(rb"[^A-Za-z0-9._-]")
MARKS: Final = "transaction"  # the JMSType of BEGIN and END events
NUMBER: Final = "trailgate-number"  # the property with the number of a restart message
NUMBER_DIGITS: Final = 18  # of the largest number: more than there are batches
MARK: Final = "trailgate-mark"  # the property of a message that is a mark
# A broker gives messages to its consumers in turn: if all marks return, there is no other consumer.
MARKS_SENT: Final = 4
MARK_SECONDS: Final = 20.0  # in which they return
FOREIGN: Final = "Remove this message from the queue, and leave the others: they are the position"
SHOWN: Final = 40  # characters of a foreign message that an error shows
# What brokers write if they have no room, and if a message is larger than they take.
_NO_ROOM: Final = re.compile(
    "AMQ229102|AMQ229119|AMQ339011|resource-limit-exceeded|is full|Usage Manager|Limit reached",
    re.IGNORECASE,
)
TOO_LARGE: Final = (
    "Raise the broker's limit, or publish smaller messages: --max-message-bytes, --content row"
)
_SENT: Final = re.compile(r" CoreMessage\[.*")  # Artemis names a message by all that it knows of it
_TOO_LARGE: Final = re.compile(
    "AMQ149005|AMQ229031|bigger than|larger than|too large|maximum .*(length|size)|max.?frame|size exceeded",
    re.IGNORECASE,
)


class JmsProperties(NamedTuple):
    """The JMS properties of one published message, which describe its first operation.

    ``id`` is unique and the same if the trail is published again. ``position`` and ``time`` are the
    operation's position and commit time, and ``kind`` is its operation type as a letter. ``table``
    is None if the message contains operations of several tables. ``is_mark`` is set for BEGIN and
    END events.
    """

    id: str
    position: str
    kind: str
    table: str | None
    time: str
    is_mark: bool


class QueueSender:
    """The common part of senders to a queue or topic; see ``Sender``."""

    def __init__(
        self, address: BrokerAddress, group: str, *, is_whole: bool, has_tombstones: bool
    ) -> None:
        del is_whole, has_tombstones  # a queue takes messages of all tables, and has no keys
        check_tls_files(address)
        self._address, self._group, self._where = address, group, Where(source=str(address))
        self._queue = restart_queue(address, group)

    @property
    def tables(self) -> tuple[str, ...]:
        """Always empty, because all messages go to one destination."""
        return ()

    def remember(self, tables: Iterable[str]) -> None:
        """Do nothing: messages to a queue have no topics; see ``tables``."""

    def _restart_number(self, text: str, number: object) -> int:
        """Return the number of a restart message from its body and its property ``NUMBER``.

        The first message of a group has an empty body and no number, which counts as 0. Raises
        StorageError for a foreign message: the body is not a state, or the property not a number.
        """
        digits, problem = "0" if number is None else str(number), ""
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= NUMBER_DIGITS):
            problem = f"its {NUMBER} is {digits[:SHOWN]!r}, not a number"
        elif text:
            try:
                StoredState.decode(text, self._where)
            except StorageError as error:
                problem = f"{error.problem}: {text[:SHOWN]!r}"
        if not problem:
            return int(digits)
        raise StorageError(
            f"the queue {self._queue} has a message that is not a position: {problem}",
            where=self._where,
            hint=FOREIGN,
        )

    def _explain(self, error: BrokerError, parts: Iterable[OutgoingMessages]) -> TrailgateError:
        """Return the error to raise if a queue's broker rejects a batch.

        It is EncodeError if a message is too large, BrokerFullError if the broker has no room, and
        otherwise ``error`` itself.
        """
        if _TOO_LARGE.search(error.problem):
            largest = LargestMessage.of(parts)
            problem = (
                f"{error.problem}: the largest message of the batch has {largest.size} bytes "
                f"(operation at {largest.position})"
            )
            where = Where(source=str(self._address), table=largest.table or None)
            return EncodeError(problem, where=where, hint=TOO_LARGE)
        if isinstance(error, BrokerFullError) or _NO_ROOM.search(error.problem):
            return BrokerFullError(_SENT.sub("", error.problem), where=self._where, hint=FULL)
        return error


def restart_queue(address: BrokerAddress, group: str) -> str:
    """Return the name of the queue in which a group's publication by STOMP or AMQP stores its restart message. No other group uses it.

    Bytes that could have a meaning in an address are escaped: the group ``a/b`` has the queue
    ``trailgate.restart.a~2Fb``. Raises OptionError if the name would be too long, or if the address
    itself is a restart queue.
    """
    where = Where(source=str(address))
    if address.destination.startswith(RESTART):
        problem = f"{address.destination} is reserved for the positions of publications"
        raise OptionError(problem, where=where, hint="Publish to another queue")
    escaped = _OTHER.sub(lambda found: b"~%02X" % found[0][0], group.encode()).decode()
    excess = len(RESTART) + len(escaped) + len(LOCK) - LONGEST
    if excess > 0:
        problem = (
            f"the name of the group {group} is too long for its restart queue: {len(escaped)} bytes"
        )
        hint = f"Give the publication a shorter name: --group NAME, of at most {len(escaped) - excess} letters"
        raise OptionError(problem, where=where, hint=hint)
    return RESTART + escaped


def jms_properties(part: OutgoingMessages, group: str) -> Iterator[JmsProperties]:
    """Yield the JMS properties of each published message. Publishing the same trail again gives the same ids."""
    origins = part.origins
    numbers = pa.array(origins.numbers).cast(pa.string()).to_pylist()
    positions = origins.positions.to_pylist()
    kinds = codes_to_letters(np.ascontiguousarray(origins.op_types)).to_pylist()
    columns = (
        positions,
        numbers,
        kinds,
        origins.tables.to_pylist(),
        format_times(origins.times).to_pylist(),
        origins.marks.tolist(),
    )
    for position, number, kind, table, time, is_mark in zip(*columns, strict=True):
        name = f"{group}:{position}:{number}"
        yield JmsProperties(
            id=name, position=position, kind=kind, table=table, time=time, is_mark=is_mark
        )


def named_properties(one: JmsProperties, group: str) -> dict[str, str]:
    """Return JMS properties under the names that GoldenGate's JMS delivery uses, such as GG_TABLE."""
    known = {"GG_ID": one.position, "GG_TX_TIMESTAMP": one.time, "trailgate_group": group}
    if one.table is not None:
        known |= {"GG_OPTYPE": one.kind, "GG_TABLE": one.table}
    return known


def jms_type(one: JmsProperties) -> str | None:
    """Return the JMSType of a published message: its table, or ``MARKS`` for a BEGIN or END event.

    Returns None if the message may have operations of several tables.
    """
    return one.table or (MARKS if one.is_mark else None)
