"""Definitions of a trail's tables: the file next to it, and files named by options."""

from __future__ import annotations

from pyarrow import fs

from trailgate.definitions.defgen.sourcedefs import read_sourcedefs
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import LOCAL, Address, bytes_if_present, read_whole


def read_definitions(address: Address) -> Definitions:
    """Return the definitions of a file; raises StorageError where it cannot be read."""
    return read_sourcedefs(read_whole(address), source=str(address))


def trail_definitions(prefix: str, store: fs.FileSystem = LOCAL) -> Definitions | None:
    """Return the definitions in ``<prefix>.def``; None where there is no such file."""
    path = f"{prefix}.def"
    text = bytes_if_present(store, path)
    return None if text is None else read_sourcedefs(text, source=path)
