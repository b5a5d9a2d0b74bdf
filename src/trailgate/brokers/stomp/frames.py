"""Frames of STOMP 1.2, both directions: bytes in, places out, and frames to send. No socket is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.brokers.stomp import kernels
from trailgate.errors import BrokerError, Where

ROOM: Final = 1 << 18  # bytes that are received at once
FRAMES: Final = 4096  # frames that are found at once
LINES: Final = 1 << 16  # header lines of them, in all
LENGTH_NAME: Final = np.frombuffer(b"content-length", np.uint8)

# STOMP 1.2, Value Encoding: these four are escaped, and any other escape is a fatal error.
ESCAPES: Final[Mapping[str, str]] = MappingProxyType(
    {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
)
_ESCAPING: Final = str.maketrans(dict(ESCAPES))
_RESTORED: Final = {escape: text for text, escape in ESCAPES.items()}

_PROBLEMS: Final = {
    kernels.NO_NAME: "a header line has no name or no colon",
    kernels.BAD_LENGTH: "content-length is not a number of bytes that a message may have",
    kernels.NO_NUL: "no NUL follows the body whose length is stated",
    kernels.TOO_LONG: f"a frame has more than {kernels.LONGEST_HEADERS} bytes of headers, or too long a body",
}


def encode_frame(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return a frame; CONNECT alone has no escapes in its headers."""
    plain = command == "CONNECT"
    lines = [
        f"{name}:{value}" if plain else f"{name.translate(_ESCAPING)}:{value.translate(_ESCAPING)}"
        for name, value in headers.items()
    ]
    return "\n".join([command, *lines, "", ""]).encode() + body + b"\0"


def unescape(text: str) -> str:
    """Return a header's name or value as it was before it was escaped; raises BrokerError."""
    if "\\" not in text:
        return text
    parts, at = [], 0
    while (slash := text.find("\\", at)) >= 0:
        restored = _RESTORED.get(text[slash : slash + 2])
        if restored is None:
            raise BrokerError(f"the broker sent an escape that STOMP 1.2 does not have: {text!r}")
        parts += [text[at:slash], restored]
        at = slash + 2
    return "".join([*parts, text[at:]])


@dataclass(frozen=True, slots=True)
class Frames:
    """Whole frames: their kinds, and the places of bodies and header lines in ``data``.

    Frame i has the header lines ``first_lines[i]`` to ``first_lines[i + 1]``. The data are the reader's own: they change with what it
    receives next.
    """

    data: Octets
    kinds: Longs
    first_lines: Longs
    body_starts: Longs
    body_ends: Longs
    names: Longs
    name_ends: Longs
    values: Longs
    value_ends: Longs
    escaped: Octets

    def __len__(self) -> int:
        return len(self.kinds)

    def headers(self, frame: int) -> dict[str, str]:
        """Return the headers of one frame; of repeated ones the first counts (STOMP 1.2, Repeated Header Entries)."""
        found: dict[str, str] = {}
        for line in range(int(self.first_lines[frame]), int(self.first_lines[frame + 1])):
            name = self._text(self.names[line], self.name_ends[line])
            found.setdefault(name, self._text(self.values[line], self.value_ends[line]))
        return found

    def body(self, frame: int) -> bytes:
        """Return the body of one frame."""
        return self.data[self.body_starts[frame] : self.body_ends[frame]].tobytes()

    def _text(self, begin: np.int64, end: np.int64) -> str:
        return unescape(self.data[begin:end].tobytes().decode("utf-8", "backslashreplace"))


class FrameReader:
    """Finds frames in what is received: fill ``room()``, say how much with ``received``, then ``take``."""

    def __init__(self) -> None:
        self._data = np.empty(ROOM, np.uint8)
        self._begin = self._end = 0
        self._frames = [np.empty(FRAMES, np.int64) for _ in range(4)]
        self._lines = [np.empty(LINES, np.int64) for _ in range(4)]
        self._escaped = np.empty(LINES, np.uint8)
        self._counts = np.zeros(2, np.int64)

    @property
    def waiting(self) -> int:
        """Return how many bytes were received and not taken."""
        return self._end - self._begin

    def room(self) -> memoryview:
        """Return where the next bytes are to be put; frames that were taken lose their data."""
        if self._begin == self._end:
            self._begin = self._end = 0
        if len(self._data) - self._end < ROOM // 4:
            size = self._end - self._begin
            data = self._data
            if size > len(data) // 2:
                data = np.empty(2 * len(data), np.uint8)
            data[:size] = self._data[self._begin : self._end].copy()
            self._data, self._begin, self._end = data, 0, size
        return self._data.data[self._end :]

    def received(self, size: int) -> None:
        """Add bytes that were put into the room."""
        self._end += size

    def take(self, limit: int = FRAMES) -> Frames:
        """Return the whole frames that are there, so many at most; raises BrokerError for bytes that are not frames."""
        kinds, first_lines, starts, ends = (array[:limit] for array in self._frames)
        names, name_ends, values, value_ends = self._lines
        found = kernels.find_frames(
            self._data,
            self._begin,
            self._end,
            LENGTH_NAME,
            kinds,
            first_lines,
            starts,
            ends,
            names,
            name_ends,
            values,
            value_ends,
            self._escaped,
            self._counts,
        )
        if found < 0:
            raw = self._data[self._begin : min(self._end, self._begin + 64)].tobytes()
            problem = f"what the broker sent is not STOMP 1.2: {_PROBLEMS[found]}"
            hint = "Is this the port of the broker's STOMP acceptor?"
            raise BrokerError(problem, where=Where(raw=raw), hint=hint)
        lines = int(self._counts[kernels.LINES])
        self._begin = int(self._counts[kernels.PLACE])
        return Frames(
            self._data,
            kinds[:found],
            np.append(first_lines[:found], lines),
            starts[:found],
            ends[:found],
            names[:lines],
            name_ends[:lines],
            values[:lines],
            value_ends[:lines],
            self._escaped[:lines],
        )
