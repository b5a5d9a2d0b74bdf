"""Prepare rows for delta-rs, read rows with it, and build its conditions on keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from trailgate.apply.effects.nets import NetChanges, build_complete_rows
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets import sql
from trailgate.apply.targets.delta_properties import has_rounded_statistics
from trailgate.apply.targets.lake_keys import IntegerKeys, find_key_range, list_distinct_keys


def build_delta_rows(nets: NetChanges) -> pa.Table:
    """Build the complete rows of net changes for a Delta table, without computed columns."""
    return build_complete_rows(nets).select(
        [one.name for one in nets.table.columns if not one.computed]
    )


def read_delta_rows(
    table: DeltaTable, schema: pa.Schema | None = None, predicate: str | None = None
) -> pa.RecordBatchReader:
    """Read a Delta table with delta-rs: the columns of ``schema`` (by default all), of rows that satisfy ``predicate``.

    This uses the query engine of delta-rs, because its PyArrow datasets refuse tables with deletion
    vectors or mapped columns. The engine returns text as string views, which Arrow cannot filter,
    so they are cast to ``schema``.
    """
    schema = schema or pa.schema(table.schema())
    rows = pa.RecordBatchReader.from_stream(table.scan(schema.names, predicate))
    return rows.cast(schema)


def select_rows(rows: pa.RecordBatchReader, keys: Mapping[str, pa.Array]) -> pa.Table:
    """Return the Delta rows whose value in each key column is a value of that column in ``keys``.

    Columns are compared separately: for the keys (1, A) and (2, B), a row (1, B) is returned too.
    """
    bitmaps = {name: IntegerKeys.of(values) for name, values in keys.items()}
    others = [
        pc.field(name).isin(list_distinct_keys(values))
        for name, values in keys.items()
        if bitmaps[name] is None
    ]
    for name, one in bitmaps.items():
        if one is not None:
            # Nothing is read yet: each reader filters the batches of the one before it.
            rows = pa.RecordBatchReader.from_batches(rows.schema, _filter(rows, name, one))
    return (
        ds.Scanner.from_batches(rows, filter=reduce(and_, others)).to_table()
        if others
        else rows.read_all()
    )


def _filter(rows: pa.RecordBatchReader, name: str, keys: IntegerKeys) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        found = keys.find(batch[name])
        if found.any():
            yield batch.filter(pa.array(found))


def build_range_condition(name: str, values: pa.Array) -> str | None:
    """Build delta-rs's condition that a column is within the range of ``values``, by which reading rows skips files.

    Returns None if ``find_key_range`` does so, and for types whose statistics are rounded: skipping
    files by them would lose rows.
    """
    found = None if has_rounded_statistics(values.type) else find_key_range(values)
    if found is None:
        return None
    return f"{sql.quote_sql_name(name)} BETWEEN {_literal(found.low)} AND {_literal(found.high)}"


def _literal(value: pa.Scalar) -> str:
    """Format a bound of a ``KeyRange`` as a DataFusion literal."""
    if pa.types.is_integer(value.type):
        return str(value.as_py())
    text = str(value.as_py()).replace("'", "''")
    if pa.types.is_decimal(value.type):
        return f"CAST('{text}' AS DECIMAL({value.type.precision},{value.type.scale}))"
    return f"CAST('{text}' AS DATE)" if pa.types.is_date(value.type) else f"'{text}'"


def build_delta_key_match(table: TargetTable) -> str:
    """Build delta-rs's condition that a staged row ``s`` and a row ``t`` of a Delta table have the same key.

    The statistics of a float column ignore NaN, so a file with NaN could be skipped. Floats are
    therefore compared as text, for which no file is skipped. Adding 0.0 makes -0.0 equal to 0.0.
    """
    return sql.build_key_match(
        table,
        compared=lambda column, value: (
            f"CAST({value} + 0.0 AS VARCHAR)" if pa.types.is_floating(column.type) else value
        ),
    )
