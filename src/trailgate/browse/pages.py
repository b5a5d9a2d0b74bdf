"""Build the values of pages and of the report, and render them to HTML.

Templates escape everything that they print; the filters below format numbers, times and values.
Links are relative, because all pages are on the same level of the server's addresses. A report is
one file without links.
"""

from __future__ import annotations

import itertools
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from time import time
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import trailgate
from trailgate.arrays import Longs
from trailgate.browse.capture_state import capture_state
from trailgate.browse.histogram import TimeHistogram, empty_runs
from trailgate.browse.index import KINDS, TrailIndex
from trailgate.browse.operations import COLUMNS, LONGEST
from trailgate.browse.time_axis import bar_edges, round_times
from trailgate.browse.transactions import DURATIONS, SECOND, SIZES
from trailgate.errors import TrailgateError, count_noun, mask_logins
from trailgate.model.tables import Column
from trailgate.model.types import TYPES
from trailgate.storage.files.manifest import Manifest, read_manifest
from trailgate.storage.files.trail_files import TrailListing, TrailPosition, list_trail
from trailgate.trail.annotation.file_header import VENDORS
from trailgate.trail.findings import KINDS as FINDINGS
from trailgate.trail.findings import Finding
from trailgate.trail.format.record_layout import format_iso_time

KIND_NAMES: Final = {
    "I": "insert",
    "U": "update",
    "K": "update of the key",
    "D": "delete",
    "T": "truncate",
}
BARS: Final = 64  # the most bars of a chart
SCALE: Final = 1000  # the height of the highest bar on a logarithmic scale
GAP: Final = 3  # empty bars that are shaded
WIDTH, HEIGHT = 960, 160  # the size of a chart, in its own units
WIDEST: Final = 64  # the largest width of a bar
LISTED: Final = 500  # the most tables and files on a page
UNITS: Final = ((3600 * SECOND, "h"), (60 * SECOND, "min"), (SECOND, "s"), (1000, "ms"), (1, "µs"))
DURATION_UNITS: Final = ((24 * 3600 * SECOND, "d"), *UNITS)
# The end of a run's name in the manifest is its start in microseconds.
RUN_TIME: Final = re.compile(r"-([0-9]{16})$")
# The counts of a run that are shown even if they are 0.
COUNTED: Final = ("messages", "transactions", "operations", "quarantined", "skipped_files")

Link = Callable[..., str]
Query = Mapping[str, str]  # the query part of an address


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: its slot on the axis (``left`` edge and width, ``step``), stacked parts, title, count and link."""

    left: float
    step: float
    parts: tuple[tuple[str, float, float], ...]  # class, top and height
    title: str
    count: int
    link: str = ""
    times: str = ""  # its begin and its end, for the script that adds local times

    @property
    def width(self) -> float:
        """The width of the bar, which is limited if a chart has few bars."""
        return min(max(self.step - 1, 1), WIDEST)

    @property
    def x(self) -> float:
        """The left edge of the chart's bar, which is centred in its slot."""
        return self.left + (self.step - self.width) / 2


class Tick(NamedTuple):
    """A label of a chart's axis. ``at`` is its distance from the left or the top, in percent of the axis.

    On a time axis, ``title`` is the complete time of the label, and ``times`` the same time for the
    script that adds local times (``iso_times``).
    """

    at: float
    label: str
    title: str = ""
    times: str = ""


class Gap(NamedTuple):
    """A period without operations in a chart. ``left`` and ``width`` are in percent of the axis."""

    left: float
    width: float
    title: str
    times: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart on a page: its description, bars, labels of both axes, and largest count."""

    label: str
    bars: tuple[Bar, ...]
    start: str = ""
    end: str = ""
    most: int = 0
    note: str = ""
    ticks: tuple[Tick, ...] = ()
    levels: tuple[Tick, ...] = ()
    gaps: tuple[Gap, ...] = ()


def link_to(page: str, **query: object) -> str:
    """Return the relative address of a page of browse."""
    known = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{page}?{urlencode(known)}" if known else page


def no_link(page: str, **query: object) -> str:
    """Return an empty address: a report has no other pages to link to."""
    del page, query
    return ""


def place_text(position: TrailPosition) -> str:
    """Format a trail position for a page as file:offset."""
    return f"{position.number}:{position.offset}"


def size_text(size: int) -> str:
    """Format a number of bytes for a page, such as "1.5 MB"."""
    amount, unit = float(size), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{size:,} bytes" if unit == "bytes" else f"{amount:,.1f} {unit}"


def time_text(microseconds: int) -> str:
    """Format a time for a page in UTC, without a zero fraction."""
    return format_iso_time(microseconds).replace("T", " ").removesuffix("Z").removesuffix(".000000")


def moment(microseconds: int, *, alone: bool = False) -> Markup:
    """Build the HTML element of a UTC time. A script adds the local time.

    If it is ``alone``, without a link beside it, it can be reached with the Tab key.
    """
    text, stop = time_text(microseconds), Markup(' tabindex="0"') if alone else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(iso_times(microseconds), stop, text)


def iso_times(*microseconds: int) -> str:
    """Format the times of an element for the script that adds local times: one, or a begin and an end."""
    return "/".join(f"{time_text(one).replace(' ', 'T')}Z" for one in microseconds)


def visible(text: object) -> str:
    """Escape control characters, and characters that change the direction of text, so that a page shows them.

    Markup of the pages is not escaped.
    """
    if isinstance(text, Markup):
        return text
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )


def csn_text(csn: str | None) -> str:
    """Format a CSN for a page, without the zeros that pad numbers to a common length."""
    return visible((csn or "").lstrip("0") or (csn or "")[-1:])


def marked(text: str, wanted: str) -> str:
    """Escape a value for HTML and mark each occurrence of the searched text, in upper or lower case."""
    if not wanted:
        return escape(visible(text))
    parts = re.split(f"({re.escape(wanted)})", text, flags=re.IGNORECASE)
    # every second part is a text that was found
    return Markup("").join(
        Markup("<mark>{}</mark>").format(visible(part)) if number % 2 else visible(part)
        for number, part in enumerate(parts)
    )


def type_name(column: Column) -> str:
    """Return the public name of a column's type, or "" if its type code has no name."""
    known = TYPES.get(column.data_type)
    return known.name if known is not None else ""


def read_asset(name: str) -> str:
    """Read a style sheet or script of the pages."""
    return resources.files("trailgate.browse").joinpath("static", name).read_text("utf-8")


@cache
def template_environment() -> Environment:
    """Create the Jinja environment of the pages' templates.

    It escapes everything, and undefined variables are errors.
    """
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
        "moment": moment,
        "duration": duration_words,
        "place": place_text,
        "visible": visible,
        "marked": marked,
        "csn": csn_text,
        "bytes": lambda text: len(text.encode()),
    }
    made.globals |= {
        "kinds": KINDS,
        "longest": LONGEST,
        "most_columns": COLUMNS,
        "kind_names": KIND_NAMES,
        "type_name": type_name,
        "version": trailgate.__version__,
    }
    return made


def render(template: str, values: Mapping[str, Any], link: Link = link_to) -> str:
    """Render a template to the HTML of a page."""
    return template_environment().get_template(template).render(**values, link=link)


def time_chart(
    histogram: TimeHistogram,
    label: str,
    link: Link,
    within: tuple[int | None, int | None] = (None, None),
    **query: object,
) -> Chart:
    """Build the chart of operations over time, with bars stacked by operation type.

    Bars begin at round times. A bar links to the page of the operations in its time, limited to
    the times ``within`` (first and last microsecond).
    """
    earliest, latest = within
    bins, counts = histogram.filled_bins()
    if not counts.shape[1]:
        return Chart(label, ())
    edges = bar_edges(int(bins[0]), int(bins[-1]), histogram.width, BARS)
    counts = _sum_bins(counts, np.searchsorted(edges, bins[:-1], "right") - 1, len(edges) - 1)
    most = int(counts.sum(axis=0).max())
    classes = [f"k-{kind}" for kind in KINDS] if len(counts) > 1 else ["k-all"]
    bars = []
    first, last = edges[0], edges[-1]
    scale = WIDTH / (last - first)
    for (at, end), stack in zip(itertools.pairwise(edges), counts.T.tolist(), strict=True):
        if not sum(stack):
            continue
        named = [
            f"{count:,} {KIND_NAMES[kind]}"
            for kind, count in zip(KINDS, stack, strict=False)
            if count and len(stack) > 1
        ]
        title = f"{_period(at, end)}: {count_noun(sum(stack), 'operation')}"
        times = {
            "from_time": time_text(at if earliest is None else max(at, earliest)),
            "to_time": time_text(end - 1 if latest is None else min(end - 1, latest)),
        }
        bars.append(
            Bar(
                left=(at - first) * scale,
                step=(end - at) * scale,
                parts=_stack_bars(classes, stack, most),
                title=", ".join([title, *named]),
                count=sum(stack),
                link=link("operations", **{**query, **times}),
                times=iso_times(at, end),
            )
        )
    return Chart(
        label,
        tuple(bars),
        moment(first) + " UTC",
        moment(last),
        most,
        ticks=tuple(
            Tick(round(100 * (at - first) / (last - first), 2), text, time_text(at), iso_times(at))
            for at, text in round_times(first, last)
        ),
        levels=tuple(Tick(round(100 - 100 * one / most, 2), f"{one:,}") for one in _levels(most)),
        gaps=tuple(_gaps(counts, edges)),
    )


def _levels(most: int) -> Iterable[int]:
    """Return at most four round counts up to ``most``, for the labels of a chart's vertical axis: 200, 400, 600 for 700."""
    step = next(
        one * 10**power
        for power in itertools.count()
        for one in (1, 2, 5)
        if most < 5 * one * 10**power
    )
    return range(step, most + 1, step)


def _gaps(counts: Longs, edges: list[int]) -> Iterator[Gap]:
    """Yield the gaps of a chart over time: the runs of at least ``GAP`` empty bars."""
    scale = WIDTH / (edges[-1] - edges[0])
    for first, last in empty_runs(counts):
        if last - first >= GAP:
            at, end = edges[first], edges[last]
            title = f"{_period(at, end)}: no operations"
            yield Gap((at - edges[0]) * scale, (end - at) * scale, title, iso_times(at, end))


def _period(begin: int, end: int) -> str:
    return f"{time_text(begin)} to {time_text(end)}"


def _sum_bins(counts: Longs, bar: Longs, bars: int) -> Longs:
    """Add up the bins of a histogram for each bar of a chart. ``bar`` has the number of each bin's bar."""
    sums = np.zeros((len(counts), bars), np.int64)
    np.add.at(sums.T, bar, counts.T)
    return sums


def _stack_bars(
    classes: list[str], counts: list[int], most: int
) -> tuple[tuple[str, float, float], ...]:
    parts, top = [], float(HEIGHT)
    for name, count in zip(classes, counts, strict=True):
        if count:
            # SVG's y axis points down, so the first part ends at the bottom
            height = HEIGHT * count / most
            top -= height
            parts.append((name, round(top, 2), round(height, 2)))
    return tuple(parts)


def size_chart(sizes: Longs) -> Chart:
    """Build the chart of transactions by number of operations: 1, 2 to 3, 4 to 7, and so on."""
    more = (f"{1 << at:,} to {(2 << at) - 1:,} operations" for at in range(1, SIZES))
    return _bin_chart("Transactions by operations", sizes, ["1 operation", *more])


def duration_chart(durations: Longs) -> Chart:
    """Build the chart of transactions by duration."""
    bounds = [_round_duration(one) for one in DURATIONS]
    between = (f"{one} to {two}" for one, two in itertools.pairwise(bounds))
    names = ["no time", *between, f"{bounds[-1]} or more"]
    return _bin_chart("Transactions by duration", durations, names)


def _round_duration(microseconds: int) -> str:
    """Format a duration as one number in the largest unit that divides it, such as "10 ms"."""
    size, unit = next(one for one in UNITS if microseconds % one[0] == 0)
    return f"{microseconds // size} {unit}"


def _bin_chart(label: str, counts: Longs, names: list[str]) -> Chart:
    """Build a chart of transactions with one bar for each bin, which ``names`` describe, up to the last that is not empty."""
    used: list[int] = np.flatnonzero(counts).tolist()
    if not used:
        return Chart(label, ())
    most, step = int(counts.max()), WIDTH / (used[-1] + 1)
    bars = []
    for at in used:
        count = int(counts[at])
        title = f"{names[at]}: {count_noun(count, 'transaction')}"
        # A logarithmic scale, because there are a few large transactions and very many small ones.
        height = round(SCALE * math.log(1 + count) / math.log(1 + most))
        parts = _stack_bars(["k-all"], [height], SCALE)
        bars.append(Bar(at * step, step, parts, title, count))
    powers = [10**power for power in range(len(str(most)))]
    levels = tuple(
        Tick(round(100 - 100 * math.log(1 + one) / math.log(1 + most), 2), f"{one:,}")
        for one in powers[:: 1 + len(powers) // 5]
    )
    return Chart(
        label,
        tuple(bars),
        start=names[0],
        end=names[used[-1]],
        most=most,
        note=", on a logarithmic scale",
        levels=levels,
    )


def overview(index: TrailIndex, link: Link) -> dict[str, Any]:
    """Return the template values for the overview of a trail, which the report has too."""
    listing = list_trail(index.found.prefix)
    manifest = manifest_of(listing)
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
            "answers": list(_answers(index, link)),
            "tables": tables[:LISTED],
            "more_tables": max(0, len(tables) - LISTED),
            "most_operations": max([one.operations for one in tables] or [1]) or 1,
            "defined": len(index.found.definitions or ()),
            "transactions": index.transactions,
            "sizes": size_chart(index.transactions.sizes),
            "durations": duration_chart(index.transactions.durations),
            "findings": [finding_row(index, one, link) for one in index.findings],
        }


def _answers(index: TrailIndex, link: Link) -> Iterator[tuple[str, str, str]]:
    """Yield the facts of the overview that people look for first, such as the biggest transaction.

    Each is a name, a value, and the address of a page about it.
    """
    bins, counts = index.over_time.filled_bins()
    runs = empty_runs(counts)
    if runs:
        first, last = max(runs, key=lambda run: bins[run[1]] - bins[run[0]])
        # The page shows the bin on either side of the gap.
        before, at, end, after = bins[[first - 1, first, last, last + 1]].tolist()
        times = {"from_time": time_text(before), "to_time": time_text(after - 1)}
        period = Markup("about {}, from {}").format(duration_words(end - at), moment(at))
        yield "longest time without operations", period, link("operations", **times)
    for name, kept in (
        ("biggest transaction", index.transactions.by_operations),
        ("longest transaction", index.transactions.by_duration),
    ):
        if kept and (name != "longest transaction" or kept[0].duration):
            text = f"{kept[0].operations:,} operation{'' if kept[0].operations == 1 else 's'}"
            if kept[0].duration:
                text += f" in {duration_words(kept[0].duration)}"
            yield name, text, link("transaction", at=place_text(kept[0].begin))
    for finding in index.findings[:1]:
        row = finding_row(index, finding, link)
        yield f"worst finding ({row['severity']})", row["statement"], row["link"]


def duration_words(microseconds: int) -> str:
    """Return a duration in its two largest units, such as "2 d 3 h" or "250 ms"."""
    words = []
    for size, unit in DURATION_UNITS:
        count, microseconds = divmod(microseconds, size)
        if count:
            words.append(f"{count:,} {unit}")
        if words and (len(words) == 2 or not count):
            break
    return " ".join(words) or "0 s"


def finding_row(index: TrailIndex, finding: Finding, link: Link) -> dict[str, Any]:
    """Return the template values for a finding of the check, with a link to the page of its bytes."""
    file = index.file_named(finding.file)
    at = last = ""
    if file is not None and finding.offset is not None and file.size:
        at = f"{file.number}:{finding.offset}"
        last = f"{file.number}:{max(0, min(finding.offset, file.size - 1))}"  # of an end, the last byte
    return {
        "severity": finding.severity.value,
        "statement": FINDINGS[finding.kind].statement,
        "detail": finding.detail,
        "file": finding.file,
        "position": at,
        "raw": finding.raw[:16].hex(" "),
        "more": finding.more,
        "link": link("bytes", at=last) if last else "",
    }


def manifest_of(listing: TrailListing) -> Manifest | None:
    """Read the trail's manifest, or return None if it is missing or unreadable.

    The check reports that.
    """
    try:
        return read_manifest(listing.prefix, listing.store)
    except (TrailgateError, OSError):
        return None


def _run(manifest: Manifest) -> dict[str, Any]:
    """Return the template values for the last run in a manifest: when it began, and its counts by name."""
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


def render_report(index: TrailIndex) -> str:
    """Render the report of a trail as one HTML file."""
    style = read_asset("style.css")
    # the page's security policy allows this style sheet by its hash
    digest = b64encode(sha256(style.encode()).digest()).decode()
    # The state of a running capture is not part of the trail, so a report does not show it.
    values = overview(index, no_link) | {"style": style, "digest": digest, "capture": None}
    return render("report.html", values, no_link)
