"""The stores that can be written, by the scheme of their addresses. Other addresses can only be read."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError
from trailgate.storage.files.addresses import scheme_of
from trailgate.storage.stores.object_store import ObjectStore

# To support another store, add a row: the module and function, imported when a store is used. It must put objects under a condition, so that one of two writers wins.
STORES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "s3": "s3:s3_store",
        "abfs": "azure:azure_store",
        "abfss": "azure:azure_store",
        "gs": "google:google_store",
        "gcs": "google:google_store",
        "hdfs": "hdfs:hdfs_store",
    }
)


def writable_store(address: str, what: str) -> tuple[ObjectStore, str]:
    """Return the store of an address and the key in it.

    ``what`` is the subject of the error message, such as "a trail". Raises OptionError if addresses
    of this scheme cannot be written.
    """
    row = STORES.get(scheme_of(address))
    if row is None:
        known = ", ".join(f"{scheme}://" for scheme in STORES)
        problem = f"{what} is not written to {scheme_of(address)}:// addresses"
        raise OptionError(problem, hint=f"Local disks and {known} are written to")
    module, _, name = row.partition(":")
    make_store = getattr(import_module(f"trailgate.storage.stores.{module}"), name)
    opened: tuple[ObjectStore, str] = make_store(address)
    return opened
