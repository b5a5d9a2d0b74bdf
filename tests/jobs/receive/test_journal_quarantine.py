"""A journal in batches of which bad messages are quarantined: what a live capture makes of the same messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_place import Place
from journal_messages import letters_of, line, names_of, stored, storing
from received_messages import ListFeed
from trailgate.live.files.journal_reader import JournalIndex
from trailgate.live.files.journal_writer import Journal, JournalOptions
from trailgate.live.jobs.journal_stream import TransactionBoundaries, operations_of
from trailgate.live.jobs.run import LiveCapture, ReceiveOptions
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender

GO = ReceiveOptions("quarantine", until_empty=True, idle_seconds=0)
BAD = {
    "date": "I,MY.ORDERS,2026-13-01,{letter},{number},x",
    "columns": "I,MY.ORDERS,2026-01-01,{letter},{number},x,y,z",
    "nothing": "bad",
}


def live(place: Place, bodies: list[str]) -> tuple[list[str], list[str]]:
    """Return what a live capture captures, and what it quarantines."""
    prefix = str(place.folder / "ot")
    tables = Definitions(tuple(place.capture.definitions), place.capture.definitions.database)
    with TrailAppender(prefix, tables, GO.append) as appender:
        list(LiveCapture(place.capture, ListFeed(bodies, []), appender, prefix, GO).run())
    quarantine = place.folder / "ot.quarantine.jsonl"
    lines = quarantine.read_text().splitlines() if quarantine.exists() else []
    return place.names("ot"), [json.loads(one)["body"] for one in lines]


def quarantined(folder: Path) -> list[str]:
    """Return the bodies in a folder's files, in the order of their names."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(one)["body"] for path in files for one in path.read_text().splitlines()]


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 44), st.sampled_from(sorted(BAD))), max_size=4),
    st.lists(st.integers(1, 5), max_size=20),
    st.lists(st.integers(1, 9), max_size=30),
)
def test_the_good_units_are_given_and_the_messages_of_the_others_are_in_files(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    bad: list[tuple[int, str]],
    windows: list[int],
    asked: list[int],
) -> None:
    place = Place(tmp_path_factory.mktemp("j"), spanning=True)
    letters = letters_of([*sizes, 1])
    lines = [line(number, letter) for number, letter in enumerate(letters)]
    for at, kind in bad:
        if at < len(lines) - 1:  # the last one ends what is open
            lines[at] = BAD[kind].format(number=at, letter=letters[at])
    folder, quarantine = place.folder / "j", place.folder / "q"
    index = JournalIndex(folder)
    boundaries = TransactionBoundaries(index, place.capture, stop=False)
    found: list[str] = []
    begin = 0
    steps = iter(asked)
    with Journal(folder, JournalOptions(segment_bytes=2000)) as journal:
        for _ in storing(journal, lines, windows):
            end = boundaries.last_within(begin, next(steps, 1000), index.extent().end)
            for _ in range(2):  # a task that is tried again writes its file again
                operations = operations_of(index.range(begin, end), place.capture, quarantine)
                again = [name for batch in operations for name in names_of(batch)]
            found += again
            begin = end
        end = boundaries.last(begin, index.extent().end)
        operations = operations_of(index.range(begin, end), place.capture, quarantine)
        found += [name for batch in operations for name in names_of(batch)]

    assert end == len(lines)
    assert (found, quarantined(quarantine)) == live(place, lines)


def test_a_bad_transaction_waits_for_its_end(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    index = JournalIndex(tmp_path / "j")
    boundaries = TransactionBoundaries(index, place.capture, stop=False)
    with Journal(tmp_path / "j") as journal:
        stored(
            journal, 0, [line(0, "W"), line(1, "B"), BAD["columns"].format(number=2, letter="M")]
        )
        assert boundaries.last(0, 3) == 1
        stored(journal, 3, [line(3, "E"), line(4, "W")])
        assert boundaries.last(1, 5) == 5

    operations = operations_of(index.range(1, 5), place.capture, tmp_path / "q")

    assert [name for batch in operations for name in names_of(batch)] == ["4"]
    (path,) = (tmp_path / "q").iterdir()
    assert path.name == f"{1:020}-{5:020}.jsonl"
    reasons = [json.loads(one)["reason"] for one in path.read_text().splitlines()]
    assert len(reasons) == 3
    assert "j, message 2" in reasons[1]
    assert all("Another message of its transaction is bad" in reasons[at] for at in (0, 2))


def test_where_all_is_good_there_is_no_file(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    index = JournalIndex(tmp_path / "j")
    with Journal(tmp_path / "j") as journal:
        stored(journal, 0, [line(0, "W")])

    assert len(list(operations_of(index.range(0, 1), place.capture, tmp_path / "q"))) == 1
    assert not (tmp_path / "q").exists()
