"""Live and from files is the same: however messages are cut into windows, and wherever a run is interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from capture_place import QUARANTINE, Place
from failing_disk import FailingDisk, KilledError
from laws import sampled
from received_messages import ListFeed
from trailgate.errors import StorageError, TrailgateError
from trailgate.jobs.capture.loading import load_capture
from trailgate.live.jobs.feed import MessageFeed, PrefetchingFeed
from trailgate.live.jobs.run import LiveCapture, ReceiveOptions
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.growing_file import Disk
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.storage.reading.trails import read_trail

PARTS = (0.0, 0.5, 1.0)  # of the write that a kill interrupts
GO = ReceiveOptions("quarantine", until_empty=True, idle_seconds=0)
STOP = ReceiveOptions("stop", until_empty=True, idle_seconds=0)
LETTERS = st.sampled_from([*"BMEW", *"BMMEW", "?"])


@contextmanager
def live(
    place: Place, feed: MessageFeed, options: ReceiveOptions = GO, disk: Disk | None = None
) -> Iterator[LiveCapture]:
    prefix = str(place.folder / "live")
    tables = Definitions(tuple(place.capture.definitions), place.capture.definitions.database)
    with (
        TrailAppender(prefix, tables, options.append, disk=disk) as appender,
        closing(feed),
    ):
        yield LiveCapture(place.capture, feed, appender, prefix, options)


def names(place: Place, trail: str) -> list[tuple[str, str]]:
    if not place.files(trail):
        return []
    return [
        (dict(after)["NAME"], indicator)
        for batch in read_trail(place.folder / trail)
        for after, indicator in zip(
            batch["after"].to_pylist(), batch["tx_ind"].to_pylist(), strict=True
        )
    ]


def quarantined(place: Place, trail: str) -> list[str]:
    path = place.folder / f"{trail}.quarantine.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["body"] for line in lines]


def bodies(letters: list[list[str]]) -> list[str]:
    """Return messages of records with these indicators; ``?`` makes a record that is not one."""
    numbered = iter(range(1000))
    return [
        "\n".join(
            "bad" if letter == "?" else f"I,MY.ORDERS,2026-01-01,{letter},1,{next(numbered)}"
            for letter in message
        )
        for message in letters
    ]


def valid(place: Place, sent: list[str]) -> list[tuple[str, str]]:
    """Return what a capture of files makes of the messages."""
    place.write(*sent)
    place.run("ot", QUARANTINE)
    return names(place, "ot")


def plain(feed: ListFeed) -> MessageFeed:
    return feed


FEEDS = pytest.mark.parametrize("feed_of", [plain, PrefetchingFeed])


@FEEDS
@given(
    st.lists(st.lists(LETTERS, min_size=1, max_size=3), min_size=1, max_size=12),
    st.lists(st.integers(1, 4), max_size=8),
    st.lists(st.integers(1, 3), max_size=4),
    st.sampled_from([0, 40, 1 << 20]),
)
def test_any_windows_and_any_stops_give_what_files_give(
    tmp_path_factory: pytest.TempPathFactory,
    feed_of: Callable[[ListFeed], MessageFeed],
    letters: list[list[str]],
    sizes: list[int],
    stops: list[int],
    held_bytes: int,
) -> None:
    options = replace(GO, held_bytes=held_bytes)
    place = Place(tmp_path_factory.mktemp("live"), spanning=True)
    sent = bodies(letters)
    sent = [body for body in sent if body]
    expected = valid(place, sent)
    for stop in stops:  # a run that is stopped after some batches, and nothing is said of its end
        with live(place, feed_of(ListFeed(sent, sizes)), options) as running:
            for _, _report in zip(range(stop), running.run(), strict=False):
                pass
    with live(place, feed_of(ListFeed(sent, sizes)), options) as running:
        reports = list(running.run())
        unfinished = running.open_problem

    assert all(report.number <= len(sent) for report in reports)
    if unfinished is None:
        assert names(place, "live") == expected
        assert quarantined(place, "live") == quarantined(place, "ot")
    else:
        # Files end: a transaction that is open there is bad. A feed goes on, and holds it.
        assert names(place, "live") == expected[: len(names(place, "live"))]
        held = quarantined(place, "live")
        assert held == quarantined(place, "ot")[: len(held)]


MARK = "\ufeff"  # a body without a record


@given(
    st.lists(st.sampled_from(["-", *"BMEW", "BE", "?"]), min_size=1, max_size=12),
    st.lists(st.integers(1, 4), max_size=8),
    st.sampled_from([0, 1 << 20]),
)
@example(["W", "?", "-", "-", "W"], [5], 0)
@example(["B", "-", "?", "-", "E", "-", "W"], [1] * 7, 0)
@example(["B", "-", "E", "-"], [1] * 4, 0)
def test_a_message_without_operations_is_skipped_or_quarantined_as_in_files(
    tmp_path_factory: pytest.TempPathFactory, messages: list[str], sizes: list[int], held_bytes: int
) -> None:
    place = Place(tmp_path_factory.mktemp("live"), spanning=True)
    sent = [body or MARK for body in bodies([[*letters.strip("-")] for letters in messages])]
    place.write(*sent)
    expected = place.run("ot", QUARANTINE)
    with live(place, ListFeed(sent, sizes), replace(GO, held_bytes=held_bytes)) as running:
        reports = list(running.run())
        unfinished = running.open_problem

    skipped = sum(report.skipped for report in reports)
    assert skipped + quarantined(place, "live").count(MARK) <= sent.count(MARK)
    if unfinished is None:
        assert skipped == expected.skipped_messages
        assert sum(report.quarantined for report in reports) == expected.quarantined


@pytest.mark.parametrize("sizes", [[], [1] * 5, [2] * 3])
def test_in_stop_mode_only_the_messages_before_the_bad_transaction_are_skipped(
    tmp_path: Path, sizes: list[int]
) -> None:
    place = Place(tmp_path, spanning=True)
    sent = [MARK, *bodies([["B"]]), MARK, "bad", MARK]
    with live(place, ListFeed(sent, sizes), STOP) as running:
        with pytest.raises(TrailgateError, match=r"1 field|has not ended"):
            list(running.run())
        (note,) = running.notes

    assert note.startswith("1 message contains only a byte order mark and was skipped")


@FEEDS
@pytest.mark.parametrize(
    "seconds", [-1.0, 3600.0], ids=["each-batch-commits", "commits-without-messages"]
)
def test_a_writer_killed_at_any_step_leaves_nothing_twice_and_nothing_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    feed_of: Callable[[ListFeed], MessageFeed],
    seconds: float,
) -> None:
    # By time, the number of steps would differ from run to run.
    monkeypatch.setattr("trailgate.live.jobs.run.COMMIT_SECONDS", seconds)
    sent = bodies([["W"], ["B"], ["M", "E"], ["?"], ["B", "E", "B"], ["E"], ["B"], ["?"], ["W"]])
    options = replace(GO, append=AppendOptions(max_bytes=900), held_bytes=30)

    def tried(step: int) -> tuple[FailingDisk, tuple[list[tuple[str, str]], list[str]]]:
        """Return the disk of a capture that is killed at a step, 0 at none, and what it and the next one have captured."""
        folder = tmp_path / str(step)
        folder.mkdir()
        place, disk = Place(folder, spanning=True), FailingDisk(step or None, PARTS[step % 3])
        try:
            with live(place, feed_of(ListFeed(sent, [1, 2] * 9)), options, disk) as running:
                list(running.run())
        except KilledError:
            with live(place, feed_of(ListFeed(sent, [2, 1] * 9)), options) as running:
                list(running.run())
        return disk, (names(place, "live"), quarantined(place, "live"))

    whole, expected = tried(0)
    assert [name for name, _ in expected[0]] == ["0", "1", "2", "3", "4", "5", "6", "7", "9"]
    # Parts that are joined, or committed together, take fewer steps.
    assert whole.steps > (30 if feed_of is plain and seconds < 0 else 12)
    for step in sampled(range(1, whole.steps + 1), 12, "killed writers"):
        disk, found = tried(step)
        assert disk.steps >= step or feed_of is not plain  # threads have as many steps as they meet
        assert found == expected, step


def test_in_stop_mode_all_before_the_bad_message_is_captured_once(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    sent = bodies([["W"], ["B"], ["E"], ["B"], ["M"], ["?"], ["W"]])
    for sizes in ([], [1] * 9, [2] * 9):
        with (
            live(place, ListFeed(sent, sizes), STOP) as running,
            pytest.raises(TrailgateError, match=r"1 field|has not ended") as raised,
        ):
            list(running.run())
        assert raised.value.where.source == "list"
        assert raised.value.where.message in {
            4,
            5,
        }  # both are bad, and 4 only where what follows is seen
        assert names(place, "live") == [("0", "W"), ("1", "B"), ("2", "E")]
    with live(place, ListFeed(sent, [])) as running:
        list(running.run())
    assert names(place, "live") == [("0", "W"), ("1", "B"), ("2", "E"), ("5", "W")]
    assert [body.rpartition(",")[2] for body in quarantined(place, "live")] == ["3", "4", "bad"]


def test_a_message_without_a_body_is_a_bad_one(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    with live(place, ListFeed([*bodies([["W"]]), "", *bodies([["W"]])], [])) as running:
        (report,) = running.run()

    assert (report.messages, report.operations, report.quarantined) == (3, 2, 1)
    assert quarantined(place, "live") == [""]


@pytest.mark.parametrize(("seconds", "committed"), [(-1.0, [1, 4]), (3600.0, [4])])
def test_the_position_is_committed_outside_transactions_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, committed: list[int]
) -> None:
    monkeypatch.setattr("trailgate.live.jobs.run.COMMIT_SECONDS", seconds)
    place = Place(tmp_path, spanning=True)
    feed = ListFeed(bodies([["W"], ["B"], ["M"], ["E"], ["B"]]), [1] * 5)
    with live(place, feed) as running:
        numbers = [report.number for report in running.run()]
        assert running.open_problem is not None

    assert numbers == [1, 1, 1, 4, 4]
    assert feed.log == committed


def test_a_trail_of_another_source_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    feed = ListFeed(bodies([["W"]]), [])
    with live(place, feed) as running:
        list(running.run())
    feed.name = "other"
    with pytest.raises(StorageError, match="received from list, not from other"), live(place, feed):
        pass


def test_times_that_are_generated_are_those_of_receipt(tmp_path: Path) -> None:
    place = Place(tmp_path)
    text = (tmp_path / "p.properties").read_text()
    (tmp_path / "p.properties").write_text(
        text.replace("delim.timestamp=ts", "delim.timestamp=*ts")
    )
    place.capture = load_capture(tmp_path / "p.properties")
    with live(place, ListFeed(["I,MY.ORDERS,2030-01-01,1,x"], [])) as running:
        list(running.run())

    (batch,) = read_trail(tmp_path / "live")
    assert str(batch["op_ts"][0].as_py())[:10] == "2026-01-01"
