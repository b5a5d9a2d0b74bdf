"""What rules found in a batch of messages: places of values in one buffer, one row of numbers a record.

Both ways of reading documents give the same findings: the compiled scanner and the tree. ``Names`` are tables of words that kernels know by number
(``kernels.names``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import distinct
from trailgate.formats.xml.kernels.cells import word_ids
from trailgate.formats.xml.kernels.names import (
    BOUND,
    INFO,
    NAMES,
    POOL,
    POOLED,
    SEEN,
    SIZE,
    USED,
    XML,
    XML_SPACE,
    XMLNS,
    fill_table,
)
from trailgate.formats.xml.kernels.names import SPARE as SPARE_NAMES
from trailgate.formats.xml.kernels.scan import intern


@dataclass(frozen=True, slots=True)
class Places:
    """Where values are; a length below 0 is a value that was not found, ``EMPTY`` where its element has no content."""

    starts: Longs
    lengths: Longs

    def taken(self, rows: Longs) -> Places:
        """Return the places of these rows."""
        return Places(self.starts[rows], self.lengths[rows])

    def text(self, data: Octets) -> pa.Array:
        """Return the values as text, null where none was found."""
        nulls = self.lengths < 0
        starts = np.where(nulls, 0, self.starts)  # what was not found may be at any place
        ends = np.where(nulls, 0, self.starts + self.lengths)
        return gather(data, starts, ends, nulls=nulls, text=True, checked=True)


@dataclass(frozen=True, slots=True)
class Found:
    """Records of one type of rules: ``width`` numbers each, the first of which is the number of the rule.

    ``fields`` has by property where in a record its value's start is; the length follows, below 0 where none was found.
    """

    records: Offsets
    width: int
    fields: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.records) // self.width

    @property
    def rows(self) -> Offsets:
        """Return the records as a matrix, not copied."""
        return self.records.reshape(-1, self.width)

    @property
    def rule(self) -> Longs:
        """Return the rule of each record by number."""
        return self.records[:: self.width].astype(np.int64)

    def places(self, name: str) -> Places | None:
        """Return where the values of a property are, or None where records have no place for them."""
        field = self.fields.get(name)
        return None if field is None else self.places_at(field)

    def places_at(self, field: int) -> Places:
        """Return where the values are that have their start at a field of a record."""
        starts, lengths = (self.records[at :: self.width] for at in (field, field + 1))
        return Places(starts.astype(np.int64), lengths.astype(np.int64))

    def taken(self, rows: Longs) -> Found:
        """Return these records."""
        return replace(self, records=self.rows[rows].reshape(-1))

    def with_fields(self, names: Iterable[str], moved: int) -> Found:
        """Return the same records with places for these properties alone, whose values are ``moved`` in the buffer."""
        fields = {name: 1 + 2 * number for number, name in enumerate(names)}
        rows = np.full((len(self), 1 + 2 * len(fields)), -1, np.int32)
        rows[:, 0] = self.rows[:, 0]
        for name in fields.keys() & self.fields.keys():
            own, field = self.fields[name], fields[name]
            rows[:, field : field + 2] = self.rows[:, own : own + 2]
            rows[:, field] += moved
        return Found(rows.reshape(-1), rows.shape[1], fields)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in the messages of a batch.

    Places are those of ``text``, which is UTF-8, and 64 more bytes that words may be read from.

    ``outer`` are the transactions, and the operations that have others below them; ``above`` is the outer record
    around each, -1 where there is none, ``outer_message`` its message. Operations are in the order of their messages and transactions.
    ``around`` is the outer record around each operation, ``transaction`` that of its transaction. ``start`` and
    ``end`` are its element's bytes in its message. ``operation`` is the operation of a column; they ascend.
    """

    text: Octets
    outer: Found
    above: Longs
    outer_message: Longs
    operations: Found
    message: Longs
    around: Longs
    transaction: Longs
    start: Longs
    end: Longs
    columns: Found
    operation: Longs

    def of(self, numbers: Longs) -> Findings:
        """Return the same findings of messages that have other numbers in their batch."""
        return replace(
            self, message=numbers[self.message], outer_message=numbers[self.outer_message]
        )


def join(first: Findings, second: Findings) -> Findings:
    """Return the findings of two groups of the messages of a batch."""
    outer, operations = len(first.outer), len(first.operations)
    moved = replace(
        second,
        above=_move(second.above, outer),
        around=_move(second.around, outer),
        transaction=_move(second.transaction, outer),
        operation=second.operation + operations,
    )
    size = len(first.text)
    found = Findings(
        text=np.concatenate([first.text, second.text]),
        outer=_one_after_the_other(first.outer, second.outer, size),
        operations=_one_after_the_other(first.operations, second.operations, size),
        columns=_one_after_the_other(first.columns, second.columns, size),
        **{
            name: np.concatenate([getattr(first, name), getattr(moved, name)])
            for name in ("above", "outer_message", *_OF_OPERATIONS, "operation")
        },
    )
    order = np.argsort(found.message, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    of_columns = np.argsort(place[found.operation], kind="stable")
    return replace(
        found,
        operations=found.operations.taken(order),
        columns=found.columns.taken(of_columns),
        operation=place[found.operation][of_columns],
        **{name: getattr(found, name)[order] for name in _OF_OPERATIONS},
    )


_OF_OPERATIONS: Final = ("message", "around", "transaction", "start", "end")


def _move(records: Longs, by: int) -> Longs:
    return np.where(records >= 0, records + by, -1)


def _one_after_the_other(first: Found, second: Found, size: int) -> Found:
    """Return the records of both; ``size`` is that of the first one's text."""
    names = tuple({**first.fields, **second.fields})
    both = (first.with_fields(names, 0), second.with_fields(names, size))
    return replace(both[0], records=np.concatenate([found.records for found in both]))


def cell_bounds(operation: Longs, operations: int) -> Longs:
    """Return where the cells of each operation begin, and the end; ``operation`` has that of each cell, ascending.

    Three operations, of which the first has two cells and the last has one, have the bounds 0, 2, 2 and 3.
    """
    return np.append(0, np.cumsum(np.bincount(operation, minlength=operations)))


MOST: Final = 1 << 13  # words of a table
MOST_GROWN: Final = 1 << 20  # of one that has grown, some 120 MB
AGAIN: Final = "again"  # a field with a bit for each of ``PATHS``, cleared where its path found a further value
PATHS: Final = ("value", "before.value", "after.value", "txowner", "txname")
_POOLED: Final = 32  # bytes of them, each
_LEAST: Final = 64


class Names(NamedTuple):
    """A table of words."""

    table: Offsets
    keys: Words
    info: Longs
    pool: Octets
    used: Longs

    @classmethod
    def empty(cls, most: int = MOST) -> Names:
        """Return a table without words, for so many of them; a power of 2."""
        return cls(
            np.zeros(2 * most, np.int32),
            np.empty(2 * most, np.uint64),
            np.empty(INFO * most, np.int64),
            np.zeros(_POOLED * most, np.uint8),
            np.zeros(USED, np.int64),
        )

    def copied(self) -> Names:
        """Return a table of the same words that can be added to."""
        return self._with_room(len(self.table) // 2)

    def grown(self) -> Names | None:
        """Return a table of the same words with room for eight times as many, at most ``MOST_GROWN``; None for one of these."""
        words = len(self.table) // 2
        most = min(8 * words, MOST_GROWN)
        return self._with_room(most) if most > words else None

    def _with_room(self, most: int) -> Names:
        names, size = int(self.used[NAMES]), int(self.used[POOL])
        more = Names.empty(most)
        more.keys[: 2 * names] = self.keys[: 2 * names]
        more.info[: INFO * names] = self.info[: INFO * names]
        more.pool[:size], more.used[:] = self.pool[:size], self.used
        if len(more.table) == len(self.table):
            more.table[:] = self.table
        else:
            fill_table(more.keys, more.info, names, more.table)
        return more

    def without_prefixes(self) -> None:
        """Bind no prefix to a namespace but the one that is always bound."""
        self.info[BOUND::INFO] = 0
        self.info[XML * INFO + BOUND] = XML_SPACE + 1

    def add(self, word: bytes) -> int:
        """Return the number of a word, added if it is new; negative where there is no room."""
        text = np.frombuffer(word + bytes(SPARE_NAMES), np.uint8)
        return int(intern(text, 0, len(word), *self))

    def seen(self) -> Iterator[str]:
        """Yield the names, without prefix, of elements and attributes that a scan has seen: the first ``MOST``."""
        rows = self.info[: INFO * int(self.used[NAMES])].reshape(-1, INFO)
        for size, start, prefix, local in rows[
            np.flatnonzero(rows[:, SEEN] >= 0)[:MOST], :4
        ].tolist():
            own = (start, size) if prefix < 0 else (rows[local, POOLED], rows[local, SIZE])
            if prefix != XMLNS and own[0] != rows[XMLNS, POOLED]:
                yield self.pool[own[0] : own[0] + own[1]].tobytes().decode()


def numbered_words(text: Octets, found: Found, field: int) -> tuple[Longs, list[str]]:
    """Return the number of each record's word at a field, -1 where it has none, and the words; ``text`` has ``SPARE`` bytes after them."""
    rows = len(found)
    most = min(MOST, 1 << max(_LEAST, rows).bit_length())
    ids, firsts = np.empty(rows, np.int64), np.empty(most, np.int64)
    count = word_ids(text, found.records, found.width, field, ids, firsts, *Names.empty(most))
    if count < 0:  # empty words, or very many
        values = found.places_at(field).text(text)
        codes, words = distinct(values.fill_null(""))
        return np.where(np.asarray(values.is_valid()), codes.astype(np.int64), -1), words
    places = found.rows[firsts[:count], field : field + 2].tolist()
    return ids, [text[start : start + size].tobytes().decode() for start, size in places]
