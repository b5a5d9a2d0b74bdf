"""What pages and the report show, and how it becomes HTML.

Templates escape whatever they print; what is shown of a value besides goes through the filters below. Links are relative, since every page is at the same level of the
server's addresses; a report has none.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from time import time
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

import trailgate
from trailgate.arrays import Longs
from trailgate.browse.histogram import TimeHistogram
from trailgate.browse.index import KINDS, SIZES, TrailIndex
from trailgate.errors import TrailgateError, mask_logins
from trailgate.model.tables import Column
from trailgate.model.types import TYPES
from trailgate.storage.files.listing import list_trail
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
LISTED: Final = 500  # tables and files of a page
SECOND: Final = 1_000_000

Link = Callable[..., str]
Query = Mapping[str, str]  # of an address


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: its place, its parts from the bottom up, its title, and the page that it leads to."""

    x: float
    width: float
    parts: tuple[tuple[str, float, float], ...]  # class, top and height
    title: str
    link: str = ""


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
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in str(text)
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
    }
    made.globals |= {
        "kinds": KINDS,
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
        bars.append(
            Bar(at * step, max(step - 1, 1), parts, title, link("operations", **query, **times))
        )
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
    label = "Transactions by their number of operations"
    used = [at for at in range(SIZES) if sizes[at]]
    if not used:
        return Chart(label, ())
    most, step = int(sizes.max()), WIDTH / (used[-1] + 1)
    bars = []
    for at in used:
        low, high = 1 << at, (2 << at) - 1
        named = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        title = f"{int(sizes[at]):,} transactions of {named} operations"
        parts = _stacked(["k-all"], [int(sizes[at])], most)
        bars.append(Bar(at * step, max(step - 2, 1), parts, title))
    return Chart(label, tuple(bars), "1 operation", f"{(2 << used[-1]) - 1:,} operations", most)


def overview(index: TrailIndex, link: Link) -> dict[str, Any]:
    """Return what the overview and the report show."""
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
            "manifest": _manifest(index),
            "bytes": index.bytes,
            "progress": 100 if index.done else 100 * index.bytes_read // max(index.bytes, 1),
            "done": index.done,
            "problem": index.problem,
            "rate": index.growth.rate,
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
            "findings": [finding_row(index, one, link) for one in index.findings],
        }


def finding_row(index: TrailIndex, found: Finding, link: Link) -> dict[str, Any]:
    """Return a finding of the check, with the page of its bytes."""
    number = index.file_number(found.file)
    at = "" if number is None or found.offset is None else f"{number}:{found.offset}"
    return {
        "severity": found.severity.value,
        "statement": FINDINGS[found.kind].statement,
        "detail": found.detail,
        "file": found.file,
        "position": at,
        "raw": found.raw[:16].hex(" "),
        "more": found.more,
        "link": link("bytes", at=at) if at else "",
    }


def _manifest(index: TrailIndex) -> Manifest | None:
    """Return the trail's manifest, as it is now; None where there is none or it cannot be read, which the check reports."""
    try:
        listing = list_trail(index.found.prefix)
        return read_manifest(listing.prefix, listing.store)
    except (TrailgateError, OSError):
        return None


def report(index: TrailIndex) -> str:
    """Return a trail's report as one HTML file."""
    style = asset("style.css")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    values = overview(index, no_link) | {"style": style, "digest": digest}
    return render("report.html", values, no_link)
