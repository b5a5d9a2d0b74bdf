"""JSON lines and lines of CSV made in whole columns: what ``row_output`` writes of one value, for all of a column at once.

A column has no texts here where its values are not of a kind below, or a map of it has a key twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.cli.columns.operations import distinct_keys
from trailgate.columnar.maps import map_entries

ESCAPED: Final = r'["\\\x00-\x1f]'  # what a text of JSON has only in escapes
QUOTED: Final = r'[",\r\n]'  # what a cell of CSV has only in quotes, as an empty text is


def json_lines(batch: pa.RecordBatch) -> list[str] | None:
    """Return a JSON object for each row; None where a column cannot be made at once."""
    names = [json.dumps(name, ensure_ascii=False) for name in batch.schema.names]
    columns = [json_values(column) for column in batch.columns]
    if not columns or None in columns or len(set(names)) < len(names):
        return None
    pieces: list[pa.Array | str] = []
    for before, name, column in zip(["{", *[", "] * len(names)], names, columns, strict=False):
        pieces += [f"{before}{name}: ", column]
    lines: list[str] = pc.binary_join_element_wise(*pieces, "}\n", "").to_pylist()
    return lines


def csv_lines(batch: pa.RecordBatch) -> list[str] | None:
    """Return a line of CSV for each row; None where a column cannot be made at once."""
    columns = [csv_cells(column) for column in batch.columns]
    if not columns or None in columns:
        return None
    ended = [*columns[:-1], pc.binary_join_element_wise(columns[-1], "", "\n")]
    lines: list[str] = pc.binary_join_element_wise(*ended, ",").to_pylist()
    return lines


def json_values(column: pa.Array) -> pa.Array | None:
    """Return the values of a column as JSON; None for another type of column."""
    if pa.types.is_map(column.type):
        found = _objects(column)
    elif pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        found = column.cast(pa.string())
    else:
        texts = texts_of(column)
        found = None if texts is None else _quoted(texts)
    return None if found is None else found.fill_null("null")


def csv_cells(column: pa.Array) -> pa.Array | None:
    """Return the values of a column as cells of CSV; None for another type of column."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()).fill_null("")
    texts = _objects(column) if pa.types.is_map(column.type) else texts_of(column)
    if texts is None:
        return None
    doubled = pc.replace_substring(texts, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    needs_quotes = pc.or_(pc.match_substring_regex(texts, QUOTED), pc.equal(texts, ""))
    return pc.if_else(needs_quotes, quoted, texts).fill_null("")


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


def _objects(maps: pa.MapArray) -> pa.Array | None:
    """Return maps of texts as JSON objects; None where a key comes twice in one."""
    if not (pa.types.is_string(maps.type.key_type) and pa.types.is_string(maps.type.item_type)):
        return None
    keys, values, rows = map_entries(maps)
    if not distinct_keys(keys, rows, len(maps)):
        return None
    names = keys.dictionary_encode()
    named = _quoted(names.dictionary.cast(pa.string())).take(names.indices)
    entries = pc.binary_join_element_wise(named, _quoted(values).fill_null("null"), ": ")
    ends = np.searchsorted(rows, np.arange(len(maps) + 1)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), entries)
    found = pc.binary_join_element_wise("{", pc.binary_join(lists, ", "), "}", "")
    return pc.if_else(maps.is_valid(), found, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.Array:
    """Return texts as JSON; a text that needs escapes is written by itself."""
    found = pc.binary_join_element_wise('"', texts, '"', "")
    special = pc.match_substring_regex(texts, ESCAPED).fill_null(fill_value=False)
    if pc.any(special).as_py():
        odd: Sequence[str] = texts.filter(special).to_pylist()
        escaped = pa.array([json.dumps(text, ensure_ascii=False) for text in odd], pa.string())
        found = pc.replace_with_mask(found, special, escaped)
    return found
