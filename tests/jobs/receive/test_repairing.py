"""Quarantined messages of a live capture, repaired: each is added to the trail once, wherever a run is interrupted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capture_place import Place
from failing_disk import FailingDisk, KilledError
from jobs.receive.test_receive_laws import GO, bodies, live, names
from received_messages import ListFeed
from trailgate.errors import DecodeError, StorageError, TrailgateError
from trailgate.jobs.capture.loading import load_capture
from trailgate.live.jobs import repaired as repairing
from trailgate.live.jobs.repaired import RepairSummary, capture_repaired
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Definitions
from trailgate.model.transactions import mask_begins
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.checkpoint import has_checkpoint
from trailgate.storage.live.growing_file import Disk
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.storage.reading.trails import read_trail

SENT = bodies([["W"], ["B"], ["?"], ["E"], ["W"], ["?"], ["W"]])
GOOD = "I,MY.ORDERS,2026-01-01,{},1,{}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, spanning=True)
    received(made, 7)
    return made


def received(place: Place, count: int) -> None:
    """Receive the first messages, of which four are quarantined: a transaction of three and one alone."""
    with live(place, ListFeed(SENT[:count], [2, 3, 1, 1])) as running:
        list(running.run())


def repaired(place: Place, bodies_by_line: Mapping[int, str]) -> Path:
    """Return a copy of the quarantine with some bodies repaired."""
    lines = (place.folder / "live.quarantine.jsonl").read_text().splitlines()
    path = place.folder / "repaired.jsonl"
    rows = [json.loads(line) for line in lines]
    for number, body in bodies_by_line.items():
        rows[number]["body"] = body
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ALL = {1: GOOD.format("M", "r1"), 3: GOOD.format("W", "r2")}


def repair(place: Place, path: Path, options: AppendOptions | None = None) -> RepairSummary:
    return capture_repaired(
        place.capture, [str(path)], str(place.folder / "live"), options or GO.append
    )


def test_repaired_messages_are_added_to_their_trail_once(place: Place) -> None:
    before = names(place, "live")
    path = repaired(place, ALL)
    first, second = repair(place, path), repair(place, path)

    added = [("1", "B"), ("r1", "M"), ("2", "E"), ("r2", "W")]
    assert names(place, "live") == [*before, *added]
    assert (first.messages, first.skipped, first.transactions, first.operations) == (4, 0, 2, 4)
    assert (second.messages, second.skipped, second.operations) == (0, 4, 0)


def test_the_live_capture_continues_where_it_was(place: Place) -> None:
    repair(place, repaired(place, ALL))
    sent = [*SENT, *bodies([["W"]])]
    with live(place, ListFeed(sent, [])) as running:
        (report,) = running.run()
    again = repair(place, repaired(place, ALL))

    assert (report.messages, report.number) == (1, 8)
    assert len(names(place, "live")) == 3 + 4 + 1
    assert again.skipped == 4


def test_generated_ids_are_those_that_the_messages_would_have_had(place: Place) -> None:
    repair(place, repaired(place, ALL))
    ids = [csn for batch in read_trail(place.folder / "live") for csn in batch["csn"].to_pylist()]

    assert len(set(ids)) == 5  # of as many transactions
    assert sorted(ids)[1] == f"{1000:020}"  # the message with number 1


def test_some_may_be_repaired_first_and_the_others_later(place: Place) -> None:
    path = repaired(place, ALL)
    lines = path.read_text().splitlines(keepends=True)
    alone = place.folder / "alone.jsonl"
    alone.write_text(lines[3])

    assert repair(place, alone).messages == 1
    assert repair(place, path).messages == 3
    assert [name for name, _ in names(place, "live")][-4:] == ["r2", "1", "r1", "2"]


def test_messages_of_large_offsets_can_be_repaired(tmp_path: Path) -> None:
    """Kafka's offsets may have more than ten digits, so that positions have more than twenty."""
    place = Place(tmp_path, spanning=True)
    with live(place, ListFeed(SENT, [2, 3, 1, 1], first=10**10)) as running:
        list(running.run())
    before, path = names(place, "live"), repaired(place, ALL)
    first, second = repair(place, path), repair(place, path)

    assert {len(line["position"]) for line in map(json.loads, path.read_text().splitlines())} == {
        21
    }
    assert names(place, "live") == [*before, *ADDED]
    assert (first.messages, second.skipped) == (4, 4)


def test_the_order_of_the_feed_is_not_that_of_positions_as_text(tmp_path: Path) -> None:
    place, path = Place(tmp_path, spanning=True), tmp_path / "p.properties"
    path.write_text(path.read_text().replace(",ind", ",ind,seq").replace("*seqid", "seq"))
    place.capture = load_capture(path)
    good = "I,MY.ORDERS,2026-01-01,W,{},1,{}"
    with live(place, ListFeed(["bad"] * 2 + [good.format("03", "c")], [], first=10**10 - 1000)) as (
        running
    ):
        list(running.run())
    fixed = repaired(place, {0: good.format("01", "a"), 1: good.format("02", "b")})
    lines = fixed.read_text().splitlines(keepends=True)
    assert [len(json.loads(line)["position"]) for line in lines] == [20, 21]
    fixed.write_text("".join(reversed(lines)))
    repair(place, fixed)

    assert names(place, "live") == [("c", "W"), ("a", "W"), ("b", "W")]


def halves(place: Place) -> list[str]:
    """Return two files of repaired messages, which share a message."""
    lines = repaired(place, ALL).read_text().splitlines(keepends=True)
    paths = [place.folder / f"{name}.jsonl" for name in ("first", "second")]
    for path, rows in zip(paths, (lines[:3], lines[2:]), strict=True):
        path.write_text("".join(rows))
    return [str(path) for path in paths]


def repair_all(
    place: Place, paths: list[str], options: AppendOptions | None = None
) -> RepairSummary:
    return capture_repaired(place.capture, paths, str(place.folder / "live"), options or GO.append)


ADDED = [("1", "B"), ("r1", "M"), ("2", "E"), ("r2", "W")]


def test_a_message_that_is_passed_twice_is_added_once(place: Place) -> None:
    before = names(place, "live")
    first, second = halves(place)
    paths = [first, second, first]
    summary, again = repair_all(place, paths), repair_all(place, paths)

    assert names(place, "live") == [*before, *ADDED]
    assert (summary.messages, summary.skipped) == (4, 0)
    assert (again.messages, again.skipped) == (0, 4)


def test_messages_are_added_in_the_order_of_the_feed(place: Place) -> None:
    before = names(place, "live")
    repair_all(place, halves(place)[::-1])

    assert names(place, "live") == [*before, *ADDED]


def test_a_message_that_is_passed_with_two_contents_is_refused(place: Place) -> None:
    before = names(place, "live")
    other = str(repaired(place, ALL).rename(place.folder / "other.jsonl"))
    path = str(repaired(place, {**ALL, 3: GOOD.format("W", "r3")}))
    with pytest.raises(DecodeError, match=r"also in .*other.jsonl, line 4, with other") as raised:
        repair_all(place, [other, path])

    assert (raised.value.where.source, raised.value.where.line) == (path, 4)
    assert names(place, "live") == before
    assert repair_all(place, [path]).messages == 4
    assert repair_all(place, [other, path]).skipped == 4  # the trail has them: either is skipped


def interrupted(place: Place, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture repaired messages, and be killed after the first transaction was added."""

    class Killed(TrailAppender):
        def append(self, batch: ChangeBatch, *rest: Any) -> None:
            first = np.cumsum(mask_begins(batch.tx_indicators())) == 1
            super().append(batch.where(first), *rest)
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(repairing, "TrailAppender", Killed)
        with pytest.raises(KilledError):
            repair_all(place, paths)
    # the trail has the transaction, so it refuses the live capture
    with pytest.raises(StorageError, match="interrupted"), live(place, ListFeed(SENT, [])):
        pass


def test_the_order_of_a_retry_does_not_matter(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names(place, "live")
    paths = halves(place)
    interrupted(place, paths, monkeypatch)
    with pytest.raises(StorageError, match="interrupted"):
        repair_all(place, paths[:1])
    repair_all(place, [paths[1], *paths[::-1]])

    assert names(place, "live") == [*before, *ADDED]


def test_a_run_of_an_earlier_version_is_continued_as_it_was_begun(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names(place, "live")
    lines = repaired(place, ALL).read_text().splitlines(keepends=True)
    path = place.folder / "reordered.jsonl"
    path.write_text("".join([lines[3], *lines[:3]]))
    with monkeypatch.context() as patched:
        patched.setattr(repairing, "_distinct", list)  # they took the messages as they were passed
        interrupted(place, [str(path)], monkeypatch)
    with pytest.raises(StorageError, match="interrupted"):
        repair_all(place, [str(repaired(place, ALL))])
    repair_all(place, [str(path)])

    assert names(place, "live") == [*before, ADDED[3], *ADDED[:3]]


@pytest.mark.parametrize("bad", ["bad", GOOD.format("B", 9), GOOD.format("W", "x" * 61)])
def test_what_is_still_bad_is_named_with_its_line_and_nothing_is_added(
    place: Place, bad: str
) -> None:
    before = names(place, "live")
    with pytest.raises(TrailgateError) as raised:
        repair(place, repaired(place, {**ALL, 3: bad}))

    assert (raised.value.where.line, str(raised.value.where.source)[-14:]) == (4, "repaired.jsonl")
    assert names(place, "live") == before
    assert repair(place, repaired(place, ALL)).messages == 4


def test_a_line_without_its_position_is_refused(place: Place) -> None:
    path = place.folder / "own.jsonl"
    for line in ('{"body": "x"}', '{"body": "x", "position": "1"}', "x", "[]"):
        path.write_text("\n" + line)
        with pytest.raises(DecodeError) as raised:
            repair(place, path)
        assert raised.value.where.line == 2
    with pytest.raises(StorageError, match="no messages here"):
        repair(place, place.folder / "none.jsonl")


def test_a_trail_that_is_being_received_into_is_refused(place: Place) -> None:
    path = repaired(place, ALL)
    with live(place, ListFeed(SENT, [])), pytest.raises(StorageError, match="another"):
        repair(place, path)


def test_a_trail_of_files_is_not_a_live_one(place: Place) -> None:
    place.write(*bodies([["W"]]))
    place.run("ot")

    assert has_checkpoint(str(place.folder / "live"))
    assert not has_checkpoint(str(place.folder / "ot"))


def test_a_run_that_is_killed_at_any_step_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[tuple[str, str]] = []
    step, refused = 0, 0
    while True:
        folder = tmp_path / str(step)
        folder.mkdir()
        place = Place(folder, spanning=True)
        received(place, 7)
        path, died = repaired(place, ALL), False
        disk = FailingDisk(step or None, (0.0, 0.5, 1.0)[step % 3])
        with monkeypatch.context() as patched:
            patched.setattr(repairing, "TrailAppender", _on(disk))
            options = replace(GO.append, max_bytes=700)
            try:
                repair(place, path, options)
            except KilledError:
                died = True
        if died and step % 2:
            try:  # the live capture is started first, by mistake
                with live(place, ListFeed(SENT, [])) as running:
                    list(running.run())
            except StorageError as error:
                refused += "interrupted" in error.problem
        repair(place, path, options)
        with live(place, ListFeed(SENT, [])) as running:
            list(running.run())
        wanted = wanted or names(place, "live")
        assert names(place, "live") == wanted, step
        if step and not died:
            break
        step += 1

    assert len(wanted) == 7
    assert step > 8
    assert refused


def _on(disk: Disk) -> object:
    """Return an appender's class that writes by a disk of the test's."""

    class Appender(TrailAppender):
        def __init__(self, prefix: str, tables: Definitions, options: AppendOptions) -> None:
            super().__init__(prefix, tables, options, disk=disk)

    return Appender
