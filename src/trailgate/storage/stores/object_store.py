"""The interface for writing to an object store, which has neither renames nor files that grow.

An object exists with all its bytes or not at all. If two writers compete, only ``put`` decides
between them: it writes an object only if the object that it replaces is unchanged since it was
read. `ObjectStore` is the interface that other packages use.

A store implements single requests (``put_once``, ``list_keys``) and an upload in parts
(`UploadParts`). Everything else is built from these here: `MultipartUpload` is a file that sends
its parts while it is written, and ``compose`` builds an object from bytes and from ranges of other
objects. `BucketStore` adds the parts that stores with an HTTP client share: reads, and the
conversion of the client's exceptions.
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

NO_OBJECT: Final = "the object no longer exists"
GONE: Final = "the upload no longer exists"  # deleted by another run or by the store

Store = TypeVar("Store", bound="ObjectStore")

# Bytes of a part, at first. S3 refuses parts below 5 MiB, except for the last one.
PART: Final = 8 << 20
# After this many parts the part size doubles, since S3 allows at most 10,000 parts.
LONGER: Final = 1000
COPIED: Final = 1 << 30  # bytes that a store copies per request; S3 allows 5 GiB, Azure 4,000 MiB
NEVER: Final = sys.maxsize  # the minimum size of a part if a store cannot copy

UNDECIDED: Final = "the store does not decide between two writers"
DECIDED: Final = 5  # attempts to put an object while other writers interfere

TRIED: Final = 3  # attempts, since another run may sweep the temporary object


class ConditionNotMetError(Exception):
    """Raised if the condition of a request to a store is not met, or its object does not exist.

    The caller converts it to the error that a user sees, for example OvertakenError.
    """


class StoredObject(NamedTuple):
    """The bytes of an object in a store, and a tag that changes with them."""

    data: bytes
    tag: str


class ObjectRange(NamedTuple):
    """The bytes [begin, end) of an object in a store."""

    key: str
    begin: int
    end: int


class PendingUpload(NamedTuple):
    """A multipart upload to the key ``key`` that is completed later.

    Its parts are in the store, and any process can complete it. ``upload`` is the store's id of the
    upload, or the hidden name of the object; ``tags`` identify the parts.
    """

    key: str
    upload: str
    tags: tuple[str, ...]


class UploadParts(ABC, Generic[Store]):
    """The interface of an upload in parts to one store. Raises ConditionNotMetError if a condition is not met.

    ``fresh`` means that no object may be replaced. ``_upload`` is the store's id of the upload, and
    ``_tags`` identify the parts that were sent.
    """

    def __init__(self, store: Store, key: str, *, fresh: bool) -> None:
        self._store, self._key, self._fresh = store, key, fresh
        self._upload, self._tags = "", list[str]()

    @abstractmethod
    def create(self, data: bytes) -> None:
        """Create the uploaded object from bytes in one request."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send the next part of the upload."""

    @abstractmethod
    def complete(self) -> None:
        """Create the object from the uploaded parts."""

    @property
    def least_part_bytes(self) -> int:
        """Return the minimum size of a part that the store itself can copy."""
        return NEVER

    def copy(self, source: str, begin: int, end: int) -> None:
        """Make the store copy bytes [begin, end) of another object as the next part."""
        raise NotImplementedError

    def suspend(self) -> PendingUpload:
        """Return the data with which another process can complete the upload later."""
        return PendingUpload(self._key, self._upload, tuple(self._tags))

    def discard(self) -> None:
        """Delete the uploaded parts. Does nothing if the store deletes them itself."""

    def error(self, problem: str, key: str = "") -> WriteError:
        """Build an error about the uploaded object, or about another object."""
        return self._store.error(problem, key or self._key)


class MultipartUpload(RawIOBase):
    """An upload as a file to write to. The object is only created by ``finish``.

    ``fresh`` means that an existing object is not replaced.
    """

    def __init__(self, parts: UploadParts[Any], *, fresh: bool) -> None:
        self._parts, self._fresh = parts, fresh
        self._buffer, self._size, self._count = bytearray(), 0, 0
        self._done = False

    @property
    def file(self) -> IO[bytes]:
        """Return the file object that writes to the upload."""
        return cast("IO[bytes]", self)

    def writable(self) -> bool:
        """Return True: the upload is written like a file."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written to the upload."""
        return self._size

    def write(self, data: Any) -> int:
        """Buffer bytes, and send a part when there are enough of them."""
        view = memoryview(data).cast("B")
        self._buffer += view
        self._size += len(view)
        while len(self._buffer) >= self._part():
            self._send(self._part())
        return len(view)

    def _send(self, size: int) -> None:
        """Send the first ``size`` buffered bytes as a part. Raises StorageError if the upload no longer exists."""
        try:
            self._parts.send(bytes(self._buffer[:size]))
        except ConditionNotMetError:
            raise self._parts.error(GONE) from None
        self._count += 1
        del self._buffer[:size]

    def _part(self) -> int:
        return PART << (self._count // LONGER)

    def add(self, piece: ObjectRange, read: Callable[[ObjectRange], bytes]) -> None:
        """Append a range of another object to the upload, copied by the store itself.

        A range that is too short for a part is read and written.
        """
        key, at, end = piece
        # Example: 3 MiB are buffered, S3's parts have at least 5 MiB, and a range of 20 MiB is added. Read 2 MiB
        # to fill the buffered part, then have the store copy the other 18 MiB. Of a range of 6 MiB, only
        # 4 MiB would be left to copy, which is too little, so it is read and written.
        least = self._parts.least_part_bytes
        while at < end:
            buffered = len(self._buffer)
            # Buffered bytes become a part first.
            filled = max(0, least - buffered) if buffered else 0
            left = end - at - filled
            if filled or left < least:
                stop = min(end, at + (min(least, PART) if left < least else filled))
                self.write(read(ObjectRange(key, at, stop)))
            else:
                stop = end if left <= COPIED + least else at + COPIED
                self._send_buffer()
                try:
                    self._parts.copy(key, at, stop)
                except ConditionNotMetError:
                    raise self._parts.error(NO_OBJECT, key) from None
                self._count += 1
            at = stop

    def _send_buffer(self) -> None:
        if self._buffer:
            self._send(len(self._buffer))

    def finish(self) -> None:
        """Create the uploaded object. Raises StorageError if an object exists that must not be replaced."""
        try:
            self.create()
        except ConditionNotMetError:
            problem = "the file already exists" if self._fresh else GONE
            raise StorageError(problem, where=self._parts.error(problem).where) from None

    def create(self) -> None:
        """Create the uploaded object. Raises ConditionNotMetError."""
        if self._count:
            self._send_buffer()
            self._parts.complete()
        else:
            self._parts.create(bytes(self._buffer))
        self._done = True

    def suspend(self) -> PendingUpload:
        """Send the buffered bytes and leave the upload for later.

        Returns the data with which any process can complete it.
        """
        if self._buffer or not self._count:
            self._send(len(self._buffer))
        self._done = True
        return self._parts.suspend()

    def abort(self) -> None:
        """Delete the upload's parts. Does nothing after the upload was finished or suspended."""
        if not self._done:
            self._done = True
            self._parts.discard()


class ObjectStore(ABC):
    """A bucket of an object store, to read and write its objects. Subclasses implement one store each. Can be pickled.

    All methods raise WriteError if the store rejects a request or cannot be reached.
    """

    @abstractmethod
    def shown(self, key: str) -> str:
        """Return the address of an object for messages, without credentials."""

    @abstractmethod
    def read(self, key: str) -> StoredObject | None:
        """Read an object of the store, or return None if it does not exist."""

    @abstractmethod
    def read_range(self, piece: ObjectRange) -> bytes:
        """Read a range of an object of the store."""

    @abstractmethod
    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the keys with a prefix that sort after ``after``, and their sizes, in the order of keys."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects of the store. It is not an error if some do not exist."""

    @abstractmethod
    def complete(self, pending: PendingUpload) -> None:
        """Create the object of a pending upload.

        It is not an error if the upload has already been completed.
        """

    def error(self, problem: str, key: str) -> WriteError:
        """Build an error about an object of the store."""
        return WriteError(problem, where=Where(source=self.shown(key)))

    def abandon(self, prefix: str, condition: Callable[[str], bool]) -> None:  # noqa: B027  a store may discard them itself
        """Delete the parts of unfinished uploads to keys that begin with ``prefix``.

        Only keys for which ``condition`` returns true are included.
        """

    @abstractmethod
    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Replace the object if its tag is still ``over`` (None: create it if it does not exist).

        Returns the new tag. Raises ConditionNotMetError if the condition is not met. Unlike
        ``put``, does not find out whether an earlier attempt has succeeded.
        """

    @abstractmethod
    def parts(self, key: str, *, fresh: bool, later: bool = False) -> UploadParts[Any]:
        """Begin an upload in parts to the store.

        ``fresh``: it must not replace an object. ``later``: another process completes it.
        """

    def put(self, key: str, data: bytes, over: str | None) -> str | None:
        """Replace the object if its tag is still ``over``; None: create it if it does not exist.

        Returns the new tag, or None if another writer was faster. Raises WriteError if the store
        repeatedly rejects the put although a read shows that the tag is still ``over``.
        """
        for _ in range(DECIDED):
            try:
                return self.put_once(key, data, over)
            except ConditionNotMetError:
                # A client repeats a request whose answer was lost. Then the first one may have succeeded,
                # and the condition of the second one fails: the object has these bytes.
                stored = self.read(key)
                if stored is not None and stored.data == data:
                    return stored.tag
                if (None if stored is None else stored.tag) != over:
                    return None
        raise self.error(UNDECIDED, key)

    def begin(self, key: str, *, later: bool = False) -> MultipartUpload:
        """Begin the upload of a new object. With ``later``, another process completes it."""
        return MultipartUpload(self.parts(key, fresh=True, later=later), fresh=True)

    def upload(self, key: str, path: Path) -> None:
        """Write a local file as an object, replacing any existing one, with little memory."""
        with path.open("rb") as file:
            pieces = iter(lambda: file.read(PART), b"")  # can only be iterated once
            with self.upload_pieces(key, pieces) as upload:
                upload.finish()

    def compose(self, key: str, pieces: Sequence[bytes | ObjectRange]) -> None:
        """Write an object from bytes and from ranges of other objects, replacing any existing one."""
        with self.upload_pieces(key, pieces) as upload:
            upload.finish()

    @contextmanager
    def upload_pieces(
        self, key: str, pieces: Iterable[bytes | ObjectRange]
    ) -> Iterator[MultipartUpload]:
        """Yield an upload that contains all pieces. Its parts are deleted if the block does not finish it."""
        upload = MultipartUpload(self.parts(key, fresh=False), fresh=False)
        try:
            for piece in pieces:
                if isinstance(piece, bytes):
                    upload.write(piece)
                else:
                    upload.add(piece, self.read_range)
            yield upload
        finally:
            upload.abort()


class BucketStore(ObjectStore):
    """A bucket that is reached over HTTP by a client library, whose exceptions the subclass converts."""

    @abstractmethod
    def body(self, key: str, begin: int = 0, end: int | None = None) -> StoredObject:
        """Return bytes [begin, end) of an object, or all of them if ``end`` is None, and its tag.

        Raises WriteError, or ConditionNotMetError if the object does not exist.
        """

    @abstractmethod
    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return the exception types of the client library, which is imported only when needed."""

    @abstractmethod
    def problem_of(self, error: Exception) -> str:
        """Describe an exception of a store's client library for an error.

        Raises ConditionNotMetError if it stands for an unmet condition or a missing object.
        """

    @abstractmethod
    def complete_once(self, pending: PendingUpload) -> None:
        """Create the object of a pending upload. Raises ConditionNotMetError if the upload no longer exists."""

    @contextmanager
    def asking(self, key: str) -> Iterator[None]:
        """Convert exceptions of the client library inside the block to WriteError or ConditionNotMetError."""
        try:
            yield
        except self.exceptions() as error:
            raise self.error(self.problem_of(error), key) from None

    def read(self, key: str) -> StoredObject | None:
        """Read an object of the bucket, or return None if it does not exist."""
        try:
            return self.body(key)
        except ConditionNotMetError:
            return None

    def read_range(self, piece: ObjectRange) -> bytes:
        """Read a range of an object of the bucket."""
        if piece.begin == piece.end:
            return b""
        try:
            return self.body(*piece).data
        except ConditionNotMetError:
            raise self.error(NO_OBJECT, piece.key) from None

    def complete(self, pending: PendingUpload) -> None:
        """Create the object of a pending upload, unless another run has completed it."""
        try:
            self.complete_once(pending)
        except ConditionNotMetError:
            if pending.key not in (key for key, _ in self.list_keys(pending.key)):
                raise self.error(GONE, pending.key) from None


def check_imports(problem: str, extra: str, *modules: str) -> None:
    """Raise MissingDependencyError if a module that a store needs is not installed."""
    try:
        for module in modules:
            import_module(module)
    except ImportError:
        raise MissingDependencyError.of_extra(problem, extra) from None


def check_conditions(store: ObjectStore, key: str) -> None:
    """Check with a temporary object that the store obeys the conditions of puts.

    Raises StorageError if it does not.
    """
    if any(_obeys(store, f"{key}-{number}") for number in range(TRIED)):
        return
    problem = "the store ignores the conditions If-None-Match and If-Match of a put"
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
