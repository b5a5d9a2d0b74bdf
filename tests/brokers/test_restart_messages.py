"""The restart message of a group at a real Artemis, whatever a run that was killed or refused has left in its queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from brokers.artemis import SELDOM, Artemis
from brokers.classic import Classic
from brokers.published import received, state_of
from brokers.receivers import PATIENCE
from brokers.test_publish_full import COUNT, keys_of, publishing, quick, trail_of, wait_for
from brokers.test_publish_jms import BOTH
from trailgate.errors import BrokerRefusedError, StorageError
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.live.brokers.stomp.connection import StompConnection
from trailgate.messages.publishing import PublishOptions
from trailgate.publish.senders.broker_sink import sender_for
from trailgate.publish.senders.sender import Sender
from trailgate.publish.senders.stomp import StompSender

__all__ = ["quick"]


@contextmanager
def opened_sender(broker: Artemis | Classic, group: str, scheme: str = "stomp") -> Iterator[Any]:
    """Yield a sender, and close it."""
    text = broker.address(f"restarts.{group}", scheme)
    address = parse_address(text, direction=Direction.SENT)
    sender: Sender = sender_for(address, group, PublishOptions(content="row"), "json")
    with closing(sender):
        yield sender


@contextmanager
def opened(
    broker: Artemis | Classic, group: str, scheme: str = "stomp"
) -> Iterator[tuple[Any, str | None]]:
    """Yield a sender and the state that it has found."""
    with opened_sender(broker, group, scheme) as sender:
        yield sender, sender.open()


def lose(sender: Any) -> None:
    """Close the connection as the system does it for a process that is killed."""
    link, sender._link = sender._link, None
    link.close()


def test_the_latest_of_two_restart_messages_is_kept(
    artemis: Artemis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed after COMMIT has not acknowledged the old one, which comes first."""
    with opened(artemis, "latest") as (sender, state):
        assert state is None
        sender.send((), state_of("old"))
        send = StompConnection.send
        with monkeypatch.context() as patch:

            def without_ack(link: Any, command: str, *rest: Any) -> None:
                if command != "ACK":
                    send(link, command, *rest)

            patch.setattr(StompConnection, "send", without_ack)
            sender.send((), state_of("new"))
        lose(sender)

    for _ in range(3):  # it is still the only one the next time
        with opened(artemis, "latest") as (sender, state):
            assert state == state_of("new")
            sender.close()
            assert sender.read() == state_of("new")
    with opened(artemis, "latest") as (sender, _):
        sender.send((), state_of("newest"))
        assert [text for _, text in sender._messages] == [state_of("newest")]


def test_a_transaction_that_is_lost_before_its_end_leaves_the_state(artemis: Artemis) -> None:
    with opened(artemis, "lost") as (sender, _):
        sender.send((), state_of("stored"))
        held = sender._messages
        confirm = sender._confirm

        def lost(command: str, *rest: Any) -> None:
            if command == "COMMIT":
                lose(sender)
                raise ConnectionResetError
            confirm(command, *rest)

        sender._confirm = lost
        with pytest.raises(ConnectionResetError):
            sender._send_transaction((), state_of("not stored"), held)

    with opened(artemis, "lost") as (_, state):
        assert state == state_of("stored")


def test_a_run_waits_for_restart_messages_that_another_one_holds(
    artemis: Artemis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Artemis may return the messages of a lost connection one by one: the latest may not be there yet."""
    monkeypatch.setattr("trailgate.publish.senders.stomp.HELD_SECONDS", 3.0)
    with opened(artemis, "held") as (holder, _):
        holder.send((), state_of("held"))
        with opened_sender(artemis, "held") as other, monkeypatch.context() as patch:
            patch.setattr(StompSender, "_wait_until_free", lambda *_: None)
            patch.setattr(StompSender, "_wait_for_release", lambda *_: True)
            with pytest.raises(BrokerRefusedError, match="another run of the group held"):
                other.open()
    with opened(artemis, "held") as (_, state):
        assert state == state_of("held")


def test_marks_of_a_killed_run_are_removed(artemis: Artemis) -> None:
    with opened(artemis, "marks") as (sender, _):
        sender.send((), state_of("marked"))
        to = sender._to(sender._queue, "queue")
        for mark in ("a", "b"):
            sender._confirm("SEND", {**to, "trailgate-mark": mark})

    for _ in range(2):
        with opened(artemis, "marks") as (_, state):
            assert state == state_of("marked")


def test_large_states_are_found(artemis: Artemis) -> None:
    """Those of many tables are larger than what Artemis sends to a consumer by default: 10 KB."""
    state = state_of("x" * 300_000)
    with opened(artemis, "large") as (sender, _):
        sender.send((), state)
        sender.send((), state)
    with opened(artemis, "large") as (_, found):
        assert found == state


def put(broker: Artemis | Classic, group: str, body: str, **headers: str) -> None:
    """Send a message to a restart queue, as another program does."""
    with opened_sender(broker, group) as sender:
        sender._connect()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        sender._confirm("SEND", {**sender._to(sender._queue, "queue"), **named}, body.encode())


@BOTH
@pytest.mark.parametrize(
    ("name", "body", "number", "problem"),
    [
        ("text", "hello", "7", "the stored state cannot be understood: .*: 'hello'"),
        ("number", "", "abc", "its trailgate-number is 'abc', not a number"),
        ("digits", "", "9" * 5000, "its trailgate-number is '9{40}', not a number"),
        ("version", '{"version": 3}', "0", "the state has version 3, not 2"),
    ],
)
def test_a_message_that_is_no_position_is_an_error_and_takes_the_place_of_none(
    artemis: Artemis, scheme: str, name: str, body: str, number: str, problem: str
) -> None:
    group = f"foreign-{name}-{scheme}"
    with opened(artemis, group) as (sender, _):
        sender.send((), state_of("own"))
    put(artemis, group, body, trailgate_number=number)
    with opened_sender(artemis, group, scheme) as sender:
        for call in (sender.read, sender.open):
            with pytest.raises(StorageError, match=problem) as caught:
                call()
            assert f"the queue trailgate.restart.{group} has a message" in str(caught.value)
            sender.close()

    with opened_sender(artemis, group) as sender:
        sender._connect()
        sender._subscribe(sender._dialect.subscribe)
        assert sender._wait(lambda: len(sender._messages) == 2, PATIENCE)
        (left,) = [headers for headers, text in sender._messages if text == body]
        sender._confirm("ACK", {"id": left["ack"]})  # the user removes it
    with opened(artemis, group, scheme) as (_, state):
        assert state == state_of("own")


@BOTH
def test_a_foreign_message_at_classic_ends_a_run_and_displaces_no_position(
    classic: Classic, scheme: str
) -> None:
    group = f"foreign-{scheme}"
    with opened(classic, group, scheme) as (sender, _):
        sender.send((), state_of("own"))
        put(classic, group, "hello")
        with pytest.raises(StorageError, match=r"has a message that is not a position: .*'hello'"):
            sender.send((), state_of("stored"))
    with opened_sender(classic, group, scheme) as sender:
        for call in (sender.read, sender.open):
            with pytest.raises(StorageError, match="has a message that is not a position"):
                call()
            sender.close()

    assert [body for _, body in received(classic.address(f"trailgate.restart.{group}"), 2)] == [
        "hello",
        state_of("stored"),
    ]


@pytest.mark.skipif(find_spec("proton") is None, reason="AMQP needs the extra amqp")
def test_a_run_by_amqp_keeps_the_latest_that_a_killed_run_by_stomp_has_left(
    artemis: Artemis,
) -> None:
    group = "continued"
    with opened(artemis, group) as (sender, _):
        for name in ("first", "second"):
            to = {**sender._to(sender._queue, "queue"), "trailgate-number": str(len(name))}
            sender._confirm("SEND", to, state_of(name).encode())
        sender._confirm("SEND", {**sender._to(sender._queue, "queue"), "trailgate-mark": "dead"})

    with opened_sender(artemis, group, "amqp") as sender:
        assert sender.read() == state_of("second")
        for name in ("third", "fourth"):
            assert sender.open() is not None
            sender.send((), state_of(name))
            assert sender.read() == state_of(name)
    for scheme in ("stomp", "amqp", "stomp"):
        with opened(artemis, group, scheme) as (sender, state):
            assert state == state_of("fourth")
            sender.send((), state_of("fourth"))


@pytest.mark.parametrize("answers", [True, False])
def test_a_status_beside_a_run_delays_no_batch(
    artemis: Artemis, monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    """Each consumer of a queue gets some of its messages, so a status that keeps one stops the run."""
    if not answers:  # as to a user without the permission
        monkeypatch.setattr("trailgate.publish.senders.stomp.find_queue_state", lambda *_: None)
    group, slowest = f"status-{answers}", 0.0
    with (
        opened(artemis, group) as (running, _),
        opened_sender(artemis, group) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        status = thread.submit(lambda: [outcome(other, other.read) for _ in range(3)])
        sent: set[str | None] = {None}
        while not status.done():
            began, state = time.monotonic(), state_of(str(len(sent)))
            sent.add(state)
            running.send((), state)
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < PATIENCE / 4
    assert set(status.result()) <= ({"publishes now"} if answers else sent)


@BOTH
def test_a_second_run_takes_nothing_from_one_that_publishes(
    artemis: Artemis, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the broker does not answer its questions: then the marks, some of which the first run gets, show it."""
    module = f"trailgate.publish.senders.{scheme}"
    monkeypatch.setattr(f"{module}.MARK_SECONDS", 3.0)
    monkeypatch.setattr(f"{module}.HELD_SECONDS", 6.0)
    with opened_sender(artemis, "any", scheme) as sender:
        kind = type(sender)
    monkeypatch.setattr(kind, "_is_free", lambda *_: True)
    monkeypatch.setattr(f"{module}.find_queue_state", lambda *_: None, raising=False)
    group = f"second-{scheme}"
    with (
        opened(artemis, group, scheme) as (running, _),
        opened_sender(artemis, group, scheme) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        second = thread.submit(outcome, other, other.open)
        while not second.done():
            running.send((), state_of("running"))
        assert second.result() == "holds the restart message"
        running.send((), state_of("last"))
    with opened(artemis, group, scheme) as (_, state):
        assert state == state_of("last")


def outcome(sender: Sender, call: Callable[[], str | None]) -> str | None:
    """Return the result of a call, or the end of its refusal, and close the sender."""
    try:
        return call()
    except BrokerRefusedError as error:
        ends = ("publishes now", "holds the restart message")
        return next(one for one in ends if one in error.problem)
    finally:
        sender.close()


@pytest.mark.usefixtures("quick")
def test_a_restart_message_outlives_more_attempts_than_a_broker_delivers(
    artemis: Artemis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Artemis moves a restart message of this group away that was delivered three times."""
    trail, address = trail_of(tmp_path / SELDOM), artemis.address("full.FAIL.often", patience=120)
    attempts, open_sender = list[str | None](), StompSender.open

    def counted(sender: StompSender) -> str | None:
        attempts.append(open_sender(sender))
        return attempts[-1]

    monkeypatch.setattr(StompSender, "open", counted)
    with publishing(trail, address) as running:
        wait_for(lambda: len(attempts) > 5, running)
        found = received(artemis.address("full.FAIL.often"), COUNT)
        running.result(PATIENCE)
    assert keys_of(found) == list(range(COUNT))
