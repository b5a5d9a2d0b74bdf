"""Search folders for files: by address, by pattern such as ``in/*.xml``, and by the form of their names.

``find_files`` is for readers of files that exist, ``find_growing_folder`` for streams. Folders are
listed in the same way on a local disk and in a store; names that are not UTF-8 are counted.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from pyarrow import fs

from trailgate.errors import StorageError, Where, mask_logins, shown_source
from trailgate.storage.files.addresses import (
    LOCAL,
    RENAME,
    WILD,
    Address,
    Addresses,
    address_in,
    addresses_of,
    locate,
    make_address_speller,
    name_of,
)

LOG: Final = logging.getLogger(__name__)

DEEP: Final = "**"
DEEPEST: Final = 32  # the maximum nesting of folders


UNSEARCHED: Final = "%s: folders in it are not searched: %s (%s searches them)"


class ListedFile(NamedTuple):
    """A file with its address, its size, and its modification time in nanoseconds since 1970."""

    path: str
    size: int
    modified: int | None


def find_files(
    sources: Addresses, subject: str, problem: str, *, deep: bool = False
) -> tuple[ListedFile, ...]:
    """Find the files at addresses, which may be folders and patterns, in order.

    Each file is returned once, even if several addresses include it.

    An address is a file, a folder (whose files are returned in name order), or a pattern of either:
    ``*``, ``?`` and ``[...]`` match characters within one part of a path, ``**`` matches a folder
    and all folders below it. In folders and patterns, files whose names start with a dot or
    underscore are skipped.

    Subfolders are searched only with ``deep``. Raises StorageError with the text ``problem`` if
    nothing exists at an address or, unless ``deep`` is set, if no file is found. ``subject`` names
    the files in errors.
    """
    files_by_spot: dict[str, ListedFile] = {}
    addresses = addresses_of(sources)
    for address in addresses:
        store, path_in_store = locate(address)
        infos = _infos(store, path_in_store)
        if deep and infos:
            below = [one for info in infos for one in _folders_below(store, info)]
            infos = store.get_file_info(below)
        if not infos:
            absent = (
                problem
                if WILD.search(path_in_store)
                else f"{problem}: there is no such file or folder"
            )
            raise StorageError(absent, where=Where(source=address))
        files = [file for info in infos for file in _files(store, info)]
        if not files and not deep:
            raise _without_files(store, infos[0], subject, address)
        if len(infos) == 1 and infos[0].type == fs.FileType.Directory and not deep:
            _warn_of_folders(store, infos[0], address)
        spell = make_address_speller(address, path_in_store)
        for file in files:
            # A single file keeps the address by which it was requested.
            path = address if file.path == path_in_store else spell(file.path)
            # With several addresses, the same file may be named in different ways.
            spot = path if len(addresses) == 1 else _spot(store, file, path)
            files_by_spot.setdefault(spot, ListedFile(path, file.size, file.mtime_ns))
    return tuple(files_by_spot.values())


def _spot(store: fs.FileSystem, file: fs.FileInfo, path: str) -> str:
    """Return a key that identifies a file to which several addresses lead.

    Two paths to the same file have equal keys; a symbolic link counts as a separate file.
    """
    if store is not LOCAL:
        return path
    return str(Path(file.path).parent.resolve() / file.base_name)


def find_growing_folder(folder: Address) -> tuple[ListedFile, ...]:
    """Find the files of a folder to which files are added, or return () if it does not exist yet.

    Raises StorageError if the address is not a folder.
    """
    store, path_in_store = locate(folder)
    info = store.get_file_info(path_in_store)
    if info.type == fs.FileType.NotFound and not WILD.search(path_in_store):
        return ()
    if info.type != fs.FileType.Directory:
        problem = "a stream of messages needs a folder to which files are added"
        raise StorageError(problem, where=Where(source=os.fspath(folder)))
    spell = make_address_speller(os.fspath(folder), path_in_store)
    return tuple(ListedFile(spell(f.path), f.size, f.mtime_ns) for f in _files(store, info))


def _warn_of_folders(store: fs.FileSystem, folder: fs.FileInfo, address: str) -> None:
    """Log a warning if a folder has subfolders, which ``find_files`` does not search."""
    entries = _entries(store, folder.path)
    names = (e.base_name for e in entries if e.type == fs.FileType.Directory)
    below = sorted(name for name in names if name[0] not in "._")
    if below:
        searched = mask_logins(address_in(address, DEEP))
        LOG.warning(UNSEARCHED, mask_logins(address), _first_names(below), searched)


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _infos(store: fs.FileSystem, path_in_store: str) -> list[fs.FileInfo]:
    """Return the file or folder at a path, or if the path is a pattern, all matching files and folders by name."""
    info = store.get_file_info(path_in_store)
    if info.type in (fs.FileType.File, fs.FileType.Directory):
        return [info]
    if not WILD.search(path_in_store):
        return []
    matched: list[fs.FileInfo] = store.get_file_info(sorted(match_paths(store, path_in_store)))
    return matched


def match_paths(store: fs.FileSystem, pattern: str) -> Iterator[str]:
    """Yield the paths in a store that a pattern matches. ``**`` matches a folder and all below it."""
    parent, _, last = pattern.rstrip("/").rpartition("/")
    folders = [parent or ("/" if pattern.startswith("/") else ".")]
    if WILD.search(parent):
        folder_infos = store.get_file_info(list(match_paths(store, parent)))
        folders = [one.path for one in folder_infos if one.type == fs.FileType.Directory]
    for folder in folders:
        if last == DEEP:
            yield from _with_folders_below(store, folder)
            continue
        for entry in _entries(store, folder):
            hidden = entry.base_name[0] in "._" and last[0] not in "._"
            if fnmatchcase(entry.base_name, last) and not hidden:
                yield entry.path.removeprefix("./")


def _with_folders_below(store: fs.FileSystem, folder: str, depth: int = 0) -> Iterator[str]:
    """Yield a folder and all folders below it, except hidden ones."""
    if depth > DEEPEST:
        hint = "Does a link lead back to a parent folder?"
        problem = f"folders are nested more than {DEEPEST} deep"
        raise StorageError(problem, where=Where(source=folder), hint=hint)
    yield folder
    for entry in _entries(store, folder):
        if entry.type == fs.FileType.Directory and entry.base_name[0] not in "._":
            yield from _with_folders_below(store, entry.path.removeprefix("./"), depth + 1)


def _folders_below(store: fs.FileSystem, info: fs.FileInfo) -> list[str]:
    """Return the paths of a folder and of all folders below it.

    For a file, return only its own path.
    """
    if info.type == fs.FileType.File:
        return [info.path]
    return sorted(_with_folders_below(store, info.path))


def _files(store: fs.FileSystem, info: fs.FileInfo) -> list[fs.FileInfo]:
    """Return a file, or the files of a folder by name, except hidden ones."""
    if info.type == fs.FileType.File:
        return [info]
    entries = _entries(store, info.path)
    return sorted(
        (e for e in entries if e.type == fs.FileType.File and name_of(e.path)[0] not in "._"),
        key=lambda entry: entry.base_name,
    )


def _entries(store: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """Return the entries of a folder. Raises StorageError if names are not UTF-8.

    Such files cannot be read, and must not be skipped silently.
    """
    found, odd = list_names(store, folder)
    if odd:
        problem = f"the folder has {odd} names that are not UTF-8"
        raise StorageError(problem, where=Where(source=folder), hint=RENAME)
    return found


def _without_files(
    store: fs.FileSystem, folder: fs.FileInfo, subject: str, address: str
) -> StorageError:
    entries = _entries(store, folder.path)
    folders = sorted(e.base_name for e in entries if e.base_name[0] not in "._")
    where, problem = Where(source=address), f"the folder has no files of {subject}"
    if not folders:
        hint = "Files whose names start with . or _ are not read"
        return StorageError(problem, where=where, hint=hint)
    problem += f", only folders: {_first_names(folders)}"
    hint = f"They are not searched; use {address_in(address, DEEP)} to search all"
    return StorageError(problem, where=where, hint=hint)


def describe_empty_files(paths: Sequence[str]) -> str:
    """Return a warning about the empty files of a search as one sentence, or "" if there are none."""
    if not paths:
        return ""
    if len(paths) == 1:
        return f"{shown_source(paths[0])} is empty (0 bytes): was it written completely?"
    names = _first_names([shown_source(path) for path in paths])
    return f"{len(paths):,} files are empty (0 bytes): {names}: were they written completely?"


def _list_folder(store: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """Return the entries of a local folder or a folder in a store, or [] if it does not exist."""
    if store.type_name != "gcs":
        here: list[fs.FileInfo] = store.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return here
    # pyarrow does not list folders of Google Cloud Storage that only exist as prefixes of objects, so
    # they are derived from a recursive listing.
    below = store.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
    above = f"{folder.rstrip('/')}/"
    entries_by_path: dict[str, fs.FileInfo] = {}
    for entry in below:
        name, deeper, _ = entry.path.removeprefix(above).partition("/")
        path = above + name
        if deeper or path not in entries_by_path:
            entries_by_path[path] = fs.FileInfo(path, fs.FileType.Directory) if deeper else entry
    return list(entries_by_path.values())


def list_names(store: fs.FileSystem, folder: str) -> tuple[list[fs.FileInfo], int]:
    """List the files and folders in a folder whose names are UTF-8, and count the other names."""
    names = []
    odd = 0
    for entry in _list_folder(store, folder):
        try:
            entry.path.encode()
        except UnicodeDecodeError:
            odd += 1
        else:
            names.append(entry)
    return names, odd


def list_matching(store: fs.FileSystem, folder: str, pattern: re.Pattern[str]) -> list[fs.FileInfo]:
    """List the files and folders in a folder whose names match a regular expression and are UTF-8.

    In a local folder only the matching files are examined, not the thousands of other files that
    may be beside a trail.
    """
    try:
        names = os.listdir(folder) if store.type_name == "local" else None  # noqa: PTH208  names only
    except OSError:  # pyarrow words the error
        names = None
    if names is None:
        entries = list_names(store, folder)[0]
        return [entry for entry in entries if pattern.fullmatch(entry.base_name)]
    matching = [name for name in names if pattern.fullmatch(name) and _is_utf8(name)]
    found = store.get_file_info([f"{folder.rstrip('/')}/{name}" for name in matching])
    return [info for info in found if info.type != fs.FileType.NotFound]


def _is_utf8(name: str) -> bool:
    """Return whether the bytes of a file name are UTF-8.

    Otherwise Python has escaped them, for example 0xFF as U+DCFF.
    """
    return name.encode(errors="ignore").decode() == name
