"""Promises about Kafka's tombstones, messages whose value is null: no operation for Debezium's events, an error for other formats."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from held_captures import SHOP, held_capture, messages_of
from message_cases import rows_of
from trailgate.capture.capture import Capture
from trailgate.cli.main import run
from trailgate.formats.debezium.reader import TOMBSTONES
from trailgate.live.brokers.kafka import MessageFields, received_window
from trailgate.live.brokers.receiver import MessageWindow
from trailgate.messages.message_batch import TOMBSTONE, batch_of_received
from trailgate.storage.reading.message_lines import MessagePosition, json_messages

EVENT = (
    b'{"before":null,"after":{"ID":%d},"op":"c","source":{"ts_ms":1,"schema":"OGG","table":"PAIR"}}'
)
OTHERS = {
    "json": b'{"table":"OGG.PAIR","op_type":"I","op_ts":"2020-01-01 00:00:00","after":{"ID":1}}',
    "delim": b"I,OGG.PAIR,1,a",
}


def capture_of(parser: str) -> Capture:
    more = {
        "debezium": "debezium.txid=*txid",
        "json": "",
        "delim": "delim.header=op,table\ndelim.optype=op\ndelim.schemaandtable=table",
    }
    text = f"parser.type={parser}\n{parser}.sourcedefs=shop.def\n{more[parser]}"
    return held_capture(text, {"shop.def": SHOP})


def received(bodies: list[bytes | None]) -> MessageWindow:
    """Return messages as Kafka's client gives them, in the window of a receiver."""
    messages = [
        SimpleNamespace(
            value=lambda body=body: body,
            key=lambda: b"1",
            headers=list,
            offset=lambda number=number: number,
            timestamp=lambda: (1, 1),
        )
        for number, body in enumerate(bodies)
    ]
    place = SimpleNamespace(topic="t", partition=0)
    return received_window(MessageFields.of(messages), place, 0)


def test_a_tombstone_between_events_is_passed_over_and_noted() -> None:
    window = received([EVENT % 1, None, EVENT % 2, None])
    messages, problems = batch_of_received(window.messages, (0, np.arange(4)), "t", window.headers)

    parsed = capture_of("debezium").parse(messages, unreadable=problems)

    assert [row["after"]["ID"] for row in rows_of(parsed)] == ["1", "2"]
    assert not parsed.problems
    assert TOMBSTONES in parsed.notes


@pytest.mark.parametrize("parser", OTHERS)
def test_a_tombstone_is_an_error_of_other_formats(parser: str) -> None:
    window = received([OTHERS[parser], None])
    messages, problems = batch_of_received(window.messages, (0, np.arange(2)), "t", window.headers)

    parsed = capture_of(parser).parse(messages, unreadable=problems)

    assert [(p.message, p.error.problem) for p in parsed.problems] == [(1, TOMBSTONE)]


def test_another_fault_of_a_message_is_an_error_of_events_too() -> None:
    window = received([EVENT % 1, EVENT % 2])
    faults = pa.array([None, "a header is not text"])
    rows = window.messages
    at = rows.schema.get_field_index("fault")
    rows = rows.set_column(at, rows.schema.field(at), faults)
    messages, problems = batch_of_received(rows, (0, np.arange(2)), "t", window.headers)

    parsed = capture_of("debezium").parse(messages, unreadable=problems)

    assert [p.message for p in parsed.problems] == [1]


@pytest.mark.parametrize("body", [b"", b"null", b" \n"])
def test_an_empty_or_null_body_is_a_tombstone(body: bytes) -> None:
    parsed = capture_of("debezium").parse(messages_of([EVENT % 1, body]))

    assert len(rows_of(parsed)) == 1
    assert (TOMBSTONES in parsed.notes) == (body.strip() != b"" or not body)


@pytest.mark.parametrize("line", [b'{"body":null}', b'{"key":"1","body": null,"headers":{}}'])
def test_a_line_whose_body_is_null_is_a_tombstone(line: bytes) -> None:
    read = json_messages(pa.py_buffer(line + b"\n"), MessagePosition(0, 0), "a.jsonl")

    events = capture_of("debezium").parse(read.messages, unreadable=read.problems)
    others = capture_of("json").parse(read.messages, unreadable=read.problems)

    assert not events.problems
    assert TOMBSTONES in events.notes
    assert TOMBSTONE in str(others.problems[0].error)
    assert "parser.type=debezium" in str(others.problems[0].error)


def test_a_bad_line_is_named_by_its_byte_and_not_by_a_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.def").write_text(SHOP)
    (tmp_path / "a.properties").write_text(
        f"parser.type=debezium\ndebezium.sourcedefs={tmp_path}/shop.def\ndebezium.txid=*txid\n"
    )
    (tmp_path / "in.txt").write_bytes((EVENT % 1) + b"\n" + b"{}\n")
    arguments = ["capture", "--from", str(tmp_path / "in.txt"), "--to", str(tmp_path / "ot")]

    lines = ["--message-per", "line", "--properties", str(tmp_path / "a.properties")]
    code = run([*arguments, *lines])

    assert code == 1
    assert f"in.txt, message at byte {len(EVENT % 1) + 1}, record 1" in capsys.readouterr().err
