"""Publishing a trail to queues of real brokers: each message once, with its position in the broker's transaction."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL
from typing import Any
from uuid import uuid4

import pytest

from brokers.artemis import Artemis, sent
from brokers.classic import Classic
from brokers.cut_connection import Proxy
from brokers.live_place import LivePlace, row
from brokers.published import check_missing_files, received, state_of
from brokers.qpid import LOGIN as QPID_LOGIN
from brokers.qpid import Qpid
from sample_trail import NOTES, Op, write_trail
from trailgate.errors import BrokerRefusedError, OptionError
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.messages.publishing import PublishOptions
from trailgate.publish.job import Publication, PublicationSettings, publish_trail, read_status
from trailgate.publish.senders.broker_sink import BrokerSink, sender_for
from trailgate.publish.senders.stomp import StompSender
from trailgate.storage.files.trail_files import find_trail

TRANSACTIONS = [
    [Op("I", 1, "one"), Op("I", 2, "two", table=NOTES)],
    [Op("U", 1, "uno", "one"), Op("D", 2, ..., "two", table=NOTES)],
    [Op("I", 3, "three")],
]
BY_AMQP = pytest.param(
    "amqp",
    marks=pytest.mark.skipif(find_spec("proton") is None, reason="AMQP needs the extra amqp"),
)
BOTH = pytest.mark.parametrize("scheme", ["stomp", BY_AMQP])
SLOW = 2.5  # seconds that each answer of a slow broker takes
IDLE = 12  # more openings than a broker delivers a message


def check_once(trail: Path, address: str, reading: str) -> None:
    """Check that later runs continue, whatever runs came between them, and that messages have their properties."""
    write_trail(trail, [TRANSACTIONS[:1]])
    first = publish_trail(trail, address, "json")
    idle = [publish_trail(trail, address, "json").messages for _ in range(IDLE)]
    write_trail(trail, [TRANSACTIONS[:1], TRANSACTIONS[1:]])
    rest = publish_trail(trail, address, "json")
    status = read_status(find_trail(trail), address)

    assert (first.messages, set(idle), rest.messages) == (2, {0}, 3)
    assert status is not None
    assert (status.position, status.messages) == (rest.position, 5)
    found = received(reading, 5)
    bodies = [json.loads(body) for _, body in found]
    assert [body["op_type"] for body in bodies] == ["I", "I", "U", "D", "I"]
    for (headers, _), body in zip(found, bodies, strict=True):
        assert headers["GG_ID"] == body["pos"]
        assert headers["GG_OPTYPE"] == body["op_type"]
        assert headers["GG_TABLE"] == headers["type"] == body["table"]
        assert headers["GG_TX_TIMESTAMP"] == body["op_ts"]


@BOTH
def test_artemis_has_each_message_once(artemis: Artemis, tmp_path: Path, scheme: str) -> None:
    # A queue and a group of its own, if the test is run again.
    name = f"{scheme}-{uuid4().hex[:8]}"
    address, reading = (artemis.address(f"out.{name}", one) for one in (scheme, "stomp"))
    check_once(tmp_path / f"artemis-{name}", address, reading)


@BOTH
def test_classic_has_each_message_once(classic: Classic, tmp_path: Path, scheme: str) -> None:
    address, reading = (classic.address(f"out.{scheme}", one) for one in (scheme, "stomp"))
    check_once(tmp_path / f"classic-{scheme}", address, reading)


@BOTH
def test_files_that_are_missing_are_named(artemis: Artemis, tmp_path: Path, scheme: str) -> None:
    name = f"missing-files-{scheme}"
    check_missing_files(tmp_path / name, artemis.address(name, scheme))


@BOTH
def test_two_first_runs_do_not_both_publish(
    classic: Classic, tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that look before the other has put its first restart message there: each has one, and both stop."""
    address = parse_address(classic.address(f"two.{scheme}", scheme), direction=Direction.SENT)
    first, second = (
        sender_for(address, f"two-{scheme}", PublishOptions(content="row"), "json")
        for _ in range(2)
    )
    kind: Any = type(first)
    looked, look = list[bool](), kind._browse

    def late(sender: Any) -> list[str]:
        looked.append(True)
        return [] if len(looked) == 3 else look(sender)  # the first of the second run

    monkeypatch.setattr(kind, "_browse", late)
    with closing(first), closing(second):
        assert first.open() is None
        with pytest.raises(BrokerRefusedError, match="another run of the group two-"):
            second.open()
        first.send([], state_of("first"))
        assert second.read() == state_of("first")


@BOTH
def test_a_run_that_waits_for_another_one_says_so(
    artemis: Artemis,
    tmp_path: Path,
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(f"trailgate.publish.senders.{scheme}.HELD_SECONDS", 3.0)
    caplog.set_level(logging.WARNING, "trailgate.brokers")
    name = f"waits-{scheme}"
    trail, address = write_trail(tmp_path / name, [TRANSACTIONS]), artemis.address(name, scheme)
    with Publication(trail, address, PublicationSettings(format="json")) as first:
        with pytest.raises(BrokerRefusedError, match=f"another run of the group {name}"):
            publish_trail(trail, address, "json")
        first.run()

    (logged,) = [one.getMessage() for one in caplog.records if "waiting until" in one.message]
    assert f"holds the position of the group {name}; waiting until " in logged
    assert "for 2 s" in logged
    assert name in logged.rpartition("(")[2]


@BOTH
@pytest.mark.parametrize("group", ["a/b é*>#", "a_b", "a.b", "x" * 227])
def test_groups_of_any_name_have_positions_of_their_own(
    artemis: Artemis, tmp_path: Path, scheme: str, group: str
) -> None:
    check_groups(tmp_path, artemis.address(f"groups.{scheme}", scheme), group + scheme)


@BOTH
def test_groups_of_any_name_at_classic(classic: Classic, tmp_path: Path, scheme: str) -> None:
    for group in ("a/b é*>#", "a_b"):
        check_groups(tmp_path, classic.address(f"groups.{scheme}", scheme), group + scheme)


def check_groups(folder: Path, address: str, group: str) -> None:
    """Check that a group has no position yet, and then its own."""
    trail = write_trail(folder / "groups", [TRANSACTIONS])
    assert read_status(find_trail(trail), address, group) is None
    counts = [publish_trail(trail, address, "json", group=group).messages for _ in range(2)]
    assert counts == [5, 0]
    status = read_status(find_trail(trail), address, group)
    assert status is not None
    assert status.messages == 5


@pytest.mark.skipif(find_spec("proton") is None, reason="AMQP needs the extra amqp")
def test_a_slow_broker_does_not_look_like_a_new_group(
    qpid: Qpid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trailgate.publish.senders.amqp import SendingConnection  # noqa: PLC0415  an extra

    trail = write_trail(tmp_path / "slow", [TRANSACTIONS])
    direct = qpid.address("slow")
    assert publish_trail(trail, direct, "json").messages == 5
    browse = SendingConnection.browse
    with closing(Proxy(qpid.amqp)) as proxy:

        def slowly(connection: SendingConnection, queue: str) -> list[Any]:
            proxy.delay = SLOW
            found = browse(connection, queue)
            proxy.delay = 0.0
            return found

        monkeypatch.setattr(SendingConnection, "browse", slowly)
        address = direct.replace(f":{qpid.amqp}/", f":{proxy.port}/")
        assert publish_trail(trail, address, "json").messages == 0


def test_a_restart_queue_takes_no_messages(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "own", [TRANSACTIONS])
    with pytest.raises(OptionError, match="reserved for the positions of publications"):
        publish_trail(trail, "stomp://127.0.0.1:1/trailgate.restart.other", "json")


def test_runs_that_are_lost_when_they_have_begun_lose_no_position(
    artemis: Artemis, tmp_path: Path
) -> None:
    trail = write_trail(tmp_path / "begun", [TRANSACTIONS])
    address = artemis.address("begun", "stomp")
    publish_trail(trail, address, "json")
    sink = Publication(trail, address, PublicationSettings(format="json"))._sink
    assert isinstance(sink, BrokerSink)
    assert isinstance(sink._sender, StompSender)
    with pytest.raises(BrokerRefusedError, match="begun publishes now, and holds the position"):
        read_status(find_trail(trail), address)
    for _ in range(IDLE):
        # A connection that ends without a word, as that of a process that is killed.
        sink._sender._connected.close()
        try:
            state = sink._sender.open()
        except BrokerRefusedError as error:
            if "a lost connection still holds" not in error.problem:  # docs/brokers.md, Artemis
                raise
            artemis.process.kill()
            artemis.process.start()
            state = sink._sender.open()
        assert state is not None
        sink._store(sink.published)
    sink.discard()

    assert publish_trail(trail, address, "json").messages == 0
    assert len(received(address, 5)) == 5


def test_a_capture_publishes_what_it_captures(artemis: Artemis, tmp_path: Path) -> None:
    # Queues and a group of its own, if the test is run again.
    name = f"beside-{uuid4().hex[:8]}"
    captured = f"captured-{name}"
    with closing(LivePlace(tmp_path)) as place:
        place.prefix = tmp_path / name  # also the group
        to, source = artemis.address(name), ("--from", artemis.address(captured))
        publish = ("--publish", to, "--publish-format", "json")
        process = place.start(*source, "--follow", *publish, output=DEVNULL)
        sent(artemis, captured, [row(1, "W"), row(2, "B"), row(3, "E")])
        first = received(to, 3)
        place.kill(process)
        sent(artemis, captured, [row(4, "W")])
        place.run(*source, *publish)
        rest = received(to, 1)

    names = [json.loads(body)["after"]["NAME"] for _, body in first + rest]
    assert names == ["1", "2", "3", "4"]


@pytest.mark.skipif(find_spec("proton") is None, reason="AMQP needs the extra amqp")
def test_qpid_has_each_message_once(qpid: Qpid, tmp_path: Path) -> None:
    from proton.utils import BlockingConnection  # noqa: PLC0415  an extra

    address = qpid.address("out")
    trail = write_trail(tmp_path / "qpid", [TRANSACTIONS[:1]])
    counts = [publish_trail(trail, address, "json").messages for _ in range(3)]
    write_trail(trail, [TRANSACTIONS[:1], TRANSACTIONS[1:]])
    counts.append(publish_trail(trail, address, "json").messages)
    user, password = QPID_LOGIN
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{qpid.amqp}", 30, user=user, password=password, allowed_mechs="PLAIN"
    )
    receiver = connection.create_receiver("out")
    bodies = [json.loads(receiver.receive(timeout=30).body) for _ in range(5)]
    connection.close()

    assert counts == [2, 0, 0, 3]
    assert [body["op_type"] for body in bodies] == ["I", "I", "U", "D", "I"]
