"""Short starts and exits of commands: the same values and the same output as without the shortcuts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from trailgate.cli.startup import convert_without_pydantic


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


AT_LEAST_2 = Annotated[int | None, typer.Option(min=2, max=10)]
CLAMPED = Annotated[int, typer.Option(min=2, max=10, clamp=True)]
PARSED = Annotated[int, typer.Option(parser=lambda text: int(str(text), 16))]
EXISTING = Annotated[Path, typer.Option(exists=True)]
DASHES = [(f"--option={text}",) for text in ("", "1", "07", "+3", "1_0", "3.0", "1e3", "ff", "-5")]
CASES: list[tuple[Any, Any, Sequence[tuple[str, ...]]]] = [
    (int, 0, [*DASHES, ("--option=12345678901234567890",), ("--option=٣",)]),
    (AT_LEAST_2, None, [*DASHES, ("--option=2",), ("--option=10",), ("--option=11",)]),
    (CLAMPED, 5, DASHES),
    (PARSED, 0, DASHES),
    (str, "x", [*DASHES, ("--option= é ",)]),
    (list[str], [], [("--option=a", "--option=b"), ("--option=",)]),
    (list[int], [], [("--option=1", "--option=2"), ("--option=x",)]),
    (bool, False, [("--option",), ("--no-option",)]),
    (Path, "x", [("--option=/",), ("--option=a/../b",), ("--option=",), ("--option=-",)]),
    (EXISTING, "/", [("--option=/",), ("--option=/no/file",)]),
    (Literal["red", "blue"], "red", [("--option=blue",), ("--option=BLUE",), ("--option=re",)]),
    (Colour, "red", [("--option=blue",), ("--option=Colour.RED",), ("--option=",)]),
]


def _outcome(kind: Any, default: Any, arguments: tuple[str, ...], *, convert: bool) -> Any:
    got: list[Any] = []

    def function(option: Any = default) -> None:
        got.append(option)

    function.__annotations__["option"] = kind
    program = typer.Typer()
    program.command()(function)
    command: Any = typer.main.get_command(program)
    for parameter in command.params if convert else ():
        convert_without_pydantic(parameter)
    try:
        command(list(arguments), standalone_mode=False)
    except typer.BadParameter as error:
        return error.format_message()
    return type(got[0]), got[0]


@pytest.mark.parametrize(("kind", "default", "lines"), CASES, ids=lambda value: str(value)[:40])
def test_values_and_errors_are_those_of_typer(
    kind: Any, default: Any, lines: Sequence[tuple[str, ...]]
) -> None:
    for arguments in ((), *lines):
        expected = _outcome(kind, default, arguments, convert=False)
        assert _outcome(kind, default, arguments, convert=True) == expected, arguments


EXIT = """
import atexit, sys
from trailgate.cli.startup import QuickExit
exiting = QuickExit()
atexit.register(lambda: print("registered"))
class Kept:
    def __del__(self): print("freed", file=sys.stderr)
kept = Kept()
sys.stdout.write("not flushed\\n")
exiting.code = 3
sys.exit(3)
"""


def _exited(code: str) -> tuple[int, bytes, bytes]:
    # without PYTHONUNBUFFERED, so that there is something to flush
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, env=environment
    )
    return done.returncode, done.stdout, done.stderr


def test_a_quick_exit_flushes_the_output_and_runs_what_is_registered() -> None:
    assert _exited(EXIT) == (3, b"not flushed\nregistered\n", b"")


def test_without_a_code_python_exits_as_usual() -> None:
    code = EXIT.replace("exiting.code = 3\n", "")

    assert _exited(code) == (3, b"not flushed\nregistered\n", b"freed\n")


def test_a_quick_exit_waits_for_threads() -> None:
    thread = "threading.Thread(target=lambda: (time.sleep(0.2), print('done'))).start()"
    code = EXIT.replace("sys.exit(3)", f"import threading, time\n{thread}\nsys.exit(3)")

    assert _exited(code)[:2] == (3, b"not flushed\ndone\nregistered\n")
