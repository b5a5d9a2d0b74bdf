"""Which kinds of addresses are written to, and how; the others are read alone."""

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

# A kind of store is a row here: it puts objects under a condition, so that of two writers one wins.
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
    """Return the store of an address and the key in it; raises OptionError where ``what`` is not written to stores of its kind."""
    made = STORES.get(scheme_of(address))
    if made is None:
        known = ", ".join(f"{scheme}://" for scheme in STORES)
        problem = f"{what} is not written to {scheme_of(address)}:// addresses"
        raise OptionError(problem, hint=f"Local disks and {known} are written to")
    return made(address)
