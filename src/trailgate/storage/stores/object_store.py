"""What writing needs of an object store, which has neither renames nor files that grow; each kind is a class.

An object is there with all its bytes or not at all. Which of two writers wins is decided by ``put`` alone: it writes an object only
where the one that it replaces is the one that was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol

GONE: Final = "the upload is gone"  # another run has deleted it, or the store has


class UnmetError(Exception):
    """A condition of a request does not hold, or what it names is not there; the caller knows what that means."""


class Stored(NamedTuple):
    """The bytes of an object, and the tag that changes with them."""

    data: bytes
    tag: str


class Range(NamedTuple):
    """Bytes [begin, end) of an object."""

    key: str
    begin: int
    end: int


class Pending(NamedTuple):
    """An upload whose parts are all in the store, and which becomes an object when it is completed."""

    key: str
    upload: str
    tags: tuple[str, ...]


class Upload(Protocol):
    """An object while it is written; nobody sees it before it is finished, and never a part of it."""

    @property
    def file(self) -> IO[bytes]:
        """Return the file to write to."""

    def finish(self) -> None:
        """Make the object."""

    def leave(self) -> Pending:
        """Return what another process completes, or abandons."""

    def abort(self) -> None:
        """Remove what was written; nothing happens where it is finished or left."""


class ObjectStore(Protocol):
    """One bucket of a store. Values can be pickled; every method raises WriteError where the store refuses or is not reached."""

    def shown(self, key: str) -> str:
        """Return the address of an object as messages name it, without credentials."""

    def read(self, key: str) -> Stored | None:
        """Return an object; None where there is none."""

    def part(self, piece: Range) -> bytes:
        """Return some bytes of an object."""

    def put(self, key: str, data: bytes, over: str | None) -> str | None:
        """Write an object in place of the one with the tag ``over``, None: where there is none.

        Return the tag of the object where it has these bytes now; None where another writer's bytes are there.
        """

    def upload(self, key: str, path: Path) -> None:
        """Write a local file as an object, in place of any that is there; memory stays flat."""

    def compose(self, key: str, pieces: Sequence[bytes | Range]) -> None:
        """Write an object of bytes and of parts of other objects, in place of any that is there."""

    def begin(self, key: str, *, later: bool = False) -> Upload:
        """Begin an object that must not be there when it is finished; ``later``: it is left, not finished."""

    def complete(self, pending: Pending) -> None:
        """Make an object of an upload that was left; it may be completed already."""

    def listed(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the keys that begin with a prefix and follow ``after``, and their sizes, in the order of keys."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, which may be gone already."""

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete the parts of unfinished uploads of wanted keys that begin with a prefix."""
