"""``trailgate check``: one screen about a trail, JSON, exit codes, and salvage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from damaged_trails import sample, transaction, write_files
from trailgate.cli.main import run


@pytest.fixture
def good(tmp_path: Path) -> str:
    write_files(tmp_path / "ot", [transaction(0, 1), transaction(1, 3)])
    return str(tmp_path / "ot")


@pytest.fixture
def bad(tmp_path: Path) -> str:
    paths = write_files(tmp_path / "bad", [transaction(0, 1), transaction(1, 3)])
    paths[1].write_bytes(paths[1].read_bytes()[:-2])
    return str(tmp_path / "bad")


def test_a_whole_trail_is_reported_on_one_screen(
    good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", good]) == 0
    text = capsys.readouterr().out

    assert "ot000000001" in text
    assert "Insert 3" in text
    assert text.splitlines()[-1] == "whole"


def test_damage_is_reported_with_place_and_bytes(
    bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", bad]) == 1
    text = capsys.readouterr().out

    assert "error: bad000000001 at " in text
    assert "the file ends inside a record" in text
    assert "| 47 01 00" in text
    assert text.splitlines()[-1] == "DAMAGED"


def test_json_is_one_object(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", bad, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)

    assert report["whole"] is False
    assert [file["records"] for file in report["files"]] == [1, 2]
    assert {"error"} == {found["severity"] for found in report["findings"]}
    assert report["findings"][0]["kind"] == "cut"


def test_salvage_reports_what_it_saved(
    bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", bad, "--salvage", str(tmp_path / "new"), "--json"]) == 1
    saved = json.loads(capsys.readouterr().out)["salvaged"]

    assert (saved["transactions"], saved["operations"], saved["skipped_parts"]) == (1, 1, 2)
    assert run(["check", str(tmp_path / "new")]) == 0
    capsys.readouterr()
    assert run(["show", str(tmp_path / "new"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["tx_id"] == "tx0"
    assert run(["check", bad, "--salvage", str(tmp_path / "new")]) == 1
    assert "not overwritten" in capsys.readouterr().err


def test_many_files_and_findings_fit_on_a_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sample()
    paths = write_files(tmp_path / "ot", [files[0][:1] for _ in range(60)])
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1])

    assert run(["check", str(tmp_path / "ot")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 70
    assert any("40 more" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere/ot"], 1, "no trail files here"),
        ([], 2, "TRAIL"),
        (["OT", "--salvage", "s3://bucket/new"], 2, "is not a prefix"),
    ],
)
def test_errors_have_their_codes(
    good: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run(["check", *(good if word == "OT" else word for word in arguments)]) == code
    assert said.lower() in capsys.readouterr().err.lower()
