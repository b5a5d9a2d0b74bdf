"""Promises about any command line: files and folders in the way, missing or unreadable, give errors of one line.

Each argument and option that takes a value is given each hostile value in turn; the rest of the line is good.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import COMMANDS, import_command, run
from trailgate.live.files.journal_writer import Journal
from trailgate.messages.message_batch import RECEIVED

typer = pytest.importorskip("typer")

CAPTURE: Final = ["--properties", "dirprm/shop.properties", "--from", "messages", "--to", "new/ot"]
# A good line of each command; arguments are given by their names, as options are.
SERVING: Final = {"browse"}  # it ends when it is interrupted (tests/browse)
GOOD: Final[dict[str, dict[str, list[str]]]] = {
    "capture": {
        "--properties": ["dirprm/shop.properties"],
        "--from": ["messages"],
        "--to": ["new/ot"],
    },
    "init": {"--from": ["messages"]},
    "publish": {"trail": ["dirdat/ot"], "--to": ["published"]},
    "show": {"path": ["dirdat/ot"]},
    "sql": {"statement": ["FROM 'dirdat/ot'"]},
    "analyze": {"path": ["dirdat/ot000000000"]},
    "check": {"path": ["dirdat/ot"]},
    "copybook": {"path": ["a.cpy"]},
    "explain": {"message": ["messages/0001-customers.txt"], "--properties": ["xml.properties"]},
    "gendef": {"--prop": ["dirprm/shop.properties"]},
    "logdump": {"file": ["dirdat/ot000000000"], "--command": ["N"]},
    "records": {"path": ["data"], "--copybook": ["a.cpy"]},
    "apply": {"trail": ["dirdat/ot"], "--to": ["duckdb:new.duckdb"]},
    "report": {"path": ["dirdat/ot"], "--to": ["new.html"]},
    "redact": {"trail": ["dirdat/ot"], "--to": ["sample/aa"]},
    "journal": {"action": ["show"], "path": ["dirdat/rt"]},
    "demo": {"--no-spark": []},
}
RECEIVED_ONE: Final = {"id": "1", "received": 0, "headers": {"a": "b"}, "body": b"x", "fault": None}
XML: Final = """parser.type=xml
xml.sourcedefs=dirdef/shop.def
xml.rules=t
t.type=tx
t.match=/t
t.subrules=o
o.type=op
o.match=./o
o.schemaandtable=@table
o.optype=@optype
"""
HOSTILE: Final = {
    "a folder": "folder",
    "a folder with a slash": "folder/",
    "a file": "file",
    "below a file": "file/below",
    "binary": "binary",
    "missing": "missing/below",
    "nothing": "",
    "a long name": "x" * 300,
    "a circle": "circle",
    "not UTF-8": "odd\udcff",
    "a pattern": "[a-",
    "a device": "/dev/null",
    "another store": "abc://host/path",
    "control": "a\tb\x1b",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what good lines need, and what hostile values name."""
    folder = tmp_path_factory.mktemp("hostile") / "shop"
    unpack(folder)
    here = Path.cwd()
    os.chdir(folder)
    try:
        assert run(["capture", *CAPTURE[:-1], "dirdat/ot"]) == 0
        Path("a.cpy").write_text("       01 R.\n         05 A PIC X(3).\n")
        Path("data").write_bytes(b"\xc1\xc2\xc3")
        Path("xml.properties").write_text(XML)
        with Journal(Path("dirdat/rt.journal")) as journal:
            journal.append(pa.RecordBatch.from_pylist([RECEIVED_ONE], RECEIVED))
        Path("folder").mkdir()
        Path("folder/held").touch()
        Path("file").touch()
        Path("binary").write_bytes(bytes(range(256)) * 4)
        Path("circle").symlink_to("circle")
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def _here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(prepared, tmp_path / "shop", symlinks=True)
    monkeypatch.chdir(tmp_path / "shop")


def parameters() -> Iterator[tuple[str, str]]:
    """Yield each command's parameters that take a value, by name."""
    for name in COMMANDS.keys() - SERVING:
        module = import_command(name)
        program = typer.Typer(add_completion=False)
        program.command(name)(module.command)
        for parameter in typer.main.get_command(program).params:
            if not getattr(parameter, "is_flag", False) and parameter.name != "master":
                named = parameter.param_type_name == "argument"
                yield name, str(parameter.name if named else parameter.opts[0])


def line_of(command: str, **changed: list[str]) -> list[str]:
    """Return a command line that is good but for what is changed."""
    given = {**GOOD.get(command, {}), **changed}
    options = [word for name, words in given.items() if name[0] == "-" for word in (name, *words)]
    return [command, *options, "--", *(w for n, ws in given.items() if n[0] != "-" for w in ws)]


def judged(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a line: its exit code is one of ours, and its error is one line that does not show our code."""
    try:
        code = run(line)
    except BaseException as error:
        raise AssertionError(f"{line}: {error!r}") from error
    said = capsys.readouterr().err
    assert code in (0, 1, 2, 3), line
    assert "Traceback" not in said, line
    errors = [one for one in said.splitlines() if one.startswith("error: ")]
    if line[0] in ("check", "logdump", "analyze"):  # which also end with 1 after a report
        assert len(errors) <= (code != 0), (line, said)
    else:
        assert len(errors) == (code != 0), (line, said)
    assert len(said.splitlines()) <= 4, (line, said)


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(("command", "parameter"), sorted(parameters()))
def test_a_hostile_value_is_an_error_of_one_line(
    command: str, parameter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in HOSTILE.values():
        judged(line_of(command, **{parameter: [value]}), capsys)


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("command", sorted(GOOD))
def test_an_empty_value_is_refused_and_nothing_is_written(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path().rglob("*"))
    for name in [parameter for one, parameter in parameters() if one == command]:
        assert run(line_of(command, **{name: [""]})) == 2, name
        error = capsys.readouterr().err
        assert error.startswith("error: "), (name, error)
        assert "empty" in error or "''" in error, (name, error)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("command", sorted(GOOD))
def test_a_reader_that_is_gone_is_no_error(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the command has to print; an output that is full is one line and 3, or a note where the work is done."""
    line = line_of(command)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        assert run(line) in (0, 1), line
        assert "Traceback" not in capsys.readouterr().err
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert run(line) in (0, 1, 3), line
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert len([one for one in said.splitlines() if one.startswith("error: ")]) <= 1


def test_every_command_has_a_good_line() -> None:
    without = {"assumptions", "warm"} | SERVING

    assert set(COMMANDS) - without <= set(GOOD)
    assert {command for command, _ in parameters()} <= set(GOOD)
