"""The history of a row: all operations on it, also under the keys that it had before and after key updates.

A row is identified by its key at a position. Starting there, key updates of its table are followed:
back to the keys that it had before, and on to the keys that it got later. Each key identifies the
row only between the positions at which the row had it, because at other times another row may have
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from threading import Lock
from time import monotonic
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from trailgate.browse.filters import OperationFilters, RowKey, RowKeys, key_columns, key_texts
from trailgate.browse.index import TrailIndex
from trailgate.browse.matches import LatestResults
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.pages import Query, link_to, parse_place, place_text
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.columnar.rows import condition_to_mask
from trailgate.errors import OptionError
from trailgate.model.changes import ChangeBlock
from trailgate.model.positions import parse_position
from trailgate.model.table_names import TablePatterns
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.trail.reading.images import ReadSelection

SECONDS: Final = 0.5  # the time that a request looks for key updates


class KeyUpdate(NamedTuple):
    """An operation that changed a row's key, with the keys before and after."""

    place: TrailPosition
    before: tuple[str, ...]
    after: tuple[str, ...]


def _read_query(index: TrailIndex, query: Query) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Parse the address of a row's history: the table, the values of the row's key, and the names of the key's columns.

    Raises OptionError if the trail has no such table, or if the table has no such key.
    """
    table = query.get("table", "")
    with index.lock:
        totals = index.tables.get(table)
        versions = [one for _, one in totals.versions] if totals is not None else []
    if totals is None:
        raise OptionError(f"the trail has no table {table!r}", hint="The overview lists them")
    if not versions:
        versions = [one for one in index.definitions if one.name == table]
    columns = tuple(column.name for one in versions[-1:] for column in one.columns if column.key)
    if not columns:
        raise OptionError(f"the key of {table} is not known, so its rows have no history")
    if "key" not in query:
        problem = f"the address has no key of a row of {table}"
        raise OptionError(problem, hint='For example key=1003, or key=["1003","A"]')
    text = query["key"]
    try:
        # Numbers stay as they are written.
        key = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        key = text
    if not isinstance(key, list):
        key = [text]
    if len(key) != len(columns):
        raise OptionError(
            f"the key of {table} has {len(columns)} columns ({', '.join(columns)}), not {len(key)}",
            hint='For example key=["1003","A"]',
        )
    if not all(map(_is_text, key)):
        raise OptionError(
            f"the key {text} has a value that is neither a text nor a number",
            hint="Use the filters of the operations to find rows whose key is NULL",
        )
    return table, tuple(key), columns


def _is_text(value: object) -> bool:
    """Return whether a JSON value is valid text.

    A lone surrogate, which is half of a character, is not.
    """
    return isinstance(value, str) and not any("\ud800" <= one <= "\udfff" for one in value)


@dataclass(slots=True)
class KeyUpdates:
    """The key updates of a table, in trail order, as far as the trail was searched (``reached``)."""

    table: str
    found: list[KeyUpdate] = field(default_factory=list)
    reached: TrailPosition | None = None
    lock: Lock = field(default_factory=Lock)

    def read_on(self, index: TrailIndex, columns: tuple[str, ...], seconds: float) -> None:
        """Search further spans for key updates for about ``seconds``, but at least one span."""
        until = monotonic() + seconds
        # Key updates are updates whose two keys differ; not every writer gives them a type of their own.
        filters = OperationFilters(tables=TablePatterns.exactly(self.table), kinds="UK")
        names = frozenset(map(str.casefold, columns))
        wanted = ReadSelection(filters.tables, columns=names, tokens=False, lenient=True)
        with self.lock:
            with index.lock:
                end = index.spans[-1].stop if index.spans else None
            for number, span in enumerate(OperationSearch(index, filters, self.reached).spans()):
                if number and monotonic() > until:
                    self.reached = span.begin
                    return
                for part in read_span(index, span, wanted):
                    if not isinstance(part, UnreadOperations):
                        updates = (_key_updates_of(one, columns) for one in part.blocks)
                        # Blocks are by table and type of operation. A ``KeyUpdate`` begins with its
                        # position, so sorting restores the order of the trail.
                        self.found += sorted(chain.from_iterable(updates))
                self.reached = span.stop
            # Spans that were indexed meanwhile may have been searched too.
            self.reached = max(filter(None, (self.reached, end)), default=None)


KeyUpdateLists = LatestResults[str, KeyUpdates]


def _key_updates_of(block: ChangeBlock, columns: tuple[str, ...]) -> Iterator[KeyUpdate]:
    """Yield the key updates in a block: the operations whose keys before and after differ.

    ``columns`` are the names of the key's columns. A block whose table has another key is skipped.
    """
    before, after = key_texts(block, block.before), key_texts(block, block.after)
    names = tuple(column.name for column in key_columns(block))
    if before is None or after is None or names != columns:
        return
    differs = np.zeros(len(block), bool)
    for old, new in zip(before, after, strict=True):
        # A column that is null in one image is not logged there, so it did not change.
        differs |= condition_to_mask(pc.not_equal(old, new))
    for row in np.flatnonzero(differs).tolist():
        old_key = tuple(text[row].as_py() for text in before)
        new_key = tuple(
            old if (new := text[row].as_py()) is None else new
            for text, old in zip(after, old_key, strict=True)
        )
        yield KeyUpdate(
            TrailPosition(*parse_position(block.position[row].as_py())), old_key, new_key
        )


def follow_keys(
    updates: Sequence[KeyUpdate], key: tuple[str, ...], at: TrailPosition | None
) -> list[RowKey]:
    """Return all keys, in order, of the row that has ``key`` at a position.

    ``updates`` are the key updates in the order of the trail. With 1 -> 2 at A and 2 -> 3 at B,
    the row that has 2 between A and B had 1 up to A, 2 from A to B, and 3 from B on. A row with
    key 2 before A or after B is a different row. Without a position, ``key`` has no bounds in the
    result, which therefore covers every row that ever had it; the other keys belong to the last row
    that got this key.
    """
    earlier, begin = _keys_before(updates, key, at)
    later, end = _keys_after(updates, key, at or begin)
    own = RowKey(key) if at is None else RowKey(key, begin, end)
    return [*earlier, own, *later]


def _keys_before(
    updates: Sequence[KeyUpdate], key: tuple[str, ...], at: TrailPosition | None
) -> tuple[list[RowKey], TrailPosition | None]:
    """Return the keys that the row had before ``key``, and the position at which it got ``key``.

    The position is None if the row had the key from the trail's beginning on.
    """
    found: list[RowKey] = []
    begins: list[TrailPosition | None] = []
    end = at
    for one in reversed(updates):
        if end is not None and one.place > end:
            continue
        if one.after == key:
            found.append(RowKey(one.before, end=one.place))
            begins.append(one.place)
            key, end = one.before, one.place
        elif one.before == key and end is not None and one.place < end:
            # Here the row that had this key before got another one.
            begins.append(one.place.just_after)
            break
    begins.append(None)
    keys = [one._replace(begin=begin) for one, begin in zip(found, begins[1:], strict=False)]
    return keys[::-1], begins[0]


def _keys_after(
    updates: Sequence[KeyUpdate], key: tuple[str, ...], at: TrailPosition | None
) -> tuple[list[RowKey], TrailPosition | None]:
    """Return the keys that the row got after ``key``, and the position up to which it had ``key``.

    The position is None if the row had the key up to the trail's end.
    """
    found: list[RowKey] = []
    ends: list[TrailPosition | None] = []
    begin = at
    for one in updates:
        if begin is not None and one.place < begin:
            continue
        if one.before == key:
            found.append(RowKey(one.after, begin=one.place))
            ends.append(one.place)
            key, begin = one.after, one.place
        elif one.after == key and begin is not None and one.place > begin:
            # Here another row gets this key, so that this one is gone.
            ends.append(TrailPosition(one.place.number, one.place.offset - 1))
            break
    ends.append(None)
    keys = [one._replace(end=end) for one, end in zip(found, ends[1:], strict=False)]
    return keys, ends[0]


def history_page(index: TrailIndex, query: Query, lists: KeyUpdateLists) -> dict[str, Any]:
    """Return the template values for the page of a row's history.

    Raises OptionError if the address names no row.
    """
    table, key, columns = _read_query(index, query)
    updates = lists.of(index, table)
    if not index.ends_at(updates.reached):
        updates.read_on(index, columns, SECONDS)
    keys = follow_keys(updates.found, key, parse_place(query.get("at", "")))
    filters = OperationFilters(
        tables=TablePatterns.exactly(table), keys=RowKeys(columns, tuple(keys))
    )
    result = OperationSearch(index, filters, parse_place(query.get("rows", "")), damage=True).run()
    place = result.after
    named = {name: query[name] for name in ("table", "key", "at") if name in query}
    return {
        "table": table,
        "followed": index.ends_at(updates.reached),
        "followed_share": index.share_before(updates.reached) if updates.reached else 0.0,
        "key": list(zip(columns, key, strict=True)),
        "others": [", ".join(one.values) for one in keys if one.values != key],
        "rows": result.rows,
        "hurried": result.hurried,
        "share": index.share_before(place) if place else 1.0,
        "next_page": link_to("row", **named, rows=place_text(place)) if place else "",
        "table_page": link_to("table", name=table),
    }
