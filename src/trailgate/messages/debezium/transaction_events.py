"""The places of operations in their transactions, and the events of transactions' bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import take_text
from trailgate.messages.json_text.objects import (
    BARE,
    MEMBERS,
    STRING,
    MeasuredObjects,
    Piece,
    joined_members,
    measure,
)
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch

_MILLISECOND: Final = 1000


@dataclass(slots=True)
class OpenTransaction:
    """How many operations a transaction has so far, by table."""

    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the operations of a batch: which begin and end a transaction, and the places in it, in all and in its table, from 1 on."""

    begins: Mask
    ends: Mask
    total: Longs
    of_table: Longs
    tx_id: pa.Array
    times: Longs
    counts: tuple[Longs, Longs, tuple[str, ...]]  # transaction, number and table, of ended ones


def bounds_of(batch: ChangeBatch, open_one: OpenTransaction) -> Bounds:
    """Return the bounds of a batch's transactions; ``open_one`` becomes what is open after it."""
    marks = batch.tx_indicators()
    begins, ends = (marks == BEGIN) | (marks == WHOLE), (marks == END) | (marks == WHOLE)
    number = np.cumsum(begins)  # 0 is the transaction that was open before
    rows = np.arange(batch.rows)
    first = np.maximum.accumulate(np.where(begins, rows, 0))
    total = rows - first + 1 + np.where(number == 0, sum(open_one.counts.values()), 0)
    of_table, times = np.empty(batch.rows, np.int64), np.empty(batch.rows, np.int64)
    found: dict[tuple[int, str], int] = {}
    if batch.rows and number[0] == 0:
        found = {(0, table): count for table, count in open_one.counts.items()}
    for block in batch.blocks:
        places = np.argsort(block.order, kind="stable")
        order, name = block.order[places], block.table.name
        own = number[order]
        fresh = np.ones(len(own), bool)
        fresh[1:] = own[1:] != own[:-1]
        begin = np.maximum.accumulate(np.where(fresh, np.arange(len(own)), 0))
        counted = np.arange(len(own)) - begin + 1
        counted += np.where(own == 0, found.get((0, name), 0), 0)
        of_table[order], times[order] = counted, block.op_ts[places]
        last = np.append(fresh[1:], True)
        pairs = zip(own[last].tolist(), counted[last].tolist(), strict=True)
        found |= {(transaction, name): count for transaction, count in pairs}
    ended = set(number[ends].tolist())
    current = int(number[-1]) if batch.rows else -1
    if batch.rows:
        open_one.counts = {
            table: count
            for (transaction, table), count in found.items()
            if transaction == current and transaction not in ended
        }
    kept = sorted((key, count) for key, count in found.items() if key[0] in ended)
    numbers = np.searchsorted(number[ends], [key[0] for key, _ in kept]).astype(np.int64)
    counts = np.array([count for _, count in kept], np.int64)
    names = tuple(key[1] for key, _ in kept)
    return Bounds(begins, ends, total, of_table, _tx_ids(batch), times, (numbers, counts, names))


def _tx_ids(batch: ChangeBatch) -> pa.Array:
    blocks = [block for block in batch.blocks if len(block)]
    every = pa.concat_arrays([block.tx_id for block in blocks])
    order = np.concatenate([block.order for block in blocks])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return take_text(every, place)


def begin_events(bounds: Bounds) -> tuple[Longs, MeasuredObjects]:
    """Return the operations that the BEGIN events are before, and the events."""
    rows = np.flatnonzero(bounds.begins & _identified(bounds))
    pieces = [
        *_head(bounds, rows, b"BEGIN"),
        Piece(b',"event_count":null,"data_collections":null}'),
    ]
    return rows, measure(pieces, len(rows))


def end_events(bounds: Bounds) -> tuple[Longs, MeasuredObjects]:
    """Return the operations that the END events are after, and the events."""
    ends = np.flatnonzero(bounds.ends)
    numbers, counts, names = bounds.counts
    entries = measure(
        [
            Piece(b',{"data_collection":', pa.array(names, pa.string()), STRING),
            Piece(b',"event_count":', _digits(counts), BARE),
            Piece(b"}"),
        ],
        len(names),
    )
    offsets = np.searchsorted(numbers, np.arange(len(ends) + 1)).astype(np.int64)
    listed = joined_members(entries, offsets)
    known = np.flatnonzero(_identified(bounds)[ends])
    rows = ends[known]
    pieces = [
        *_head(bounds, rows, b"END"),
        Piece(b',"event_count":', _digits(bounds.total[rows]), BARE),
        Piece(b',"data_collections":[', listed.take(pa.array(known)), MEMBERS),
        Piece(b"]}"),
    ]
    return rows, measure(pieces, len(rows))


def _identified(bounds: Bounds) -> Mask:
    """Return which operations have a transaction id."""
    if not bounds.tx_id.null_count:
        return np.ones(len(bounds.begins), bool)
    valid: Mask = np.asarray(bounds.tx_id.is_valid())
    return valid


def _head(bounds: Bounds, rows: Longs, status: bytes) -> list[Piece]:
    times = bounds.times[rows] // _MILLISECOND
    return [
        Piece(b'{"status":"' + status + b'","id":', bounds.tx_id.take(pa.array(rows)), STRING),
        Piece(b',"ts_ms":', _digits(times), BARE),
    ]


def _digits(numbers: Longs) -> pa.Array:
    return pa.array(numbers).cast(pa.string())
