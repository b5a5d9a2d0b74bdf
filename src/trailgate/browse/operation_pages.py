"""The pages of operations and of one transaction.

The address of the page of operations contains filters and a position. With ``at``, the page shows
the first matching operations from this position on; with ``before``, the last ones before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, Final

from trailgate.browse.charts import time_chart
from trailgate.browse.filters import (
    CONTAINS,
    EQUALS,
    EXACTLY,
    MISSING,
    NULL,
    OperationFilters,
    exact_table_filter,
    filters_of,
)
from trailgate.browse.index import KINDS, TrailIndex
from trailgate.browse.matches import AT_ONCE, TOP, LatestResults, MatchSummary
from trailgate.browse.operation_search import BEGINS, OperationSearch, SearchResult
from trailgate.browse.pages import KIND_NAMES, Query, link_to, parse_place, place_text
from trailgate.browse.shown_operations import ShownOperation
from trailgate.browse.spans import UnreadOperations
from trailgate.browse.transaction_extent import TransactionExtent, measure_transaction
from trailgate.errors import OptionError
from trailgate.storage.files.trail_files import TrailPosition

SPECIAL: Final = frozenset('*?,="')  # what makes a table's name more than a name in the filter
NAMED: Final = 500  # the most tables offered as a choice
PLACES: Final = ("at", "before")  # the parts of an address with the start and the end of the rows
IMAGES: Final = ("before", "after")
FORMATS: Final = {"csv": "CSV", "parquet": "Parquet", "jsonl": "JSON lines"}
COUNT_SECONDS: Final = 0.4  # the time of counting further matches
FILTERED: Final = 2000  # the most characters of the filters: a page has a hundred links with them
OF_VALUE: Final = ("column", "match", "text")
# The filters of an address, as they are named on the page. Those of a value are one chip.
LABELS: Final = {
    "table": "table",
    "kinds": "operation",
    "from_time": "from",
    "to_time": "to",
    "tx": "transaction",
    "owner": "owner",
    "token": "token",
    "from_csn": "from CSN",
    "to_csn": "to CSN",
    **dict.fromkeys(OF_VALUE, "value"),
}
# How a filter is described on the page, by its comparison.
COMPARED: Final = {
    CONTAINS: "contains {text}",
    EQUALS: "is {text}",
    NULL: "is NULL",
    MISSING: "is not logged",
}


Summaries = LatestResults[OperationFilters, MatchSummary]
Extents = LatestResults[TrailPosition, TransactionExtent]


def operations_page(index: TrailIndex, query: Query, summaries: Summaries) -> dict[str, Any]:
    """Return the template values for the page of the operations that pass the filters in its address."""
    filters = filters_of(index, query)
    at, before = (parse_place(query.get(name, "")) for name in PLACES)
    if filters.tx and at is None and before is None:
        at = index.begin_of_transaction(filters.tx)
    result = OperationSearch(
        index, filters, before or at, back=before is not None, damage=True
    ).run()
    with index.lock:
        names = sorted(index.tables)[:NAMED]
        total, place = index.operations, result.after
        end = index.spans[-1].stop if index.spans else None
    # The last page: its link "next" leads to operations that are added later.
    newer = place is None and before is None
    if newer:
        place = end
    # Each table of a span is decoded by itself, so that many tables take as long as a large trail.
    is_small = index.bytes <= AT_ONCE and len(index.tables) <= NAMED
    return _matches(index, query, summaries, 0.0 if is_small else None) | {
        "rows": result.rows,
        "tables": [exact_table_filter(one) if SPECIAL & set(one) else one for one in names],
        "operations": total,
        "hurried": result.hurried,
        "share": index.share_before(place) if place else 1.0,
        "newer": newer,
        "first_page": link_to("operations", **_filters(query)),
        "next_page": link_to("operations", **_filters(query), at=place_text(place))
        if place
        else "",
        "previous_page": _previous(result, _filters(query)),
    }


def matches_part(index: TrailIndex, query: Query, summaries: Summaries) -> dict[str, Any]:
    """Count further matches for the page of operations, and return the template values of the part above the operations."""
    return _matches(index, query, summaries, COUNT_SECONDS)


def _filters(query: Query) -> dict[str, str]:
    """Return the filters in the address of the page of operations, without positions. Raises OptionError if they are too long."""
    given = {name: query[name] for name in LABELS if query.get(name)}
    if (length := sum(map(len, given.values()))) > FILTERED:
        raise OptionError(f"the filters have {length:,} characters, more than {FILTERED:,}")
    return given


def _chips(given: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the filters in the form in which they are shown: the name, the value, and the address without the filter."""
    texts = {name: text for name, text in given.items() if name not in OF_VALUE}
    if "kinds" in given:
        texts["kinds"] = ", ".join(
            KIND_NAMES[one] for one in given["kinds"].upper() if one in KINDS
        )
    if "table" in given:
        texts["table"] = given["table"].removeprefix(EXACTLY)
    for name, text in texts.items():
        others = {key: value for key, value in given.items() if key != name}
        yield LABELS[name], text, link_to("operations", **others)
    if any(name in given for name in OF_VALUE):
        compared = COMPARED[given.get("match", CONTAINS)].format(text=given.get("text", ""))
        others = {key: value for key, value in given.items() if key not in OF_VALUE}
        title = f"value of {given['column']}" if "column" in given else "a value"
        yield title, compared, link_to("operations", **others)


def _matches(
    index: TrailIndex, query: Query, summaries: Summaries, seconds: float | None
) -> dict[str, Any]:
    """Return the template values for the summary of all operations that pass the filters: counts and a chart.

    First, further matches are counted for about ``seconds``, unless this is None.
    """
    filters, given = filters_of(index, query), _filters(query)
    summary = summaries.of(index, filters)
    if seconds is not None and not summary.is_complete(index):
        summary.count_on(index, seconds)
    with summary.lock:
        within = (filters.from_time, filters.to_time)
        label = "Matching operations over time"
        chart = time_chart(summary.over_time, label, link_to, within, **given)
        tops = [
            (
                title,
                [
                    (one, count, link_to("operations", **given | {name: to_filter(one)}))
                    for one, count in top
                ],
            )
            for title, name, counts, to_filter in (
                ("Tables", "table", summary.tables, exact_table_filter),
                ("Owners", "owner", summary.owners.counts, str),
                ("Transactions", "tx", summary.transactions.counts, str),
            )
            if (top := counts.most_common(TOP))
        ]
        return {
            "matches": summary.matches,
            "complete": summary.is_complete(index),
            "counted": index.share_before(summary.reached) if summary.reached else 0.0,
            "unread": summary.unread,
            "uncharted": summary.uncharted,
            "over_time": chart,
            "by_kind": list(zip(KINDS, summary.over_time.counts.sum(axis=1).tolist(), strict=True)),
            "tops": tops,
            "query": dict.fromkeys(OperationFilters.__dataclass_fields__, "") | given,
            "chips": list(_chips(given)),
            "times": {
                name: at
                for name, at in (("from", filters.from_time), ("to", filters.to_time))
                if at is not None
            },
            "filtered": bool(given),
            "count_more": link_to("matches", **given),
            "exports": [
                (title, link_to("export", **given, to=kind)) for kind, title in FORMATS.items()
            ],
        }


def _previous(result: SearchResult, query: Query) -> str:
    """Return the address of the page with the preceding operations, or "" if these are the first."""
    before = result.before
    return link_to("operations", **query, before=place_text(before)) if before else ""


def complete_value(index: TrailIndex, query: Query) -> str:
    """Return the complete text of an operation's value that the page of operations shows shortened.

    Raises OptionError if there is no such operation, column or value.
    """
    at, column, image = (
        parse_place(query.get("at", "")),
        query.get("column", ""),
        query.get("image"),
    )
    if at is None or image not in IMAGES:
        raise OptionError(
            "the address of a value has at=POSITION, column=NAME and image=before or after"
        )
    index.readable_file(at.number)
    rows = OperationSearch(index, OperationFilters(), at, rows=1).run().rows
    for row in rows:
        if isinstance(row, ShownOperation) and row.place == at:
            for cell in row.cells:
                side = getattr(cell, image)
                if cell.name == column and side is not None and side.state in ("value", "empty"):
                    return str(side.text)
    raise OptionError(f"the operation at {place_text(at)} has no {image} value of {column!r}")


def transaction_page(index: TrailIndex, query: Query, extents: Extents) -> dict[str, Any]:
    """Return the template values for the page of the transaction at a position, or of the next transaction after it.

    Raises OptionError if there is none.
    """
    at = parse_place(query.get("at", ""))
    if at is None:
        raise OptionError("the address has no at=POSITION of a transaction")
    index.readable_file(at.number)
    begin = _begin(index, at)
    if begin is None:
        raise OptionError(f"no transaction begins at {place_text(at)} or after it")
    start = parse_place(query.get("rows", "")) or begin.place
    extent = measure_transaction(index, begin.place, extents.of(index, begin.place))
    result = OperationSearch(index, OperationFilters(), start, damage=True).run()
    rows = tuple(takewhile(partial(_is_of, begin.place, extent.stop), result.rows))
    more = len(rows) == len(result.rows) and result.after
    if extent.stop is not None and more and more >= extent.stop:
        more = None
    counted = extent.operations
    if extent.counted_to is not None:
        # Counting was cut short, but the index knows the number if this is one of the longest.
        counted = max(
            [one.operations for one in _longest(index) if one.begin == begin.place] or [0]
        )
    return {
        "begin": begin,
        "rows": rows,
        "extent": extent,
        "operations": counted,
        "done": index.done,
        "next_page": link_to("transaction", at=place_text(begin.place), rows=place_text(more))
        if more
        else "",
        "next": _neighbour(index, extent.stop or extent.counted_to),
        "previous": _neighbour(index, begin.place, back=True),
    }


def _is_of(
    begin: TrailPosition, stop: TrailPosition | None, row: ShownOperation | UnreadOperations
) -> bool:
    """Return whether a row of the page belongs to the transaction from ``begin`` to ``stop``.

    The row is at or after ``begin``. If ``stop`` is None, the next beginning of a transaction ends
    it.
    """
    if stop is not None and row.place >= stop:
        return False
    # If counting took too long, the end is not known; then the next row that begins a transaction
    # ends this one.
    begins = isinstance(row, ShownOperation) and row.indicator in BEGINS
    return row.place == begin or not begins


def _begin(index: TrailIndex, at: TrailPosition) -> ShownOperation | None:
    """Return the first operation to show on a transaction's page: of the transaction at a position, or of the next one.

    The beginning of a trail's first transaction may have been purged. Then its first remaining
    operation is returned.
    """
    # First search backward for the beginning of a transaction; if there is none, take the trail's
    # first operation.
    begins, every = OperationFilters(indicators=BEGINS), OperationFilters()
    for filters, place, back in (
        (begins, at.just_after, True),
        (every, None, False),
    ):
        found = OperationSearch(index, filters, place, back=back, rows=1).run()
        for row in found.rows:
            if isinstance(row, ShownOperation) and (back or row.place <= at):
                return row
    found = OperationSearch(index, begins, at, rows=1).run()
    return next((row for row in found.rows if isinstance(row, ShownOperation)), None)


def _neighbour(index: TrailIndex, position: TrailPosition | None, *, back: bool = False) -> str:
    """Return the address of the next transaction (with ``back``: the previous one), or "" if there is none."""
    if position is None:
        return ""
    found = (
        OperationSearch(index, OperationFilters(indicators=BEGINS), position, back=back, rows=1)
        .run()
        .rows
    )
    return link_to("transaction", at=place_text(found[0].place)) if found else ""


def _longest(index: TrailIndex) -> list[Any]:
    with index.lock:
        kept = index.transactions
        return [*kept.by_operations, *kept.by_duration, *([kept.open] if kept.open else [])]
