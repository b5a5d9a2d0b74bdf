"""The tables that the schemas of events describe, found before anything is captured."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.definitions.defgen.record_layout import complete
from trailgate.errors import DecodeError
from trailgate.messages.debezium.encodings import CONNECT, DATA, ENCODINGS, TIME
from trailgate.messages.debezium.format import DebeziumFormat
from trailgate.messages.debezium.options import DebeziumOptions
from trailgate.messages.debezium.records import DebeziumRecords
from trailgate.messages.debezium.schemas import FieldType, read_schema
from trailgate.messages.json_text.kernels.layout import OBJECT
from trailgate.messages.parsing.learning import read_of, united
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.metadata_values import MetadataValues
from trailgate.model.tables import Column, Definitions, Table

_TEXT, _BIN16, _BIN32, _BIN64 = 64, 130, 132, 134
_REAL, _DOUBLE, _DATETIME = 142, 143, 192
_NUMBER, _BINARY = 2, 4  # sub types (capture properties §9.4)
_MOST: Final = 65535  # what the two length bytes of a column of text hold
_INTEGER_DIGITS: Final = 18  # that 64 bits hold
_DIGITS: Final = 50  # characters of a number whose precision is not known, as Defgen has it
_SIGN_AND_POINT: Final = 2
_DATE, _MILLIS, _MICROS, _NANOS = 10, 23, 26, 29  # characters
_TIME_OF_DAY: Final = 18
_Made = Callable[[FieldType], Column]


class LearntTables:
    """The tables that events' schemas describe. Schemas have no keys: no column is marked."""

    def __init__(self, options: DebeziumOptions) -> None:
        self._options, self._format = options, DebeziumFormat(options)
        self._tables: dict[str, Table] = {}
        self._columns: dict[bytes, tuple[Column, ...]] = {}

    def add(self, messages: MessageBatch) -> None:
        """Learn from messages; those that cannot be read are for the capture to report.

        Raises DefinitionError for a table of which a column is described in two ways.
        """
        found = read_of(messages, self._named)
        if found is None:
            return
        records, (codes, names) = found
        assert records.schema is not None
        rows = np.flatnonzero(records.nodes.kinds(records.schema) == OBJECT)
        if not len(rows):
            return
        layouts = self._format.layouts(records, (), codes)
        pairs = np.stack([codes[rows], layouts[rows]])
        firsts = np.sort(np.unique(pairs, axis=1, return_index=True)[1])
        for row in rows[firsts].tolist():
            columns = self._columns_of(records.nodes.raw(int(records.schema[row])))
            if columns:
                table = complete(Table(names[int(codes[row])], columns))
                self._tables[table.name] = united(self._tables, table)

    def definitions(self) -> Definitions:
        """Return the tables in the order of their names."""
        return Definitions(tuple(self._tables[name] for name in sorted(self._tables)))

    def _named(self, messages: MessageBatch) -> tuple[DebeziumRecords, tuple[Longs, list[str]]]:
        """Return the events, and which table each one belongs to; raises BadMessagesError."""
        records = self._format.records(messages)
        return records, MetadataValues(self._options, records, 0).table_names()

    def _columns_of(self, schema: bytes) -> tuple[Column, ...]:
        """Return the columns that a schema has; none where it cannot be read."""
        if schema not in self._columns:
            try:
                types = tuple(read_schema(schema).values())
            except DecodeError:
                types = ()
            self._columns[schema] = tuple(map(column_of, types))
        return self._columns[schema]


def column_of(kind: FieldType) -> Column:
    """Return the column that takes all values of a type; of one that is not known it is text."""
    make = _COLUMNS.get(kind.name)
    if make is None and (not kind.name or kind.name in ENCODINGS):
        make = _COLUMNS.get(kind.type)
    return replace((make or _text)(kind), name=kind.column)


def _of(code: int, length: int, sub_type: int = 0) -> _Made:
    column = Column("", code, length, sub_type=sub_type)
    return lambda _: column


def _decimal(kind: FieldType) -> Column:
    """Return an integer with a scale where 64 bits hold all digits, else text."""
    scale = _parameter(kind, "scale")
    precision = _parameter(kind, "connect.decimal.precision")
    if 0 < precision <= _INTEGER_DIGITS and 0 <= scale <= precision:
        return Column("", _BIN64, precision, scale=scale)
    length = max(precision, scale) + _SIGN_AND_POINT if precision > 0 else _DIGITS
    return Column("", _TEXT, length, scale=max(scale, 0), sub_type=_NUMBER)


def _parameter(kind: FieldType, name: str) -> int:
    """Return a number of a type's parameters, 0 where there is none."""
    text = kind.parameters.get(name, "")
    return int(text) if re.fullmatch(r"-?[0-9]{1,4}", text) else 0


_text = _of(_TEXT, _MOST)
# By the name of the meaning, or, without a row of its own, Connect's type.
_COLUMNS: Final[Mapping[str, _Made]] = MappingProxyType(
    {
        "boolean": _of(_BIN16, 1),
        "int8": _of(_BIN16, 2),
        "int16": _of(_BIN16, 2),
        "int32": _of(_BIN32, 4),
        "int64": _of(_BIN64, 8),
        **dict.fromkeys(("float", "float32"), _of(_REAL, 4)),
        **dict.fromkeys(("double", "float64"), _of(_DOUBLE, 8)),
        "bytes": _of(_TEXT, _MOST - 1, _BINARY),
        CONNECT + "Decimal": _decimal,
        DATA + "VariableScaleDecimal": _of(_TEXT, _DIGITS, _NUMBER),
        **dict.fromkeys((CONNECT + "Date", TIME + "Date", TIME + "IsoDate"), _of(_DATETIME, _DATE)),
        **dict.fromkeys((CONNECT + "Timestamp", TIME + "Timestamp"), _of(_DATETIME, _MILLIS)),
        TIME + "MicroTimestamp": _of(_DATETIME, _MICROS),
        **dict.fromkeys(
            (TIME + "NanoTimestamp", TIME + "ZonedTimestamp", TIME + "IsoTimestamp"),
            _of(_DATETIME, _NANOS),
        ),
        **dict.fromkeys(
            (CONNECT + "Time", TIME + "Time", TIME + "MicroTime", TIME + "NanoTime"),
            _of(_TEXT, _TIME_OF_DAY),
        ),
    }
)
