"""The table of commands is whole: each has help, is documented, and is tried in a case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logdump.sessions import answers, session_in
from trailgate.logdump.conversation import ALL_COMMANDS, COMMANDS
from trailgate.logdump.filter_options import OPTIONS, FilterOption
from trailgate.logdump.results import FailureResult, ListingResult, TextResult
from trailgate.logdump.session import LogdumpCommand
from trailgate.trail.format.record_types import ROWS as TYPE_ROWS

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/logdump.md").read_text()
TRIED = "\n".join(
    path.read_text()
    for path in (*Path(__file__).parent.rglob("*.txt"), *Path(__file__).parent.glob("test_*.py"))
).upper()


def identity(command: LogdumpCommand) -> str:
    return command.names[0]


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=identity)
def test_a_command_has_help_and_is_documented(command: LogdumpCommand, tmp_path: Path) -> None:
    (shown,) = answers(session_in(tmp_path), f"HELP {command.names[0]}")

    assert isinstance(shown, TextResult)
    assert shown.lines[0] == command.help
    assert command.help.endswith(".")
    names = ", ".join(f"`{name}`" for name in command.names)
    cells = " | ".join(cell.replace("|", r"\|") for cell in (f"`{command.syntax}`", command.help))
    assert f"| {names} | {cells} |" in DOCUMENT


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.names[0])
def test_a_filter_option_is_documented(option: FilterOption) -> None:
    others = option.names[1:]
    also = f" (also {', '.join(f'`{name}`' for name in others)})" if others else ""
    syntax = option.syntax.replace("|", r"\|")

    assert f"| `{syntax}` | {option.help}{also} |" in DOCUMENT


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=identity)
def test_a_command_is_tried(command: LogdumpCommand) -> None:
    assert any(re.search(rf"(?<![A-Z]){re.escape(name)}(?![A-Z])", TRIED) for name in command.names)


def test_no_name_belongs_to_two_commands() -> None:
    names = [name for command in ALL_COMMANDS for name in command.names]

    assert len(names) == len(set(names)) == len(COMMANDS)
    assert all(name == name.upper() for name in names)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("OPNE x", "'OPNE' is not a command. Did you mean OPEN? HELP lists the commands"),
        ("scanfortyp Insert", "no trail file is open"),
        ("xyzzy", "'xyzzy' is not a command. HELP lists the commands"),
        ("GHDR ONN", "Did you mean ON?"),
    ],
)
def test_a_mistyped_word_has_a_suggestion(tmp_path: Path, typed: str, said: str) -> None:
    *_, failure = answers(session_in(tmp_path), typed)

    assert isinstance(failure, FailureResult)
    assert said in str(failure.error)


def test_help_lists_every_command(tmp_path: Path) -> None:
    """Those without effect are a list of their own."""
    talk = session_in(tmp_path)
    (shown,), (refused,) = answers(talk, "HELP"), answers(talk, "HELP REFUSED")

    assert isinstance(shown, TextResult)
    assert isinstance(refused, TextResult)
    lists = [[line.split()[0] for line in one.lines] for one in (shown, refused)]
    assert sorted([*lists[0], *lists[1]]) == sorted(map(identity, ALL_COMMANDS))
    assert "DECRYPT" in lists[1]
    assert "NEXT" in lists[0]


def test_help_of_filter_lists_its_options(tmp_path: Path) -> None:
    (shown,) = answers(session_in(tmp_path), "HELP FILTER")

    assert isinstance(shown, TextResult)
    assert all(any(option.help in line for line in shown.lines) for option in OPTIONS)


def test_show_rectype_lists_the_types(tmp_path: Path) -> None:
    (shown,) = answers(session_in(tmp_path), "SHOW RECTYPE")

    assert isinstance(shown, ListingResult)
    assert [(int(code), name) for code, name in shown.rows] == [
        (row.code, row.name) for row in TYPE_ROWS
    ]
