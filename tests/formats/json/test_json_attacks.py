"""Any bytes as JSON messages give operations or errors of their messages, by either parser."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from held_captures import SHOP, json_capture, messages_of
from laws import examples, sampled
from trailgate.capture.capture import Capture
from trailgate.errors import TrailgateError

FOLDER: Final = Path(__file__).parent.parent
MODEST: Final = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def _bodies(path: Path) -> list[bytes]:
    cases: list[Any] = tomllib.loads(path.read_text())["case"]
    return [body.encode() for case in cases for body in case["messages"] if len(body) > 2]


OPERATIONS: Final = _bodies(FOLDER / "json" / "cases" / "operations.toml")
EVENTS: Final = _bodies(FOLDER / "debezium" / "cases" / "events.toml")
TYPES: Final = FOLDER / "debezium" / "cases" / "types.toml"
MODES: Final = (
    "debezium.time.precision.mode=adaptive\ndebezium.decimal.handling.mode=precise\n"
    "debezium.binary.handling.mode=base64-url-safe"
)
PARSERS: Final = [
    ("parser.type=json\njson.sourcedefs=shop.def", SHOP, OPERATIONS),
    ("parser.type=json\njson.sourcedefs=shop.def\njson.model=row\njson.txid=tokens.6", SHOP, OPERATIONS),
    (f"parser.type=debezium\ndebezium.sourcedefs=shop.def\n{MODES}", SHOP, EVENTS),
    ("parser.type=debezium\ndebezium.sourcedefs=shop.def", TYPES.with_suffix(".def").read_text(), _bodies(TYPES)),
]  # fmt: skip
PIECES: Final = [
    b"null", b"true", b"{}", b"[]", b'""', b"0", b"-1", b"1e999", b'"\\u0000"', b"99999999999999999999",
    b'{"scale":1,"value":"AA=="}', b"\xff", b"\x00", b"{", b"}", b'"', b"\\", b",", b"9223372036854775807",
]  # fmt: skip


@pytest.fixture(
    params=range(len(PARSERS)), ids=["json", "rows", "debezium", "schemas"], scope="module"
)
def parser(request: pytest.FixtureRequest) -> tuple[Capture, list[bytes]]:
    properties, definitions, bodies = PARSERS[request.param]
    return json_capture(properties, definitions), bodies


@MODEST
@given(data=st.data())
def test_messages_with_other_bytes_in_them_give_operations_or_errors(
    parser: tuple[Capture, list[bytes]], data: st.DataObject
) -> None:
    capture, known = parser
    bodies = []
    for body in data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4)):
        begin = data.draw(st.integers(0, len(body)))
        end = begin + data.draw(st.integers(0, 12))
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=3) | st.sampled_from(known))
        bodies.append(body[:begin] + piece + body[end:])

    parsed = capture.parse(messages_of(bodies, data.draw(st.sampled_from([b"", b"\n"]))))

    assert {problem.message for problem in parsed.problems} <= set(range(-1, len(bodies)))
    assert all(isinstance(problem.error, TrailgateError) for problem in parsed.problems)
    assert all(str(problem.error) for problem in parsed.problems)
    assert parsed.operations().num_rows == parsed.batch.rows


def test_each_value_of_another_kind_gives_operations_or_errors(
    parser: tuple[Capture, list[bytes]],
) -> None:
    capture, known = parser
    changed = [each for body in known for each in _with_other_values(body)]

    parsed = capture.parse(messages_of(sampled(changed, examples(1500), "json values")))

    assert all(isinstance(problem.error, TrailgateError) for problem in parsed.problems)


def _with_other_values(body: bytes) -> Iterator[bytes]:
    """Yield a text with each of its values replaced by each of the pieces."""
    for begin in (at + 1 for at, byte in enumerate(body) if byte == ord(":")):
        end = next((at for at in range(begin, len(body)) if body[at] in b",}]"), len(body))
        for piece in PIECES:
            yield body[:begin] + piece + body[end:]


@MODEST
@given(st.integers(0, 999), st.integers(0, 999), st.sampled_from(PIECES))
def test_a_value_of_another_kind_gives_operations_or_errors(
    parser: tuple[Capture, list[bytes]], message: int, member: int, piece: bytes
) -> None:
    capture, known = parser
    body = known[message % len(known)]
    colons = [at for at, byte in enumerate(body) if byte == ord(":")] or [0]
    begin = colons[member % len(colons)] + 1
    end = begin
    while end < len(body) and body[end] not in b",}]":
        end += 1
    changed = body[:begin] + piece + body[end:]

    parsed = capture.parse(messages_of([body, changed, body]))

    assert all(isinstance(problem.error, TrailgateError) for problem in parsed.problems)
    assert not {0, 2} & {p.message for p in parsed.problems} or 0 in {
        p.message for p in capture.parse(messages_of([body])).problems
    }


def test_every_way_of_cutting_a_message_off_is_an_error_or_a_message(
    parser: tuple[Capture, list[bytes]],
) -> None:
    capture, known = parser
    for body in known[: 1 + 500 // len(known[0])]:
        whole = [body[:at] for at in range(1, len(body))]
        parsed = capture.parse(messages_of(whole))
        assert len(parsed.problems) + parsed.batch.rows <= len(whole)
        assert {p.message for p in parsed.problems} >= set(range(len(whole) - 1)) - {len(body) - 2}
