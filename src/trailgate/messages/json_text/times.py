"""Times as text, as JSON messages have them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs


def iso_times(micros: Longs, between: bytes) -> pa.StringArray:
    """Return times, in microseconds since 1970, as text of 26 characters; ``between`` is between date and time."""
    text = pc.cast(pa.array(micros).view(pa.timestamp("us")), pa.string())
    if between == b" ":
        return text
    return pc.replace_substring(text, " ", between.decode(), max_replacements=1)
