"""Find the range of the keys of a batch, with which a lake's engine skips data files.

For the keys 3, 7 and 9 the range is 3 to 9. A data file whose keys are between 10 and 20 is not read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

# Types whose bounds in a data file's statistics are exact enough. The bounds of floats ignore NaN,
# and Spark truncates those of timestamps to milliseconds.
RANGED: Final = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_string,
)


class KeyRange(NamedTuple):
    """The smallest and the greatest of some keys."""

    low: pa.Scalar
    high: pa.Scalar


def find_key_range(keys: pa.Array) -> KeyRange | None:
    """Return the range of a key column's values, or None if files cannot be skipped by it: no keys, a NULL, or another type."""
    if not any(fits(keys.type) for fits in RANGED) or keys.null_count or not len(keys):
        return None
    bounds = pc.min_max(keys)
    return KeyRange(bounds["min"], bounds["max"])
