"""The numpy array types used in annotations, and the chunk size in which files are processed."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

# The bytes of a buffer, or a matrix of bytes with one row per value.
Octets: TypeAlias = npt.NDArray[np.uint8]
# Offsets, lengths and row numbers.
Longs: TypeAlias = npt.NDArray[np.int64]
# The offsets buffer of an Arrow array: the start of each value, then the end of the last one.
Offsets: TypeAlias = npt.NDArray[np.int32]
# Selects rows: one boolean per row.
Mask: TypeAlias = npt.NDArray[np.bool_]
# Eight bytes each, as an unsigned number.
Words: TypeAlias = npt.NDArray[np.uint64]
# A structured dtype with one element per record.
Structs: TypeAlias = npt.NDArray[np.void]

# Files are processed in chunks of this many bytes, about 16,000 records. It is small enough for the
# arrays of record offsets to stay in the CPU cache, and memory use does not grow with the file.
CHUNK: Final = 4 << 20
