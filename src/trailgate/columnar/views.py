"""Words at any byte offset of a buffer, through overlapping views; nothing is copied.

``words(data, "u4")[offsets]`` reads the big-endian 32-bit words that begin at those offsets.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Octets

BIG_ENDIAN: Final = ">"
LITTLE_ENDIAN: Final = "<"


def octets(data: Any) -> Octets:
    """Return the bytes of anything with a buffer as a flat array that shares them."""
    if isinstance(data, np.ndarray):
        return data
    return np.frombuffer(data, np.uint8)


def words(data: Octets, kind: str, order: str = BIG_ENDIAN) -> npt.NDArray[Any]:
    """Return one word for every byte offset at which a whole word lies.

    ``kind`` is a numpy kind and width in bytes ("u2", "u4", "i8", ...). Data shorter than one
    word give an empty view. ``data`` must be contiguous.
    """
    dtype = np.dtype(order + kind)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data if count else b"", strides=(1,))


def windows(data: Octets, width: int) -> npt.NDArray[np.void]:
    """Return the ``width`` bytes at every offset, as one opaque item each."""
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), f"V{width}", data if count else b"", strides=(1,))


def rows_at(data: Octets, starts: npt.NDArray[np.int64], width: int) -> Octets:
    """Return a matrix with the ``width`` bytes at each start; a fresh copy, one row a start."""
    if not len(starts) or not width:
        return np.zeros((len(starts), width), np.uint8)
    return windows(data, width)[starts].view(np.uint8).reshape(len(starts), width)
