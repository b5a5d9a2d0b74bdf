"""Files found by address: single ones, those of folders, and those that a pattern matches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where
from trailgate.storage.files.addresses import Address, addresses_like, locate, name_of

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


def find_files(given: Addresses, problem: str) -> tuple[FoundFile, ...]:
    """Return the files at addresses, in their order, each once.

    An address is a file, a folder, whose files are taken by name, or a pattern of either: ``*``, ``?`` and ``[...]`` mean
    characters within one part of a path. Files of folders and patterns whose names begin with a point or an
    underscore are left out. Raises StorageError with ``problem`` where an address is none of these.
    """
    found: dict[str, FoundFile] = {}
    for address in addresses_of(given):
        store, place = locate(address)
        infos = _infos(store, place)
        if not infos:
            raise StorageError(problem, where=Where(source=address))
        spell = addresses_like(address, place)
        for info in infos:
            for one in _files(store, info):
                # A single file keeps the name that it was asked for by.
                path = address if one.path == place else spell(one.path)
                found.setdefault(path, FoundFile(path, one.size, one.mtime_ns))
    return tuple(found.values())


def folders_in(address: Address) -> list[str]:
    """Return the names of the folders in a folder, in their order; hidden ones are left out."""
    store, place = locate(address)
    if store.get_file_info(place).type != fs.FileType.Directory:
        return []
    entries = store.get_file_info(fs.FileSelector(place))
    return sorted(
        entry.base_name
        for entry in entries
        if entry.type == fs.FileType.Directory and entry.base_name[0] not in "._"
    )


def _infos(store: fs.FileSystem, place: str) -> list[fs.FileInfo]:
    """Return what is at a place, or what the place as a pattern matches, by name."""
    info = store.get_file_info(place)
    if info.type in (fs.FileType.File, fs.FileType.Directory):
        return [info]
    if not WILD.search(place):
        return []
    found: list[fs.FileInfo] = store.get_file_info(sorted(_matches(store, place)))
    return found


def _matches(store: fs.FileSystem, pattern: str) -> Iterator[str]:
    parent, _, last = pattern.rstrip("/").rpartition("/")
    folders = [parent or ("/" if pattern.startswith("/") else ".")]
    if WILD.search(parent):
        folders = list(_matches(store, parent))
    for folder in folders:
        for entry in store.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
            hidden = entry.base_name[0] in "._" and last[0] not in "._"
            if fnmatchcase(entry.base_name, last) and not hidden:
                yield entry.path.removeprefix("./")


def _files(store: fs.FileSystem, info: fs.FileInfo) -> list[fs.FileInfo]:
    """Return a file, or the files of a folder by name, without hidden ones."""
    if info.type == fs.FileType.File:
        return [info]
    entries = store.get_file_info(fs.FileSelector(info.path))
    return sorted(
        (e for e in entries if e.type == fs.FileType.File and name_of(e.path)[0] not in "._"),
        key=lambda entry: entry.base_name,
    )
