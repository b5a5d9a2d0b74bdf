"""The numbered files of a trail, listed in a store; what is missing or wrong is left to the caller.

Definitions of a trail's tables: the file next to it, and files named by options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pyarrow import fs

from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import (
    LOCAL,
    Address,
    addresses_like,
    bytes_if_present,
    list_names,
    locate,
    name_of,
    read_whole,
)
from trailgate.storage.files.found_files import WILD, matches

# Only 6 and 9 digits are legal (trail format §1). The longer run wins: t1000000000 is t1 and 9.
NUMBERED: Final = re.compile(r"(?P<prefix>.*?)(?P<number>\d{9}|\d{6})")
HINT: Final = "A trail is named by its prefix, as dirdat/ot for dirdat/ot000000000"


@dataclass(frozen=True, slots=True)
class TrailFile:
    """One file of a trail and how many of its bytes are to be read."""

    path: str
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Files with paths inside a store, by number; ``spell`` makes addresses of such paths.

    ``alone``: the address was that of one file, and its neighbours are not listed.
    """

    store: fs.FileSystem
    prefix: str
    files: tuple[TrailFile, ...]
    spell: Callable[[str], str]
    alone: bool = False


def list_trail(address: Address) -> Listing:
    """Return what is named like files of the trail at a prefix, alone in a folder, or of one file.

    Raises StorageError for a folder with more than one trail.
    """
    store, path = locate(address)
    spell = addresses_like(os.fspath(address), path)
    info = store.get_file_info(path)
    if info.type == fs.FileType.File:
        digits, number = _number(name_of(path))
        file = TrailFile(path, number, info.size)
        return Listing(store, path[: len(path) - digits], (file,), spell, alone=True)
    if info.type != fs.FileType.Directory:
        folder = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
        found = _list_numbered(store, folder, name_of(path))
        return Listing(store, path, tuple(file for _, file in found), spell)
    found = _list_numbered(store, path.rstrip("/") or "/")
    prefixes = sorted({prefix for prefix, _ in found})
    if len(prefixes) > 1:
        problem = f"more than one trail in the directory: {', '.join(map(name_of, prefixes))}"
        where = Where(source=os.fspath(address))
        raise StorageError(problem, where=where, hint="Name one by its prefix")
    return Listing(store, (prefixes or [path])[0], tuple(file for _, file in found), spell)


def trails_like(address: str) -> list[str]:
    """Return the prefixes of the trails that a pattern matches, by name; other addresses as they are."""
    store, path = locate(address)
    if not WILD.search(path) or store.get_file_info(path).type != fs.FileType.NotFound:
        return [address]
    spell = addresses_like(address, path)
    found = {
        place[: -number_digits(place)]
        for place in matches(store, f"{path}[0-9]*")
        if number_digits(place)
    }
    named = [prefix for prefix in sorted(found) if fnmatchcase(name_of(prefix), name_of(path))]
    return [spell(prefix) for prefix in named] or [address]


def stored_file(address: str) -> TrailFile:
    """Return a single file, whatever its name; raises StorageError where there is none."""
    store, path = locate(address)
    info = store.get_file_info(path)
    if info.type != fs.FileType.File:
        raise StorageError("there is no such file", where=Where(source=address))
    return TrailFile(address, _number(name_of(path))[1], info.size)


def files_on_disk(prefix: str) -> list[TrailFile]:
    """Return the local files that are named like those of a trail, published or not."""
    target = Path(prefix)
    found = _list_numbered(LOCAL, str(target.parent))
    return [file for own, file in found if name_of(own) == target.name]


def number_digits(path: str) -> int:
    """Return how many digits of a file's name are its number: 9, 6, or 0 for another name."""
    return _number(name_of(path))[0]


def _number(name: str) -> tuple[int, int]:
    """Return how many digits a name's number has, and the number; two zeros for another name."""
    matched = NUMBERED.fullmatch(name)
    return (len(matched["number"]), int(matched["number"])) if matched else (0, 0)


def _list_numbered(
    store: fs.FileSystem, folder: str, stem: str | None = None
) -> list[tuple[str, TrailFile]]:
    """Return (prefix, file) of a folder's numbered files; of one prefix if ``stem`` is it."""
    pattern = (
        NUMBERED if stem is None else re.compile(rf"{re.escape(stem)}(?P<number>\d{{9}}|\d{{6}})")
    )
    found = []
    for entry in list_names(store, folder)[0]:
        matched = pattern.fullmatch(entry.base_name)
        if matched and entry.type == fs.FileType.File:
            path = entry.path.removeprefix("./")
            file = TrailFile(path, int(matched["number"]), entry.size)
            found.append((path[: len(path) - len(matched["number"])], file))
    return sorted(found, key=lambda pair: (pair[1].number, pair[1].path))


def read_definitions(address: Address) -> Definitions:
    """Return the definitions of a file; raises StorageError where it cannot be read."""
    return read_sourcedefs(read_whole(address), source=str(address))


def trail_definitions(prefix: str, store: fs.FileSystem = LOCAL) -> Definitions | None:
    """Return the definitions in ``<prefix>.def``; None where there is no such file."""
    path = f"{prefix}.def"
    text = bytes_if_present(store, path)
    return None if text is None else read_sourcedefs(text, source=path)


def files_at(path: str) -> tuple[TrailFile, ...]:
    """Return the file at a path, whatever its name, or those of the trail with this prefix; raises StorageError."""
    try:
        return (stored_file(path),)
    except StorageError:
        listing = list_trail(path)
        found = tuple(replace(file, path=listing.spell(file.path)) for file in listing.files)
        if not found:
            raise
        return found
