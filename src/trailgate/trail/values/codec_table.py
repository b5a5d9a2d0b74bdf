"""The table of the codecs of trail values, one row per type family, and the selection of a column's codec from it.

`decode_leniently` decodes a column by its codec even if some of the values are bad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.errors import DecodeError, DefinitionError, Where
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import TypeFamily
from trailgate.trail.values.cell_kernels import UNKNOWN_WIDTH, VARYING
from trailgate.trail.values.cells import measure_variable
from trailgate.trail.values.charsets import UTF_8, column_charset
from trailgate.trail.values.codec import TrailCells, TrailValueCodec
from trailgate.trail.values.numbered_columns import (
    check_numbered,
    decode_large_numbered,
    decode_numbered,
    encode_numbered,
)
from trailgate.trail.values.numbers import (
    check_float,
    check_integer,
    decode_float,
    decode_integer,
    encode_float,
    encode_integer,
    number_width,
)
from trailgate.trail.values.text import (
    UNKNOWN_NATIONAL,
    check_fixed,
    check_fixed_bytes,
    check_variable,
    decode_fixed,
    decode_fixed_bytes,
    decode_large_bytes,
    decode_large_text,
    decode_variable,
    decode_variable_bytes,
    encode_fixed,
    encode_fixed_bytes,
    encode_fixed_national,
    encode_national,
    encode_variable,
    encode_variable_bytes,
    fixed_width,
)
from trailgate.trail.values.times import (
    check_datetime,
    check_zoned,
    datetime_width,
    decode_datetime,
    decode_zoned,
    encode_datetime,
    encode_zoned,
)


def _varying(_: Column) -> int:
    return VARYING


_TEXT, _PADDED = (
    TrailValueCodec(decode_variable, encode_variable, check_variable, _varying),
    TrailValueCodec(decode_fixed, encode_fixed, check_fixed, fixed_width),
)
_INTEGER = TrailValueCodec(decode_integer, encode_integer, check_integer, number_width)

# By family and whether the type has a fixed length.
CODECS: Final[Mapping[tuple[TypeFamily, bool], TrailValueCodec]] = MappingProxyType(
    {
        (TypeFamily.TEXT, False): _TEXT,
        (TypeFamily.TEXT, True): _PADDED,
        (TypeFamily.NUMBER_TEXT, False): _TEXT,
        (TypeFamily.NUMBER_TEXT, True): _PADDED,
        (TypeFamily.INTEGER, False): _INTEGER,
        (TypeFamily.UNSIGNED, False): _INTEGER,
        (TypeFamily.DATETIME, False): TrailValueCodec(
            decode_datetime, encode_datetime, check_datetime, datetime_width
        ),
        (TypeFamily.BYTES, False): TrailValueCodec(
            decode_variable_bytes, encode_variable_bytes, measure_variable, _varying
        ),
        (TypeFamily.BYTES, True): TrailValueCodec(
            decode_fixed_bytes, encode_fixed_bytes, check_fixed_bytes, fixed_width
        ),
        (TypeFamily.FLOAT, False): TrailValueCodec(
            decode_float, encode_float, check_float, number_width
        ),
        (TypeFamily.NUMBERED, False): TrailValueCodec(
            decode_numbered, encode_numbered, check_numbered
        ),
    }
)
# Text whose definition states a character set other than UTF-8; the index is 1 for a fixed length.
_NATIONAL: Final = (
    TrailValueCodec(decode_variable, encode_national, check_variable, _varying),
    TrailValueCodec(decode_fixed, encode_fixed_national, check_fixed, fixed_width),
)
_ZONED: Final = TrailValueCodec(decode_zoned, encode_zoned, check_zoned)

# Decoders of the bytes of a complete large object. Other families cannot be large objects.
LARGE: Final[Mapping[TypeFamily, Callable[[TrailCells], pa.Array]]] = MappingProxyType(
    {
        TypeFamily.TEXT: decode_large_text,
        TypeFamily.NUMBER_TEXT: decode_large_text,
        TypeFamily.BYTES: decode_large_bytes,
        TypeFamily.NUMBERED: decode_large_numbered,
    }
)


def select_codec(column: Column) -> TrailValueCodec | None:
    """Return the trail value codec of a column, or None if the layout of its type is not documented.

    Raises DefinitionError if the type code is unknown.
    """
    if column.zoned:
        return _ZONED
    if column.family is TypeFamily.TEXT and column_charset(column, UTF_8) != UTF_8:
        known = column_charset(column, UTF_8) is not None
        return _NATIONAL[column.type_row.fixed] if known else None
    return CODECS.get((column.family, column.type_row.fixed))


@lru_cache(TABLES)
def select_codecs(table: Table) -> tuple[TrailValueCodec | None, ...]:
    """Return the codec of each column of a table, or None for a column whose values cannot be read."""
    return tuple(map(_known_codec, table.columns))


@lru_cache(TABLES)
def cell_widths(table: Table) -> Longs:
    """Return the bytes of each column's values: a fixed width, ``VARYING``, or ``UNKNOWN_WIDTH``."""
    codecs = zip(table.columns, select_codecs(table), strict=True)
    widths = [
        UNKNOWN_WIDTH if codec is None or codec.width is None else codec.width(column)
        for column, codec in codecs
    ]
    array = np.array(widths, np.int64)
    array.setflags(write=False)
    return array


def _known_codec(column: Column) -> TrailValueCodec | None:
    try:
        return select_codec(column)
    except DefinitionError:
        return None


def explain_unreadable(column: Column) -> str:
    """Explain why the values of a column can be neither read nor written."""
    try:
        row = column.type_row
    except DefinitionError as error:
        return error.problem
    if row.family is TypeFamily.TEXT:
        return UNKNOWN_NATIONAL
    return f"the layout of values of type {row.name} ({row.code}) is not documented"


def decode_leniently(
    decode: Callable[[TrailCells], pa.Array], cells: TrailCells
) -> tuple[pa.Array, pa.Array | None]:
    """Decode a column's trail values even if some are bad: a bad value becomes null.

    Returns the values, and the problem of each (null for a good value) or None if all are good.

    A decoder reports only the first bad value, so ever smaller parts are tried: half as many values
    after a failure, twice as many after a success. One bad value among n costs about two decodings
    of all n.
    """
    try:
        return decode(cells), None
    except DecodeError:
        pass
    count = len(cells.starts)
    problems: list[str | None] = [None] * count
    parts: list[pa.Array | None] = []  # None for a bad value
    # Example: 8 values of which number 5 is bad. Sizes 8 and 4 at 0: failure, then success; sizes 4, 2 and 1
    # at 4: failure, failure, success; size 2, then 1 at 5: the bad value; 1 and 1 at 6 and 7.
    at, size = 0, count
    while at < count:
        size = min(size, count - at)
        part = slice(at, at + size)
        try:
            parts.append(
                decode(replace(cells, starts=cells.starts[part], lengths=cells.lengths[part]))
            )
        except DecodeError as error:
            if size > 1:
                size //= 2
                continue
            problems[at] = f"{error.problem} ({Where(raw=error.where.raw)})"
            parts.append(None)
            at += 1
        else:
            at, size = at + size, 2 * size
    known = next((part.type for part in parts if part is not None), cells.column.arrow_type)
    values = [pa.nulls(1, known) if part is None else part for part in parts]
    return pa.concat_arrays(values), pa.array(problems, pa.string())
