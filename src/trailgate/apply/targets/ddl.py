"""Generate CREATE TABLE statements for PostgreSQL, DuckDB, Delta and Oracle.

Each database is one row of ``DATABASES``: its types, quotes, limits of names, and rules for keys.
Apply creates PostgreSQL tables with these statements. It creates DuckDB and Delta tables from Arrow
schemas, which result in the same types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.errors import OptionError

# The Arrow types to which the ``types`` of the databases below correspond, in this order.
HELD: Final = (
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("us"),
    pa.binary(),
    pa.bool_(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlDialect:
    """How a database spells CREATE TABLE.

    ``types`` are the database's names for the Arrow types in ``HELD``, in the same order.
    ``number`` is the type for numbers that are text in Arrow, ``decimal`` the type for decimals,
    with two {} for precision and scale, ``varchar`` the type for text of up to ``most`` characters,
    and ``text`` the type for longer text. A name has at most ``longest`` bytes. If ``keys``, tables
    get primary keys, but not on columns of the ``unkeyed`` types. ``upper``: the database shows
    unquoted names in upper case, so names in lower case are changed to upper case. ``ending``
    follows the columns.
    """

    title: str
    types: tuple[str, ...]
    number: str
    decimal: str
    text: str
    varchar: str = ""
    most: int = 0
    longest: int = 0  # bytes of a name; 0 if no limit is known
    quote: str = '"'
    upper: bool = False
    keys: bool = True
    unkeyed: frozenset[str] = frozenset()
    ending: str = ""

    def quote_name(self, *parts: str) -> str:
        """Quote the parts of a table's name for CREATE TABLE. Raises OptionError if a part is too long."""
        mark, names = self.quote, []
        for part in parts:
            if 0 < self.longest < len(part.encode()):
                problem = (
                    f"{self.title} has names of at most {self.longest} bytes, but {part} is longer"
                )
                raise OptionError(
                    problem,
                    hint="Give it another name: with MAP or COLMAP in a parameter file of apply, or with the option rename of a copybook",
                )
            name = part.upper() if self.upper and part.islower() else part
            names.append(mark + name.replace(mark, 2 * mark) + mark)
        return ".".join(names)

    def type_of(self, column: TargetColumn) -> str:
        """Return the database's name for the type of a target column."""
        if column.number:
            return self.number
        if pa.types.is_decimal(column.type):
            return self.decimal.format(column.type.precision, column.type.scale)
        for kind, name in zip(HELD, self.types, strict=True):
            if kind == column.type:
                return name
        fits = column.length is not None and 0 < column.length <= self.most
        return self.varchar.format(column.length) if fits else self.text

    def create_statement(self, table: TargetTable, name: tuple[str, ...]) -> str:
        """Build the CREATE TABLE statement of a table, with its primary key. Raises OptionError if a name is too long."""
        kinds = [self.type_of(column) for column in table.columns]
        try:
            lines = [
                f"{self.quote_name(column.name)} {kind}"
                for column, kind in zip(table.columns, kinds, strict=True)
            ]
            target = self.quote_name(*name)
        except OptionError as error:
            raise error.with_place(table=str(table)) from None
        keyed = self.keys and not table.keyless
        if keyed and self.unkeyed.isdisjoint(kinds[at] for at in table.key):
            lines.append(f"PRIMARY KEY ({', '.join(map(self.quote_name, table.key_names))})")
        columns = ",\n  ".join(lines)
        return f"CREATE TABLE {target} (\n  {columns}\n){self.ending}"


# PostgreSQL, Data Types and Lexical Structure: longer names are truncated silently.
POSTGRESQL: Final = DdlDialect(
    title="PostgreSQL",
    types=(
        "smallint",
        "smallint",
        "integer",
        "bigint",
        "real",
        "double precision",
        "date",
        "timestamp without time zone",
        "bytea",
        "boolean",
    ),
    number="numeric",
    decimal="numeric({}, {})",
    text="text",
    varchar="varchar({})",
    most=10_485_760,
    longest=63,
)
# DuckDB, Data Types: the length of a VARCHAR has no effect. Numbers that are text may have more than
# the 38 digits of its decimals.
DUCKDB: Final = DdlDialect(
    title="DuckDB",
    types=(
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DATE",
        "TIMESTAMP",
        "BLOB",
        "BOOLEAN",
    ),
    number="VARCHAR",
    decimal="DECIMAL({},{})",
    text="VARCHAR",
)
# Spark SQL Reference, Data Types. Delta Lake has no primary keys.
DELTA: Final = DdlDialect(
    title="Delta (Spark SQL)",
    types=(
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DATE",
        "TIMESTAMP_NTZ",
        "BINARY",
        "BOOLEAN",
    ),
    number="STRING",
    decimal="DECIMAL({},{})",
    text="STRING",
    quote="`",
    keys=False,
    ending=" USING DELTA",
)
# Oracle Database SQL Language Reference 19c, Data Types, Database Object Names and Qualifiers, and
# constraint: LOB columns cannot be part of a primary key.
ORACLE: Final = DdlDialect(
    title="Oracle",
    types=(
        "NUMBER(3)",
        "NUMBER(5)",
        "NUMBER(10)",
        "NUMBER(19)",
        "BINARY_FLOAT",
        "BINARY_DOUBLE",
        "DATE",
        "TIMESTAMP(6)",
        "BLOB",
        "NUMBER(1)",
    ),
    number="NUMBER",
    decimal="NUMBER({}, {})",
    text="CLOB",
    varchar="VARCHAR2({} CHAR)",
    most=4000,
    longest=128,
    upper=True,
    unkeyed=frozenset({"BLOB", "CLOB"}),
)
DATABASES: Final[Mapping[str, DdlDialect]] = MappingProxyType(
    {"postgresql": POSTGRESQL, "duckdb": DUCKDB, "delta": DELTA, "oracle": ORACLE}
)
