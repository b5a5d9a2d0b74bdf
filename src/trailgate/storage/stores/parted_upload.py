"""One object while it is written: in one request if it is small, else in parts, however its store takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

from trailgate.errors import StorageError, WriteError
from trailgate.storage.stores.object_store import GONE, Pending, Range, UnmetError

PART: Final = 8 << 20
LONGER: Final = 1000  # parts of one size; then they double, since S3 takes 10,000 at most


class Parts(Protocol):
    """How a store takes an object in parts; what does not hold is raised as UnmetError."""

    @property
    def count(self) -> int:
        """Return how many parts were sent."""

    def whole(self, data: bytes) -> None:
        """Make the object of bytes in one request."""

    def send(self, data: bytes) -> None:
        """Send the next part."""

    def complete(self) -> None:
        """Make the object of its parts."""

    def left(self) -> Pending:
        """Return what completes it."""

    def discard(self) -> None:
        """Delete what was sent, if there is any and the store does not do it itself."""

    def error(self, problem: str) -> WriteError:
        """Return an error about the object."""


class PartedUpload(RawIOBase):
    """A file to write to; the object is made by ``finish`` alone. ``fresh``: an object that is there is not replaced."""

    def __init__(self, parts: Parts, *, fresh: bool) -> None:
        self._parts, self._fresh = parts, fresh
        self._buffer, self._size = bytearray(), 0
        self._done = False

    @property
    def file(self) -> IO[bytes]:
        """Return the file to write to."""
        return cast("IO[bytes]", self)

    @property
    def held(self) -> int:
        """Return how many bytes are not sent yet."""
        return len(self._buffer)

    def writable(self) -> bool:
        """Return that bytes can be written."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size

    def write(self, data: Any) -> int:
        """Take bytes, and send a part when there are enough of them."""
        view = memoryview(data).cast("B")
        self._buffer += view
        self._size += len(view)
        while len(self._buffer) >= self._part():
            self._send(self._part())
        return len(view)

    def _send(self, size: int) -> None:
        """Send the first bytes that are held as a part; raises StorageError where the upload is gone."""
        try:
            self._parts.send(bytes(self._buffer[:size]))
        except UnmetError:
            raise self._parts.error(GONE) from None
        del self._buffer[:size]

    def _part(self) -> int:
        return PART << (self._parts.count // LONGER)

    def send_held(self) -> None:
        """Send what is held, however little, as a part."""
        if self._buffer:
            self._send(len(self._buffer))

    def finish(self) -> None:
        """Make the object; raises StorageError where one is there that is not replaced."""
        try:
            self.make()
        except UnmetError:
            problem = "the file is there already" if self._fresh else GONE
            raise StorageError(problem, where=self._parts.error(problem).where) from None

    def make(self) -> None:
        """Make the object; raises UnmetError."""
        if self._parts.count:
            self.send_held()
            self._parts.complete()
        else:
            self._parts.whole(bytes(self._buffer))
        self._done = True

    def leave(self) -> Pending:
        """Send what is held, and return what another process completes."""
        if self._buffer or not self._parts.count:
            self._send(len(self._buffer))
        self._done = True
        return self._parts.left()

    def abort(self) -> None:
        """Remove the parts of an upload that is neither finished nor left."""
        if not self._done:
            self._done = True
            self._parts.discard()


def upload_file(parts: Parts, path: Path) -> None:
    """Make an object of a local file, in place of any that is there."""
    made = PartedUpload(parts, fresh=False)
    try:
        with path.open("rb") as file:
            while data := file.read(PART):
                made.write(data)
        made.finish()
    finally:
        made.abort()


def compose_by_reading(
    parts: Parts, pieces: Sequence[bytes | Range], read: Callable[[Range], bytes]
) -> None:
    """Make an object of bytes and of parts of others, in place of any that is there; each part is read and sent."""
    made = PartedUpload(parts, fresh=False)
    try:
        for piece in pieces:
            if isinstance(piece, bytes):
                made.write(piece)
                continue
            for at in range(piece.begin, piece.end, PART):
                made.write(read(Range(piece.key, at, min(at + PART, piece.end))))
        made.finish()
    finally:
        made.abort()
