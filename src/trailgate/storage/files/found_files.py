"""Files found by address: single ones, those of folders, and those that a pattern matches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where
from trailgate.storage.files.addresses import (
    RENAME,
    Address,
    addresses_like,
    listed,
    locate,
    name_of,
)

WILD: Final = re.compile(r"[*?[]")

Addresses = Address | Iterable[Address]


class FoundFile(NamedTuple):
    """A file's address, its size, and when it was modified, in nanoseconds since 1970."""

    path: str
    size: int
    modified: int | None


def addresses_of(given: Addresses) -> tuple[str, ...]:
    """Return one address or several as texts; raises OptionError where there are none."""
    several = (given,) if isinstance(given, str | os.PathLike) else tuple(given)
    if not several:
        raise OptionError("the list of paths is empty")
    return tuple(os.fspath(one) for one in several)


def find_files(given: Addresses, what: str, problem: str) -> tuple[FoundFile, ...]:
    """Return the files at addresses, in their order, each once.

    An address is a file, a folder, whose files are taken by name, or a pattern of either: ``*``, ``?`` and ``[...]`` mean
    characters within one part of a path. Files of folders and patterns whose names begin with a point or an
    underscore are left out. Raises StorageError with ``problem`` where an address is none of these, and where it has no files of
    ``what``: those of its folders are not searched.
    """
    found: dict[str, FoundFile] = {}
    for address in addresses_of(given):
        store, place = locate(address)
        infos = _infos(store, place)
        if not infos:
            raise StorageError(problem, where=Where(source=address))
        files = [file for info in infos for file in _files(store, info)]
        if not files:
            raise _without_files(store, infos[0], what, address)
        spell = addresses_like(address, place)
        for file in files:
            # A single file keeps the name that it was asked for by.
            path = address if file.path == place else spell(file.path)
            found.setdefault(path, FoundFile(path, file.size, file.mtime_ns))
    return tuple(found.values())


def _infos(store: fs.FileSystem, place: str) -> list[fs.FileInfo]:
    """Return what is at a place, or what the place as a pattern matches, by name."""
    info = store.get_file_info(place)
    if info.type in (fs.FileType.File, fs.FileType.Directory):
        return [info]
    if not WILD.search(place):
        return []
    found: list[fs.FileInfo] = store.get_file_info(sorted(matches(store, place)))
    return found


def matches(store: fs.FileSystem, pattern: str) -> Iterator[str]:
    """Yield the paths in a store that a pattern matches."""
    parent, _, last = pattern.rstrip("/").rpartition("/")
    folders = [parent or ("/" if pattern.startswith("/") else ".")]
    if WILD.search(parent):
        found = store.get_file_info(list(matches(store, parent)))
        folders = [one.path for one in found if one.type == fs.FileType.Directory]
    for folder in folders:
        for entry in _entries(store, folder):
            hidden = entry.base_name[0] in "._" and last[0] not in "._"
            if fnmatchcase(entry.base_name, last) and not hidden:
                yield entry.path.removeprefix("./")


def _files(store: fs.FileSystem, info: fs.FileInfo) -> list[fs.FileInfo]:
    """Return a file, or the files of a folder by name, without hidden ones."""
    if info.type == fs.FileType.File:
        return [info]
    entries = _entries(store, info.path)
    return sorted(
        (e for e in entries if e.type == fs.FileType.File and name_of(e.path)[0] not in "._"),
        key=lambda entry: entry.base_name,
    )


def _entries(store: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """Return what is in a folder; raises StorageError for names that are not UTF-8, which cannot be left out unsaid."""
    found, odd = listed(store, folder)
    if odd:
        problem = f"the folder has {odd} names that are not UTF-8"
        raise StorageError(problem, where=Where(source=folder), hint=RENAME)
    return found


def _without_files(
    store: fs.FileSystem, folder: fs.FileInfo, what: str, address: str
) -> StorageError:
    entries = _entries(store, folder.path)
    folders = sorted(e.base_name for e in entries if e.base_name[0] not in "._")
    where, problem = Where(source=address), f"the folder has no file of {what}"
    if not folders:
        hint = "Names that begin with . or _ are not read"
        return StorageError(problem, where=where, hint=hint)
    named = ", ".join(folders[:3]) + (", ..." if len(folders) > 3 else "")
    problem += f", only folders: {named}"
    return StorageError(problem, where=where, hint="Name one of them: they are not searched")
