"""Publish by STOMP to RabbitMQ, which confirms each message, but has no transactions over several queues.

Messages are sent first, and the position after all are confirmed. After a crash between the two,
the last batch is sent again with the same ids.

The restart queue of a group holds one message, the state: a newer message replaces the older one
(``x-max-length``). A run reads the message and returns it to the queue at once, because RabbitMQ
disconnects a consumer that holds a message for 30 minutes. So the message cannot serve as the lock
against other runs, as in ``stomp.py``; an exclusive queue does. If the restart queue does not
exist, the group is new.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Final

from trailgate.errors import BrokerError, BrokerFullError, count_noun
from trailgate.live.brokers.address import QUEUE, BrokerAddress
from trailgate.live.brokers.stomp.connection import StompConnection
from trailgate.live.brokers.stomp.frames import encode_frame
from trailgate.publish.senders.jms import LOCK, JmsProperties
from trailgate.publish.senders.sender import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    FULL,
    HELD,
    STOP_ONE,
    OutgoingMessages,
    wait_for_broker,
)
from trailgate.publish.senders.stomp import (
    HELD_SECONDS,
    PLACES,
    SECONDS,
    RestartDialect,
    StompSender,
)

CONFIRMED: Final = frozenset({"RabbitMQ"})
AGAIN: Final = 0.5  # seconds between two attempts to lock
QUIET_SECONDS: Final = 5.0  # after which it is logged that messages are not confirmed
NOT_CONFIRMED: Final = "the broker does not confirm messages"
EXISTING: Final = "/amq/queue/"  # before a queue that is not declared
# A position that is published drops the one before.
_KEPT: Final = MappingProxyType(
    {"durable": "true", "auto-delete": "false", "x-queue-type": "classic", "x-max-length": "1"}
)
_LOCKING: Final = MappingProxyType({"durable": "false", "auto-delete": "true", "exclusive": "true"})


class ConfirmedStompSender(StompSender):
    """Sends each message at least once to RabbitMQ, which confirms messages.

    For other brokers it behaves like ``StompSender``.
    """

    guarantee = EXACTLY_ONCE

    def __init__(
        self, address: BrokerAddress, group: str, *, is_whole: bool, has_tombstones: bool
    ) -> None:
        super().__init__(address, group, is_whole=is_whole, has_tombstones=has_tombstones)
        self._fresh: StompConnection | None = None
        self._confirms = False

    def open(self) -> str | None:
        """Lock the group by an exclusive queue, and read the position from RabbitMQ's restart queue; see ``Sender``."""
        self._detect_broker()
        if not self._confirms:
            return super().open()
        self._lock()
        with closing(self._reader()) as reader:
            return reader.read()

    def read(self) -> str | None:
        """Return the state in RabbitMQ's restart queue, or None if the queue does not exist; see ``Sender``.

        The message is received and put back.
        """
        self._detect_broker()
        if not self._confirms:
            return super().read()
        self._connect()
        known = {"id": PLACES, "destination": EXISTING + self._queue, "ack": "client-individual"}
        self._connected.send("SUBSCRIBE", known)
        try:
            if self._wait_for_release(HELD_SECONDS):
                return self._messages[0][1]
        except BrokerError as error:
            if error.problem.startswith("not_found"):
                return None
            raise
        problem = f"the queue {self._queue} has no message, or another consumer has received it"
        hint = "Delete the queue to publish the trail from its beginning"
        raise self._connected.error(problem, refused=True, hint=hint)

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        """Send messages, wait until RabbitMQ has confirmed all, then send the position; see ``Sender``."""
        if not self._confirms:
            super().send(parts, state)
            return
        if self._link is None:
            raise BrokerError("there is no connection", where=self._where)
        waiting = set[str]()

        def own(one: JmsProperties) -> Mapping[str, str]:
            return {"receipt": self._receipt(waiting), "amqp-message-id": one.id}

        frames = (frame for part in parts for frame in self._frames(part, own))
        # The position follows once all messages are confirmed. If the run is killed in between,
        # they are sent again: at least once.
        self._send_confirmed(frames, waiting, parts)
        kept = {**self._to(self._queue, QUEUE), **_KEPT, "receipt": self._receipt(waiting)}
        self._send_confirmed([encode_frame("SEND", kept, state.encode())], waiting, ())

    @property
    def _dialect(self) -> RestartDialect:
        return RestartDialect() if self._confirms else super()._dialect

    def _detect_broker(self) -> None:
        """Connect by STOMP to determine whether the broker is RabbitMQ. The next ``_connect`` uses the connection."""
        self.close()
        self._fresh = StompConnection(self._address)
        self._confirms = self._fresh.dialect.name in CONFIRMED
        self.guarantee = AT_LEAST_ONCE if self._confirms else EXACTLY_ONCE

    def _connect(self) -> RestartDialect:
        fresh, self._fresh = self._fresh, None
        self.close()
        self._link = fresh or StompConnection(self._address)
        return self._dialect

    def close(self) -> None:
        """Disconnect from RabbitMQ, which releases the lock; see ``StompSender``."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.close()
        super().close()

    def _reader(self) -> ConfirmedStompSender:
        """Return a separate sender to read the restart message.

        When its connection is closed, RabbitMQ returns the message to the queue.
        """
        return ConfirmedStompSender(
            self._address, self._group, is_whole=False, has_tombstones=False
        )

    def _lock(self) -> None:
        """Lock the group against other runs, by declaring RabbitMQ's exclusive queue.

        Raises BrokerRefusedError if another connection does not release it in time.
        """
        held = HELD.format(self._group)
        if not wait_for_broker(self._try_to_lock, HELD_SECONDS, held, self._where):
            problem = f"another run of the group {self._group} publishes there"
            raise self._connected.error(problem, refused=True, hint=STOP_ONE)

    def _try_to_lock(self, seconds: float) -> bool:
        """Try for some seconds to declare RabbitMQ's exclusive queue, and return whether this succeeded."""
        until = time.monotonic() + seconds
        while True:
            self._connect()
            try:
                self._declare_lock()
            except BrokerError as error:
                if not error.problem.startswith("resource_locked"):
                    raise
                if time.monotonic() > until:
                    return False
                time.sleep(AGAIN)
            else:
                return True

    def _declare_lock(self) -> None:
        """Declare RabbitMQ's exclusive queue, and check that this connection has it.

        RabbitMQ may send a receipt first and the error after it. So a message is sent through the
        queue, and its arrival is the proof.
        """
        # The receipt of SUBSCRIBE does not prove that this session has the queue: RabbitMQ refuses
        # a second consumer of an exclusive queue with an ERROR frame that may follow the receipt. A
        # message with this session's random text does prove it.
        name, own = f"{self._queue}{LOCK}", uuid.uuid4().hex
        link = self._connected
        link.send("SUBSCRIBE", {"id": LOCK, "destination": f"/queue/{name}", **_LOCKING})
        link.send("SEND", {"destination": EXISTING + name}, own.encode())
        if not self._wait(lambda: any(body == own for _, body in self._messages), SECONDS):
            raise link.error("the broker does not grant the lock")
        self._messages.clear()

    def _receipt(self, waiting: set[str]) -> str:
        """Create a receipt id for a STOMP frame, and add it to the receipts to wait for."""
        self._count += 1
        receipt = f"r{self._count}"
        waiting.add(receipt)
        return receipt

    def _send_confirmed(
        self, frames: Iterable[bytes], waiting: set[str], parts: Iterable[OutgoingMessages]
    ) -> None:
        """Send STOMP frames, and wait until RabbitMQ has confirmed all receipts in ``waiting``.

        ``parts`` are the messages of the frames, for an error about a message that is too large.
        """
        try:
            self._send_frames(frames)
            while not waiting <= self._receipts:
                known = len(self._receipts)
                if not wait_for_broker(
                    lambda some, known=known: self._wait(  # type: ignore[misc]
                        lambda: len(self._receipts) > known, some
                    ),
                    SECONDS,
                    NOT_CONFIRMED,
                    self._where,
                    quiet=QUIET_SECONDS,
                ):
                    raise self._connected.error(NOT_CONFIRMED)
        except BrokerError as error:
            own = self._broker_error()
            if own is not None:
                raise self._explain(own, parts) from error
            # RabbitMQ closes the connection without a word if a queue of limited length refuses a message.
            missing = count_noun(len(waiting - self._receipts), "message")
            problem = f"the broker has not confirmed {missing}: {error.problem}"
            raise BrokerFullError(problem, where=self._where, hint=FULL) from error
        for one in (waiting, self._receipts, self._messages):
            one.clear()
