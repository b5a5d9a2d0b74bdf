"""The overview of a trail: the first page, and the report, which is the same overview in one HTML file without links."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from time import time
from typing import Any, Final

from markupsafe import Markup

from trailgate.browse.capture_state import capture_state
from trailgate.browse.charts import duration_chart, size_chart, time_chart
from trailgate.browse.histogram import empty_runs
from trailgate.browse.index import KINDS, TrailIndex
from trailgate.browse.pages import (
    Link,
    duration_words,
    moment,
    place_text,
    read_asset,
    render,
    time_text,
)
from trailgate.browse.transactions import SECOND
from trailgate.errors import TrailgateError, mask_logins
from trailgate.storage.files.manifest import Manifest, read_manifest
from trailgate.storage.files.trail_files import TrailListing, list_trail
from trailgate.trail.annotation.file_header import VENDORS
from trailgate.trail.findings import KINDS as FINDINGS
from trailgate.trail.findings import Finding

LISTED: Final = 500  # the most tables and files on a page
# The end of a run's name in the manifest is its start in microseconds.
RUN_TIME: Final = re.compile(r"-([0-9]{16})$")
# The counts of a run that are shown even if they are 0.
COUNTED: Final = ("messages", "transactions", "operations", "quarantined", "skipped_files")


def _no_link(page: str, **query: object) -> str:
    """Return an empty address for the overview in a report, which has no other pages to link to."""
    del page, query
    return ""


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


def finding_row(index: TrailIndex, finding: Finding, link: Link) -> dict[str, Any]:
    """Return the template values for a finding of the check in the overview, with a link to the page of its bytes."""
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
    """Read the manifest that the overview of a trail shows, or return None if it is missing or unreadable.

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
    """Render the overview of a trail as a report, which is one HTML file."""
    style = read_asset("style.css")
    # the page's security policy allows this style sheet by its hash
    digest = b64encode(sha256(style.encode()).digest()).decode()
    # The state of a running capture is not part of the trail, so a report does not show it.
    values = overview(index, _no_link) | {"style": style, "digest": digest, "capture": None}
    return render("report.html", values, _no_link)
