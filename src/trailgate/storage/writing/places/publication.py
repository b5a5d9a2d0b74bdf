"""What publishing does to a trail, planned as a whole; a place carries it out in steps of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trailgate.errors import StorageError
from trailgate.storage.files.manifest import Manifest, Published
from trailgate.storage.writing.options import WriteOptions
from trailgate.storage.writing.segments import Segment
from trailgate.trail.format.file_header import FileHeader, header_patches
from trailgate.trail.writing.file_beginning import header_of

Patches = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A staged file, and the name that it gets; ``patches`` (offset, bytes) are written over its header."""

    staged: str
    name: str
    size: int
    patches: Patches = ()


@dataclass(frozen=True, slots=True)
class Publication:
    """The manifests before and after, files in their order, and what is written beside the trail.

    ``quarantine`` are staged files, ``captured`` lines of the list of captured files.
    """

    before: Manifest
    after: Manifest
    files: tuple[PlacedFile, ...]
    definitions: bytes
    quarantine: tuple[str, ...] = ()
    captured: bytes = b""


def numbered(
    prefix: str, segment: Segment, number: int, header: FileHeader, options: WriteOptions
) -> tuple[PlacedFile, Published]:
    """Return what becomes of a staged file that gets a number; raises StorageError for one too high."""
    digits, trail_format = options.seq_digits, options.trail_format
    if number >= 10**digits:
        raise StorageError(f"file number {number} has more than {digits} digits")
    name = f"{prefix}{number:0{digits}}"
    trail = replace(
        header.trail,
        filename=name,
        seqno=number,
        file_size=segment.size,
        first_csn=segment.first_csn,
        last_csn=segment.last_csn,
        first_io_time=segment.first_time,
        last_io_time=segment.last_time,
    )
    made = header_of(replace(header, trail=trail), trail_format)
    patches = tuple(header_patches(made)) if trail_format.has_header else ()
    short = name.rpartition("/")[2]
    placed = PlacedFile(segment.name, short, segment.size, patches)
    return placed, Published(short, number, segment.size, segment.operations)
