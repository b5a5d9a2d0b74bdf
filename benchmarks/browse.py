"""The pages of ``trailgate browse``: their index beside the check that it is made by, and what a page waits for, as a share of that."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.memory import peak
from benchmarks.report import Figure, Target, fastest
from benchmarks.trail_codec import DEFINITIONS, sample
from starlette.testclient import TestClient

from trailgate.browse.index import TrailIndex
from trailgate.browse.server import application
from trailgate.browse.workbench import Sheet, Workbench, examine_sheet
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.trail_check import check_trail
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

OPERATIONS: Final = 1_000_000  # of a file
FILES: Final = 4
MESSAGE: Final = 10_000  # bytes
PROPERTIES: Final = """\
parser.type=delim
delim.header=optype,tablename,ts
delim.optype=optype
delim.schemaandtable=tablename
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD HH:MI:SS
delim.fielddelim=;
delim.userdefs.tables=GG.ORDERS
delim.userdefs.GG.ORDERS.columns=COL1,COL2
delim.userdefs.GG.ORDERS.COL1=vchar 10 key
delim.userdefs.GG.ORDERS.COL2=vchar 40
"""
# Pages after the index is built, and the milliseconds that they may take.
PAGES: Final = (
    ("a jump to a position", "operations?at={place}", 100),
    ("a jump to a transaction", "transaction?at={place}", 100),
    ("a record's bytes", "bytes?at={place}", 100),
    ("a filter by kind and text", "operations?kinds=I&text=1", 300),
    ("a filter that nothing passes", "operations?text=%00none", 300),
)


def run(*, quick: bool) -> list[Figure]:
    """Return the time of the index beside the check's, milliseconds of pages, and memory of much beside little."""
    operations, files = (OPERATIONS // 10, 2) if quick else (OPERATIONS, FILES)
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        trail = write(Path(folder) / "ot", operations, files)
        check = fastest(lambda: check_trail(trail), 3)
        figures = [*_pages(trail, check, files), _keystroke()]
        little = write(Path(folder) / "little", operations, 1)
        peaks = [_peak_of(one) for one in (trail, little)]
        figures.append(
            Figure(
                name="an index",
                figure=peaks[0],
                unit="MB peak",
                yardstick="one file",
                yardstick_figure=peaks[1],
                target=Target(1.2, at_most=True),
            )
        )
    return figures


def write(prefix: Path, operations: int, files: int) -> str:
    """Write a trail of equal files, and return its prefix."""
    body = encode(sample(operations)).body
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
    for number in range(files):
        with Path(f"{prefix}{number:09d}").open("wb") as file:
            file.write(encode_header(FileHeader(TrailInfo(seqno=number))))
            file.write(body)
    return str(prefix)


def _index(trail: str) -> None:
    with TrailIndex(trail) as index:
        index.build()
        assert not index.problem


def _pages(trail: str, check: float, files: int) -> list[Figure]:
    built = fastest(lambda: _index(trail), 3)
    seconds = Target(1.2, at_most=True)
    figures = [
        Figure(
            name="the overview of a trail",
            figure=built,
            unit="s",
            yardstick="check",
            yardstick_figure=check,
            target=seconds,
        )
    ]
    with TrailIndex(trail) as index:
        client = TestClient(application(index, "t"), base_url="http://127.0.0.1")
        figures.append(_page("first paint", client, "", 1000, check))
        index.build()
        place = f"{files // 2}:{index.bytes // files // 2}"
        for name, page, most in PAGES:
            figures.append(_page(name, client, page.format(place=place), most, check))
    return figures


def _page(name: str, client: TestClient, page: str, most: int, check: float) -> Figure:
    def ask() -> None:
        assert client.get(f"/t/{page}").status_code == 200

    taken = 1000 * fastest(ask, 5)
    return Figure(
        name=name,
        figure=taken,
        unit="ms",
        yardstick="check",
        yardstick_figure=1000 * check,
        target=Target(most, "figure", at_most=True),
    )


def _keystroke() -> Figure:
    """Return how long a message of 10 KB takes after a keystroke, beside one of a line."""
    sheet = Sheet(properties=PROPERTIES)
    line = "I;GG.ORDERS;2026-01-05 09:00:00;1;boat\n"
    times = []
    for text in (line * (MESSAGE // len(line)), line):
        own = replace(sheet, message=text)
        assert not examine_sheet(Workbench(), own).faults
        times.append(1000 * fastest(lambda own=own: examine_sheet(Workbench(), own), 5))
    target = Target(100, "figure", at_most=True)
    return Figure(
        name="the workbench, a message of 10 KB",
        figure=times[0],
        unit="ms",
        yardstick="one line",
        yardstick_figure=times[1],
        target=target,
    )


def _peak_of(trail: str) -> float:
    command = [sys.executable, "-m", "benchmarks.browse", trail]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return float(done.stdout)


if __name__ == "__main__":
    _index(sys.argv[1])
    print(peak())
