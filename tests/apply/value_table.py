"""Values of every type that a trail has, and the targets that hold them: one row a type, one row a target.

``VALUES`` has for each type a column and values of it at its limits, in each spelling that the type allows, and ``more`` draws others. ``TARGETS`` has for each target its
address, a reader of its tables, and ``stored``: the value that a target keeps for a column's value. Two values are the same key if they are stored as equal values.

A new type or a new target is a new row.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from trailgate.apply.effects.tables import created_type
from trailgate.model.tables import Column
from trailgate.model.types import NUMBER_SUB_TYPES, TYPES, TypeFamily

FLOAT4: Final = 700  # PostgreSQL's number of real
Value = Any
Row = dict[str, Any]

# Type codes, as in model/types.py.
CHAR, VARCHAR, NCHAR, NVARCHAR = 0, 64, 2, 66
BIN64, UBIN64, REAL, DOUBLE, TIME = 134, 135, 142, 143, 192
UTF_16, NUMBER, BINARY, UTF_8 = 1, 2, 4, 7


class Values(NamedTuple):
    """A type: a column of it, values at its limits and in its spellings, and a function that draws another one."""

    name: str
    column: Column
    values: tuple[Value, ...]
    more: Callable[[random.Random], Value]

    def draw(self, chance: random.Random) -> Value:
        """Draw one of the values, or another one."""
        return chance.choice(self.values) if chance.random() < 0.4 else self.more(chance)

    def as_column(self, name: str, *, key: bool = False) -> Column:
        """Return a column of this type."""
        return replace(self.column, name=name, key=key)


LONG: Final = "A key of more than thirty-two characters, "  # statistics of text are cut there
TEXTS: Final = (
    *("", "a", "A", "b", "0", "12", "00012", "NULL", "null", "None", "nan", "true", "\\N", "\\."),
    *("it's", '"', "''", ";", "%", "_", "a,b", "a\tb", "a\nb", "a\r\nb", "\\", "$1", "{}", "`"),
    *("ä", "a\u0308", "ß", "SS", "é", "\u00a0", "\u2028", "\ufeffx", "\U0001f600", "\uffff"),
    *(LONG + "a", LONG + "b", LONG, "\U0010ffff" * 9 + "a", "x" * 60, "9" * 40, "2026-01-05"),
)
BLANKS: Final = (" ", "  ", "a ", "a  ", " a", "12 ", "\ta", "a\t")
NULS: Final = ("\0", "a\0", "a\0b", "\0a")
NUMBERS: Final = (
    *("0", "-0", "+0", "00", "0.0", "-0.00", "0E0", "0E+5"),
    *("12", "00012", "12.", "12.0", "+12", "1.2E1", "120e-1", "-12", "-012", "-12.000"),
    *("5", "+5", "0.5", ".5", "+.5", "5E-1", "-.5", "100", "1E2", "1e+2", "10E1"),
    *("0.0000001", "1E-7", "-1E-38", "1E37", "9007199254740993", "9007199254740992"),
    *("18446744073709551615", "18446744073709551616", "9223372036854775808", "1234567890123456.78"),
    *("9" * 38, "-" + "9" * 38, "9" * 37 + "8", "1" + "0" * 37, "0." + "1" * 38),
    *("1234567890123456789012345678.1234567891", "1" * 48, "-0." + "0" * 36 + "12"),
    *(" 12", "12 ", "  -7  "),
)
TIMES: Final = (
    *("0001-01-01 00:00:00.000000000", "9999-12-31 23:59:59.999999000"),
    *("1969-12-31 23:59:59.999999000", "1970-01-01 00:00:00.000000000"),
    *("1970-01-01 00:00:00.000001000", "2026-03-29 02:30:00.000000000"),
    *("2026-10-25 02:30:00.000000000", "1582-10-10 00:00:00.000000000"),
    *("1900-01-01 00:00:00.000000000", "2024-02-29 12:00:00.000999000"),
    *("2026-01-05 12:00:00.123456000", "2026-01-05 12:00:00.123457000"),
)
NANOSECONDS: Final = (
    *("2026-01-05 12:00:00.123456789", "2026-01-05 12:00:00.123456788"),
    *("0001-01-01 00:00:00.000000001", "9999-12-31 23:59:59.999999999"),
)
ZONES: Final = (
    *("2026-01-05 12:00:00.123456789 +01:00", "2026-01-05 11:00:00.123456789 +00:00"),
    *("0001-01-01 00:00:00 Europe/Berlin", "9999-12-31 23:59:59.999999 -12:00"),
)
OCTETS: Final = (
    *("", "00", "0000", "FF", "FFFF", "00FF", "27", "5C78", "61", "C3", "80", "EFBFBD"),
    *("00" * 40, "FF" * 40, "FF" * 33 + "00", "FF" * 33 + "01", "DEADBEEF"),
)


def _text(chance: random.Random, most: int = 40) -> str:
    letters = chance.choice((string.printable[:95], "ab", "äöüß€\u4e00\U0001f600", "0123456789"))
    return "".join(chance.choices(letters, k=chance.randint(0, most)))


def _padded_text(chance: random.Random) -> str:
    return _text(chance, 12).rstrip(" ").encode()[:12].decode(errors="ignore").rstrip(" ")


def _number(chance: random.Random) -> str:
    digits = "".join(chance.choices(string.digits, k=chance.choice((1, 2, 15, 16, 19, 30, 38))))
    point = chance.randint(0, len(digits))
    whole = chance.choice((digits, f"{digits[:point]}.{digits[point:]}" if point else digits))
    return chance.choice(("", "", "-", "+")) + whole + chance.choice(("", "", "", "E1", "e-2"))


def _time(chance: random.Random) -> str:
    day = date.fromordinal(chance.randint(1, date.max.toordinal()))
    seconds = f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
    return f"{day} {seconds}.{chance.randrange(10**6):06}000"


def _nanoseconds(chance: random.Random) -> str:
    return f"{_time(chance)[:-3]}{chance.randrange(1000):03}"


def _cut(draw: Callable[[random.Random], str], width: int) -> Callable[[random.Random], str]:
    return lambda chance: draw(chance)[:width]


def _octets(chance: random.Random) -> str:
    return chance.randbytes(chance.randint(0, 40)).hex().upper()


def _fixed_octets(chance: random.Random) -> str:
    return chance.randbytes(12).hex().upper()


def _float(kind: pa.DataType, chance: random.Random) -> float:
    scale = 10.0 ** chance.randint(-30, 30)
    return float(pa.scalar(chance.uniform(-scale, scale), pa.float64()).cast(kind).as_py())


def _integers(code: int, scale: int = 0) -> Values:
    """Return integers of a type, or with a scale decimals whose units they are."""
    row = TYPES[code]
    bits, signed = 8 * (row.width or 8), row.family is TypeFamily.INTEGER
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    # 2^53 is the first integer that a float does not tell from the next one.
    near = (2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63, 9007199254740993, 123456789012345678)
    limits = (low, low + 1, high - 1, high, -1, 0, 1, 12, 10, *near, *(-one for one in near))

    def value(units: int) -> Value:
        return Decimal(units).scaleb(-scale) if scale else units

    def more(chance: random.Random) -> Value:
        return value(chance.randint(max(low, -(1 << chance.randint(1, bits))), high))

    units = dict.fromkeys(one for one in limits if low <= one <= high)
    name = row.name if not scale else f"{row.name} scale {scale}"
    column = Column("V", code, row.width or 8, scale=scale)
    return Values(name, column, tuple(map(value, units)), more)


def _times(code: int, width: int, values: Iterable[str], draw: Callable[..., str]) -> Values:
    name = f"{TYPES[code].name} {width}"
    cut = tuple(dict.fromkeys(value[:width] for value in values))
    return Values(name, Column("V", code, width), cut, _cut(draw, width))


def _numbers(sub_type: int) -> Values:
    column = Column("V", VARCHAR, 60, sub_type=sub_type)
    return Values(f"number as text, sub-type {sub_type}", column, NUMBERS, _number)


def _floats(code: int, kind: pa.DataType, *limits: float) -> Values:
    usual = (
        0.0,
        1.0,
        -1.0,
        0.1,
        1 / 3,
        16777216.0,
        1e10,
        -1e-10,
        math.inf,
        -math.inf,
        -0.0,
        math.nan,
    )
    every = (*usual, *limits)
    values = tuple(float(pa.scalar(one, pa.float64()).cast(kind).as_py()) for one in every)
    column = Column("V", code, TYPES[code].width or 8)
    return Values(TYPES[code].name, column, values, partial(_float, kind))


def _fitting(values: Iterable[str], size: int) -> tuple[str, ...]:
    """Return the values that a fixed length has room for, without the blanks that pad them."""
    return tuple(dict.fromkeys(one.rstrip(" ") for one in values if len(one.encode()) <= size))


# A padded text with UTF-16 has two bytes a character, and none beyond the first plane here.
_NATIONAL: Final = tuple(one for one in TEXTS if all(ord(sign) < 0xD800 for sign in one))

VALUES: Final = (
    Values("text", Column("V", VARCHAR, 80), (*TEXTS, *BLANKS, *NULS), _text),
    Values("upper-case text", Column("V", 65, 80), TEXTS, _text),
    Values("UTF-8 text", Column("V", VARCHAR, 80, sub_type=UTF_8), (*TEXTS, *BLANKS), _text),
    Values("UTF-16 text", Column("V", NVARCHAR, 160, sub_type=UTF_16), TEXTS, _text),
    Values("padded text", Column("V", CHAR, 12), _fitting((*TEXTS, " a"), 12), _padded_text),
    Values("padded upper-case", Column("V", 1, 12), _fitting(TEXTS, 12), _padded_text),
    Values(
        "padded UTF-16",
        Column("V", NCHAR, 24, sub_type=UTF_16),
        _fitting(_NATIONAL, 12),
        lambda chance: "".join(chance.choices("abcäöü", k=chance.randint(0, 12))),
    ),
    *(_numbers(sub_type) for sub_type in sorted(NUMBER_SUB_TYPES)),
    *(_integers(code) for code, row in TYPES.items() if row.name.startswith("BIN")),
    *(_integers(code, scale) for code in (BIN64, UBIN64) for scale in (1, 2, 9, 18)),
    _integers(130, 2),
    _integers(133, 3),
    _floats(REAL, pa.float32(), 1.1754943508222875e-38, 3.4028234663852886e38, 1.4e-45),
    _floats(DOUBLE, pa.float64(), 5e-324, 1.7976931348623157e308, 2.0**53, 0.30000000000000004),
    *(_times(TIME, width, TIMES, _time) for width in (4, 7, 10, 13, 16, 19, 23, 26)),
    _times(TIME, 29, (*TIMES, *NANOSECONDS), _nanoseconds),
    _times(191, 29, (*TIMES, *NANOSECONDS), _nanoseconds),
    Values("time with a zone", Column("V", TIME, 48), ZONES, lambda c: f"{_time(c)} +02:00"),
    Values("bytes", Column("V", VARCHAR, 80, sub_type=BINARY), OCTETS, _octets),
    Values(
        "padded bytes",
        Column("V", CHAR, 12, sub_type=BINARY),
        ("00" * 12, "FF" * 12, "20" * 12, "00" * 11 + "01", "FF" * 11 + "FE", "C3" * 12),
        _fixed_octets,
    ),
    *(
        Values(row.name, Column("V", code, 20), ("+01", "-99", "+00 00:00:00.1"), _padded_text)
        for code, row in TYPES.items()
        if row.name in ("INTERVAL_YEAR", "INTERVAL_DAY_SECOND")
    ),
)


class Held(NamedTuple):
    """A target: its address in a folder, a reader of a table's rows, and what is special about its values.

    ``numeric``: a number as text is stored as a number. ``refuses``: values that the target has no room for. ``keyed``: it has rows by their keys.
    """

    address: str
    rows: Callable[[str, str], list[Row]]
    numeric: bool = False
    refuses: Callable[[Column, Value], bool] = lambda *_: False
    keyed: bool = True

    def stored(self, column: Column, value: Value) -> Value:
        """Return what the target keeps of a column's value; equal values are one key."""
        if value is None:
            return None
        if column.family is TypeFamily.BYTES:
            return bytes.fromhex(value)
        if column.family is TypeFamily.NUMBER_TEXT and self.numeric:
            return Decimal(value.strip())
        kind = created_type(column)
        if pa.types.is_timestamp(kind):
            return datetime.fromisoformat(value[:26])
        if pa.types.is_date(kind):
            return date.fromisoformat(value)
        return "NaN" if value != value else value  # noqa: PLR0124


def delta_rows(address: str, table: str) -> list[Row]:
    """Return the rows of a table of Delta."""
    path = f"{address.removeprefix('delta:')}/{table.replace('.', '/')}"
    if not DeltaTable.is_deltatable(path):
        return []
    found: list[Row] = pa.table(DeltaTable(path).scan()).to_pylist()
    return found


def duckdb_rows(address: str, table: str) -> list[Row]:
    """Return the rows of a table of DuckDB."""
    with duckdb.connect(address.removeprefix("duckdb:")) as connection:
        found: list[Row] = connection.sql(f"SELECT * FROM {table}").to_arrow_table().to_pylist()
    return found


def parquet_rows(address: str, table: str) -> list[Row]:
    """Return the rows of a folder of Parquet in the order of their operations."""
    folder = Path(address.removeprefix("parquet:"), *table.split("."))
    files = sorted(folder.glob("[!.]*.parquet"))
    found: list[Row] = pa.concat_tables(map(pq.read_table, files)).to_pylist()
    return found


def postgresql_rows(address: str, table: str) -> list[Row]:
    """Return the rows of a table of PostgreSQL."""
    import psycopg  # noqa: PLC0415  an extra

    with psycopg.connect(address) as connection:
        cursor = connection.execute(f"SELECT * FROM {table}".encode())
        columns = [(one.name, one.type_code == FLOAT4) for one in cursor.description or ()]
        rows = cursor.fetchall()
    return [
        {
            name: _float4(value) if short else value
            for (name, short), value in zip(columns, row, strict=True)
        }
        for row in rows
    ]


def _float4(value: float | None) -> float | None:
    """Return a number of four bytes, of which PostgreSQL prints the shortest digits."""
    return None if value is None else float(np.float32(value))


def iceberg_rows(address: str, table: str) -> list[Row]:
    """Return the rows of a table of Iceberg, as pyiceberg reads them."""
    folder = address.removeprefix("iceberg:")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    if not catalog.table_exists(table):
        return []
    found: list[Row] = catalog.load_table(table).scan().to_arrow().to_pylist()
    return found


def _has_nul(column: Column, value: Value) -> bool:
    """Return whether PostgreSQL has no text for a value: one with U+0000."""
    return isinstance(value, str) and column.family is not TypeFamily.BYTES and "\0" in value


TARGETS: Final[Mapping[str, Held]] = {
    "delta": Held("delta:{}/lake", delta_rows),
    "duckdb": Held("duckdb:{}/shop.duckdb", duckdb_rows),
    "iceberg": Held("iceberg:{}/warehouse", iceberg_rows),
    "parquet": Held("parquet:{}/history", parquet_rows, keyed=False),
    "postgresql": Held("{}", postgresql_rows, numeric=True, refuses=_has_nul),
}
