"""The array types that every room uses, each named once, and how many bytes are turned into arrays at once."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Octets: TypeAlias = npt.NDArray[
    np.uint8
]  # bytes of a buffer, or a matrix of them with one row a value
Longs: TypeAlias = npt.NDArray[np.int64]  # offsets, lengths, row numbers
Offsets: TypeAlias = npt.NDArray[
    np.int32
]  # of an Arrow array: where each value starts, and the end
Mask: TypeAlias = npt.NDArray[np.bool_]  # which rows
Words: TypeAlias = npt.NDArray[np.uint64]  # eight bytes each, unsigned
Structs: TypeAlias = npt.NDArray[np.void]  # fixed layouts, one a row

# Bytes of a file that are worked on at once, about 16 k records: the arrays of their places stay in cache, memory stays flat.
CHUNK: Final = 4 << 20
