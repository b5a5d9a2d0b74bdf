"""Table definitions: columns with lengths and keys, and sets of tables that are looked up by name.

Every notation (definitions files, copybooks, metadata in trails) is converted to this model. A
column has the 24 attributes of a Defgen file, under their names there. Its type determines its
family (``model/types.py``), which determines how values are read and written. Names are compared
ignoring case. If no column of a table is marked as key, all columns are its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from trailgate.errors import DefinitionError, did_you_mean
from trailgate.model.table_names import normalize_table_name
from trailgate.model.types import (
    BINARY_SUB_TYPE,
    NUMBER_SUB_TYPES,
    NUMBERED,
    TYPES,
    DefgenType,
    TypeFamily,
)
from trailgate.options import check_calls, check_items

TABLES: Final = 256  # size of the caches that have one item per table
NANOSECONDS: Final = 29  # characters of a date time with nine digits of fraction


@check_calls
@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table definition. The fields are attributes 1 to 24 of a Defgen file."""

    name: str
    data_type: int
    external_length: int
    fetch_offset: int = 0
    scale: int = 0
    level: int = 0
    nullable: bool = True
    bump_if_odd: int = 0
    internal_length: int = 0
    binary_length: int = 0
    table_length: int = 0
    most_significant: int = 0
    least_significant: int = 0
    high_precision: int = 0
    low_precision: int = 0
    elementary: int = 1
    occurs: int = 0
    key: bool = False
    sub_type: int = 0
    native_type: int = 0
    # Not a character column (trail format §12).
    character_set: int = -1
    character_length: int = 0
    lob_type: int = 0
    partial_type: int = 0

    @property
    def type_row(self) -> DefgenType:
        """Return the column's row of the table of types. Raises DefinitionError for an unknown type code."""
        # A type of our own, which definitions files do not have.
        if self.data_type == NUMBERED.code:
            return NUMBERED
        try:
            return TYPES[self.data_type]
        except KeyError:
            raise DefinitionError(
                f"unknown data type code {self.data_type} of column {self.name}"
            ) from None

    @property
    def family(self) -> TypeFamily:
        """Return the family of the column's type, which determines how block columns represent the values."""
        family = self.type_row.family
        if family is TypeFamily.TEXT and self.sub_type in NUMBER_SUB_TYPES:
            return TypeFamily.NUMBER_TEXT
        if family is TypeFamily.TEXT and self.sub_type == BINARY_SUB_TYPE:
            return TypeFamily.BYTES
        return family

    @property
    def arrow_type(self) -> pa.DataType:
        """Return the Arrow type of the block column (see ``TypeFamily``)."""
        if self.family is TypeFamily.INTEGER:
            # Signed 64-bit numbers have up to 19 digits, and unsigned ones up to 20.
            return pa.decimal128(19, self.scale) if self.scale else pa.int64()
        if self.family is TypeFamily.UNSIGNED:
            return pa.decimal128(20, self.scale) if self.scale else pa.uint64()
        if self.family is TypeFamily.FLOAT:
            return pa.float32() if self.type_row.width == 4 else pa.float64()
        return pa.string()

    @property
    def zoned(self) -> bool:
        """Return whether this is a datetime column that is long enough for nanoseconds and a time zone."""
        return self.family is TypeFamily.DATETIME and self.external_length > NANOSECONDS


def describe_column_type(column: Column) -> str:
    """Describe the type of a table's column for error messages: ``BIN64_S (134) of length 8``, with the scale if it has one."""
    scale = f" and scale {column.scale}" if column.scale else ""
    return f"{column.type_row.name} ({column.data_type}) of length {column.external_length}{scale}"


@check_calls
@dataclass(frozen=True, slots=True)
class Table:
    """A table definition: its name (SCHEMA.TABLE, see ``normalize_table_name``) and its columns in order.

    ``record_length`` and ``syskey`` are the values of a Defgen file.

    ``guessed`` means that no definition exists: columns have numbers instead of names, and their
    values are guessed from the bytes.
    """

    name: str
    columns: tuple[Column, ...]
    record_length: int = 0
    syskey: int = 0
    guessed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", normalize_table_name(self.name))
        object.__setattr__(self, "columns", check_items("columns", self.columns, Column))

    def __hash__(self) -> int:
        """Return the hash of the table's name only, because caches by table are used for each batch."""
        return hash(self.name)

    @property
    def keys(self) -> tuple[int, ...]:
        """Return the indexes of the key columns, or of all columns if none is marked as key.

        GoldenGate also uses all columns as the key of a table that has none.
        """
        return self.marked_keys or tuple(range(len(self.columns)))

    @property
    def marked_keys(self) -> tuple[int, ...]:
        """Return the indexes of the columns that are marked as key."""
        return tuple(i for i, column in enumerate(self.columns) if column.key)

    def index(self, name: str) -> int:
        """Return the index of a column by its name, ignoring case. Raises DefinitionError if it does not exist."""
        folded = name.casefold()
        for i, column in enumerate(self.columns):
            if column.name.casefold() == folded:
                return i
        hint = did_you_mean(name, (column.name for column in self.columns))
        raise DefinitionError(f"no column {name} in table {self.name}", hint=hint)

    def column_indexes(self) -> dict[str, int]:
        """Return the index of each column of the table by its case-folded name."""
        return {column.name.casefold(): i for i, column in enumerate(self.columns)}


@dataclass(frozen=True, slots=True)
class DatabaseLines:
    """The lines about the database in a definitions file, as text.

    A line that the file does not have is empty.
    """

    version: str = ""  # Defgen version of line one: "", "1.0" ... "5.0"
    encoding: str = "UTF-8"
    database_type: str = ""
    character_set: str = ""
    national_character_set: str = ""
    locale: str = ""
    case_sensitivity: str = ""
    time_zone: str = ""


@check_calls
@dataclass(frozen=True, slots=True)
class Definitions:
    """A set of table definitions, looked up by name ignoring case."""

    tables: tuple[Table, ...]
    database: DatabaseLines = DatabaseLines()
    _by_name: dict[str, Table] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Table] = {}
        object.__setattr__(self, "tables", check_items("tables", self.tables, Table))
        for table in self.tables:
            if table.name.casefold() in by_name:
                raise DefinitionError(f"table {table.name} is defined twice")
            by_name[table.name.casefold()] = table
        object.__setattr__(self, "_by_name", by_name)

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def get(self, name: str) -> Table | None:
        """Return the table definition with this name, or None."""
        return self._by_name.get(normalize_table_name(name).casefold())

    def table(self, name: str) -> Table:
        """Return the table definition with this name.

        Raises DefinitionError, which suggests the nearest name.
        """
        known = self.get(name)
        if known is not None:
            return known
        near = did_you_mean(name, (table.name for table in self.tables))
        hint = near or _some(self.tables)
        raise DefinitionError(f"table {name} is not in the definitions", hint=hint)

    def merge(self, others: Iterable[Table]) -> Definitions:
        """Return the definitions with other tables added.

        Raises DefinitionError if a table differs from its known definition.
        """
        added = []
        for table in check_items("others", others, Table):
            known = self.get(table.name)
            if known is None:
                added.append(table)
            elif known != table:
                raise DefinitionError(
                    f"table {table.name} differs from its earlier definition",
                    hint="A trail can have only one definition of a table: begin a new trail",
                )
        return Definitions((*self.tables, *added), self.database)


def _some(tables: tuple[Table, ...], shown: int = 5) -> str:
    """Return a hint with the names of the first ``shown`` defined tables, or that no table is defined."""
    if not tables:
        return "No table is defined: name a definitions file with the property sourcedefs"
    names = ", ".join(table.name for table in tables[:shown])
    return f"Defined: {names}" + (" ..." if len(tables) > shown else "")
