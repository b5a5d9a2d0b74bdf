"""Rows of Delta tables as delta-rs reads them, finds them by their keys, and takes them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from trailgate.apply.effects.batch import fill_missing_with_null
from trailgate.apply.effects.nets import NetChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets import sql
from trailgate.apply.targets.delta_statistics import has_rounded_statistics
from trailgate.errors import ApplyError, Where

COMPUTED: Final = ("delta.generationExpression", "delta.identity.")
PARTITIONS: Final = "Part the table by another column, or not at all"
# Types whose bounds choose files. Spark cuts the bounds of times to milliseconds.
RANGED: Final = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_string,
)


def computed_columns(table: DeltaTable) -> frozenset[str]:
    """Return the names of the columns whose values Delta makes: generated ones, and identities."""
    return frozenset(
        field.name
        for field in table.schema().fields
        if any(name.startswith(COMPUTED) for name in field.metadata)
    )


def new_rows(nets: NetChanges) -> pa.Table:
    """Return effects that are whole rows, without the columns that Delta computes."""
    rows = pa.table([one.values for one in fill_missing_with_null(nets)], schema=nets.table.schema)
    return rows.select([one.name for one in nets.table.columns if not one.computed])


def named_rows(table: TargetTable, staging: pa.Table) -> pa.Table:
    """Return the values of a staging table under the names of their columns."""
    columns = [staging[f"c{at}"] for at in range(len(table.columns))]
    return pa.table(columns, schema=table.schema)


def check_partitions(path: str, table: DeltaTable, rows: pa.Table) -> None:
    """Raise ApplyError for values that delta-rs writes wrongly as those of a partition, which are text in the log."""
    for name in table.metadata().partition_columns:
        if name not in rows.column_names:
            continue
        kind = rows.schema.field(name).type
        if pa.types.is_binary(kind) or pa.types.is_floating(kind) or _has_fraction(kind):
            problem = f"delta-rs does not write partitions of {kind}, the type of column {name}"
            raise ApplyError(problem, where=Where(source=path, field=name), hint=PARTITIONS)
        if pa.types.is_string(kind) and pc.any(pc.equal(rows[name], "")).as_py():
            problem = f"column {name} parts the table, and empty text is NULL there"
            raise ApplyError(problem, where=Where(source=path, field=name), hint=PARTITIONS)


def _has_fraction(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.scale)


def reader(
    table: DeltaTable, schema: pa.Schema | None = None, predicate: str | None = None
) -> pa.RecordBatchReader:
    """Read the columns of a schema, by default all, and the rows that fit a predicate.

    delta-rs' own engine reads tables with deletion vectors and mapped columns, which its PyArrow datasets refuse. It gives text as views, of
    which Arrow filters none, so they are cast.
    """
    schema = schema or pa.schema(table.schema())
    rows = pa.RecordBatchReader.from_stream(table.scan(schema.names, predicate))
    return rows.cast(schema)


def bounds_of(name: str, values: pa.Array) -> str | None:
    """Return the condition that a column is within the bounds of values; None for types whose bounds leave out files that have such rows."""
    ranged = any(fits(values.type) for fits in RANGED)
    if not ranged or has_rounded_statistics(values.type) or values.null_count or not len(values):
        return None
    bounds = pc.min_max(values)
    low, high = (_literal(bounds[one]) for one in ("min", "max"))
    return f"{sql.quoted(name)} BETWEEN {low} AND {high}"


def _literal(value: pa.Scalar) -> str:
    """Return a value of a type of RANGED as DataFusion has it."""
    if pa.types.is_integer(value.type):
        return str(value.as_py())
    text = str(value.as_py()).replace("'", "''")
    if pa.types.is_decimal(value.type):
        return f"CAST('{text}' AS DECIMAL({value.type.precision},{value.type.scale}))"
    return f"CAST('{text}' AS DATE)" if pa.types.is_date(value.type) else f"'{text}'"


def match(table: TargetTable) -> str:
    """Return the condition that a row of the table and one of staging have the same key.

    The statistics of floats do not count NaN, so floats are compared as text, for which no file is left out.
    """
    equal = "IS NOT DISTINCT FROM" if table.keyless else "="
    pairs = []
    for at in table.key:
        left, right = f"t.{sql.quoted(table.columns[at].name)}", f"s.c{at}"
        kind = table.columns[at].type
        if pa.types.is_floating(kind):
            left, right = f"CAST({left} AS VARCHAR)", f"CAST({right} AS VARCHAR)"
        pairs.append(f"({left} {equal} {right})")
    # DataFusion takes AND for the narrower one where there are no parentheses.
    return " AND ".join(pairs)
