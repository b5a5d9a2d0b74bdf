"""Statistics of Delta tables: which ones delta-rs rounds, and the table properties that leave these out.

The log of a table states the least and the greatest value of each column in a file, and readers skip files by them. delta-rs writes the bounds of decimals as numbers of 64 bits, and
those with a scale as floats: a file whose greatest value is 90071992547409.93 states 90071992547409.92, and whoever looks for ....93 does not read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

FLOAT_DIGITS: Final = 15  # that a float of 64 bits has of every number
LONG_DIGITS: Final = 18  # that an integer of 64 bits has of every number
STATISTICS: Final = "delta.dataSkippingStatsColumns"
INDEXED: Final = "delta.dataSkippingNumIndexedCols"
SIMPLE: Final = re.compile(r"\w+")  # names that each library reads alike in a list of columns
# Types that Delta has statistics of.
COUNTED: Final = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_floating,
    pa.types.is_temporal,
    pa.types.is_string,
)


def has_rounded_statistics(kind: pa.DataType) -> bool:
    """Return whether delta-rs rounds the statistics of a column: it has the bounds of decimals as 64 bits, and those with a scale as floats.

    The greatest 9007199254740993 in a file is then stated as ...992, and whoever looks for ...993 leaves the file out.
    """
    if not pa.types.is_decimal(kind):
        return False
    return bool(kind.precision > (FLOAT_DIGITS if kind.scale else LONG_DIGITS))


def statistics_settings(schema: pa.Schema, known: Mapping[str, str | None]) -> dict[str, str]:
    """Return the table properties by which no statistics are written of columns that delta-rs rounds; none where the properties that a table has leave them out already.

    Every reader of the table trusts its statistics, so this is about all columns, and not about those of the key alone.
    """
    rounded = [field.name for field in schema if has_rounded_statistics(field.type)]
    listed = known.get(STATISTICS)
    if not rounded:
        return {}
    if listed is not None:
        names = [name.strip().strip("`") for name in listed.split(",")]
        chosen = [name for name in names if name not in rounded]
        return {} if chosen == names else {STATISTICS: ",".join(map("`{}`".format, chosen))}
    count = int(known.get(INDEXED) or 32)  # Delta's own default
    first = schema.names[: count if count >= 0 else None]
    if not set(first) & set(rounded):
        return {}
    chosen = [
        field.name
        for field in schema
        if field.name in first
        and SIMPLE.fullmatch(field.name)
        and any(fits(field.type) for fits in COUNTED)
        and not has_rounded_statistics(field.type)
    ]
    return {STATISTICS: ",".join(map("`{}`".format, chosen))}
