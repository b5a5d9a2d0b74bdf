"""What is stored under a prefix, however incomplete: nothing is refused, so that a check can report it.

``trail_files.find_trail`` is what readers use; it raises where a trail is not whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trailgate.errors import StorageError, TrailgateError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.definitions_file import read_definitions, trail_definitions
from trailgate.storage.files.listing import HINT, TrailFile, list_trail
from trailgate.storage.files.manifest import Published, read_manifest


@dataclass(frozen=True, slots=True)
class FoundTrail:
    """All that is stored under a prefix. ``manifest`` and ``definitions`` are None where there are none.

    ``alone``: one file was asked for, whose neighbours are not looked at.
    """

    prefix: str
    files: tuple[TrailFile, ...]
    manifest: Mapping[str, Published] | None = None
    definitions: Definitions | None = None
    faults: tuple[str, ...] = ()  # of the manifest and the definitions
    alone: bool = False


def look_at(path: str, definitions: str | None = None) -> FoundTrail:
    """Return what is at a prefix, in a folder that holds one trail, or a single file.

    Raises StorageError where there is nothing, and for a definitions file asked for that
    cannot be read.
    """
    listing = list_trail(path)
    faults: list[str] = []
    manifest: Mapping[str, Published] | None = None
    try:
        read = read_manifest(listing.prefix, listing.store)
        manifest = None if read is None else read.by_name()
    except StorageError as error:
        faults.append(error.problem)
    if not listing.files and manifest is None:
        raise StorageError("no trail files here", where=Where(source=path), hint=HINT)
    known: Definitions | None = None
    if definitions is not None:
        known = read_definitions(definitions)
    else:
        try:
            known = trail_definitions(listing.prefix, listing.store)
        except TrailgateError as error:
            faults.append(f"the definitions file cannot be understood: {error}")
    return FoundTrail(
        listing.spell(listing.prefix),
        tuple(replace(file, path=listing.spell(file.path)) for file in listing.files),
        manifest,
        known,
        tuple(faults),
        listing.alone,
    )
