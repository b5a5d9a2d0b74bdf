"""Format and print record batches as JSON lines or as CSV.

Whole columns are formatted with Arrow's string functions: strings, times, integers, and lists and maps of
strings. Other types are converted value by value (``plain_values``).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.maps import has_distinct_keys, map_entries
from trailgate.errors import OptionError
from trailgate.terminal.plain_values import json_text, plain_text, printed_texts, values_of

ESCAPED: Final = r'["\\\x00-\x1f]'  # characters that JSON requires to be escaped
QUOTED: Final = r'[",\r\n]'  # characters for which a CSV cell needs quotes (as an empty text does)


def json_lines(batch: pa.RecordBatch) -> list[str]:
    """Format each row of a record batch as a JSON line, whose keys are the names of the columns."""
    # The pieces alternate: '{"A": ', the values of A, ', "B": ', the values of B. One join of all
    # pieces and '}\n' gives all lines.
    pieces: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces += [f"{', ' if pieces else '{'}{json_text(name)}: ", json_values(column)]
    lines: list[str] = pc.binary_join_element_wise(*pieces, "}\n", "").to_pylist() if pieces else []
    return lines


def csv_lines(batch: pa.RecordBatch) -> list[str]:
    """Format each row of a record batch as a line of CSV."""
    if not batch.num_columns:
        return []
    *first, last = map(csv_cells, batch.columns)
    ended = pc.binary_join_element_wise(last, "", "\n")
    lines: list[str] = pc.binary_join_element_wise(*first, ended, ",").to_pylist()
    return lines


def json_values(column: pa.Array) -> pa.Array:
    """Format the values of a column as JSON."""
    strings = printed_texts(column)
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        texts = column.cast(pa.string())
    elif strings is not None:
        texts = _quote(strings)
    else:
        texts = _format_nested(column)
    if texts is None:
        return pa.array(map(json_text, values_of(column)), pa.string())
    return texts.fill_null("null")


def csv_cells(column: pa.Array) -> pa.Array:
    """Format the values of a column as CSV cells.

    NULL is an empty cell, an empty text is ``""``, and maps and lists are JSON.
    """
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()).fill_null("")
    strings = printed_texts(column)
    if strings is None:
        strings = _format_nested(column)
    if strings is None:
        strings = pa.array([plain_text(value) for value in values_of(column)], pa.string())
    doubled = pc.replace_substring(strings, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    needs_quotes = pc.or_(pc.match_substring_regex(strings, QUOTED), pc.equal(strings, ""))
    return pc.if_else(needs_quotes, quoted, strings).fill_null("")


def _format_nested(column: pa.Array) -> pa.Array | None:
    """Format lists and maps of strings as JSON.

    Returns None for other columns, and if a map has a duplicate key.
    """
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        items = _quote(column.flatten()).fill_null("null")
        # the running sum of the lengths gives the offsets of the lists; null lists have the length
        # 0
        sizes = pc.list_value_length(column).fill_null(0).to_numpy()
        return _joined_strings(items, np.append(0, np.cumsum(sizes)), "[]", column)
    if not (
        pa.types.is_map(kind)
        and pa.types.is_string(kind.key_type)
        and pa.types.is_string(kind.item_type)
    ):
        return None
    keys, values, rows = map_entries(column)
    if not has_distinct_keys(keys, rows, len(column)):
        return None
    names = keys.dictionary_encode()
    named = _quote(names.dictionary).take(names.indices)
    entries = pc.binary_join_element_wise(named, _quote(values).fill_null("null"), ": ")
    return _joined_strings(entries, np.searchsorted(rows, np.arange(len(column) + 1)), "{}", column)


def _joined_strings(entries: pa.Array, ends: Longs, brackets: str, column: pa.Array) -> pa.Array:
    """Join the entries of each row of a column in brackets, or return null if the row is null.

    The entries of row i are ``entries[ends[i]:ends[i + 1]]``. ``brackets`` is "[]" or "{}".
    """
    lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), entries)
    # binary_join joins the entries of each list with ", "
    inside = pc.binary_join(lists, ", ")
    joined = pc.binary_join_element_wise(brackets[0], inside, brackets[1], "")
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.string()))


def _quote(strings: pa.Array) -> pa.Array:
    """Format strings as JSON. Only strings that need escapes are formatted one by one."""
    quoted = pc.binary_join_element_wise('"', strings, '"', "")
    special = pc.match_substring_regex(strings, ESCAPED).fill_null(fill_value=False)
    if pc.any(special).as_py():
        odd: Sequence[str] = strings.filter(special).to_pylist()
        escaped = pa.array(map(json_text, odd), pa.string())
        quoted = pc.replace_with_mask(quoted, special, escaped)
    return quoted


def check_column_names(names: Sequence[str]) -> None:
    """Raise OptionError if two columns have the same name, because JSON and CSV need distinct names."""
    for name, count in Counter(names).items():
        if count > 1:
            raise OptionError(f"{count} columns are named {name}", hint="Rename them with AS")


def print_json(batches: Iterable[pa.RecordBatch]) -> None:
    """Print each row of record batches as a JSON line, whose keys are the names of the columns."""
    for batch in batches:
        sys.stdout.writelines(json_lines(batch))


def print_csv(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> None:
    """Print record batches as CSV: a header and one line per row.

    NULL is empty, an empty text is ``""``, and maps are JSON.
    """
    print(",".join(csv_cells(pa.array(names, pa.string())).to_pylist()))
    for batch in batches:
        sys.stdout.writelines(csv_lines(batch))
