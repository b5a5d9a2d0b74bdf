"""The bodies of messages that are written one after the other into one buffer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets


def bodies_of(data: Octets, bounds: Longs) -> pa.LargeBinaryArray:
    """Return the bodies data[bounds[i]:bounds[i + 1]], not copied."""
    offsets = pa.py_buffer(np.ascontiguousarray(bounds, np.int64))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)]
    )
