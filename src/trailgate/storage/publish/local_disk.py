"""Publishing on a local disk: a lock of the system decides between two runs, and staged files are renamed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Final, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import LOCAL, absolute, bytes_if_present
from trailgate.storage.files.durable import lock, remove_folder, sync_folder, write_whole, writing
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.publish.protocol import (
    RUN_RECORD,
    Backend,
    Commit,
    IsPublished,
    Patches,
    Recovered,
    StagedFile,
    encode_run,
    time_of_run,
)

RUNS: Final = "staging"  # the folder of runs that hold the trail one after the other


@dataclass(frozen=True, slots=True)
class LocalDisk(Backend):
    """A prefix of a trail, or a folder; ``state_name`` is the name of the state file in the folder."""

    path: str
    state_name: str
    is_folder: bool = False

    @property
    def name(self) -> str:
        """Return the path."""
        return self.path

    @property
    def folder(self) -> Path:
        """Return the folder that files are published into."""
        return Path(self.name) if self.is_folder else Path(self.name).parent

    @property
    def _stem(self) -> str:
        return "" if self.is_folder else Path(self.name).name

    @property
    def appends(self) -> bool:
        """Return True: a file grows."""
        return True

    def held(self) -> AbstractContextManager[None]:
        """Hold the trail or the folder by a lock of the system."""
        return lock(self.name)

    def check(self) -> None:
        """Do nothing: the lock decides."""

    def recover(self) -> Recovered:
        """Return the state: while the lock is held it stays the same."""
        return Recovered(self, self.state())

    def state(self) -> bytes | None:
        """Return the state."""
        return self._read(self.folder / self.state_name)

    def replace_state(self, state: Callable[[int], bytes]) -> Self:
        """Replace the state, whole or not at all."""
        replace_state(self.folder / self.state_name, state(0))
        return self

    def read(self, suffix: str) -> bytes | None:
        """Return a file."""
        return self._read(Path(f"{self.name}{suffix}"))

    def _read(self, path: Path) -> bytes | None:
        try:
            return bytes_if_present(LOCAL, str(path))
        except OSError as error:
            problem = f"the file cannot be read: {error}"
            raise StorageError(problem, where=Where(source=str(path))) from error

    def names(self, after: str = "") -> Iterator[str]:
        """Yield the names of files and folders."""
        with writing(self.folder):
            found = [path.name for path in self.folder.iterdir()] if self.folder.exists() else []
        return (name for name in sorted(found) if name.startswith(self._stem) and name > after)

    def staging(self, name: str) -> Path:
        """Return a hidden folder."""
        dotted = f".{self._stem}.{name}" if self._stem else f".{name}"
        return self.folder.absolute() / dotted

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Empty the one folder of runs."""
        staging = self.staging(RUNS)
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

    @contextmanager
    def file(
        self, staging: Path, staged: str, name: str
    ) -> Iterator[tuple[IO[bytes], list[StagedFile]]]:
        """Give a file of the folder."""
        path = staging / staged
        made: list[StagedFile] = []
        with writing(path), path.open("wb") as file:
            yield file, made
        made.append(StagedFile(staged, name, path.stat().st_size))

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return the files' sizes together."""
        return sum((staging / name).stat().st_size for name in names)

    def commit(self, commit: Commit, staging: Path) -> None:
        """Rename staged files, write the sidecar files, and replace the state."""
        if commit.finished is not None:
            path = self.folder / commit.finished.name
            with writing(path):
                _patch(path, commit.finished.patches, commit.finished.size)
        for sidecar in commit.sidecars:
            if sidecar.kept is None:
                write_whole(self.folder / sidecar.name, sidecar.data)
        for file in commit.files:
            _place_file(staging, self.folder, file)
        for folder in {self.folder, *((self.folder / file.name).parent for file in commit.files)}:
            sync_folder(folder)
        if commit.parts:
            parts = ((staging / name).open("rb") for name in commit.parts)
            append_lines(self.folder / commit.log, commit.kept, parts)
        for sidecar in commit.sidecars:
            if sidecar.kept is not None:
                append_lines(self.folder / sidecar.name, sidecar.kept, [BytesIO(sidecar.data)])
        replace_state(self.folder / self.state_name, commit.state(0))
        with suppress(OSError):  # what is published is done: the next run removes what is left
            remove_folder(staging)

    def discard(
        self, staging: Path, names: Sequence[str] = (), is_own: IsPublished | None = None
    ) -> None:
        """Remove the folder: it is this run's alone."""
        del names, is_own
        remove_folder(staging)

    def forget(self, staging: Path) -> None:
        """Remove the folder of the query: its batches follow one another."""
        remove_folder(staging.parent)

    def absolute(self) -> Self:
        """Return the backend with its absolute path."""
        return replace(self, path=absolute(self.path))


def replace_state(path: Path, data: bytes) -> None:
    """Replace a state file, whole or not at all."""
    write_whole(path, data)


def _place_file(staging: Path, folder: Path, file: StagedFile) -> None:
    """Fill in a file's header and give it its name."""
    staged, final = staging / file.staged, folder / file.name
    with writing(final):
        _patch(staged, file.patches)
        if "/" in file.name:
            final.parent.mkdir(exist_ok=True)
        staged.replace(final)


def _patch(path: Path, patches: Patches, size: int | None = None) -> None:
    """Write bytes at offsets of a file, of which only the first ``size`` bytes are kept, and wait until they are on the disk."""
    with path.open("r+b") as file:
        if size is not None:
            file.truncate(size)
        for offset, data in patches:
            file.seek(offset)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
