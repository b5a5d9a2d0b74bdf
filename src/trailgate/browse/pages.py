"""What pages and the report show, and how it becomes HTML.

Templates escape whatever they print; what is shown of a value besides goes through the filters below. Links are relative, since every page is at the same level of the
server's addresses; a report has none.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from itertools import pairwise
from time import time
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

import trailgate
from trailgate.arrays import Longs
from trailgate.browse.capture_state import capture_state
from trailgate.browse.histogram import TimeHistogram
from trailgate.browse.index import KINDS, TrailIndex
from trailgate.browse.transactions import DURATIONS, SECOND, SIZES
from trailgate.errors import TrailgateError, mask_logins
from trailgate.model.tables import Column
from trailgate.model.types import TYPES
from trailgate.storage.files.listing import Listing, list_trail
from trailgate.storage.files.manifest import Manifest, read_manifest
from trailgate.storage.files.trail_files import TrailPlace
from trailgate.trail.annotation.file_header import VENDORS, iso_time
from trailgate.trail.findings import KINDS as FINDINGS
from trailgate.trail.findings import Finding

KIND_NAMES: Final = {
    "I": "insert",
    "U": "update",
    "K": "update of the key",
    "D": "delete",
    "T": "truncate",
}
BARS: Final = 64  # of a chart
WIDTH, HEIGHT = 960, 160  # of a chart, in its own units
WIDEST: Final = 64  # of a bar
LISTED: Final = 500  # tables and files of a page
LONGEST: Final = 300  # characters of a value that a page shows
UNITS: Final = ((3600 * SECOND, "h"), (60 * SECOND, "min"), (SECOND, "s"), (1000, "ms"), (1, "µs"))
# Of a run in the manifest: when it began, in microseconds, and the counts that are shown also where they are zero.
RUN_TIME: Final = re.compile(r"-([0-9]{16})$")
COUNTED: Final = ("messages", "transactions", "operations", "quarantined", "skipped_files")

Link = Callable[..., str]
Query = Mapping[str, str]  # of an address


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: its slot, the parts in it from the bottom up, its title, what it counts, and the page that it leads to."""

    left: float
    step: float
    parts: tuple[tuple[str, float, float], ...]  # class, top and height
    title: str
    count: int
    link: str = ""

    @property
    def width(self) -> float:
        """Return the width of its parts, which few bars do not fill their slots with."""
        return min(max(self.step - 1, 1), WIDEST)

    @property
    def x(self) -> float:
        """Return where its parts begin."""
        return self.left + (self.step - self.width) / 2


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of bars: what it shows in one sentence, the bars, and the labels below and above."""

    label: str
    bars: tuple[Bar, ...]
    start: str = ""
    end: str = ""
    most: int = 0


def link_to(page: str, **query: object) -> str:
    """Return the relative address of a page."""
    known = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{page}?{urlencode(known)}" if known else page


def no_link(page: str, **query: object) -> str:
    """Return no address: a report leads nowhere."""
    del page, query
    return ""


def place_text(place: TrailPlace) -> str:
    """Return a place as positions are written for people."""
    return f"{place.number}:{place.offset}"


def size_text(size: int) -> str:
    """Return a number of bytes for people."""
    amount, unit = float(size), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{size:,} bytes" if unit == "bytes" else f"{amount:,.1f} {unit}"


def time_text(microseconds: int) -> str:
    """Return a time as UTC, without a fraction that is zero."""
    return iso_time(microseconds).replace("T", " ").removesuffix("Z").removesuffix(".000000")


def duration_text(microseconds: int) -> str:
    """Return a duration for people."""
    seconds = microseconds / SECOND
    if seconds < 60:
        return f"{seconds:.3f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days} d " if days else "") + f"{hours:02}:{minutes:02}:{rest:02}"


def visible(text: object) -> str:
    """Return a text with control characters, and those that turn the direction of others, as escapes."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )


def type_name(column: Column) -> str:
    """Return the public name of a column's type; empty for a code that has none."""
    known = TYPES.get(column.data_type)
    return known.name if known is not None else ""


def asset(name: str) -> str:
    """Return the text of a style sheet or a module."""
    return resources.files("trailgate.browse").joinpath("static", name).read_text("utf-8")


@cache
def environment() -> Environment:
    """Return what renders templates: everything is escaped, and what is not defined is an error."""
    made = Environment(
        loader=PackageLoader("trailgate.browse"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": lambda number: f"{number:,}",
        "size": size_text,
        "time": time_text,
        "duration": duration_text,
        "place": place_text,
        "visible": visible,
        "bytes": lambda text: len(text.encode()),
    }
    made.globals |= {
        "kinds": KINDS,
        "longest": LONGEST,
        "kind_names": KIND_NAMES,
        "type_name": type_name,
        "version": trailgate.__version__,
    }
    return made


def render(template: str, values: Mapping[str, Any], link: Link = link_to) -> str:
    """Return a page."""
    return environment().get_template(template).render(**values, link=link)


def time_chart(found: TimeHistogram, label: str, link: Link, **query: object) -> Chart:
    """Return counts over time as bars stacked by type; a bar leads to the operations of its time."""
    begin, counts = found.used()
    if not counts.shape[1]:
        return Chart(label, ())
    together = -(-counts.shape[1] // BARS)
    counts = _grouped(counts, together)
    width = found.width * together
    most = int(counts.sum(axis=0).max())
    classes = [f"k-{kind}" for kind in KINDS] if len(counts) > 1 else ["k-all"]
    bars = []
    step = WIDTH / counts.shape[1]
    for at in range(counts.shape[1]):
        own = counts[:, at].tolist()
        if not sum(own):
            continue
        first = begin + at * width
        named = [
            f"{count:,} {KIND_NAMES[kind]}"
            for kind, count in zip(KINDS, own, strict=False)
            if count and len(own) > 1
        ]
        title = f"{time_text(first)}: {sum(own):,} operations" + "".join(
            f", {one}" for one in named
        )
        times = {"from_time": time_text(first), "to_time": time_text(first + width - 1)}
        parts = _stacked(classes, own, most)
        target = link("operations", **query, **times)
        bars.append(Bar(at * step, step, parts, title, sum(own), target))
    last = begin + counts.shape[1] * width
    return Chart(label, tuple(bars), time_text(begin), time_text(last), most)


def _grouped(counts: Longs, together: int) -> Longs:
    """Return the sums of so many bins that follow each other."""
    kinds, bins = counts.shape
    missing = -bins % together
    padded = np.pad(counts, ((0, 0), (0, missing)))
    found: Longs = padded.reshape(kinds, -1, together).sum(axis=2)
    return found


def _stacked(classes: list[str], own: list[int], most: int) -> tuple[tuple[str, float, float], ...]:
    parts, top = [], float(HEIGHT)
    for name, count in zip(classes, own, strict=True):
        if count:
            height = HEIGHT * count / most
            top -= height
            parts.append((name, round(top, 2), round(height, 2)))
    return tuple(parts)


def size_chart(sizes: Longs) -> Chart:
    """Return how many transactions have one operation, two to three, four to seven, and so on."""
    more = (f"{1 << at:,} to {(2 << at) - 1:,} operations" for at in range(1, SIZES))
    return _bin_chart("Transactions by operations", sizes, ["1 operation", *more])


def duration_chart(durations: Longs) -> Chart:
    """Return how many transactions last how long."""
    bounds = [_round_duration(one) for one in DURATIONS]
    between = (f"{one} to {two}" for one, two in pairwise(bounds))
    names = ["no time", *between, f"{bounds[-1]} or more"]
    return _bin_chart("Transactions by duration", durations, names)


def _round_duration(microseconds: int) -> str:
    """Return a duration in the largest unit that it is a whole number of."""
    size, unit = next(one for one in UNITS if microseconds % one[0] == 0)
    return f"{microseconds // size} {unit}"


def _bin_chart(label: str, counts: Longs, names: list[str]) -> Chart:
    """Return a bar for each bin up to the last one that is used."""
    used: list[int] = np.flatnonzero(counts).tolist()
    if not used:
        return Chart(label, ())
    most, step = int(counts.max()), WIDTH / (used[-1] + 1)
    bars = []
    for at in used:
        count = int(counts[at])
        title = f"{names[at]}: {count:,} transaction{'' if count == 1 else 's'}"
        parts = _stacked(["k-all"], [count], most)
        bars.append(Bar(at * step, step, parts, title, count))
    return Chart(label, tuple(bars), names[0], names[used[-1]], most)


def overview(index: TrailIndex, link: Link) -> dict[str, Any]:
    """Return what the overview and the report show."""
    listing = list_trail(index.found.prefix)
    manifest = _manifest(listing)
    with index.lock:
        kinds = index.over_time.counts.sum(axis=1).tolist()
        tables = sorted(index.tables.values(), key=lambda one: -one.operations)
        by_kind = [sum(int(one.kinds[at]) for one in tables) for at in range(len(KINDS))]
        header = next((one.header for one in index.files if one.header is not None), None)
        vendor = header.database.vendor if header is not None else 0
        return {
            "trail": mask_logins(index.found.prefix),
            "files": index.files[:LISTED],
            "more_files": max(0, len(index.files) - LISTED),
            "header": header,
            "vendor": VENDORS[vendor - 1] if 0 < vendor <= len(VENDORS) else "",
            "manifest": manifest,
            "run": manifest and _run(manifest),
            "capture": capture_state(listing),
            "bytes": index.bytes,
            "progress": 100 if index.done else 100 * index.bytes_read // max(index.bytes, 1),
            "done": index.done,
            "problem": index.problem,
            "rate": index.rate,
            "latest": index.latest,
            "age": max(0, round(time() * SECOND) - (index.latest or 0)),
            "operations": index.operations,
            "untimely": index.operations - sum(kinds),
            "by_kind": list(zip(KINDS, by_kind, strict=True)),
            "over_time": time_chart(index.over_time, "Operations over time, by type", link),
            "tables": tables[:LISTED],
            "more_tables": max(0, len(tables) - LISTED),
            "most_operations": max([one.operations for one in tables] or [1]) or 1,
            "defined": len(index.found.definitions or ()),
            "transactions": index.transactions,
            "sizes": size_chart(index.transactions.sizes),
            "durations": duration_chart(index.transactions.durations),
            "findings": [finding_row(index, one, link) for one in index.findings],
        }


def finding_row(index: TrailIndex, found: Finding, link: Link) -> dict[str, Any]:
    """Return a finding of the check, with the page of its bytes."""
    file = index.file_named(found.file)
    at = last = ""
    if file is not None and found.offset is not None:
        at = f"{file.number}:{found.offset}"
        last = (
            f"{file.number}:{max(0, min(found.offset, file.size - 1))}"  # of an end, the last byte
        )
    return {
        "severity": found.severity.value,
        "statement": FINDINGS[found.kind].statement,
        "detail": found.detail,
        "file": found.file,
        "position": at,
        "raw": found.raw[:16].hex(" "),
        "more": found.more,
        "link": link("bytes", at=last) if last else "",
    }


def _manifest(listing: Listing) -> Manifest | None:
    """Return a trail's manifest, as it is now; None where there is none or it cannot be read, which the check reports."""
    try:
        return read_manifest(listing.prefix, listing.store)
    except (TrailgateError, OSError):
        return None


def _run(manifest: Manifest) -> dict[str, Any]:
    """Return what a manifest has of the last run, by name: what it captured, and what else it counted."""
    ended, counts = RUN_TIME.search(manifest.last_run), manifest.summary
    named = {name: counts[name] for name in COUNTED if name in counts}
    others = {
        name.replace("_", " "): value
        for name, value in counts.items()
        if name not in COUNTED and isinstance(value, int) and not isinstance(value, bool) and value
    }
    return {
        "began": int(ended[1]) // SECOND * SECOND if ended else None,
        "counts": {name.replace("_", " "): value for name, value in named.items()} | others,
    }


def report(index: TrailIndex) -> str:
    """Return a trail's report as one HTML file."""
    style = asset("style.css")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    # Who captures at this moment is not of the trail.
    values = overview(index, no_link) | {"style": style, "digest": digest, "capture": None}
    return render("report.html", values, no_link)
