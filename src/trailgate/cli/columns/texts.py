"""JSON lines and lines of CSV, made of the texts of whole columns.

Texts, times, integers, and lists and maps of texts are made at once; other columns value by value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.cli.columns.operations import distinct_keys
from trailgate.columnar.maps import map_entries

ESCAPED: Final = r'["\\\x00-\x1f]'  # what a text of JSON has only in escapes
QUOTED: Final = r'[",\r\n]'  # what a cell of CSV has only in quotes, as an empty text is


def json_lines(batch: pa.RecordBatch) -> list[str]:
    """Return a JSON object for each row; its keys are the names of the columns."""
    pieces: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces += [f"{', ' if pieces else '{'}{json_text(name)}: ", json_values(column)]
    lines: list[str] = pc.binary_join_element_wise(*pieces, "}\n", "").to_pylist() if pieces else []
    return lines


def csv_lines(batch: pa.RecordBatch) -> list[str]:
    """Return a line of CSV for each row."""
    if not batch.num_columns:
        return []
    *first, last = map(csv_cells, batch.columns)
    ended = pc.binary_join_element_wise(last, "", "\n")
    lines: list[str] = pc.binary_join_element_wise(*first, ended, ",").to_pylist()
    return lines


def json_values(column: pa.Array) -> pa.Array:
    """Return the values of a column as JSON."""
    texts = texts_of(column)
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        found = column.cast(pa.string())
    elif texts is not None:
        found = _quoted(texts)
    else:
        found = _nested(column)
    if found is None:
        return pa.array(map(json_text, values_of(column)), pa.string())
    return found.fill_null("null")


def csv_cells(column: pa.Array) -> pa.Array:
    """Return the values of a column as cells of CSV: NULL is empty, maps and lists are JSON, and an empty text is in quotes."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()).fill_null("")
    texts = texts_of(column)
    if texts is None:
        texts = _nested(column)
    if texts is None:
        texts = pa.array([_plain(value) for value in values_of(column)], pa.string())
    doubled = pc.replace_substring(texts, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    needs_quotes = pc.or_(pc.match_substring_regex(texts, QUOTED), pc.equal(texts, ""))
    return pc.if_else(needs_quotes, quoted, texts).fill_null("")


def values_of(column: pa.Array) -> list[Any]:
    """Return the values of a column: times in ISO form, maps as dictionaries, bytes in hex."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return list(iso(column).to_pylist())
    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(kind):
        return [None if v is None else int(v) if kind.scale == 0 else str(v) for v in values]
    if pa.types.is_binary(kind):
        return [None if value is None else value.hex() for value in values]
    if not pa.types.is_map(kind):
        return values
    return [None if pairs is None else dict(pairs) for pairs in values]


def json_text(value: Any) -> str:
    """Return a value as JSON; numbers without a JSON form are text, bytes are in hex."""
    return json.dumps(
        value, ensure_ascii=False, default=lambda v: v.hex() if isinstance(v, bytes) else str(v)
    )


def _plain(value: Any) -> str | None:
    if value is None:
        return None
    return json_text(value) if isinstance(value, (dict, list)) else str(value)


def texts_of(column: pa.Array) -> pa.Array | None:
    """Return texts as they are, and times in ISO form; None for other columns."""
    if pa.types.is_string(column.type):
        return column
    return iso(column) if pa.types.is_timestamp(column.type) else None


def iso(column: pa.Array) -> pa.Array:
    """Return times in ISO form."""
    # The cast through integers keeps the instant and needs no time zone database.
    text = column.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    dated = pc.utf8_replace_slice(text, start=10, stop=11, replacement="T")
    return dated if column.type.tz is None else pc.binary_join_element_wise(dated, "Z", "")


def _nested(column: pa.Array) -> pa.Array | None:
    """Return lists and maps of texts as JSON; None for other columns, and where a map has a key twice."""
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        items = _quoted(column.flatten()).fill_null("null")
        sizes = pc.list_value_length(column).fill_null(0).to_numpy()
        return _joined(items, np.append(0, np.cumsum(sizes)), "[]", column)
    if not (
        pa.types.is_map(kind)
        and pa.types.is_string(kind.key_type)
        and pa.types.is_string(kind.item_type)
    ):
        return None
    keys, values, rows = map_entries(column)
    if not distinct_keys(keys, rows, len(column)):
        return None
    names = keys.dictionary_encode()
    named = _quoted(names.dictionary).take(names.indices)
    entries = pc.binary_join_element_wise(named, _quoted(values).fill_null("null"), ": ")
    return _joined(entries, np.searchsorted(rows, np.arange(len(column) + 1)), "{}", column)


def _joined(entries: pa.Array, ends: Longs, brackets: str, column: pa.Array) -> pa.Array:
    """Return the entries of each row in brackets, null where the column is."""
    lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), entries)
    inside = pc.binary_join(lists, ", ")
    found = pc.binary_join_element_wise(brackets[0], inside, brackets[1], "")
    return pc.if_else(column.is_valid(), found, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.Array:
    """Return texts as JSON; a text that needs escapes is written by itself."""
    found = pc.binary_join_element_wise('"', texts, '"', "")
    special = pc.match_substring_regex(texts, ESCAPED).fill_null(fill_value=False)
    if pc.any(special).as_py():
        odd: Sequence[str] = texts.filter(special).to_pylist()
        escaped = pa.array(map(json_text, odd), pa.string())
        found = pc.replace_with_mask(found, special, escaped)
    return found
