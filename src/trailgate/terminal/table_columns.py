"""Format whole columns for a printed table.

The result is the same as formatting row by row (``layout``, ``cli.show_rows``), but it is built with
Arrow's string functions on columns, which is much faster.

Some rows of a table need the slower code: those with a cell longer than a line, with control
characters, or with characters whose width on a terminal is not known (see ``NARROW`` and
``DOUBLE``). Their text is null here, and ``RowLayout.lines`` formats them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar.maps import entry_slots, has_distinct_keys, map_entries, number_keys
from trailgate.columnar.numbers_kernels import DIGITS
from trailgate.terminal.kernels import flow_strings, measure_ascii
from trailgate.terminal.output import GAP, NULL

# Printable characters that take one column of a terminal, beside ASCII: Latin, Greek, Cyrillic. And
# those that take two: kana, CJK, Hangul, full-width forms.
NARROW: Final = r"\x{A1}-\x{AC}\x{AE}-\x{2AF}\x{391}-\x{3A1}\x{3B1}-\x{3C9}\x{400}-\x{482}"
DOUBLE: Final = (
    r"\x{3041}-\x{3096}\x{30A1}-\x{30FA}\x{4E00}-\x{9FA5}\x{AC00}-\x{D7A3}\x{FF01}-\x{FF5E}"
)
MEASURED: Final = rf"^[ -~{NARROW}{DOUBLE}]*$"
EMPTY, BESIDE, BELOW = (
    0,
    1,
    2,
)  # what follows a head: nothing, data in the same line, or data in the lines below
ARROW: Final = " -> "  # between the value before and the one after


class RowParts(NamedTuple):
    """The rows of a printed table in columns: the cells of their heads, and the parts of their data.

    ``head`` has one array per cell. The parts of row i are ``parts[starts[i]:starts[i + 1]]``.
    """

    head: Sequence[pa.Array]
    parts: pa.Array
    starts: Longs


def display_widths(strings: pa.Array) -> Longs:
    """Return the width of each string in terminal columns, or -1 if it is not known."""
    _, bounds, data = strings.buffers()
    ends = np.frombuffer(bounds, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    sizes = np.empty(len(strings), np.int64)
    if measure_ascii(octets(data or b""), ends, sizes):
        # Measure strings that are not ASCII by regular expressions: each double character counts
        # twice
        others = np.flatnonzero(sizes < 0)
        texts = strings.take(pa.array(others))
        doubles = pc.count_substring_regex(texts, f"[{DOUBLE}]").to_numpy()
        known = _mask(pc.match_substring_regex(texts, MEASURED))
        sizes[others] = np.where(known, pc.utf8_length(texts).to_numpy() + doubles, -1)
    return sizes


def format_rows(
    rows: RowParts, widths: Sequence[int], width: int | None, indent: int, *, next_to: bool
) -> pa.Array:
    """Format the rows of a printed table in whole columns, as text without the last line break.

    A row is null if ``RowLayout.lines`` must format it.

    ``widths`` are the widths of the head's columns. With ``next_to``, the data start in the line of
    the head, otherwise in the line below it. Continuation lines are indented by ``indent`` blanks.
    Without a ``width`` each row is one line.
    """
    count = len(rows.starts) - 1
    sizes, cells = display_widths(rows.parts), [display_widths(cell) for cell in rows.head]
    # ``fits`` marks the rows that can be formatted here. ``before`` holds a separator for each part
    # (an index into the list of separators below), ``ends_line`` the last parts of lines.
    fits = np.ones(count, np.uint8)
    before, ends_line = np.ones(len(sizes), np.uint8), np.zeros(len(sizes), np.uint8)
    if width is None:
        # a row does not fit if the width of any of its parts is unknown
        fits[np.repeat(np.arange(count), np.diff(rows.starts))[sizes < 0]] = 0
    else:
        flow_strings(sizes, rows.starts, width, indent, before, ends_line, fits)
    # ``in_columns`` marks the rows whose cells all fit their columns
    in_columns = np.ones(count, bool)
    for size, most in zip(cells, widths, strict=True):
        fits &= size >= 0
        in_columns &= (size <= most) | (width is None)
    padded = zip(rows.head, cells, widths, strict=True)
    head = pc.binary_join_element_wise(*(_pad(*cell) for cell in padded), GAP)
    parts, lengths = rows.parts, np.diff(rows.starts)
    # ``after`` is what follows the head of each row: EMPTY, BESIDE or BELOW
    after = np.where(lengths == 0, EMPTY, BELOW)
    if width is not None and next_to:
        # Trim blanks at the ends of first lines.
        ends_line &= np.repeat(in_columns, lengths)
        parts = pc.if_else(_bools(ends_line), pc.utf8_rtrim(parts, " "), parts)
        after[in_columns & (lengths > 0)] = BESIDE
    if width is not None:
        head = pc.if_else(pa.array(after == BESIDE), head, pc.utf8_rtrim(head, " "))
        if not in_columns.all():
            # A head with a cell wider than its column is printed without alignment, on its own
            # line.
            bare = _without_blanks(rows.head)
            fits &= in_columns | (display_widths(bare) <= width)
            head = pc.if_else(pa.array(in_columns), head, bare)
        between = pa.array(["", GAP, "\n" + " " * indent]).take(pa.array(after))
        head = pc.binary_join_element_wise(head, between, "")
    # ``before`` of a part selects a separator: 0 nothing, 1 a gap, 2 a line break.
    separators = pa.array(["", GAP, "\n" + " " * indent]).take(pa.array(before))
    pieces = pc.binary_join_element_wise(separators, parts, "")
    lists = pa.ListArray.from_arrays(pa.array(rows.starts.astype(np.int32)), pieces)
    strings = pc.binary_join_element_wise(head, pc.binary_join(lists, ""), "")
    if width is None:
        strings = pc.utf8_rtrim(strings, " ")
    return pc.if_else(_bools(fits), strings, pa.scalar(None, pa.string()))


def _without_blanks(cells: Sequence[pa.Array]) -> pa.Array:
    """Join the non-empty cells of each head, without the blanks that align them in columns."""
    trimmed = [pc.utf8_trim(cell, " ") for cell in cells[1:]]
    some = [pc.if_else(pc.equal(cell, ""), pa.scalar(None, pa.string()), cell) for cell in trimmed]
    return pc.binary_join_element_wise(cells[0], *some, GAP, null_handling="skip")


def _pad(cell: pa.Array, sizes: Longs, most: int) -> pa.Array:
    """Append blanks to a column's cells, whose widths are ``sizes``, up to the width ``most``."""
    if not len(cell):
        return cell
    blanks = pa.array([" " * count for count in range(most + 1)])
    missing = np.clip(most - sizes, 0, most)
    return pc.binary_join_element_wise(cell, blanks.take(pa.array(missing)), "")


def _bools(values: Octets) -> pa.Array:
    return pa.array(values.astype(bool))


def _mask(values: pa.Array) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask


class RowStrings(NamedTuple):
    """Strings, and the row of each, in ascending order."""

    strings: pa.Array
    rows: Longs


class _Entries(NamedTuple):
    """The entries of maps as columns: the key, the value, and the row of each entry."""

    keys: pa.Array
    values: pa.Array
    rows: Longs


def operation_columns(batch: pa.RecordBatch, *, wide: bool) -> RowParts | None:
    """Format operations for a printed table, or return None if a map has a duplicate key."""
    before, after = (_Entries(*map_entries(batch[name])) for name in ("before", "after"))
    parts = _changes(before, after, batch.num_rows)
    if parts is None:
        return None
    if wide:
        parts += [_name(name, batch[name]) for name in ("csn", "tx_owner", "tx_name")]
        tokens = _Entries(*map_entries(batch["tokens"]))
        if not has_distinct_keys(tokens.keys, tokens.rows, batch.num_rows):
            return None
        keys = pc.binary_join_element_wise("@", tokens.keys, "")
        parts.append(RowStrings(_join(keys, tokens.values), tokens.rows))
    strings, rows = _in_order(parts)
    # ``rows`` ascends, so the parts of row i start at its first occurrence.
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
    """Format a column of positions of 20 digits as file:offset for a printed table.

    Missing positions become "".
    """
    # "00000000020000000679" → "2" and "679"
    parts = (
        pc.utf8_ltrim(pc.utf8_slice_codeunits(positions, *bounds), "0")
        for bounds in ((0, DIGITS), (DIGITS, 2 * DIGITS))
    )
    filled = (pc.if_else(pc.equal(part, ""), "0", part) for part in parts)
    known = pc.not_equal(positions, "").fill_null(fill_value=False)
    return pc.if_else(known, pc.binary_join_element_wise(*filled, ":"), "").fill_null("")


def short_times(times: pa.Array) -> pa.Array:
    """Format a column of times for a printed table without a zone, and without a zero fraction.

    Missing times become "".
    """
    # The cast through integers keeps the instant and needs no time zone database.
    text = times.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    whole = pc.ends_with(text, ".000000")
    return pc.if_else(whole, pc.utf8_slice_codeunits(text, 0, -7), text).fill_null("")


def _changes(before: _Entries, after: _Entries, count: int) -> list[RowStrings] | None:
    """Format columns as ``NAME=value``, or ``NAME=old -> new`` if both images have them.

    In each row, columns that only the before image has come last. Returns None if a row has a
    duplicate key. ``count`` is the number of rows.
    """
    # Keys get numbers, and each row has one slot per key: slot row * names + code holds the index
    # of the entry, or -1. So looking up the same column in the other image is one array access.
    codes, names = number_keys(pa.concat_arrays([after.keys, before.keys]))
    after_codes, before_codes = codes[: len(after.keys)], codes[len(after.keys) :]
    after_slots, before_slots = (
        entry_slots(after.rows, count, after_codes, names),
        entry_slots(before.rows, count, before_codes, names),
    )
    if after_slots is None or before_slots is None:
        return None
    strings = _join(after.keys, after.values)
    old = before_slots[after.rows * names + after_codes]
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
    # the entries of the before image whose column is missing in the after image
    missing = np.flatnonzero(after_slots[before.rows * names + before_codes] < 0)
    rows = before.rows[missing]
    only_before = _join(before.keys.take(pa.array(missing)), before.values.take(pa.array(missing)))
    logged = np.bincount(after.rows, minlength=count)[rows] > 0
    ends = pa.array(["", f"{ARROW}not logged"]).take(pa.array(logged.astype(np.int8)))
    return [
        RowStrings(strings, after.rows),
        RowStrings(pc.binary_join_element_wise(only_before, ends, ""), rows),
    ]


def _same(one: pa.Array, other: pa.Array) -> Mask:
    equal = pc.equal(one, other).fill_null(fill_value=False)
    same: Mask = pc.or_(equal, pc.and_(one.is_null(), other.is_null())).to_numpy(
        zero_copy_only=False
    )
    return same


def _join(names: pa.Array, values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(names, values.fill_null(NULL), "=")


def _name(name: str, values: pa.Array) -> RowStrings:
    """Format the non-empty strings of a column as ``name=value``."""
    rows = np.flatnonzero(pc.not_equal(values, "").fill_null(fill_value=False))
    return RowStrings(pc.binary_join_element_wise(name, values.take(pa.array(rows)), "="), rows)


def _in_order(parts: list[RowStrings]) -> RowStrings:
    """Merge lists of strings by row. Within a row, strings keep the order of ``parts``."""
    some = [part for part in parts if len(part.rows)] or parts[:1]
    if len(some) == 1:
        return some[0]
    rows = np.concatenate([part.rows for part in some])
    order = np.argsort(rows, kind="stable")
    return RowStrings(
        pa.concat_arrays([part.strings for part in some]).take(pa.array(order)), rows[order]
    )
