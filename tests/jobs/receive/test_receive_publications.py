"""Publications that are received live: their transactions are known by ids alone, and messages wait for large objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture_place import QUARANTINE
from damaged_publications import delimited_runs, xml_runs
from laws import examples
from publication_files import column, row, transaction, xml_publications
from publication_texts import capture_of, record
from received_messages import ListFeed
from trailgate.jobs.capture.job import prepare
from trailgate.jobs.capture.running import run_local
from trailgate.jobs.receive.options import ReceiveOptions
from trailgate.jobs.receive.run import LiveCapture
from trailgate.messages.capture import Capture
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.reading.trail.trails import read_trail

LIVE: Final = ReceiveOptions("quarantine", until_empty=True, idle_seconds=0)
LAST_XML: Final = transaction(
    row("insertRow", column("ID", "<integer>9</integer>")), commit="9999"
).encode()
LAST_DELIMITED: Final = record(',,"last",', tx="9999")
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Kind:
    """A capture, what runs of its messages may be, and a transaction that is the last one of each."""

    capture: Capture
    runs: st.SearchStrategy[list[bytes]]
    last: bytes


def delimited_publications() -> Capture:
    """Return a capture that learns no tables: those that it would name are in no trail of a live capture."""
    found = capture_of(properties="content=row")
    assert isinstance(found.options, EventPublishingOptions)
    return replace(found, options=replace(found.options, learns=False))


KINDS: Final = {
    "delimited": Kind(delimited_publications(), delimited_runs(), LAST_DELIMITED),
    "xml": Kind(xml_publications(), xml_runs(), LAST_XML),
}


@contextmanager
def live(folder: Path, capture: Capture, feed: ListFeed, held: int) -> Iterator[LiveCapture]:
    options = replace(LIVE, held_bytes=held)
    prefix = str(folder / "live")
    with TrailAppender(prefix, capture.definitions, options.append) as appender, closing(feed):
        yield LiveCapture(capture, feed, appender, prefix, options)


def of_trail(folder: Path, name: str) -> Rows:
    if not [*folder.glob(f"{name}000*")]:
        return []
    names = "csn", "tx_ind", "after"
    return [
        values
        for batch in read_trail(folder / name)
        for values in zip(*(batch[name].to_pylist() for name in names), strict=True)
    ]


def quarantined(folder: Path, name: str) -> list[str]:
    path = folder / f"{name}.quarantine.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(json.dumps(json.loads(line)["body"]) for line in lines)


@pytest.mark.parametrize("kind", [*KINDS])
@settings(max_examples=examples(40), suppress_health_check=[*HealthCheck])
@given(st.data())
def test_any_windows_and_any_stops_give_what_files_give(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    own, folder = KINDS[kind], tmp_path_factory.mktemp("live")
    sent = [body for body in data.draw(own.runs) if body.strip()] + [own.last]
    sizes = data.draw(st.lists(st.integers(1, 4), max_size=8))
    messages = folder / "messages"
    messages.mkdir()
    for number, body in enumerate(sent):
        (messages / f"m{number:04}").write_bytes(body)
    run_local(prepare(own.capture, messages, folder / "ot", QUARANTINE))

    for stop in data.draw(st.lists(st.integers(1, 3), max_size=4)):
        with live(folder, own.capture, ListFeed(sent, [*sizes]), 1 << 20) as running:
            for _, _report in zip(range(stop), running.run(), strict=False):
                pass
    held = data.draw(st.sampled_from([0, 40, 1 << 20]))
    with live(folder, own.capture, ListFeed(sent, [*sizes]), held) as running:
        list(running.run())

    expected, found = of_trail(folder, "ot"), of_trail(folder, "live")
    # Files end: their last transaction has ended there. A feed goes on, and holds it.
    assert found == expected[: len(found)]
    assert [row[0] for row in expected[len(found) :]] in ([], [row[0] for row in expected[-1:]])
    assert quarantined(folder, "live") == quarantined(folder, "ot")
