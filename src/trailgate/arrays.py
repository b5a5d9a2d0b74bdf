"""Types of numpy arrays for annotations, lookup tables indexed by a byte, and memory for arrays.

``CHUNK`` is the size of the chunks in which files are processed. Importing
this module makes malloc reuse the memory of freed arrays (``keep_freed_memory``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

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

BIG_ENDIAN: Final = ">"
LITTLE_ENDIAN: Final = "<"

# The largest array that glibc's malloc may keep for reuse after it is freed (DEFAULT_MMAP_THRESHOLD_MAX),
# less some pages for malloc's own header.
MOST_KEPT: Final = (32 << 20) - (16 << 10)


def byte_table(values: Mapping[int, int], default: int = 0) -> Octets:
    """Build a read-only lookup table of 256 elements, indexed by a byte: the byte's value, or `default` if it has none.

    Example: with `table = byte_table({0x41: 7})`, `table[data]` is 7 where `data` has an "A", and 0
    elsewhere.
    """
    table = np.full(256, default, np.uint8)
    table[list(values)] = list(values.values())
    table.setflags(write=False)
    return table


def byte_mask(codes: Iterable[int]) -> Mask:
    """Build a read-only lookup table of 256 booleans, indexed by a byte: whether the byte is one of `codes`."""
    mask: Mask = byte_table(dict.fromkeys(codes, 1)).view(bool)
    return mask


def octets(data: Any) -> Octets:
    """Return the bytes of a buffer as a flat uint8 array that shares them."""
    if isinstance(data, np.ndarray):
        return data
    return np.frombuffer(data, np.uint8)


def keep_freed_memory() -> None:
    """Make malloc keep the memory of freed numpy arrays and reuse it for later arrays (decision 0155).

    glibc requests each array of 128 KB or more from the system, and returns it when it is freed.
    The next batch gets the same memory again page by page, and each page costs more time than
    parsing the bytes in it. glibc raises this limit to the size of the largest array that was
    freed, up to 32 MB. So one array of that size is allocated and freed, without ever being
    written.
    """
    np.empty(MOST_KEPT, np.uint8)


keep_freed_memory()
