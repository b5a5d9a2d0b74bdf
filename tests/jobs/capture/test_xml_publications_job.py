"""XML publications captured into a trail: tables inferred from schema messages, and messages that wait at the end of the input."""

from __future__ import annotations

from pathlib import Path

import pytest

import trailgate
from publication_files import column, message, row, transaction
from trailgate.errors import DecodeError, DefinitionError, TrailgateError

ADDRESS = 'subName="S1" srcOwner="USER1" srcName="T1"'
SCHEMA = message(
    f'<subSchema {ADDRESS} sendQName="Q"><col name="ID" type="integer" isKey="1"/>'
    '<col name="V" type="varchar" len="20"/><col name="L" type="clob" len="1048576"/></subSchema>'
)
ADDED = message(
    f'<addColumn {ADDRESS}><col name="N" type="decimal" precision="9" scale="2"/></addColumn>'
)


def insert(number: int, *more: str, flags: str = "") -> str:
    key = column("ID", f"<integer>{number}</integer>", key=True)
    return transaction(row("insertRow", key, *more, more=flags), commit=f"00{number:02}")


def part(text: str, *, last: int, total: int) -> str:
    sizes = f'totalDataLen="{total}" dataLen="{len(text)}"'
    return message(
        f'<lob isLast="{last}" {ADDRESS} rowNum="1" colName="L" {sizes}><clob>{text}</clob></lob>'
    )


def captured(folder: Path, *bodies: str, properties: str = "") -> trailgate.CaptureSummary:
    """Return the summary of capturing messages, one a file, into ``folder``/ot."""
    (folder / "in").mkdir(exist_ok=True)
    first = len(list((folder / "in").iterdir()))
    for number, body in enumerate(bodies, first):
        (folder / "in" / f"{number:04}.xml").write_text(body)
    (folder / "p.properties").write_text(f"parser.type=event_publishing\n{properties}")
    return trailgate.capture_files(
        folder / "in", folder / "ot", properties=folder / "p.properties", message_per="file"
    )


def rows_of(folder: Path) -> list[dict[str, object]]:
    batches = trailgate.read_trail(folder / "ot")
    return [one for batch in batches for one in batch.to_pylist(maps_as_pydicts="strict")]


def test_tables_are_inferred_from_schema_messages(tmp_path: Path) -> None:
    added = column("N", "<decimal>1.5</decimal>")

    captured(tmp_path, SCHEMA, insert(1), ADDED, insert(2, added))

    first, second = rows_of(tmp_path)
    assert first["after"] == {"ID": "1"}
    assert second["after"] == {"ID": "2", "N": "1.50"}
    assert second["table"] == "USER1.T1"


def test_a_later_run_knows_the_tables_of_the_trail(tmp_path: Path) -> None:
    captured(tmp_path, SCHEMA, insert(1))

    captured(tmp_path, insert(2, column("V", "<varchar>x</varchar>")))

    assert [one["after"] for one in rows_of(tmp_path)] == [{"ID": "1"}, {"ID": "2", "V": "x"}]


def test_a_column_that_is_described_in_two_ways_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"column V of USER1\.T1 is described in two ways"):
        captured(tmp_path, SCHEMA, SCHEMA.replace('len="20"', 'len="30"'))


def test_messages_that_wait_are_captured_at_the_end_of_the_input(tmp_path: Path) -> None:
    parts = [part("ab", last=0, total=3), part("c", last=1, total=3)]

    summary = captured(tmp_path, SCHEMA, insert(1), insert(2, flags=' hasLOBCols="1"'), *parts)

    assert summary.operations == 2
    assert [one["after"] for one in rows_of(tmp_path)] == [{"ID": "1"}, {"ID": "2", "L": "abc"}]


def test_large_objects_come_back_from_a_trail_that_is_published(tmp_path: Path) -> None:
    text = "a long text. " * 10_000
    parts = [
        part(text[:100_000], last=0, total=len(text)),
        part(text[100_000:], last=1, total=len(text)),
    ]
    captured(tmp_path, SCHEMA, insert(1, flags=' hasLOBCols="1"'), *parts)

    trailgate.publish_trail(
        tmp_path / "ot", tmp_path / "out", "xml", options={"lobs": "messages", "schemas": True, "max_message_bytes": 50_000}
    )  # fmt: skip
    again = tmp_path / "again"
    again.mkdir()
    (again / "p.properties").write_text("parser.type=event_publishing\n")
    trailgate.capture_files(tmp_path / "out", again / "ot", properties=again / "p.properties")

    assert rows_of(tmp_path)[0]["after"] == {"ID": "1", "L": text}
    assert [one["after"] for one in rows_of(again)] == [{"ID": "1", "L": text}]


def test_parts_that_are_missing_at_the_end_of_the_input_are_an_error_at_their_row(
    tmp_path: Path,
) -> None:
    bodies = [SCHEMA, insert(1), insert(2, flags=' hasLOBCols="1"'), part("ab", last=0, total=3)]

    with pytest.raises(DecodeError) as raised:
        captured(tmp_path, *bodies)

    assert "the last part of large object L is missing: the parts have a length of 2, not 3" in str(
        raised.value
    )
    assert "0002.xml" in str(raised.value)


def test_a_transaction_that_the_input_ends_in_is_an_error(tmp_path: Path) -> None:
    key = column("ID", "<integer>1</integer>", key=True)
    body = transaction(row("insertRow", key), last=0)

    with pytest.raises(TrailgateError, match="has not ended at the end of the input"):
        captured(tmp_path, SCHEMA, body)


def test_what_control_messages_report_is_in_the_summary(tmp_path: Path) -> None:
    beat = message('<heartbeat sendQName="Q" lastCmitTime="2026-01-31T10:11:12.000000"/>')
    gone = message(f'<subDeactivated {ADDRESS} stateInfo="ASN7010I"/>')

    notes = captured(tmp_path, SCHEMA, insert(1), beat, gone, beat).notes

    assert any("heartbeats in the messages: 2" in note for note in notes)
    assert any("publishing of USER1.T1 was deactivated (ASN7010I)" in note for note in notes)


def test_transactions_that_were_published_again_are_captured_once(tmp_path: Path) -> None:
    captured(tmp_path, SCHEMA, insert(1), insert(2))

    summary = captured(tmp_path, insert(2), insert(3))

    assert [one["after"] for one in rows_of(tmp_path)] == [{"ID": str(n)} for n in (1, 2, 3)]
    assert summary.skipped_operations == 1
