"""Headers of messages in columns: their texts, and the map that Arrow has of them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather, take_text
from trailgate.errors import DecodeError

BAD_HEADER: Final = "a header of the message is not UTF-8"


class Headers(NamedTuple):
    """Some headers: the message of each, ascending where a message may have several, its name and its value."""

    message: Longs
    names: pa.StringArray
    values: pa.StringArray


def named(message: Longs, name: str, values: pa.Array) -> Headers:
    """Return headers of one name."""
    return Headers(message, pa.repeat(name, len(message)), values.cast(pa.string()))


def header_map(parts: list[Headers], count: int) -> pa.MapArray:
    """Return the map of each of so many messages."""
    message = np.concatenate([part.message for part in parts])
    order = np.argsort(message, kind="stable")
    names = take_text(pa.concat_arrays([part.names for part in parts]), order)
    values = take_text(pa.concat_arrays([part.values for part in parts]), order)
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(message, minlength=count), out=bounds[1:])
    return pa.MapArray.from_arrays(pa.array(bounds), names, values)


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
