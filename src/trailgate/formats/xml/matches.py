"""The matches of XML rules in a batch: a row of integers per match, with spans of its values.

All spans refer to one buffer. The compiled scanner and the tree matcher return the same
`RuleMatches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import encode_distinct
from trailgate.formats.xml.kernels.match_records import word_ids
from trailgate.formats.xml.name_table import MOST, NameTable

_OF_OPERATIONS: Final = ("message", "around", "transaction", "start", "end")
# A field with a bit for each of PATHS, cleared if its path found another value.
AGAIN: Final = "again"
PATHS: Final = ("value", "before.value", "after.value", "txowner", "txname")
_LEAST: Final = 64


@dataclass(frozen=True, slots=True)
class ValueSpans:
    """Byte spans of the values that XML rules found.

    A negative length means that no value was found; the length `EMPTY` is an element without
    content.
    """

    starts: Longs
    lengths: Longs

    def take(self, rows: Longs) -> ValueSpans:
        """Return the value spans of the given match records."""
        return ValueSpans(self.starts[rows], self.lengths[rows])

    def text(self, data: Octets) -> pa.Array:
        """Return the values of XML rules that the spans select as text, null if none was found."""
        nulls = self.lengths < 0
        starts = np.where(nulls, 0, self.starts)  # without a value, the start is undefined
        ends = np.where(nulls, 0, self.starts + self.lengths)
        return gather(data, starts, ends, nulls=nulls, text=True, checked=True)


@dataclass(frozen=True, slots=True)
class MatchRecords:
    """The matches of XML rules, as records of one type: `width` integers each, the first of which is the rule's number.

    `fields` maps a property to the field with its value's start. The length is in the next field;
    it is negative if no value was found.
    """

    records: Offsets
    width: int
    fields: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.records) // self.width

    @property
    def rows(self) -> Offsets:
        """The match records of XML rules as a matrix, without copying."""
        return self.records.reshape(-1, self.width)

    @property
    def rule(self) -> Longs:
        """The number of the XML rule of each record."""
        return self.records[:: self.width].astype(np.int64)

    def spans(self, name: str) -> ValueSpans | None:
        """Return the spans of an XML rule property's values, or None if match records do not have it."""
        field = self.fields.get(name)
        return None if field is None else self.spans_at(field)

    def spans_at(self, field: int) -> ValueSpans:
        """Return the spans of the values whose start is in a field of XML match records."""
        starts, lengths = (self.records[at :: self.width] for at in (field, field + 1))
        return ValueSpans(starts.astype(np.int64), lengths.astype(np.int64))

    def take(self, rows: Longs) -> MatchRecords:
        """Return the match records of XML rules with these indexes."""
        return replace(self, records=self.rows[rows].reshape(-1))

    def with_fields(self, names: Iterable[str], moved: int) -> MatchRecords:
        """Return the match records of XML rules with exactly these properties.

        Spans are shifted by `moved` bytes.
        """
        fields = {name: 1 + 2 * number for number, name in enumerate(names)}
        rows = np.full((len(self), 1 + 2 * len(fields)), -1, np.int32)
        rows[:, 0] = self.rows[:, 0]
        for name in fields.keys() & self.fields.keys():
            own, field = self.fields[name], fields[name]
            rows[:, field : field + 2] = self.rows[:, own : own + 2]
            rows[:, field] += moved
        return MatchRecords(rows.reshape(-1), rows.shape[1], fields)


@dataclass(frozen=True, slots=True)
class RuleMatches:
    """The matches of XML rules in the messages of a batch.

    Spans refer to `text`, which is UTF-8 followed by 64 more bytes for reads of whole words.

    `outer` are the records of transactions, and of operation rules with other operations inside.
    Each has an element in `above` (the outer record around it, or -1) and in `outer_message` (its
    message).

    Each record in `operations` has an element in `message`, `around` (the outer record around it,
    or -1), `transaction` (the outer record of its transaction, or -1), `start` and `end` (the
    bounds of its XML element in the message). Operations are ordered by message and transaction.

    `operation` is the operation of each record in `columns`, ascending.
    """

    text: Octets
    outer: MatchRecords
    above: Longs
    outer_message: Longs
    operations: MatchRecords
    message: Longs
    around: Longs
    transaction: Longs
    start: Longs
    end: Longs
    columns: MatchRecords
    operation: Longs

    def renumber(self, numbers: Longs) -> RuleMatches:
        """Renumber the messages of XML matches: message i becomes `numbers[i]`."""
        return replace(
            self, message=numbers[self.message], outer_message=numbers[self.outer_message]
        )


def merge_matches(first: RuleMatches, second: RuleMatches) -> RuleMatches:
    """Merge the XML rule matches of two groups of messages of the same batch."""
    outer, operations = len(first.outer), len(first.operations)
    moved = replace(
        second,
        above=_move(second.above, outer),
        around=_move(second.around, outer),
        transaction=_move(second.transaction, outer),
        operation=second.operation + operations,
    )
    size = len(first.text)
    joined = RuleMatches(
        text=np.concatenate([first.text, second.text]),
        outer=_concatenate(first.outer, second.outer, size),
        operations=_concatenate(first.operations, second.operations, size),
        columns=_concatenate(first.columns, second.columns, size),
        **{
            name: np.concatenate([getattr(first, name), getattr(moved, name)])
            for name in ("above", "outer_message", *_OF_OPERATIONS, "operation")
        },
    )
    order = np.argsort(joined.message, kind="stable")
    # `order` sorts the operations by message; `place` is its inverse, the new number of each
    # operation.
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    # Column records must ascend by operation too.
    of_columns = np.argsort(place[joined.operation], kind="stable")
    return replace(
        joined,
        operations=joined.operations.take(order),
        columns=joined.columns.take(of_columns),
        operation=place[joined.operation][of_columns],
        **{name: getattr(joined, name)[order] for name in _OF_OPERATIONS},
    )


def _move(records: Longs, by: int) -> Longs:
    return np.where(records >= 0, records + by, -1)


def _concatenate(first: MatchRecords, second: MatchRecords, size: int) -> MatchRecords:
    """Concatenate the XML match records of two texts, which are concatenated too.

    `size` is the length of the first text.
    """
    names = tuple({**first.fields, **second.fields})
    both = (first.with_fields(names, 0), second.with_fields(names, size))
    return replace(both[0], records=np.concatenate([found.records for found in both]))


def cell_bounds(operation: Longs, operations: int) -> Longs:
    """Return the bounds of each XML operation's cells among the column matches: operation i has `bounds[i]` to `bounds[i + 1]`.

    `operation` is each cell's operation, ascending. Example: the cells of operations 0, 0, 2 of
    three have the bounds 0, 2, 2, 3.
    """
    return np.append(0, np.cumsum(np.bincount(operation, minlength=operations)))


def code_words(text: Octets, found: MatchRecords, field: int) -> tuple[Longs, list[str]]:
    """Return the words in a field of XML match records as codes.

    The code is the record's index into the list of words, or -1 if it has none. `SPARE` bytes must
    follow the text.
    """
    rows = len(found)
    # A power of 2 above the number of rows: the hash table has room even if all words differ.
    most = min(MOST, 1 << max(_LEAST, rows).bit_length())
    ids, firsts = np.empty(rows, np.int64), np.empty(most, np.int64)
    count = word_ids(text, found.records, found.width, field, ids, firsts, NameTable.empty(most))
    if count < 0:  # some words are empty, or there are too many
        values = found.spans_at(field).text(text)
        codes, words = encode_distinct(values.fill_null(""))
        return np.where(np.asarray(values.is_valid()), codes.astype(np.int64), -1), words
    places = found.rows[firsts[:count], field : field + 2].tolist()
    return ids, [text[start : start + size].tobytes().decode() for start, size in places]
