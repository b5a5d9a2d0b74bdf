"""The header of a file that grows: what is filled in when it is begun, and when it is finished.

A header that states the file's size means that nothing is added to the file any more (trail format §4.1).

A trail on a local disk: one run holds it at a time, and staged files are renamed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Final, Self

from trailgate.model.tables import Definitions
from trailgate.storage.files.durable import lock, remove_folder, sync_folder, write_whole, writing
from trailgate.storage.files.listing import files_on_disk, trail_definitions
from trailgate.storage.files.manifest import (
    CapturedFile,
    Growing,
    Manifest,
    captured_path,
    checkpoint_path,
    read_captured,
    read_manifest,
    write_manifest,
)
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.writing.publication import (
    RUN_RECORD,
    PlacedFile,
    Publication,
    encode_run,
    time_of_run,
)
from trailgate.trail.format.file_header import FileHeader, TrailInfo, decode_header, header_patches
from trailgate.trail.format.tokens import FILE_HEADER

LONGEST: Final = 1 << 16  # bytes of a header at most
Patches = list[tuple[int, bytes]]


def finishing_patches(path: Path, size: int, growing: Growing) -> Patches:
    """Return what is written over a file's header when it is finished; nothing where it has none."""

    def finished(trail: TrailInfo) -> TrailInfo:
        return replace(
            trail, file_size=size, last_csn=growing.last_csn, last_io_time=growing.last_time
        )

    return _patches(path, finished)


def opening_patches(path: Path) -> Patches:
    """Return what is written over the header of a file that was finished, and is added to again; else nothing."""
    header = _header(path)
    if header is None or header.trail.file_size is None:
        return []
    trail = replace(header.trail, file_size=None, last_csn=None, last_io_time=None)
    return header_patches(replace(header, trail=trail))


def beginning_patches(
    path: Path, name: str, number: int, first: tuple[str | None, int | None]
) -> Patches:
    """Return what is written over the header of a staged file that gets a name; ``first`` are CSN and time."""

    def begun(trail: TrailInfo) -> TrailInfo:
        return replace(
            trail, filename=name, seqno=number, first_csn=first[0], first_io_time=first[1]
        )

    return _patches(path, begun)


def _patches(path: Path, change: Callable[[TrailInfo], TrailInfo]) -> Patches:
    header = _header(path)
    if header is None:
        return []
    return header_patches(replace(header, trail=change(header.trail)))


def _header(path: Path) -> FileHeader | None:
    with writing(path), path.open("rb") as file:
        data = file.read(LONGEST)
    return decode_header(data)[0] if data and data[0] == FILE_HEADER else None


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A prefix on a local disk."""

    prefix: str

    @property
    def address(self) -> str:
        """Return the prefix."""
        return self.prefix

    @property
    def appends(self) -> bool:
        """Return True: a file grows."""
        return True

    def held(self) -> AbstractContextManager[None]:
        """Hold the trail by a lock of the system."""
        return lock(self.prefix)

    def check_conditions(self) -> None:
        """Do nothing: the lock decides."""

    def open_current(self) -> tuple[Self, Manifest | None]:
        """Return the manifest: while the trail is held it stays the same."""
        return self, self.manifest()

    def manifest(self) -> Manifest | None:
        """Return the manifest."""
        return read_manifest(self.prefix)

    def begun(self) -> None:
        """Write an empty manifest where there is none."""
        if self.manifest() is None:
            write_manifest(self.prefix, Manifest())

    def has_files(self) -> bool:
        """Return whether there are files of a trail."""
        return bool(files_on_disk(self.prefix)) or checkpoint_path(self.prefix).exists()

    def definitions(self) -> Definitions | None:
        """Return the definitions beside the trail."""
        return trail_definitions(self.prefix)

    def read_captured(self, size: int) -> tuple[CapturedFile, ...]:
        """Return the list of captured files."""
        return read_captured(self.prefix, size)

    def quarantine(self) -> str:
        """Return the file that all runs append to."""
        return f"{self.prefix}.quarantine.jsonl"

    def staging(self, name: str) -> Path:
        """Return a hidden folder beside the trail."""
        prefix = Path(self.prefix).absolute()
        return prefix.with_name(f".{prefix.name}.{name}")

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Empty the one folder of runs, which hold the trail one after the other."""
        staging = self.staging("staging")
        record = staging / RUN_RECORD
        with suppress(OSError):  # there is none
            now = time_of_run(record.read_bytes(), fingerprint, now)
        self.make(staging)
        write_whole(record, encode_run(fingerprint, now))
        for path in staging.iterdir():
            if path != record:
                path.unlink()
        return staging, now

    def make(self, staging: Path) -> None:
        """Make the folder."""
        with writing(staging):
            staging.mkdir(parents=True, exist_ok=True)

    def is_made(self, staging: Path) -> bool:
        """Return whether the folder is there."""
        return staging.is_dir()

    @contextmanager
    def filling(self, staging: Path) -> Iterator[Path]:
        """Give the folder itself."""
        yield staging

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return the files' sizes together."""
        return sum((staging / name).stat().st_size for name in names)

    def apply(self, publication: Publication, staging: Path) -> None:
        """Rename staged files, append to what is beside the trail, and replace the manifest."""
        self._finish_last(publication.before)
        write_whole(Path(f"{self.prefix}.def"), publication.definitions)
        folder = Path(self.prefix).parent
        for file in publication.files:
            _place_file(staging, folder, file)
        sync_folder(folder)
        before = publication.before
        if publication.quarantine:
            parts = ((staging / name).open("rb") for name in publication.quarantine)
            append_lines(Path(self.quarantine()), before.quarantine, parts)
        if publication.captured:
            lines = [BytesIO(publication.captured)]
            append_lines(captured_path(self.prefix), before.captured, lines)
        write_manifest(self.prefix, publication.after)
        with suppress(OSError):  # what is published is done: the next run removes what is left
            remove_folder(staging)

    def _finish_last(self, before: Manifest) -> None:
        """Finish the file that a streaming query adds to, if there is one: others follow it now."""
        if before.growing is None:
            return
        path = Path(self.prefix).with_name(before.files[-1].name)
        size = before.files[-1].size
        patches = finishing_patches(path, size, before.growing)
        with writing(path):
            _patch(path, patches, size)

    def discard(self, staging: Path, names: Sequence[str] = ()) -> None:
        """Remove the folder."""
        del names  # the folder is this run's alone
        remove_folder(staging)

    def forget(self, staging: Path) -> None:
        """Remove the folder of the query: its batches follow one another."""
        remove_folder(staging.parent)


def _place_file(staging: Path, folder: Path, placed: PlacedFile) -> None:
    """Fill in a file's header and give it its name."""
    staged, final = staging / placed.staged, folder / placed.name
    with writing(final):
        _patch(staged, placed.patches)
        staged.replace(final)


def _patch(path: Path, patches: Iterable[tuple[int, bytes]], size: int | None = None) -> None:
    """Write bytes at offsets of a file, of which only the first ``size`` bytes are kept, and wait until they are on the disk."""
    with path.open("r+b") as file:
        if size is not None:
            file.truncate(size)
        for offset, data in patches:
            file.seek(offset)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
