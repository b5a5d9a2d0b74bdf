"""The restart message of a group at a real Artemis, whatever a run that was killed or refused has left in its queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokers.artemis import SELDOM, Artemis
from brokers.published import received
from brokers.receivers import PATIENCE
from brokers.test_publish_full import COUNT, keys_of, publishing, quick, trail_of, wait_for
from trailgate.errors import BrokerRefusedError
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.live.brokers.stomp.connection import StompConnection
from trailgate.messages.publishing import PublishOptions
from trailgate.publish.senders.broker import sender_for
from trailgate.publish.senders.sender import Sender
from trailgate.publish.senders.stomp import StompSender

__all__ = ["quick"]


@contextmanager
def opened_sender(artemis: Artemis, group: str) -> Iterator[Any]:
    """Yield a sender by STOMP, and close it."""
    address = parse_address(artemis.address(f"restarts.{group}"), direction=Direction.SENT)
    sender: Sender = sender_for(address, group, PublishOptions(content="row"), "json")
    with closing(sender):
        yield sender


@contextmanager
def opened(artemis: Artemis, group: str) -> Iterator[tuple[Any, str | None]]:
    """Yield a sender by STOMP and the state that it has found."""
    with opened_sender(artemis, group) as sender:
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
        sender.send((), "old")
        send = StompConnection.send
        with monkeypatch.context() as patch:

            def without_ack(link: Any, command: str, *rest: Any) -> None:
                if command != "ACK":
                    send(link, command, *rest)

            patch.setattr(StompConnection, "send", without_ack)
            sender.send((), "new")
        lose(sender)

    for _ in range(3):  # it is still the only one the next time
        with opened(artemis, "latest") as (sender, state):
            assert state == "new"
            assert sender.read() == "new"
    with opened(artemis, "latest") as (sender, _):
        sender.send((), "newest")
        assert [text for _, text in sender._messages] == ["newest"]


def test_a_transaction_that_is_lost_before_its_end_leaves_the_state(artemis: Artemis) -> None:
    with opened(artemis, "lost") as (sender, _):
        sender.send((), "stored")
        held = sender._messages[0][0]
        confirm = sender._confirm

        def lost(command: str, *rest: Any) -> None:
            if command == "COMMIT":
                lose(sender)
                raise ConnectionResetError
            confirm(command, *rest)

        sender._confirm = lost
        with pytest.raises(ConnectionResetError):
            sender._send_transaction((), "not stored", held)

    with opened(artemis, "lost") as (_, state):
        assert state == "stored"


def test_a_run_waits_for_restart_messages_that_another_one_holds(
    artemis: Artemis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Artemis may return the messages of a lost connection one by one: the latest may not be there yet."""
    monkeypatch.setattr("trailgate.publish.senders.stomp.HELD_SECONDS", 3.0)
    with opened(artemis, "held") as (holder, _):
        holder.send((), "held")
        with opened_sender(artemis, "held") as other, monkeypatch.context() as patch:
            patch.setattr(StompSender, "_wait_for_release", lambda *_: True)
            with pytest.raises(BrokerRefusedError, match="another run of the group held"):
                other.open()
    with opened(artemis, "held") as (_, state):
        assert state == "held"


def test_marks_of_a_killed_run_are_removed(artemis: Artemis) -> None:
    with opened(artemis, "marks") as (sender, _):
        sender.send((), "state")
        to = sender._to(sender._queue, "queue")
        for mark in ("a", "b"):
            sender._confirm("SEND", {**to, "trailgate-mark": mark})

    for _ in range(2):
        with opened(artemis, "marks") as (_, state):
            assert state == "state"


def test_large_states_are_found(artemis: Artemis) -> None:
    """Those of many tables are larger than what Artemis sends to a consumer by default: 10 KB."""
    state = "x" * 300_000
    with opened(artemis, "large") as (sender, _):
        sender.send((), state)
        sender.send((), state)
    with opened(artemis, "large") as (_, found):
        assert found == state


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
