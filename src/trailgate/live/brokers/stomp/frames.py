"""Frames of STOMP 1.2, both directions: bytes in, places out, and frames to send. No socket is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.errors import BrokerError, Where
from trailgate.live.brokers.stomp import kernels

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
    """Whole frames: the places of their bodies and header lines in ``data``, by the rows of the tables of ``kernels``.

    The data are the reader's own: they change with what it receives next.
    """

    data: Octets
    frames: Longs
    lines: Longs

    def __len__(self) -> int:
        return int(self.frames.shape[1])

    @property
    def kinds(self) -> Longs:
        """Return what each frame is."""
        kinds: Longs = self.frames[kernels.KIND]
        return kinds

    def headers(self, frame: int) -> dict[str, str]:
        """Return the headers of one frame; of repeated ones the first counts (STOMP 1.2, Repeated Header Entries)."""
        found: dict[str, str] = {}
        first, end = self.frames[kernels.FIRST_LINE : kernels.END_LINE + 1, frame].tolist()
        for places in self.lines[: kernels.ESCAPED, first:end].T.tolist():
            name, value = self._text(*places[:2]), self._text(*places[2:])
            found.setdefault(name, value)
        return found

    def body(self, frame: int) -> bytes:
        """Return the body of one frame."""
        begin, end = self.frames[kernels.BODY :, frame].tolist()
        return self.data[begin:end].tobytes()

    def _text(self, begin: int, end: int) -> str:
        return unescape(self.data[begin:end].tobytes().decode("utf-8", "backslashreplace"))


class FrameReader:
    """Finds frames in what is received: fill ``room()``, say how much with ``received``, then ``take``."""

    def __init__(self) -> None:
        self._data = np.empty(ROOM, np.uint8)
        self._begin = self._end = 0
        self._frames = np.empty(kernels.FRAME * FRAMES, np.int64)
        self._lines = np.empty(kernels.LINE * LINES, np.int64)
        self._counts = np.zeros(kernels.COUNTS, np.int64)

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

    def extend(self, size: int) -> None:
        """Add bytes that were put into the room."""
        self._end += size

    def take(self, limit: int = FRAMES) -> Frames:
        """Return the whole frames that are there, so many at most; raises BrokerError for bytes that are not frames."""
        tables = self._frames, self._lines, self._counts
        found = kernels.find_frames(self._data, self._begin, self._end, LENGTH_NAME, limit, *tables)
        if found < 0:
            raw = self._data[self._begin : min(self._end, self._begin + 64)].tobytes()
            problem = f"what the broker sent is not STOMP 1.2: {_PROBLEMS[found]}"
            hint = "Is this the port of the broker's STOMP acceptor?"
            raise BrokerError(problem, where=Where(raw=raw), hint=hint)
        lines, self._begin = self._counts.tolist()
        return Frames(
            self._data,
            self._frames.reshape(kernels.FRAME, -1)[:, :found],
            self._lines.reshape(kernels.LINE, -1)[:, :lines],
        )
