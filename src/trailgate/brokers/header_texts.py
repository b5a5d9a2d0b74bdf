"""Texts of headers, whether or not a broker wrote them in UTF-8."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError

BAD_HEADER: Final = "a header of the message is not UTF-8"


def header_texts(data: Octets, starts: Longs, ends: Longs) -> tuple[pa.Array, Mask]:
    """Return texts of headers, and which of them are not UTF-8: those are shown with escapes."""
    try:
        return gather(data, starts, ends, text=True), np.zeros(len(starts), bool)
    except DecodeError:
        raw = gather(data, starts, ends).to_pylist()
    known = [joined_surrogates(value) for value in raw]
    shown = [
        value.decode("utf-8", "backslashreplace") if text is None else text.decode()
        for value, text in zip(raw, known, strict=True)
    ]
    return pa.array(shown, pa.string()), np.asarray([text is None for text in known])


def joined_surrogates(raw: bytes) -> bytes | None:
    """Return UTF-8 of UTF-8 or of CESU-8, in which some brokers write characters beyond the 16-bit ones; None for other bytes."""
    try:
        return (
            raw.decode("utf-8", "surrogatepass")
            .encode("utf-16", "surrogatepass")
            .decode("utf-16")
            .encode()
        )
    except UnicodeError:
        return None
