"""What is decided between two writers: puts under conditions, and whether a store obeys them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trailgate.errors import StorageError, Where, WriteError
from trailgate.storage.stores.object_store import ObjectStore, UnmetError

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
