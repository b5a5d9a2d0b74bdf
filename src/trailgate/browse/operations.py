"""Search operations for the pages: find those that pass filters, after or before a position, page by page.

The index knows which spans may contain matches. Only those are decoded, in columns, and only the
rows of the page are converted to text. A search ends after a fifth of a second, even if the page is
not full, and returns the position at which to continue, so that no page keeps the user waiting.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final
from urllib.parse import quote

import numpy as np
import pyarrow.compute as pc
from markupsafe import escape

from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import IndexSpan, TrailIndex
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.columnar.rows import condition_to_mask
from trailgate.model.changes import ChangeBatch, ChangeBlock, StateColumn
from trailgate.model.positions import long_position, parse_position
from trailgate.model.tables import Column
from trailgate.model.values import formatter_for
from trailgate.storage.files.trail_files import TrailPosition

ROWS: Final = 50  # rows on a page
SECONDS: Final = 0.2  # the time limit of a search
BEGINS: Final = "BW"  # transaction indicators of first operations
ENDS: Final = "EW"
# What keeps a page below 1 MB.
LONGEST: Final = 300  # the most characters shown of a value
COLUMNS: Final = 200  # the most columns shown of an operation
LONGEST_KEY: Final = 1000  # characters of a key in an address
CHARACTERS: Final = 500_000  # characters of HTML of a page's rows, about
MARKUP: Final = 250  # characters of HTML around a value or a row, about


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A column value as a page shows it. ``state`` is "value", "empty", "null", "missing" or "unread".

    The text of an unread value is the problem.
    """

    state: str
    text: str = ""


MISSING: Final = ShownValue("missing")
NULL: Final = ShownValue("null")


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A column of an operation as a page shows it.

    If there is only one value to show, it is ``after``, even for a delete, and ``before`` is None.
    """

    name: str
    after: ShownValue
    before: ShownValue | None = None
    key: bool = False

    @property
    def changed(self) -> bool:
        """Whether an update changed the value of this column, so that a page shows both values."""
        return self.before is not None and self.after is not MISSING

    @property
    def logged(self) -> bool:
        """Whether the operation has a value of the column, before or after."""
        return self.before is not None or self.after is not MISSING


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """An operation as a page shows it. ``time`` is microseconds since 1970.

    ``kind`` is the letter of the operation's type and ``name`` the name of its transaction. With
    ``undone``, a restart of the writer abandoned the transaction.
    """

    place: TrailPosition
    table: str
    kind: str
    time: int
    tx_id: str
    csn: str
    indicator: str
    owner: str
    name: str
    tokens: tuple[tuple[str, str], ...]
    cells: tuple[ShownCell, ...]
    undone: bool = False

    @property
    def key(self) -> str:
        """The row's key after the operation as a JSON array of texts, or "" if it is unknown or too long."""
        cells = [one for one in self.cells if one.key]
        sides = [
            one.before if one.after is MISSING and one.before is not None else one.after
            for one in cells
        ]
        if not sides or any(one.state not in ("value", "empty") for one in sides):
            return ""
        key = json.dumps([one.text for one in sides], ensure_ascii=False, separators=(",", ":"))
        return key if len(key) <= LONGEST_KEY else ""

    @property
    def size(self) -> int:
        """The approximate number of characters of the operation on a page."""
        shown = [cell for cell in self.cells if cell.logged][:COLUMNS]
        texts = [one.text for cell in shown for one in (cell.before, cell.after) if one is not None]
        key = len(quote(self.key)) * sum(cell.key for cell in shown)
        names = sum(len(cell.name) for cell in self.cells[:COLUMNS])
        values = sum(len(escape(text[:LONGEST])) + MARKUP for text in texts)
        return 4 * MARKUP + len(self.tx_id) + names + key + values


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page of operations: matching rows in trail order, and the positions at which the search continues.

    ``after`` and ``before`` are None if there is nothing more in that direction. ``hurried`` is
    True if the time limit ended the search.
    """

    rows: tuple[ShownOperation | UnreadOperations, ...]
    after: TrailPosition | None
    before: TrailPosition | None
    hurried: bool = False


@dataclass(frozen=True, slots=True)
class OperationSearch:
    """A search for one page of operations: the first matches from a position on, or with ``back`` the last matches before it."""

    index: TrailIndex
    filters: OperationFilters
    place: TrailPosition | None = None
    back: bool = False
    rows: int = ROWS
    seconds: float = field(default_factory=lambda: SECONDS)
    damage: bool = False  # whether damaged bytes are shown as rows

    def run(self) -> SearchResult:
        """Search the trail for one page of operations that pass the filters.

        At least one span is searched, even if that takes longer than the limit.
        """
        rows: list[ShownOperation | UnreadOperations] = []
        until = monotonic() + self.seconds
        reached: TrailPosition | None = None
        for number, span in enumerate(self.spans()):
            # number > 0: the first span is always searched
            if number and monotonic() > until:
                reached = span.stop if self.back else span.begin
                break
            matches = self._of_span(span, self.rows - len(rows))
            rows = [*matches, *rows] if self.back else [*rows, *matches]
            if len(rows) >= self.rows:
                break
        result = self._found(tuple(rows), reached)
        return self._shorten(self._with_damage(result) if self.damage else result)

    def _shorten(self, result: SearchResult) -> SearchResult:
        """Remove rows from a page that would have more than ``CHARACTERS``. At least one row is kept."""
        rows = result.rows[::-1] if self.back else result.rows
        sizes = [row.size if isinstance(row, ShownOperation) else MARKUP for row in rows]
        # The number of rows whose sizes together fit: sizes 40 50 30 with room for 100 have the
        # sums 40 90 120, and two fit.
        count = max(1, int(np.searchsorted(np.cumsum(sizes), CHARACTERS, "right")))
        return result if count >= len(rows) else self._cut(result.rows, count)

    def _cut(self, rows: Sequence[ShownOperation | UnreadOperations], count: int) -> SearchResult:
        """Shorten the page to its first ``count`` rows, or with ``back`` to its last ones."""
        if self.back:
            kept = tuple(rows[-count:])
            return SearchResult(kept, self.place, kept[0].place)
        kept = tuple(rows[:count])
        return SearchResult(kept, kept[-1].place.just_after, self.place)

    def _with_damage(self, result: SearchResult) -> SearchResult:
        """Add a row for each run of damaged bytes to the result, even if filters are set.

        It is unknown whether these bytes would match.
        """
        # The range that the found rows cover.
        begin, end = (result.before, self.place) if self.back else (self.place, result.after)
        with self.index.lock:
            lost = [
                UnreadOperations(one.begin, one.sentence)
                for one in self.index.unread
                if (begin is None or one.begin >= begin) and (end is None or one.begin < end)
            ]
        if not lost:
            return result
        rows = sorted([*result.rows, *lost], key=lambda row: row.place)
        if len(rows) <= self.rows:
            return replace(result, rows=tuple(rows))
        # With the damage there are more rows than fit, so the page ends earlier.
        return self._cut(rows, self.rows)

    def _found(
        self, rows: tuple[ShownOperation | UnreadOperations, ...], reached: TrailPosition | None
    ) -> SearchResult:
        # a full page continues at its own edge, a hurried search at the first span it has not read
        full, hurried = len(rows) >= self.rows, reached is not None
        if self.back:
            return SearchResult(
                rows, self.place, reached or (rows[0].place if full else None), hurried
            )
        next_one = rows[-1].place.just_after if full else None
        return SearchResult(rows, reached or next_one, self.place, hurried)

    def spans(self) -> Iterator[IndexSpan]:
        """Yield the index spans in which to search for a page of operations, in the direction of the search."""
        with self.index.lock:
            gone, patterns = self.index.gone, self.filters.tables
            spans = [span for span in self.index.spans if span.number not in gone]
            names = [name for name in self.index.tables if patterns and patterns.fits(name)]
            tables = self.index.bits(names) if patterns else None
        if self.back:
            # keep the spans that begin before the position, last one first
            begins = [span.begin for span in spans]
            spans = spans[: bisect_left(begins, self.place) if self.place else None][::-1]
        elif self.place:
            spans = spans[bisect_right([span.stop for span in spans], self.place) :]
        yield from (span for span in spans if self.filters.may_be_in(span, tables))

    def _of_span(self, span: IndexSpan, rows: int) -> list[ShownOperation | UnreadOperations]:
        """Return the first ``rows`` matching operations of a span of the index, or with ``back`` the last ones, in order."""
        matches: list[ShownOperation | UnreadOperations] = []
        for part in read_span(self.index, span, self.filters.selection, self.place, back=self.back):
            if isinstance(part, UnreadOperations):
                if self.place is None or (part.place < self.place) == self.back:
                    matches.append(part)
            else:
                matches += self._shown(part, rows if self.back else rows - len(matches))
            # Searching back, the whole span is read, because the last matches are wanted.
            if not self.back and len(matches) >= rows:
                break
        return matches[-rows:] if self.back else matches[:rows]

    def _shown(self, batch: ChangeBatch, rows: int) -> list[ShownOperation]:
        keep = np.zeros(batch.rows, bool)
        for block in batch.blocks:
            passed = self.filters.matching(block)
            if self.place:
                compare = pc.less if self.back else pc.greater_equal
                passed &= condition_to_mask(compare(block.position, long_position(*self.place)))
            keep[block.order] = passed
        chosen = np.flatnonzero(keep)
        # drop all but the last (or the first) ``rows`` matches, before values become text
        keep[chosen[:-rows] if self.back else chosen[rows:]] = False
        ordered: list[tuple[int, ShownOperation]] = []
        for block in batch.where(keep).blocks:
            # Blocks are by table: sorting by ``order`` restores the order of the trail across
            # tables.
            ordered += zip(block.order.tolist(), _rows(self.index, block), strict=True)
        return [row for _, row in sorted(ordered, key=lambda one: one[0])]


def _rows(index: TrailIndex, block: ChangeBlock) -> Iterator[ShownOperation]:
    """Convert the operations of a block to rows of a page, with their values as text."""
    images = [
        (
            column,
            _sides(formatter_for(column), before, len(block)),
            _sides(formatter_for(column), after, len(block)),
        )
        for column, before, after in zip(
            block.table.columns, block.before, block.after, strict=True
        )
    ]
    strings = [
        [None] * len(block) if one is None else one.to_pylist()
        for one in (
            block.position,
            block.tx_id,
            block.csn,
            block.tx_owner,
            block.tx_name,
            block.tokens,
        )
    ]
    kinds, indicators = bytes(block.op_type).decode(), bytes(block.tx_ind).decode()
    for row, (position, tx_id, csn, owner, name, tokens) in enumerate(zip(*strings, strict=True)):
        place = TrailPosition(*parse_position(position))
        yield ShownOperation(
            place=place,
            table=block.table.name,
            kind=kinds[row],
            time=int(block.op_ts[row]),
            tx_id=tx_id or "",
            csn=csn or "",
            indicator=indicators[row],
            owner=owner or "",
            name=name or "",
            tokens=tuple((str(key), str(value)) for key, value in tokens or ()),
            cells=tuple(
                show_cell(column, before[row], after[row], kinds[row])
                for column, before, after in images
            ),
            undone=any(begin <= place < end for begin, end in index.undone),
        )


def _sides(convert: object, state: StateColumn, rows: int) -> list[ShownValue]:
    assert callable(convert)
    if state.values is None:
        return [MISSING] * rows
    missing = state.is_missing(rows).tolist()
    problems = [None] * rows if state.problems is None else state.problems.to_pylist()
    return [
        MISSING
        if is_missing
        else show_value(text)
        if problem is None
        else ShownValue("unread", problem)
        for is_missing, text, problem in zip(
            missing, convert(state.values).to_pylist(), problems, strict=True
        )
    ]


def show_value(text: str | None) -> ShownValue:
    """Convert a logged value to a ``ShownValue``. None is NULL."""
    return NULL if text is None else ShownValue("value" if text else "empty", text)


def show_cell(column: Column, before: ShownValue, after: ShownValue, kind: str) -> ShownCell:
    """Build the ``ShownCell`` of a column from its values before and after."""
    name, key = column.name, column.key
    if kind == "D":
        return ShownCell(name, before, key=key)
    if before is MISSING or before == after:
        return ShownCell(name, after, key=key)
    return ShownCell(name, after, before, key)
