"""What a benchmark yields, and how it is shown and kept."""

from __future__ import annotations

import json
import os
import platform
import timeit
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

RESULTS: Final = Path(__file__).parent / "results"
STEADY: Final = 0.1  # of the fastest run
NEAR: Final = 3  # runs that must be near each other
MOST: Final = 3
COPIED: Final = 100_000_000  # bytes, many times the processor's caches
TICK: Final = os.sysconf("SC_CLK_TCK")


class Act(Protocol):
    """Something that is timed."""

    def __call__(self) -> object: ...


class Target(NamedTuple):
    """What is asked of a figure itself or of its ratio to the yardstick."""

    bound: float
    of: str = "ratio"
    at_most: bool = False

    def met(self, figure: Figure) -> bool:
        measured = figure.ratio if self.of == "ratio" else figure.figure
        return measured <= self.bound if self.at_most else measured >= self.bound

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        return f"{sign} {self.bound:g}{' x' if self.of == 'ratio' else ''}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure beside its yardstick of the same run."""

    name: str
    figure: float
    unit: str
    yardstick: str
    yardstick_figure: float
    target: Target | None = None

    @property
    def ratio(self) -> float:
        return self.figure / self.yardstick_figure

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.target.met(self)

    def __str__(self) -> str:
        """Return a line for one who waits."""
        beside = f"{self.yardstick_figure:.2f} of {self.yardstick}: {self.ratio:.2f}"
        return f"{self.name}: {self.figure:.2f} {self.unit} beside {beside}"

    def kept(self) -> dict[str, Any]:
        """Return what a results file holds of it."""
        target = None if self.target is None else str(self.target)
        own = {name: value for name, value in asdict(self).items() if name != "target"}
        return {**own, "ratio": self.ratio, "target": target, "met": self.met}


def figure_of(row: Mapping[str, Any], target: Target | None = None) -> Figure:
    """Return the figure of a row as the benchmarks of the codecs yield them."""
    names = ("yardstick", "yardstick name")
    yardstick = next(str(row[name]) for name in names if name in row)
    beside = float(row.get("yardstick_figure", row.get("yardstick figure", 0)))
    return Figure(
        name=row["name"],
        figure=float(row["figure"]),
        unit=row["unit"],
        yardstick=yardstick,
        yardstick_figure=beside,
        target=target,
    )


@dataclass(slots=True)
class Spread:
    """How far apart the fastest runs of the measurements of one benchmark were."""

    measured: int = 0
    wide: int = 0

    def __str__(self) -> str:
        """Return a line for the table."""
        if not self.measured:
            return "spread not known: single runs"
        if self.wide:
            return f"spread above {STEADY:.0%} in {self.wide} of {self.measured} measurements"
        return f"spread below {STEADY:.0%} in all {self.measured} measurements"


SPREAD: Final = Spread()


def fastest(act: Act, times: int) -> float:
    """Return the seconds of the fastest of some runs.

    Runs are repeated, up to ``MOST`` times as often, until the three fastest differ by less than ``STEADY``.
    """
    taken: list[float] = []
    while len(taken) < times or (
        times >= NEAR and len(taken) < MOST * times and not _steady(taken)
    ):
        start = perf_counter()
        act()
        taken.append(perf_counter() - start)
    if times >= NEAR:
        SPREAD.measured += 1
        SPREAD.wide += not _steady(taken)
    return min(taken)


def _steady(taken: Sequence[float]) -> bool:
    near = sorted(taken)[:NEAR]
    return near[-1] <= near[0] * (1 + STEADY)


def processor_seconds() -> float:
    """Return the processor time of this process and of all its descendants, also of those that have ended."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        used[number] = sum(map(int, fields[11:15])) / TICK
    level, found = {os.getpid()}, 0.0
    while level:
        found += sum(used[one] for one in level)
        level = {one for one, parent in parents.items() if parent in level}
    return found


def load() -> str:
    """Return the machine's load: processes that want to run, over the last minute."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def machine() -> str:
    """Return what figures depend on: processor, Python, the rate of a memory copy, and the load."""
    data, copy = np.ones((2, COPIED), np.uint8)
    seconds = min(timeit.repeat(lambda: np.copyto(copy, data), number=1, repeat=5))
    copied = COPIED / seconds / 1e6
    what = f"{platform.machine()}, Python {platform.python_version()}"
    return f"{what}, memory copy {copied:,.0f} MB/s, {load()}"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as lines of aligned text."""
    head = ("", "figure", "unit", "beside", "its figure", "ratio", "target", "")
    rows = [head, *(_cells(figure) for figure in figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    right = {1, 4, 5}
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        f"{figure.figure:.2f}",
        figure.unit,
        figure.yardstick,
        f"{figure.yardstick_figure:.2f}",
        f"{figure.ratio:.2f}",
        "" if figure.target is None else str(figure.target),
        {None: "", True: "met", False: "MISSED"}[figure.met],
    )


def keep(name: str, figures: Iterable[Figure], *, quick: bool) -> Path:
    """Write a benchmark's figures as JSON, and return where."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {
        "benchmark": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "load": os.getloadavg()[0],
        "spread": asdict(SPREAD),
        "figures": [figure.kept() for figure in figures],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path
