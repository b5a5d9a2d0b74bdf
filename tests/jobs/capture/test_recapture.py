"""Promises about messages that come twice: nothing is doubled, nothing is lost, and each case is counted."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capture_place import QUARANTINE, Place, row
from trailgate.errors import StorageError, TrailgateError, TransactionError, WriteError
from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.jobs.capture.recognized_files import END
from trailgate.storage.files.manifest import Manifest, ManifestFile, read_manifest
from trailgate.storage.files.trail_files import TrailFile
from trailgate.storage.writing.trail_location import TrailLocation
from trailgate.trail.writing.trail_format import TrailFormat

LINES = CaptureOptions(message_per_line=True)
AGAIN = CaptureOptions(again=True)
TESTS = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def numbered(tmp_path: Path) -> Place:
    """Return a place whose messages give sequence ids."""
    place = Place(tmp_path)
    properties = tmp_path / "p.properties"
    text = properties.read_text().replace("optype,table,ts", "optype,table,ts,id")
    properties.write_text(text.replace("seqid=*seqid", "seqid=id"))
    place.capture = load_capture(properties)
    return place


def given(*ids: int) -> str:
    return "".join(f"I,MY.ORDERS,2026-01-01,{i:05},{i},name {i}\n" for i in ids)


def names(*ids: int) -> list[str]:
    return [f"name {i}" for i in ids]


def lines_of(place: Place, text: str, name: str = "lines.txt") -> Path:
    path = place.folder / name
    path.write_text(text)
    return path


def test_definitions_that_were_deleted_are_written_again(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    path = place.folder / "ot.def"
    expected = path.read_bytes()
    path.unlink()

    (announced,) = place.run("ot", CaptureOptions(dry_run=True)).notes
    assert not path.exists()
    summary = place.run("ot")
    assert (summary.files, summary.notes) == ((), (announced,))
    assert announced.startswith(f"{path} was missing and is written again")
    assert path.read_bytes() == expected
    summary = place.run("ot")
    assert (summary.skipped_files, summary.notes) == (1, ())
    assert place.names("ot") == ["name 1"]


def test_a_trail_that_describes_its_tables_itself_does_not_need_its_definitions(
    place: Place,
) -> None:
    place.write(row(1))
    options = CaptureOptions(trail_format=TrailFormat.from_options("19.1"))
    place.run("ot", options)
    (place.folder / "ot.def").unlink()

    assert place.run("ot", options).notes == ()
    assert place.names("ot") == ["name 1"]


def test_messages_captured_before_are_skipped_and_counted(place: Place) -> None:
    place.write(row(1), row(2))
    place.run("ot")
    before = place.contents("ot")

    summary = place.run("ot")

    assert (summary.skipped_files, summary.operations, summary.files) == (2, 0, ())
    assert place.contents("ot") == before


def test_new_files_of_a_folder_are_captured_alone(place: Place) -> None:
    place.write(row(1), row(2))
    place.run("ot")
    place.write(row(1), row(2), row(3))

    summary = place.run("ot")

    assert (summary.skipped_files, summary.operations) == (2, 1)
    assert place.names("ot") == names(1, 2, 3)


def test_again_captures_once_more(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    assert place.run("ot", AGAIN).operations == 1
    assert place.names("ot") == names(1, 1)


@pytest.mark.parametrize("split", [20, 1 << 20])
@pytest.mark.parametrize("name", ["lines.txt", "lines.jsonl"])
def test_of_a_file_that_has_grown_the_new_lines_are_captured(
    place: Place, split: int, name: str
) -> None:
    def text(*numbers: int) -> str:
        rows = [row(i) for i in numbers]
        return "".join(json.dumps({"body": r}) + "\n" if "json" in name else r for r in rows)

    options = CaptureOptions(message_per_line=True, split_bytes=split)
    lines = lines_of(place, text(0, 1), name)
    place.run("ot", options, lines)
    lines_of(place, text(0, 1, 2, 3, 4), name)

    summary = place.run("ot", options, lines)

    assert (summary.continued_files, summary.operations) == (1, 3)
    assert place.names("ot") == names(0, 1, 2, 3, 4)
    assert place.run("ot", options, lines).skipped_files == 1


def test_a_file_that_is_one_message_and_has_grown_is_refused(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    place.write(row(1) + row(2))
    with pytest.raises(StorageError, match="has grown since: a message is a whole file"):
        place.run("ot")
    assert place.names("ot") == names(1)


def test_a_line_that_was_captured_unfinished_and_has_grown_is_refused(place: Place) -> None:
    lines = lines_of(place, row(1).rstrip("\n"))
    place.run("ot", LINES, lines)
    lines_of(place, row(1).rstrip("\n") + "2\n")
    with pytest.raises(StorageError, match="its last line was not complete"):
        place.run("ot", LINES, lines)
    lines_of(place, row(1) + row(2))
    assert place.run("ot", LINES, lines).operations == 1


def test_other_content_of_a_name_and_another_name_of_a_content_are_counted(place: Place) -> None:
    one = lines_of(place, row(1))
    place.run("ot", LINES, one)
    lines_of(place, row(2))
    assert place.run("ot", LINES, one).changed_files == 1
    assert place.run("ot", LINES, lines_of(place, row(1), "copy.txt")).copied_files == 1
    assert place.names("ot") == names(1, 2, 1)


def test_a_long_file_that_differs_in_its_middle_is_neither_skipped_nor_captured(
    place: Place,
) -> None:
    text = "".join(row(i) for i in range(2 * END // 20))
    lines = lines_of(place, text)
    place.run("ot", LINES, lines)
    assert place.run("ot", LINES, lines).skipped_files == 1

    middle = text.index("name", len(text) // 2)
    lines_of(place, text[:middle] + "NAME" + text[middle + 4 :])
    os.utime(lines, ns=(0, 0))

    with pytest.raises(StorageError, match="modified at another time"):
        place.run("ot", LINES, lines)
    assert place.run("ot", CaptureOptions(message_per_line=True, again=True), lines).operations


def test_messages_of_several_sources_are_captured_in_their_order(place: Place) -> None:
    sources = [lines_of(place, row(i), f"{name}.txt") for i, name in enumerate("cab")]
    run_local(plan_capture(place.capture, sources, place.folder / "ot"))
    assert place.names("ot") == names(0, 1, 2)
    run_local(plan_capture(place.capture, place.folder / "[abc].txt", place.folder / "xx"))
    assert place.names("xx") == names(1, 2, 0)


@pytest.mark.parametrize("release", ["9.5", "11.2", "12.2"])
def test_operations_whose_ids_the_trail_has_are_skipped(numbered: Place, release: str) -> None:
    options = CaptureOptions(trail_format=TrailFormat.from_options(release, None, None))
    numbered.write(given(1, 2), given(3))
    numbered.run("ot", options)
    numbered.write(given(2), given(3), given(4))

    summary = numbered.run("ot", options, lines_of(numbered, given(3), "other.txt"))
    assert (summary.skipped_operations, summary.operations, summary.files) == (1, 0, ())
    manifest = read_manifest(str(numbered.folder / "ot"))
    assert manifest is not None
    assert manifest.last_id == "00003"


@pytest.mark.parametrize("split", [20, 1 << 20])
def test_repeated_messages_after_a_failure_are_skipped_one_by_one(
    numbered: Place, split: int
) -> None:
    options = CaptureOptions(message_per_line=True, split_bytes=split)
    numbered.run("ot", options, lines_of(numbered, given(1, 2, 3, 5)))

    summary = numbered.run("ot", options, lines_of(numbered, given(2, 3, 4, 6), "more.txt"))

    assert (summary.skipped_operations, summary.late_operations, summary.operations) == (2, 1, 2)
    assert numbered.names("ot") == names(1, 2, 3, 5, 4, 6)
    assert numbered.run("ot", options, numbered.folder / "more.txt").skipped_files == 1


@pytest.mark.parametrize("split", [20, 1 << 20])
@pytest.mark.parametrize(
    ("ids", "problem"), [((1, 3, 2), "follows the higher"), ((1, 2, 2, 3), "repeats")]
)
def test_ids_that_fall_or_repeat_stop_the_run(
    numbered: Place, split: int, ids: tuple[int, ...], problem: str
) -> None:
    options = CaptureOptions(on_error="quarantine", message_per_line=True, split_bytes=split)
    lines = lines_of(numbered, given(*ids))
    with pytest.raises(TransactionError, match=problem) as caught:
        numbered.run("ot", options, lines)
    assert caught.value.where.begin == 2 * len(given(1))
    assert numbered.files("ot") == []

    unordered = CaptureOptions(message_per_line=True, split_bytes=split, unordered_ids=True)
    numbered.run("ot", unordered, lines)
    assert numbered.names("ot") == names(*ids)
    assert numbered.run("ot", unordered, lines_of(numbered, given(*ids), "b")).operations == 0


def test_ids_of_one_message_may_be_the_same(numbered: Place) -> None:
    numbered.write(given(1, 1), given(2))
    assert numbered.run("ot").operations == 3


def test_ids_of_another_length_than_the_trails_are_refused(numbered: Place) -> None:
    numbered.run("ot", LINES, lines_of(numbered, given(1)))
    longer = lines_of(numbered, given(1).replace("00001", "000001"), "b")
    with pytest.raises(TransactionError, match="characters, but those in the trail have 5"):
        numbered.run("ot", LINES, longer)


@pytest.mark.parametrize("kind", ["place", "numbered"])
def test_a_repaired_quarantine_file_is_captured_once(
    kind: str, request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(kind)
    one = given if kind == "numbered" else row
    place.write(one(1), one(2).replace("I,", "X,"), one(3))
    place.run("ot", QUARANTINE)
    text = (place.folder / "ot.quarantine.jsonl").read_text()
    repaired = lines_of(place, text.replace("X,", "I,"), "repaired.jsonl")

    assert place.run("ot", QUARANTINE, repaired).operations == 1
    assert place.names("ot") == names(1, 3, 2)
    assert place.run("ot", QUARANTINE, repaired).skipped_files == 1
    assert place.names("ot") == names(1, 3, 2)


def test_the_list_of_captured_files_must_be_as_long_as_the_manifest_states(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    (place.folder / "ot.captured.jsonl").write_text("")
    with pytest.raises(StorageError, match="shorter than"):
        place.run("ot")


def test_nothing_is_added_behind_a_last_file_that_was_cut(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    place.write(row(1), row(2))
    place.run("ot")
    place.write(row(1), row(2), row(3))
    last = place.folder / "ot000000001"
    before, size = place.contents("ot"), last.stat().st_size
    os.truncate(last, size - 3)

    hint = f"trailgate check {place.folder / 'ot'} lists the damage"
    for options in (CaptureOptions(), CaptureOptions(dry_run=True)):
        problem = f"the file has {size - 3} bytes, but the manifest states {size} .*{hint}"
        with pytest.raises(StorageError, match=problem) as caught:
            place.run("ot", options)
        assert caught.value.where.source == str(last)
    last.unlink()
    with pytest.raises(StorageError, match=f"is missing, but the manifest states {size} bytes"):
        place.run("ot")

    last.write_bytes(before["ot000000001"])
    assert place.run("ot").operations == 1
    assert place.names("ot") == names(1, 2, 3)


def test_nothing_is_added_behind_a_last_file_that_is_another_one(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    place.write(row(1), row(2))
    place.run("ot")
    place.write(row(1), row(2), row(3))
    first, last = (place.folder / f"ot00000000{number}" for number in (0, 1))
    right = last.read_bytes()
    longer = f"has {len(right) + 9} bytes, but the manifest states {len(right)}"
    for content, problem in {
        right + bytes(9): longer,
        first.read_bytes().ljust(len(right))[: len(right)]: "the header states file number 0, but the name 1",
        bytes(len(right)): "a file header must begin with 46",
    }.items():  # fmt: skip
        last.write_bytes(content)
        with pytest.raises(TrailgateError, match=problem) as caught:
            place.run("ot")
        assert caught.value.where.source == str(last)
    last.unlink()
    last.mkdir()
    with pytest.raises(StorageError, match=r"ot000000001' is a directory|but the manifest states"):
        place.run("ot")
    last.rmdir()

    last.write_bytes(right)
    assert place.run("ot").operations == 1
    assert place.names("ot") == names(1, 2, 3)


def test_a_trail_whose_files_were_all_purged_is_added_to(place: Place) -> None:
    place.write(row(1))
    place.run("ot")
    (place.folder / "ot000000000").unlink()
    place.write(row(1), row(2))
    place.run("ot")
    assert place.names("ot") == names(2)


def test_a_disk_that_is_full_is_an_error_and_the_next_run_captures_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(row(1))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(WriteError, match="No space left on device"):
            place.run("ot")
    place.run("ot")
    assert place.names("ot") == names(1)
    assert not list(place.folder.glob(".ot.staging*"))


@pytest.mark.servers  # kills processes by the dozen
@pytest.mark.slow
def test_a_capture_killed_at_any_moment_and_run_again_doubles_nothing(tmp_path: Path) -> None:
    path = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, TESTS / "killed_captures.py", tmp_path / "work", "20"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[2]) > 25


def test_the_last_file_in_a_store_has_the_parameters_of_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Backend:
        name = "s3://bucket/dirdat/ot"

        def size(self, _: str) -> int:
            return 7

    opened = list[str]()

    def open_file(file: TrailFile) -> None:
        opened.append(file.path)
        raise StorageError("seen")

    monkeypatch.setattr("trailgate.storage.writing.trail_location.TrailFileReader", open_file)
    backend: Any = Backend()
    address = "s3://K:S@bucket/dirdat/ot?endpoint_override=localhost:9000&scheme=http"
    manifest = Manifest((ManifestFile("ot000000001", 1, 7, None),))
    with pytest.raises(StorageError, match="seen"):
        TrailLocation(backend, address).check_last_file(manifest)
    assert opened == [address.replace("/ot?", "/ot000000001?")]
