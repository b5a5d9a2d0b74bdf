"""Rows shown to people and to programs, made in whole columns.

``rows`` and ``trail_output`` state what is made of one row or operation; here that is done for all rows of a batch at once. Strings, times,
integers, and lists and maps of strings become text in whole columns, other columns value by value; JSON lines and lines of CSV are
put together from these. A row that does not fit the common form has no text here, and is laid out by itself: one with a part that is longer than a
line, with control characters, or with characters whose width is not known by their range.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.strings import DIGITS, flow_strings, measure_ascii
from trailgate.columnar.maps import map_entries
from trailgate.columnar.rows import octets
from trailgate.terminal.layout import GAP

# Printable characters of one column each, beside ASCII: Latin, Greek, Cyrillic; and of two: kana, CJK, Hangul, full-width forms.
NARROW: Final = r"\x{A1}-\x{AC}\x{AE}-\x{2AF}\x{391}-\x{3A1}\x{3B1}-\x{3C9}\x{400}-\x{482}"
DOUBLE: Final = (
    r"\x{3041}-\x{3096}\x{30A1}-\x{30FA}\x{4E00}-\x{9FA5}\x{AC00}-\x{D7A3}\x{FF01}-\x{FF5E}"
)
MEASURED: Final = rf"^[ -~{NARROW}{DOUBLE}]*$"


EMPTY, BESIDE, BELOW = (
    0,
    1,
    2,
)  # what is after a head: nothing, data in its line, or in lines below it


class RowParts(NamedTuple):
    """The cells of the heads of rows, one column a cell, and their data: ``starts`` has where the parts of each row begin, and the end."""

    head: Sequence[pa.Array]
    parts: pa.Array
    starts: Longs


def sizes_of(strings: pa.Array) -> Longs:
    """Return how many columns of a terminal each text takes, -1 where that is not known here."""
    _, bounds, data = strings.buffers()
    ends = np.frombuffer(bounds, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    sizes = np.empty(len(strings), np.int64)
    if measure_ascii(octets(data or b""), ends, sizes):
        others = np.flatnonzero(sizes < 0)
        found = strings.take(pa.array(others))
        doubles = pc.count_substring_regex(found, f"[{DOUBLE}]").to_numpy()
        known = _mask(pc.match_substring_regex(found, MEASURED))
        sizes[others] = np.where(known, pc.utf8_length(found).to_numpy() + doubles, -1)
    return sizes


def laid_out(
    rows: RowParts, widths: Sequence[int], width: int | None, indent: int, *, beside: bool
) -> pa.Array:
    """Return the text of each row without the last line break; null where a row must be laid out by itself.

    ``widths`` are those of the head's columns. Data are ``beside`` the head or below it; lines after the first are indented.
    """
    count = len(rows.starts) - 1
    sizes, cells = sizes_of(rows.parts), [sizes_of(cell) for cell in rows.head]
    fits = np.ones(count, np.uint8)
    before, ends_line = np.ones(len(sizes), np.uint8), np.zeros(len(sizes), np.uint8)
    if width is None:
        fits[np.repeat(np.arange(count), np.diff(rows.starts))[sizes < 0]] = 0
    else:
        flow_strings(sizes, rows.starts, width, indent, before, ends_line, fits)
    in_columns = np.ones(count, bool)
    for size, most in zip(cells, widths, strict=True):
        fits &= size >= 0
        in_columns &= (size <= most) | (width is None)
    padded = zip(rows.head, cells, widths, strict=True)
    head = pc.binary_join_element_wise(*(_pad(*cell) for cell in padded), GAP)
    parts, lengths = rows.parts, np.diff(rows.starts)
    after = np.where(lengths == 0, EMPTY, BELOW)
    if width is not None and beside:
        # Blanks at the end of a row's first line are left out.
        ends_line &= np.repeat(in_columns, lengths)
        parts = pc.if_else(_bools(ends_line), pc.utf8_rtrim(parts, " "), parts)
        after[in_columns & (lengths > 0)] = BESIDE
    if width is not None:
        head = pc.if_else(pa.array(after == BESIDE), head, pc.utf8_rtrim(head, " "))
        if not in_columns.all():
            bare = _without_blanks(rows.head)
            fits &= in_columns | (sizes_of(bare) <= width)
            head = pc.if_else(pa.array(in_columns), head, bare)
        between = pa.array(["", GAP, "\n" + " " * indent]).take(pa.array(after))
        head = pc.binary_join_element_wise(head, between, "")
    separators = pa.array(["", GAP, "\n" + " " * indent]).take(pa.array(before))
    pieces = pc.binary_join_element_wise(separators, parts, "")
    lists = pa.ListArray.from_arrays(pa.array(rows.starts.astype(np.int32)), pieces)
    strings = pc.binary_join_element_wise(head, pc.binary_join(lists, ""), "")
    if width is None:
        strings = pc.utf8_rtrim(strings, " ")
    return pc.if_else(_bools(fits), strings, pa.scalar(None, pa.string()))


def _without_blanks(cells: Sequence[pa.Array]) -> pa.Array:
    """Return the cells of each head that are not empty, without the blanks that align them in a column."""
    trimmed = [pc.utf8_trim(cell, " ") for cell in cells[1:]]
    some = [pc.if_else(pc.equal(cell, ""), pa.scalar(None, pa.string()), cell) for cell in trimmed]
    return pc.binary_join_element_wise(cells[0], *some, GAP, null_handling="skip")


def _pad(cell: pa.Array, sizes: Longs, most: int) -> pa.Array:
    """Return cells with blanks up to a width."""
    if not len(cell):
        return cell
    blanks = pa.array([" " * count for count in range(most + 1)])
    missing = np.clip(most - sizes, 0, most)
    return pc.binary_join_element_wise(cell, blanks.take(pa.array(missing)), "")


def _bools(values: Octets) -> pa.Array:
    return pa.array(values.astype(bool))


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found


NULL: Final = "NULL"
ARROW: Final = " -> "  # between the value before and the one after


class Strings(NamedTuple):
    """Strings, and the row of each; rows ascend."""

    strings: pa.Array
    rows: Longs


class _Entries(NamedTuple):
    """The entries of maps: the key, the value and the row of each."""

    keys: pa.Array
    values: pa.Array
    rows: Longs


def operation_columns(batch: pa.RecordBatch, *, wide: bool) -> RowParts | None:
    """Return operations as they are shown; None where a map has a key twice."""
    before, after = (_Entries(*map_entries(batch[name])) for name in ("before", "after"))
    parts = _changes(before, after, batch.num_rows)
    if parts is None:
        return None
    if wide:
        parts += [_name(name, batch[name]) for name in ("csn", "tx_owner", "tx_name")]
        tokens = _Entries(*map_entries(batch["tokens"]))
        if not distinct_keys(tokens.keys, tokens.rows, batch.num_rows):
            return None
        keys = pc.binary_join_element_wise("@", tokens.keys, "")
        parts.append(Strings(_join(keys, tokens.values), tokens.rows))
    strings, rows = _in_order(parts)
    starts = np.searchsorted(rows, np.arange(batch.num_rows + 1)).astype(np.int64)
    return RowParts(_head(batch), strings, starts)


def _head(batch: pa.RecordBatch) -> list[pa.Array]:
    transaction = (batch[name].fill_null("") for name in ("tx_ind", "tx_id"))
    return [
        short_positions(batch["position"]),
        short_times(batch["op_ts"]),
        pc.binary_join_element_wise(*transaction, " "),
        batch["table"].fill_null(""),
        batch["op_type"].fill_null(""),
    ]


def short_positions(positions: pa.Array) -> pa.Array:
    """Return positions of 20 digits as file:offset; empty for none."""
    parts = (
        pc.utf8_ltrim(pc.utf8_slice_codeunits(positions, *bounds), "0")
        for bounds in ((0, DIGITS), (DIGITS, 2 * DIGITS))
    )
    filled = (pc.if_else(pc.equal(part, ""), "0", part) for part in parts)
    known = pc.not_equal(positions, "").fill_null(fill_value=False)
    return pc.if_else(known, pc.binary_join_element_wise(*filled, ":"), "").fill_null("")


def short_times(times: pa.Array) -> pa.Array:
    """Return times without a zone, and without a fraction that is zero; empty for none."""
    # The cast through integers keeps the instant and needs no time zone database.
    text = times.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    whole = pc.ends_with(text, ".000000")
    return pc.if_else(whole, pc.utf8_slice_codeunits(text, 0, -7), text).fill_null("")


def _changes(before: _Entries, after: _Entries, count: int) -> list[Strings] | None:
    """Return columns as ``NAME=value``, as ``NAME=old -> new`` if both are known, and those that are not after; None where a key comes twice."""
    codes, names = _codes(pa.concat_arrays([after.keys, before.keys]))
    own, others = codes[: len(after.keys)], codes[len(after.keys) :]
    places, old_places = (
        _found(after.rows, count, own, names),
        _found(before.rows, count, others, names),
    )
    if places is None or old_places is None:
        return None
    strings = _join(after.keys, after.values)
    old = old_places[after.rows * names + own]
    both = np.flatnonzero(old >= 0)
    pairs = after.values.take(pa.array(both)), before.values.take(pa.array(old[both]))
    changed = both[~_same(*pairs)]
    if len(changed):
        keys, values = (column.take(pa.array(changed)) for column in (after.keys, after.values))
        was = _join(keys, before.values.take(pa.array(old[changed])))
        mask = np.zeros(len(strings), bool)
        mask[changed] = True
        made = pc.binary_join_element_wise(was, values.fill_null(NULL), ARROW)
        strings = pc.replace_with_mask(strings, pa.array(mask), made)
    left = np.flatnonzero(places[before.rows * names + others] < 0)
    rows = before.rows[left]
    gone = _join(before.keys.take(pa.array(left)), before.values.take(pa.array(left)))
    logged = np.bincount(after.rows, minlength=count)[rows] > 0
    ends = pa.array(["", f"{ARROW}not logged"]).take(pa.array(logged.astype(np.int8)))
    return [
        Strings(strings, after.rows),
        Strings(pc.binary_join_element_wise(gone, ends, ""), rows),
    ]


def distinct_keys(keys: pa.Array, rows: Longs, count: int) -> bool:
    """Return whether no row of ``count`` has a key twice."""
    return _found(rows, count, *_codes(keys)) is not None


def _codes(keys: pa.Array) -> tuple[Longs, int]:
    """Return a number for each key, and how many there are."""
    found = keys.dictionary_encode()
    return found.indices.to_numpy().astype(np.int64), max(1, len(found.dictionary))


def _found(rows: Longs, count: int, codes: Longs, names: int) -> Longs | None:
    """Return where the entry of each row and key is, -1 where there is none; None where a key comes twice in a row."""
    found = np.full(count * names, -1, np.int64)
    slots, numbers = rows * names + codes, np.arange(len(codes))
    found[slots] = numbers
    return found if (found[slots] == numbers).all() else None


def _same(one: pa.Array, other: pa.Array) -> Mask:
    equal = pc.equal(one, other).fill_null(fill_value=False)
    same: Mask = pc.or_(equal, pc.and_(one.is_null(), other.is_null())).to_numpy(
        zero_copy_only=False
    )
    return same


def _join(names: pa.Array, values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(names, values.fill_null(NULL), "=")


def _name(name: str, values: pa.Array) -> Strings:
    """Return the strings of a column that are not empty, with its name."""
    rows = np.flatnonzero(pc.not_equal(values, "").fill_null(fill_value=False))
    return Strings(pc.binary_join_element_wise(name, values.take(pa.array(rows)), "="), rows)


def _in_order(parts: list[Strings]) -> Strings:
    """Return all strings row by row, those of a row in the order of the lists."""
    some = [part for part in parts if len(part.rows)] or parts[:1]
    if len(some) == 1:
        return some[0]
    rows = np.concatenate([part.rows for part in some])
    order = np.argsort(rows, kind="stable")
    return Strings(
        pa.concat_arrays([part.strings for part in some]).take(pa.array(order)), rows[order]
    )


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
    strings = strings_of(column)
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        found = column.cast(pa.string())
    elif strings is not None:
        found = _quote(strings)
    else:
        found = _format_nested(column)
    if found is None:
        return pa.array(map(json_text, values_of(column)), pa.string())
    return found.fill_null("null")


def csv_cells(column: pa.Array) -> pa.Array:
    """Return the values of a column as cells of CSV: NULL is empty, maps and lists are JSON, and an empty text is in quotes."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()).fill_null("")
    strings = strings_of(column)
    if strings is None:
        strings = _format_nested(column)
    if strings is None:
        strings = pa.array([_plain(value) for value in values_of(column)], pa.string())
    doubled = pc.replace_substring(strings, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    needs_quotes = pc.or_(pc.match_substring_regex(strings, QUOTED), pc.equal(strings, ""))
    return pc.if_else(needs_quotes, quoted, strings).fill_null("")


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


def strings_of(column: pa.Array) -> pa.Array | None:
    """Return strings as they are, and times in ISO form; None for other columns."""
    if pa.types.is_string(column.type):
        return column
    return iso(column) if pa.types.is_timestamp(column.type) else None


def iso(column: pa.Array) -> pa.Array:
    """Return times in ISO form."""
    # The cast through integers keeps the instant and needs no time zone database.
    text = column.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    dated = pc.utf8_replace_slice(text, start=10, stop=11, replacement="T")
    return dated if column.type.tz is None else pc.binary_join_element_wise(dated, "Z", "")


def _format_nested(column: pa.Array) -> pa.Array | None:
    """Return lists and maps of strings as JSON; None for other columns, and where a map has a key twice."""
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        items = _quote(column.flatten()).fill_null("null")
        sizes = pc.list_value_length(column).fill_null(0).to_numpy()
        return _joined_strings(items, np.append(0, np.cumsum(sizes)), "[]", column)
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
    named = _quote(names.dictionary).take(names.indices)
    entries = pc.binary_join_element_wise(named, _quote(values).fill_null("null"), ": ")
    return _joined_strings(entries, np.searchsorted(rows, np.arange(len(column) + 1)), "{}", column)


def _joined_strings(entries: pa.Array, ends: Longs, brackets: str, column: pa.Array) -> pa.Array:
    """Return the entries of each row in brackets, null where the column is."""
    lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), entries)
    inside = pc.binary_join(lists, ", ")
    found = pc.binary_join_element_wise(brackets[0], inside, brackets[1], "")
    return pc.if_else(column.is_valid(), found, pa.scalar(None, pa.string()))


def _quote(strings: pa.Array) -> pa.Array:
    """Return strings as JSON; a text that needs escapes is written by itself."""
    found = pc.binary_join_element_wise('"', strings, '"', "")
    special = pc.match_substring_regex(strings, ESCAPED).fill_null(fill_value=False)
    if pc.any(special).as_py():
        odd: Sequence[str] = strings.filter(special).to_pylist()
        escaped = pa.array(map(json_text, odd), pa.string())
        found = pc.replace_with_mask(found, special, escaped)
    return found
