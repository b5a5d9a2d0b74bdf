"""Types of numpy arrays for annotations, lookup tables indexed by a byte, views of bytes, row numbers as slices, and memory for arrays.

``sliding_words(data, "u4")[offsets]`` reads the 32-bit words that begin at these offsets through a view with
overlapping items, without a copy. ``CHUNK`` is the size of the chunks in which files are processed. Importing
this module makes malloc reuse the memory of freed arrays (``keep_freed_memory``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

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
    """Build a read-only mask with one element for each of the 256 bytes: whether it is one of `codes`."""
    mask: Mask = byte_table(dict.fromkeys(codes, 1)).view(bool)
    return mask


def flat_rows(matrix: Octets) -> tuple[Octets, int]:
    """View a byte matrix as a flat array, from its first to its last byte. Return it and the distance between two rows.

    Nothing is copied unless the matrix has gaps between the bytes of a row.
    """
    rows, size = matrix.shape
    if not rows:
        return np.zeros(0, np.uint8), size
    # The bytes of a row must be adjacent, and rows must follow each other. Gaps between rows are
    # allowed: ``step`` includes them.
    if matrix.strides[1] != 1 or matrix.strides[0] < 1:
        matrix = np.ascontiguousarray(matrix)
    step = matrix.strides[0]
    return as_strided(matrix, ((rows - 1) * step + size,), (1,)), step


def octets(data: Any) -> Octets:
    """Return the bytes of a buffer as a flat uint8 array that shares them."""
    if isinstance(data, np.ndarray):
        return data
    return np.frombuffer(data, np.uint8)


def sliding_words(data: Octets, kind: str, order: str = BIG_ENDIAN) -> npt.NDArray[Any]:
    """View an array of bytes as the integer words at all byte offsets, as far as a complete word fits.

    ``kind`` is a numpy type and its width in bytes, such as "u2", "u4" or "i8". For bytes 01 02 03,
    "u2" returns 0x0102 and 0x0203. Data shorter than one word result in an empty view. ``data``
    must be contiguous.
    """
    dtype = np.dtype(order + kind)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data if count else b"", strides=(1,))


def sliding_windows(data: Octets, width: int) -> npt.NDArray[np.void]:
    """View an array of bytes as the ``width`` bytes at every offset, each as one opaque element."""
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), f"V{width}", data if count else b"", strides=(1,))


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


def as_slice(rows: Longs) -> Longs | slice:
    """Convert the row numbers 0, 1, ... n-1 to a slice, so that selecting the rows copies nothing.

    Other row numbers are returned unchanged. The numbers must ascend, without repeating one.
    """
    return slice(len(rows)) if len(rows) and rows[-1] == len(rows) - 1 else rows
