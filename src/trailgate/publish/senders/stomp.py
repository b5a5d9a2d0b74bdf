"""Publish by STOMP: messages and a restart message in one transaction of the broker.

The restart queue of a group holds one message, whose body is the state. A transaction acknowledges
the old restart message, sends the messages, and sends the new restart message. A run that has
received the restart message without acknowledging it holds the lock: a second run receives none.
After it has received the message, a run sends a transaction without messages, which replaces the
restart message, because a broker removes a message that was delivered too often.

COMMIT is sent after the broker has confirmed everything before it. If ActiveMQ Classic refuses a
message, it reports that and continues: COMMIT would commit the other messages.

Artemis applies an acknowledgement at once even in a transaction (2.44.0 logs AMQ222070), so the
state would be lost if the transaction fails. With Artemis, the old restart message is therefore
acknowledged after COMMIT. A run that is killed in between leaves two restart messages. They are
numbered, and the next run keeps the one with the highest number. To know that it has received both,
the run sends messages to the queue itself, the *marks*, and waits until they arrive. If the queue
has several consumers, each gets some of its messages. So a run subscribes only when no other run
does, if the broker answers requests about the queue. If it does not answer them, marks that do not
arrive show that there is another consumer, and the run ends.

An empty restart queue means that the group is new, or that another run holds the message. To
distinguish the two, Artemis is sent a first restart message with an id that it accepts only once
(``_AMQ_DUPL_ID``). Classic's queue is browsed, which also shows held messages.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.errors import BrokerError
from trailgate.live.brokers.address import QUEUE, TOPIC, BrokerAddress
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.connection import StompConnection, queue_name
from trailgate.live.brokers.stomp.consumers import (
    POLL_SECONDS,
    find_dropping_addresses,
    find_queue_state,
    wait_for_return,
)
from trailgate.live.brokers.stomp.frames import encode_frame, error_text
from trailgate.publish.senders.jms import (
    MARK,
    MARK_SECONDS,
    MARKS_SENT,
    NUMBER,
    JmsProperties,
    QueueSender,
    jms_properties,
    jms_type,
    named_properties,
)
from trailgate.publish.senders.sender import (
    DROPS,
    EXACTLY_ONCE,
    HELD,
    LOG,
    STOP_ONE,
    OutgoingMessages,
    wait_for_broker,
)

SECONDS: Final = 60.0  # in which a broker has to answer
EMPTY_SECONDS: Final = 2.0  # in which a message that waits arrives
ENDED_SECONDS: Final = 5.0  # in which Artemis notices that a run has ended
HELD_SECONDS: Final = 35.0  # in which a broker notices that a connection is lost
PORTION: Final = 1 << 18  # bytes that are sent at once
FRAMES: Final = 64  # the most frames taken at once
PLACES: Final = "positions"  # the id of the subscription
LEFT_SECONDS: Final = 0.3  # in which a second restart message arrives that a killed run has left
PERSISTENT: Final = MappingProxyType({"persistent": "true"})
# Artemis: the value of destination-type for a queue and a topic.
_TYPES: Final = MappingProxyType({QUEUE: "ANYCAST", TOPIC: "MULTICAST"})


class RestartDialect(NamedTuple):
    """How a STOMP broker stores the restart message.

    - ``kinds``: headers of SEND by the kind of the destination.
    - ``subscribe``: headers of the subscription to the restart queue.
    - ``first``: headers of a group's first restart message.
    - ``always_first``: the broker accepts the first message only once, so it may be sent at every
      start.
    - ``browses``: browsing also shows held messages.
    - ``acks_at_once``: an ACK takes effect at once, even in a transaction.
    """

    kinds: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    subscribe: Mapping[str, str] = MappingProxyType({})
    first: Mapping[str, str] = MappingProxyType({})
    always_first: bool = False
    browses: bool = False
    acks_at_once: bool = False


# By the product that the broker names.
RESTARTS: Final[Mapping[str, RestartDialect]] = MappingProxyType(
    {
        "Artemis": RestartDialect(
            kinds={kind: {"destination-type": name} for kind, name in _TYPES.items()},
            # Without a window all messages arrive, however large the first one is.
            subscribe={"subscription-type": "ANYCAST", "consumer-window-size": "-1"},
            first={"_AMQ_DUPL_ID": "first"},
            always_first=True,
            acks_at_once=True,
        ),
        # Only the message that is held, and not that of another run.
        "ActiveMQ Classic": RestartDialect(subscribe={"activemq.prefetchSize": "1"}, browses=True),
    }
)


class StompSender(QueueSender):
    """Sends each message once to a queue or topic by STOMP; see ``Sender``."""

    guarantee = EXACTLY_ONCE

    def __init__(
        self, address: BrokerAddress, group: str, *, is_whole: bool, has_tombstones: bool
    ) -> None:
        super().__init__(address, group, is_whole=is_whole, has_tombstones=has_tombstones)
        self._link: StompConnection | None = None
        self._messages: list[tuple[dict[str, str], str]] = []
        self._receipts: set[str] = set()
        self._marks: dict[str, str] = {}  # the ids of their acknowledgements
        self._error: BrokerError | None = None  # the first ERROR of the connection
        self._count = 0
        self._is_noted = False  # whether addresses that drop messages were looked for

    def check(self, parts: Iterable[OutgoingMessages]) -> None:
        """Do nothing, because STOMP brokers do not announce a limit for message sizes.

        If the broker rejects a message because of its size, ``send`` explains the error.
        """

    def open(self) -> str | None:
        """Connect by STOMP and receive the restart message; see ``Sender``."""
        dialect = self._connect()
        wait_for_return(self._connected, self._address, self._queue)
        self._note_dropping()
        is_new = dialect.always_first or (dialect.browses and not self._browse())
        if dialect.acks_at_once:
            self._wait_until_free()
        self._subscribe(dialect.subscribe)
        if is_new:
            first = {name: f"{self._queue}.{text}" for name, text in dialect.first.items()}
            self._confirm("SEND", {**self._to(self._queue, QUEUE), **first})
        if not self._wait_for_release(HELD_SECONDS):
            wait_for_return(self._connected, self._address, self._queue, own=1)
            raise self._other_run()
        self._check_messages()
        if dialect.acks_at_once:
            self._keep_latest()
        held, text = self._messages[0]
        if dialect.browses and not text:
            # Two runs of a new group may both have sent a first message. The one that receives an
            # empty message while another exists gives way.
            if len(self._browse()) > 1:
                self._confirm("ACK", {"id": held["ack"]})  # the broker removes it
                raise self._other_run()
            self._messages = [(held, text)]
        return text or None

    def _note_dropping(self) -> None:
        """Log a warning, once per STOMP sender, if an address drops messages when it is full.

        The broker confirms even the dropped messages, so a run cannot notice the loss.
        """
        if self._is_noted:
            return
        self._is_noted = True
        names = queue_name(self._address), self._queue
        for name in find_dropping_addresses(self._connected, self._address, names):
            LOG.warning(DROPS, name, self._address)

    def read(self) -> str | None:
        """Return the state in the STOMP restart queue; see ``Sender``.

        With Artemis, the message is received and put back at once, because a run may wait for it.

        Raises BrokerRefusedError if another run holds the message, unless Artemis does not answer
        this user's requests.
        """
        dialect = self._connect()
        if dialect.browses:
            return next(filter(None, self._browse()), None)
        if not self._is_free(ENDED_SECONDS):
            problem = f"a run of the group {self._group} publishes now, and holds the position"
            hint = "Ask that run with --metrics, or stop it first"
            raise self._connected.error(problem, refused=True, hint=hint)
        self._subscribe(dialect.subscribe)
        if not self._wait(lambda: bool(self._messages), EMPTY_SECONDS):
            return None
        self._wait(lambda: False, LEFT_SECONDS)
        self._check_messages()
        return self._messages[-1][1] or None

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        """Send messages and the new restart message in one STOMP transaction; see ``Sender``."""
        if self._link is None or not self._messages:
            raise BrokerError("there is no connection", where=self._where)
        # More than one if older messages of a lost connection came late.
        held, self._messages = self._messages, []
        try:
            self._send_transaction(parts, state, held)
        except BrokerError as error:
            own = self._broker_error() or error
            raise self._explain(own, parts) from error

    def _send_transaction(
        self,
        parts: Iterable[OutgoingMessages],
        state: str,
        held: Sequence[tuple[Mapping[str, str], str]],
    ) -> None:
        """Send messages and the new restart message in one STOMP transaction, and acknowledge the old ones.

        Then receives the new one, which this run holds from now on.
        """
        self._count += 1
        own = {"transaction": f"t{self._count}"}
        acks_at_once = self._dialect.acks_at_once
        acks = [{"id": one["ack"], **({} if acks_at_once else own)} for one, _ in held]
        number = 1 + max(self._restart_number(text, one.get(NUMBER)) for one, text in held)
        self._connected.send("BEGIN", own)
        for part in parts:
            self._send_frames(self._frames(part, lambda _: own))
        to = {**self._to(self._queue, QUEUE), NUMBER: str(number), **own}
        self._confirm("SEND", to, state.encode())
        if not acks_at_once:
            self._acknowledge(acks)
        self._confirm("COMMIT", own)
        if acks_at_once:
            self._acknowledge(acks)
        if not self._wait(lambda: self._has_arrived(number), SECONDS):
            raise self._connected.error("the new restart message does not arrive")
        # Marks of a run that was refused, as this one runs.
        self._acknowledge({"id": one} for one in self._marks.values())
        self._marks = {}

    def _acknowledge(self, acks: Iterable[Mapping[str, str]]) -> None:
        for one in acks:
            self._connected.send("ACK", one)

    def _has_arrived(self, number: int) -> bool:
        """Return whether the restart message with this number has arrived. Raises StorageError for a foreign message."""
        self._check_messages()
        return bool(self._messages) and self._messages[-1][0].get(NUMBER) == str(number)

    def _check_messages(self) -> None:
        """Sort the received restart messages by their numbers. Raises StorageError for a foreign message."""
        self._messages.sort(key=lambda one: self._restart_number(one[1], one[0].get(NUMBER)))

    def _keep_latest(self) -> None:
        """Acknowledge all restart messages but the latest, which a run killed after COMMIT may have left.

        Raises BrokerRefusedError if another run receives messages of the queue.
        """
        self._wait_for_others()
        marks = {uuid.uuid4().hex for _ in range(MARKS_SENT)}
        to = self._to(self._queue, QUEUE)
        self._connected.send_bytes(
            b"".join(encode_frame("SEND", {**to, MARK: one}) for one in marks)
        )
        # The queue keeps the order, so everything before the marks arrives before them.
        if not self._wait(lambda: marks <= self._marks.keys(), MARK_SECONDS):
            raise self._other_run()
        self._check_messages()
        *older, latest = self._messages
        # Marks that a killed run has left are removed too.
        self._acknowledge({"id": id_} for id_ in self._marks.values())
        self._acknowledge({"id": headers["ack"]} for headers, _ in older)
        self._messages, self._marks = [latest], {}

    def _wait_until_free(self) -> None:
        """Wait until no other run receives from the restart queue, because each consumer gets some of its messages.

        Raises BrokerRefusedError if another run does not end in time.
        """
        held = HELD.format(self._group)
        if not wait_for_broker(self._is_free, HELD_SECONDS, held, self._where):
            wait_for_return(self._connected, self._address, self._queue)
            raise self._other_run()

    def _is_free(self, seconds: float) -> bool:
        """Wait until no other run receives from the STOMP restart queue, and return whether that is so.

        Returns True if the broker does not answer this user's requests.
        """
        until = time.monotonic() + seconds
        while True:
            state = find_queue_state(self._connected, self._address, self._queue)
            if state is None or not (state.consumers or state.held):
                return True
            if time.monotonic() >= until:
                return False
            self._take(POLL_SECONDS)

    def _wait_for_others(self) -> None:
        """Wait until no lost connection or other run holds restart messages.

        Returns at once if the broker does not answer this user's requests. Artemis may return the
        messages of a lost connection to the queue one by one. Raises BrokerRefusedError if they are
        still held after ``HELD_SECONDS``.
        """
        until = time.monotonic() + HELD_SECONDS
        while True:
            state = find_queue_state(self._connected, self._address, self._queue)
            if state is None or state.held <= len(self._messages) + len(self._marks):
                return
            if time.monotonic() > until:
                raise self._other_run()
            self._take(POLL_SECONDS)

    def _broker_error(self) -> BrokerError | None:
        """Return the error that a STOMP broker sent before it closed the connection, or None."""
        if self._error is not None:  # others of frames that came too late may follow it
            return self._error
        with suppress(BrokerError):
            while (found := self._connected.frames(0.0, FRAMES)) is not None:
                for at in range(len(found)):
                    if found.kinds[at] == kernels.ERROR:
                        return self._connected.error(error_text(found, at))
        return None

    def close(self) -> None:
        """Disconnect from the STOMP broker.

        The broker rolls back an open transaction, and puts the restart message back.
        """
        link, self._link = self._link, None
        self._messages, self._receipts, self._marks = [], set(), {}
        self._error = None
        if link is not None:
            link.disconnect()
            link.close()

    @property
    def _connected(self) -> StompConnection:
        assert self._link is not None, "called after open"
        return self._link

    @property
    def _dialect(self) -> RestartDialect:
        name = self._connected.dialect.name
        if name not in RESTARTS:
            problem = f"messages are not sent to {name} by STOMP, since it is not known to keep a position"
            raise self._connected.error(
                problem, refused=True, hint="docs/publications.md lists the brokers"
            )
        return RESTARTS[name]

    def _connect(self) -> RestartDialect:
        self.close()
        self._link = StompConnection(self._address)
        return self._dialect

    def _to(self, name: str, kind: str) -> dict[str, str]:
        """Return the headers of STOMP's SEND for a destination, which depend on the broker."""
        kinds = self._connected.dialect.kinds
        return {
            "destination": kinds[kind].format(name),
            **PERSISTENT,
            **self._dialect.kinds.get(kind, {}),
        }

    def _frames(
        self, part: OutgoingMessages, own: Callable[[JmsProperties], Mapping[str, str]]
    ) -> Iterator[bytes]:
        """Yield the STOMP SEND frame of each message. ``own`` returns additional headers of a frame."""
        to = self._to(self._address.destination, self._address.kind)
        bodies = part.messages.bodies.to_pylist()
        for body, one in zip(bodies, jms_properties(part, self._group), strict=True):
            headers = {**to, **own(one), **named_properties(one, self._group)}
            kind = jms_type(one)
            if kind is not None:
                headers["type"] = kind
            # Without a length the message is a text of JMS, and ends at the first NUL.
            if b"\0" in body:
                headers["content-length"] = str(len(body))
            yield encode_frame("SEND", headers, body)

    def _send_frames(self, frames: Iterable[bytes]) -> None:
        """Send STOMP frames, joined to portions of about ``PORTION`` bytes, and process what arrives between."""
        portion: list[bytes] = []
        size = 0
        for frame in frames:
            portion.append(frame)
            size += len(frame)
            if size > PORTION:
                self._connected.send_bytes(b"".join(portion))
                self._take(0.0)
                portion, size = [], 0
        self._connected.send_bytes(b"".join(portion))

    def _subscribe(self, headers: Mapping[str, str]) -> None:
        """Subscribe to the group's restart queue by STOMP."""
        name = self._connected.dialect.kinds[QUEUE].format(self._queue)
        known = {"id": PLACES, "destination": name, "ack": "client-individual"}
        self._confirm("SUBSCRIBE", {**known, **headers})

    def _other_run(self) -> BrokerError:
        problem = f"another run of the group {self._group} holds the restart message"
        return self._connected.error(problem, refused=True, hint=STOP_ONE)

    def _browse(self) -> list[str]:
        """Return the bodies of the restart messages, even if another run holds them: one, or none in a new group.

        There are two if two runs began a new group at the same time.
        """
        self._messages = []
        self._confirm(
            "SUBSCRIBE",
            {
                "id": "browser",
                "destination": self._connected.dialect.kinds[QUEUE].format(self._queue),
                "browser": "true",
                "ack": "auto",
            },
        )
        # The end of a browsed queue is a message with this header.
        ended = self._wait(lambda: any("browser" in head for head, _ in self._messages), SECONDS)
        found = [one for one in self._messages if "browser" not in one[0]]
        self._messages = []
        self._confirm("UNSUBSCRIBE", {"id": "browser"})
        if not ended:
            raise self._connected.error(f"the queue {self._queue} cannot be browsed")
        for headers, body in found:
            self._restart_number(body, headers.get(NUMBER))
        return [body for _, body in found]

    def _wait_for_release(self, seconds: float) -> bool:
        """Wait until the STOMP broker has sent the restart message, which another run may hold.

        Returns whether it was received within ``seconds``.
        """
        return wait_for_broker(
            lambda some: self._wait(lambda: bool(self._messages), some),
            seconds,
            HELD.format(self._group),
            self._where,
        )

    def _confirm(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a STOMP frame, and wait for its receipt. Raises BrokerError if none comes."""
        self._count += 1
        receipt = f"r{self._count}"
        self._connected.send(command, {**headers, "receipt": receipt}, body)
        if not self._wait(lambda: receipt in self._receipts, SECONDS):
            raise self._connected.error(f"the broker does not confirm {command}")
        self._receipts.discard(receipt)

    def _wait(self, is_there: Callable[[], bool], seconds: float) -> bool:
        """Receive STOMP frames until a condition is met, and return whether it was met in time."""
        until = time.monotonic() + seconds
        while not is_there():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._take(left)
        return True

    def _take(self, seconds: float) -> None:
        """Receive STOMP frames: receipts, marks, and messages of the restart queue.

        Raises BrokerError for an ERROR frame.
        """
        found = self._connected.frames(seconds, FRAMES)
        if found is None:
            return
        for at in range(len(found)):
            kind, headers = found.kinds[at], found.headers(at)
            if kind == kernels.ERROR:
                self._error = self._connected.error(error_text(found, at))
                raise self._error
            if kind == kernels.MESSAGE and MARK in headers:
                self._marks[headers[MARK]] = headers["ack"]
            elif kind == kernels.MESSAGE:
                self._messages.append((headers, found.body(at).decode("utf-8", "replace")))
            else:
                self._receipts.add(headers.get("receipt-id", ""))
