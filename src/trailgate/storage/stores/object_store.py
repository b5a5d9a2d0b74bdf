"""What writing needs of an object store, which has neither renames nor files that grow; each kind is a class.

An object is there with all its bytes or not at all. Which of two writers wins is decided by ``put`` alone: it writes an object only
where the one that it replaces is the one that was read.

What is the same for all stores whose objects are asked for over HTTP: how a request's failure becomes our error, and reads.

What is decided between two writers: puts under conditions, and whether a store obeys them.

One object while it is written: in one request if it is small, else in parts, however its store takes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from trailgate.errors import StorageError, Where, WriteError

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

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the keys that begin with a prefix and follow ``after``, and their sizes, in the order of keys."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, which may be gone already."""

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete the parts of unfinished uploads of wanted keys that begin with a prefix."""


class BucketClient(ABC):
    """Requests to one bucket by the client of a kind of store, whose exceptions it knows."""

    @abstractmethod
    def shown(self, key: str) -> str:
        """Return the address of an object without credentials."""

    @abstractmethod
    def body(self, key: str, begin: int = 0, end: int | None = None) -> Stored:
        """Return bytes [begin, end) of an object, and its tag; raises WriteError, and UnmetError where it is not there."""

    @abstractmethod
    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of the client, which is imported when it is needed."""

    @abstractmethod
    def problem_of(self, error: Exception) -> str:
        """Return what one of these exceptions means; raises UnmetError where a condition does not hold, or something is not there."""

    def error(self, problem: str, key: str) -> WriteError:
        """Return an error about an object."""
        return WriteError(problem, where=Where(source=self.shown(key)))

    @contextmanager
    def asking(self, key: str) -> Iterator[None]:
        """Raise WriteError or UnmetError for an exception of the client."""
        try:
            yield
        except self.exceptions() as error:
            raise self.error(self.problem_of(error), key) from None


Client = TypeVar("Client", bound=BucketClient)


@dataclass(frozen=True)
class BucketStore(ABC, Generic[Client]):
    """One bucket, as it is read."""

    bucket: Client

    @abstractmethod
    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""

    def shown(self, key: str) -> str:
        """Return the address of an object without credentials."""
        return self.bucket.shown(key)

    def read(self, key: str) -> Stored | None:
        """Return an object; None where there is none."""
        try:
            return self.bucket.body(key)
        except UnmetError:
            return None

    def part(self, piece: Range) -> bytes:
        """Return some bytes of an object."""
        if piece.begin == piece.end:
            return b""
        try:
            return self.bucket.body(*piece).data
        except UnmetError:
            raise self.bucket.error("the object is gone", piece.key) from None

    @contextmanager
    def completing(self, pending: Pending) -> Iterator[None]:
        """Raise WriteError in place of UnmetError where there is not the object either: another run may have completed the upload."""
        try:
            yield
        except UnmetError:
            if pending.key not in (key for key, _ in self.list_keys(pending.key)):
                raise self.bucket.error(GONE, pending.key) from None


TRIED: Final = 3  # times: another run may delete what it takes for left over
UNDECIDED: Final = "the store does not decide between two writers"
DECIDED: Final = 5  # times that a put is sent which meets another one


def put_decided(
    store: ObjectStore, key: str, send: Callable[[], str], data: bytes, over: str | None
) -> str | None:
    """Return the tag of an object that ``send`` puts where the condition holds; None where another writer's bytes are there.

    Raises WriteError where the store gives one answer to the put, and another one to a read, again and again.
    """
    for _ in range(DECIDED):
        try:
            return send()
        except UnmetError:
            # Clients repeat a request whose answer was lost: then the bytes are there.
            found = store.read(key)
            if found is not None and found.data == data:
                return found.tag
            if (None if found is None else found.tag) != over:
                return None
    raise WriteError(UNDECIDED, where=Where(source=store.shown(key)))


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
