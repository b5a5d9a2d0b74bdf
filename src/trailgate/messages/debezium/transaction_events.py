"""The places of operations in their transactions, and the events of transactions' bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
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
    counts: tuple[Longs, Longs, pa.Array]  # transaction, number and table, of ended ones


def bounds_of(batch: ChangeBatch, open_one: OpenTransaction) -> Bounds:
    """Return the bounds of a batch's transactions; ``open_one`` becomes what is open after it."""
    marks = batch.tx_indicators()
    begins, ends = (marks == BEGIN) | (marks == WHOLE), (marks == END) | (marks == WHOLE)
    number = np.cumsum(begins)  # 0 is the transaction that was open before
    rows = np.arange(batch.rows)
    first = np.maximum.accumulate(np.where(begins, rows, 0))
    total = rows - first + 1 + np.where(number == 0, sum(open_one.counts.values()), 0)
    times = np.empty(batch.rows, np.int64)
    for block in batch.blocks:
        times[block.order] = block.op_ts
    names, of_table, every = _counted(batch, number, open_one)
    ended = np.isin(every[0], number[ends])
    if batch.rows:
        left = every[:, (every[0] == number[-1]) & ~ended]
        pairs = zip(left[1].tolist(), left[2].tolist(), strict=True)
        open_one.counts = {names[table]: count for table, count in pairs}
    every = every[:, ended]
    numbers = np.searchsorted(number[ends], every[0]).astype(np.int64)
    tables = pa.array(names, pa.string()).take(pa.array(every[1]))
    counts = numbers, np.ascontiguousarray(every[2]), tables
    return Bounds(begins, ends, total, of_table, _tx_ids(batch), times, counts)


def _counted(
    batch: ChangeBatch, number: Longs, open_one: OpenTransaction
) -> tuple[list[str], Longs, npt.NDArray[np.int64]]:
    """Return the tables, each operation's place in its transaction's table, and how many each transaction has of each table.

    The last are lines of transactions, tables and counts, with what was there before the batch.
    """
    names = list(dict.fromkeys([*(b.table.name for b in batch.blocks), *open_one.counts]))
    of_table = np.empty(batch.rows, np.int64)
    before = np.zeros(len(names), np.int64)
    if batch.rows and number[0] == 0:
        before[:] = [open_one.counts.get(name, 0) for name in names]
    found = []
    for table, name in enumerate(names):
        mine = [block.order for block in batch.blocks if block.table.name == name]
        order = np.sort(np.concatenate(mine)) if mine else np.zeros(0, np.int64)
        own = number[order]
        fresh = np.ones(len(own), bool)
        fresh[1:] = own[1:] != own[:-1]
        begin = np.maximum.accumulate(np.where(fresh, np.arange(len(own)), 0))
        counted = np.arange(len(own)) - begin + 1 + np.where(own == 0, before[table], 0)
        of_table[order] = counted
        last = np.append(fresh[1:], [True] * bool(len(own))).astype(bool)
        found.append(np.stack([own[last], np.full(int(last.sum()), table), counted[last]]))
        if before[table] and (not len(own) or own[0] > 0):
            found.append(np.array([[0], [table], [before[table]]]))
    every = np.concatenate([np.zeros((3, 0), np.int64), *found], axis=1)
    return names, of_table, every[:, np.lexsort((every[1], every[0]))]


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
            Piece(b',{"data_collection":', names, STRING),
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
