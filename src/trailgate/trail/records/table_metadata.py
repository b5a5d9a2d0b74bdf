"""Metadata records (IOType 170, release 12.2 and later), which assign a table to each table index.

Data records of these releases contain a table index instead of a name. A table definition record
(TDR) states its index. A reference record takes the next free index, because indexes count in order
of appearance in the file (trail format §5.3 and §12). `TrailTables` is the state after some
records. It is immutable, so a reader can go back to an earlier state. `find_tables` finds the table
of each record, by its name or its index. `decode_table_definition` and `encode_table_definition`
convert the columns of a TDR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import EncodeError
from trailgate.model.table_names import normalize_table_name
from trailgate.model.tables import Column, DatabaseLines, Definitions, Table
from trailgate.model.types import TYPES
from trailgate.trail.format.record_header import NAME_AT
from trailgate.trail.format.tokens import MAX_LENGTH, ByteOrder
from trailgate.trail.records.framing import TrailBytes
from trailgate.trail.records.record import TrailRecord
from trailgate.trail.records.record_view import RecordColumns, find_names

Key = TypeVar("Key")
Value = TypeVar("Value")

FIRST_INDEX: Final = 1  # table indexes count from one (trail format §12)
METADATA_LEVEL: Final = 5  # 12.2, the first level with these records (trail format §4.6)

# Assumed (trail format §12): 34 bytes, then for each column its name with a u16 length, 23 u16 attributes in the
# order in which Logdump prints them, and remarks with a u16 length. This agrees with two printed sizes. In the first
# 34 bytes, the order of the three values that Logdump prints first is assumed too; they are written but never read.
TDR_HEAD: Final = 34
TDR_VERSION: Final = 11
_ATTRIBUTES: Final = (
    ("data_type", "u2"),
    ("external_length", "u2"),
    ("fetch_offset", "u2"),
    ("scale", "i2"),
    ("level", "u2"),
    ("nullable", "u2"),
    ("bump_if_odd", "u2"),
    ("internal_length", "u2"),
    ("binary_length", "u2"),
    ("table_length", "u2"),
    ("most_significant", "u2"),
    ("least_significant", "u2"),
    ("high_precision", "u2"),
    ("low_precision", "u2"),
    ("elementary", "u2"),
    ("occurs", "u2"),
    ("key", "u2"),
    ("sub_type", "u2"),
    ("native_type", "i2"),
    ("character_set", "i2"),
    ("character_length", "u2"),
    ("lob_type", "u2"),
    ("partial_type", "u2"),
)
_FLAGS: Final = ("nullable", "key")
MAX_SCALE: Final = 38  # a greater value is not a scale: the bytes fit the layout by accident

# Assumed: a version, then strings with a u16 length, with the values that Logdump prints for a DDR, in its order. The
# printed record's 81 bytes are not public. We write these data for other tools and never read them (trail format §12).
DDR_VERSION: Final = 1


class PersistentMap(Mapping[Key, Value]):
    """An immutable mapping, for the tables that metadata define. A new item is added in constant time.

    ``with_item`` returns a longer mapping. Mappings share one dictionary and see its items up to
    their own size. Only the longest mapping may add to the dictionary; any other copies its items
    first, and so does one that replaces an item.
    """

    __slots__ = ("_items", "_size")

    def __init__(self, items: Mapping[Key, Value] | None = None) -> None:
        self._items = {key: (i, value) for i, (key, value) in enumerate((items or {}).items())}
        self._size = len(self._items)

    def with_item(self, key: Key, value: Value) -> PersistentMap[Key, Value]:
        """Return a mapping of this one's items and a new item, which replaces an item with the same key."""
        items = self._items
        # All readers of a process share the empty mapping, so it is always copied.
        if not items or len(items) != self._size or key in items:
            items = dict(islice(items.items(), self._size))
        position, _ = items.get(key, (len(items), value))
        items[key] = (position, value)
        longer = PersistentMap[Key, Value]()
        longer._items, longer._size = items, len(items)
        return longer

    def __getitem__(self, key: Key) -> Value:
        position, value = self._items[key]
        if position >= self._size:  # added later, by a longer mapping
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[Key]:
        return iter([*islice(self._items, self._size)])

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[object, ...]:
        return PersistentMap, (dict(self),)


class MetadataType(IntEnum):
    """The type of a metadata record: its OrigNode byte."""

    DATABASE = 1
    TABLE = 2
    TABLE_REFERENCE = 3
    PARTITION = 4


@dataclass(frozen=True, slots=True)
class TrailTable:
    """The table that a table index stands for. ``table`` is None if its columns are unknown."""

    index: int
    name: str
    table: Table | None = None
    offset: int = 0  # offset of the record that defines it

    def is_defined(self, definitions: Definitions) -> bool:
        """Return whether the table's columns are known, from the trail's metadata or from ``definitions``."""
        return self.table is not None or definitions.get(self.name) is not None


@dataclass(frozen=True, slots=True)
class TrailTables:
    """The tables and partitions that the metadata records of a file have defined so far."""

    tables: PersistentMap[int, TrailTable] = field(default_factory=PersistentMap)
    partitions: PersistentMap[tuple[int, int], str] = field(default_factory=PersistentMap)
    highest: int = 0  # the highest table index

    def with_record(self, record: TrailRecord) -> TrailTables:
        """Return the tables known after one more metadata record.

        A metadata record that defines neither a table nor a partition changes nothing.
        """
        first, second = record.metadata_indexes
        name = normalize_table_name(record.name or "")
        if record.node == MetadataType.TABLE:
            return self._with(
                TrailTable(second, name, decode_table_definition(name, record), record.offset)
            )
        if record.node == MetadataType.TABLE_REFERENCE:
            known = self.tables.get(second)
            table = None if known is None or known.table is None else known.table
            if table is not None:
                table = replace(table, name=name)
            # trail format §5.3: the record names the index of an earlier definition; the new table
            # has the same columns and takes the next index.
            return self._with(TrailTable(self.highest + 1, name, table, record.offset))
        if record.node == MetadataType.PARTITION:
            return replace(self, partitions=self.partitions.with_item((first, second), name))
        return self

    def defined_by(self, record: TrailRecord) -> TrailTable | None:
        """Return the table that ``record`` defines, or None if it does not define one.

        ``record`` must be the last added record.
        """
        if record.node == MetadataType.TABLE:
            return self.tables[record.metadata_indexes[1]]
        return self.tables[self.highest] if record.node == MetadataType.TABLE_REFERENCE else None

    def undefined_since(self, earlier: TrailTables, definitions: Definitions) -> list[TrailTable]:
        """Return the tables that metadata added since ``earlier`` and whose columns are unknown."""
        if self.tables is earlier.tables:
            return []
        names = {known.name for known in earlier.tables.values()}
        return [
            known
            for known in self.tables.values()
            if known.name not in names and not known.is_defined(definitions)
        ]

    def _with(self, table: TrailTable) -> TrailTables:
        highest = max(self.highest, table.index)
        return replace(self, tables=self.tables.with_item(table.index, table), highest=highest)


NO_TABLES: Final = TrailTables()


@cache
def _layout(order: ByteOrder) -> np.dtype[np.void]:
    return np.dtype([(name, order.value + kind) for name, kind in _ATTRIBUTES])


class TdrColumn(NamedTuple):
    """A column of a table definition record (TDR), with the offsets of its name, attributes, remarks and end."""

    column: Column
    start: int
    attributes: int
    remarks: int
    end: int


def decode_table_definition(name: str, record: TrailRecord) -> Table | None:
    """Decode the table of a table definition record (TDR), or return None if the data do not fit the assumed layout exactly."""
    found_columns = find_tdr_columns(record.data or b"", record.order)
    if found_columns is None:
        return None
    columns = tuple(each.column for each in found_columns)
    return Table(name, columns, columns[-1].fetch_offset + columns[-1].external_length)


def find_tdr_columns(data: bytes, order: ByteOrder) -> list[TdrColumn] | None:
    """Find the columns of a table definition record (TDR), or return None if the data do not fit the assumed layout exactly."""
    layout = _layout(order)
    columns: list[TdrColumn] = []
    offset = TDR_HEAD
    while offset + 2 <= len(data):
        start = offset + 2
        end = start + order.number(data[offset:start])
        stop = end + layout.itemsize
        if stop + 2 > len(data):
            return None
        column = _column(data[start:end], np.frombuffer(data[end:stop], layout)[0])
        if column is None:
            return None
        after = stop + 2 + order.number(data[stop : stop + 2])
        columns.append(TdrColumn(column, offset, end, stop, after))
        offset = after
    # The layout is an assumption, so data that end inside a column, or after it, do not fit.
    return columns if offset == len(data) and columns else None


def _column(raw: bytes, values: np.void) -> Column | None:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    values_by_name = {key: int(values[key]) for key, _ in _ATTRIBUTES}
    # The layout is only assumed, so accept a column only if all checkable values make sense.
    flags = all(values_by_name[key] in (0, 1) for key in _FLAGS)
    flags = flags and abs(values_by_name["scale"]) <= MAX_SCALE
    if not name.isprintable() or not name or values_by_name["data_type"] not in TYPES or not flags:
        return None
    values_by_name |= {key: bool(values_by_name[key]) for key in _FLAGS}
    return Column(name=name, **values_by_name)  # type: ignore[arg-type]  # two values are flags


def encode_table_definition(table: Table, order: ByteOrder) -> bytes:
    """Encode the data of a table definition record (TDR); ``decode_table_definition`` decodes it.

    Raises EncodeError, which names the column, if an attribute is out of range.
    """
    head = (
        order.raw(TDR_VERSION, 2)
        + order.raw(table.record_length, 4)
        + order.raw(len(table.columns), 2)
    )
    parts = [head.ljust(TDR_HEAD, b"\0")]
    for column in table.columns:
        parts.append(_with_length(column.name.encode(), order))
        try:
            parts.append(_attributes(column, order))
        except EncodeError as error:
            raise error.with_place(table=table.name, field=column.name) from None
        parts.append(_with_length(b"", order))  # remarks
    return b"".join(parts)


def _attributes(column: Column, order: ByteOrder) -> bytes:
    values = np.zeros(1, _layout(order))
    for name, kind in _ATTRIBUTES:
        value, limits = int(getattr(column, name)), np.iinfo(kind)
        if not limits.min <= value <= limits.max:
            problem = f"{name.replace('_', ' ')} {value} does not fit in a table definition record"
            hint = "Write a trail of format release 12.1 or earlier, which has no such records"
            raise EncodeError(problem, hint=hint)
        values[name] = value
    return values.tobytes()


def encode_database_definition(database: DatabaseLines, order: ByteOrder) -> bytes:
    """Encode the data of a database definition record (DDR)."""
    strings = (
        database.database_type,
        database.character_set or database.encoding,
        database.national_character_set,
        database.locale,
        database.case_sensitivity,
        database.time_zone,
    )
    return order.raw(DDR_VERSION, 2) + b"".join(
        _with_length(text.encode(), order) for text in strings
    )


def _with_length(raw: bytes, order: ByteOrder) -> bytes:
    if len(raw) > MAX_LENGTH:
        raise EncodeError(f"a text of {len(raw)} bytes does not fit in a metadata record")
    return order.raw(len(raw), 2) + raw


@dataclass(frozen=True, slots=True)
class RecordTables:
    """The tables of records in order of appearance. The table of record r is ``tables[codes[r]]``."""

    codes: Longs
    tables: list[TrailTable]

    def same_table(self, ones: Longs, others: Longs) -> Mask:
        """Return a mask that is true if record ``ones[i]`` names the same table as record ``others[i]``, or names no table."""
        names = np.array([table.name for table in self.tables], object)
        named = names[self.codes[ones]]
        return np.asarray((named == names[self.codes[others]]) | (named == ""), bool)


def find_tables(source: TrailBytes, view: RecordColumns, known: TrailTables) -> RecordTables:
    """Find the tables of readable records. ``known`` are the tables defined by metadata before them.

    Raises DecodeError if a name is not UTF-8 or a table index is unknown.
    """
    names = find_names(source, view)
    rows = names.firsts.tolist()
    tables = [
        _table(source, view, row, known, name) for row, name in zip(rows, names.names, strict=True)
    ]
    return RecordTables(names.codes, tables)


def _table(
    source: TrailBytes, view: RecordColumns, row: int, tables: TrailTables, name: bytes | int
) -> TrailTable:
    if isinstance(name, bytes):
        try:
            # The last byte is the NUL that ends the name area.
            return TrailTable(0, normalize_table_name(name[:-1].decode()))
        except UnicodeDecodeError:
            start = int(view.offsets[row]) + NAME_AT
            span = (start, start + len(name) - 1)
            raise source.error("a table name is not UTF-8", span) from None
    if name not in tables.tables:
        raise source.error(
            f"table index {name} is not in the metadata before the record",
            view.span_of(row),
            hint="Is a part of the file missing, or does reading begin after its metadata?",
        )
    return tables.tables[name]
