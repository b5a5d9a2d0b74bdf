"""Where the records of fixed-width messages lie: lines, equal lengths, or whole messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs
from trailgate.columnar.delimited import find_all
from trailgate.errors import OptionError
from trailgate.messages.fixed_width.cells import Cells
from trailgate.messages.properties.reader import PropertyReader

_LINE_FEED: Final = b"\n"
_RETURN: Final = 0x0D
_MOST_LENGTH: Final = 1 << 31  # beyond what a batch of messages has


class Cut(Enum):
    """How a message's records are told apart."""

    LINE = "line"
    LENGTH = "length"
    MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Cutting:
    """How messages are cut into records; without a delimiter, lines end as on Windows or not."""

    cut: Cut = Cut.LINE
    delimiter: bytes | None = None
    length: int = 0


def read_cutting(read: PropertyReader) -> Cutting:
    """Return what the properties say; raises OptionError where they contradict each other."""
    length = 0
    entry = read.entry("recordlength")
    if entry is not None:
        length = read.parsed(entry, _length)
    given = read.text("records").casefold()
    cut = Cut(given) if given else Cut.LENGTH if length else Cut.LINE
    if (cut is Cut.LENGTH) != bool(length):
        problem = "fixed.recordlength goes with fixed.records=length, and with it alone"
        raise read.error(problem, "records")
    delimiter = read.token("linedelim")
    if delimiter is not None and cut is not Cut.LINE:
        raise read.error("fixed.linedelim goes with fixed.records=line alone", "linedelim")
    return Cutting(cut, delimiter, length)


def _length(value: str) -> int:
    if not value.isascii() or not value.isdecimal() or not 0 < int(value) < _MOST_LENGTH:
        raise OptionError(f"expected a length, found {value!r}")
    return int(value)


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
