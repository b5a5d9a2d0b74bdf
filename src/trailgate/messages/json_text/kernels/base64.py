"""Base64 text to bytes and back."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel

INVALID: Final = 0xFF
PADDING: Final = 0x3D


@kernel(writes=("ends", "out"))
def decode(data: Octets, offsets: Offsets, digits: Octets, ends: Offsets, out: Octets) -> int:
    """Write the bytes of each text, and Arrow's offsets of them; return the first row that is other text, -1 for none.

    Bits that no byte has must be zero, so that bytes have one text.
    """
    to = np.int64(0)
    ends[0] = 0
    for row in range(len(offsets) - 1):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if at < 0 or end > len(data) or (end - at) & 3 != 0:
            return row
        while at < end:
            padding = 0
            if at + 4 == end:
                padding = int(data[at + 3] == PADDING)
                if padding and data[at + 2] == PADDING:
                    padding = 2
            word = np.int64(0)
            for place in range(4 - padding):
                digit = np.int64(digits[data[at + place]])
                if digit == INVALID:
                    return row
                word |= digit << (18 - 6 * place)
            if (padding == 1 and word & 0xFF) or (padding == 2 and word & 0xFFFF):
                return row
            if to + 3 > len(out):
                return row
            for place in range(3 - padding):
                out[to] = np.uint8(word >> (16 - 8 * place) & 0xFF)
                to += 1
            at += 4
        ends[row + 1] = to
    return -1


@kernel(writes=("out",))
def encode(data: Octets, offsets: Offsets, letters: Octets, ends: Offsets, out: Octets) -> None:
    """Write the text of each row's bytes at its place by ``ends``."""
    for row in range(len(offsets) - 1):
        at, end, to = np.int64(offsets[row]), np.int64(offsets[row + 1]), np.int64(ends[row])
        while at < end:
            word = np.int64(data[at]) << 16
            if at + 1 < end:
                word |= np.int64(data[at + 1]) << 8
            if at + 2 < end:
                word |= np.int64(data[at + 2])
            for place in range(4):
                out[to + place] = letters[word >> (18 - 6 * place) & 63]
            if at + 1 >= end:
                out[to + 2] = PADDING
            if at + 2 >= end:
                out[to + 3] = PADDING
            at += 3
            to += 4
