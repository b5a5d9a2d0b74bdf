"""Check tables, keys and values of a database, and build the errors that PostgreSQL and DuckDB share.

The key columns of a table must have types in which different values are different. Before a table
is written, its database casts and prints staged values (``sql.StagingDialect``); a value that it
would change is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from trailgate.apply.effects.stored_types import spell_stored_values
from trailgate.apply.effects.tables import KEYLESS_HINT, TargetColumn, TargetTable
from trailgate.apply.targets.target import RowRefusedError, ValuesRefusedError
from trailgate.errors import ApplyError, DefinitionError, OptionError, Where

KEY_HINT: Final = (
    "Change the type of the column, or choose other key columns with KEYCOLS in a parameter file"
)


def schema_and_name(table: TargetTable, default: str, database: str) -> tuple[str, str]:
    """Split the name of a target table into a database's schema and table name. ``default`` is the schema of a name of one part.

    Raises OptionError, which names the ``database``, for a name of three parts.
    """
    if len(table.name) == 1:
        return default, table.name[0]
    if len(table.name) == 2:
        return table.name[0], table.name[1]
    hint = "MAP it to SCHEMA.TABLE in a parameter file"
    raise OptionError(f"{database} has no catalogs, but {table} names one", hint=hint)


def not_a_table_error(object_type: str, name: str) -> DefinitionError:
    """Build the error for a view, or a similar database object, that has a table's name."""
    problem = (
        f"the target has {object_type} of this name, and changes can only be applied to tables"
    )
    return DefinitionError(problem, where=Where(table=name), hint="MAP the table to another name")


def check_key_types(table: TargetTable) -> TargetTable:
    """Check that the types of a target table's key columns let a database tell all keys apart, and return the table.

    Raises DefinitionError if the database could treat different values of a key column as equal.
    """
    for at in table.key:
        stored = table.columns[at].stored
        if stored is not None and not stored.is_key:
            problem = f"a column of {stored.name} cannot be part of a key: values that differ in the trail can be equal in it"
            where = Where(table=str(table), field=table.columns[at].name)
            raise DefinitionError(problem, where=where, hint=KEY_HINT)
    return table


def normalize_keys(table: TargetTable, rows: pa.Table) -> pa.Table:
    """Convert the key columns of rows read from a PostgreSQL or DuckDB table to the spelling in which keys are compared."""
    for at in table.key:
        column = table.columns[at]
        if column.stored is not None:
            index = rows.column_names.index(column.name)
            keys = spell_stored_values(rows[column.name].combine_chunks(), column.stored)
            rows = rows.set_column(index, column.name, keys)
    return rows


@contextmanager
def convert_value_errors(column: TargetColumn) -> Iterator[None]:
    """Context manager: convert any error of a statement that only casts staged values of ``column`` to RowRefusedError.

    Databases use several error classes for values that they cannot cast.
    """
    try:
        yield
    except ApplyError as error:
        refusal = RowRefusedError(error.problem, where=error.where, hint=error.hint)
        raise refusal.with_place(field=column.name).with_numbers(error.numbers) from None


def build_refused_values_error(
    table: TargetTable, column: TargetColumn, rows: Iterable[tuple[Any, Any]]
) -> ValuesRefusedError:
    """Build one error for all values of a column that the database rejects.

    ``rows`` are pairs of the trail's value and the database's value, which is None if it cannot be
    cast.
    """
    assert column.stored is not None
    errors: dict[str, RowRefusedError] = {}
    for sent, stored in rows:
        one = build_changed_value_error(table, column, sent, stored)
        if stored is None:
            one.problem = f"the trail has {sent!r}, which is not valid in the target's column of type {column.stored.name}"
        errors[sent] = RowRefusedError(one.problem, where=one.where)
    first = next(iter(errors.values()))
    joined = ValuesRefusedError(first.problem, where=first.where)
    joined.errors = errors
    return joined


def build_changed_value_error(
    table: TargetTable, column: TargetColumn, sent: Any, stored: Any
) -> RowRefusedError:
    """Build the error for a value of the trail (``sent``) that a database would change, or compute as ``stored``."""
    does = "computes" if column.stored is None else f"of type {column.stored.name} stores"
    problem = f"the trail has {sent!r}, but the target's column {does} {stored!r}"
    return RowRefusedError(problem, where=Where(table=str(table), field=column.name))


def build_row_count_error(table: TargetTable, expected: int, changed: int) -> ApplyError:
    """Build the error for a database that changed an unexpected number of rows, in PostgreSQL or DuckDB."""
    hint = "Another process changes the table, or several rows have the same key"
    if table.keyless:
        hint = f"The table has no key, and no statement can change one of several rows that are equal in all columns: {KEYLESS_HINT}"
    return ApplyError(
        f"{changed} rows were changed instead of {expected}",
        where=Where(table=str(table)),
        hint=hint,
    )
