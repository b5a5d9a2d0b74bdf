"""The operations table: the one schema that every producer yields and every consumer takes."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TEXT: Final = pa.string()
_MAP: Final = pa.map_(pa.string(), pa.string())
# Spark's TIMESTAMP is exactly this type; the zone must be spelt UTC.
COMMIT_TIME: Final = pa.timestamp("us", "UTC")

# Everything is nullable: a null in a NOT NULL column fails a Spark job at run time.
OPERATIONS_SCHEMA: Final = pa.schema(
    [
        ("table", _TEXT),
        ("op_type", _TEXT),
        ("op_ts", COMMIT_TIME),
        ("tx_id", _TEXT),
        ("tx_ind", _TEXT),
        ("csn", _TEXT),
        ("seq_id", _TEXT),
        ("position", _TEXT),
        ("tx_owner", _TEXT),
        ("tx_name", _TEXT),
        ("before", _MAP),
        ("after", _MAP),
        ("tokens", _MAP),
    ]
)

# What follows a table's own columns in its typed shape.
TYPED_FIELDS: Final = (
    pa.field("_op_type", _TEXT),
    pa.field("_op_ts", COMMIT_TIME),
    pa.field("_tx_id", _TEXT),
    pa.field("_csn", _TEXT),
    pa.field("_position", _TEXT),
    pa.field("_missing", pa.list_(pa.string())),
)
TYPED_COLUMNS: Final = tuple(field.name for field in TYPED_FIELDS)
