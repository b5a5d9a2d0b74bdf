"""``trailgate analyze``: a listing or JSON lines, from a place on, of good and damaged files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sample_trail import Op, write_trail
from trailgate.cli.main import run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_trail(tmp_path / "ot", [[[Op("I", 1, "a,b")], [Op("I", 2, "[bold]x\x1b")]]])
    return tmp_path / "ot000000000"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["analyze", *arguments]) == code
    return capsys.readouterr().out


def test_the_listing_shows_header_and_records(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, str(file))

    assert text.count("</46>") == 1
    assert text.count("</47>") == 2
    assert "# not null, 3 bytes: a,b" in text
    assert "\x1b" not in text


def test_json_is_one_object_a_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, first, _ = map(json.loads, shown(capsys, str(file), "--json").splitlines())

    assert (header["tag"], header["offset"]) == ("46", 0)
    assert (first["tag"], first["offset"], first["value"]) == ("47", header["length"], "Insert")
    assert [part["tag"] for part in first["parts"]] == ["47_48", "47_44", "47_54"]


def test_from_and_records_choose(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, str(file), "--json").splitlines()
    second = json.loads(lines[2])["offset"]

    assert shown(capsys, str(file), "--json", "--records", "1").splitlines() == lines[:2]
    for place in (str(second), hex(second - 3)):
        assert shown(capsys, str(file), "--json", "--from", place).splitlines() == lines[2:]


def test_a_prefix_stands_for_all_its_files(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = str(file).removesuffix("000000000")
    alone = shown(capsys, str(file))
    assert shown(capsys, prefix) == alone

    write_trail(Path(prefix), [[[Op("I", 1, "a")]], [[Op("I", 2, "b")]]])
    text = shown(capsys, prefix)
    assert text.startswith(f"# {file}\n")
    assert f"# {prefix}000000001" in text
    rows = [json.loads(line) for line in shown(capsys, prefix, "--json").splitlines()]
    assert {row["file"] for row in rows} == {f"{prefix}000000000", f"{prefix}000000001"}
    assert len(shown(capsys, prefix, "--json", "--records", "1").splitlines()) == 2
    bounds = ["--from-position", "1:9", "--to-position", "1:99999"]
    (row,) = map(json.loads, shown(capsys, prefix, "--json", *bounds).splitlines())
    assert row["file"] == f"{prefix}000000001"
    rows = [
        json.loads(line)
        for line in shown(capsys, prefix, "--json", "--to-position", "1:0").splitlines()
    ]
    assert [row["file"][-1] for row in rows] == ["0", "0", "1"]
    assert run(["analyze", prefix, "--from-position", "7:9"]) == 2
    assert "the trail has no file 7" in capsys.readouterr().err
    assert run(["analyze", prefix, "--from", "9"]) == 2
    assert "9 is a byte offset, but the trail has the files 0 to 1" in capsys.readouterr().err


def test_damage_is_shown_and_sets_the_exit_code(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])

    text = shown(capsys, str(file), code=1)

    assert "the file ends inside a record" in text
    assert text.count("</47>") == 1


def test_a_reader_that_stops_early_is_not_an_error(file: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    program = "from trailgate.cli.main import main; main()"
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-u", "-c", program, "analyze", str(file)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 1, "the file does not exist"),
        (["FILE", "--from", "99999"], 2, "the offset 99999 is not in the file, which has"),
        (["FILE", "--from", "x"], 2, "'x' is not a position"),
        ([], 2, "PATH"),
    ],
)
def test_errors_are_short_and_have_their_codes(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run(["analyze", *(str(file) if word == "FILE" else word for word in arguments)]) == code
    assert said in capsys.readouterr().err
