"""Ask a STOMP broker about the consumers of a queue, through separate connections.

If a queue has another consumer, each gets some of the messages, so that their order is lost:
``ConsumerWatch`` logs a warning.

An address of Artemis may drop messages when it is full: ``find_dropping_addresses`` finds such addresses.

After a consumer was lost, the broker has to put its messages back before another consumer connects:
``wait_for_return`` waits for that. Artemis may never do so for one message (seen with 2.44.0, in
about one of 300 lost connections on a busy machine). When a connection fails, one thread of Artemis
rolls the session's transaction back and closes its consumers (``ServerSessionImpl.doClose``), while
another one acknowledges the first message of each consumer in the same transaction, to roll it back
with the others (``StompProtocolManager.cleanup``). If the first thread was faster, the message
stays in a transaction that has ended: it counts as being delivered, to no consumer, until the
broker is started again. A consumer that continues would receive later messages first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import uuid4

from trailgate.errors import BrokerError, count_noun
from trailgate.live.brokers.address import BrokerAddress
from trailgate.live.brokers.artemis import (
    CONSUMERS,
    HELD,
    MANAGEMENT,
    ManagementQuestion,
    ask_attribute,
    ask_settings,
    drops_messages,
)
from trailgate.live.brokers.receiver import CONNECT_SECONDS
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.connection import FRAMES, TYPE, StompConnection, queue_name
from trailgate.live.brokers.stomp.frames import StompFrames, error_text

READY_SECONDS: Final = 2.0  # the longest time that a subscription waits for the watch
POLL_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 5.0  # in which a broker answers a question
NOTICE_SECONDS: Final = 2.0  # in which a broker notices that a connection has been closed
RETURN_SECONDS: Final = 10.0  # in which a broker puts messages back
SECOND: Final = "%s has %d consumers: each gets some of the messages, and their order is lost (docs/guarantees.md)"
UNKNOWN: Final = "whether %s has other consumers is not known: %s"
NOT_ASKED: Final = "whether %s has messages that a lost connection holds is not known: %s"
STILL_HELD: Final = (
    "the queue {} has {} that a lost connection still holds: later messages would come first"
)
HINT: Final = (
    "Start the broker again, and then this command: nothing is lost (docs/brokers.md). If another program has prepared a "
    "two-phase transaction on this queue, let it end that first"
)
_SIDE_OPTIONS: Final = ("ca", "cert", "key", "virtual-host")
_LOG: Final = logging.getLogger("trailgate.brokers")


class QueueState(NamedTuple):
    """The state of a queue: the number of its consumers, and the number of messages that are delivered but not acknowledged."""

    consumers: int
    held: int


def wait_for_return(
    connection: StompConnection, address: BrokerAddress, name: str, own: int = 0
) -> None:
    """Wait until a STOMP broker has put the messages of lost consumers back into the queue ``name``.

    ``own`` is the number of our own consumers, which hold no messages. Other consumers may be lost
    connections that the broker has not noticed yet: if they remain for ``NOTICE_SECONDS``, they
    belong to other programs, and the function returns.

    The requests need a separate connection, because Artemis closes a connection if it rejects a
    request. If the broker does not answer (the user may lack the permission), that is logged and
    the function returns. Raises BrokerRefusedError if messages are still held after
    ``RETURN_SECONDS`` although only our own consumers remain, and BrokerError if the broker cannot
    be reached.
    """
    if not connection.dialect.is_managed:
        return
    with closing(StompConnection(_side_address(address))) as side:
        start = time.monotonic()
        try:
            # Held messages belong to a consumer that does not answer any more, or to another
            # program.
            while (state := _ask(side, name)).held:
                waited = time.monotonic() - start
                if state.consumers > own and waited > NOTICE_SECONDS:
                    return
                if state.consumers <= own and waited > RETURN_SECONDS:
                    held = count_noun(state.held, "message")
                    problem = STILL_HELD.format(name, held)
                    raise connection.error(problem, refused=True, hint=HINT)
                time.sleep(POLL_SECONDS)
        except BrokerError as error:
            if not error.retriable:
                raise
            _LOG.info(NOT_ASKED, address, error.problem)


def find_queue_state(
    connection: StompConnection, address: BrokerAddress, name: str
) -> QueueState | None:
    """Ask a STOMP broker for the state of a queue.

    Returns None if the broker does not answer requests of this user.
    """
    if not connection.dialect.is_managed:
        return None
    try:
        with closing(StompConnection(_side_address(address))) as side:
            return _ask(side, name)
    except BrokerError as error:
        _LOG.info(NOT_ASKED, address, error.problem)
        return None


def find_dropping_addresses(
    connection: StompConnection, address: BrokerAddress, names: Sequence[str]
) -> list[str]:
    """Ask Artemis over a second STOMP connection which of the addresses ``names`` drop messages without an error when they are full.

    The result is empty if the broker is not Artemis, or does not answer requests of this user.
    """
    if not connection.dialect.is_managed:
        return []
    try:
        with closing(StompConnection(_side_address(address))) as side:
            answers = _answers(side, [ask_settings(name) for name in names])
    except BrokerError as error:
        _LOG.info(NOT_ASKED, address, error.problem)
        return []
    return [name for name, answer in zip(names, answers, strict=True) if drops_messages(answer)]


def _ask(connection: StompConnection, name: str) -> QueueState:
    """Request the state of a queue from Artemis.

    A queue that does not exist has no consumers and no messages. Raises BrokerError if there is no
    answer, for example because the user lacks the permission ``manage``.
    """
    answers = _answers(connection, [ask_attribute(name, one) for one in (CONSUMERS, HELD)])
    # A number in brackets; an error is a text.
    digits = [answer.strip("[]") for answer in answers]
    return QueueState(*(int(one) if one.isdecimal() else 0 for one in digits))


def _answers(connection: StompConnection, asked: Sequence[ManagementQuestion]) -> list[str]:
    """Send management requests to Artemis by STOMP, and return the answers.

    Raises BrokerError if an answer is missing.
    """
    answers = f"trailgate.answers.{uuid4().hex}"
    connection.send("SUBSCRIBE", {"id": answers, "destination": answers, TYPE: "MULTICAST"})
    to = {"destination": MANAGEMENT, "reply-to": answers}
    texts = []
    for question in asked:
        connection.send("SEND", {**to, **question.properties}, question.body.encode())
        found = connection.frames(ANSWER_SECONDS, 1)
        if found is None:
            raise connection.error("the broker does not answer")
        if found.kinds[0] == kernels.ERROR:
            raise connection.error(error_text(found, 0))
        texts.append(found.body(0).decode("utf-8", "replace"))
    connection.send("UNSUBSCRIBE", {"id": answers})
    return texts


def _side_address(address: BrokerAddress) -> BrokerAddress:
    """Return the address for an additional connection: without options such as client-id or durable."""
    options = {name: text for name, text in address.options.items() if name in _SIDE_OPTIONS}
    return replace(address, options=options)


class ConsumerWatch:
    """Logs a warning if a queue has another consumer, based on notifications of a STOMP broker.

    Failures of the watch never stop the capture.
    """

    def __init__(self, address: BrokerAddress) -> None:
        self._address = _side_address(address)
        self._ready, self._closed = threading.Event(), threading.Event()
        self._count, self._is_known = 0, True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait, for a limited time, until the watch for other consumers has started or failed."""
        self._ready.wait(READY_SECONDS)

    def close(self) -> None:
        """Stop the watch for other consumers, and close its connection."""
        self._closed.set()
        self._thread.join(READY_SECONDS)

    def _run(self) -> None:
        known = ""
        while not self._closed.is_set():
            try:
                self._watch()
            except BrokerError as error:
                if error.problem != known:
                    _LOG.info(UNKNOWN, self._address, error.problem)
                known = error.problem
            self._ready.set()
            if not self._is_known:
                return
            self._closed.wait(RETRY_SECONDS)

    def _watch(self) -> None:
        """Receive a STOMP broker's notifications until the watch is closed. Raises BrokerError."""
        connection = StompConnection(self._address)
        try:
            watched = connection.dialect.consumers
            if watched is None:
                self._is_known = False  # do not retry
                raise connection.error(f"{connection.dialect.name} is not known to report them")
            # Quotes are doubled because the name is part of a selector.
            name = queue_name(self._address).replace("'", "''")
            headers = {key: text.format(name) for key, text in watched.subscribe.items()}
            connection.send("SUBSCRIBE", {"id": "consumers", "receipt": "watching", **headers})
            seconds = CONNECT_SECONDS
            while not self._closed.is_set():
                found = connection.frames(seconds, FRAMES)
                if found is not None:
                    self._note(connection, found, watched.number)
                self._ready.set()
                seconds = POLL_SECONDS
        finally:
            connection.close()

    def _note(self, connection: StompConnection, frames: StompFrames, header: str) -> None:
        """Warn if the number of the queue's consumers has grown, and is more than one.

        ``header`` is the header of a notification that contains the number. Raises BrokerError for
        an ERROR frame.
        """
        for at in range(len(frames)):
            if frames.kinds[at] == kernels.ERROR:
                raise connection.error(error_text(frames, at))
            text = frames.headers(at).get(header, "")
            if not text.isdecimal():
                continue
            if int(text) > max(1, self._count):
                _LOG.warning(SECOND, self._address, int(text))
            self._count = int(text)
