"""A window of a Kafka receiver is the same in however many pieces its messages come, and never larger than asked for."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from trailgate.errors import BrokerRefusedError
from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.headers import BAD_HEADER
from trailgate.live.brokers.kafka import FETCHED
from trailgate.messages.message_batch import HeaderColumns

kafka = pytest.importorskip("confluent_kafka")

from trailgate.live.brokers.kafka import BAD_KEY, KafkaReceiver  # noqa: E402  as above

MESSAGES = 2 * FETCHED + 3
END = kafka.KafkaError(kafka.KafkaError._PARTITION_EOF)


def message(offset: int) -> Any:
    """Return a message with or without a key, a header, a time and a value."""
    own = SimpleNamespace(
        error=None,
        offset=offset,
        value=None if offset % 7 == 3 else b"body %d" % offset,
        timestamp=(offset % 2, 1_700_000_000_000 + offset),
        key=b"\xff" if offset % 5 == 1 else None,
        headers=[("a", b"1"), ("a", b"%d" % offset)] if offset % 3 == 0 else None,
    )
    return SimpleNamespace(**{name: lambda value=value: value for name, value in vars(own).items()})


def marker(offset: int) -> Any:
    """Return what the library gives at the end of a partition."""
    return SimpleNamespace(error=lambda: END, offset=lambda: offset)


class Library:
    """Gives at most ``most`` of the waiting messages at once, as the library does while they arrive."""

    def __init__(self, waiting: list[Any], most: int) -> None:
        self.waiting, self.most, self.asked = waiting, most, list[int]()

    def consume(self, count: int, **_: float) -> list[Any]:
        self.asked.append(count)
        given = min(count, self.most)
        found, self.waiting = self.waiting[:given], self.waiting[given:]
        return found


def test_a_header_that_is_no_text_is_another_fault_than_a_key() -> None:
    receiver = KafkaReceiver(parse_address("kafka://h/t"))
    receiver._place = SimpleNamespace(topic="t", partition=0)
    bad = message(0)
    bad.headers = lambda: [("a", b"\xff")]
    receiver._consumer = Library([bad, message(1)], 9)

    (window,) = [receiver.receive(0)]

    assert window is not None
    assert window.messages["fault"].to_pylist() == [BAD_HEADER, BAD_KEY]


def test_keys_of_any_bytes_are_text_in_hex() -> None:
    receiver = KafkaReceiver(parse_address("kafka://h/t?message-key=hex"))
    receiver._place = SimpleNamespace(topic="t", partition=0)
    receiver._consumer = Library([message(0), message(1)], 9)

    (window,) = [receiver.receive(0)]

    assert window is not None
    assert window.headers is not None
    assert window.messages["fault"].to_pylist() == [None, None]
    assert [one.get("kafka.key") for one in window.headers] == [None, "ff"]


def windows(most: int, window: int) -> tuple[list[Any], Library]:
    """Receive all messages, and return what the windows hold."""
    receiver = KafkaReceiver(parse_address(f"kafka://h/t?window={window}"))
    receiver._place = SimpleNamespace(topic="t", partition=0)
    waiting = [message(offset) for offset in range(MESSAGES)]
    library = Library([*waiting[:5], marker(5), *waiting[5:], marker(MESSAGES + 1)], most)
    receiver._consumer = library
    found = []
    while library.waiting:
        received = receiver.receive(0)
        found += [] if received is None else [received]
    assert receiver.next == MESSAGES + 1  # after the marker
    return found, library


def rows_of(found: list[Any]) -> list[Any]:
    return [
        {"headers": headers, "body": row["body"], "fault": row["fault"]}
        for window in found
        for headers, row in zip(window.headers, window.messages.to_pylist(), strict=True)
    ]


def expected(offset: int) -> dict[str, Any]:
    headers = {
        "JMSMessageID": f"ID:t:0:{offset:020}",
        "JMSDestination": "t",
        "JMSRedelivered": "false",
        "JMSDeliveryMode": "2",
    }
    headers |= {"JMSTimestamp": str(1_700_000_000_000 + offset)} if offset % 2 else {}
    headers |= {"kafka.key": "\\xff"} if offset % 5 == 1 else {}
    headers |= {"a": str(offset)} if offset % 3 == 0 else {}
    fault = BAD_KEY if offset % 5 == 1 else None
    fault = "the message has no value (a tombstone)" if offset % 7 == 3 else fault
    body = b"" if offset % 7 == 3 else b"body %d" % offset
    return {"headers": headers, "body": body, "fault": fault}


@pytest.mark.parametrize(
    ("most", "window"), [(30, 4096), (10_000, 4096), (10_000, 100), (10_000, FETCHED + 1)]
)
def test_a_window_does_not_depend_on_the_pieces_in_which_messages_come(
    most: int, window: int
) -> None:
    found, library = windows(most, window)

    assert rows_of(found) == [expected(offset) for offset in range(MESSAGES)]
    assert [int(n) for one in found for n in one.token] == list(range(MESSAGES))
    assert max(library.asked) <= FETCHED
    assert all(0 < len(one.token) <= window for one in found)


def test_what_waits_is_one_window() -> None:
    found, _ = windows(10_000, 4096)

    assert [len(one.token) for one in found] == [MESSAGES]


def test_headers_are_those_of_their_messages_however_windows_are_cut_and_joined() -> None:
    found, _ = windows(10_000, 100)
    whole = HeaderColumns.join([one.headers for one in found])
    wanted = [expected(offset)["headers"] for offset in range(MESSAGES)]

    for begin, end in ((0, MESSAGES), (0, 0), (99, 101), (150, 470), (MESSAGES - 1, MESSAGES)):
        part = whole[begin:end]
        assert len(part) == end - begin
        assert list(part) == wanted[begin:end]
        assert list(pickle.loads(pickle.dumps(part))) == wanted[begin:end]
        assert part.values("a").to_pylist() == [one.get("a") for one in wanted[begin:end]]
    assert list(whole[100:300][50:60]) == wanted[150:160]


@pytest.mark.parametrize(
    ("bounds", "held"), [((2, 5), "messages 2 to 4"), ((5, 5), "no messages before 5")]
)
def test_messages_that_are_gone_are_an_error(bounds: tuple[int, int], held: str) -> None:
    receiver = KafkaReceiver(parse_address("kafka://h/t"))
    receiver._consumer = SimpleNamespace(get_watermark_offsets=lambda *_, **__: bounds)

    with pytest.raises(BrokerRefusedError, match=f"has {held}, but the trail continues at 1"):
        receiver.open(1)
