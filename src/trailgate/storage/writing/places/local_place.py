"""A trail on a local disk: one run holds it at a time, and staged files are renamed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Self

from trailgate.model.tables import Definitions
from trailgate.storage.files.checkpoint import checkpoint_path
from trailgate.storage.files.definitions_file import trail_definitions
from trailgate.storage.files.durable import remove_folder, sync_folder, write_whole, writing
from trailgate.storage.files.listing import files_on_disk
from trailgate.storage.files.lock import locked
from trailgate.storage.files.manifest import (
    CapturedFile,
    Manifest,
    captured_path,
    read_captured,
    read_manifest,
    write_manifest,
)
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.writing.growing_header import finishing_patches
from trailgate.storage.writing.places.publication import PlacedFile, Publication
from trailgate.storage.writing.places.run_record import RUN_RECORD, encode_run, time_of_run


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
        return locked(self.prefix)

    def checked(self) -> None:
        """Do nothing: the lock decides."""

    def opened(self) -> tuple[Self, Manifest | None]:
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

    def captured(self, size: int) -> tuple[CapturedFile, ...]:
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

    def carry_out(self, publication: Publication, staging: Path) -> None:
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
