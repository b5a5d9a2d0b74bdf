"""Find files by address: single files, files of folders, and files that match a pattern.

Also divides files into parts of equal size, so that no core is idle while another reads the last
part, and finds copybooks with their COPY members.
"""

from __future__ import annotations

import logging
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple, Self

from pyarrow import fs

from trailgate.errors import OptionError, StorageError, Where, did_you_mean, mask_logins
from trailgate.storage.files.addresses import (
    LOCAL,
    RENAME,
    Address,
    address_in,
    address_speller,
    list_names,
    locate,
    name_of,
    read_text_file,
)

LOG: Final = logging.getLogger(__name__)
WILD: Final = re.compile(r"[*?[]")

DEEP: Final = "**"
DEEPEST: Final = 32  # the maximum nesting of folders

Addresses = Address | Iterable[Address]


UNSEARCHED: Final = "%s: folders in it are not searched: %s (%s searches them)"
SUFFIXES: Final = ("", ".cpy", ".cbl", ".cob", ".copy", ".inc")


class ListedFile(NamedTuple):
    """A file with its address, its size, and its modification time in nanoseconds since 1970."""

    path: str
    size: int
    modified: int | None


def is_pattern(address: str) -> bool:
    """Return True if a file address contains a wildcard, so that it may be a pattern."""
    return WILD.search(locate(address)[1]) is not None


def addresses_of(sources: Addresses) -> tuple[str, ...]:
    """Return one or several file addresses as strings.

    Raises OptionError if there are none, or if one is empty.
    """
    several = (sources,) if isinstance(sources, str | os.PathLike) else tuple(sources)
    if not several:
        raise OptionError("the list of paths is empty")
    addresses = tuple(os.fspath(one) for one in several)
    if not all(addresses):
        raise OptionError("a path is empty", hint="Use a dot (.) for the working folder")
    return addresses


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
        spell = address_speller(address, path_in_store)
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


def find_growing(folder: Address) -> tuple[ListedFile, ...]:
    """Find the message files of a folder that a stream reads, or return () if it does not exist yet.

    Raises StorageError if the address is not a folder.
    """
    store, path_in_store = locate(folder)
    info = store.get_file_info(path_in_store)
    if info.type == fs.FileType.NotFound and not WILD.search(path_in_store):
        return ()
    if info.type != fs.FileType.Directory:
        problem = "a stream of messages needs a folder to which files are added"
        raise StorageError(problem, where=Where(source=os.fspath(folder)))
    spell = address_speller(os.fspath(folder), path_in_store)
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
    """Return a sentence that lists empty files, or "" if there are none."""
    if not paths:
        return ""
    if len(paths) == 1:
        return f"{mask_logins(paths[0])} is empty (0 bytes): was it written completely?"
    names = mask_logins(_first_names(paths))
    return f"{len(paths):,} files are empty (0 bytes): {names}: were they written completely?"


def even_part_size(size: int, most: int) -> int:
    """Return the size of each part if a file of ``size`` bytes or records is divided into equal parts.

    There are as few parts as possible, of at most ``most`` bytes or records each.
    """
    # -(-a // b) rounds up: 10 bytes with at most 4 are 3 parts of at most 4 bytes (4, 4 and 2).
    parts = max(1, -(-size // most))
    return max(1, -(-size // parts))


def even_cuts(sizes: Sequence[int], split_bytes: int) -> Iterator[tuple[int, int]]:
    """Divide the concatenation of files into equal parts, of at most ``split_bytes`` bytes each.

    Yields the start of each part except the first one: a file's index and an offset in it. For
    example, two files of 60 bytes in parts of at most 50 bytes: (0, 40) and (1, 20).

    Raises OptionError if ``split_bytes`` is less than 1.
    """
    if split_bytes < 1:
        raise OptionError(f"a split of {split_bytes} bytes is too small")
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    parts = -(-total // split_bytes)
    for part in range(1, parts):
        # The offset of the boundary in the concatenation of all files, and the file that contains
        # it.
        border = total * part // parts
        index = bisect_right(ends, border)
        yield index, border - (ends[index] - sizes[index])


def read_source(address: Address, subject: str = "copybook") -> str:
    """Read a text file such as a copybook as UTF-8, or as Latin-1 if it is not UTF-8.

    Raises StorageError as ``read_text_file`` does; its text calls the file ``subject``.
    """
    raw = read_text_file(address, subject)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def folder_of(address: Address) -> str:
    """Return the address of a file's folder."""
    text = str(address)
    path = locate(text)[1]
    return address_speller(text, path)(path.rpartition("/")[0]) or ("/" if path[:1] == "/" else ".")


def check_folder(folder: Address, subject: str) -> None:
    """Raise StorageError if a folder does not exist. ``subject`` is the option that names it."""
    store, path = locate(folder)
    if store.get_file_info(path).type != fs.FileType.Directory:
        problem = f"{subject} names a folder that does not exist"
        raise StorageError(problem, where=Where(source=os.fspath(folder)))


@dataclass(frozen=True)
class MemberFinder:
    """Finds COPY members in folders by their names, in any case and with any of ``SUFFIXES``.

    ``adding`` is the end of the hint for a missing member: how the user adds a folder.
    """

    folders: tuple[str, ...]
    adding: str

    @classmethod
    def of(cls, folders: Iterable[Address], adding: str) -> Self:
        """Return the finder of COPY members in folders, each of which is searched once."""
        return cls(tuple(dict.fromkeys(map(str, folders))), adding)

    def __call__(self, name: str) -> str | None:
        """Return the text of a COPY member, or None if no folder has it."""
        wanted = {(name + suffix).casefold() for suffix in SUFFIXES}
        # Only names in the folder itself are compared, so a member named ../x is not found.
        for address in self._files():
            if name_of(address).casefold() in wanted:
                return read_source(address)
        return None

    def missing(self, name: str) -> str:
        """Return a hint for a COPY member that was not found: the folders searched, and what to do."""
        alone = re.split(r"[/\\]", name)[-1]
        if alone != name:
            own = f"COPY finds members by their names without folders: write COPY {alone}"
            return f"{own}. {self._searched()}"
        names = list(map(name_of, self._files()))
        stem = name.rpartition(".")[0] or name
        like = [one for one in names if one.rpartition(".")[0].casefold() == stem.casefold()]
        near = did_you_mean(name, {one.partition(".")[0] for one in names})
        if like:
            suffixes = ", ".join(filter(None, SUFFIXES))
            near = f"{like[0]} exists, but a member's file ends in {suffixes} or in nothing."
        return f"{near} {self._searched()}".lstrip()

    def _searched(self) -> str:
        searched = f"Searched: {mask_logins(', '.join(self.folders))}. " if self.folders else ""
        return searched + self.adding

    def _files(self) -> Iterator[str]:
        """Yield the addresses of the files in the folders of COPY members."""
        for folder in self.folders:
            store, path_in_store = locate(folder)
            spell = address_speller(folder, path_in_store)
            entries = list_names(store, path_in_store or ".")[0]
            for entry in sorted(entries, key=lambda one: one.base_name):
                if entry.type == fs.FileType.File:
                    yield spell(entry.path)
