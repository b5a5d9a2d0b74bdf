"""What writing needs of an object store, which has neither renames nor files that grow; each kind of store is a class.

An object is there with all its bytes or not at all, and which of two writers wins is decided by ``put`` alone: it writes an object only
where the one that it replaces is the one that was read. ``ObjectStore`` is what others use.

A kind of store states how it sends one request, and how it takes an object in parts (``Parts``): all else that writes an object is made
of these here. ``BucketStore`` adds what is the same where objects are asked for over HTTP: reads, and how the failure of a request becomes our error.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, Final, Generic, NamedTuple, TypeVar, cast

from trailgate.errors import MissingDependencyError, StorageError, Where, WriteError

NO_OBJECT: Final = "the object is gone"
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


Store = TypeVar("Store", bound="ObjectStore")

PART: Final = 8 << 20
LONGER: Final = 1000  # parts of one size; then they double, since S3 takes 10,000 at most
COPIED: Final = 1 << 30  # bytes that a store copies in a request; S3 takes 5 GiB, Azure 4,000 MiB
NEVER: Final = sys.maxsize  # the least size of a part where a store copies none


class Parts(ABC, Generic[Store]):
    """How a store takes an object in parts; what does not hold is raised as UnmetError. ``fresh``: no object is replaced."""

    def __init__(self, store: Store, key: str, *, fresh: bool) -> None:
        self._store, self._key, self._fresh = store, key, fresh
        self._upload, self._tags = "", list[str]()

    @abstractmethod
    def whole(self, data: bytes) -> None:
        """Make the object of bytes in one request."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send the next part."""

    @abstractmethod
    def complete(self) -> None:
        """Make the object of its parts."""

    @property
    def least(self) -> int:
        """Return how many bytes a part has at least that the store itself copies."""
        return NEVER

    def copy(self, source: str, begin: int, end: int) -> None:
        """Have the store copy bytes [begin, end) of another object as the next part."""
        raise NotImplementedError

    def left(self) -> Pending:
        """Return what completes it."""
        return Pending(self._key, self._upload, tuple(self._tags))

    def discard(self) -> None:
        """Delete what was sent, if there is any; nothing happens where the store does that itself."""

    def error(self, problem: str, key: str = "") -> WriteError:
        """Return an error about the object, or another one."""
        return self._store.error(problem, key or self._key)


class PartedUpload(RawIOBase):
    """A file to write to; the object is made by ``finish`` alone. ``fresh``: an object that is there is not replaced."""

    def __init__(self, parts: Parts[Any], *, fresh: bool) -> None:
        self._parts, self._fresh = parts, fresh
        self._buffer, self._size, self._count = bytearray(), 0, 0
        self._done = False

    @property
    def file(self) -> IO[bytes]:
        """Return the file to write to."""
        return cast("IO[bytes]", self)

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
        self._count += 1
        del self._buffer[:size]

    def _part(self) -> int:
        return PART << (self._count // LONGER)

    def add(self, piece: Range, read: Callable[[Range], bytes]) -> None:
        """Take bytes of another object, which the store copies; those too few for a part are read."""
        key, at, end = piece
        least = self._parts.least
        while at < end:
            held = len(self._buffer)
            filled = max(0, least - held) if held else 0  # what is held becomes a part first
            left = end - at - filled
            if filled or left < least:
                stop = min(end, at + (min(least, PART) if left < least else filled))
                self.write(read(Range(key, at, stop)))
            else:
                stop = end if left <= COPIED + least else at + COPIED
                self._send_held()
                try:
                    self._parts.copy(key, at, stop)
                except UnmetError:
                    raise self._parts.error(NO_OBJECT, key) from None
                self._count += 1
            at = stop

    def _send_held(self) -> None:
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
        if self._count:
            self._send_held()
            self._parts.complete()
        else:
            self._parts.whole(bytes(self._buffer))
        self._done = True

    def leave(self) -> Pending:
        """Send what is held, and return what another process completes."""
        if self._buffer or not self._count:
            self._send(len(self._buffer))
        self._done = True
        return self._parts.left()

    def abort(self) -> None:
        """Remove the parts of an upload that is neither finished nor left."""
        if not self._done:
            self._done = True
            self._parts.discard()


UNDECIDED: Final = "the store does not decide between two writers"
DECIDED: Final = 5  # times that a put is sent which meets another one


class ObjectStore(ABC):
    """One bucket of a store. Values can be pickled; every method raises WriteError where the store refuses or is not reached."""

    @abstractmethod
    def shown(self, key: str) -> str:
        """Return the address of an object as messages name it, without credentials."""

    @abstractmethod
    def read(self, key: str) -> Stored | None:
        """Return an object; None where there is none."""

    @abstractmethod
    def part(self, piece: Range) -> bytes:
        """Return some bytes of an object."""

    @abstractmethod
    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the keys that begin with a prefix and follow ``after``, and their sizes, in the order of keys."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, which may be gone already."""

    @abstractmethod
    def complete(self, pending: Pending) -> None:
        """Make an object of an upload that was left; it may be completed already."""

    def error(self, problem: str, key: str) -> WriteError:
        """Return an error about an object."""
        return WriteError(problem, where=Where(source=self.shown(key)))

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:  # noqa: B027  a store may discard them itself
        """Delete the parts of unfinished uploads of wanted keys that begin with a prefix."""

    @abstractmethod
    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write an object under a condition and return its tag; raises UnmetError where the condition does not hold."""

    @abstractmethod
    def parts(self, key: str, *, fresh: bool, later: bool = False) -> Parts[Any]:
        """Return what takes an object in parts; ``fresh``: it replaces none, ``later``: another process completes it."""

    def put(self, key: str, data: bytes, over: str | None) -> str | None:
        """Write an object in place of the one with the tag ``over``, None: where there is none.

        Return the tag of the object where it has these bytes now; None where another writer's bytes are there. Raises
        WriteError where the store gives one answer to the put, and another one to a read, again and again.
        """
        for _ in range(DECIDED):
            try:
                return self.put_once(key, data, over)
            except UnmetError:
                # Clients repeat a request whose answer was lost: then the bytes are there.
                found = self.read(key)
                if found is not None and found.data == data:
                    return found.tag
                if (None if found is None else found.tag) != over:
                    return None
        raise self.error(UNDECIDED, key)

    def begin(self, key: str, *, later: bool = False) -> PartedUpload:
        """Begin an object that must not be there when it is finished; ``later``: it is left, not finished."""
        return PartedUpload(self.parts(key, fresh=True, later=later), fresh=True)

    def upload(self, key: str, path: Path) -> None:
        """Write a local file as an object, in place of any that is there; memory stays flat."""
        with path.open("rb") as file:
            pieces = iter(lambda: file.read(PART), b"")  # which can be taken once
            with self.filled(key, pieces) as made:
                made.finish()

    def compose(self, key: str, pieces: Sequence[bytes | Range]) -> None:
        """Write an object of bytes and of parts of other objects, in place of any that is there."""
        with self.filled(key, pieces) as made:
            made.finish()

    @contextmanager
    def filled(self, key: str, pieces: Iterable[bytes | Range]) -> Iterator[PartedUpload]:
        """Give an upload that has taken all pieces; its parts are deleted where it is not finished."""
        made = PartedUpload(self.parts(key, fresh=False), fresh=False)
        try:
            for piece in pieces:
                if isinstance(piece, bytes):
                    made.write(piece)
                else:
                    made.add(piece, self.part)
            yield made
        finally:
            made.abort()


class BucketStore(ObjectStore):
    """One bucket whose objects are asked for over HTTP by the client of a kind of store, whose exceptions it knows."""

    @abstractmethod
    def body(self, key: str, begin: int = 0, end: int | None = None) -> Stored:
        """Return bytes [begin, end) of an object, and its tag; raises WriteError, and UnmetError where it is not there."""

    @abstractmethod
    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of the client, which is imported when it is needed."""

    @abstractmethod
    def problem_of(self, error: Exception) -> str:
        """Return what one of these exceptions means; raises UnmetError where a condition does not hold, or something is not there."""

    @abstractmethod
    def complete_once(self, pending: Pending) -> None:
        """Make an object of an upload that was left; raises UnmetError where the upload is gone."""

    @contextmanager
    def asking(self, key: str) -> Iterator[None]:
        """Raise WriteError or UnmetError for an exception of the client."""
        try:
            yield
        except self.exceptions() as error:
            raise self.error(self.problem_of(error), key) from None

    def read(self, key: str) -> Stored | None:
        """Return an object; None where there is none."""
        try:
            return self.body(key)
        except UnmetError:
            return None

    def part(self, piece: Range) -> bytes:
        """Return some bytes of an object."""
        if piece.begin == piece.end:
            return b""
        try:
            return self.body(*piece).data
        except UnmetError:
            raise self.error(NO_OBJECT, piece.key) from None

    def complete(self, pending: Pending) -> None:
        """Make an object of an upload that was left, unless another run has completed it."""
        try:
            self.complete_once(pending)
        except UnmetError:
            if pending.key not in (key for key, _ in self.list_keys(pending.key)):
                raise self.error(GONE, pending.key) from None


def check_imports(problem: str, extra: str, *modules: str) -> None:
    """Raise MissingDependencyError where a module of an extra is not installed."""
    try:
        for module in modules:
            import_module(module)
    except ImportError:
        raise MissingDependencyError.of_extra(problem, extra) from None


TRIED: Final = 3  # times: another run may delete what it takes for left over


def check_conditions(store: ObjectStore, key: str) -> None:
    """Write an object under conditions that hold and do not hold, and delete it; raises StorageError where they are not obeyed."""
    if any(_obeys(store, f"{key}-{number}") for number in range(TRIED)):
        return
    problem = "the store does not obey the conditions If-None-Match and If-Match of a put"
    hint = "Write to a local disk, and copy the files to the store"
    raise StorageError(problem, where=Where(source=store.shown(key)), hint=hint)


def _obeys(store: ObjectStore, key: str) -> bool:
    try:
        first = store.put(key, b"1", None)
        return (
            first is not None
            and store.put(key, b"2", first) is not None
            and store.put(key, b"3", first) is None
            and store.put(key, b"4", None) is None
        )
    finally:
        store.delete([key])
