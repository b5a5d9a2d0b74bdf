"""Records -> operations: before and after images joined, tables apart, columns read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.columnar.gather import fixed_rows
from trailgate.columnar.views import words
from trailgate.errors import DefinitionError
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE, ChangeBlock, Image
from trailgate.model.tables import Definitions, Table
from trailgate.trail.columns import Area, read_image
from trailgate.trail.record_header import Heads, Source
from trailgate.trail.record_tokens import Tokens, token_maps
from trailgate.trail.record_types import IO_DELETE, IO_KEY_UPDATE, IO_TRUNCATE, IO_UPDATE

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEY_LENGTH = 2  # a key update's data begin with the u16 length of its before image
# By "begins a transaction" + 2 * "ends one".
INDICATORS = np.array([MIDDLE, BEGIN, END, WHOLE], np.uint8)
POSITION_DIGITS = 10  # of the file number, and again of the byte offset


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of consecutive records: the first record of each, and that of its after image.

    ``records`` counts the records taken: a before image at the end is left for later.
    """

    heads: Heads
    first: Longs
    after: Longs
    records: int

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a chunk of operations is read with; ``row`` is the place of its first operation."""

    source: Source
    definitions: Definitions
    file_number: int
    row: int


def join_images(source: Source, heads: Heads) -> Operations:
    """Return operations: B/15 followed by A/15 on the same table is one update (notes 10.3)."""
    count = len(heads.offsets)
    update = heads.io_type == IO_UPDATE
    before = np.flatnonzero(update & heads.is_before)
    if len(before) and before[-1] == count - 1:
        before = before[:-1]
        count -= 1
    follower = before + 1
    good = update[follower] & ~heads.is_before[follower]
    good &= heads.table[follower] == heads.table[before]
    good &= (heads.trans_ind[before] < 2) & np.isin(heads.trans_ind[follower], (1, 2))
    if not good.all():
        bad = int(heads.offsets[before[int(np.argmin(good))]])
        raise source.error(
            "a before image must be followed by the after image of the same update",
            (bad, bad + 64),
        )
    is_first = np.ones(count, bool)
    is_first[follower] = False
    first = np.flatnonzero(is_first)
    after = first.copy()
    after[np.searchsorted(first, before)] += 1
    return Operations(heads, first, after, count)


def read_blocks(
    chunk: Chunk, operations: Operations, transactions: tuple[pa.Array, pa.Array], tokens: Tokens
) -> list[ChangeBlock]:
    """Return one block a table, in the order in which the tables appear."""
    if not len(operations):
        return []
    owner = np.searchsorted(operations.first, np.arange(operations.records), "right")
    maps = token_maps(tokens, owner - 1, len(operations))
    positions = position_texts(
        chunk.file_number, operations.heads.offsets[operations.first] + chunk.source.base
    )
    shared = (*transactions, positions, maps)
    tables = operations.heads.table[operations.first]
    blocks = []
    for code, name in enumerate(operations.heads.names):
        rows = np.flatnonzero(tables == code)
        if len(rows):
            table = _table(chunk, operations, name, int(rows[0]))
            blocks.append(_read_block(chunk, operations, (table, rows), shared))
    return blocks


def _table(chunk: Chunk, operations: Operations, name: str, row: int) -> Table:
    try:
        return chunk.definitions.table(name)
    except DefinitionError as error:
        start = int(operations.heads.offsets[operations.first[row]])
        problem = error.problem
        raise chunk.source.error(
            problem, (start, start + 64), table=name, hint=error.hint
        ) from None


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
        tx_ind=_indicators(heads.trans_ind[first], heads.trans_ind[after]),
        tx_id=tx_id,
        csn=csn,
        seq_id=None,
        position=position,
        before=before_image,
        after=after_image,
        tokens=maps,
    )


def _indicators(first: npt.NDArray[np.uint8], last: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return B, M, E or W: TransInd 0 begins, 2 ends, 3 does both (format notes 5)."""
    begins = (first == 0) | (first == 3)
    indicators: npt.NDArray[np.uint8] = INDICATORS[begins + 2 * (last >= 2)]
    return indicators


def _read_images(
    source: Source, heads: Heads, table: Table, records: tuple[Longs, Longs]
) -> tuple[Image, Image]:
    """Return the before and after images of operations (first record, after record)."""
    first, after = records
    io_type = heads.io_type[first]
    _check_truncates(source, heads, first[io_type == IO_TRUNCATE])
    key = io_type == IO_KEY_UPDATE
    has_before = (io_type == IO_DELETE) | (first != after) | key
    has_after = (io_type != IO_DELETE) & (io_type != IO_TRUNCATE)
    starts, ends = heads.data_start[first], heads.data_end[first]
    after_starts, after_ends = heads.data_start[after], heads.data_end[after]
    if key.any():
        middle = _key_ends(source, starts[key], ends[key])
        starts[key] += KEY_LENGTH
        ends[key] = after_starts[key] = middle
    return (
        read_image(_area(source, table, (starts, ends), has_before)),
        read_image(_area(source, table, (after_starts, after_ends), has_after)),
    )


def _area(source: Source, table: Table, spans: tuple[Longs, Longs], chosen: Mask) -> Area:
    starts, ends = spans
    if chosen.all():
        return Area(source, table, starts, ends, None, len(chosen))
    rows = np.flatnonzero(chosen)
    return Area(source, table, starts[rows], ends[rows], rows, len(chosen))


def _key_ends(source: Source, starts: Longs, ends: Longs) -> Longs:
    """Return where the before images of key updates end (format notes 10.4)."""
    middle: Longs = starts + KEY_LENGTH + words(source.data, "u2")[starts]
    bad = middle > ends
    if bad.any():
        row = int(np.argmax(bad))
        problem = "a key update's before image runs over its data area"
        raise source.error(problem, (int(starts[row]), int(ends[row])))
    return middle


def _check_truncates(source: Source, heads: Heads, records: Longs) -> None:
    filled = records[heads.data_start[records] < heads.data_end[records]]
    if len(filled):
        span = (int(heads.data_start[filled[0]]), int(heads.data_end[filled[0]]))
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
