"""Find the files of a trail: list them, and compare them with the manifest.

``list_trail`` lists the numbered files at a prefix, without checks. ``find_trail`` finds a trail for
readers, ``find_stored_trail`` for checks.

Readers get only complete files, in order, as the manifest lists them; anything else is an error.
Checks get everything stored under a prefix, so that they can report problems. Commands that show
single files use ``find_files_at``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pyarrow import fs

from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import OptionError, StorageError, TrailgateError, Where, mask_logins
from trailgate.model.tables import Definitions
from trailgate.options import check_calls
from trailgate.storage.files.addresses import (
    LOCAL,
    WILD,
    Address,
    Addresses,
    addresses_of,
    locate,
    make_address_speller,
    name_of,
)
from trailgate.storage.files.file_search import list_matching, match_paths
from trailgate.storage.files.manifest import Manifest, ManifestFile, read_manifest
from trailgate.storage.files.text_files import read_definitions_file, read_if_exists
from trailgate.storage.files.trail_names import NUMBERED, number_digits, split_trail_name

__all__ = [
    "TrailFile",
    "TrailFiles",
    "TrailPosition",
    "find_begun_trail",
    "find_trail",
    "find_trails",
]

HINT: Final = "Name a trail by its prefix, such as dirdat/ot for dirdat/ot000000000"

LAST_LISTED: Final = 16  # files that a writer may have completed while the folder was listed
NO_DEFINITIONS: Final = Definitions(())
CHECK: Final = "trailgate check {} lists the damage"
COPY_AGAIN: Final = f"Copy the file again. {CHECK}"


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


class TrailPosition(NamedTuple):
    """A position in a trail: a file's number and a byte offset in it.

    Positions compare in the trail's order.
    """

    number: int
    offset: int

    @property
    def just_after(self) -> TrailPosition:
        """The trail position one byte later.

        As the exclusive end of a range, it makes the range include a record that starts here.
        """
        return TrailPosition(self.number, self.offset + 1)


@check_calls
@dataclass(frozen=True, slots=True)
class TrailFiles:
    """The files of a trail in order, and the definitions of its tables.

    ``growing``: the last file may end in an incomplete record, because no manifest states its size.
    ``cut_off``: the trail has more files after these. ``missing``: files that are in the manifest
    but do not exist.
    """

    prefix: str
    files: tuple[TrailFile, ...]
    definitions: Definitions
    growing: bool = True
    cut_off: bool = False
    missing: tuple[ManifestFile, ...] = ()

    @property
    def begin(self) -> TrailPosition:
        """The position at which the trail's first file begins, or 0:0 if it has no files."""
        return TrailPosition(self.files[0].number, 0) if self.files else TrailPosition(0, 0)

    @property
    def end(self) -> TrailPosition:
        """The position at which the trail's last file ends, or 0:0 if it has no files."""
        return (
            TrailPosition(self.files[-1].number, self.files[-1].size)
            if self.files
            else TrailPosition(0, 0)
        )

    @property
    def missing_last(self) -> tuple[ManifestFile, ...]:
        """The trail files missing after the last one. Files before the first one may have been purged."""
        return tuple(file for file in self.missing if file.number > self.end.number)

    def describe_missing(self, *, last: bool = False) -> str:
        """Return a sentence about trail files that only the manifest lists, or "".

        With ``last``, only files that are missing at the end of the trail are considered.
        """
        names = [file.name for file in (self.missing_last if last else self.missing)]
        if not names:
            return ""
        if len(names) == 1:
            return f"the manifest lists {names[0]}, but the file is missing"
        return f"the manifest lists {names[0]} to {names[-1]}, but {len(names):,} files are missing"

    def file(self, number: int) -> TrailFile:
        """Return a trail file by its number. Raises StorageError if it does not exist."""
        at = number - self.begin.number
        if not 0 <= at < len(self.files):
            where = Where(source=self.prefix)
            raise StorageError(f"file number {number} is not in the trail", where=where)
        return self.files[at]

    def files_from(self, number: int) -> Iterator[TrailFile]:
        """Yield the trail files from a number on.

        If the list of files is incomplete (``cut_off``), the remaining files are listed again.
        """
        yield from self.files[max(0, number - self.begin.number) :]
        if self.cut_off:
            # A window keeps the prefix of the complete trail, so this finds the files after it.
            rest = find_trail(self.prefix, self.definitions)
            yield from rest.files_from(max(number, self.files[-1].number + 1))

    def may_grow(self, file: TrailFile) -> bool:
        """Return True if a trail file may end in an unfinished record."""
        return self.growing and not self.cut_off and file.number >= self.files[-1].number

    def window(self, first: int, last: int) -> TrailFiles:
        """Return the trail with only the files from number ``first`` to ``last``.

        So a Spark task does not have to be sent the names of all files.
        """
        start = self.begin.number
        files = self.files[first - start : last + 1 - start]
        cut_off = last < self.end.number or self.cut_off
        return replace(self, files=files, cut_off=cut_off, missing=())

    def without_definitions(self) -> TrailFiles:
        """Return the trail files without definitions, for tasks that get the definitions separately."""
        return replace(self, definitions=NO_DEFINITIONS)

    def until(self, end: TrailPosition) -> TrailFiles:
        """Return the trail as if it ended at a position, which must be the end of a record."""
        # Example: the files 3 to 6. The end 5:80 keeps the first 5 + 1 - 3 = 3 of them, and the end
        # 5:0 the first two.
        files = self.files[: end.number + (end.offset > 0) - self.files[0].number]
        # The position is the start of a file, so the files before it are complete.
        if not files or files[-1].number < end.number:
            return replace(self, files=files, growing=False, cut_off=False, missing=())
        last = replace(files[-1], size=min(end.offset, files[-1].size))
        return replace(self, files=(*files[:-1], last), growing=False, cut_off=False, missing=())


def list_trail(address: Address) -> TrailListing:
    """List the files of a trail by its prefix or its folder, or only the one file at the address.

    The list is empty if nothing exists there. Raises StorageError if a folder contains several
    trails.
    """
    store, path = locate(address)
    spell = make_address_speller(os.fspath(address), path)
    info = store.get_file_info(path)
    if info.type == fs.FileType.File:
        digits, number = split_trail_name(name_of(path))
        file = TrailFile(path, number, info.size)
        return TrailListing(store, path[: len(path) - digits], (file,), spell, alone=True)
    if info.type != fs.FileType.Directory:
        # rpartition returns "" as the folder of both "/ot" and "ot".
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
            # The listing of the folder "." has paths such as "./ot000000000".
            path = entry.path.removeprefix("./")
            file = TrailFile(path, int(matched["number"]), entry.size)
            numbered.append((path[: len(path) - len(matched["number"])], file))
    return sorted(numbered, key=lambda pair: (pair[1].number, pair[1].path))


def expand_trail_pattern(address: str) -> list[str]:
    """Return the prefixes of the trails that a pattern such as ``dirdat/*`` matches, by name.

    Another address, and a pattern that matches no trail, are returned unchanged.
    """
    store, path = locate(address)
    if not WILD.search(path) or store.get_file_info(path).type != fs.FileType.NotFound:
        return [address]
    spell = make_address_speller(address, path)
    prefixes = {
        path_found[: -number_digits(path_found)]
        for path_found in match_paths(store, f"{path}[0-9]*")
        if number_digits(path_found)
    }
    # The search above compares whole file names, so its * may match into the number: for
    # dirdat/o*0 it finds dirdat/ot000000100, but the prefix dirdat/ot does not match.
    named = [prefix for prefix in sorted(prefixes) if fnmatchcase(name_of(prefix), name_of(path))]
    return [spell(prefix) for prefix in named] or [address]


def find_single_file(address: str) -> TrailFile:
    """Find a single trail file, whatever its name. Raises StorageError if it does not exist."""
    store, path = locate(address)
    info = store.get_file_info(path)
    if info.type != fs.FileType.File:
        raise StorageError("the file does not exist", where=Where(source=address))
    return TrailFile(address, split_trail_name(name_of(path))[1], info.size)


def files_on_disk(prefix: str) -> list[TrailFile]:
    """Return the local files with names like those of the trail's files, published or not."""
    target = Path(prefix)
    numbered = _list_numbered(LOCAL, str(target.parent))
    return [file for own, file in numbered if name_of(own) == target.name]


def find_trail(
    path: Address, definitions: Address | Definitions | None = None, *, empty: bool = False
) -> TrailFiles:
    """Find a trail by its prefix (``dirdat/ot``), by one of its files, or by a folder that contains only this trail.

    With ``empty``, a trail to which no operation was written yet may have no files: its manifest
    lists none. Otherwise that is an error.

    If ``<prefix>.manifest.json`` exists, only the files that it lists are read. Definitions
    come from the argument (a path or definitions) or from ``<prefix>.def``; otherwise there are
    none. Raises StorageError.
    """
    trail = find_begun_trail(path, definitions)
    if trail is not None:
        return trail
    listing = list_trail(path)
    manifest = read_manifest(listing.prefix, listing.store)
    if manifest is None or manifest.files:
        raise StorageError("no trail files here", where=Where(source=str(path)), hint=HINT)
    if not empty:
        problem = "the trail has no operations yet: its manifest lists no files"
        raise StorageError(problem, where=Where(source=str(path)))
    known = _definitions(listing, definitions)
    return TrailFiles(listing.spell(listing.prefix), (), known, growing=False)


def find_trails(
    paths: Addresses, definitions: Address | Definitions | None = None
) -> tuple[TrailFiles, ...]:
    """Find the trails at several paths, in order, each once. A path may be a pattern (``dirdat/*``)."""
    prefixes = {
        prefix: None for path in addresses_of(paths) for prefix in expand_trail_pattern(path)
    }
    return tuple(find_trail(prefix, definitions, empty=True) for prefix in prefixes)


def find_begun_trail(
    path: Address, definitions: Address | Definitions | None = None
) -> TrailFiles | None:
    """Find a trail as ``find_trail`` does, or return None if it has no files yet."""
    if not str(path):
        raise OptionError("the path of the trail is empty", hint=HINT)
    listing = list_trail(path)
    if listing.alone and not number_digits(listing.files[0].path):
        problem = "a trail file's name ends in 6 or 9 digits"
        raise StorageError(problem, where=Where(source=str(path)), hint=HINT)
    prefix = listing.spell(listing.prefix)
    manifest = read_manifest(listing.prefix, listing.store)
    # Only a file that another one follows is complete, and no file follows a single one. With a
    # manifest, a batch may have been added to any last file before the manifest was read.
    files = list(listing.files)
    if manifest is not None or len(files) > 1:
        files = _sized_again(listing.store, files)
    missing: tuple[ManifestFile, ...] = ()
    if manifest is not None:
        listed = manifest.by_name()
        if not listing.alone:
            files += _published_since(listing, files, manifest)
            missing = missing_files(manifest.files, files)
        files = [
            _limit_size(file, listed, prefix) for file in files if name_of(file.path) in listed
        ]
    if not files:
        return None
    _check_numbers(files, prefix)
    return TrailFiles(
        prefix,
        tuple(replace(file, path=listing.spell(file.path)) for file in files),
        _definitions(listing, definitions),
        growing=manifest is None,
        missing=missing,
    )


def missing_files(
    stated: Iterable[ManifestFile], files: Iterable[TrailFile]
) -> tuple[ManifestFile, ...]:
    """Return the trail files that a manifest lists but that do not exist."""
    present = {name_of(file.path) for file in files}
    return tuple(file for file in stated if file.name not in present)


def _published_since(
    listing: TrailListing, files: list[TrailFile], manifest: Manifest
) -> list[TrailFile]:
    """Return the trail files that a writer has added between the listing and the reading of the manifest."""
    last = files[-1].number if files else -1
    added = [file for file in missing_files(manifest.files, files) if file.number > last]
    if not added:
        return []
    folder = listing.prefix.removesuffix(name_of(listing.prefix))
    infos = listing.store.get_file_info([f"{folder}{file.name}" for file in added])
    return [
        TrailFile(info.path, file.number, info.size)
        for file, info in zip(added, infos, strict=True)
        if info.type == fs.FileType.File
    ]


def _sized_again(store: fs.FileSystem, files: list[TrailFile]) -> list[TrailFile]:
    """Read the sizes of a trail's last files again: a writer may have written to them since the listing.

    A file that another file follows is complete, but its size may have been listed before it was.
    Files that were purged meanwhile are omitted.
    """
    infos = store.get_file_info([file.path for file in files[-LAST_LISTED:]])
    last = zip(files[-LAST_LISTED:], infos, strict=True)
    present = (one for one in last if one[1].type == fs.FileType.File)
    return [*files[:-LAST_LISTED], *(replace(file, size=info.size) for file, info in present)]


def _limit_size(file: TrailFile, listed: dict[str, ManifestFile], prefix: str) -> TrailFile:
    """Return a trail file with the size in the manifest. Raises StorageError if it has fewer bytes."""
    size = listed[name_of(file.path)].size
    if file.size < size:
        problem = f"the file has {file.size} bytes, but the manifest states {size}"
        hint = COPY_AGAIN.format(mask_logins(prefix))
        raise StorageError(problem, where=Where(source=file.path), hint=hint)
    return replace(file, size=size)


def _check_numbers(files: Iterable[TrailFile], prefix: str) -> None:
    hint = CHECK.format(mask_logins(prefix))
    for file, following in pairwise(files):
        if file.number == following.number:
            problem = f"two files have the number {file.number}"
            raise StorageError(problem, where=Where(source=prefix), hint=hint)
        if file.number + 1 != following.number:
            gap = f"{file.number + 1} to {following.number - 1}"
            names = f"{name_of(file.path)} and {name_of(following.path)}"
            problem = f"files are missing between {names}: numbers {gap}"
            raise StorageError(problem, where=Where(source=prefix), hint=hint)


def _definitions(listing: TrailListing, given: Address | Definitions | None) -> Definitions:
    if isinstance(given, Definitions):
        return given
    if given is not None:
        return read_definitions_file(given)
    stored_definitions = _read_trail_definitions(listing.prefix, listing.store)
    return NO_DEFINITIONS if stored_definitions is None else stored_definitions


@dataclass(frozen=True, slots=True)
class StoredTrail:
    """Everything stored under a trail's prefix, for checks, which report problems themselves.

    ``manifest`` has the manifest's entries by file name. ``manifest`` and ``definitions`` are None
    if they do not exist or cannot be read; ``faults`` then has the errors.

    ``alone``: the address named a single file, so other files are not examined.
    """

    prefix: str
    files: tuple[TrailFile, ...]
    manifest: Mapping[str, ManifestFile] | None = None
    definitions: Definitions | None = None
    faults: tuple[str, ...] = ()  # errors of the manifest and the definitions
    alone: bool = False


def find_stored_trail(path: str, definitions: str | None = None) -> StoredTrail:
    """Find everything stored at a trail's prefix, in a folder with one trail, or of a single file.

    Raises StorageError if there is nothing, or if the given definitions file cannot be read.
    """
    listing = list_trail(path)
    faults: list[str] = []
    manifest: Mapping[str, ManifestFile] | None = None
    try:
        read = read_manifest(listing.prefix, listing.store)
        manifest = None if read is None else read.by_name()
    except StorageError as error:
        # A damaged manifest is a finding of the check, not the end of it.
        faults.append(error.problem)
    if not listing.files and manifest is None:
        raise StorageError("no trail files here", where=Where(source=path), hint=HINT)
    known: Definitions | None = None
    if definitions is not None:
        known = read_definitions_file(definitions)
    else:
        try:
            known = _read_trail_definitions(listing.prefix, listing.store)
        except TrailgateError as error:
            faults.append(f"the definitions file cannot be understood: {error}")
    return StoredTrail(
        prefix=listing.spell(listing.prefix),
        files=tuple(replace(file, path=listing.spell(file.path)) for file in listing.files),
        manifest=manifest,
        definitions=known,
        faults=tuple(faults),
        alone=listing.alone,
    )


def find_files_at(path: str) -> tuple[TrailFile, ...]:
    """Find the trail file at a path, whatever its name, or the files of the trail with this prefix.

    Raises StorageError if there are none.
    """
    try:
        return (find_single_file(path),)
    except StorageError:
        listing = list_trail(path)
        files = tuple(replace(file, path=listing.spell(file.path)) for file in listing.files)
        if not files:
            raise
        return files


def check_last_files(trail: TrailFiles) -> None:
    """Raise StorageError if the manifest lists files after the last one that exists.

    The first files may be missing, because they were purged.
    """
    problem = trail.describe_missing(last=True)
    if problem:
        raise StorageError(
            problem,
            where=Where(source=trail.prefix),
            hint=f"Restore the file. trailgate check {mask_logins(trail.prefix)} lists all missing files",
        )


def _read_trail_definitions(prefix: str, store: fs.FileSystem = LOCAL) -> Definitions | None:
    """Read a trail's definitions file, ``<prefix>.def``, or return None if the file does not exist."""
    path = f"{prefix}.def"
    text = read_if_exists(store, path)
    return None if text is None else read_sourcedefs(text, source=path)
