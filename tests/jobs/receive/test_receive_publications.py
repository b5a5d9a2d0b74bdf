"""Publications that are received live: their transactions are known by ids alone, and messages wait for large objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture_place import QUARANTINE
from damaged_publications import debezium_runs, delimited_runs, event, part_of, xml_runs
from held_captures import EVENTS, json_capture
from laws import examples
from publication_files import column, message, row, transaction, xml_publications
from publication_strings import capture_of, record
from received_messages import ListFeed
from trailgate.capture.capture import Capture
from trailgate.formats.publications.options import EventPublishingOptions
from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.live.jobs.run import WAITS, LiveCapture, ReceiveOptions
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.reading.trails import read_trail

LIVE: Final = ReceiveOptions("quarantine", until_empty=True, idle_seconds=0)
LAST_XML: Final = transaction(
    row("insertRow", column("ID", "<integer>9</integer>")), commit="9999"
).encode()
LAST_DELIMITED: Final = record(',,"last",', tx="9999")
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Kind:
    """A capture, what runs of its messages may be, a transaction that is the last one of each, and what is compared.

    Ids that are generated follow from where a message is, which is another place in files.
    """

    capture: Capture
    runs: st.SearchStrategy[list[bytes]]
    last: bytes
    compared: tuple[str, ...] = ("after", "tx_ind", "csn")


def delimited_publications() -> Capture:
    """Return a capture that infers no tables: those that it would name are in no trail of a live capture."""
    found = capture_of(properties="content=row")
    assert isinstance(found.options, EventPublishingOptions)
    return replace(found, options=replace(found.options, infers=False))


KINDS: Final = {
    "delimited": Kind(delimited_publications(), delimited_runs(), LAST_DELIMITED),
    "xml": Kind(xml_publications(), xml_runs(), LAST_XML),
    "debezium": Kind(
        json_capture(EVENTS),
        debezium_runs(),
        event(99, 99, "false"),
        ("after", "tx_ind"),
    ),
}


@contextmanager
def live(folder: Path, capture: Capture, feed: ListFeed, held: int) -> Iterator[LiveCapture]:
    options = replace(LIVE, held_bytes=held)
    prefix = str(folder / "live")
    with TrailAppender(prefix, capture.definitions, options.append) as appender, closing(feed):
        yield LiveCapture(capture, feed, appender, prefix, options)


def of_trail(
    folder: Path, name: str, compared: tuple[str, ...] = ("after", "tx_ind", "csn")
) -> Rows:
    if not [*folder.glob(f"{name}000*")]:
        return []
    return [
        values
        for batch in read_trail(folder / name)
        for values in zip(*(batch[name].to_pylist() for name in compared), strict=True)
    ]


def quarantined(folder: Path, name: str) -> list[str]:
    path = folder / f"{name}.quarantine.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    found = (json.loads(line) for line in lines)
    return sorted(str({name: line[name] for name in line if "body" in name}) for line in found)


@pytest.mark.parametrize("kind", [*KINDS])
@settings(max_examples=examples(40), suppress_health_check=[*HealthCheck])
@given(st.data())
def test_any_windows_and_any_stops_give_what_files_give(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    own, folder = KINDS[kind], tmp_path_factory.mktemp("live")
    # A transaction that comes again is skipped in files, by the ids that the trail has, and is not live.
    drawn = [body for body, _ in groupby(data.draw(own.runs)) if body.strip()]
    sent = [*drawn, own.last]
    sizes = data.draw(st.lists(st.integers(1, 4), max_size=8))
    messages = folder / "messages"
    messages.mkdir()
    for number, body in enumerate(sent):
        (messages / f"m{number:04}").write_bytes(body)
    run_local(plan_capture(own.capture, messages, folder / "ot", QUARANTINE))

    for stop in data.draw(st.lists(st.integers(1, 3), max_size=4)):
        with live(folder, own.capture, ListFeed(sent, [*sizes]), 1 << 20) as running:
            for _, _report in zip(range(stop), running.run(), strict=False):
                pass
    held = data.draw(st.sampled_from([0, 40, 1 << 20]))
    with live(folder, own.capture, ListFeed(sent, [*sizes]), held) as running:
        list(running.run())

    expected, found = (of_trail(folder, name, own.compared) for name in ("ot", "live"))
    # Files end: their last transaction has ended there. A feed goes on, and holds it.
    assert found == expected[: len(found)]
    assert [row[0] for row in expected[len(found) :]] in ([], [row[0] for row in expected[-1:]])
    # A heartbeat behind a bad transaction carries nothing; whether it goes with it depends on where a stop was.
    live_lines, file_lines = (
        [line for line in quarantined(folder, name) if "<heartbeat" not in line]
        for name in ("live", "ot")
    )
    assert live_lines == file_lines


@pytest.mark.parametrize("size", [1, 9])
def test_a_bad_message_without_operations_takes_no_other_into_the_quarantine(
    tmp_path: Path, size: int
) -> None:
    alone = part_of(1, "a", 1, 1).encode()
    sent = [alone, message("<heartbeat sendQName='Q'/>").encode(), LAST_XML]

    with live(tmp_path, xml_publications(), ListFeed(sent, [size] * 9), 1 << 20) as running:
        list(running.run())

    assert quarantined(tmp_path, "live") == [str({"body": alone.decode()})]


@pytest.mark.parametrize("size", [1, 2])
def test_a_stop_while_messages_wait_loses_none(tmp_path: Path, size: int) -> None:
    large = row("insertRow", column("ID", "<integer>1</integer>"), more=' hasLOBCols="1"')
    whole = [transaction(large, commit="0001").encode(), part_of(1, "a", 1, 1).encode()]
    lacking = [transaction(large, commit="0002").encode(), part_of(1, "a", 0, 1).encode()]
    sent, capture = [*whole, *lacking, LAST_XML], xml_publications()

    for _ in range(len(sent)):
        with live(tmp_path, capture, ListFeed(sent, [size] * 9), 1 << 20) as running:
            next(running.run(), None)
    with live(tmp_path, capture, ListFeed(sent, [size] * 9), 1 << 20) as running:
        list(running.run())

    assert of_trail(tmp_path, "live")[0] == ([("ID", "1"), ("L", "a")], "W", "0001")
    assert quarantined(tmp_path, "live") == sorted(str({"body": one.decode()}) for one in lacking)


def test_a_last_transaction_that_waits_for_a_later_message_is_noted(tmp_path: Path) -> None:
    sent = [record(',,"one",', tx="1"), record(',,"two",', tx="2")]

    with live(tmp_path, delimited_publications(), ListFeed(sent, [9]), 1 << 20) as running:
        list(running.run())
        noted = running.open_problem

    assert len(of_trail(tmp_path, "live")) == 1
    assert noted == WAITS
