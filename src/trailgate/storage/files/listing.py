"""List the numbered files of a trail in a store, and read the definitions of its tables.

Missing or unexpected files are not reported here; callers check the listing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
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
    address_speller,
    list_matching,
    locate,
    name_of,
    read_file,
    read_if_exists,
)
from trailgate.storage.files.file_search import WILD, match_paths

# Only 6 and 9 digits are legal (trail format §1). Nine are tried first, so t1000000000 is the prefix
# t1 and the number 000000000.
NUMBERED: Final = re.compile(r"(?P<prefix>.*?)(?P<number>\d{9}|\d{6})")
HINT: Final = "Name a trail by its prefix, such as dirdat/ot for dirdat/ot000000000"


@dataclass(frozen=True, slots=True)
class TrailFile:
    """One file of a trail, with the number of bytes to read from it."""

    path: str
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class TrailListing:
    """The files of a trail by number, with paths in a store.

    ``spell`` converts such paths to addresses.

    If ``alone``, the address named a single file, so the other files of the trail are not listed.
    """

    store: fs.FileSystem
    prefix: str
    files: tuple[TrailFile, ...]
    spell: Callable[[str], str]
    alone: bool = False


def list_trail(address: Address) -> TrailListing:
    """List the files of a trail by its prefix or its folder, or only the one file at the address.

    The list is empty if nothing exists there. Raises StorageError if a folder contains several
    trails.
    """
    store, path = locate(address)
    spell = address_speller(os.fspath(address), path)
    info = store.get_file_info(path)
    if info.type == fs.FileType.File:
        digits, number = _number(name_of(path))
        file = TrailFile(path, number, info.size)
        return TrailListing(store, path[: len(path) - digits], (file,), spell, alone=True)
    if info.type != fs.FileType.Directory:
        folder = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
        numbered = _list_numbered(store, folder, name_of(path))
        return TrailListing(store, path, tuple(file for _, file in numbered), spell)
    numbered = _list_numbered(store, path.rstrip("/") or "/")
    prefixes = sorted({prefix for prefix, _ in numbered})
    if len(prefixes) > 1:
        problem = f"more than one trail in the directory: {', '.join(map(name_of, prefixes))}"
        where = Where(source=os.fspath(address))
        raise StorageError(problem, where=where, hint="Name one by its prefix")
    return TrailListing(store, (prefixes or [path])[0], tuple(file for _, file in numbered), spell)


def expand_trail_pattern(address: str) -> list[str]:
    """Return the prefixes of the trails that a pattern such as ``dirdat/*`` matches, by name.

    Another address, and a pattern that matches no trail, are returned unchanged.
    """
    store, path = locate(address)
    if not WILD.search(path) or store.get_file_info(path).type != fs.FileType.NotFound:
        return [address]
    spell = address_speller(address, path)
    prefixes = {
        path_found[: -number_digits(path_found)]
        for path_found in match_paths(store, f"{path}[0-9]*")
        if number_digits(path_found)
    }
    named = [prefix for prefix in sorted(prefixes) if fnmatchcase(name_of(prefix), name_of(path))]
    return [spell(prefix) for prefix in named] or [address]


def find_single_file(address: str) -> TrailFile:
    """Find a single trail file, whatever its name. Raises StorageError if it does not exist."""
    store, path = locate(address)
    info = store.get_file_info(path)
    if info.type != fs.FileType.File:
        raise StorageError("the file does not exist", where=Where(source=address))
    return TrailFile(address, _number(name_of(path))[1], info.size)


def files_on_disk(prefix: str) -> list[TrailFile]:
    """Return the local files with names like those of the trail's files, published or not."""
    target = Path(prefix)
    numbered = _list_numbered(LOCAL, str(target.parent))
    return [file for own, file in numbered if name_of(own) == target.name]


def number_digits(path: str) -> int:
    """Return how many digits of a trail file's name are its number: 9, 6, or 0 for other names."""
    return _number(name_of(path))[0]


def _number(name: str) -> tuple[int, int]:
    """Return the number of digits and the number in a trail file's name, (0, 0) for other names."""
    matched = NUMBERED.fullmatch(name)
    return (len(matched["number"]), int(matched["number"])) if matched else (0, 0)


def _list_numbered(
    store: fs.FileSystem, folder: str, stem: str | None = None
) -> list[tuple[str, TrailFile]]:
    """Return the trail files in a folder, as pairs of their trail's prefix and the file.

    With ``stem`` (``ot``), only files of that trail are returned (``ot000000000``).
    """
    pattern = (
        NUMBERED if stem is None else re.compile(rf"{re.escape(stem)}(?P<number>\d{{9}}|\d{{6}})")
    )
    numbered = []
    for entry in list_matching(store, folder, pattern):
        matched = pattern.fullmatch(entry.base_name)
        if matched and entry.type == fs.FileType.File:
            path = entry.path.removeprefix("./")
            file = TrailFile(path, int(matched["number"]), entry.size)
            numbered.append((path[: len(path) - len(matched["number"])], file))
    return sorted(numbered, key=lambda pair: (pair[1].number, pair[1].path))


def read_definitions(address: Address) -> Definitions:
    """Read a file of table definitions. Raises StorageError or DefinitionError."""
    return read_sourcedefs(read_file(address), source=str(address))


def trail_definitions(prefix: str, store: fs.FileSystem = LOCAL) -> Definitions | None:
    """Read the definitions in ``<prefix>.def``, or return None if the file does not exist."""
    path = f"{prefix}.def"
    text = read_if_exists(store, path)
    return None if text is None else read_sourcedefs(text, source=path)
