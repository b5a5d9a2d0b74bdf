"""What a live capture prints: a view on a terminal, lines elsewhere, JSON where that is asked for."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.live_program import MESSAGES, SOURCE
from laws import one_of
from trailgate.publish.commands.output import print_guarantee

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("live_program.py")
RESET = "\x1b[0m"  # colorama, which numba uses where it is there, writes this at the end
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**known, "PYTHONPATH": path, "TERM": "xterm-256color", **more}


def on_terminal(folder: Path, columns: int, *asked: str, **more: str) -> str:
    """Return all that is written to a terminal of so many columns."""
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, PROGRAM, folder, *asked],
        stdin=writing, stdout=writing, stderr=writing, env=environment(**more),
    )  # fmt: skip
    os.close(writing)
    output = bytearray()
    while True:
        try:
            chunk = os.read(reading, 1 << 16)
        except OSError:  # Linux: the other side is closed
            break
        if not chunk:
            break
        output += chunk
    os.close(reading)
    assert process.wait(240) == 0, output.decode()
    return output.decode().removesuffix(RESET)


def piped(folder: Path, *asked: str) -> tuple[str, str]:
    """Return what is written where there is no terminal."""
    done = subprocess.run(
        [sys.executable, PROGRAM, folder, *asked],
        env=environment(), capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    return done.stdout, done.stderr


@pytest.mark.parametrize("columns", one_of([60, 80, 120], "live view"))
def test_on_a_terminal_there_is_a_view_that_fits_it(tmp_path: Path, columns: int) -> None:
    text = SEQUENCE.sub("", on_terminal(tmp_path, columns))
    frames = text.split(f"{SOURCE} to dirdat/ot")
    lines = [line.rstrip("\r") for line in text.replace("\r\n", "\n").split("\n")]

    assert len(frames) > 4  # it is drawn again and again
    assert max(len(line.rpartition("\r")[2]) for line in lines) <= columns
    last = frames[-1]
    assert re.search(rf"messages +{MESSAGES}, [\d,]+/s now, [\d,]+/s in all", last)
    assert re.search(rf"captured +{MESSAGES - 1} transactions, {MESSAGES - 1} operations", last)
    assert re.search(r"quarantined +1\b", last)
    assert re.search(r"lag +0 messages", last)
    assert re.search(rf"MY\.ORDERS +{MESSAGES - 1} +{MESSAGES - 1}", last)
    assert "the connection is lost: Broken pipe" in last
    assert f"{MESSAGES} messages, {MESSAGES - 1} operations" in last


def test_reports_are_printed_above_the_view(tmp_path: Path) -> None:
    text = SEQUENCE.sub("", on_terminal(tmp_path, 120, "reports"))

    assert text.count("JMS report: 16 messages in") >= 2


@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {}])
def test_without_a_terminal_there_is_a_line_a_batch(tmp_path: Path, more: dict[str, str]) -> None:
    text = on_terminal(tmp_path, 80, **more) if more else piped(tmp_path)[0]
    lines = text.replace("\r", "").splitlines()

    batches = [line for line in lines if line.startswith("4 messages, ")]
    assert len(batches) == MESSAGES // 4
    assert re.fullmatch(
        r"4 messages, 3 transactions, 3 operations, 1 quarantined; trail at file 0, byte \d+",
        batches[1],
    )
    assert lines[-1] == f"{MESSAGES} messages, {MESSAGES - 1} operations, 1 quarantined"
    assert "\x1b" not in text


def test_as_json_there_is_an_object_a_batch_and_a_report(tmp_path: Path) -> None:
    output, notes = piped(tmp_path, "json", "reports")
    objects = [json.loads(line) for line in output.splitlines()]
    *objects, last = objects
    batches = [one for one in objects if "jms_report" not in one]
    reports = [one["jms_report"] for one in objects if "jms_report" in one]

    assert sum(one["messages"] for one in batches) == MESSAGES
    assert last["total"]["messages"] == MESSAGES
    assert last["total"]["quarantined"] == 1
    assert [one["messages"] for one in reports] == [16, 16]
    assert reports[1]["total"]["messages"] == 32
    assert notes.count("JMS report: 16 messages") == 2


def test_as_json_there_is_no_view_on_a_terminal_either(tmp_path: Path) -> None:
    text = on_terminal(tmp_path, 80, "json")

    assert "\x1b" not in text
    assert sum(line.startswith("{") for line in text.splitlines()) == MESSAGES // 4 + 1


def test_lines_of_a_capture_and_of_its_companions_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A companion that publishes prints in a thread of its own."""
    each, names = 3000, ("one", "two", "three")

    def print_many(name: str) -> None:
        for _ in range(each):
            print_guarantee("once", name, as_json=True)

    def read_all() -> bytes:
        with os.fdopen(reading, "rb") as file:
            return file.read()

    reading, writing = os.pipe()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor() as pool:
            printed = pool.submit(read_all)
            # As with PYTHONUNBUFFERED.
            with io.TextIOWrapper(
                os.fdopen(writing, "wb", buffering=0), write_through=True
            ) as output:
                monkeypatch.setattr(sys, "stdout", output)
                list(pool.map(print_many, names))
                monkeypatch.undo()
    finally:
        sys.setswitchinterval(interval)

    lines = printed.result().splitlines()
    counts = Counter(json.loads(line)["target"] for line in lines)
    assert counts == dict.fromkeys(names, each)
