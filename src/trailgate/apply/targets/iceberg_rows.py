"""Read the rows of Iceberg tables, find rows by key, and compute the new rows of a data file.

pyiceberg finds rows by expressions, which become slow for thousands of keys. Here Arrow looks up
the keys in each data file whose bounds overlap the range of the keys. For example, changes to the
keys 3 and 7 need the files with bounds 1..5 and 6..9, but not the one with 10..20.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    LessThanOrEqual,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import IntegerType, LongType

from trailgate.apply.effects.table_changes import ClosingUpdate
from trailgate.apply.targets.lake_keys import KeyRange, find_key_range
from trailgate.errors import ApplyError, Where

DELETE_FILES: Final = "the table has delete files, which Spark writes with merge-on-read, and pyiceberg cannot write such a table"
REWRITE: Final = "Set its properties write.delete.mode, write.update.mode and write.merge.mode to copy-on-write, and call rewrite_data_files with the option delete-file-threshold 1 in Spark"
# The least value of each integer type.
INTEGERS: Final[Any] = {IntegerType: -(2**31), LongType: -(2**63)}
_SMALL: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
# Their types state keywords of pydantic instead of what they take.
AT_LEAST: Final[Any] = GreaterThanOrEqual
AT_MOST: Final[Any] = LessThanOrEqual


def read_arrow_schema(table: Table) -> pa.Schema:
    """Return the schema with which the rows of an Iceberg table are read, with ``string`` and ``binary`` instead of their large forms."""
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.schema([pa.field(one.name, _SMALL.get(one.type, one.type)) for one in schema])


def plan_files(table: Table, keys: pa.Table | None = None) -> list[FileScanTask]:
    """Return the data files of an Iceberg table, or only the files whose bounds overlap the range of ``keys``.

    Raises ApplyError if one of them has delete files.
    """
    columns = {} if keys is None else dict(zip(keys.column_names, keys.columns, strict=True))
    condition: BooleanExpression = AlwaysTrue()
    for name, values in columns.items():
        condition = And(condition, _build_range(table, name, values.combine_chunks()))
    tasks = list(table.scan(row_filter=condition).plan_files())
    if any(task.delete_files for task in tasks):
        raise _build_refusal(table)
    return tasks


def check_delete_files(table: Table) -> None:
    """Raise ApplyError if an Iceberg table has delete files, according to its current snapshot.

    ``plan_files`` checks only the files that a batch needs.
    """
    snapshot = table.current_snapshot()
    if snapshot is not None and snapshot.summary is not None:
        stated = snapshot.summary.additional_properties.get("total-delete-files", "0")
        if stated != "0":
            raise _build_refusal(table)


def _build_refusal(table: Table) -> ApplyError:
    return ApplyError(DELETE_FILES, where=Where(source=".".join(table.name())), hint=REWRITE)


def _build_range(table: Table, name: str, values: pa.Array) -> BooleanExpression:
    """Build pyiceberg's condition that a column is within the range of ``values``, or always true if files cannot be skipped by it."""
    found = find_key_range(values)
    if found is None or _has_wrapped_parts(table, name, found):
        return AlwaysTrue()
    low, high = found.low.as_py(), found.high.as_py()
    condition: BooleanExpression = AlwaysTrue()
    # For partitions by year or month, pyiceberg computes the days before and after the range. A day
    # that Python lacks would be an OverflowError. Without that bound only more files are read.
    if low != date.min:
        condition = And(condition, AT_LEAST(Reference(name), literal(low)))
    if high != date.max:
        condition = And(condition, AT_MOST(Reference(name), literal(high)))
    return condition


def _has_wrapped_parts(table: Table, name: str, found: KeyRange) -> bool:
    """Return whether a range of keys has values whose partition in the table may be stated with a wrong value.

    ``truncate[10]`` rounds -2147483648 down to -2147483650, which needs more than 32 bits: files state
    2147483646 instead, and pyiceberg would skip them for this range.
    """
    if not pa.types.is_integer(found.low.type):
        return False
    low, high = found.low.as_py(), found.high.as_py()
    number = table.schema().find_field(name).field_id
    widths = [
        field.transform.width
        for spec in table.specs().values()
        for field in spec.fields
        if field.source_id == number and isinstance(field.transform, TruncateTransform)
    ]
    # A column that was widened may have partitions from before.
    kinds = {
        type(field.field_type)
        for schema in table.schemas().values()
        for field in schema.fields
        if field.field_id == number
    }
    ends = [least for kind, least in INTEGERS.items() if kind in kinds]
    return any(low < least + width and high >= least for least in ends for width in widths)


def read_file(table: Table, task: FileScanTask, names: Sequence[str]) -> pa.Table:
    """Read columns of an Iceberg data file, with the types that the table has now."""
    schema = read_arrow_schema(table)
    fields = {one.name: one for one in table.schema().fields}
    wanted = Schema(*(fields[name] for name in names))
    rows = ArrowScan(table.metadata, table.io, wanted, AlwaysTrue()).to_table([task])
    return rows.select(list(names)).cast(pa.schema([schema.field(name) for name in names]))


def read_files(table: Table, tasks: Sequence[FileScanTask]) -> pa.RecordBatchReader:
    """Return a reader of all rows of Iceberg data files, one file after another."""
    schema = read_arrow_schema(table)

    def batches() -> Iterator[pa.RecordBatch]:
        for task in tasks:
            yield from read_file(table, task, schema.names).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def select_open(rows: pa.Table, closing: ClosingUpdate) -> pa.ChunkedArray:
    """Return a mask of the rows of an Iceberg data file that a ``ClosingUpdate`` selects."""
    is_true = rows[closing.column].fill_null(False)
    return is_true if closing.when else pc.invert(is_true)


def close_rows(rows: pa.Table, closing: ClosingUpdate) -> pa.Table:
    """Return the rows of an Iceberg data file after a ``ClosingUpdate``."""
    selected = select_open(rows, closing)
    for name, value in closing.values.items():
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(index)
        changed = pc.if_else(selected, value.cast(field.type), rows[name])
        rows = rows.set_column(index, field, changed)
    return rows
