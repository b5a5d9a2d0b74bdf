"""Find the columns whose statistics delta-rs rounds, and the table properties that disable these statistics.

A Delta log states the smallest and greatest value of each column in a file, and readers skip files
by these bounds. delta-rs writes bounds of decimals as JSON numbers: 64-bit integers, or floats if
the decimal has a scale. If the greatest value in a file is 90071992547409.93, the bound becomes
90071992547409.92, and a reader that looks for 90071992547409.93 skips the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

FLOAT_DIGITS: Final = 15  # a 64-bit float keeps every number of so many digits
LONG_DIGITS: Final = 18  # a 64-bit integer holds every number of so many digits
STATISTICS: Final = "delta.dataSkippingStatsColumns"
INDEXED: Final = "delta.dataSkippingNumIndexedCols"
SIMPLE: Final = re.compile(r"\w+")  # names that all libraries parse alike in a list of columns
# The types for which Delta writes statistics.
COUNTED: Final = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_floating,
    pa.types.is_temporal,
    pa.types.is_string,
)


def has_rounded_statistics(data_type: pa.DataType) -> bool:
    """Return whether delta-rs rounds the statistics of columns of this type in a Delta log.

    It does so for decimals of more than 18 digits, or of more than 15 digits if they have a scale.
    """
    if not pa.types.is_decimal(data_type):
        return False
    return bool(data_type.precision > (FLOAT_DIGITS if data_type.scale else LONG_DIGITS))


def plan_statistics_properties(
    schema: pa.Schema, known: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the Delta table properties that turn off rounded statistics, or {} if no change is needed.

    ``known`` are the table's current properties. All columns are considered and not only the key,
    because every reader of the table trusts its statistics.
    """
    rounded = [field.name for field in schema if has_rounded_statistics(field.type)]
    listed = known.get(STATISTICS)
    if not rounded:
        return {}
    # The table names its columns with statistics: remove the rounded ones from that list.
    if listed is not None:
        names = [name.strip().strip("`") for name in listed.split(",")]
        chosen = [name for name in names if name not in rounded]
        return {} if chosen == names else {STATISTICS: ",".join(map("`{}`".format, chosen))}
    # Otherwise the first 32 columns have statistics, or as many as the property states (-1: all). If a
    # rounded column is among them, replace the number by a list of the others.
    count = int(known.get(INDEXED) or 32)
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
