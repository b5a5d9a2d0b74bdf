"""What is the same for all stores whose objects are asked for over HTTP: how a request's failure becomes our error, and reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from trailgate.errors import Where, WriteError
from trailgate.storage.stores.object_store import GONE, Pending, Range, Stored, UnmetError


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
    def listed(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
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
            if pending.key not in (key for key, _ in self.listed(pending.key)):
                raise self.bucket.error(GONE, pending.key) from None
