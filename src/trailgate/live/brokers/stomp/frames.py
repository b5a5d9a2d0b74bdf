"""Encode and decode STOMP 1.2 frames, without I/O.

``FrameReader`` buffers received bytes and finds frames with a kernel. ``StompFrames`` stores their
offsets and decodes headers on request. ``encode_frame`` builds a frame to send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.errors import BrokerError, Where
from trailgate.live.brokers.stomp import kernels

ROOM: Final = 1 << 18  # bytes of the receive buffer at first
FRAMES: Final = 4096  # the most frames found by one call of the kernel
LINES: Final = 1 << 16  # the most header lines of all these frames
LENGTH_NAME: Final = np.frombuffer(b"content-length", np.uint8)

# STOMP 1.2, Value Encoding: these four are escaped. "Undefined escape sequences such as \t MUST be
# treated as a fatal protocol error", but then the broker would deliver the message again for ever.
# So only the message is bad: its text stays as it was sent, and the message has a fault.
ESCAPES: Final[Mapping[str, str]] = MappingProxyType(
    {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
)
_ESCAPING: Final = str.maketrans(dict(ESCAPES))
# The escapes of STOMP 1.2, and the characters that they mean.
_RESTORED: Final = {escape: text for text, escape in ESCAPES.items()}

# By the code that the kernel returns.
_PROBLEMS: Final = {
    kernels.NO_NAME: "a header line has no name or no colon",
    kernels.BAD_LENGTH: "content-length is not a valid number of bytes",
    kernels.NO_NUL: "no NUL follows the body of the stated length",
    kernels.TOO_LONG: f"a frame has more than {kernels.LONGEST_HEADERS} bytes of headers, or too long a body",
}


def encode_frame(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Encode a STOMP frame. Only the headers of CONNECT are not escaped."""
    plain = command == "CONNECT"
    lines = [
        f"{name}:{value}" if plain else f"{name.translate(_ESCAPING)}:{value.translate(_ESCAPING)}"
        for name, value in headers.items()
    ]
    return "\n".join([command, *lines, "", ""]).encode() + body + b"\0"


class HeaderText(NamedTuple):
    r"""The decoded name or value of a STOMP header. ``undefined`` is its first undefined escape, such as ``\z``, or ""."""

    text: str
    undefined: str = ""


def unescape(text: str) -> HeaderText:
    r"""Decode the escapes of a STOMP header's name or value: ``a\cb`` → ``a:b``. A text with an undefined escape stays as it is."""
    if "\\" not in text:
        return HeaderText(text)
    parts, at = [], 0
    while (slash := text.find("\\", at)) >= 0:
        escape = text[slash : slash + 2]
        if escape not in _RESTORED:
            return HeaderText(text, escape)
        parts += [text[at:slash], _RESTORED[escape]]
        at = slash + 2
    return HeaderText("".join([*parts, text[at:]]))


@dataclass(frozen=True, slots=True)
class StompFrames:
    """Complete STOMP frames, as offsets into ``data``.

    ``frames`` is a table with a column for each frame, ``lines`` one with a column for each header
    line; their rows, such as ``BODY``, are constants of ``kernels``. ``data`` is the reader's
    buffer, so it is valid only until the reader receives more.
    """

    data: Octets
    frames: Longs
    lines: Longs

    def __len__(self) -> int:
        return int(self.frames.shape[1])

    @property
    def kinds(self) -> Longs:
        """The type of each STOMP frame, such as ``kernels.MESSAGE``."""
        kinds: Longs = self.frames[kernels.KIND]
        return kinds

    def headers(self, frame: int) -> dict[str, str]:
        """Decode the headers of one STOMP frame.

        If a header is repeated, the first one is used (STOMP 1.2, Repeated Header Entries). Only
        the headers of CONNECTED are not escaped (Value Encoding).
        """
        decode = str if self.kinds[frame] == kernels.CONNECTED else lambda raw: unescape(raw).text
        decoded: dict[str, str] = {}
        first, end = self.frames[kernels.FIRST_LINE : kernels.END_LINE + 1, frame].tolist()
        for spans in self.lines[: kernels.ESCAPED, first:end].T.tolist():
            name, value = decode(self._raw(*spans[:2])), decode(self._raw(*spans[2:]))
            decoded.setdefault(name, value)
        return decoded

    def undefined_escape(self, frame: int, name: str) -> str:
        """Return the undefined escape in the value of a header of one STOMP frame, or ""."""
        first, end = self.frames[kernels.FIRST_LINE : kernels.END_LINE + 1, frame].tolist()
        values = (
            unescape(self._raw(*spans[2:]))
            for spans in self.lines[: kernels.ESCAPED, first:end].T.tolist()
            if self._raw(*spans[:2]) == name
        )
        return next(values, HeaderText("")).undefined

    def body(self, frame: int) -> bytes:
        """Return the body of one STOMP frame."""
        begin, end = self.frames[kernels.BODY :, frame].tolist()
        return self.data[begin:end].tobytes()

    def _raw(self, begin: int, end: int) -> str:
        return self.data[begin:end].tobytes().decode("utf-8", "backslashreplace")


class FrameReader:
    """Finds STOMP frames in a stream of bytes: write into ``room()``, call ``extend`` with the size, then ``take``."""

    def __init__(self) -> None:
        self._data = np.empty(ROOM, np.uint8)
        self._begin = self._end = 0
        self._frames = np.empty(kernels.FRAME * FRAMES, np.int64)
        self._lines = np.empty(kernels.LINE * LINES, np.int64)
        self._counts = np.zeros(kernels.COUNTS, np.int64)

    @property
    def waiting(self) -> int:
        """The number of STOMP bytes received and not yet taken as frames."""
        return self._end - self._begin

    def room(self) -> memoryview:
        """Return the buffer for the next bytes. Frames that were returned before become invalid."""
        if self._begin == self._end:
            self._begin = self._end = 0
        if len(self._data) - self._end < ROOM // 4:
            # Little room is left: move the unread bytes to the start, into a larger buffer if they
            # fill more than half of this one.
            size = self._end - self._begin
            data = self._data
            if size > len(data) // 2:
                data = np.empty(2 * len(data), np.uint8)
            data[:size] = self._data[self._begin : self._end].copy()
            self._data, self._begin, self._end = data, 0, size
        return self._data.data[self._end :]

    def extend(self, size: int) -> None:
        """Add ``size`` received bytes, which the caller has written into the buffer from ``room``."""
        self._end += size

    def take(self, limit: int = FRAMES) -> StompFrames:
        """Remove and return the complete STOMP frames, at most ``limit``.

        Raises BrokerError for invalid bytes.
        """
        tables = self._frames, self._lines, self._counts
        count = kernels.find_frames(self._data, self._begin, self._end, LENGTH_NAME, limit, *tables)
        if count < 0:
            raw = self._data[self._begin : min(self._end, self._begin + 64)].tobytes()
            problem = f"the broker sent bytes that are not STOMP 1.2: {_PROBLEMS[count]}"
            hint = "Is this the port of the broker's STOMP acceptor?"
            raise BrokerError(problem, where=Where(raw=raw), hint=hint)
        lines, self._begin = self._counts.tolist()
        return StompFrames(
            self._data,
            self._frames.reshape(kernels.FRAME, -1)[:, :count],
            self._lines.reshape(kernels.LINE, -1)[:, :lines],
        )


def error_text(frames: StompFrames, frame: int) -> str:
    """Return the text of a STOMP ERROR frame, from its header and its body."""
    known, body = frames.headers(frame), frames.body(frame).decode("utf-8", "replace").strip()
    text = known.get("message", "").strip()
    first = body.partition("\n")[0].strip()
    return text if not first or first in text else f"{text} {first}".strip()
