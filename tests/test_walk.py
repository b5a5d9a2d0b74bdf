"""The walk of a delimited capture in docs/architecture.md: each function of it is called, in its order, and no hop is left out."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import pytest

from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ROOT / "src/trailgate"
HEADING: Final = "## A field of a delimited message to its bytes in the trail"
ROW: Final = re.compile(r"^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \|", re.MULTILINE)
MOST_HOPS: Final = 30
MOST_FILES: Final = 22


class Hop(NamedTuple):
    """A function by its file and its name; one inside another goes by the outer one."""

    file: str
    function: str


GIVEN: Final = (
    *("--properties", "dirprm/shop.properties", "--from", "lines.txt", "--message-per", "line"),
    *("--to", "dirdat/ot", "--threads", "1"),
)
JOB: Final = Hop("jobs/capture/job.py", "capture_loaded")
CHECKS: Final = Hop("options.py", "_with_checks")  # of arguments: it calls the function itself


def documented() -> list[Hop]:
    """Return the hops of the walk."""
    section = (ROOT / "docs/architecture.md").read_text().split(HEADING)[1].split("\n## ")[0]
    rows = ROW.findall(section)
    assert [int(number) for number, _, _ in rows] == list(range(1, len(rows) + 1))
    return [Hop(file, function) for _, file, function in rows]


WALK: Final = documented()


def hop_of(frame: FrameType) -> Hop | None:
    """Return the function of ours that a frame runs; None for one of others, and for a check of arguments."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(SOURCES):
        return None
    function = frame.f_code.co_qualname.partition(".<locals>")[0]
    hop = Hop(str(path.relative_to(SOURCES)), function)
    return None if hop == CHECKS else hop


def callers(frame: FrameType | None) -> Iterator[Hop]:
    """Yield the functions of ours from a frame outwards, up to the command."""
    while frame is not None:
        hop = hop_of(frame)
        if hop is not None:
            yield hop
            if hop == WALK[0]:
                return
        frame = frame.f_back


class Trace:
    """The calls of a capture: those of the walk's functions, and what it does not account for."""

    def __init__(self) -> None:
        self.reached: list[Hop] = []  # each by its first call after that of the hop before it
        self.between: set[Hop] = set()  # entries of files on the way to a hop, which the walk lacks
        self.back: set[Hop] = set()  # functions of the command line that the job calls

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call."""
        hop = hop_of(frame) if event == "call" else None
        if hop is None:
            return
        if hop.file.startswith(("cli/", "terminal/")) and JOB in callers(frame.f_back):
            self.back.add(hop)
        if hop not in WALK[len(self.reached) : len(self.reached) + 1]:
            return
        self.reached.append(hop)
        way = callers(frame)
        entries = {inner for inner, outer in pairwise(way) if inner.file != outer.file}
        self.between |= entries - set(WALK)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("walk") / "shop"
    unpack(folder)
    messages = [path.read_bytes() for path in sorted((folder / "messages").iterdir())]
    (folder / "lines.txt").write_bytes(b"".join(messages))
    found, before = Trace(), sys.getprofile()
    sys.setprofile(found)
    try:
        code = run(["capture", "--base", str(folder), *GIVEN])
    finally:
        sys.setprofile(before)
    assert code == 0
    return found


def test_the_walk_is_short() -> None:
    assert len(WALK) <= MOST_HOPS
    assert len({hop.file for hop in WALK}) <= MOST_FILES


@pytest.mark.parametrize("hop", WALK, ids=lambda hop: f"{hop.file}:{hop.function}")
def test_each_function_of_the_walk_exists(hop: Hop) -> None:
    found = import_module(f"trailgate.{hop.file.removesuffix('.py').replace('/', '.')}")
    for name in hop.function.split("."):
        found = getattr(found, name)

    assert callable(found)


def test_the_functions_of_the_walk_are_called_in_its_order(trace: Trace) -> None:
    assert trace.reached == WALK


def test_no_hop_is_missing_from_the_walk(trace: Trace) -> None:
    assert trace.between == set()


def test_the_job_does_not_call_the_command_line(trace: Trace) -> None:
    assert trace.back == set()
