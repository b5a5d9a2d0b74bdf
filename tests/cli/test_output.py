"""Promises about an output that cannot be written: work that is done stays done, and errors are one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from laws import one_of, sampled
from sample_trail import Op, write_trail
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run as run_here

CAPTURE = "capture --properties dirprm/shop.properties --from messages --to dirdat/ot"
FULL = "error: the output cannot be written: No space left on device\n"
COMMANDS = (
    "show dirdat/ot",
    "show dirdat/ot --format json",
    "check dirdat/ot",
    "analyze dirdat/ot000000000",
    "gendef --prop dirprm/shop.properties",
    "assumptions",
    f"{CAPTURE} --dry-run",
)
PROGRAM = "from trailgate.cli.main import main; main()"


@pytest.fixture(autouse=True)
def _in_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")


def run(arguments: str, to: str = "") -> tuple[int, str]:
    """Return the exit code and stderr of a command of the shell."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -c "{PROGRAM}" {arguments} {to}'],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def closed_pipe(arguments: str) -> int:
    """Return the exit code of a command whose output nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments.split()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=writing,
            check=False,
        ).returncode
    finally:
        os.close(writing)


@pytest.mark.parametrize("more", one_of(["", "--json"], "summaries"))
def test_a_capture_whose_summary_cannot_be_printed_is_done(more: str) -> None:
    code, notes = run(f"{CAPTURE} {more}", "> /dev/full")
    assert code == 0
    assert "note: everything is done, but the output cannot be written" in notes
    held = Path("dirdat/ot.manifest.json").read_bytes()

    assert closed_pipe(f"{CAPTURE} {more}") == 0
    assert run(f"{CAPTURE} {more}", ">&- 2>&-")[0] == 0
    assert Path("dirdat/ot.manifest.json").read_bytes() == held


@pytest.mark.parametrize("arguments", sampled(COMMANDS, 3, "commands with a full output"))
def test_an_output_that_is_full_is_one_line_and_3(arguments: str) -> None:
    assert run_here(CAPTURE.split()) == 0
    code, errors = run(arguments, "> /dev/full")
    assert (code, errors.replace(" (dirdat/ot000000000)", "")[-len(FULL) :]) == (3, FULL)
    assert "Traceback" not in errors


@pytest.mark.parametrize("arguments", one_of(COMMANDS, "commands without a reader"))
def test_an_output_that_nobody_reads_is_no_error(arguments: str) -> None:
    assert run_here(CAPTURE.split()) == 0

    assert closed_pipe(arguments) == 0
    assert run(arguments, ">&-")[0] == 0


@pytest.mark.parametrize("form", ["", "--format json", "--table MY.ORDERS"])
def test_a_show_whose_reader_has_seen_enough_ends_without_a_word(form: str) -> None:
    """As ``trailgate show ... | head -1``: more text follows than a pipe holds."""
    write_trail(Path("aa"), [[[Op("I", key, 50 * "x") for key in range(5000)]]])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "show", "aa", "--limit", "5000", *form.split()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()

    assert line.strip()
    assert (process.returncode, errors) == (0, "")


def test_a_file_too_large_for_the_system_is_one_line_and_3() -> None:
    limited = f'ulimit -f 1; exec "{sys.executable}"'
    done = subprocess.run(
        ["/bin/sh", "-c", f'{limited} -c "{PROGRAM}" {CAPTURE}'],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRAILGATE_LOOPS": "plain"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)
    assert "File too large" in done.stderr
    assert run(CAPTURE)[0] == 0


def test_a_file_in_the_way_is_one_line_and_3() -> None:
    Path("file").touch()
    code, errors = run(f"{CAPTURE}/../../file/ot")
    assert (code, errors.count("\n"), "Traceback" in errors) == (3, 1, False)
