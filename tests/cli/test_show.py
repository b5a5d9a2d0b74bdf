"""``trailgate show`` and the program around it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sample_trail import NOTES, Op, write_trail
from trailgate.cli.main import run
from trailgate.model.operations_schema import OPERATIONS_SCHEMA

FILES = [
    [[Op("I", 1, "a,b")], [Op("U", 1, "new", "old"), Op("D", 1), Op("I", 3, None, table=NOTES)]],
    [[Op("I", 9, "[bold]x\x1b")]],
]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(write_trail(tmp_path / "ot", FILES))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["show", *arguments]) == 0
    return capsys.readouterr().out


def test_json_is_one_object_a_line_in_the_operations_columns(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in shown(capsys, prefix, "--format", "json").splitlines()]

    assert len(lines) == 5
    assert list(lines[0]) == OPERATIONS_SCHEMA.names
    assert lines[0]["op_ts"] == "2026-01-01T00:00:00.000000Z"
    assert lines[0]["after"] == {"ID": "1", "NAME": "a,b"}
    assert lines[3]["after"] == {"ID": "3", "TEXT": None}


def test_csv_holds_maps_as_json(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(csv.DictReader(io.StringIO(shown(capsys, prefix, "--format", "csv"))))

    assert list(lines[0]) == OPERATIONS_SCHEMA.names
    assert json.loads(lines[1]["before"]) == {"ID": "1", "NAME": "old"}


def test_a_table_is_for_the_eye(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, prefix)

    assert "NAME=old -> new" in text
    assert "TEXT=NULL" in text
    assert "[bold]x\\x1b" in text
    assert "\x1b" not in text
    assert "more" not in text


def test_a_table_that_ends_early_says_so(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "more after these 2" in shown(capsys, prefix, "--limit", "2")


def test_table_limit_and_after_choose(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    json_ = ("--format", "json")
    first, second, *rest = shown(capsys, prefix, *json_).splitlines()

    assert shown(capsys, prefix, *json_, "--limit", "2").splitlines() == [first, second]
    after = json.loads(second)["position"]
    assert shown(capsys, prefix, *json_, "--after", after).splitlines() == rest
    notes = shown(capsys, prefix, *json_, "--table", "my.notes").splitlines()
    assert [json.loads(line)["table"] for line in notes] == ["MY.NOTES"]


def test_tables_positions_and_csns_choose(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    json_ = ("--format", "json")
    lines = shown(capsys, prefix, *json_).splitlines()
    positions = [json.loads(line)["position"] for line in lines]

    assert shown(capsys, prefix, *json_, "--tables", "my.N*,X.?").splitlines() == [lines[3]]
    assert shown(capsys, prefix, *json_, "--from-position", positions[2]).splitlines() == lines[2:]
    assert shown(capsys, prefix, *json_, "--to-position", positions[2]).splitlines() == lines[:3]
    assert shown(capsys, prefix, *json_, "--from-csn", "1001").splitlines() == lines[1:4]
    assert shown(capsys, prefix, *json_, "--to-csn", "01000").splitlines() == [lines[0], lines[4]]


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_records_are_shown_with_their_headers(
    prefix: str, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    text = shown(capsys, prefix, "--records", "all", "--format", form)

    assert "FieldComp" in text
    assert "MY.NOTES" in text
    assert "1001" in text
    if form == "json":
        first = json.loads(text.splitlines()[0])
        assert first["audit_pos"] == 0
        assert first["data"].startswith("0000000a")


def test_definitions_can_be_elsewhere(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    moved = Path(f"{prefix}.def").rename(f"{prefix}.moved")

    assert (
        len(shown(capsys, prefix, "--format", "json", "--definitions", str(moved)).split("\n")) == 6
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "nowhere/ot"], 1, "error: no trail files here"),
        (["show", "PREFIX", "--table", "MY.ORDER"], 1, "MY.ORDERS"),
        (["show", "PREFIX", "--after", "7"], 2, "error: '7' is not a position"),
        (["show", "PREFIX", "--format", "xml"], 2, "xml"),
        (["show", "PREFIX", "--tables", "A.B,,"], 2, "not a list of tables"),
        (["show", "PREFIX", "--charset", "klingon"], 2, "klingon"),
        (["show"], 2, "path"),
        (["shew"], 2, "shew"),
    ],
)
def test_errors_are_short_and_have_their_codes(
    prefix: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run([prefix if word == "PREFIX" else word for word in arguments]) == code
    text = capsys.readouterr().err
    assert said in text
    assert "Traceback" not in text


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILGATE_DEBUG", "1")

    with pytest.raises(Exception, match="no trail files here"):
        run(["show", "nowhere/ot"])


def test_version_and_help_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("trailgate")
    assert "show" in text


def test_a_reader_that_leaves_early_hears_no_complaint(prefix: str) -> None:
    write_trail(Path(prefix), [[[Op("I", i) for i in range(20_000)]], *FILES[1:]])
    assert run(["show", prefix, "--format", "json", "--limit", "1"]) == 0  # compiles, once
    code = "from trailgate.cli.main import main; main()"
    command = [sys.executable, "-c", code, "show", prefix, "--format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_env()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == b""


def test_importing_loads_no_optional_package() -> None:
    code = (
        "import sys, trailgate, trailgate.storage.reading.trails, trailgate.cli.main\n"
        "print([name for name in ('pyspark', 'typer', 'rich', 'lxml') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env()
    )

    assert done.stdout.strip() == "[]"


def test_show_as_json_loads_neither_spark_nor_rich(prefix: str) -> None:
    code = (
        "import sys\n"
        "from trailgate.cli.main import run\n"
        f"code = run(['show', {prefix!r}, '--format', 'json', '--limit', '0'])\n"
        "print(code, [name for name in ('pyspark', 'rich.table', 'lxml') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env()
    )

    assert done.stdout.strip() == "0 []"


def _env() -> dict[str, str]:
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "PYTHONPATH": source}
