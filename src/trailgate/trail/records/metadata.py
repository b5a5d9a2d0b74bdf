"""A mapping that is a value and grows in constant time: a longer one shares the items of the one it came from.

Metadata records (IOType 170, release 12.2 and later): which table an index means.

A table definition record (TDR) carries its index; a reference takes the next one, since indexes
count in order of appearance in the file (trail format §5.3 and §12).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import numpy as np

from trailgate.errors import EncodeError
from trailgate.model.table_patterns import table_name
from trailgate.model.tables import Column, Database, Definitions, Table
from trailgate.model.types import TYPES
from trailgate.trail.format.tokens import MAX_LENGTH, ByteOrder
from trailgate.trail.records.record import TrailRecord

Key = TypeVar("Key")
Value = TypeVar("Value")


class GrowingMap(Mapping[Key, Value]):
    """A mapping that does not change; ``with_item`` returns a longer one.

    Mappings share one dictionary, each the items up to its own size. Only the longest of them, which has all of its items,
    adds to it; the others copy what they have.
    """

    __slots__ = ("_items", "_size")

    def __init__(self, items: Mapping[Key, Value] | None = None) -> None:
        self._items = {key: (i, value) for i, (key, value) in enumerate((items or {}).items())}
        self._size = len(self._items)

    def with_item(self, key: Key, value: Value) -> GrowingMap[Key, Value]:
        """Return these items and another one, which replaces one of the same key."""
        items = self._items
        # The empty one is shared by all readers of a process, so it is copied as well.
        if not items or len(items) != self._size or key in items:
            items = dict(islice(items.items(), self._size))
        place, _ = items.get(key, (len(items), value))
        items[key] = (place, value)
        found = GrowingMap[Key, Value]()
        found._items, found._size = items, len(items)
        return found

    def __getitem__(self, key: Key) -> Value:
        place, value = self._items[key]
        if place >= self._size:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[Key]:
        return iter([*islice(self._items, self._size)])

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[object, ...]:
        return GrowingMap, (dict(self),)


FIRST_INDEX: Final = 1  # table indexes count from one (trail format §12)
METADATA_LEVEL: Final = 5  # 12.2, the first level with these records (trail format §4.6)


class MetadataKind(IntEnum):
    """What a metadata record is: its OrigNode."""

    DATABASE = 1
    TABLE = 2
    TABLE_REFERENCE = 3
    PARTITION = 4


@dataclass(frozen=True, slots=True)
class TrailTable:
    """What one table index of a file means; ``table`` is None where its columns are not known."""

    index: int
    name: str
    table: Table | None = None
    offset: int = 0  # of the record that defines it

    def is_defined(self, definitions: Definitions) -> bool:
        """Return whether its columns are known, from the trail or from elsewhere."""
        return self.table is not None or definitions.get(self.name) is not None


@dataclass(frozen=True, slots=True)
class TrailTables:
    """The table and partition indexes of a file's metadata records so far."""

    tables: GrowingMap[int, TrailTable] = field(default_factory=GrowingMap)
    partitions: GrowingMap[tuple[int, int], str] = field(default_factory=GrowingMap)
    highest: int = 0  # of the table indexes

    def with_record(self, record: TrailRecord) -> TrailTables:
        """Return what is known with one more metadata record; others change nothing."""
        first, second = record.metadata_indexes
        name = table_name(record.name or "")
        if record.node == MetadataKind.TABLE:
            return self._with(TrailTable(second, name, read_table(name, record), record.offset))
        if record.node == MetadataKind.TABLE_REFERENCE:
            known = self.tables.get(second)
            table = None if known is None or known.table is None else known.table
            if table is not None:
                table = replace(table, name=name)
            # trail format §5.3: the record names the older index; the new table has the next one.
            return self._with(TrailTable(self.highest + 1, name, table, record.offset))
        if record.node == MetadataKind.PARTITION:
            return replace(self, partitions=self.partitions.with_item((first, second), name))
        return self

    def defined_by(self, record: TrailRecord) -> TrailTable | None:
        """Return the table of the metadata record that was added last; None if it is of the database or of a partition."""
        if record.node == MetadataKind.TABLE:
            return self.tables[record.metadata_indexes[1]]
        return self.tables[self.highest] if record.node == MetadataKind.TABLE_REFERENCE else None

    def unread_since(self, earlier: TrailTables, definitions: Definitions) -> list[TrailTable]:
        """Return the tables that are new since an earlier state, and whose definition is not understood."""
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

# Assumed (trail format §12): 34 bytes, then for each column its name with a u16 length, 23 u16 attributes in the
# order in which Logdump prints them, and remarks with a u16 length. Two printed sizes fit it. Of the first 34 bytes
# only the order of the three values that Logdump prints first is assumed here; they are written, not read.
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
MAX_SCALE: Final = 38  # a greater one is not a scale but bytes that fit by accident


def _layout(order: ByteOrder) -> np.dtype[np.void]:
    return np.dtype([(name, order.value + kind) for name, kind in _ATTRIBUTES])


class ColumnPlace(NamedTuple):
    """A column of a TDR, and where its name, its attributes and its remarks begin and end in the data."""

    column: Column
    start: int
    attributes: int
    remarks: int
    end: int


def read_table(name: str, record: TrailRecord) -> Table | None:
    """Return the table that a TDR defines; None where the assumed layout does not fit exactly."""
    places = find_columns(record.data or b"", record.order)
    if places is None:
        return None
    columns = tuple(place.column for place in places)
    return Table(name, columns, columns[-1].fetch_offset + columns[-1].external_length)


def find_columns(data: bytes, order: ByteOrder) -> list[ColumnPlace] | None:
    """Return the columns of a TDR; None where the assumed layout does not fit exactly."""
    layout = _layout(order)
    found: list[ColumnPlace] = []
    place = TDR_HEAD
    while place + 2 <= len(data):
        start = place + 2
        end = start + order.number(data[place:start])
        stop = end + layout.itemsize
        if stop + 2 > len(data):
            return None
        column = _column(data[start:end], np.frombuffer(data[end:stop], layout)[0])
        if column is None:
            return None
        after = stop + 2 + order.number(data[stop : stop + 2])
        found.append(ColumnPlace(column, place, end, stop, after))
        place = after
    return found if place == len(data) and found else None


def _column(raw: bytes, values: np.void) -> Column | None:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    found = {key: int(values[key]) for key, _ in _ATTRIBUTES}
    flags = all(found[key] in (0, 1) for key in _FLAGS)
    flags = flags and abs(found["scale"]) <= MAX_SCALE
    if not name.isprintable() or not name or found["data_type"] not in TYPES or not flags:
        return None
    found |= {key: bool(found[key]) for key in _FLAGS}
    return Column(name=name, **found)  # type: ignore[arg-type]  # two of them are flags


def table_data(table: Table, order: ByteOrder) -> bytes:
    """Return the data of a TDR; its inverse is ``read_table``. Raises EncodeError, with the column."""
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
            hint = "Write a trail of format release 12.1 or below, which has none"
            raise EncodeError(problem, hint=hint)
        values[name] = value
    return values.tobytes()


# Assumed: the facts that Logdump prints of a DDR, in its order: a version, then strings with a u16 length. The 81 printed
# bytes are not public; the data are written for others to see and not read (trail format §12).
DDR_VERSION: Final = 1


def database_data(database: Database, order: ByteOrder) -> bytes:
    """Return the data of a DDR."""
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
