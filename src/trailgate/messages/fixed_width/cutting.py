"""Where the records of fixed-width messages lie: lines, equal lengths, or whole messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trailgate.columnar.tokens import find_all
from trailgate.messages.fixed_width.cells import Cells
from trailgate.messages.fixed_width.options import Cut, Cutting

Longs = npt.NDArray[np.int64]
_LINE_FEED: Final = b"\n"
_RETURN: Final = 0x0D


class Places(NamedTuple):
    """Where records lie, in cells, and the message each is of."""

    message: Longs
    starts: Longs
    ends: Longs


def cut_records(cells: Cells, cutting: Cutting) -> Places:
    """Return the records of the messages; an empty body has none, a last delimiter opens none."""
    return _CUTTERS[cutting.cut](cells, cutting)


def _messages(cells: Cells, _: Cutting) -> Places:
    messages = cells.messages
    full = np.flatnonzero(messages.ends > messages.starts)
    starts, ends = messages.starts[full], messages.ends[full]
    return Places(full, cells.of_bytes(starts), cells.of_bytes(ends))


def _lengths(cells: Cells, cutting: Cutting) -> Places:
    message, starts, ends = _messages(cells, cutting)
    counts = -((starts - ends) // cutting.length)
    owner = np.repeat(np.arange(len(starts)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = starts[owner] + number * cutting.length
    return Places(message[owner], begins, np.minimum(begins + cutting.length, ends[owner]))


def _lines(cells: Cells, cutting: Cutting) -> Places:
    messages, mark = cells.messages, cutting.delimiter or _LINE_FEED
    at = find_all(cells.data, mark)
    owner = np.searchsorted(messages.starts, at, side="right") - 1
    inside = (owner >= 0) & (at + len(mark) <= messages.ends[owner])
    at, owner = at[inside], owner[inside]
    behind = at + len(mark)
    full = messages.starts[messages.ends > messages.starts]
    starts = np.sort(np.concatenate([full, behind[behind < messages.ends[owner]]]))
    message = np.searchsorted(messages.starts, starts, side="right") - 1
    stop = np.append(at, np.iinfo(np.int64).max)[np.searchsorted(at, starts)]
    ends = np.minimum(stop, messages.ends[message])
    if cutting.delimiter is None and len(ends):
        ends = ends - ((ends > starts) & (cells.data[ends - 1] == _RETURN))
    return Places(message, cells.of_bytes(starts), cells.of_bytes(ends))


_CUTTERS: Final[Mapping[Cut, Callable[[Cells, Cutting], Places]]] = MappingProxyType(
    {Cut.LINE: _lines, Cut.LENGTH: _lengths, Cut.MESSAGE: _messages}
)
