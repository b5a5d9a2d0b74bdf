"""Publish by AMQP 1.0: messages and a restart message in one transaction of the broker's coordinator.

The restart queue and its marks are used as in ``stomp.py``. There are four AMQP links: one to the
coordinator, one to the destination, and two to the restart queue.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.errors import BrokerError, BrokerFullError, EncodeError, Where
from trailgate.live.brokers.address import QUEUE, BrokerAddress
from trailgate.live.brokers.amqp.receiver import (
    AmqpConnection,
    import_proton,
    name_terminus,
)
from trailgate.live.brokers.artemis import (
    CONSUMERS,
    MANAGEMENT,
    ManagementQuestion,
    ask_attribute,
    ask_settings,
    drops_messages,
)
from trailgate.live.brokers.artemis import HELD as DELIVERED
from trailgate.publish.senders.jms import (
    MARK,
    MARK_SECONDS,
    MARKS_SENT,
    NUMBER,
    TOO_LARGE,
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
    LargestMessage,
    OutgoingMessages,
    wait_for_broker,
)

SECONDS: Final = 60.0  # in which a broker has to answer
HELD_SECONDS: Final = 65.0  # in which a broker notices that a connection is lost
ANSWER_SECONDS: Final = 5.0  # in which a broker answers a question
POLL_SECONDS: Final = 0.5  # between two questions
BROWSED: Final = 100  # messages of a restart queue that are read: it has one, and marks
HEAD_BYTES: Final = 1024  # of a message beside its body
UNANSWERED: Final = 500  # messages that wait for the broker's answer
# AMQP 1.0, 4.5: the states and outcomes that belong to transactions.
TRANSACTIONAL: Final = 0x34
DECLARE: Final = "amqp:declare:list"
DISCHARGE: Final = "amqp:discharge:list"
LOCAL: Final = "amqp:local-transactions"
JMS_TYPE: Final = "x-opt-jms-msg-type"
TEXT_MESSAGE: Final = 5  # Qpid JMS: the value of x-opt-jms-msg-type for a TextMessage
_KNOWN: Final = "docs/publications.md lists the brokers"
# By the product that the broker names.
_HINTS: Final[Mapping[str, str]] = MappingProxyType({"RabbitMQ": "Publish by STOMP: stomp://"})


class RestartQueue(NamedTuple):
    """How an AMQP sender finds out whether a group is new. One for each product.

    The restart queue looks empty both in a new group and if another run holds its message.
    ``first`` are properties of a group's first restart message: the broker accepts a message with
    them only once. If ``first`` is empty, the queue is browsed, which also shows a held message.
    ``is_managed`` states whether the broker answers management requests (``artemis.py``).
    """

    first: Mapping[str, str] = MappingProxyType({})
    is_managed: bool = False


# By the product that the broker names.
RESTARTS: Final[Mapping[str, RestartQueue]] = MappingProxyType(
    {
        "apache-activemq-artemis": RestartQueue(
            MappingProxyType({"_AMQ_DUPL_ID": "first"}), is_managed=True
        ),
        "ActiveMQ": RestartQueue(),
        "Apache Qpid Broker-J Core": RestartQueue(),
        "qpid": RestartQueue(),
    }
)


class ReceivedMessage(NamedTuple):
    """A message that AMQP has delivered: its delivery (to accept it), its body as text, its properties."""

    delivery: Any
    body: str
    properties: Mapping[str, Any]


class SendingConnection(AmqpConnection):
    """An AMQP connection with links to a destination, to a restart queue and to the coordinator."""

    def _log_in(self) -> None:
        self._links: list[Any] = []
        self._received: Any = None
        super()._log_in()

    def attach(self, to: BrokerAddress, queue: str) -> None:
        """Open the AMQP links that send: to the destination ``to``, to the restart queue and to the coordinator."""
        self._begin()
        known = self._engine.remote_properties or {}
        self.coordinator = self._session.sender("coordinator")
        self.coordinator.target.type = self._proton.Terminus.COORDINATOR
        self.coordinator.target.capabilities.put_object(self._proton.symbol(LOCAL))
        self.sender, self.restart = (self._session.sender(str(uuid.uuid4())) for _ in range(2))
        name_terminus(self.sender.target, to.destination, to.kind, known)
        name_terminus(self.restart.target, queue, QUEUE, known)
        for link in (self.coordinator, self.sender, self.restart):
            self._attach(link)

    def listen(self, queue: str, *, browse: bool = False) -> Any:
        """Open an AMQP link that receives the messages of a queue. The caller grants credit.

        With ``browse``, the messages stay in the queue.
        """
        self._begin()
        link = self._session.receiver(str(uuid.uuid4()))
        name_terminus(link.source, queue, QUEUE, self._engine.remote_properties or {})
        if browse:
            link.source.distribution_mode = self._proton.Terminus.DIST_MODE_COPY
        self._attach(link)
        return link

    def browse(self, queue: str) -> list[ReceivedMessage]:
        """Return the first messages of a queue without removing them, even if another run holds them.

        All messages have been received when the broker returns the remaining credit (AMQP 1.0,
        2.6.7: drain).
        """
        link = self.listen(queue, browse=True)
        link.drain(BROWSED)
        found: list[ReceivedMessage] = []
        while True:
            taken = self.take(link, SECONDS, lambda: not link.draining())
            if taken is None:
                break
            taken.delivery.settle()
            found.append(taken)
        if link.draining():
            raise self.error(f"the broker does not show the messages of the queue {queue}")
        self.close_link(link)
        return found

    def ask(self, question: ManagementQuestion) -> str:
        """Send a management request to Artemis by AMQP, and return the answer."""
        self._begin()
        answers = self._session.receiver(str(uuid.uuid4()))
        answers.source.dynamic = True
        self._attach(answers)
        answers.flow(1)
        asking = self._session.sender(str(uuid.uuid4()))
        name_terminus(asking.target, MANAGEMENT, QUEUE, self._engine.remote_properties or {})
        self._attach(asking)
        self.wait_for_credit(asking)
        message = self._proton.Message(question.body, reply_to=answers.remote_source.address)
        message.properties = dict(question.properties)
        asking.send(message)
        taken = self.take(answers, ANSWER_SECONDS)
        if taken is None:
            raise self.error("the broker does not answer")
        taken.delivery.settle()
        for link in (asking, answers):
            self.close_link(link)
        return taken.body

    def close_link(self, link: Any) -> None:
        """Close one AMQP link. The connection stays open."""
        self._links.remove(link)
        link.close()
        self.work(0.0)

    def take(
        self, link: Any, seconds: float, ended: Callable[[], bool] = lambda: False
    ) -> ReceivedMessage | None:
        """Wait for a message on an AMQP link, for ``seconds`` or until ``ended()`` is true.

        Returns None if none arrived.
        """

        def arrived() -> bool:
            delivery = link.current
            return delivery is not None and delivery.readable and not delivery.partial

        self.work(seconds, lambda: arrived() or ended())
        if not arrived():
            return None
        delivery = link.current
        message = self._proton.Message()
        message.decode(link.recv(delivery.pending))
        link.advance()
        body = message.body
        is_binary = isinstance(body, (bytes, memoryview))
        text = bytes(body).decode("utf-8", "replace") if is_binary else str(body)
        return ReceivedMessage(delivery, text, message.properties or {})

    def wait_for_outcome(self, delivery: Any, what: str) -> Any:
        """Wait until the AMQP broker has accepted or rejected a delivery, and return its answer.

        ``what`` names the delivery in errors. Raises BrokerError if it was rejected.
        """
        if not self.work(SECONDS, lambda: delivery.settled or delivery.remote_state):
            raise self.error(f"the broker does not answer to {what}")
        if delivery.remote_state == self._proton.Delivery.REJECTED:
            raise self._condition_error(f"the broker refuses {what}", delivery.remote.condition)
        return delivery.remote

    def wait_for_credit(self, link: Any) -> None:
        """Wait until the AMQP broker grants credit for another message on a link."""
        if link.credit > 0:
            return
        problem = "the broker accepts no more messages: it may be full"
        if not wait_for_broker(
            lambda some: self.work(some, lambda: link.credit > 0), SECONDS, problem, self._where
        ):
            raise BrokerFullError(problem, where=self._where)

    def refusal(self, delivery: Any) -> BrokerError:
        """Build the error for a message that the AMQP broker has rejected."""
        return self._condition_error("the broker refuses a message", delivery.remote.condition)

    def _begin(self) -> None:
        if self._session is None:
            self._session = self._engine.session()
            self._session.open()

    def _attach(self, link: Any) -> None:
        self._links.append(link)
        link.open()
        self._answer(link)

    def _check(self) -> None:
        super()._check()
        for link in self._links:
            if link.state & self._proton.Endpoint.REMOTE_CLOSED:
                self.is_detached = True
                raise self._condition_error("the broker closes the link", link.remote_condition)


class AmqpSender(QueueSender):
    """Sends each message once to a queue or topic by AMQP 1.0; see ``Sender``."""

    guarantee = EXACTLY_ONCE

    def __init__(
        self, address: BrokerAddress, group: str, *, is_whole: bool, has_tombstones: bool
    ) -> None:
        super().__init__(address, group, is_whole=is_whole, has_tombstones=has_tombstones)
        self._proton = import_proton()
        self._link: SendingConnection | None = None
        self._receiver: Any = None
        self._held: list[ReceivedMessage] = []  # restart messages, by their numbers
        self._marks: dict[str, ReceivedMessage] = {}
        self._is_asked = False  # whether the broker has credit for the next message
        self._is_noted = False  # whether addresses that drop messages were looked for

    def check(self, parts: Iterable[OutgoingMessages]) -> None:
        """Raise EncodeError for a message larger than the limit that the AMQP broker announced."""
        limit, largest = self._connected.sender.remote_max_message_size, LargestMessage.of(parts)
        if limit and largest.size + HEAD_BYTES > limit:
            problem = (
                f"the message has {largest.size} bytes, but the broker accepts at most {limit - HEAD_BYTES} "
                f"(operation at {largest.position})"
            )
            where = Where(source=str(self._address), table=largest.table or None)
            raise EncodeError(problem, where=where, hint=TOO_LARGE)

    def open(self) -> str | None:
        """Connect by AMQP, and receive the restart message, which locks the group; see ``Sender``."""
        restart = self._connect()
        link = self._connected
        self._note_dropping(restart)
        link.attach(self._address, self._queue)
        if restart.first or not self._browse():
            first = {name: f"{self._queue}.{text}" for name, text in restart.first.items()}
            self._send_and_wait(link.restart, self._message("", first), "a restart message")
        held = HELD.format(self._group)
        if restart.is_managed and not wait_for_broker(
            self._is_free, HELD_SECONDS, held, self._where
        ):
            raise self._other_run()
        self._receiver = link.listen(self._queue)
        if not wait_for_broker(self._receive, HELD_SECONDS, held, self._where):
            raise self._other_run()
        if restart.first:
            self._keep_latest()
        text = self._held[-1].body
        if not text and not restart.first and len(self._browse()) > 1:
            self._accept(self._held)  # the broker removes it
            raise self._other_run()
        return text or None

    def _receive(self, seconds: float, ended: Callable[[], bool] = lambda: False) -> bool:
        """Wait for a restart message, and return whether one arrived before ``ended()`` or the time limit.

        The link has credit for one message at a time. Marks (``stomp.py``) that arrive first are
        stored. Raises StorageError for a message that is neither.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not ended():
            if not self._is_asked:
                self._receiver.flow(1)
            self._is_asked = True
            taken = self._connected.take(self._receiver, left)
            if taken is None:
                return False
            self._is_asked = False
            if MARK not in taken.properties:
                self._held.append(taken)
                self._held.sort(key=self._number_of)
                return True
            self._marks[str(taken.properties[MARK])] = taken
        return False

    def _number_of(self, one: ReceivedMessage) -> int:
        return self._restart_number(one.body, one.properties.get(NUMBER))

    def _keep_latest(self) -> None:
        """Accept all restart messages but the latest, which removes them from the AMQP queue.

        A run by STOMP that was killed may have left two (``stomp.py``). Raises BrokerRefusedError
        if another run receives messages of the queue.
        """
        link = self._connected
        marks = {uuid.uuid4().hex for _ in range(MARKS_SENT)}
        for one in marks:
            self._send_and_wait(link.restart, self._message("", {MARK: one}), "a mark")
        until = time.monotonic() + MARK_SECONDS
        # The queue keeps the order, so everything before the marks arrives before them.
        while self._receive(until - time.monotonic(), lambda: marks <= self._marks.keys()):
            pass
        if not marks <= self._marks.keys():
            raise self._other_run()
        *older, latest = self._held
        self._accept([*older, *self._marks.values()])
        self._held, self._marks = [latest], {}

    def _accept(self, messages: Iterable[ReceivedMessage]) -> None:
        for one in messages:
            one.delivery.update(self._proton.Delivery.ACCEPTED)
            one.delivery.settle()
        self._connected.work(0.0)

    def _is_free(self, seconds: float) -> bool:
        """Wait until no other run receives from the AMQP restart queue, and return whether that is so.

        Returns True if the broker does not answer this user's requests.
        """
        until = time.monotonic() + seconds
        while True:
            try:
                # A broker that refuses the question closes its link.
                with closing(SendingConnection(self._address)) as side:
                    asked = (ask_attribute(self._queue, one) for one in (CONSUMERS, DELIVERED))
                    answers = [side.ask(one).strip("[]") for one in asked]
            except BrokerError as error:
                LOG.info(
                    "whether another run publishes to %s is not known: %s",
                    self._address,
                    error.problem,
                )
                return True
            if not any(one.isdecimal() and int(one) for one in answers):
                return True
            if time.monotonic() >= until:
                return False
            self._connected.work(POLL_SECONDS)

    def _note_dropping(self, restart: RestartQueue) -> None:
        """Log a warning, once per AMQP sender, if an address drops messages when it is full.

        The broker confirms even the dropped messages, so a run cannot notice the loss.
        """
        if self._is_noted or not restart.is_managed:
            return
        self._is_noted = True
        try:
            # A broker that refuses the question closes its link.
            with closing(SendingConnection(self._address)) as side:
                for name in (self._address.destination, self._queue):
                    if drops_messages(side.ask(ask_settings(name))):
                        LOG.warning(DROPS, name, self._address)
        except BrokerError as error:
            LOG.info("whether %s drops messages is not known: %s", self._address, error.problem)

    def read(self) -> str | None:
        """Return the state in the AMQP restart queue; see ``Sender``.

        Artemis does not show a message that another run holds.
        """
        self._connect()
        shown = sorted(self._browse(), key=self._number_of)
        return shown[-1].body or None if shown else None

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        """Send messages and the new restart message in one AMQP transaction; see ``Sender``."""
        if self._link is None or not self._held:
            raise BrokerError("there is no connection", where=self._where)
        held, self._held = self._held[-1], []
        try:
            self._send_transaction(parts, state, held)
        except BrokerError as error:
            raise self._explain(error, parts) from error

    def _send_transaction(
        self, parts: Iterable[OutgoingMessages], state: str, held: ReceivedMessage
    ) -> None:
        """Send messages and the new restart message in one AMQP transaction, and accept the old one.

        Then receives the new one, which this run holds from now on.
        """
        link, name, delivery = self._connected, self._declare(), held.delivery
        number = self._number_of(held) + 1
        for part in parts:
            self._send_part(part, name)
        message = self._message(state, {NUMBER: str(number)})
        new = self._send_in(link.restart, message.encode(), name)
        accepted = self._proton.Described(self._proton.ulong(0x24), [])
        delivery.local.data = [name, accepted]
        delivery.update(TRANSACTIONAL)
        link.wait_for_outcome(new, "a restart message")
        ended = self._control(DISCHARGE, [name, False])
        self._send_and_wait(link.coordinator, ended, "the end of a transaction")
        delivery.settle()
        # Older ones are those that a lost connection had.
        while not self._held or self._number_of(self._held[-1]) < number:
            if not self._receive(SECONDS):
                raise link.error("the new restart message does not arrive")
        *older, latest = self._held
        if self._number_of(latest) != number:
            raise self._other_run()
        # Marks of a run that was refused, as this one runs.
        self._accept([*older, *self._marks.values()])
        self._held, self._marks = [latest], {}

    def close(self) -> None:
        """Disconnect from the AMQP broker.

        The broker rolls back an open transaction, and returns the restart message to its queue.
        """
        link, self._link = self._link, None
        self._receiver, self._held, self._marks, self._is_asked = None, [], {}, False
        if link is not None:
            link.close()

    @property
    def _connected(self) -> SendingConnection:
        assert self._link is not None, "called after open"
        return self._link

    def _connect(self) -> RestartQueue:
        self.close()
        link = self._link = SendingConnection(self._address)
        if link.product not in RESTARTS:
            problem = f"{link.product} is not known to have transactions by AMQP 1.0"
            raise link.error(problem, refused=True, hint=_HINTS.get(link.product, _KNOWN))
        return RESTARTS[link.product]

    def _other_run(self) -> BrokerError:
        problem = f"another run of the group {self._group} holds the restart message"
        return self._connected.error(problem, refused=True, hint=STOP_ONE)

    def _browse(self) -> list[ReceivedMessage]:
        """Return the restart messages that the AMQP broker shows: one, or none in a new group.

        There are two if two runs began a new group at the same time.
        """
        shown = [one for one in self._connected.browse(self._queue) if MARK not in one.properties]
        for one in shown:
            self._number_of(one)  # a foreign message is an error
        return shown

    def _message(self, body: str, properties: Mapping[str, str]) -> Any:
        message = self._proton.Message(body.encode(), durable=True, inferred=True)
        message.properties = dict(properties) or None
        return message

    def _control(self, name: str, values: list[Any]) -> Any:
        """Build a message to the AMQP coordinator: a described list, such as amqp:declare:list."""
        return self._proton.Message(body=self._proton.Described(self._proton.symbol(name), values))

    def _declare(self) -> Any:
        """Begin an AMQP transaction, and return its id."""
        message = self._control(DECLARE, [None])
        return self._send_and_wait(self._connected.coordinator, message, "a transaction").data[0]

    def _send_and_wait(self, to: Any, message: Any, what: str) -> Any:
        """Send an AMQP message outside transactions, and return the broker's answer."""
        self._connected.wait_for_credit(to)
        delivery = to.send(message)
        answer = self._connected.wait_for_outcome(delivery, what)
        delivery.settle()
        return answer

    def _send_in(self, to: Any, data: bytes, transaction: Any) -> Any:
        """Send an encoded AMQP message in a transaction. Returns its delivery, without waiting."""
        self._connected.wait_for_credit(to)
        delivery = to.delivery(to.delivery_tag())
        to.stream(data)
        delivery.local.data = [transaction]
        delivery.update(TRANSACTIONAL)
        to.advance()
        return delivery

    def _send_part(self, part: OutgoingMessages, transaction: Any) -> None:
        """Send messages in an AMQP transaction, and wait for the answers after every ``UNANSWERED`` messages."""
        link, library = self._connected, self._proton
        waiting: list[Any] = []
        bodies = part.messages.bodies.to_pylist()
        for body, one in zip(bodies, jms_properties(part, self._group), strict=True):
            message = library.Message(body.decode(), durable=True, id=one.id)
            message.properties = named_properties(one, self._group)
            message.annotations = {library.symbol(JMS_TYPE): library.byte(TEXT_MESSAGE)}
            message.subject = jms_type(one)
            waiting.append(self._send_in(link.sender, message.encode(), transaction))
            # Waiting for each answer would cost a round trip per message; not waiting at all,
            # unbounded memory.
            if len(waiting) >= UNANSWERED:
                self._wait_for(waiting)
        self._wait_for(waiting)

    def _wait_for(self, waiting: list[Any]) -> None:
        """Wait for the AMQP broker's answers to these deliveries, and free them. Empties the list.

        Raises BrokerError if one was rejected.
        """
        link = self._connected
        # ``remote_state`` is 0 until the broker has answered.
        if not link.work(SECONDS, lambda: all(one.remote_state for one in waiting)):
            raise link.error("the broker does not answer to messages")
        for one in waiting:
            if one.remote_state == self._proton.Delivery.REJECTED:
                raise link.refusal(one)
            one.settle()
        waiting.clear()
