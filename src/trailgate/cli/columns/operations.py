"""Operations of a trail as they are shown, in whole columns: what ``trail_output`` makes of one operation."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.cli.columns.layout import RowParts
from trailgate.columnar.kernels.positions import DIGITS
from trailgate.columnar.maps import map_entries

NULL: Final = "NULL"
ARROW: Final = " -> "  # between the value before and the one after


class Texts(NamedTuple):
    """Texts, and the row of each; rows ascend."""

    texts: pa.Array
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
        parts += [_named(name, batch[name]) for name in ("csn", "tx_owner", "tx_name")]
        tokens = _Entries(*map_entries(batch["tokens"]))
        if not distinct_keys(tokens.keys, tokens.rows, batch.num_rows):
            return None
        keys = pc.binary_join_element_wise("@", tokens.keys, "")
        parts.append(Texts(_joined(keys, tokens.values), tokens.rows))
    texts, rows = _in_order(parts)
    starts = np.searchsorted(rows, np.arange(batch.num_rows + 1)).astype(np.int64)
    return RowParts(_head(batch), texts, starts)


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


def _changes(before: _Entries, after: _Entries, count: int) -> list[Texts] | None:
    """Return columns as ``NAME=value``, as ``NAME=old -> new`` if both are known, and those that are not after; None where a key comes twice."""
    codes, names = _codes(pa.concat_arrays([after.keys, before.keys]))
    own, others = codes[: len(after.keys)], codes[len(after.keys) :]
    places, old_places = (
        _found(after.rows, count, own, names),
        _found(before.rows, count, others, names),
    )
    if places is None or old_places is None:
        return None
    texts = _joined(after.keys, after.values)
    old = old_places[after.rows * names + own]
    both = np.flatnonzero(old >= 0)
    pairs = after.values.take(pa.array(both)), before.values.take(pa.array(old[both]))
    changed = both[~_same(*pairs)]
    if len(changed):
        keys, values = (column.take(pa.array(changed)) for column in (after.keys, after.values))
        was = _joined(keys, before.values.take(pa.array(old[changed])))
        mask = np.zeros(len(texts), bool)
        mask[changed] = True
        made = pc.binary_join_element_wise(was, values.fill_null(NULL), ARROW)
        texts = pc.replace_with_mask(texts, pa.array(mask), made)
    left = np.flatnonzero(places[before.rows * names + others] < 0)
    rows = before.rows[left]
    gone = _joined(before.keys.take(pa.array(left)), before.values.take(pa.array(left)))
    logged = np.bincount(after.rows, minlength=count)[rows] > 0
    ends = pa.array(["", f"{ARROW}not logged"]).take(pa.array(logged.astype(np.int8)))
    return [Texts(texts, after.rows), Texts(pc.binary_join_element_wise(gone, ends, ""), rows)]


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


def _joined(names: pa.Array, values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(names, values.fill_null(NULL), "=")


def _named(name: str, values: pa.Array) -> Texts:
    """Return the texts of a column that are not empty, with its name."""
    rows = np.flatnonzero(pc.not_equal(values, "").fill_null(fill_value=False))
    return Texts(pc.binary_join_element_wise(name, values.take(pa.array(rows)), "="), rows)


def _in_order(parts: list[Texts]) -> Texts:
    """Return all texts row by row, those of a row in the order of the lists."""
    some = [part for part in parts if len(part.rows)] or parts[:1]
    if len(some) == 1:
        return some[0]
    rows = np.concatenate([part.rows for part in some])
    order = np.argsort(rows, kind="stable")
    return Texts(pa.concat_arrays([part.texts for part in some]).take(pa.array(order)), rows[order])
