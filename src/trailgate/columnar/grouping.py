"""Rows grouped by a key, each group's rows in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.columnar.kernels import grouping as kernels

FEW: Final = 64  # keys up to which comparing with each is faster than sorting


def grouped(keys: Longs) -> Iterator[tuple[int, Longs]]:
    """Yield each key and its rows, by ascending key."""
    codes = np.empty(len(keys), np.int64)
    known, sizes = np.empty(FEW, np.int64), np.empty(FEW, np.int64)
    count = kernels.code_keys(keys, codes, known, sizes)
    if count == kernels.FULL:
        known, codes, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        count = len(known)
    ends = np.cumsum(sizes[:count])
    rows = np.empty(len(keys), np.int64)
    kernels.order_rows(codes, ends - sizes[:count], rows)
    for code in np.argsort(known[:count]).tolist():
        yield int(known[code]), rows[ends[code] - sizes[code] : ends[code]]
