"""A bucket of any kind of store, of a test's own, and the server that it is in."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

from store_servers.hdfs import Below
from trailgate.errors import StorageError
from trailgate.storage.stores.azure import AzureStore
from trailgate.storage.stores.google import GoogleStore
from trailgate.storage.stores.hdfs import HdfsStore
from trailgate.storage.stores.s3 import S3Store
from trailgate.storage.stores.writable_stores import writable_store

KINDS = ("s3", "azure", "gs", "hdfs")
NUMBERS = itertools.count(1)
# What sends requests, by each kind of store: all of them go through its method call.
SENDERS: tuple[Any, ...] = (S3Store, AzureStore, GoogleStore, HdfsStore)


class Server(Protocol):
    """A server of one kind of store."""

    kind: str
    secret: str  # a text that is in its login
    asking: frozenset[str]  # requests that change nothing

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find the server."""

    def url(self, name: str) -> str:
        """Return the address of a bucket for a process with these variables."""

    def whole_url(self, name: str, key: str) -> str:
        """Return the address of an object that holds all that reaches it, the login too."""

    def base(self, name: str) -> str:
        """Return such an address of a bucket."""

    def create(self, store: Any) -> None:
        """Make a bucket."""

    def uploads(self, store: Any, /) -> list[str]:
        """Return the keys of unfinished uploads that the store does not discard itself."""

    def stop(self) -> None:
        """End the server."""


class Bucket:
    """A bucket of its own for a test."""

    def __init__(self, server: Server) -> None:
        self.server, self.name = server, f"bucket{next(NUMBERS)}"
        self.url = server.url(self.name)
        store, key = writable_store(self.url, "a test")
        # A cluster of Hadoop has no buckets: a folder of it is taken for one.
        self.store: Any = Below(store, f"{key}/") if key else store
        server.create(store)

    def put(self, key: str, data: bytes | str) -> str:
        """Write an object and return its address."""
        body = data.encode() if isinstance(data, str) else data
        while True:
            found = self.store.read(key)
            if self.store.put(key, body, found and found.tag) is not None:
                return f"{self.url}/{key}"

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys of all objects."""
        return [key for key, _ in self.store.list_keys(prefix)]

    def get(self, key: str) -> bytes:
        """Return an object."""
        found = self.store.read(key)
        assert found is not None, key
        return bytes(found.data)

    def contents(self, prefix: str = "") -> dict[str, bytes]:
        """Return all objects."""
        return {key: self.get(key) for key in self.keys(prefix)}

    def uploads(self) -> list[str]:
        """Return the keys of unfinished uploads."""
        return self.server.uploads(self.store)

    def whole_url(self, key: str) -> str:
        """Return the address of an object with its login."""
        return self.server.whole_url(self.name, key)


def refused(store: Any, key: str) -> str:
    """Return the error of a put."""
    try:
        store.put(key, b"", None)
    except StorageError as error:
        return str(error)
    raise AssertionError(key)
