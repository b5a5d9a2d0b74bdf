"""The files of a trail as readers are given them (``find_trail``), and as checks are (``look_at``).

Readers get complete files in order, as the manifest lists them; what is not whole is refused. Checks get all that is stored under a prefix,
so that they can report what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from pyarrow import fs

from trailgate.errors import StorageError, TrailgateError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import Address, name_of
from trailgate.storage.files.found_files import Addresses, addresses_of
from trailgate.storage.files.listing import (
    HINT,
    Listing,
    TrailFile,
    list_trail,
    number_digits,
    read_definitions,
    trail_definitions,
    trails_like,
)
from trailgate.storage.files.manifest import Published, read_manifest

__all__ = ["TrailFile", "TrailFiles", "TrailPlace", "find_begun_trail", "find_trail", "find_trails"]

LAST_LISTED: Final = 16  # files that a writer may have gone through while they were listed
NO_DEFINITIONS: Final = Definitions(())


class TrailPlace(NamedTuple):
    """A file's number and a byte offset in it; places compare in the trail's order."""

    number: int
    offset: int

    @property
    def just_after(self) -> TrailPlace:
        """Return the first place after this one: what begins here is before it, and what follows is not."""
        return TrailPlace(self.number, self.offset + 1)


@dataclass(frozen=True, slots=True)
class TrailFiles:
    """The files of a trail in order, and what its tables look like.

    ``growing``: nothing vouches for the end of the last file, so an unfinished record there has
    not been written yet. ``cut_off``: the trail continues after the last of these files.
    """

    prefix: str
    files: tuple[TrailFile, ...]
    definitions: Definitions
    growing: bool = True
    cut_off: bool = False

    @property
    def begin(self) -> TrailPlace:
        """Return where the trail begins."""
        return TrailPlace(self.files[0].number, 0)

    @property
    def end(self) -> TrailPlace:
        """Return where the trail ends."""
        return TrailPlace(self.files[-1].number, self.files[-1].size)

    def file(self, number: int) -> TrailFile:
        """Return the file of a number; raises StorageError."""
        at = number - self.files[0].number
        if not 0 <= at < len(self.files):
            where = Where(source=self.prefix)
            raise StorageError(f"file number {number} is not in the trail", where=where)
        return self.files[at]

    def following(self, number: int) -> Iterator[TrailFile]:
        """Yield the files from a number on; those that were cut off are looked up."""
        yield from self.files[max(0, number - self.files[0].number) :]
        if self.cut_off:
            rest = find_trail(self.prefix, self.definitions)
            yield from rest.following(max(number, self.files[-1].number + 1))

    def may_grow(self, file: TrailFile) -> bool:
        """Return whether a record may be unfinished at the end of a file."""
        return self.growing and not self.cut_off and file.number >= self.files[-1].number

    def window(self, first: int, last: int) -> TrailFiles:
        """Return the files with these numbers alone: a task is not sent ten thousand names."""
        start = self.files[0].number
        files = self.files[first - start : last + 1 - start]
        return replace(self, files=files, cut_off=last < self.files[-1].number or self.cut_off)

    def undefined(self) -> TrailFiles:
        """Return the files without the definitions, for tasks that are sent those once."""
        return replace(self, definitions=NO_DEFINITIONS)

    def until(self, end: TrailPlace) -> TrailFiles:
        """Return the trail as if it ended at a place, where a record ends."""
        files = self.files[: end.number + (end.offset > 0) - self.files[0].number]
        if not files or files[-1].number < end.number:
            return replace(self, files=files, growing=False, cut_off=False)
        last = replace(files[-1], size=min(end.offset, files[-1].size))
        return replace(self, files=(*files[:-1], last), growing=False, cut_off=False)


def find_trail(path: Address, definitions: Address | Definitions | None = None) -> TrailFiles:
    """Return the trail at a prefix (``dirdat/ot``), of one file, or alone in a directory.

    Where ``<prefix>.manifest.json`` exists, only what it lists is read. Definitions come from
    the argument (a file's path, or definitions) or from ``<prefix>.def``; where there is neither,
    there are none. Raises StorageError.
    """
    found = find_begun_trail(path, definitions)
    if found is None:
        raise StorageError("no trail files here", where=Where(source=str(path)), hint=HINT)
    return found


def find_trails(
    paths: Addresses, definitions: Address | Definitions | None = None
) -> tuple[TrailFiles, ...]:
    """Return the trails at paths, in their order, each once; a path may be a pattern of prefixes, as ``dirdat/*``."""
    found = {place: None for path in addresses_of(paths) for place in trails_like(path)}
    return tuple(find_trail(place, definitions) for place in found)


def find_begun_trail(
    path: Address, definitions: Address | Definitions | None = None
) -> TrailFiles | None:
    """Return the trail as ``find_trail`` does, or None while it has no file."""
    listing = list_trail(path)
    if listing.alone and not number_digits(listing.files[0].path):
        problem = "a trail file's name ends in 6 or 9 digits"
        raise StorageError(problem, where=Where(source=str(path)), hint=HINT)
    files = _sized_again(listing.store, listing.files)
    manifest = read_manifest(listing.prefix, listing.store)
    if manifest is not None:
        listed = manifest.by_name()
        files = [_publish(file, listed) for file in files if name_of(file.path) in listed]
    if not files:
        return None
    _check_numbers(files, listing.prefix)
    return TrailFiles(
        listing.spell(listing.prefix),
        tuple(replace(file, path=listing.spell(file.path)) for file in files),
        _definitions(listing, definitions),
        growing=manifest is None,
    )


def _sized_again(store: fs.FileSystem, files: tuple[TrailFile, ...]) -> list[TrailFile]:
    """Return the files with the last ones' sizes as they are after the listing.

    A file that has a successor is whole, but its size may have been asked for before it was.
    """
    if len(files) < 2:
        return list(files)
    infos = store.get_file_info([file.path for file in files[-LAST_LISTED:]])
    last = zip(files[-LAST_LISTED:], infos, strict=True)
    return [*files[:-LAST_LISTED], *(replace(file, size=info.size) for file, info in last)]


def _publish(file: TrailFile, listed: dict[str, Published]) -> TrailFile:
    size = listed[name_of(file.path)].size
    if file.size < size:
        problem = f"the file has {file.size} bytes, its manifest states {size}"
        raise StorageError(problem, where=Where(source=file.path))
    return replace(file, size=size)


def _check_numbers(files: Iterable[TrailFile], prefix: str) -> None:
    for one, following in pairwise(files):
        if one.number == following.number:
            problem = f"two files have the number {one.number}"
            raise StorageError(problem, where=Where(source=prefix))
        if one.number + 1 != following.number:
            gap = f"{one.number + 1} to {following.number - 1}"
            names = f"{name_of(one.path)} and {name_of(following.path)}"
            problem = f"files are missing between {names}: numbers {gap}"
            raise StorageError(problem, where=Where(source=prefix))


def _definitions(listing: Listing, given: Address | Definitions | None) -> Definitions:
    if isinstance(given, Definitions):
        return given
    if given is not None:
        return read_definitions(given)
    found = trail_definitions(listing.prefix, listing.store)
    return NO_DEFINITIONS if found is None else found


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
