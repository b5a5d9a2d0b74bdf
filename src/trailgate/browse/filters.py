"""The filters of operations: conditions in a page's address, tested on whole columns of operations.

Two steps keep a search fast. ``may_be_in`` excludes complete spans of the trail, because the
index's summary of the span shows that none of its operations can match; ``matching`` tests the
operations of the other spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.browse.index import KINDS, NO_KIND, VERSIONS, IndexSpan, TrailIndex
from trailgate.columnar.rows import condition_to_mask
from trailgate.errors import OptionError, did_you_mean
from trailgate.model.changes import ChangeBlock, StateColumn
from trailgate.model.csns import above_csn, below_csn, check_csn
from trailgate.model.positions import long_position
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Column
from trailgate.model.values import formatter_for
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.trail.reading.images import ReadSelection

OTHER_KINDS: Final = 1 << NO_KIND  # the bit of unknown operation types

CONTAINS, EQUALS, NULL, MISSING = "contains", "equals", "null", "missing"
EXACTLY: Final = "="  # before a table's name: this table, and no pattern
MATCHES: Final = (CONTAINS, EQUALS, NULL, MISSING)  # how a value can be compared
LISTED: Final = 12  # columns in an error


class RowKey(NamedTuple):
    """The key values of a row as text, and the first and last position at which the row had this key.

    None stands for the trail's beginning or end.
    """

    values: tuple[str, ...]
    begin: TrailPosition | None = None
    end: TrailPosition | None = None


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of one row over time, and the names of the key's columns."""

    columns: tuple[str, ...]
    keys: tuple[RowKey, ...]

    def mask_operations(self, block: ChangeBlock) -> Mask:
        """Filter a block's operations by this row: return a mask of those on it.

        An operation is on the row if its key, before or after, is a key that the row had at the
        position of the operation.
        """
        found = np.zeros(len(block), bool)
        # The table was redefined with another key: its rows cannot be compared with these keys.
        if tuple(column.name for column in key_columns(block)) != self.columns:
            return found
        for image in (block.before, block.after):
            texts = key_texts(block, image)
            # A row has each key only for a time: another row may have had the same key before or
            # after it.
            for key in self.keys if texts is not None else ():
                held = np.ones(len(block), bool)
                for text, value in zip(texts or (), key.values, strict=True):
                    held &= condition_to_mask(pc.equal(text, value))
                if key.begin is not None:
                    held &= condition_to_mask(
                        pc.greater_equal(block.position, long_position(*key.begin))
                    )
                if key.end is not None:
                    held &= condition_to_mask(
                        pc.less_equal(block.position, long_position(*key.end))
                    )
                found |= held
        return found


def key_columns(block: ChangeBlock) -> tuple[Column, ...]:
    """Return the key columns of a block's table, by which a page filters or follows rows, or () if it has no key."""
    return tuple(column for column in block.table.columns if column.key)


def key_texts(block: ChangeBlock, image: tuple[StateColumn, ...]) -> tuple[pa.Array, ...] | None:
    """Return the text of each key column in an image, to compare with the key in a filter. It is null in rows that do not log the column.

    Returns None if a key column is missing in every row, or if the table has no key.
    """
    texts = []
    for column, state in zip(block.table.columns, image, strict=True):
        if not column.key:
            continue
        if state.values is None:
            return None
        missing = pa.array(state.is_missing(len(block)))
        text = formatter_for(column)(state.values)
        texts.append(pc.if_else(missing, pa.scalar(None, text.type), text))
    return tuple(texts) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFilters:
    """The filters of operations in a page's address.

    Times are microseconds since 1970, and both bounds are included. ``kinds`` are letters of
    operation types, such as "IU". Text filters that are "" and filters that are None exclude
    nothing. ``column``, ``match`` and ``text`` are one filter, of values; without ``column`` all
    are searched.
    """

    tables: TablePatterns | None = None
    kinds: str = ""
    from_time: int | None = None
    to_time: int | None = None
    tx: str = ""
    from_csn: str = ""
    to_csn: str = ""
    owner: str = ""
    token: str = ""
    column: str = ""
    match: str = CONTAINS  # how a value is compared with ``text``, one of MATCHES
    text: str = ""
    keys: RowKeys | None = None
    indicators: str = ""  # transaction indicators, for example BW for first operations

    @classmethod
    def of(cls, query: Mapping[str, str], csn: str) -> Self:
        """Parse the filters of operations in a page's address. Raises OptionError if they are invalid.

        ``csn`` is a CSN of the trail, or "" if none is known. CSNs that cannot be compared with it
        are invalid.
        """
        # Both "I,U" and "IU" are accepted.
        kinds = "".join(query.get("kinds", "").upper().split(","))
        if not set(kinds) <= set(KINDS):
            raise OptionError(f"kinds={kinds!r} may contain only the letters {KINDS}")
        match = query.get("match") or CONTAINS
        if match not in MATCHES:
            raise OptionError(f"match={match!r} is not one of {', '.join(MATCHES)}")
        if match == CONTAINS and query.get("column") and not query.get("text"):
            raise OptionError("a column needs a text to search for")
        if match == MISSING and not query.get("column"):
            raise OptionError("match=missing needs a column")
        for name in ("from_csn", "to_csn"):
            if query.get(name):
                check_csn(name, query[name], csn)
        return cls(
            tables=_tables(query.get("table", "")),
            kinds=kinds,
            from_time=_time(query.get("from_time", "")),
            to_time=_time(query.get("to_time", "")),
            tx=query.get("tx", ""),
            from_csn=query.get("from_csn", ""),
            to_csn=query.get("to_csn", ""),
            owner=query.get("owner", ""),
            token=query.get("token", ""),
            column=query.get("column", ""),
            match=match,
            text=query.get("text", ""),
        )

    @property
    def selection(self) -> ReadSelection:
        """The parts of operations that must be decoded for the filters and the page."""
        # A search for transactions shows no values, so no column is decoded.
        columns = frozenset[str]() if self.indicators else None
        return ReadSelection(self.tables, columns=columns, lenient=True)

    @property
    def tested(self) -> ReadSelection:
        """The parts of operations that must be decoded to test the filters."""
        columns: frozenset[str] | None = frozenset()
        if self.keys is not None:
            columns = frozenset(map(str.casefold, self.keys.columns))
        if self._has_value_test:
            # A value that is sought in any column needs all of them (None).
            columns = (columns or frozenset()) | {self.column.casefold()} if self.column else None
        return ReadSelection(self.tables, columns=columns, lenient=True)

    @property
    def _has_value_test(self) -> bool:
        return bool(self.text) or self.match != CONTAINS

    def may_be_in(self, span: IndexSpan, tables: int | None) -> bool:
        """Return whether a span of the index may contain matching operations, without decoding it.

        ``tables`` are the bits of the chosen tables (``TrailIndex.bits``), or None for all tables.
        """
        earliest, latest = span.times
        kinds = sum(1 << KINDS.index(kind) for kind in self.kinds)
        first, last = span.csns or (None, None)
        # Each line rules a span out by its ranges or bits. Unknown operation types may be any type.
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

    def matching(self, block: ChangeBlock) -> Mask:
        """Return a mask of a block's operations that pass the filters."""
        rows, keys, earliest, latest = len(block), self.keys, self.from_time, self.to_time
        # Each row: whether the filter is set, and its test. Values are the slowest, so they are last.
        tests: tuple[tuple[object, Callable[[], Mask]], ...] = (
            (self.kinds, lambda: _is_one_of(block.op_type, self.kinds)),
            (self.indicators, lambda: _is_one_of(block.tx_ind, self.indicators)),
            (earliest is not None, lambda: block.op_ts >= (earliest or 0)),
            (latest is not None, lambda: block.op_ts <= (latest or 0)),
            (self.tx, lambda: condition_to_mask(pc.equal(block.tx_id, self.tx))),
            (self.from_csn, lambda: ~condition_to_mask(below_csn(block.csn, self.from_csn))),
            (self.to_csn, lambda: ~condition_to_mask(above_csn(block.csn, self.to_csn))),
            (self.owner, lambda: _is_equal(block.tx_owner, rows, self.owner)),
            (self.token, lambda: _has_token(block.tokens, rows, self.token)),
            (keys, lambda: np.zeros(rows, bool) if keys is None else keys.mask_operations(block)),
            (self._has_value_test, lambda: self._has_value(block)),
        )
        passing = np.ones(rows, bool)
        for is_set, test in tests:
            # No test is made after the last row is ruled out.
            if is_set and passing.any():
                passing &= test()
        return passing

    def _has_value(self, block: ChangeBlock) -> Mask:
        """Return a mask of the operations that pass the filter of values, before or after.

        Only the chosen column is searched, or all columns if none is chosen. A value that cannot be
        decoded counts as a match.
        """
        found = np.zeros(len(block), bool)
        wanted = self.column.casefold()
        for column, *images in zip(block.table.columns, block.before, block.after, strict=True):
            if wanted and column.name.casefold() != wanted:
                continue
            if self.match == MISSING:
                found |= images[0].is_missing(len(block)) & images[1].is_missing(len(block))
                continue
            for image in images:
                if image.values is not None:
                    found |= self._matches(column, image, len(block))
                if image.problems is not None:  # an unreadable value may be the wanted one
                    found |= condition_to_mask(image.problems.is_valid())
        return found

    def _matches(self, column: Column, image: StateColumn, rows: int) -> Mask:
        """Return a mask of the rows whose value of a column, in one image, matches the filter of values."""
        logged = ~image.is_missing(rows)
        if self.match == NULL:
            return logged & condition_to_mask(pc.is_null(image.values))
        text = formatter_for(column)(image.values)
        if self.match == EQUALS:
            return logged & condition_to_mask(pc.equal(text, self.text))
        # A missing value is null in ``values``, and null matches nothing.
        return condition_to_mask(pc.match_substring(text, self.text, ignore_case=True))


def filters_of(index: TrailIndex, query: Mapping[str, str]) -> OperationFilters:
    """Parse the filters in a page's address, and check that the column of the filter exists.

    Raises OptionError if they are invalid, or if none of the chosen tables has the column.
    """
    filters = OperationFilters.of(query, index.known_csn)
    known = _columns_of(index, filters.tables) if filters.column else None
    if known and filters.column.casefold() not in map(str.casefold, known):
        tables = "the trail" if filters.tables is None else "the trail that the filter chooses"
        shown = ", ".join(known[:LISTED]) + (", ..." if len(known) > LISTED else "")
        raise OptionError(
            f"no table of {tables} has a column {filters.column!r}",
            hint=did_you_mean(filters.column, known) or f"There are {shown}",
        )
    return filters


def _columns_of(index: TrailIndex, tables: TablePatterns | None) -> list[str] | None:
    """Return the names of the columns of the chosen tables, or None if some may be unknown.

    Some may be unknown while the trail is still being read, if a table has no definition, or if a
    table has more definitions than the index keeps.
    """
    with index.lock:
        totals = [one for name, one in index.tables.items() if tables is None or tables.fits(name)]
        versions = {one.name: [table for _, table in one.versions] for one in totals}
        done = index.done
    for table in index.definitions:
        if table.name in versions:
            versions[table.name].append(table)
    if not done or not all(0 < len(one) < VERSIONS for one in versions.values()):
        return None
    columns = (
        column.name for one in versions.values() for table in one for column in table.columns
    )
    return list(dict.fromkeys(columns))


def _is_true(compare: object, one: str, bound: str) -> bool:
    assert callable(compare)
    return bool(compare(pa.array([one]), bound)[0].as_py())


def exact_table_filter(name: str) -> str:
    """Return the text of the table filter in a page's address that matches exactly one table, even if its name contains wildcards such as ``*``."""
    return EXACTLY + name


def _tables(text: str) -> TablePatterns | None:
    if text.startswith(EXACTLY):
        return TablePatterns.exactly(text.removeprefix(EXACTLY))
    return TablePatterns.read(text) if text else None


def _time(text: str) -> int | None:
    """Parse a time of the filters as microseconds since 1970, or return None for an empty text.

    A time without a zone is in UTC. Raises OptionError if the text is not an ISO time.
    """
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is not a time"
        raise OptionError(problem, hint="For example 2026-07-01 12:30:00, in UTC") from None
    at = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _is_one_of(codes: Octets, letters: str) -> Mask:
    return np.isin(codes, np.frombuffer(letters.encode(), np.uint8))


def _is_equal(values: pa.Array | None, rows: int, wanted: str) -> Mask:
    """Return a mask of the rows whose value is ``wanted``. If there is no such column (None), no row is selected."""
    return np.zeros(rows, bool) if values is None else condition_to_mask(pc.equal(values, wanted))


def _has_token(tokens: pa.Array | None, rows: int, wanted: str) -> Mask:
    """Return a mask of the operations with the ``wanted`` token, ignoring case.

    ``NAME=TEXT`` selects tokens of this name whose value contains the text. ``TEXT`` without "="
    selects tokens with this name, or with a value that contains the text.
    """
    if tokens is None:
        return np.zeros(rows, bool)
    name, equals, value = wanted.partition("=")
    named = pc.equal(pc.utf8_upper(tokens.keys), name.strip().upper())
    if equals:
        hits = pc.and_(named, pc.match_substring(tokens.items, value.strip(), ignore_case=True))
    else:
        hits = pc.or_(named, pc.match_substring(tokens.items, wanted, ignore_case=True))
    # The hits before each row's first and last token differ where the row has one.
    before = np.concatenate(([0], np.cumsum(condition_to_mask(hits))))
    offsets = tokens.offsets.to_numpy()
    found: Mask = before[offsets[1:]] > before[offsets[:-1]]
    return found
