"""Compiled loops that copy the bytes of an item from many records, and find padding.

``record_bytes.py`` calls them for a ``RecordBytes``. Each fills an array of the caller, and returns how many records, runs or bytes it has
handled.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.word_kernels import load8, store2, store4, store8

_WORD: Final = 8  # bytes
_BYTE: Final = np.uint64(0xFF)
_TWO_BYTES, _FOUR_BYTES = np.uint64(16), np.uint64(32)  # in bits


@kernel(writes=("padded",))
def find_padding_runs(data: Octets, starts: Longs, ends: Longs, pads: Mask, padded: Mask) -> int:
    """Mark the runs ``data[start:end]`` that consist only of ``pads`` bytes.

    Returns the number of such runs.

    For example, if blanks are pads, ``" "`` and an empty run are marked, and ``" x"`` is not.
    """
    count = 0
    for row in range(len(starts)):
        offset = starts[row]
        while offset < ends[row] and pads[data[offset]]:
            offset += 1
        padded[row] = offset >= ends[row]
        count += padded[row]
    return count


@kernel(writes=("target",))
def copy_present(
    data: Octets, starts: Longs, ends: Longs, rows: Longs, size: int, target: Octets
) -> int:
    """Copy the bytes of an item that each record contains, ``data[starts[i]:ends[i]]``, to the start of the record's row of ``size`` bytes.

    For example, ``AB`` copied to the row ``....`` gives ``AB..``. If a start is after its end,
    nothing is copied. Returns the number of copied bytes.
    """
    copied = 0
    for number in range(len(rows)):
        at = rows[number] * size
        for index in range(min(size, ends[number] - starts[number])):
            target[at + index] = data[starts[number] + index]
            copied += 1
    return copied


@kernel(writes=("out",))
def copy_columns(
    data: Octets, begin: int, step: int, offsets: Longs, size: int, out: Octets
) -> int:
    """Copy items of one size from evenly spaced records in words of eight bytes. Returns the number of records.

    Record i starts at ``begin + i * step``. ``out`` gets the items at the first offset of all
    records, then those at the second offset, and so on. Items of eight bytes or more are copied in
    words of eight bytes; the last word may overlap the word before it. A shorter item is loaded as
    one word and stored in parts: an item of 7 bytes in parts of 4, 2 and 1 bytes.
    """
    columns = len(offsets)
    rows = len(out) // (size * columns)
    for row in range(rows):
        for column in range(columns):
            at, to = begin + row * step + offsets[column], (column * rows + row) * size
            # A word load would read beyond the buffer: copy single bytes.
            if at + max(size, _WORD) > len(data):
                for byte in range(size):
                    out[to + byte] = data[at + byte]
            elif size < _WORD:
                word = load8(data, at)
                if size & 4:
                    store4(out, to, word)
                    word, to = word >> _FOUR_BYTES, to + 4
                if size & 2:
                    store2(out, to, word)
                    word, to = word >> _TWO_BYTES, to + 2
                if size & 1:
                    out[to] = np.uint8(word & _BYTE)
            else:
                # Copy whole words, then the last eight bytes, which may overlap the previous word.
                for done in range(0, size - _WORD, _WORD):
                    store8(out, to + done, load8(data, at + done))
                store8(out, to + size - _WORD, load8(data, at + size - _WORD))
    return rows
