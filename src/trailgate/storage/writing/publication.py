"""What publishing does to a trail, planned as a whole; a place carries it out in steps of its own.

The record of a run beside its staged files: a run that takes the place of one that was interrupted keeps its time.

Where a trail is written; each kind of place publishes in steps of its own, and all others ask it alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, Self

from trailgate.errors import StorageError
from trailgate.model.tables import Definitions
from trailgate.storage.files.manifest import CapturedFile, Manifest, Published
from trailgate.storage.writing.segments import Segment, WriteOptions
from trailgate.trail.format.file_header import FileHeader, header_patches
from trailgate.trail.writing.file_headers import header_of

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


def with_numbers(
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


RUN_RECORD: Final = "run.json"


def encode_run(fingerprint: str, now: int) -> bytes:
    """Return the record of a run that began at a time, in nanoseconds."""
    return json.dumps({"fingerprint": fingerprint, "now": now}).encode()


def time_of_run(record: bytes, fingerprint: str, now: int) -> int:
    """Return the time of a run's record if it is of that fingerprint, else ``now``; any bytes may be in it."""
    try:
        earlier = json.loads(record)
        return int(earlier["now"]) if earlier["fingerprint"] == fingerprint else now
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
        return now


class Place(Protocol):
    """A trail's place. Values can be pickled; staged files are in folders of the place, which ``staging`` names."""

    @property
    def prefix(self) -> str:
        """Return what headers, messages and summaries call the trail; without credentials."""

    @property
    def address(self) -> str:
        """Return by what the trail is read."""

    @property
    def appends(self) -> bool:
        """Return whether files can be added to in place."""

    def held(self) -> AbstractContextManager[None]:
        """Hold the trail for one run, where the place can; raises StorageError where another run holds it."""

    def check_conditions(self) -> None:
        """Raise StorageError where the place cannot decide between two writers."""

    def open_current(self) -> tuple[Self, Manifest | None]:
        """Return the manifest, None where there is none, and the place that publishes over this one alone.

        What an interrupted run had decided to publish is completed first.
        """

    def manifest(self) -> Manifest | None:
        """Return the manifest as it is; raises StorageError where it is not the one that the place was opened with."""

    def begun(self) -> None:
        """Make sure that files without a manifest are not taken for a trail from now on."""

    def has_files(self) -> bool:
        """Return whether there are files that are named like a trail's, or a checkpoint."""

    def definitions(self) -> Definitions | None:
        """Return the definitions beside the trail; None where there are none."""

    def read_captured(self, size: int) -> tuple[CapturedFile, ...]:
        """Return the list of captured files, of which the manifest states ``size`` bytes."""

    def quarantine(self) -> str:
        """Return what messages call the file of messages that the next publication quarantines."""

    def staging(self, name: str) -> Path:
        """Return a folder of staged files."""

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Return an empty folder of staged files, and the time of an earlier run of this fingerprint that was interrupted, else ``now``."""

    def make(self, staging: Path) -> None:
        """Make a folder of staged files."""

    def is_made(self, staging: Path) -> bool:
        """Return whether files can be staged in a folder: it was made, and not discarded."""

    def filling(self, staging: Path) -> AbstractContextManager[Path]:
        """Give a local folder; the files that are in it at the end are staged."""

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return how many bytes staged files have together."""

    def apply(self, publication: Publication, staging: Path) -> None:
        """Make staged files part of the trail, and delete the folder; each step can be done again after a crash."""

    def discard(self, staging: Path, names: Sequence[str] = ()) -> None:
        """Delete a folder of staged files, or the named ones in it; those of a decided publication stay."""

    def forget(self, staging: Path) -> None:
        """Delete what the batches of a query staged up to the one of this folder, which is committed."""
