"""A binary column of any DataFrame, decoded by a copybook: Kafka values, MQ bodies, files."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf, col
from pyspark.sql.pandas.types import from_arrow_schema

from trailgate.cobol.records.record_bytes import records_at
from trailgate.jobs.record_files.keywords import CopybookKeywords
from trailgate.jobs.record_files.options import OPTIONS, CopybookOptions
from trailgate.options import listed
from trailgate.spark.brief_errors import brief_errors
from trailgate.spark.expected_rows import arrow_schema
from trailgate.storage.files.addresses import Address


@listed(CopybookKeywords, OPTIONS)
def decode_copybook(
    column: Column | str, copybook: Address | None = None, **options: Unpack[CopybookKeywords]
) -> Column:
    """Return a struct column of the records that a binary column holds, one a row.

    The options are those of the format ``copybook`` that do not concern files (docs/copybook.md). A null row gives a
    null struct.
    """
    chosen = CopybookOptions.of_column({"copybook": copybook, **options})
    schema = from_arrow_schema(chosen.decoder().schema)
    exact = arrow_schema(schema)

    @arrow_udf(schema)  # type: ignore[untyped-decorator]  # pyspark's types are not followed
    def decoded(values: pa.Array) -> pa.Array:
        with brief_errors():
            return _decoded(values, chosen, exact)

    return decoded(col(column) if isinstance(column, str) else column)


def _decoded(values: pa.Array, options: CopybookOptions, schema: Any) -> pa.Array:
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    bodies = values.take(pa.array(rows)).cast(pa.large_binary())
    _, offsets, data = bodies.buffers()
    bounds = np.frombuffer(offsets, np.int64)[bodies.offset : bodies.offset + len(bodies) + 1]
    records = records_at(data or pa.py_buffer(b""), bounds[:-1], bounds[1:], first=None)
    table = pa.Table.from_batches(list(options.decoder().batches(records))).select(schema.names)
    batch = table.cast(schema).combine_chunks().to_batches(max_chunksize=None)
    columns = batch[0].columns if batch else [pa.nulls(0, field.type) for field in schema]
    struct = pa.StructArray.from_arrays(columns, fields=list(schema))
    if len(rows) == len(values):
        return struct
    slots = np.zeros(len(values), np.int64)
    slots[rows] = np.arange(len(rows))
    mask = np.ones(len(values), bool)
    mask[rows] = False
    return struct.take(pa.array(slots, mask=mask))
