"""The files of a trail as they lie there, however incomplete: nothing is refused, so that a check can tell.

``trail_files.find_trail`` is what readers use; it raises where a trail is not whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import fs

from trailgate.definitions.defgen.sourcedefs import read_sourcedefs
from trailgate.errors import StorageError, TrailgateError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.trail_files import (
    HINT,
    NUMBERED,
    URI,
    TrailFile,
    locate,
    numbered_like_a_trail,
    read_whole,
)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """What a manifest says of one file; None: it does not say."""

    name: str
    size: int
    operations: int | None = None


@dataclass(frozen=True, slots=True)
class FoundTrail:
    """All that lies under a prefix. ``manifest`` and ``definitions`` are None where there are none.

    ``alone`` says that one file was asked for, whose neighbours are not looked at.
    """

    prefix: str
    files: tuple[TrailFile, ...]
    manifest: Mapping[str, ManifestEntry] | None = None
    definitions: Definitions | None = None
    faults: tuple[str, ...] = ()  # of the manifest and the definitions
    alone: bool = False


def stored_file(path: str) -> TrailFile:
    """Return a single file, whatever its name; raises StorageError where there is none."""
    store, place = locate(path)
    info = store.get_file_info(place)
    if info.type != fs.FileType.File:
        raise StorageError("there is no such file", where=Where(source=path))
    matched = NUMBERED.fullmatch(name_of(place))
    return TrailFile(path, int(matched["number"]) if matched else 0, info.size)


def look_at(path: str, definitions: str | None = None) -> FoundTrail:
    """Return what lies at a prefix, in a folder that holds one trail, or a single file.

    Raises StorageError where there is nothing at all, and for a definitions file asked for that
    cannot be read.
    """
    store, place = locate(path)
    prefix, files, alone = _listed(store, place, path)
    manifest, faults = _manifest(store, prefix)
    if not files and manifest is None:
        raise StorageError("no trail files here", where=Where(source=path), hint=HINT)
    if definitions is not None:
        known: Definitions | None = read_sourcedefs(read_whole(definitions), source=definitions)
    else:
        known, more = _definitions(store, prefix)
        faults += more
    head, _, tail = path.partition(place) if URI.match(path) else ("", "", "")
    if not path.startswith("file:"):  # a store's files are found again by the whole address
        prefix = f"{head}{prefix}{tail}"
        files = tuple(replace(file, path=f"{head}{file.path}{tail}") for file in files)
    return FoundTrail(prefix, files, manifest, known, faults, alone)


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def _listed(store: fs.FileSystem, place: str, path: str) -> tuple[str, tuple[TrailFile, ...], bool]:
    info = store.get_file_info(place)
    if info.type == fs.FileType.File:
        matched = NUMBERED.fullmatch(name_of(place))
        digits = len(matched["number"]) if matched else 0
        return place[: len(place) - digits], (replace(stored_file(path), path=place),), True
    if info.type == fs.FileType.Directory:
        folder, stem = place.rstrip("/") or "/", None
    else:
        folder, stem = place.rpartition("/")[0], name_of(place)
        folder = folder or ("/" if place.startswith("/") else ".")
    found = numbered_like_a_trail(store, folder, stem)
    prefixes = sorted({prefix for prefix, _ in found})
    if len(prefixes) > 1:
        names = ", ".join(map(name_of, prefixes))
        problem = f"more than one trail in the directory: {names}"
        raise StorageError(problem, where=Where(source=path), hint="Name one by its prefix")
    return (prefixes or [place])[0], tuple(file for _, file in found), False


def _bytes_of(store: fs.FileSystem, place: str) -> bytes | None:
    if store.get_file_info(place).type != fs.FileType.File:
        return None
    with store.open_input_file(place) as file:
        return bytes(file.read())


def _manifest(
    store: fs.FileSystem, prefix: str
) -> tuple[dict[str, ManifestEntry] | None, tuple[str, ...]]:
    text = _bytes_of(store, f"{prefix}.manifest.json")
    if text is None:
        return None, ()
    try:
        entries = [_entry(fields) for fields in json.loads(text)["files"]]
    except (ValueError, KeyError, TypeError) as error:
        return None, (f"the manifest cannot be understood: {error!r}",)
    return {entry.name: entry for entry in entries}, ()


def _entry(fields: dict[str, Any]) -> ManifestEntry:
    operations = fields.get("operations")
    return ManifestEntry(
        str(fields["name"]), int(fields["size"]), None if operations is None else int(operations)
    )


def _definitions(store: fs.FileSystem, prefix: str) -> tuple[Definitions | None, tuple[str, ...]]:
    text = _bytes_of(store, f"{prefix}.def")
    if text is None:
        return None, ()
    try:
        return read_sourcedefs(text, source=f"{prefix}.def"), ()
    except TrailgateError as error:
        return None, (f"the definitions file cannot be understood: {error}",)
