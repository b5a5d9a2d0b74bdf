"""Types of columns in tables that others created, and a naive answer to whether a stored value is that of the trail.

``COLUMN_TYPES`` has the types of each database, and ``ENTIRE`` the pairs of which no value may be refused. A new type is a new word in a list.
"""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily

COLUMN_TYPES: Final[Mapping[str, Sequence[str]]] = {
    "duckdb": (
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
        *("REAL", "DOUBLE", "DECIMAL(4,0)", "DECIMAL(9,2)", "DECIMAL(18,9)", "DECIMAL(38,10)"),
        *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
        *("TIMESTAMPTZ", "TIMETZ", "INTERVAL", "VARCHAR", "VARCHAR(3)", "BLOB", "UUID", "JSON"),
        *("BIT", "ENUM('a', 'b', '12', '')", "INTEGER[]", "STRUCT(a INTEGER)"),
        "VARCHAR COLLATE NOCASE",
    ),
    "postgresql": (
        *("boolean", "smallint", "integer", "bigint", "real", "double precision"),
        *("numeric", "numeric(4)", "numeric(9,2)", "numeric(38,10)", "numeric(60,20)"),
        *("numeric(3,-2)", "numeric(2,5)", "money", "oid", "date", "time", "time(0)", "timetz"),
        *("timestamp", "timestamp(0)", "timestamp(3)", "timestamptz", "timestamptz(0)"),
        *("interval", "interval day", "text", "varchar", "varchar(3)", "char(3)", "char(80)"),
        *("bpchar", '"char"', "name", "bytea", "uuid", "json", "jsonb", "xml", "bit(3)", "varbit"),
        *("inet", "cidr", "macaddr", "point", "integer[]", "text[]", "tsvector", "int4range"),
        *("hr.mood", "hr.small", "hr.short", "hr.day"),
    ),
}
# Made before the tables: an enum, and domains, one of them of another one.
PREPARED: Final = (
    "CREATE TYPE hr.mood AS ENUM ('a', 'b', '12', '')",
    "CREATE DOMAIN hr.whole AS smallint",
    "CREATE DOMAIN hr.small AS hr.whole DEFAULT 1",
    "CREATE DOMAIN hr.short AS varchar(3)",
    "CREATE DOMAIN hr.day AS timestamp(0)",
)
# Families and types that hold all their values: a check that refuses everything would satisfy the law.
ENTIRE: Final[Mapping[TypeFamily, frozenset[str]]] = {
    TypeFamily.TEXT: frozenset({"VARCHAR", "VARCHAR(3)", "VARCHAR COLLATE NOCASE", "varchar"}),
    TypeFamily.NUMBER_TEXT: frozenset({"VARCHAR", "numeric"}),
    TypeFamily.INTEGER: frozenset({"VARCHAR", "text", "numeric"}),
    TypeFamily.UNSIGNED: frozenset({"VARCHAR", "text", "numeric"}),
    TypeFamily.DATETIME: frozenset({"VARCHAR", "text"}),
    TypeFamily.BYTES: frozenset({"BLOB", "bytea"}),
    TypeFamily.FLOAT: frozenset({"DOUBLE", "VARCHAR", "double precision", "text", "numeric"}),
}
PADDED: Final = ("char(", "bpchar")
FLOATS: Final = ("real", "REAL")


def is_same(column: Column, value: Any, kind: str, stored: Any) -> bool:
    """Return whether a database's value, as its driver gives it, is the trail's."""
    if value is None or stored is None:
        return value is None and stored is None
    if column.family is TypeFamily.BYTES:
        return _is_bytes(bytes.fromhex(value), stored)
    if kind == "jsonb":
        return _is_json(str(value), stored)
    # bool is an int and datetime a date: the first row that fits counts.
    tests: dict[type, Callable[[], bool]] = {
        bool: lambda: _number(value) == int(stored) or _is_word(value, stored),
        float: lambda: _is_float(value, kind, stored),
        int: lambda: _number(value) == stored,
        Decimal: lambda: _number(_digits(column, value)) == stored or _is_word(value, stored),
        date: lambda: _is_time(str(value), stored),
        bytes: lambda: str(value).encode() == stored,
        uuid.UUID: lambda: uuid.UUID(str(value)) == stored,
        str: lambda: _is_text(column, value, kind, stored),
        object: lambda: str(value) == str(stored),
    }
    return next(test for own, test in tests.items() if isinstance(stored, own))()


def _digits(column: Column, value: Any) -> Any:
    """Return the shortest digits of a float of four bytes; other values as they are."""
    if (
        column.family is not TypeFamily.FLOAT
        or column.type_row.width != 4
        or not math.isfinite(value)
    ):
        return value
    return _shortest_of_four_bytes(value)


def _rounded(column: Column, value: float) -> float:
    """Return a float as a column of the trail has it."""
    if column.type_row.width != 4 or not math.isfinite(value):
        return value
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def _is_word(value: Any, stored: Any) -> bool:
    """Return whether a value is spelled like a stored one, such as true, NaN or Infinity."""
    return str(value).strip().lower() == str(stored).lower()


def _is_bytes(raw: bytes, stored: Any) -> bool:
    if isinstance(stored, bytes):
        return raw == stored
    return isinstance(stored, str) and raw == stored.encode()


def _number(value: Any) -> Decimal | None:
    try:
        return Decimal(value.strip()) if isinstance(value, str) else Decimal(repr(value))
    except InvalidOperation:
        return value if isinstance(value, Decimal) else None


def _is_float(value: Any, kind: str, stored: float) -> bool:
    if isinstance(value, float):
        return value == stored or (math.isnan(value) and math.isnan(stored))
    # The shortest digits that are this float: of a float of four bytes at most nine.
    digits = repr(stored) if kind not in FLOATS else _shortest_of_four_bytes(stored)
    number = _number(value)
    return number is not None and number == Decimal(digits)


def _shortest_of_four_bytes(value: float) -> str:
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", value):
            return text
    return repr(value)


def _is_time(text: str, stored: datetime | date) -> bool:
    try:
        own: datetime | date = datetime.fromisoformat(text[:26] if "+" not in text else text)
    except ValueError:
        return False
    nanoseconds = text.partition(".")[2].partition(" ")[0].partition("+")[0][6:]
    if nanoseconds.strip("0"):
        return False
    if isinstance(stored, datetime):
        if stored.tzinfo is not None:
            return own.tzinfo is not None and own == stored  # type: ignore[union-attr]
        return own == stored
    return own == datetime.combine(stored, time.min)


def _is_json(text: str, stored: Any) -> bool:
    pairs: list[Any] = []

    def members(found: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs.append(len(found) - len(dict(found)))
        return dict(found)

    try:
        own = json.loads(text, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=members)
    except ValueError:
        return False
    theirs = json.loads(stored, parse_float=Decimal, parse_int=Decimal)
    return own == theirs and not any(pairs)


def _is_text(column: Column, value: Any, kind: str, text: str) -> bool:
    if kind.startswith(PADDED) and not isinstance(value, str):
        text = text.rstrip(" ")
    elif kind.startswith(PADDED):
        # Blanks at the end of text mean something, unless the source pads it too.
        means = not column.type_row.fixed and str(value).endswith(" ")
        return str(value) == text if means else str(value).rstrip(" ") == text.rstrip(" ")
    if str(value) == text:
        return True
    if isinstance(value, float):
        own = float(text)
        return _rounded(column, own) == value or (math.isnan(value) and math.isnan(own))
    if isinstance(value, int | Decimal) or column.family is TypeFamily.NUMBER_TEXT:
        return _number(text) == _number(value)
    if column.family is not TypeFamily.DATETIME:
        return False
    return _is_time(str(value), datetime.fromisoformat(text[:26])) and not text[26:].strip("0")
