"""The headers of a window's messages as one Arrow array of maps, put together from columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.gather import take_text


class HeaderLines(NamedTuple):
    """Headers, each with the number of its message, its name and its value: texts, coded by a dictionary or not."""

    messages: Longs
    names: Any
    values: Any


def repeated(name: str, messages: Longs, values: Any) -> HeaderLines:
    """Return one header of some messages; ``values`` are theirs, or a text that all of them have."""
    if isinstance(values, str):
        values = pa.repeat(values, len(messages))
    return HeaderLines(messages, pa.repeat(name, len(messages)), values)


def header_maps(lines: Sequence[HeaderLines], count: int) -> pa.MapArray:
    """Return the map of each of ``count`` messages, with its headers in the order of ``lines``."""
    messages = np.concatenate([part.messages for part in lines])
    order = np.argsort(messages, kind="stable")
    names = take_text(pa.concat_arrays([part.names.cast(pa.string()) for part in lines]), order)
    values = take_text(pa.concat_arrays([part.values.cast(pa.string()) for part in lines]), order)
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(messages, minlength=count), out=bounds[1:])
    return pa.MapArray.from_arrays(pa.array(bounds), names, values)


def last_of_each(lines: Sequence[HeaderLines]) -> HeaderLines:
    """Return all lines, of a header that a message has repeatedly the last one."""
    messages = np.concatenate([part.messages for part in lines])
    names = pa.concat_arrays([part.names.cast(pa.string()) for part in lines])
    values = pa.concat_arrays([part.values.cast(pa.string()) for part in lines])
    coded = names.dictionary_encode()
    pairs = messages * len(coded.dictionary) + np.asarray(coded.indices)
    _, last = np.unique(pairs[::-1], return_index=True)
    kept = np.sort(len(pairs) - 1 - last)
    return HeaderLines(messages[kept], take_text(names, kept), take_text(values, kept))
