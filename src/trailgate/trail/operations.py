"""Records -> operations: which records make one, tables apart, columns read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.columnar.gather import fixed_rows
from trailgate.errors import DefinitionError
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE, ChangeBlock, Image
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Definitions, Table
from trailgate.trail.columns import Area, read_image
from trailgate.trail.grouping import Operations
from trailgate.trail.metadata import TrailTable
from trailgate.trail.prefixes import split_images
from trailgate.trail.record_header import Heads, Source
from trailgate.trail.record_tokens import Tokens, token_maps
from trailgate.trail.record_types import IO_DELETE, IO_TRUNCATE, PREFIX_OF

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# By "begins a transaction" + 2 * "ends one".
INDICATORS: Final = np.array([MIDDLE, BEGIN, END, WHOLE], np.uint8)
POSITION_DIGITS: Final = 10  # of the file number, and again of the byte offset


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a chunk of operations is read with; ``row`` is the place of its first operation."""

    source: Source
    definitions: Definitions
    file_number: int
    row: int
    wanted: TablePatterns | None = None  # of which tables; None: all


def read_blocks(
    chunk: Chunk, operations: Operations, transactions: tuple[pa.Array, pa.Array], tokens: Tokens
) -> list[ChangeBlock]:
    """Return one block a table, in the order in which the tables appear."""
    if not len(operations):
        return []
    maps = token_maps(tokens, operations.owner, len(operations))
    positions = position_texts(
        chunk.file_number, operations.heads.offsets[operations.first] + chunk.source.base
    )
    shared = (*transactions, positions, maps)
    tables = operations.heads.table[operations.first]
    blocks = []
    for code, known in enumerate(operations.heads.tables):
        if chunk.wanted is not None and not chunk.wanted.fits(known.name):
            continue
        rows = np.flatnonzero(tables == code)
        if len(rows):
            table = _table(chunk, operations, known, int(rows[0]))
            blocks.append(_read_block(chunk, operations, (table, rows), shared))
    return blocks


def _table(chunk: Chunk, operations: Operations, known: TrailTable, row: int) -> Table:
    if known.table is not None:
        return known.table
    try:
        return chunk.definitions.table(known.name)
    except DefinitionError as error:
        start = int(operations.heads.offsets[operations.first[row]])
        span, hint = (start, start + 64), error.hint
        raise chunk.source.error(error.problem, span, table=known.name, hint=hint) from None


def _read_block(
    chunk: Chunk,
    operations: Operations,
    chosen: tuple[Table, Longs],
    shared: tuple[pa.Array, ...],
) -> ChangeBlock:
    table, rows = chosen
    heads = operations.heads
    first, after = operations.first[rows], operations.after[rows]
    if len(rows) < len(operations):
        index = pa.array(rows)
        shared = tuple(values.take(index) for values in shared)
    tx_id, csn, position, maps = shared
    before_image, after_image = _read_images(chunk.source, heads, table, (first, after))
    return ChangeBlock(
        table=table,
        order=rows + chunk.row,
        op_type=heads.op_type[first],
        op_ts=heads.op_ts[first],
        tx_ind=INDICATORS[operations.begins[rows] + 2 * operations.ends[rows]],
        tx_id=tx_id,
        csn=csn,
        seq_id=None,
        position=position,
        before=before_image,
        after=after_image,
        tokens=maps,
    )


def _read_images(
    source: Source, heads: Heads, table: Table, records: tuple[Longs, Longs]
) -> tuple[Image, Image]:
    """Return the before and after images of operations (first record, after record)."""
    first, after = records
    io_type = heads.io_type[first]
    _check_truncates(source, heads, first[io_type == IO_TRUNCATE])
    prefixed = PREFIX_OF[io_type] > 0
    has_before = (io_type == IO_DELETE) | (first != after) | prefixed
    # A before image without an after image is what is left of an update that was cut off.
    has_after = (io_type != IO_DELETE) & (io_type != IO_TRUNCATE)
    befores, afters = heads.data.take(first), heads.data.take(after)
    if prefixed.any():
        split_images(source, table, (befores, afters), PREFIX_OF[io_type])
    return (
        read_image(_area(source, table, (befores.starts, befores.ends), has_before)),
        read_image(_area(source, table, (afters.starts, afters.ends), has_after)),
    )


def _area(source: Source, table: Table, spans: tuple[Longs, Longs], chosen: Mask) -> Area:
    starts, ends = spans
    if chosen.all():
        return Area(source, table, starts, ends, None, len(chosen))
    rows = np.flatnonzero(chosen)
    return Area(source, table, starts[rows], ends[rows], rows, len(chosen))


def _check_truncates(source: Source, heads: Heads, records: Longs) -> None:
    data = heads.data.take(records)
    filled = np.flatnonzero(data.starts < data.ends)
    if len(filled):
        span = (int(data.starts[filled[0]]), int(data.ends[filled[0]]))
        raise source.error("a truncate has no data (format notes 10.5), this one has", span)


def position_texts(file_number: int, offsets: Longs) -> pa.Array:
    """Return 10 digits of file number and 10 of byte offset, so that text order is order."""
    matrix = np.empty((len(offsets), 2 * POSITION_DIGITS), np.uint8)
    prefix = f"{file_number:0{POSITION_DIGITS}d}".encode()
    matrix[:, :POSITION_DIGITS] = np.frombuffer(prefix, np.uint8)
    rest = offsets
    for column in range(2 * POSITION_DIGITS - 1, POSITION_DIGITS - 1, -1):
        rest, digit = np.divmod(rest, 10)
        matrix[:, column] = digit + ord("0")
    return fixed_rows(matrix).view(pa.string())
