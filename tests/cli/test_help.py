"""The help of commands: its examples can be typed as they are printed."""

import re
import shlex
from collections.abc import Iterator

import pytest

from trailgate.cli.main import COMMANDS, NARROW, import_command, program_for, run


def examples() -> Iterator[str]:
    """Yield the examples of all commands."""
    for name in COMMANDS:
        yield from getattr(import_command(name), "EXAMPLES", ())


@pytest.mark.parametrize("example", [*examples()])
def test_an_example_has_options_of_its_command_and_fits_80_columns(
    example: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    program, command, *words = shlex.split(example)

    assert run([command, *words, "--help"]) == 0
    assert program == "trailgate"
    assert f" {example} " in capsys.readouterr().out


def test_an_unknown_option_is_not_hidden_by_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "dirdat/ot", "--nope", "--help"]) == 2
    assert "--nope" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_option_prints_the_same_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "-h"]) == 0
    short = capsys.readouterr().out
    assert run([name, "--help"]) == 0
    assert short == capsys.readouterr().out
    assert f"trailgate {name}" in short


@pytest.mark.parametrize("name", COMMANDS)
def test_help_at_80_columns_keeps_words_and_types_whole(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Allowed values are in the text, where they wrap between words; Python's types are nowhere."""
    monkeypatch.setenv("COLUMNS", "80")

    assert run([name, "--help"]) == 0
    printed = capsys.readouterr().out
    assert "<" not in printed.partition("Examples:")[0]
    assert not re.search(r"[a-z]\|[a-z]", printed)


@pytest.mark.parametrize("columns", [30, 40, 60, 71, 72, 80, 200])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_of_any_width_has_each_option_whole(
    name: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", columns)
    words = [name, "--help"] if name else ["--help"]
    command = program_for(words)
    command = command.commands[name] if name else command

    assert run(words) == 0

    printed = capsys.readouterr().out
    assert "…" not in printed
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert re.search(rf"^\W*(-\w, )?{parameter.opts[0]}\b", printed, re.MULTILINE)
    if columns < NARROW:
        words = printed.partition("Examples:")[0].splitlines()
        assert max(map(len, words)) <= max(columns, 36)
