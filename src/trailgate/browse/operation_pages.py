"""The pages of operations and of one transaction."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from trailgate.browse.index import TrailIndex
from trailgate.browse.operations import BEGINS, ENDS, Filters, Found, Operation, Search, place_of
from trailgate.browse.pages import Query, link_to, place_text
from trailgate.browse.spans import Unread
from trailgate.errors import OptionError
from trailgate.storage.files.trail_files import TrailPlace

NAMED: Final = 500  # tables that are offered as a choice
PLACES: Final = ("at", "before")  # of an address: where its rows begin, and where they end


def operations(index: TrailIndex, query: Query) -> dict[str, Any]:
    """Return what the page of operations shows."""
    filters = Filters.of(query)
    at, before = (place_of(query.get(name, "")) for name in PLACES)
    if filters.tx and at is None and before is None:
        at = index.begin_of(filters.tx)
    found = Search(index, filters, before or at, back=before is not None, damage=True).run()
    own = {name: value for name, value in query.items() if name not in PLACES and value}
    with index.lock:
        names = sorted(index.tables)[:NAMED]
        total, place = index.operations, found.after
        end = index.spans[-1].stop if index.spans else None
    newer = place is None and before is None
    if newer:
        place = end
    return {
        "rows": found.rows,
        "query": {name: query.get(name, "") for name in Filters.__dataclass_fields__} | own,
        "filtered": bool(own),
        "tables": names,
        "operations": total,
        "hurried": found.hurried,
        "reached": place,
        "newer": newer,
        "first_page": link_to("operations", **own),
        "next_page": link_to("operations", **own, at=place_text(place)) if place else "",
        "previous_page": _previous(found, own),
    }


def _previous(found: Found, own: Query) -> str:
    """Return the address of the rows before those found; none where they are the first."""
    before = found.before
    return link_to("operations", **own, before=place_text(before)) if before else ""


def transaction(index: TrailIndex, query: Query) -> dict[str, Any]:
    """Return what the page of a transaction shows: the one that has the operation at a place, or the first after it.

    Raises OptionError where there is none.
    """
    at = place_of(query.get("at", ""))
    if at is None:
        raise OptionError("the address has no at=POSITION of a transaction")
    index.file(at.number)
    begin = _begin(index, at)
    if begin is None:
        raise OptionError(f"no transaction begins at {place_text(at)} or after it")
    start = place_of(query.get("rows", "")) or begin.place
    found = Search(index, Filters(), start, damage=True).run()
    last = next(
        (
            n
            for n, row in enumerate(found.rows)
            if isinstance(row, Operation) and row.indicator in ENDS
        ),
        None,
    )
    rows = found.rows if last is None else found.rows[: last + 1]
    known = next((one for one in _longest(index) if one.begin == begin.place), None)
    more = "" if last is not None or found.after is None else place_text(found.after)
    return {
        "begin": begin,
        "rows": rows,
        "complete": last is not None and start == begin.place,
        "known": known,
        "counts": Counter((row.table, row.kind) for row in rows if isinstance(row, Operation)),
        "duration": _duration(rows),
        "next_page": link_to("transaction", at=place_text(begin.place), rows=more) if more else "",
        "next": _neighbour(index, rows[-1].place.just_after if last is not None else None),
        "previous": _neighbour(index, begin.place, back=True),
    }


def _begin(index: TrailIndex, at: TrailPlace) -> Operation | None:
    """Return the first operation of the transaction that is there, else of the next one."""
    for place, back in ((at.just_after, True), (at, False)):
        found = Search(index, Filters(indicators=BEGINS), place, back=back, rows=1).run()
        for row in found.rows:
            if isinstance(row, Operation):
                full = Search(index, Filters(), row.place, rows=1).run().rows[0]
                return full if isinstance(full, Operation) else row
    return None


def _neighbour(index: TrailIndex, place: TrailPlace | None, *, back: bool = False) -> str:
    """Return the address of the transaction that begins next, or last before; none where there is none."""
    if place is None:
        return ""
    found = Search(index, Filters(indicators=BEGINS), place, back=back, rows=1).run().rows
    return link_to("transaction", at=place_text(found[0].place)) if found else ""


def _duration(rows: tuple[Operation | Unread, ...]) -> int:
    times = [row.time for row in rows if isinstance(row, Operation)]
    return max(0, times[-1] - times[0]) if times else 0


def _longest(index: TrailIndex) -> list[Any]:
    with index.lock:
        kept = index.transactions
        return [*kept.by_operations, *kept.by_duration, *([kept.open] if kept.open else [])]
