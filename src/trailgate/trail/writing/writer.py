"""Change batches -> trail bytes: fixed bytes as matrices, values joined in between by Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.errors import EncodeError, Where
from trailgate.model.changes import (
    BEGIN,
    DELETE,
    END,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    WHOLE,
    ChangeBatch,
    ChangeBlock,
    StateColumn,
)
from trailgate.model.tables import Definitions
from trailgate.trail.format.record_types import (
    IO_DELETE,
    IO_INSERT,
    IO_KEY_UPDATE,
    IO_TRUNCATE,
    IO_UNIFIED_KEY_UPDATE,
    IO_UNIFIED_UPDATE,
    IO_UPDATE,
)
from trailgate.trail.format.tokens import MAX_LENGTH
from trailgate.trail.format.trail_format import LEVEL_3, TrailFormat, UpdateFormat
from trailgate.trail.writing.compact_updates import compacted
from trailgate.trail.writing.large_objects import NO_VALUES, part_large
from trailgate.trail.writing.long_records import long_records
from trailgate.trail.writing.operation_tokens import own_tokens
from trailgate.trail.writing.records import Group, Naming, lay_out, naming_of

CHUNK: Final = 1 << 14  # records laid out at once: their matrices stay in cache
MAX_INT32: Final = 2**31 - 1
NO_DEFINITIONS: Final = Definitions(())


@dataclass(frozen=True, slots=True)
class Encoded:
    """Trail bytes: operation i is body[starts[i]:starts[i + 1]]; ``starts`` has rows + 1 slots."""

    body: pa.Buffer
    starts: Longs


def encode(
    batch: ChangeBatch,
    trail_format: TrailFormat = LEVEL_3,
    definitions: Definitions = NO_DEFINITIONS,
) -> Encoded:
    """Return the records of all operations in their order; raises EncodeError.

    An update with before columns becomes two records, before image and after image, or a unified one. A key update
    becomes one whose prefix holds the before values of the key columns only, and of all columns if it is unified: other
    before values have no place in it (trail format §10.4), so capture passes none. ``definitions`` are those of the
    metadata that a file of level 5 or above begins with: its records name tables by their place there.
    """
    parts: list[tuple[pa.Array, Longs]] = []
    for block in batch.blocks:
        naming = naming_of(block.table, trail_format, definitions)
        for start in range(0, len(block), CHUNK):
            part = _sliced(block, start, min(start + CHUNK, len(block)))
            parts += _encoded(part, naming, trail_format.updates)
    return _in_order([part for part, _ in parts], [order for _, order in parts], batch.rows)


def _encoded(
    block: ChangeBlock, naming: Naming, updates: UpdateFormat
) -> Iterator[tuple[pa.Array, Longs]]:
    """Yield records and their orders."""
    if updates is UpdateFormat.COMPACT:
        block = compacted(block)
    unified = () if updates is UpdateFormat.SEPARATE else (UPDATE, KEY_UPDATE)
    parted = part_large(block)
    if parted is not None:
        block = parted.plain
        # Nothing says to which image of a record with two a piece belongs.
        for group in _groups(parted.rest, naming, unified[1:]):
            yield long_records(group, parted.values), group.order
    for group in _groups(block, naming, unified) if len(block) else ():
        laid = lay_out(group)
        long = laid.lengths > MAX_LENGTH
        if not long.any():
            yield laid.joined(), group.order
            continue
        short, rest = (group.take(np.flatnonzero(chosen)) for chosen in (~long, long))
        yield long_records(rest, NO_VALUES), rest.order
        if len(short.order):
            yield lay_out(short).joined(), short.order


def _sliced(block: ChangeBlock, start: int, stop: int) -> ChangeBlock:
    """Return consecutive rows of a block, with what is written of them; nothing is copied."""
    part = slice(start, stop)

    def column(state: StateColumn) -> StateColumn:
        if state.values is None:
            return state
        missing = None if state.missing is None else state.missing[part]
        return StateColumn(state.values[part], missing)

    return replace(
        block,
        order=block.order[part],
        op_type=block.op_type[part],
        op_ts=block.op_ts[part],
        tx_ind=block.tx_ind[part],
        tx_id=block.tx_id[part],
        csn=block.csn[part],
        seq_id=None,
        position=pa.nulls(stop - start),
        tx_owner=None,
        tx_name=None,
        tokens=own_tokens(None if block.tokens is None else block.tokens[part]),
        before=tuple(column(state) for state in block.before),
        after=tuple(column(state) for state in block.after),
    )


def _groups(block: ChangeBlock, naming: Naming, kinds: Sequence[int]) -> Iterator[Group]:
    """Yield the block's records in groups that are laid out alike; ``kinds`` of operation are unified.

    The order of a record is twice that of its operation, plus one for a second record.
    """
    kind = block.op_type
    _check_kinds(block)
    has_before = _has_before(block)
    unified = has_before & np.isin(kind, kinds)
    paired = has_before & (kind == UPDATE) & ~unified
    begins = (block.tx_ind == BEGIN) | (block.tx_ind == WHOLE)
    ends = (block.tx_ind == END) | (block.tx_ind == WHOLE)
    # TransInd is 0 first, 1 middle, 2 last, 3 only record; a pair is split between its records.
    whole = np.where(begins, np.where(ends, 3, 0), np.where(ends, 2, 1)).astype(np.uint8)
    head = np.where(begins, 0, 1).astype(np.uint8)
    tail = np.where(ends, 2, 1).astype(np.uint8)
    after = (kind == INSERT) | ((kind == UPDATE) & ~unified)
    for name, chosen, indicator, second in (
        ("before", paired | (kind == DELETE), np.where(paired, head, whole), 0),
        ("after", after, np.where(paired, tail, whole), paired),
        ("key", (kind == KEY_UPDATE) & ~unified, whole, 0),
        ("unified", unified, whole, 0),
        ("none", kind == TRUNCATE, whole, 0),
    ):
        if chosen.any():
            types = (_UNIFIED_TYPES if name == "unified" else _IO_TYPES)[kind]
            order, first = 2 * block.order + second, begins & (second == 0)
            group = Group(name, block, naming, order, types, indicator, first)
            yield group if chosen.all() else group.take(np.flatnonzero(chosen))


def _io_types(types: dict[int, int]) -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    table[list(types)] = list(types.values())
    table.setflags(write=False)
    return table


_IO_TYPES: Final = _io_types(
    {
        INSERT: IO_INSERT,
        UPDATE: IO_UPDATE,
        KEY_UPDATE: IO_KEY_UPDATE,
        DELETE: IO_DELETE,
        TRUNCATE: IO_TRUNCATE,
    }
)
_UNIFIED_TYPES: Final = _io_types({UPDATE: IO_UNIFIED_UPDATE, KEY_UPDATE: IO_UNIFIED_KEY_UPDATE})


def _check_kinds(block: ChangeBlock) -> None:
    if (_IO_TYPES[block.op_type] == 0).any():
        bad = chr(int(block.op_type[int(np.argmin(_IO_TYPES[block.op_type] != 0))]))
        raise EncodeError(f"unknown operation type {bad!r}", where=Where(table=block.table.name))


def _has_before(block: ChangeBlock) -> Mask:
    """Return the rows that have any before column."""
    found = np.zeros(len(block), bool)
    for column in block.before:
        if column.values is not None:
            if column.missing is None:
                return np.ones(len(block), bool)
            found |= ~column.missing
    return found


def _in_order(parts: list[pa.Array], orders: list[Longs], rows: int) -> Encoded:
    """Return the records as one buffer in the order of their operations."""
    if not parts:
        return Encoded(pa.py_buffer(b""), np.zeros(rows + 1, np.int64))
    order = np.concatenate(orders)
    sizes = np.concatenate([_sizes(part) for part in parts])
    if (order[1:] > order[:-1]).all():
        body: bytes | memoryview = b"".join(_content(part) for part in parts)
    else:
        by_order = np.argsort(order, kind="stable")
        body = _taken(parts, by_order, int(sizes.sum()))
        order, sizes = order[by_order], sizes[by_order]
    places = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=places[1:])
    starts = places[np.searchsorted(order, 2 * np.arange(rows + 1))]
    return Encoded(pa.py_buffer(body), starts)


def _taken(parts: list[pa.Array], order: Longs, size: int) -> memoryview:
    if size > MAX_INT32 or any(pa.types.is_large_binary(part.type) for part in parts):
        parts = [part.cast(pa.large_binary()) for part in parts]
    return _content(pa.concat_arrays(parts).take(pa.array(order)))


def _offsets(values: pa.Array) -> npt.NDArray[np.int64]:
    kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    offsets = np.frombuffer(values.buffers()[1], kind)
    part = offsets[values.offset : values.offset + len(values) + 1]
    return part.astype(np.int64)


def _sizes(values: pa.Array) -> Longs:
    return np.diff(_offsets(values))


def _content(values: pa.Array) -> memoryview:
    offsets = _offsets(values)
    return memoryview(values.buffers()[2] or b"")[int(offsets[0]) : int(offsets[-1])]
