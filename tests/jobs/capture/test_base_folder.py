"""Relative paths: from the working folder, as the adapter's, or from another one that is named."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

import trailgate
from capture_place import Place, row
from trailgate.cli.main import main
from trailgate.errors import OptionError
from trailgate.jobs.capture.job import plan_capture, publish_capture
from trailgate.jobs.capture.loading import load_with_notes
from trailgate.jobs.capture.ranges import run_range
from trailgate.storage.files.addresses import absolute

EXTRACT = """\
EXTRACT xms
SOURCEDEFS orders.def
EXTTRAIL ot
VAM gg_vam.so PARAMS (p.properties)
TABLE MY.*;
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a folder whose properties name their definitions by a relative path."""
    place = Place(tmp_path)
    path = tmp_path / "p.properties"
    path.write_text(path.read_text().replace(f"{tmp_path}/", ""))
    place.write(row(1), row(2))
    return place


@pytest.mark.parametrize(
    ("address", "base", "expected"),
    [
        ("dirdat/ot", "/gg", "/gg/dirdat/ot"),
        ("./dirdat/ot", "/gg/", "/gg/dirdat/ot"),
        ("dirdat/ot", "s3://bucket/gg", "s3://bucket/gg/dirdat/ot"),
        ("/dirdat/ot", "/gg", "/dirdat/ot"),
        ("s3://bucket/x", "/gg", "s3://bucket/x"),
        ("file:///x", "/gg", "file:///x"),
        (".", "/gg", "/gg"),
        ("../in", "/gg", "/gg/../in"),
    ],
)
def test_a_relative_address_is_one_from_the_base(address: str, base: str, expected: str) -> None:
    assert absolute(address, base) == expected
    assert absolute(absolute(address, base), "/other") == expected


def test_a_base_is_itself_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert absolute("ot", "dirdat") == f"{tmp_path}/dirdat/ot"
    assert absolute("ot") == f"{tmp_path}/ot"


def test_all_relative_paths_of_a_capture_are_from_its_base(place: Place) -> None:
    done = trailgate.capture_files("messages", "ot", "p.properties", base=place.folder)

    assert done.operations == 2
    assert place.names("ot") == ["name 1", "name 2"]


def test_the_command_line_has_the_base_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.folder / "x.prm").write_text(EXTRACT)
    arguments = [
        "trailgate",
        "capture",
        "--from",
        "messages",
        "--extract",
        "x.prm",
        "--base",
        str(place.folder),
    ]

    monkeypatch.setattr(sys, "argv", arguments)

    with pytest.raises(SystemExit) as end:
        main()

    assert not end.value.code
    assert place.names("ot") == ["name 1", "name 2"]


def test_a_file_that_is_missing_is_named_with_the_place_that_was_looked_at(place: Place) -> None:
    (place.folder / "orders.def").rename(place.folder / "others.def")

    with pytest.raises(OptionError, match=rf"orders\.def.*Looked for at {place.folder}/orders.def"):
        load_with_notes("p.properties", base=place.folder)


def test_the_ranges_of_a_job_are_run_in_any_working_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    job = plan_capture(load_with_notes("p.properties").capture, "messages", "ot")
    sent = pickle.dumps(job.anywhere())

    (place.folder / "elsewhere").mkdir()
    monkeypatch.chdir(place.folder / "elsewhere")
    reports = [run_range(pickle.loads(sent), number) for number in range(len(job.ranges))]
    monkeypatch.chdir(place.folder)
    publish_capture(job, reports)

    assert place.names("ot") == ["name 1", "name 2"]
