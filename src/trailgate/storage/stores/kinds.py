"""The stores that can be written, by the scheme of their addresses. Other addresses can only be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError
from trailgate.storage.files.addresses import scheme_of
from trailgate.storage.stores.azure import azure_store
from trailgate.storage.stores.google import google_store
from trailgate.storage.stores.hdfs import hdfs_store
from trailgate.storage.stores.object_store import ObjectStore
from trailgate.storage.stores.s3 import s3_store

# To support another store, add a row. It must put objects under a condition, so that one of two writers wins.
STORES: Final[Mapping[str, Callable[[str], tuple[ObjectStore, str]]]] = MappingProxyType(
    {
        "s3": s3_store,
        "abfs": azure_store,
        "abfss": azure_store,
        "gs": google_store,
        "gcs": google_store,
        "hdfs": hdfs_store,
    }
)


def writable_store(address: str, what: str) -> tuple[ObjectStore, str]:
    """Return the store of an address and the key in it. Raises OptionError if it cannot be written.

    ``what`` is the subject of the error message, such as "a trail".
    """
    make_store = STORES.get(scheme_of(address))
    if make_store is None:
        known = ", ".join(f"{scheme}://" for scheme in STORES)
        problem = f"{what} is not written to {scheme_of(address)}:// addresses"
        raise OptionError(problem, hint=f"Local disks and {known} are written to")
    return make_store(address)
