"""The common part of senders to queues: the restart queue, and the properties of GoldenGate's JMS delivery."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.columnar.temporal import format_times
from trailgate.errors import OptionError, Where
from trailgate.live.brokers.address import BrokerAddress, check_tls_files
from trailgate.model.operations_table import codes_to_letters
from trailgate.publish.senders.sender import OutgoingMessages

RESTART: Final = "trailgate.restart."
# Other characters could have a meaning in the address of a queue, for example > or * at ActiveMQ.
_OTHER: Final = re.compile("[^A-Za-z0-9._-]")
MARKS: Final = "transaction"  # the JMSType of BEGIN and END events


class JmsProperties(NamedTuple):
    """The JMS properties of one message. ``table`` is None if the message has operations of several tables.

    ``is_mark`` is set for BEGIN and END events.
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


def restart_queue(address: BrokerAddress, group: str) -> str:
    """Return the name of a group's restart queue. Raises OptionError if the address itself is such a queue."""
    if address.destination.startswith(RESTART):
        problem = f"{address.destination} has the positions of publications, and no messages"
        raise OptionError(
            problem, where=Where(source=str(address)), hint="Publish to another queue"
        )
    return RESTART + _OTHER.sub("_", group)


def jms_properties(part: OutgoingMessages, group: str) -> Iterator[JmsProperties]:
    """Yield the JMS properties of messages. Publishing the same trail again gives the same ids."""
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
    """Return JMS properties by the names that GoldenGate's JMS delivery gives them."""
    known = {"GG_ID": one.position, "GG_TX_TIMESTAMP": one.time, "trailgate_group": group}
    if one.table is not None:
        known |= {"GG_OPTYPE": one.kind, "GG_TABLE": one.table}
    return known


def jms_type(one: JmsProperties) -> str | None:
    """Return the JMSType of a message: its table, or that it begins or ends a transaction; None if it has several tables."""
    return one.table or (MARKS if one.is_mark else None)
