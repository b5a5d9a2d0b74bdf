"""Captures into an object store: the same trail as on a disk, of two runs one, and the same bytes after a kill at any request."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from capture_place import QUARANTINE, Place, row
from laws import kills, one_of, sampled
from store_servers.bucket import KINDS, Bucket
from stored_place import (
    HIDDEN,
    KilledError,
    StoredPlace,
    killed_after,
    meeting,
    requests,
    short_parts,
    stops,
)
from trailgate import capture_files
from trailgate.errors import DecodeError, OptionError, StorageError, TransactionError
from trailgate.jobs.capture.job import plan_capture, publish_capture, run_local
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.jobs.capture.ranges import run_range
from trailgate.jobs.capture.summary import CaptureSummary
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.stores.s3 import MIN_PART
from trailgate.trail.format.file_header import decode_header

SMALL = CaptureOptions(on_error="quarantine", split_bytes=20, max_bytes=1200)


@pytest.fixture
def place(tmp_path: Path, bucket: Bucket) -> StoredPlace:
    return StoredPlace(tmp_path, bucket)


def test_the_records_are_those_of_a_trail_on_a_disk(place: StoredPlace) -> None:
    place.write(*(row(i) for i in range(20)), "bad\n")
    place.run("ot", SMALL)
    local = place.folder / "local"
    local.mkdir()
    other = Place(local)
    other.write(*(row(i) for i in range(20)), "bad\n")

    other.run("ot", SMALL)

    assert place.body("ot") == other.body("ot")
    assert [key[7:] for key in place.contents("ot000")] == [path.name for path in other.files("ot")]
    assert place.bucket.get("dirdat/ot.def") == (local / "ot.def").read_bytes()
    assert place.left() == []


def test_long_files_are_the_same_too(place: StoredPlace) -> None:
    place.write("".join(row(i % 9000) for i in range(90_000)))
    lines = CaptureOptions(message_per_line=True, max_bytes=7_000_000)
    place.run("ot", lines)
    local = place.folder / "local"
    local.mkdir()
    other = Place(local)
    shutil.rmtree(other.messages)
    other.run("ot", lines, place.messages)

    sizes = [len(data) for data in place.contents("ot000").values()]
    assert len(sizes) > 1
    assert max(sizes) > MIN_PART
    assert place.body("ot") == other.body("ot")
    first = decode_header(place.bucket.get("dirdat/ot000000000"))[0].trail
    assert first.file_size == sizes[0]


def test_a_part_of_a_transaction_is_not_captured_from_the_quarantines(
    tmp_path: Path, bucket: Bucket
) -> None:
    place = StoredPlace(tmp_path, bucket, spanning=True)
    for number, indicators in enumerate(["?W", "B?E"]):
        place.write(
            *(
                "bad" if one == "?" else row(at, one)
                for at, one in enumerate(indicators, 10 * number)
            )
        )
        place.run("ot", QUARANTINE)
    keys = place.bucket.keys("dirdat/ot.quarantine")
    lines = [line for key in keys for line in place.bucket.get(key).splitlines(keepends=True)]
    assert (len(keys), len(lines)) == (2, 4)
    lines[2] = lines[2].replace(b'"bad"', json.dumps(row(11, "M")).encode())
    half, whole = tmp_path / "half.jsonl", tmp_path / "whole.jsonl"
    half.write_bytes(lines[1] + lines[3])
    whole.write_bytes(b"".join(lines[1:4]))
    with pytest.raises(TransactionError, match=r"which is line 2 of .*ot.quarantine.0+4.jsonl"):
        place.run("ot", None, half)

    assert place.run("ot", None, whole).operations == 3
    copy = whole.rename(tmp_path / "copy.jsonl")
    with pytest.raises(DecodeError, match=r"captured or quarantined again before.* line 1\)"):
        place.run("ot", None, copy)


def test_headers_name_the_file_and_its_home(place: StoredPlace) -> None:
    place.write(row(1))
    place.run("ot")
    place.write(row(2))

    place.run("ot")

    data = place.bucket.get("dirdat/ot000000001")
    trail = decode_header(data)[0].trail
    assert trail.filename == f"{place.bucket.url}/dirdat/ot000000001"
    assert f":{place.bucket.name}" in str(trail.uri)
    assert (trail.seqno, trail.file_size) == (1, len(data))


def test_runs_continue_the_trail_and_pass_over_what_it_has(place: StoredPlace) -> None:
    place.write(row(1), "bad\n")
    first = place.run("ot", QUARANTINE)
    place.write(row(1), "bad\n", row(2), "worse\n")

    second = place.run("ot", QUARANTINE)

    assert (second.operations, second.quarantined, second.skipped_files) == (1, 1, 2)
    assert place.names("ot") == ["name 1", "name 2"]
    assert first.quarantine == f"{place.bucket.url}/dirdat/ot.quarantine.000002.jsonl"
    assert second.quarantine == f"{place.bucket.url}/dirdat/ot.quarantine.000004.jsonl"
    line = json.loads(place.bucket.get("dirdat/ot.quarantine.000004.jsonl"))
    assert line["body"] == "worse\n"
    assert place.left() == []


def test_of_two_runs_at_the_same_time_one_publishes(place: StoredPlace) -> None:
    place.write(row(1))
    job = place.job("ot")
    other = place.folder / "other"
    other.mkdir()
    (other / "m").write_text(row(2))
    rival = place.job("ot", source=other)
    reports = [run_range(job, index) for index in range(len(job.ranges))]
    run_local(rival)

    with pytest.raises(StorageError, match="another run has published here since"):
        publish_capture(job, reports)

    assert place.names("ot") == ["name 2"]
    assert place.left() == []
    place.run("ot")
    assert place.names("ot") == ["name 2", "name 1"]


NEW = [f"name {i}" for i in (0, 1, 2, 3, 5)]
FIRST, LATER = 1_767_225_600 * 10**9, 1_777_777_777 * 10**9


class SecondRun:
    """A trail in short parts that has one run, and messages for a second one; ``again`` makes the bucket what it was then."""

    def __init__(self, place: StoredPlace, patch: pytest.MonkeyPatch) -> None:
        short_parts(patch, 900)
        self.place, self.bucket = place, place.bucket
        place.write(row(1))
        place.run("ot", QUARANTINE)
        self.first = self.bucket.contents()
        place.write(*(row(i) for i in range(4)), "bad\n", row(5))

    def again(self) -> StoredPlace:
        """Return the place."""
        self.bucket.store.abandon("", bool)
        self.bucket.store.delete(self.bucket.keys())
        for key, data in self.first.items():
            self.bucket.put(key, data)
        return self.place

    def run(self) -> CaptureSummary:
        return run_local(self.place.job("ot", QUARANTINE), threads=1)


@pytest.fixture
def second(place: StoredPlace, monkeypatch: pytest.MonkeyPatch) -> SecondRun:
    return SecondRun(place, monkeypatch)


def test_a_run_killed_at_any_request_runs_again_to_the_same_bytes(
    second: SecondRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [FIRST]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    place = second.again()
    with requests(bool) as sent:
        second.run()
    expected = place.contents("ot")

    seen = set()
    for step in sampled(range(len(sent)), 6, f"killed {place.bucket.server.kind}"):
        clock[0] = FIRST
        place = second.again()
        before = place.contents("ot000")
        with killed_after(step), suppress(KilledError):
            second.run()
        names = place.names("ot")
        assert names in (["name 1"], ["name 1", *NEW])
        assert before.items() <= place.contents("ot").items()
        seen.add(len(names))
        if any(key.endswith("run.json") for key in place.bucket.keys(HIDDEN)):
            clock[0] = LATER  # the time of the run that was killed is kept
        place.run("ot", QUARANTINE)
        assert place.contents("ot") == expected, (step, sent[step])
        assert place.left() == [], (step, sent[step])

    assert seen == {1, 6}


def test_a_run_that_pauses_while_another_one_publishes_loses_nothing(second: SecondRun) -> None:
    """What the first one staged is deleted by the other one, unless it was decided on; then it is resumed."""
    other = second.place.folder / "other"
    other.mkdir()
    (other / "rival").write_text(row(9))
    second.again()
    with requests(bool) as sent:
        second.run()

    won = []
    for step in sampled(range(1, len(sent) + 1), 6, f"rival {second.bucket.server.kind}"):
        place = second.again()
        with meeting(step, partial(place.run, "ot", source=other)) as met:
            stopped = stops(second.run)
        assert len(met) >= step
        names = place.names("ot")
        if stopped:
            assert names == ["name 1", "name 9"]
            place.run("ot", QUARANTINE)
        assert place.names("ot") in (["name 1", "name 9", *NEW], ["name 1", *NEW, "name 9"])
        assert place.left() == [], (step, met[step - 1])
        won.append(not stopped)
    assert set(won) == {True, False}


def test_files_that_are_not_the_trails_are_not_overwritten(place: StoredPlace) -> None:
    place.bucket.put("dirdat/ot000000000", b"mine")
    place.write(row(1))
    with pytest.raises(StorageError, match="has no manifest"):
        place.run("ot")
    place.run("on")
    place.bucket.put("dirdat/on000000001", b"mine")
    place.write(row(2))

    with pytest.raises(StorageError, match=r"is not in its manifest .*on000000001"):
        place.run("on")

    assert place.bucket.get("dirdat/on000000001") == b"mine"


def test_a_dry_run_sends_nothing_but_questions(place: StoredPlace) -> None:
    place.write(row(1), "bad\n")

    with requests(bool) as sent:
        done = place.run("ot", CaptureOptions(on_error="quarantine", dry_run=True))

    assert (done.operations, done.quarantined) == (1, 1)
    assert place.bucket.keys() == []
    assert set(sent) <= place.bucket.server.asking


def test_an_error_of_a_message_leaves_nothing(place: StoredPlace) -> None:
    place.write(row(1), "bad\n")

    with pytest.raises(DecodeError):
        place.run("ot")

    assert place.bucket.keys() == []


def test_a_folder_is_not_a_prefix(place: StoredPlace) -> None:
    place.bucket.put("dirdat/ot000000000", b"")
    for url in (f"{place.bucket.url}/dirdat", f"{place.bucket.url}/dirdat/", place.bucket.url):
        with pytest.raises(OptionError, match="is a folder, not a prefix"):
            plan_capture(place.capture, place.messages, url)


def test_sequence_ids_that_the_trail_has_are_skipped(place: StoredPlace) -> None:
    text = (place.folder / "p.properties").read_text()
    numbered = text.replace("table,ts", "table,ts,seq").replace("*seqid", "seq")
    (place.folder / "p.properties").write_text(numbered)

    def captured(*ids: int) -> CaptureSummary:
        lines = [f"I,MY.ORDERS,2026-01-01,{i:04},{i},name {i}\n" for i in ids]
        place.bucket.put(f"in/{ids[0]}-{len(ids)}", "".join(lines))
        return capture_files(
            f"{place.bucket.url}/in/{ids[0]}-{len(ids)}",
            place.url("ot"),
            place.folder / "p.properties",
            message_per="line",
        )

    captured(1, 2)
    done = captured(1, 2, 3)

    assert (done.operations, done.skipped_operations) == (1, 2)
    assert place.names("ot") == ["name 1", "name 2", "name 3"]


def test_a_job_can_be_pickled_and_run_elsewhere(place: StoredPlace) -> None:
    place.write(*(row(i) for i in range(5)))
    job = place.job("ot", SMALL)
    elsewhere = pickle.loads(pickle.dumps(job.anywhere()))
    reports = [run_range(elsewhere, index) for index in range(len(job.ranges))]
    lost = [run_range(elsewhere, index) for index in range(2)]  # of tasks that ran twice

    publish_capture(job, reports)

    assert lost
    assert place.names("ot") == [f"name {i}" for i in range(5)]
    assert place.left() == []
    assert find_trail(place.url("ot")).files[0].path == f"{place.url('ot')}000000000"


@pytest.mark.slow
@pytest.mark.timeout(300 + 20 * kills(8))
@pytest.mark.parametrize("bucket", one_of(KINDS, "killed"), indirect=True)
def test_killed_processes_are_run_again(tmp_path: Path, bucket: Bucket) -> None:
    program = Path(__file__).parents[2] / "killed_store_captures.py"
    paths = os.pathsep.join(str(Path(__file__).parents[3] / name) for name in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "work"), bucket.url, str(kills(8))],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.startswith("killed ")
    assert "killed 0 " not in done.stdout
