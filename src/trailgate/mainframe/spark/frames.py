"""Read files of records as DataFrames, and decode binary columns by a copybook.

The options are those of the format ``copybook``. Only the DataFrame API is used, except by
``record_counts``, so it also works over Spark Connect.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from pyspark import Accumulator
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import arrow_udf, col

from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.cobol.records.record_bytes import records_at
from trailgate.errors import OptionError
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.options import OPTIONS, CopybookKeywords, RecordKeywords
from trailgate.options import check_arguments, list_names
from trailgate.spark.errors import brief_errors
from trailgate.spark.frames import frame_of
from trailgate.spark.schemas import arrow_schema, spark_schema
from trailgate.spark.sessions import check_session
from trailgate.storage.files.addresses import Address, Addresses


@check_arguments
@list_names(RecordKeywords, OPTIONS)
def read_records(
    spark: SparkSession,
    path: Addresses,
    copybook: Addresses | None = None,
    *,
    base: Address | None = None,
    counts: Accumulator[PolicyTally] | None = None,
    **options: Unpack[RecordKeywords],
) -> DataFrame:
    """Read record files as a DataFrame. The options are those of the format ``copybook``.

    ``counts`` comes from ``record_counts``. Whenever the DataFrame is read, values that options
    changed or accepted are counted in it.
    """
    from trailgate.mainframe.spark.reader import CopybookSource  # noqa: PLC0415

    named = {"copybook": copybook, "base": base, **options}
    return frame_of(spark, CopybookSource, path, named, counts)


class _Sums(AccumulatorParam[PolicyTally]):  # type: ignore[misc]  # pyspark's types are not followed
    """Adds up the policy counts of tasks, for the Spark accumulator of ``record_counts``."""

    def zero(self, value: PolicyTally) -> PolicyTally:
        """Return the empty counts with which a task begins."""
        del value
        return PolicyTally()

    def addInPlace(self, value1: PolicyTally, value2: PolicyTally) -> PolicyTally:  # noqa: N802  Spark's name
        """Add the second counts to the first, and return the first."""
        value1.update(value2)
        return value1


@check_arguments
def record_counts(spark: SparkSession) -> Accumulator[PolicyTally]:
    """Create a Spark accumulator for ``read_records``: counts by policy, record and field.

    A key is for example ``("padding=left", "ACCOUNT", "AMOUNT")``. Like every Spark accumulator it
    counts what tasks read, so values are counted again if a DataFrame is read again or a task is
    repeated. Raises OptionError with Spark Connect, which does not support accumulators.
    """
    try:
        context = check_session(spark).sparkContext
    except PySparkException as error:
        problem = "Spark Connect has no accumulators"
        hint = "Observe the column _errors, or let trailgate.verify_records count"
        raise OptionError(problem, hint=hint) from error
    return context.accumulator(PolicyTally(), _Sums())


@check_arguments
@list_names(CopybookKeywords, OPTIONS)
def decode_copybook(
    column: Column | str, copybook: Addresses | None = None, **options: Unpack[CopybookKeywords]
) -> Column:
    """Decode a binary column by a copybook into a struct column with one record per row.

    The options are those of the format ``copybook`` that do not concern files (docs/copybook.md). A
    null row becomes a null struct.
    """
    chosen = CopybookOptions.of_column({"copybook": copybook, **options})
    schema = spark_schema(chosen.decoder().schema)
    exact = arrow_schema(schema)

    @arrow_udf(schema)  # type: ignore[untyped-decorator]  # pyspark's types are not followed
    def decode(values: pa.Array) -> pa.Array:
        with brief_errors():
            return _decode(values, chosen, exact)

    return decode(col(column) if isinstance(column, str) else column)


def _decode(values: pa.Array, options: CopybookOptions, schema: Any) -> pa.Array:
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    bodies = values.take(pa.array(rows)).cast(pa.large_binary())
    _, offsets, data = bodies.buffers()
    # A sliced array shares the buffers of the complete one: its own offsets begin at ``offset``.
    bounds = np.frombuffer(offsets, np.int64)[bodies.offset : bodies.offset + len(bodies) + 1]
    records = records_at(data or pa.py_buffer(b""), bounds[:-1], bounds[1:], first=None)
    table = pa.Table.from_batches(list(options.decoder().batches(records))).select(schema.names)
    batch = table.cast(schema).combine_chunks().to_batches(max_chunksize=None)
    columns = batch[0].columns if batch else [pa.nulls(0, field.type) for field in schema]
    struct = pa.StructArray.from_arrays(columns, fields=list(schema))
    if len(rows) == len(values):
        return struct
    # Spread the decoded records over all rows: row i gets record slots[i], and null rows are masked
    slots = np.zeros(len(values), np.int64)
    slots[rows] = np.arange(len(rows))
    mask = np.ones(len(values), bool)
    mask[rows] = False
    return struct.take(pa.array(slots, mask=mask))
