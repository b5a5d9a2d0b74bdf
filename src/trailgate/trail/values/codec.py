"""Column values in trail form and back, whole columns at once; one codec row a kind.

Every value begins with a null indicator: 00 00, or FF FF for NULL (trail format §10.2).

The character sets of databases: their names, and strings in them made UTF-8, whole columns at once.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.code_pages import code_page, decode_column, without
from trailgate.columnar.rows import octets
from trailgate.errors import DecodeError, EncodeError, OptionError, Where
from trailgate.model.tables import Column
from trailgate.model.types import INTERVAL_TYPES, UTF_8_SUB_TYPES, UTF_16_SUB_TYPE
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.framing import TrailBytes

NULL: Final = 0xFFFF
INDICATOR_BYTES: Final = 2
CELL_HEAD: Final = 4  # column index and length, before each value
MAX_CELL: Final = 0xFFFF  # a value's length is u16
VARIABLE_HEAD: Final = 4  # null indicator and u16 length, before a value of varying length


@dataclass(frozen=True, slots=True)
class Cells:
    """Where the values of one column lie: the offset of each null indicator, and its length."""

    source: TrailBytes
    table: str
    column: Column
    starts: Longs
    lengths: Longs

    def require(self, good: Mask, problem: str) -> None:
        """Raise DecodeError about the first value that is not good."""
        if not good.all():
            raise self.error(problem, int(np.argmin(good)))

    def error(self, problem: str, row: int) -> DecodeError:
        """Return an error about one value."""
        start = int(self.starts[row])
        span = (start, start + int(self.lengths[row]))
        error = self.source.error(problem, span, table=self.table)
        return error.with_place(field=self.column.name)


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """The column that cells are written for: its index in the records, and the trail's byte order."""

    table: str
    column: Column
    index: int
    order: ByteOrder = ByteOrder.BIG

    def error(self, problem: str, value: str | bytes = b"") -> EncodeError:
        """Return an error about one value."""
        raw = value.encode() if isinstance(value, str) else value
        where = Where(table=self.table, field=self.column.name, raw=raw or None)
        return EncodeError(problem, where=where)

    def head(self, length: int) -> Octets:
        """Return column index and length of cells that are all as long; raises EncodeError."""
        if length > MAX_CELL:
            raise self.error(f"a value of {length} bytes does not fit in a record")
        return octets(self.order.raw(self.index, 2) + self.order.raw(length, 2))


@dataclass(frozen=True, slots=True)
class RecordValues:
    """The values of a column, and which of them each record holds.

    ``missing`` marks values that no record holds: such a record has no cell of the column.
    """

    values: pa.Array
    rows: Longs  # of the values, one a record
    missing: Mask | None = None  # one item a value

    def held(self) -> RecordValues:
        """Return the values that records hold alone, in the order of the records."""
        if len(self.rows) == len(self.values):
            return self
        missing = None if self.missing is None else self.missing[self.rows]
        rows = np.arange(len(self.rows))
        return RecordValues(self.values.take(pa.array(self.rows)), rows, missing)

    def first(self, bad: Mask) -> int | None:
        """Return the row of the first record whose value is marked; None where there is none."""
        found = bad[self.rows]
        return int(self.rows[int(np.argmax(found))]) if found.any() else None


class CellWriter(Protocol):
    """Writes the cells of one column: into many records, each at its place."""

    least: int
    """How many bytes of each record are its cell at least."""

    def measure(self, sizes: Longs) -> None:
        """Add the bytes of each record's cell; raises EncodeError for a value that is too long."""

    def write(self, body: Octets, places: Longs, following: int) -> None:
        """Write the cells; each place becomes the end of its cell.

        At least the ``following`` bytes after each cell are its record's, and are written later.
        """


class ValueCodec(NamedTuple):
    """Both directions of one kind of value, and a check of indicators and lengths alone, which raises what ``decode`` would."""

    decode: Callable[[Cells], pa.Array]
    encode: Callable[[TargetColumn, RecordValues], CellWriter]
    check: Callable[[Cells], object]


UTF_8: Final = "utf-8"
UTF_16: Final = "utf-16-be"
# Assumed: the number that a header gives for the national character set (trail format §4.3, DbNCharset) of a database
# whose Logdump print has UTF-16BE.
UTF_16_NUMBER: Final = 1
NATIONAL_TYPES: Final = frozenset({2, 66})  # NCHAR, NVARCHAR (capture properties §9.3)


class Charset(NamedTuple):
    """One character set: Python's codec, and the names that databases and standards give it."""

    codec: str
    names: tuple[str, ...]


# Oracle's names, and those of the IANA registry; Python's own aliases are found as well.
ROWS: Final = (
    Charset(UTF_8, ("UTF-8", "UTF8", "AL32UTF8")),
    Charset(UTF_16, ("UTF-16", "UTF-16BE", "AL16UTF16")),
    Charset("utf-16-le", ("UTF-16LE", "AL16UTF16LE")),
    Charset("ascii", ("US-ASCII", "ASCII", "US7ASCII")),
    Charset("iso8859-1", ("ISO-8859-1", "WE8ISO8859P1")),
    Charset("iso8859-2", ("ISO-8859-2", "EE8ISO8859P2")),
    Charset("iso8859-5", ("ISO-8859-5", "CL8ISO8859P5")),
    Charset("iso8859-7", ("ISO-8859-7", "EL8ISO8859P7")),
    Charset("iso8859-9", ("ISO-8859-9", "WE8ISO8859P9")),
    Charset("iso8859-15", ("ISO-8859-15", "WE8ISO8859P15")),
    Charset("cp1250", ("windows-1250", "EE8MSWIN1250")),
    Charset("cp1251", ("windows-1251", "CL8MSWIN1251")),
    Charset("cp1252", ("windows-1252", "WE8MSWIN1252")),
    Charset("cp1253", ("windows-1253", "EL8MSWIN1253")),
    Charset("cp1254", ("windows-1254", "TR8MSWIN1254")),
    Charset("cp1255", ("windows-1255", "IW8MSWIN1255")),
    Charset("cp1256", ("windows-1256", "AR8MSWIN1256")),
    Charset("cp1257", ("windows-1257", "BLT8MSWIN1257")),
    Charset("cp437", ("IBM437", "US8PC437")),
    Charset("cp850", ("IBM850", "WE8PC850")),
    Charset("koi8-r", ("KOI8-R", "CL8KOI8R")),
    Charset("cp037", ("IBM037", "WE8EBCDIC37")),
    Charset("cp500", ("IBM500", "WE8EBCDIC500")),
    Charset("cp1140", ("IBM1140", "WE8EBCDIC1140")),
    Charset("cp932", ("Shift_JIS", "windows-31j", "JA16SJIS", "JA16SJISTILDE")),
    Charset("euc_jp", ("EUC-JP", "JA16EUC")),
    Charset("gb2312", ("GB2312", "ZHS16CGB231280")),
    Charset("gbk", ("GBK", "ZHS16GBK")),
    Charset("gb18030", ("GB18030", "ZHS32GB18030")),
    Charset("big5", ("Big5", "ZHT16BIG5")),
    Charset("cp950", ("windows-950", "ZHT16MSWIN950")),
    Charset("big5hkscs", ("Big5-HKSCS", "ZHT16HKSCS")),
    Charset("euc_kr", ("EUC-KR", "KO16KSC5601")),
    Charset("cp949", ("windows-949", "KO16MSWIN949")),
)
CHARSETS: Final[Mapping[str, Charset]] = MappingProxyType({row.codec: row for row in ROWS})
_BY_NAME: Final[Mapping[str, str]] = MappingProxyType(
    {name.casefold(): row.codec for row in ROWS for name in row.names}
)


def charset_named(name: str) -> str:
    """Return Python's name of a character set; raises OptionError for one that is not known."""
    found = _BY_NAME.get(name.strip().casefold())
    if found is not None:
        return found
    try:
        canonical = codecs.lookup(name).name
    except (LookupError, ValueError):
        canonical = ""
    for row in ROWS:
        if canonical == codecs.lookup(row.codec).name:
            return row.codec
    raise OptionError(
        f"the character set {name!r} is not known",
        hint="Known: " + ", ".join(row.names[0] for row in ROWS),
    )


def charset_of(column: Column, usual: str) -> str | None:
    """Return what a column's strings are in; None where its definition would have to say and does not.

    Sub types of capture properties §9.4 come first; ``usual`` is the character set of the source.
    """
    if column.sub_type == UTF_16_SUB_TYPE or column.character_set == UTF_16_NUMBER:
        return UTF_16
    if column.sub_type in UTF_8_SUB_TYPES or column.data_type in INTERVAL_TYPES:
        return UTF_8
    return None if column.data_type in NATIONAL_TYPES else usual


def decoded_strings(values: pa.BinaryArray, charset: str) -> pa.StringArray:
    """Return strings in a character set as UTF-8; null stays null.

    Raises DecodeError, with the row as its record, for bytes that the set does not have.
    """
    found = decode_column(code_page(charset), values)
    if found.bad is not None and found.bad.any():
        row = int(np.argmax(found.bad))
        where = Where(record=row, raw=values[row].as_py())
        raise DecodeError(f"text is not {charset}", where=where)
    return found.values


def encoded_strings(values: pa.StringArray, charset: str) -> pa.BinaryArray:
    """Return UTF-8 strings in a character set; null stays null. Raises EncodeError."""
    try:
        raw = code_page(charset).encode(values.fill_null(""))
    except EncodeError as error:
        text = values[error.where.record or 0].as_py()
        problem = f"{text!r} has characters that {charset} does not have"
        raise EncodeError(problem, where=Where(raw=text.encode())) from None
    return without(raw, values.is_null().to_numpy(zero_copy_only=False))
