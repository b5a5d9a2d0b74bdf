"""What a table looks like: columns, lengths, keys; and a set of tables found by name.

Every notation becomes this one model (``definitions``, ``formats/fixed_width/layouts.py``). A column has the 24 attributes of a Defgen file under their names there; its type's row gives its
family (``model/types.py``), by which values are read and written. Names are compared without case, and where a table has no marked key all columns are its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from trailgate.errors import DefinitionError, did_you_mean
from trailgate.model.table_patterns import table_name
from trailgate.model.types import (
    BINARY_SUB_TYPE,
    NUMBER_SUB_TYPES,
    NUMBERED,
    TYPES,
    Family,
    TypeRow,
)

TABLES: Final = 256  # of which is kept what is made once a table
NANOSECONDS: Final = 29  # characters of a date time with nine digits of fraction


@dataclass(frozen=True, slots=True)
class Column:
    """One column; the field names are those of a Defgen file's attributes 1 to 24."""

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
    character_set: int = -1
    character_length: int = 0
    lob_type: int = 0
    partial_type: int = 0

    @property
    def type_row(self) -> TypeRow:
        """Return the row of the type table; raises DefinitionError for an unknown code."""
        if self.data_type == NUMBERED.code:
            return NUMBERED
        try:
            return TYPES[self.data_type]
        except KeyError:
            raise DefinitionError(
                f"unknown data type code {self.data_type} of column {self.name}"
            ) from None

    @property
    def family(self) -> Family:
        """Return how values of this column are held between rooms."""
        family = self.type_row.family
        if family is Family.TEXT and self.sub_type in NUMBER_SUB_TYPES:
            return Family.NUMBER_TEXT
        if family is Family.TEXT and self.sub_type == BINARY_SUB_TYPE:
            return Family.BYTES
        return family

    @property
    def arrow_type(self) -> pa.DataType:
        """Return the Arrow type of a block column (see ``Family``)."""
        if self.family is Family.INTEGER:
            return pa.decimal128(19, self.scale) if self.scale else pa.int64()
        if self.family is Family.UNSIGNED:
            return pa.decimal128(20, self.scale) if self.scale else pa.uint64()
        if self.family is Family.FLOAT:
            return pa.float32() if self.type_row.width == 4 else pa.float64()
        return pa.string()

    @property
    def zoned(self) -> bool:
        """Return whether a datetime column has room for a time zone after nanoseconds."""
        return self.family is Family.DATETIME and self.external_length > NANOSECONDS


def describe_type(column: Column) -> str:
    """Return a column's type for error messages: ``BIN64_S (134) of length 8``, with its scale if it has one."""
    scale = f" and scale {column.scale}" if column.scale else ""
    return f"{column.type_row.name} ({column.data_type}) of length {column.external_length}{scale}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table definition: its name (SCHEMA.TABLE, see ``table_name``) and columns in order.

    ``guessed`` means that nothing defines it: its columns are numbered, their values guessed from the bytes.
    """

    name: str
    columns: tuple[Column, ...]
    record_length: int = 0
    syskey: int = 0
    guessed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", table_name(self.name))

    def __hash__(self) -> int:
        """Return the hash of the name: what is made once a table is looked up for each batch."""
        return hash(self.name)

    @property
    def keys(self) -> tuple[int, ...]:
        """Return the indexes of the key columns; all columns where none is marked.

        GoldenGate uses all columns as the key of a table without one.
        """
        return self.marked_keys or tuple(range(len(self.columns)))

    @property
    def marked_keys(self) -> tuple[int, ...]:
        """Return the indexes of the columns that are marked as key."""
        return tuple(i for i, column in enumerate(self.columns) if column.key)

    def index(self, name: str) -> int:
        """Return a column's index by name, compared without case; raises DefinitionError."""
        folded = name.casefold()
        for i, column in enumerate(self.columns):
            if column.name.casefold() == folded:
                return i
        hint = did_you_mean(name, (column.name for column in self.columns))
        raise DefinitionError(f"no column {name} in table {self.name}", hint=hint)


@dataclass(frozen=True, slots=True)
class Database:
    """The database lines of a definitions file, as text; empty where the file has none."""

    version: str = ""  # Defgen version of line one: "", "1.0" ... "5.0"
    encoding: str = "UTF-8"
    database_type: str = ""
    character_set: str = ""
    national_character_set: str = ""
    locale: str = ""
    case_sensitivity: str = ""
    time_zone: str = ""


@dataclass(frozen=True, slots=True)
class Definitions:
    """A set of tables, found by name without regard to case."""

    tables: tuple[Table, ...]
    database: Database = Database()
    _by_name: dict[str, Table] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Table] = {}
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
        """Return the table of that name, or None."""
        return self._by_name.get(table_name(name).casefold())

    def table(self, name: str) -> Table:
        """Return the table of that name; raises DefinitionError that names the nearest one."""
        found = self.get(name)
        if found is not None:
            return found
        near = did_you_mean(name, (table.name for table in self.tables))
        hint = near or _some(self.tables)
        raise DefinitionError(f"table {name} is not in the definitions", hint=hint)

    def merge(self, others: Iterable[Table]) -> Definitions:
        """Return these definitions with other tables added; a changed table is an error."""
        added = []
        for table in others:
            known = self.get(table.name)
            if known is None:
                added.append(table)
            elif known != table:
                raise DefinitionError(
                    f"table {table.name} differs from its earlier definition",
                    hint="A trail holds one definition of a table: begin a new trail",
                )
        return Definitions((*self.tables, *added), self.database)


def _some(tables: tuple[Table, ...], shown: int = 5) -> str:
    """Return a hint with the names of tables."""
    if not tables:
        return "No table is defined: name a definitions file by the property sourcedefs"
    names = ", ".join(table.name for table in tables[:shown])
    return f"Defined: {names}" + (" ..." if len(tables) > shown else "")
