"""Very many files and very many tables: what each costs does not grow with how many there are."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.report import Figure, Target

import trailgate
from trailgate.jobs.trail_check import check_trail

LINEAR: Final = Target(1.5, at_most=True)
COLUMNS: Final = ("ID", "TEXT")


def run(*, quick: bool) -> list[Figure]:
    """Return rows for files and for tables: microseconds each, beside a tenth as many."""
    files, tables, bad = (3_000, 2_000, 1_000) if quick else (30_000, 20_000, 10_000)
    return [
        _figure(f"check, {files:,} files with a manifest", files, _checked),
        _figure(f"capture into {tables:,} tables", tables, _captured),
        _figure(f"check, {bad:,} tables with bad values", bad, _checked_bad),
    ]


def _figure(name: str, count: int, seconds: Callable[[Path, int], float]) -> Figure:
    each = []
    for number in (count, count // 10):
        with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
            each.append(seconds(Path(folder), number) / number * 1e6)
    return Figure(
        name=name,
        figure=each[0],
        unit="µs each",
        yardstick="a tenth as many",
        yardstick_figure=each[1],
        target=LINEAR,
    )


def _checked(folder: Path, files: int) -> float:
    """Return the seconds that a check of a trail of so many files takes."""
    _capture(folder, ["S.T"], files, max_bytes=1)
    began = time.perf_counter()
    assert check_trail(str(folder / "ot")).whole
    return time.perf_counter() - began


def _checked_bad(folder: Path, tables: int) -> float:
    """Return the seconds of a check of a trail that defines so many tables, each with a bad value."""
    _capture(folder, [f"S.T{number}" for number in range(tables)], 1, format_release="19.1")
    path = folder / "ot000000000"
    # a value is an indicator, which is never 7f7f, a length and the text
    path.write_bytes(path.read_bytes().replace(b"\0\0\0\4text", b"\x7f\x7f\0\4text"))
    began = time.perf_counter()
    assert not check_trail(str(folder / "ot")).whole
    return time.perf_counter() - began


def _captured(folder: Path, tables: int) -> float:
    """Return the seconds that a capture of one row for each of so many tables takes."""
    began = time.perf_counter()
    _capture(folder, [f"S.T{number}" for number in range(tables)], 1)
    return time.perf_counter() - began


def _capture(
    folder: Path,
    names: list[str],
    rows: int,
    max_bytes: int | None = None,
    format_release: str | None = None,
) -> None:
    """Capture rows of tables, each a transaction of its own."""
    lines = ["parser.type=delim", f"delim.userdefs.tables={','.join(names)}"]
    for name in names:
        lines += [f"delim.userdefs.{name}.columns={','.join(COLUMNS)}"]
        lines += [f"delim.userdefs.{name}.{column}=vchar 10" for column in COLUMNS]
    lines += ["delim.header=optype,tablename,ts", "delim.optype=optype", "delim.fielddelim=,"]
    lines += ["delim.schemaandtable=tablename", "delim.timestamp=ts", "delim.txid=*txid"]
    (folder / "p.properties").write_text("\n".join([*lines, ""]))
    messages = [f"I,{name},2026-01-05 09:00:00,1,text" for name in names] * rows
    (folder / "in.txt").write_text("\n".join([*messages, ""]))
    source, trail, properties = (str(folder / name) for name in ("in.txt", "ot", "p.properties"))
    trailgate.capture_files(
        source,
        trail,
        properties,
        message_per="line",
        max_bytes=max_bytes,
        format_release=format_release,
    )
