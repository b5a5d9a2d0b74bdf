"""A quarantine that was edited in place is not truncated, and what a killed run left behind it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capture_place import QUARANTINE, Place, row
from trailgate.errors import StorageError
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.publish import local_disk


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("bad", row(1), "worse")
    made.run("ot", QUARANTINE)
    (made.messages / "more").write_text("bad again")
    return made


def quarantine_of(place: Place) -> Path:
    return place.folder / "ot.quarantine.jsonl"


EDITS = {
    "a line became longer": lambda data: data.replace(b'"worse"', b'"I,MY.ORDERS,2026-01-01,1,r"'),
    "a line was inserted": lambda data: data.splitlines(keepends=True)[0] + data,
    "it became shorter": lambda data: data[:-1],
}


@pytest.mark.parametrize("case", [*EDITS])
def test_a_quarantine_whose_size_was_changed_is_refused_before_anything_is_written(
    place: Place, case: str
) -> None:
    path, before = quarantine_of(place), place.contents("ot")
    original = path.read_bytes()
    edited = EDITS[case](original)
    path.write_bytes(edited)
    with pytest.raises(StorageError, match="that the manifest states") as raised:
        place.run("ot", QUARANTINE)

    assert (raised.value.where.source, raised.value.hint) == (str(path), "Restore the file")
    assert place.contents("ot") == before | {path.name: edited}
    assert not list(place.folder.glob(".ot.staging"))
    path.write_bytes(original)
    assert place.run("ot", QUARANTINE).quarantined == 1
    assert path.read_bytes().startswith(original)


def test_an_inserted_line_is_noticed_by_the_digest_alone(place: Place) -> None:
    """The size that the manifest states can be the end of another line."""
    path, manifest = quarantine_of(place), place.folder / "ot.manifest.json"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"x" * (len(second) - 1) + b"\n" + first + second)
    with pytest.raises(StorageError, match="the file was edited"):
        place.run("ot", QUARANTINE)
    fields = json.loads(manifest.read_text())
    del fields["quarantine_end"]  # as an earlier version wrote it
    manifest.write_text(json.dumps(fields))

    assert place.run("ot", QUARANTINE).quarantined == 1


@pytest.mark.parametrize("step", ["replace_state", "append_files"])
def test_lines_of_a_killed_run_are_cut_off(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path, real = quarantine_of(place), getattr(local_disk, step)
    kept = path.read_bytes()

    def dies(*arguments: object) -> None:
        if step == "append_files":
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(local_disk, step, dies)
    with pytest.raises(KeyboardInterrupt):
        place.run("ot", QUARANTINE)
    monkeypatch.setattr(local_disk, step, real)
    assert len(path.read_bytes()) > len(kept)
    (place.messages / "more").write_text("bad otherwise")
    place.run("ot", QUARANTINE)

    added = path.read_bytes().removeprefix(kept).splitlines()
    assert [json.loads(line)["body"] for line in added] == ["bad otherwise"]


def test_a_quarantine_that_grows_in_several_runs_is_extended(place: Place) -> None:
    for number in range(3):
        (place.messages / f"n{number}").write_text("bad " * number * 2000 + "bad")
        place.run("ot", QUARANTINE)

    assert len(quarantine_of(place).read_bytes().splitlines()) == 6


def test_lines_are_not_appended_inside_a_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n")
    with pytest.raises(StorageError, match="the file was edited"):
        append_lines(path, 6, ())
    assert path.read_bytes() == b"one\ntwo\n"
    assert append_lines(path, 4, ()) == 4
    with pytest.raises(StorageError, match="shorter than the 4 bytes"):
        append_lines(tmp_path / "missing", 4, ())
    assert not (tmp_path / "missing").exists()
