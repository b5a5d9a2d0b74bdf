"""Find the files of a trail, on a local disk or any store that pyarrow.fs speaks to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from pyarrow import fs

from trailgate.definitions.defgen.sourcedefs import read_sourcedefs
from trailgate.errors import OptionError, StorageError, Where
from trailgate.model.tables import Definitions

# Only 6 and 9 digits are legal (trail format §1). The longer run wins: t1000000000 is t1 and 9.
NUMBERED: Final = re.compile(r"(?P<prefix>.*?)(?P<number>\d{9}|\d{6})")
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

Place = str | os.PathLike[str]

LAST_LISTED: Final = 16  # files that a writer may have gone through while they were listed
NO_DEFINITIONS: Final = Definitions(())


class TrailPlace(NamedTuple):
    """A file's number and a byte offset in it; places compare in the trail's order."""

    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class TrailFile:
    """One file of a trail and how many of its bytes are to be read."""

    path: str
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class TrailFiles:
    """The files of a trail in order, and what its tables look like.

    ``growing`` says that nothing vouches for the end of the last file: an unfinished record
    there has not been written yet. ``cut_off`` says that the trail goes on behind the last of these files.
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

    def until(self, end: TrailPlace) -> TrailFiles:
        """Return the trail as if it ended at a place, where a record ends."""
        files = self.files[: end.number + (end.offset > 0) - self.files[0].number]
        if not files or files[-1].number < end.number:
            return replace(self, files=files, growing=False, cut_off=False)
        last = replace(files[-1], size=min(end.offset, files[-1].size))
        return replace(self, files=(*files[:-1], last), growing=False, cut_off=False)


def find_trail(path: Place, definitions: Place | Definitions | None = None) -> TrailFiles:
    """Return the trail at a prefix (``dirdat/ot``), of one file, or alone in a directory.

    Where ``<prefix>.manifest.json`` exists, only what it lists is read. Definitions come from
    the argument (a file's path, or definitions) or from ``<prefix>.def``; where there is neither,
    there are none. Raises StorageError.
    """
    found = find_begun_trail(path, definitions)
    if found is None:
        raise StorageError("no trail files here", where=Where(source=str(path)), hint=HINT)
    return found


def find_begun_trail(
    path: Place, definitions: Place | Definitions | None = None
) -> TrailFiles | None:
    """Return the trail as ``find_trail`` does, or None while it has no file."""
    store, place = locate(path)
    prefix, files = _listed(store, place)
    files = _sized_again(store, files)
    published = _manifest(store, f"{prefix}.manifest.json")
    if published is not None:
        files = [_published(file, published) for file in files if _name(file.path) in published]
    if not files:
        return None
    _check_numbers(files, prefix)
    spell = _speller(str(path), place)
    return TrailFiles(
        spell(prefix),
        tuple(replace(file, path=spell(file.path)) for file in files),
        _definitions(store, prefix, definitions),
        growing=published is None,
    )


HINT: Final = "A trail is named by its prefix, as dirdat/ot for dirdat/ot000000000"


def locate(path: Place) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path inside it."""
    text = os.fspath(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if not URI.match(text):
        return fs.LocalFileSystem(), text
    try:
        store, place = fs.FileSystem.from_uri(text)
    except (OSError, ValueError, TypeError) as error:
        raise OptionError(f"cannot use the address {text}: {error}") from error
    return store, str(place)


def read_whole(path: Place) -> bytes:
    """Return a file's bytes; raises StorageError where it cannot be read."""
    store, place = locate(path)
    try:
        with store.open_input_file(place) as file:
            return bytes(file.read())
    except OSError as error:
        raise StorageError(
            f"cannot read the file: {error}", where=Where(source=str(path))
        ) from error


def _listed(store: fs.FileSystem, place: str) -> tuple[str, list[TrailFile]]:
    """Return a trail's prefix and every file that is named like one of it, by number."""
    kind = store.get_file_info(place)
    if kind.type == fs.FileType.Directory:
        files = numbered_like_a_trail(store, place.rstrip("/") or "/")
        prefixes = sorted({prefix for prefix, _ in files})
        if len(prefixes) > 1:
            problem = f"more than one trail in the directory: {', '.join(map(_name, prefixes))}"
            raise StorageError(problem, where=Where(source=place), hint="Name one by its prefix")
        return (prefixes or [place])[0], [file for _, file in files]
    matched = NUMBERED.fullmatch(_name(place))
    if kind.type == fs.FileType.File and matched:
        prefix = place[: len(place) - len(matched["number"])]
        return prefix, [TrailFile(place, int(matched["number"]), kind.size)]
    if kind.type == fs.FileType.File:
        problem = "a trail file's name ends in 6 or 9 digits"
        raise StorageError(problem, where=Where(source=place), hint=HINT)
    folder = place.rpartition("/")[0]
    files = numbered_like_a_trail(
        store, folder or ("/" if place.startswith("/") else "."), _name(place)
    )
    return place, [file for _, file in files]


def numbered_like_a_trail(
    store: fs.FileSystem, folder: str, stem: str | None = None
) -> list[tuple[str, TrailFile]]:
    """Return (prefix, file) of a directory's numbered files; of one prefix if ``stem`` is it."""
    pattern = (
        NUMBERED if stem is None else re.compile(rf"{re.escape(stem)}(?P<number>\d{{9}}|\d{{6}})")
    )
    found = []
    for entry in store.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
        matched = pattern.fullmatch(entry.base_name)
        if matched and entry.type == fs.FileType.File:
            path = entry.path.removeprefix("./")
            file = TrailFile(path, int(matched["number"]), entry.size)
            found.append((path[: len(path) - len(matched["number"])], file))
    return sorted(found, key=lambda pair: (pair[1].number, pair[1].path))


def _sized_again(store: fs.FileSystem, files: list[TrailFile]) -> list[TrailFile]:
    """Return the files with the last ones' sizes as they are after the listing.

    A file that has a successor is whole, but its size may have been asked for before it was.
    """
    if len(files) < 2:
        return files
    infos = store.get_file_info([file.path for file in files[-LAST_LISTED:]])
    last = zip(files[-LAST_LISTED:], infos, strict=True)
    return files[:-LAST_LISTED] + [replace(file, size=info.size) for file, info in last]


def _manifest(store: fs.FileSystem, place: str) -> dict[str, int] | None:
    """Return the sizes by name that a manifest lists; None where there is no manifest."""
    if store.get_file_info(place).type != fs.FileType.File:
        return None
    with store.open_input_file(place) as file:
        text = file.read()
    try:
        return {entry["name"]: int(entry["size"]) for entry in json.loads(text)["files"]}
    except (ValueError, KeyError, TypeError) as error:
        problem = f"the manifest cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=place)) from error


def _published(file: TrailFile, sizes: dict[str, int]) -> TrailFile:
    size = sizes[_name(file.path)]
    if file.size < size:
        problem = f"the file has {file.size} bytes, its manifest says {size}"
        raise StorageError(problem, where=Where(source=file.path))
    return replace(file, size=size)


def _check_numbers(files: Iterable[TrailFile], prefix: str) -> None:
    for one, following in pairwise(files):
        if one.number == following.number:
            problem = f"two files have the number {one.number}"
            raise StorageError(problem, where=Where(source=prefix))
        if one.number + 1 != following.number:
            gap = f"{one.number + 1} to {following.number - 1}"
            problem = f"files are missing between {_name(one.path)} and {_name(following.path)}"
            raise StorageError(f"{problem}: numbers {gap}", where=Where(source=prefix))


def _definitions(
    store: fs.FileSystem, prefix: str, given: Place | Definitions | None
) -> Definitions:
    if isinstance(given, Definitions):
        return given
    if given is not None:
        return read_sourcedefs(read_whole(given), source=str(given))
    beside = f"{prefix}.def"
    if store.get_file_info(beside).type != fs.FileType.File:
        return NO_DEFINITIONS
    with store.open_input_file(beside) as file:
        return read_sourcedefs(bytes(file.read()), source=beside)


def _speller(asked: str, place: str) -> Callable[[str], str]:
    """Return what turns a path inside a store into an address like the one asked for."""
    if not URI.match(asked) or asked.startswith("file:"):
        return str
    head, _, tail = asked.partition(place)
    return lambda path: f"{head}{path}{tail}"


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
