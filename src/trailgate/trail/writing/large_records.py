"""Write operations that do not fit in one record: long records as fragments, and large values as pieces.

A record is at most 65,535 bytes. If the data of a record are longer, its record is followed by
fragment records (161) with the rest. These are rare, so they are written one by one. A large object
has separate records (116) after the record of its image. The image has NULL for it, and each
piece states which part of the value it is (trail format §11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar.hex_digits import from_hex
from trailgate.columnar.strings import StringBytes, most_bytes
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import DecodeError, DefinitionError, EncodeError, Where
from trailgate.model.changes import DELETE, UPDATE, ChangeBlock, StateColumn
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import TypeFamily
from trailgate.trail.format.record_types import (
    IO_FRAGMENT,
    IO_KEY_UPDATE,
    IO_LARGE_OBJECT,
    IO_LONG_KEY_UPDATE,
    ImagePrefix,
)
from trailgate.trail.format.tokens import (
    FRAME,
    GGS_TOKENS,
    MAX_LENGTH,
    USER_TOKENS,
    ByteOrder,
    RecordToken,
)
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.values.charsets import UTF_8, column_charset, encode_strings
from trailgate.trail.values.codec import MAX_CELL, VARIABLE_HEAD
from trailgate.trail.writing.kernels import PiecedValues, add_piece_sizes, write_pieces
from trailgate.trail.writing.record_groups import (
    MIDDLE,
    RecordImages,
    TrailRecordGroup,
    indicators_without_begin,
    indicators_without_end,
)
from trailgate.trail.writing.record_writer import (
    AUDIT_POS,
    AUDIT_RBA,
    ImageWriter,
    TokenAreas,
    head_size,
    header_times,
    make_before_writer,
    make_image_writer,
    make_record_template,
)

STEP: Final = 64  # rows that are written at once
YES: Final = 1

# Assumed: a value of a large-object column (by lob_type in its definition) stays in its record up to the length of
# Oracle's longest VARCHAR2. One printed LONG of 513 bytes is in its record, one of 7,070 is not (trail format §11).
INLINE_BYTES: Final = 4000
WIDEST: Final = 2  # bytes that one byte of UTF-8 takes at most in another character set (UTF-16)


class FragmentWriter:
    """Writes records that are too long for a trail record, each followed by its fragments.

    ``sizes`` are the sizes of the records with their fragments.
    """

    def __init__(self, group: TrailRecordGroup) -> None:
        self.records: list[bytes] = []
        for start in range(0, len(group.rows), STEP):
            part = group.take(np.arange(start, min(start + STEP, len(group.rows))))
            self.records += _records(part)
        self.sizes = np.array([len(record) for record in self.records], np.int64)

    def write(self, body: Octets, places: Longs) -> None:
        """Write the long trail records with their fragments.

        ``places`` are their offsets; they are advanced to the ends of the last fragments.
        """
        for start, record in zip(places.tolist(), self.records, strict=True):
            body[start : start + len(record)] = octets(record)
        places += self.sizes


def _records(group: TrailRecordGroup) -> Iterator[bytes]:
    """Yield the bytes of each trail record of a group with its fragments."""
    before, image = make_before_writer(group), make_image_writer(group)
    befores = [None] * len(group.rows) if before is None else _write_separately(before)
    complete_records = [
        _complete_record(group, record, *images)
        for record, images in enumerate(zip(befores, _write_separately(image), strict=True))
    ]
    tokens, rooms = _token_areas(group, complete_records)
    areas = zip(_write_separately(tokens), tokens.ggs_sizes.tolist(), rooms.tolist(), strict=True)
    for record, (complete_record, (area, ggs_size, room)) in enumerate(
        zip(complete_records, areas, strict=True)
    ):
        # ``area`` has the token areas of a short record: T with the GGS tokens, if there are any,
        # then U with the user tokens. Separate the two, and drop their frames.
        user_at = FRAME + ggs_size if ggs_size else 0
        others = [RecordToken(GGS_TOKENS, area[FRAME:user_at])] if ggs_size else []
        others += [RecordToken(USER_TOKENS, area[user_at + FRAME :])] if area[user_at:] else []
        cut = [*_cut(replace(complete_record, others=tuple(others)), room)]
        yield b"".join(
            map(encode_record, _set_indicators(cut, group.trans_ind[record : record + 1]))
        )


def _token_areas(
    group: TrailRecordGroup, complete_records: Sequence[TrailRecord]
) -> tuple[TokenAreas, Longs]:
    """Return the tokens of each long record, and how many of its data bytes fit before the first fragment.

    The tokens may contain the length of their record's data. Space is reserved for the longest
    number, so that a shorter one never changes how the data are divided.
    """
    lengths = np.array([len(record.data or b"") for record in complete_records], np.int64)
    widest = TokenAreas(group, np.minimum(lengths, MAX_LENGTH))
    # Two frames: of the data area and of the trailer.
    rooms = MAX_LENGTH - head_size(group) - 2 * FRAME - widest.sizes
    if rooms.min(initial=1) <= 0:
        problem = "the tokens of a record leave no room for its data"
        raise EncodeError(problem, where=Where(table=group.block.table.name))
    return TokenAreas(group, np.minimum(lengths, rooms)), rooms


def _write_separately(part: ImageWriter | TokenAreas) -> list[bytes]:
    """Write one part of a group's records, such as an image, into a separate byte string for each record."""
    ends = np.cumsum(part.sizes)
    body, starts = np.zeros(int(ends[-1]) + SPARE, np.uint8), ends - part.sizes
    part.write(body, starts.copy())
    return [body[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]


def _complete_record(
    group: TrailRecordGroup, record: int, before: bytes | None, image: bytes
) -> TrailRecord:
    """Build record number ``record`` of a group without its tokens. Its data may be too long for one record."""
    reference, io_type = group.reference, int(group.io_type[record])
    if before is not None:
        # The length of the before image precedes it, in two bytes if it fits. A key update with a
        # length of four bytes has its own type, so that readers need not try both widths.
        width = ImagePrefix.SHORT if len(before) <= MAX_LENGTH else ImagePrefix.LONG
        image = reference.order.raw(len(before), width) + before + image
        if io_type == IO_KEY_UPDATE and width is ImagePrefix.LONG:
            io_type = IO_LONG_KEY_UPDATE
    return TrailRecord(
        io_type,
        name=reference.table if reference.index is None else None,
        table_index=reference.index,
        data=image or None,
        partition=group.partition,
        image=group.image_letter,
        io_time=int(group.block.op_ts[group.rows[record]]),
        audit_pos=AUDIT_POS,
        audit_rba=AUDIT_RBA,
        trans_ind=MIDDLE,
        order=reference.order,
    )


def _cut(record: TrailRecord, room: int) -> Iterator[TrailRecord]:
    """Cut a trail record into a record with the first ``room`` bytes of its data, and fragments with the rest.

    If the data are not longer, yield only the record.

    Assumed (trail format §11): the data of a fragment continue the row's data, and Continued is Y
    in all parts but the last.
    """
    data = record.data or b""
    more = replace(record, io_type=IO_FRAGMENT, data=None, others=())
    offset = 0
    while offset + room < len(data):
        yield replace(record, data=data[offset : offset + room], continued=YES)
        offset, room, record = offset + room, _room(more), more
    yield replace(record, data=data[offset:] or None)


def _room(record: TrailRecord) -> int:
    """Return how many data bytes fit into a trail record that has no data yet."""
    return MAX_LENGTH - len(encode_record(record)) - FRAME


def _set_indicators(records: list[TrailRecord], trans_ind: Octets) -> list[TrailRecord]:
    """Set the transaction indicators of a record and its fragments, all of which are middle records at first.

    ``trans_ind`` is the indicator (one item) that the record would have if it were not cut.
    """
    if len(records) == 1:
        return [replace(records[0], trans_ind=int(trans_ind[0]))]
    first = replace(records[0], trans_ind=int(indicators_without_end(trans_ind)[0]))
    last = replace(records[-1], trans_ind=int(indicators_without_begin(trans_ind)[0]))
    return [first, *records[1:-1], last]


def _text_bytes(column: Column, values: pa.Array) -> pa.Array:
    charset = column_charset(column, UTF_8)
    if charset is None or charset == UTF_8:
        return values.view(pa.binary())
    return encode_strings(values, charset)


# Encoders from a column's values to the bytes of large objects. Other families cannot be large objects.
LARGE_BYTES: Final[Mapping[TypeFamily, Callable[[Column, pa.Array], pa.Array]]] = MappingProxyType(
    {
        TypeFamily.TEXT: _text_bytes,
        TypeFamily.NUMBER_TEXT: _text_bytes,
        TypeFamily.BYTES: lambda _, values: from_hex(values),
    }
)


@dataclass(frozen=True, slots=True)
class LargeValues:
    """The large values of one column of an image, to write as pieces after their records.

    ``rows`` are the rows of the large values. ``values`` has the bytes of all rows of the column.
    """

    before: bool  # of the before image
    index: int
    rows: Longs
    values: StringBytes


def extract_large_values(block: ChangeBlock) -> tuple[ChangeBlock, list[LargeValues]]:
    """Replace the large values of a block by NULL. Returns the block and the large values.

    The before values of a key update stay in its record, which contains both images.
    """
    # Only deletes and updates have a before image in a separate record.
    parted = (block.op_type == DELETE) | (block.op_type == UPDATE)
    before, after = list(block.before), list(block.after)
    large_columns = []
    # ``rows`` restricts the rows whose values may leave the record; None means all.
    for is_before, image, rows in ((True, before, parted), (False, after, None)):
        for index, state in enumerate(image):
            raw = _possibly_large(block, index, state)
            large = None if raw is None else _large(block.table.columns[index], raw)
            if large is not None and rows is not None:
                large &= rows
            if large is not None and large.any():
                values = StringBytes.from_column(raw)
                large_columns.append(LargeValues(is_before, index, np.flatnonzero(large), values))
                image[index] = _null_where(state, large)
    if not large_columns:
        return block, large_columns
    return replace(block, before=tuple(before), after=tuple(after)), large_columns


def _possibly_large(block: ChangeBlock, index: int, state: StateColumn) -> pa.Array | None:
    """Return a column's values as the bytes of large objects, or None if none of them can be long enough for one.

    ``state`` is the column ``index`` of one of the block's images.
    """
    limit = _limits(block.table)[index]
    # If even the longest value cannot exceed the limit in any character set, none needs to be encoded.
    if state.values is None or limit is None or most_bytes(state.values) * WIDEST <= limit:
        return None
    column = block.table.columns[index]
    try:
        return LARGE_BYTES[column.family](column, state.values)
    except (DecodeError, EncodeError) as error:
        where = Where(table=block.table.name, field=column.name, raw=error.where.raw)
        raise EncodeError(error.problem, where=where) from None


@lru_cache(TABLES)
def _limits(table: Table) -> tuple[int | None, ...]:
    """Return for each column the size in bytes above which a value is written as a large object.

    The size is None if the values of the column are never written as large objects.
    """
    return tuple(_limit(column) if _may_be_large(column) else None for column in table.columns)


def _may_be_large(column: Column) -> bool:
    try:
        return column.family in LARGE_BYTES and not column.type_row.fixed
    except DefinitionError:  # an unknown type: ImageWriter raises for its values
        return False


def _limit(column: Column) -> int:
    return INLINE_BYTES if column.lob_type else MAX_CELL - VARIABLE_HEAD


def _large(column: Column, raw: pa.Array) -> Mask:
    sizes = pc.binary_length(raw).fill_null(0).to_numpy()
    large: Mask = sizes > _limit(column)
    return large


def _null_where(state: StateColumn, large: Mask) -> StateColumn:
    """Return an image's column with NULL in the rows of the mask ``large``. The bytes are shared, not copied."""
    values = state.values
    assert values is not None
    valid = values.is_valid().to_numpy(zero_copy_only=False) & ~large
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    _, offsets, data = values.buffers()
    # The new array begins at row 0, so skip the offsets (4 bytes each) of the rows before it.
    shared = [bitmap, offsets.slice(4 * values.offset), data]
    return replace(state, values=pa.Array.from_buffers(values.type, len(values), shared))


class _ValuesOfRecords(NamedTuple):
    """The large values of one column: the value of row ``rows[i]`` is written after record ``records[i]``."""

    column: LargeValues
    records: Longs
    rows: Longs


class PieceWriter:
    """Writes the large values of a group's records as piece records after them.

    ``sizes`` are the total sizes of each record's pieces.
    """

    def __init__(self, group: TrailRecordGroup, columns: Sequence[LargeValues]) -> None:
        self.group, self.model = group, make_record_template(group, IO_LARGE_OBJECT)
        self.sizes = np.zeros(len(group.rows), np.int64)
        self.values = []
        for column in columns:
            if column.before is not (group.images is RecordImages.BEFORE):
                continue
            rows = column.rows[np.isin(column.rows, group.rows, assume_unique=True)]
            selected = _ValuesOfRecords(column, np.searchsorted(group.rows, rows), rows)
            frames = head_size(group) + 2 * FRAME
            add_piece_sizes(selected.records, rows, column.values.offsets, frames, self.sizes)
            self.values.append(selected)

    def records_before(self) -> TrailRecordGroup:
        """Return the group's records with corrected indicators: a record that is followed by pieces must not end its transaction."""
        indicators = self.group.trans_ind
        split = np.where(self.sizes > 0, indicators_without_end(indicators), indicators)
        return replace(self.group, trans_ind=split)

    def write(self, body: Octets, places: Longs) -> None:
        """Write the piece records of large values.

        ``places`` are the ends of the records that they belong to; they are advanced to the ends of
        the pieces.
        """
        group, order = self.group, self.group.reference.order
        # The pieces of a record are written column by column. Only the last column's pieces may end
        # the transaction, so find the last column of each record.
        last_column = np.zeros(len(group.rows), np.int64)
        for number, selected in enumerate(self.values):
            last_column[selected.records] = number
        last, times = indicators_without_begin(group.trans_ind), header_times(group)
        for number, (column, records, rows) in enumerate(self.values):
            is_last = last_column[records] == number
            write_pieces(
                body,
                places,
                PiecedValues(
                    records=records,
                    rows=rows,
                    offsets=column.values.offsets,
                    data=column.values.data,
                    times=times[records],
                    last_indicators=np.where(is_last, last[records], np.uint8(MIDDLE)),
                ),
                self.model,
                head_size(group),
                column.index,
                order is ByteOrder.BIG,
            )
