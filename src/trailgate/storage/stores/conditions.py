"""Whether a store obeys the conditions of a put: all that is decided between two writers depends on them."""

from __future__ import annotations

from typing import Final

from trailgate.errors import StorageError, Where
from trailgate.storage.stores.object_store import ObjectStore

NEVER: Final = f'"{0:032x}"'  # the tag of no object


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
        return (
            store.put(key, b"1", None) is not None
            and store.put(key, b"2", None) is None
            and store.put(key, b"3", NEVER) is None
        )
    finally:
        store.delete([key])
