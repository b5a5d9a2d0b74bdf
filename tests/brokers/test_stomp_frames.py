"""Frames of STOMP 1.2: what is sent is found again, however it is cut; any bytes give frames or our own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.frame_strategies import HEADERS, Frame, frames, naive_frames
from trailgate.errors import BrokerError
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.connection import DIALECTS, StompDialect
from trailgate.live.brokers.stomp.frames import FrameReader, encode_frame, unescape
from trailgate.live.brokers.stomp.messages import received_messages

KINDS = {
    "MESSAGE": kernels.MESSAGE,
    "RECEIPT": kernels.RECEIPT,
    "ERROR": kernels.ERROR,
    "CONNECTED": kernels.CONNECTED,
}


def taken(reader: FrameReader, limit: int = 100) -> Iterator[tuple[int, dict[str, str], bytes]]:
    while True:
        found = reader.take(limit)
        if not len(found):
            return
        for at in range(len(found)):
            yield int(found.kinds[at]), found.headers(at), found.body(at)


def feed(reader: FrameReader, data: bytes) -> None:
    while data:
        room = reader.room()
        size = min(len(room), len(data))
        room[:size] = data[:size]
        reader.extend(size)
        data = data[size:]


@given(st.lists(frames()), st.data())
def test_frames_are_found_however_they_are_cut(sent: list[Frame], chance: st.DataObject) -> None:
    data = b"\n".join(encode_frame(*frame) for frame in sent)
    cuts = sorted(chance.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    reader = FrameReader()
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        feed(reader, data[begin:end])
        found += list(taken(reader, chance.draw(st.integers(1, 3))))

    assert found == [(KINDS.get(c, 0), dict(h), b) for c, h, b in sent]
    assert found == [(KINDS.get(c, 0), h, b) for c, h, b in naive_frames(data)]


@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [b"MESSAGE\n", b"a:b\n", b"\n", b"\0", b"content-length:3\n", b"abc", b":", b"\\"]
        )
    ).map(b"".join)
)
def test_any_bytes_are_frames_or_a_broker_error(data: bytes) -> None:
    reader = FrameReader()
    feed(reader, data)
    with suppress(BrokerError):
        list(taken(reader))

    assert 0 <= reader.waiting <= len(data)


def test_a_body_longer_than_what_is_received_at_once_is_whole() -> None:
    body = bytes(range(256)) * 5000
    reader = FrameReader()
    feed(reader, encode_frame("MESSAGE", {"content-length": str(len(body))}, body))
    feed(reader, encode_frame("MESSAGE", {}, b"x" * 300_000))

    assert [found[2] for found in taken(reader)] == [body, b"x" * 300_000]


def test_line_ends_of_two_bytes_and_heart_beats_are_passed_over() -> None:
    reader = FrameReader()
    feed(reader, b"\n\r\n\nMESSAGE\r\na:b\r\n\r\nbody\0\n\n")

    assert list(taken(reader)) == [(kernels.MESSAGE, {"a": "b"}, b"body")]
    assert not reader.waiting


def test_of_repeated_headers_the_first_counts() -> None:
    reader = FrameReader()
    feed(reader, b"MESSAGE\na:1\na:2\n\n\0")

    assert next(taken(reader))[1] == {"a": "1"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"MESSAGE\nno colon\n\n\0", "no name or no colon"),
        (b"MESSAGE\n:value\n\n\0", "no name or no colon"),
        (b"MESSAGE\ncontent-length:1x\n\n\0", "content-length"),
        (b"MESSAGE\ncontent-length:99999999999\n\n\0", "content-length"),
        (b"MESSAGE\ncontent-length:1\n\nabc\0", "no NUL"),
        (b"X" * ((1 << 20) + 2), "bytes of headers"),
        (b"MESSAGE\n" + b"a:b\n" * (1 << 19), "bytes of headers"),
    ],
)
def test_what_is_not_a_frame_is_an_error(data: bytes, problem: str) -> None:
    reader = FrameReader()
    feed(reader, data)

    with pytest.raises(BrokerError, match=problem):
        list(taken(reader))


@pytest.mark.parametrize(
    ("text", "undefined"), [("a\\tb", "\\t"), ("a\\cb\\z", "\\z"), ("a\\", "\\")]
)
def test_a_text_with_an_escape_that_does_not_exist_stays_as_it_is(
    text: str, undefined: str
) -> None:
    assert unescape(text) == (text, undefined)


def test_headers_of_connected_are_not_escaped() -> None:
    reader = FrameReader()
    feed(reader, b"CONNECTED\nserver:a\\cb\\z\n\n\0")

    assert next(taken(reader))[1] == {"server": "a\\cb\\z"}


@given(HEADERS)
def test_names_and_values_survive_escaping(headers: dict[str, str]) -> None:
    reader = FrameReader()
    feed(reader, encode_frame("MESSAGE", headers))

    assert next(taken(reader))[1] == headers


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_an_empty_message_id_is_a_missing_one(dialect: StompDialect) -> None:
    reader = FrameReader()
    for id_ in ("1", ""):
        headers = {"message-id": id_, "timestamp": "5"}
        feed(reader, encode_frame("MESSAGE", headers, b"body"))

    found = received_messages(reader.take(100), dialect, 7)

    assert found["id"].is_null().to_pylist() == [False, True]
