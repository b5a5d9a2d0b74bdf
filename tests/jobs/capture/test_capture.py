"""Promises of a capture: nothing lost, nothing twice, the same bytes however it was cut or killed."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from capture_place import QUARANTINE, Place, row
from trailgate.errors import OptionError, StorageError, TrailgateError
from trailgate.jobs.capture.job import publish_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.jobs.capture.ranges import run_range
from trailgate.storage.files.locks import lock
from trailgate.storage.publish import local_disk
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.format.file_header import decode_header


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def spanning(tmp_path: Path) -> Place:
    return Place(tmp_path, spanning=True)


def test_each_operation_is_in_the_trail_once(place: Place) -> None:
    place.write(*(row(2 * i) + row(2 * i + 1) for i in range(20)))
    summary = place.run("ot")
    assert place.names("ot") == [f"name {i}" for i in range(40)]
    assert summary.counts == {"MY.ORDERS": {"I": 40}}
    assert (summary.messages, summary.transactions, summary.operations) == (20, 20, 40)
    assert summary.files == ("ot000000000",)


@pytest.mark.parametrize("split", [pytest.param(1, marks=pytest.mark.slow), 7, 50, 333, 1 << 20])
def test_splits_change_no_record(place: Place, split: int) -> None:
    lines = place.folder / "lines.txt"
    lines.write_text("".join(row(i) for i in range(50)))
    whole = CaptureOptions(message_per_line=True)
    place.run("aa", whole, lines)
    place.run("bb", replace(whole, split_bytes=split), lines)
    assert place.body("aa") == place.body("bb")


@pytest.mark.parametrize("split", [1, 40, 100, 1000])
def test_transactions_over_messages_are_owned_once(spanning: Place, split: int) -> None:
    lines = spanning.folder / "lines.txt"
    pattern = "BMMMEWWBEBMMMMMMMMMMEW"
    lines.write_text("".join(row(i, ind) for i, ind in enumerate(pattern)))
    whole = CaptureOptions(message_per_line=True)
    one = spanning.run("aa", whole, lines)
    other = spanning.run("bb", replace(whole, split_bytes=split), lines)
    assert spanning.body("aa") == spanning.body("bb")
    assert spanning.names("bb") == [f"name {i}" for i in range(len(pattern))]
    assert (one.transactions, one.messages) == (other.transactions, other.messages) == (6, 22)


def test_jobs_and_reports_travel(place: Place) -> None:
    place.write(row(1), row(2))
    job = pickle.loads(pickle.dumps(place.job("ot", CaptureOptions(split_bytes=1))))
    reports = [run_range(job, index) for index in reversed(range(len(job.ranges)))]
    sent = pickle.loads(pickle.dumps(reports))
    assert publish_capture(job, sent).operations == 2
    assert place.names("ot") == ["name 1", "name 2"]


def test_generated_ids_ascend_through_all_runs_into_a_trail(place: Place) -> None:
    place.write("I,MY.ORDERS,2026-01-01,1,a\n", "I,MY.ORDERS,2026-01-01,2,b\n")

    for _ in range(2):
        run_local(place.job("ot"))
        place.write("I,MY.ORDERS,2026-01-02,3,c\n", "I,MY.ORDERS,2026-01-02,4,d\n")

    batches = read_trail(place.folder / "ot")
    ids = [csn for batch in batches for csn in batch.column("csn").to_pylist()]
    assert len(ids) == 4
    assert ids == sorted(set(ids))


def test_sequence_ids_of_two_lengths_are_refused_across_ranges(place: Place) -> None:
    (place.folder / "p.properties").write_text(
        (place.folder / "p.properties")
        .read_text()
        .replace("seqid=*seqid", "seqid=ts")
        .replace("delim.timestamp=ts", "delim.timestamp=*ts")
        .replace("delim.timestamp.format=YYYY-MM-DD\n", "")
    )
    place.capture = load_capture(place.folder / "p.properties")
    place.write("I,MY.ORDERS,001,1,a\n", "I,MY.ORDERS,0002,2,b\n")

    with pytest.raises(TrailgateError, match=r"sequence ids? .*characters"):
        run_local(place.job("ot", CaptureOptions(split_bytes=1)))


def test_two_runs_continue_the_numbers(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    place.write(row(2))
    assert place.run("ot").files == ("ot000000001",)
    assert place.names("ot") == ["name 1", "name 2"]
    header = decode_header((place.folder / "ot000000001").read_bytes())[0]
    assert (header.trail.seqno, header.trail.file_size) == (
        1,
        (place.folder / "ot000000001").stat().st_size,
    )
    assert header.trail.filename.endswith("ot000000001")


def test_rollover_splits_no_record(place: Place) -> None:
    place.write("".join(row(i) for i in range(100)))
    summary = place.run("ot", CaptureOptions(max_bytes=2000, seq_digits=6))
    assert len(summary.files) > 3
    assert all(len(path.name) == len("ot000000") for path in place.files("ot"))
    assert all(path.stat().st_size <= 2000 for path in place.files("ot"))
    assert place.names("ot") == [f"name {i}" for i in range(100)]


STEPS = ["replace_whole_file", "_place_file", "sync_folder", "append_lines", "replace_state"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_a_killed_run_runs_again_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    options = CaptureOptions(on_error="quarantine", split_bytes=20)
    folder = tmp_path / "work"

    def begun() -> Place:
        folder.mkdir()
        place = Place(folder)
        place.write(row(1))
        monkeypatch.setattr(time, "time_ns", lambda: 1_767_225_600 * 10**9)
        place.run("ot")
        place.write(*(row(i) for i in range(4)), "bad\n")
        return place

    place = begun()
    place.run("ot", options)
    expected = place.contents("ot")
    shutil.rmtree(folder)

    place = begun()
    job = place.job("ot", options)
    monkeypatch.setattr(time, "time_ns", lambda: 1_777_777_777 * 10**9)
    real = getattr(local_disk, step)

    def dies(*arguments: object) -> object:
        if after:
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(local_disk, step, dies)
    with pytest.raises(KeyboardInterrupt):
        run_local(job)
    monkeypatch.setattr(local_disk, step, real)
    published = after and step == "replace_state"
    assert len(place.names("ot")) == (5 if published else 1)
    summary = place.run("ot", options)
    captured = (0, 0, 5) if published else (4, 1, 0)
    assert (summary.operations, summary.quarantined, summary.skipped_files) == captured
    assert place.contents("ot") == expected
    assert not list(folder.glob(".ot.staging"))


def test_stop_raises_the_earliest_error_and_publishes_nothing(place: Place) -> None:
    place.write(row(1), "first bad\n", row(2), "second bad,x\n")
    job = place.job("ot", CaptureOptions(split_bytes=1))
    reports = [run_range(job, index) for index in reversed(range(len(job.ranges)))]
    with pytest.raises(TrailgateError) as caught:
        publish_capture(job, reports)
    assert str(caught.value.where.source).endswith("m0001")
    assert place.files("ot") == []
    assert not (place.folder / ".ot.staging").exists()


def test_quarantined_messages_are_captured_after_repair(place: Place) -> None:
    place.write(row(1), "X,MY.ORDERS,2026-01-01,2,name 2\n", row(3))
    summary = place.run("ot", QUARANTINE)
    assert (summary.quarantined, summary.operations, summary.messages) == (1, 2, 3)
    aside = place.folder / "ot.quarantine.jsonl"
    line = json.loads(aside.read_text())
    assert line["body"] == "X,MY.ORDERS,2026-01-01,2,name 2\n"
    assert line["position"] == "00000000010000000000"
    assert "X" in line["reason"]
    aside.write_text(json.dumps({**line, "body": line["body"].replace("X", "I")}) + "\n")
    repaired = place.folder / "repaired.jsonl"
    aside.rename(repaired)
    place.run("again", None, repaired)
    assert place.names("again") == ["name 2"]


@pytest.mark.parametrize("split", [1, 60, 1 << 20])
def test_a_bad_message_takes_its_transaction_along(spanning: Place, split: int) -> None:
    lines = spanning.folder / "lines.txt"
    rows = [row(i, ind) for i, ind in enumerate("WBMMEWBMEW")]
    rows[3] = "bad\n"
    lines.write_text("".join(rows))
    options = CaptureOptions(on_error="quarantine", split_bytes=split, message_per_line=True)
    summary = spanning.run("ot", options, lines)
    assert spanning.names("ot") == [f"name {i}" for i in (0, 5, 6, 7, 8, 9)]
    assert (summary.quarantined, summary.transactions) == (4, 4)
    text = (spanning.folder / "ot.quarantine.jsonl").read_text()
    aside = [json.loads(line) for line in text.splitlines()]
    assert [line["body"] for line in aside] == [line.rstrip("\n") for line in rows[1:5]]


@pytest.mark.parametrize("split", [1, 60, 1 << 20])
def test_a_transaction_that_does_not_end_is_bad(spanning: Place, split: int) -> None:
    lines = spanning.folder / "lines.txt"
    lines.write_text("".join(row(i, ind) for i, ind in enumerate("WBMBEBM")))
    options = CaptureOptions(on_error="quarantine", split_bytes=split, message_per_line=True)
    summary = spanning.run("ot", options, lines)
    assert spanning.names("ot") == ["name 0", "name 3", "name 4"]
    assert summary.quarantined == 4
    with pytest.raises(TrailgateError, match="has not ended"):
        spanning.run("xx", replace(options, on_error="stop"), lines)


def test_json_lines_have_headers_and_may_be_bad(place: Place) -> None:
    source = place.folder / "in.jsonl"
    good = json.dumps({"body": row(1), "headers": {"A": 1}})
    source.write_text(f"{good}\nnot json\n\n{json.dumps({'body': row(2)})}\n")
    summary = place.run("ot", QUARANTINE, source)
    assert place.names("ot") == ["name 1", "name 2"]
    assert summary.quarantined == 1
    assert json.loads((place.folder / "ot.quarantine.jsonl").read_text())["body"] == "not json"
    with pytest.raises(TrailgateError, match="not JSON"):
        place.run("xx", None, source)


def test_a_value_that_does_not_fit_blames_its_message(place: Place) -> None:
    place.write(row(1), f"I,MY.ORDERS,2026-01-01,2,{'x' * 40000}\n", row(3))
    try:
        summary = place.run("ot", QUARANTINE)
    except TrailgateError as error:
        pytest.fail(f"not quarantined: {error}")
    assert (summary.quarantined, place.names("ot")) == (1, ["name 1", "name 3"])


def test_a_dry_run_writes_nothing(place: Place) -> None:
    place.write(row(1), "bad\n")
    before = sorted(path.name for path in place.folder.iterdir())
    summary = place.run("ot", replace(QUARANTINE, dry_run=True))
    assert (summary.operations, summary.quarantined) == (1, 1)
    assert sorted(path.name for path in place.folder.iterdir()) == before


def test_a_trail_is_written_by_one_run_at_a_time(place: Place) -> None:
    with (
        lock(str(place.folder / "ot")),
        pytest.raises(StorageError, match="another run"),
        lock(str(place.folder / "ot")),
    ):
        pass


def test_a_trail_of_another_program_is_left_alone(place: Place) -> None:
    place.write(row(1))
    (place.folder / "ot000000000").write_bytes(b"F")
    with pytest.raises(StorageError, match="has no manifest"):
        place.run("ot")


def test_the_digits_of_a_trail_stay(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    with pytest.raises(
        OptionError,
        match=r"9 digits, not 6\. Use --seq-digits 9 \(seq_digits, on Spark seqDigits\)",
    ):
        place.run("ot", CaptureOptions(seq_digits=6))


def test_threads_write_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_767_225_600 * 10**9)
    options = CaptureOptions(on_error="quarantine", split_bytes=100, max_bytes=4000)
    folder = tmp_path / "work"

    def captured(threads: int) -> dict[str, bytes]:
        folder.mkdir()
        place = Place(folder)
        place.write(*("bad\n" if i % 7 == 3 else row(i) for i in range(40)))
        done: list[int] = []
        totals: set[int] = set()

        def progress(count: int, total: int) -> None:
            done.append(count)
            totals.add(total)

        run_local(place.job("ot", options), progress, threads)
        assert done == list(range(1, len(done) + 1))
        assert totals == {len(done)}
        contents = place.contents("ot")
        shutil.rmtree(folder)
        return contents

    assert captured(3) == captured(1)


def test_threads_raise_the_earliest_error(place: Place) -> None:
    place.write(*(row(i) for i in range(6)), "bad 6\n", row(7), "bad 8\n", *(row(9),) * 20)
    with pytest.raises(TrailgateError) as caught:
        run_local(place.job("ot", CaptureOptions(split_bytes=1)), threads=4)
    assert str(caught.value.where.source).endswith("m0006")
    assert not (place.folder / ".ot.staging").exists()
