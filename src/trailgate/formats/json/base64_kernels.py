"""Compiled loops that decode and encode columns of base64 text, for `base64_text.py`."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Octets, Offsets
from trailgate.columnar.compiling import kernel

INVALID: Final = 0xFF
PADDING: Final = 0x3D


@kernel(writes=("ends", "out"))
def decode_base64(
    data: Octets, offsets: Offsets, digits: Octets, ends: Offsets, out: Octets
) -> int:
    """Decode a column of base64 strings into `out`, with Arrow's offsets in `ends`.

    Return the first row that is not base64, or -1.

    Four characters of 6 bits make three bytes: "AQID" is 0, 16, 8, 3, or the bytes 01 02 03. "AQI="
    has two bytes: then the 8 unused bits of the 24 must be zero, so that no two strings decode to
    the same bytes.
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
            # With one "=" the last 8 of the 24 bits are unused, with two the last 16.
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
def encode_base64(
    data: Octets, offsets: Offsets, letters: Octets, ends: Offsets, out: Octets
) -> None:
    """Encode the bytes of a column as base64. The text of row i is written to `out` from `ends[i]` on."""
    for row in range(len(offsets) - 1):
        at, end, to = np.int64(offsets[row]), np.int64(offsets[row + 1]), np.int64(ends[row])
        # Three bytes are four letters of six bits. Example: 4D 61 6E, 010011 010110 000101 101110 in
        # bits, is TWFu. Missing bytes count as zeros, and padding replaces their letters: 4D is TQ==.
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
