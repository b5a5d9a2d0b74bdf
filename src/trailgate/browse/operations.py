"""Operations as the pages show them: those that pass filters, from a place on or before one, a page at a time.

The index knows which spans may have what is sought; only those are read, in whole columns, and only the rows of the page become text. A search ends after
a fifth of a second, whatever it has found, with the place at which it continues: a page is never waited for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.browse.index import KINDS, NO_KIND, Span, TrailIndex
from trailgate.browse.spans import Unread, read_span
from trailgate.columnar.digits import long_position, parse_position
from trailgate.errors import OptionError
from trailgate.model.changes import ChangeBatch, ChangeBlock, StateColumn
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Column
from trailgate.model.values import formatter_for
from trailgate.storage.files.trail_files import TrailPlace
from trailgate.storage.reading.options import above_csn, below_csn
from trailgate.trail.reading.images import Wanted

ROWS: Final = 100  # of a page
SECONDS: Final = 0.2  # of a search
OTHER_KINDS: Final = 1 << NO_KIND
BEGINS: Final = "BW"  # transaction indicators of first operations
ENDS: Final = "EW"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What operations must be to be shown; times are microseconds since 1970, both bounds included."""

    tables: TablePatterns | None = None
    kinds: str = ""
    from_time: int | None = None
    to_time: int | None = None
    tx: str = ""
    from_csn: str = ""
    to_csn: str = ""
    column: str = ""
    text: str = ""
    indicators: str = ""  # of first operations: B, W

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Return the filters of an address; raises OptionError for those that are not understood."""
        kinds = "".join(query.get("kinds", "").upper().split(","))
        if not set(kinds) <= set(KINDS):
            raise OptionError(f"kinds={kinds!r} is not some of the letters {KINDS}")
        if query.get("column") and not query.get("text"):
            raise OptionError("a column is searched for a text, and there is none")
        return cls(
            tables=TablePatterns.read(query["table"]) if query.get("table") else None,
            kinds=kinds,
            from_time=_time(query.get("from_time", "")),
            to_time=_time(query.get("to_time", "")),
            tx=query.get("tx", ""),
            from_csn=query.get("from_csn", ""),
            to_csn=query.get("to_csn", ""),
            column=query.get("column", ""),
            text=query.get("text", ""),
        )

    @property
    def wanted(self) -> Wanted:
        """Return what of operations is decoded to find those that pass."""
        columns = frozenset[str]() if self.indicators else None
        return Wanted(self.tables, columns=columns, lenient=True)

    def may_be_in(self, span: Span, tables: int | None) -> bool:
        """Return whether a span may have operations that pass; ``tables`` are the bits of those asked for."""
        earliest, latest = span.times
        kinds = sum(1 << KINDS.index(kind) for kind in self.kinds)
        first, last = span.csns or (None, None)
        return bool(
            span.operations
            and (span.begins or not self.indicators)
            and (tables is None or span.tables & tables)
            and (not kinds or span.kinds & (kinds | OTHER_KINDS))
            and (self.from_time is None or latest >= self.from_time)
            and (self.to_time is None or earliest <= self.to_time)
            and not (self.from_csn and last and _is_true(below_csn, last, self.from_csn))
            and not (self.to_csn and first and _is_true(above_csn, first, self.to_csn))
        )

    def passed(self, block: ChangeBlock) -> Mask:
        """Return which operations of a block pass."""
        found = np.ones(len(block), bool)
        if self.kinds:
            found &= np.isin(block.op_type, np.frombuffer(self.kinds.encode(), np.uint8))
        if self.indicators:
            found &= np.isin(block.tx_ind, np.frombuffer(self.indicators.encode(), np.uint8))
        if self.from_time is not None:
            found &= block.op_ts >= self.from_time
        if self.to_time is not None:
            found &= block.op_ts <= self.to_time
        if self.tx:
            found &= _mask(pc.equal(block.tx_id, self.tx))
        if self.from_csn:
            found &= _mask(pc.invert(below_csn(block.csn, self.from_csn)))
        if self.to_csn:
            found &= _mask(pc.invert(above_csn(block.csn, self.to_csn)))
        if self.text and found.any():
            found &= self._has_text(block)
        return found

    def _has_text(self, block: ChangeBlock) -> Mask:
        """Return which operations have the text in the column, or in any one, before or after."""
        found = np.zeros(len(block), bool)
        wanted = self.column.casefold()
        for column, *states in zip(block.table.columns, block.before, block.after, strict=True):
            if wanted and column.name.casefold() != wanted:
                continue
            for state in states:
                if state.values is not None:
                    text = formatter_for(column)(state.values)
                    found |= _mask(pc.match_substring(text, self.text, ignore_case=True))
                if state.problems is not None:  # it may have the text
                    found |= _mask(state.problems.is_valid())
        return found


def _mask(values: pa.Array) -> Mask:
    found: Mask = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
    return found


def _is_true(compare: object, one: str, bound: str) -> bool:
    assert callable(compare)
    return bool(compare(pa.array([one]), bound)[0].as_py())


def _time(text: str) -> int | None:
    """Return a time as microseconds since 1970; None for no text. Raises OptionError."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is not a time"
        raise OptionError(problem, hint="As in 2026-07-01 12:30:00, in UTC") from None
    at = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def place_of(text: str) -> TrailPlace | None:
    """Return the place that an address names; None for none. Raises OptionError."""
    return TrailPlace(*parse_position(text)) if text else None


@dataclass(frozen=True, slots=True)
class Side:
    """A value as it is shown: ``state`` is value, empty, null, missing or unread. Of an unread value ``text`` is the problem."""

    state: str
    text: str = ""


MISSING: Final = Side("missing")
NULL: Final = Side("null")


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of an operation; ``before`` is None where there is one value alone."""

    name: str
    after: Side
    before: Side | None = None
    key: bool = False

    @property
    def changed(self) -> bool:
        """Return whether an update changed the value."""
        return self.before is not None and self.after is not MISSING

    @property
    def logged(self) -> bool:
        """Return whether the operation has a value of the column, before or after."""
        return self.before is not None or self.after is not MISSING


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as it is shown; ``time`` is microseconds since 1970."""

    place: TrailPlace
    table: str
    kind: str
    time: int
    tx_id: str
    csn: str
    indicator: str
    owner: str
    name: str
    tokens: tuple[tuple[str, str], ...]
    cells: tuple[Cell, ...]
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to: rows in the trail's order, and where it continues; None where there is nothing more in that direction.

    ``hurried``: it ended for its time and not for its rows.
    """

    rows: tuple[Operation | Unread, ...]
    after: TrailPlace | None
    before: TrailPlace | None
    hurried: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """What is sought: operations that pass filters, the first ones from a place on, or with ``back`` the last ones before it."""

    index: TrailIndex
    filters: Filters
    place: TrailPlace | None = None
    back: bool = False
    rows: int = ROWS
    seconds: float = field(default_factory=lambda: SECONDS)
    damage: bool = False  # whether bytes that are not records are rows too

    def run(self) -> Found:
        """Return what is found in so many seconds, and no less than one span has."""
        found: list[Operation | Unread] = []
        until = monotonic() + self.seconds
        reached: TrailPlace | None = None
        for number, span in enumerate(self.spans()):
            if number and monotonic() > until:
                reached = span.stop if self.back else span.begin
                break
            own = self._of_span(span, self.rows - len(found))
            found = [*own, *found] if self.back else [*found, *own]
            if len(found) >= self.rows:
                break
        result = self._found(tuple(found), reached)
        return self._with_damage(result) if self.damage else result

    def _with_damage(self, found: Found) -> Found:
        """Return what was found with a row for each run of bytes that are not records, filtered or not: nobody knows what they were."""
        begin, end = (found.before, self.place) if self.back else (self.place, found.after)
        with self.index.lock:
            lost = [
                Unread(one.begin, one.sentence)
                for one in self.index.unread
                if (begin is None or one.begin >= begin) and (end is None or one.begin < end)
            ]
        if not lost:
            return found
        rows = sorted([*found.rows, *lost], key=lambda row: row.place)
        if len(rows) <= self.rows:
            return replace(found, rows=tuple(rows))
        if self.back:
            rows = rows[-self.rows :]
            return Found(tuple(rows), self.place, rows[0].place)
        rows = rows[: self.rows]
        return Found(tuple(rows), rows[-1].place.just_after, self.place)

    def _found(self, rows: tuple[Operation | Unread, ...], reached: TrailPlace | None) -> Found:
        full, hurried = len(rows) >= self.rows, reached is not None
        if self.back:
            return Found(rows, self.place, reached or (rows[0].place if full else None), hurried)
        next_one = rows[-1].place.just_after if full else None
        return Found(rows, reached or next_one, self.place, hurried)

    def spans(self) -> Iterator[Span]:
        """Yield the spans that may have what is sought, in the direction of the search."""
        with self.index.lock:
            gone, patterns = self.index.gone, self.filters.tables
            spans = [span for span in self.index.spans if span.number not in gone]
            names = [name for name in self.index.tables if patterns and patterns.fits(name)]
            tables = self.index.bits(names) if patterns else None
        if self.back:
            begins = [span.begin for span in spans]
            spans = spans[: bisect_left(begins, self.place) if self.place else None][::-1]
        elif self.place:
            spans = spans[bisect_right([span.stop for span in spans], self.place) :]
        yield from (span for span in spans if self.filters.may_be_in(span, tables))

    def _of_span(self, span: Span, rows: int) -> list[Operation | Unread]:
        """Return the first or the last operations of a span that are sought, in their order."""
        found: list[Operation | Unread] = []
        for part in read_span(self.index, span, self.filters.wanted):
            if isinstance(part, Unread):
                if self.place is None or (part.place < self.place) == self.back:
                    found.append(part)
            else:
                found += self._shown(part, rows if self.back else rows - len(found))
            if not self.back and len(found) >= rows:
                break
        return found[-rows:] if self.back else found[:rows]

    def _shown(self, batch: ChangeBatch, rows: int) -> list[Operation]:
        keep = np.zeros(batch.rows, bool)
        for block in batch.blocks:
            own = self.filters.passed(block)
            if self.place:
                compare = pc.less if self.back else pc.greater_equal
                own &= _mask(compare(block.position, long_position(*self.place)))
            keep[block.order] = own
        chosen = np.flatnonzero(keep)
        keep[chosen[:-rows] if self.back else chosen[rows:]] = False
        found: list[tuple[int, Operation]] = []
        for block in batch.where(keep).blocks:
            found += zip(block.order.tolist(), _rows(self.index, block), strict=True)
        return [row for _, row in sorted(found, key=lambda one: one[0])]


def _rows(index: TrailIndex, block: ChangeBlock) -> Iterator[Operation]:
    """Yield operations with their values as text."""
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
        place = TrailPlace(*parse_position(position))
        yield Operation(
            place,
            block.table.name,
            kinds[row],
            int(block.op_ts[row]),
            tx_id or "",
            csn or "",
            indicators[row],
            owner or "",
            name or "",
            tuple((str(key), str(value)) for key, value in tokens or ()),
            tuple(
                cell_of(column, before[row], after[row], kinds[row])
                for column, before, after in images
            ),
            undone=any(begin <= place < end for begin, end in index.undone),
        )


def _sides(convert: object, state: StateColumn, rows: int) -> list[Side]:
    assert callable(convert)
    if state.values is None:
        return [MISSING] * rows
    missing = state.is_missing(rows).tolist()
    problems = [None] * rows if state.problems is None else state.problems.to_pylist()
    return [
        MISSING if gone else side_of(text) if problem is None else Side("unread", problem)
        for gone, text, problem in zip(
            missing, convert(state.values).to_pylist(), problems, strict=True
        )
    ]


def side_of(text: str | None) -> Side:
    """Return a value that is logged as it is shown; None is NULL."""
    return NULL if text is None else Side("value" if text else "empty", text)


def cell_of(column: Column, before: Side, after: Side, kind: str) -> Cell:
    """Return a column of an operation of a kind, with one value or both."""
    name, key = column.name, column.key
    if kind == "D":
        return Cell(name, before, key=key)
    if before is MISSING or before == after:
        return Cell(name, after, key=key)
    return Cell(name, after, before, key)
