"""The operations table: the one schema that every producer yields and every consumer takes."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from trailgate.arrays import Longs, Mask

_TEXT: Final = pa.string()
_MAP: Final = pa.map_(pa.string(), pa.string())
# Spark's TIMESTAMP is exactly this type; the zone must be spelt UTC.
COMMIT_TIME: Final = pa.timestamp("us", "UTC")
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000  # what date times can be

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


def undatable(micros: Longs) -> Mask:
    """Return which microseconds since 1970 are outside of the years 1 to 9999; their commit times are null."""
    found: Mask = (micros < YEAR_1) | (micros >= YEAR_10000)
    return found
