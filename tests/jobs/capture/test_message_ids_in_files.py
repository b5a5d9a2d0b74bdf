"""Messages that a provider sent twice, in files of JSON lines: known by the header that jms.id names, left out and counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from capture_place import QUARANTINE, Place
from trailgate.errors import TransactionError
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.jobs.capture.summary import CaptureSummary


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    properties = tmp_path / "p.properties"
    properties.write_text(properties.read_text() + "jms.id=ogg\n")
    made.capture = load_capture(properties)
    return made


def captured(
    place: Place, sent: Sequence[tuple[str | None, int]], options: CaptureOptions | None = None
) -> CaptureSummary:
    lines = [
        {
            "body": f"I,MY.ORDERS,2026-01-01,1,{name}",
            "headers": {} if own is None else {"GG_ID": own},
        }
        for own, name in sent
    ]
    source = place.folder / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place.run("ot", options, source)


def test_a_duplicate_message_is_skipped_and_counted(place: Place) -> None:
    summary = captured(place, [("01", 1), ("02", 2), ("02", 2), ("01", 1), ("03", 3)])

    assert place.names("ot") == ["1", "2", "3"]
    assert (summary.messages, summary.operations, summary.duplicate_messages) == (3, 3, 2)


def test_however_the_file_could_be_cut_into_ranges(place: Place) -> None:
    options = CaptureOptions(split_bytes=100)
    sent = [(f"{number:03}", number) for number in range(200)]
    summary = captured(place, [*sent, *sent[50:]], options)

    assert place.names("ot") == [str(number) for number in range(200)]
    assert summary.duplicate_messages == 150


def test_another_length_stops_the_run_and_both_ids_are_named(place: Place) -> None:
    with pytest.raises(TransactionError, match="id 003 has 3 characters, but 02 before it has 2"):
        captured(place, [("01", 1), ("02", 2), ("003", 3)])

    assert not place.files("ot")


def test_an_id_that_falls_stops_the_run_unless_that_is_allowed(place: Place) -> None:
    sent = [("02", 2), ("01", 1), ("02", 2)]
    with pytest.raises(TransactionError, match="the message id 01 follows the higher 02"):
        captured(place, sent)
    summary = captured(place, sent, CaptureOptions(unordered_ids=True))

    assert place.names("ot") == ["2", "1"]
    assert summary.duplicate_messages == 1


def test_a_bad_id_is_quarantined_where_bad_messages_are(place: Place) -> None:
    summary = captured(place, [("01", 1), ("1", 2), ("01", 3), (None, 4), ("02", 5)], QUARANTINE)

    assert place.names("ot") == ["1", "5"]
    assert summary.quarantined == 3
    assert sorted(reason.partition(" ")[0] for reason in summary.reasons) == ["the"] * 3


def test_messages_without_headers_have_no_ids_to_compare(place: Place) -> None:
    place.write("I,MY.ORDERS,2026-01-01,1,1")
    assert place.run("plain").operations == 1
    assert captured(place, [(None, 1), (None, 1)]).operations == 2


def test_a_bad_place_and_the_bad_lines_before_it_keep_their_numbers(place: Place) -> None:
    source = place.folder / "in.jsonl"
    good = {"body": "I,MY.ORDERS,2026-01-01,1,7", "headers": {"GG_ID": "1"}}
    lines = [json.dumps(good), json.dumps(good), "not json", json.dumps(good | {"body": "bad"})]
    source.write_text("\n".join([*lines, ""]))
    place.run("ot", replace(QUARANTINE), source)

    text = (place.folder / "ot.quarantine.jsonl").read_text()
    assert [json.loads(line)["body"] for line in text.splitlines()] == ["not json", "bad"]
