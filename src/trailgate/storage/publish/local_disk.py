"""Publish on a local disk: an operating system lock prevents concurrent runs, and staged files are renamed.

The steps are those of ``protocol.py``. Files are staged in a hidden folder beside the trail, such as
``dirdat/.ot.staging``. The state file, such as ``dirdat/ot.manifest.json``, is replaced last, and only
after all renames are on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Final, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import LOCAL, absolute
from trailgate.storage.files.durable import (
    convert_write_errors,
    remove_temporary_folder,
    replace_whole_file,
    sync_folder,
)
from trailgate.storage.files.locks import lock
from trailgate.storage.files.quarantine import append_files, append_lines
from trailgate.storage.files.text_files import read_if_exists
from trailgate.storage.publish.protocol import (
    RUN_RECORD,
    CommitPlan,
    IsPublished,
    Patches,
    PublishBackend,
    RecoveredState,
    StagedFile,
    encode_run_start,
    read_run_time,
)

RUNS: Final = "staging"  # the folder in which runs stage files, one after the other


@dataclass(frozen=True, slots=True)
class LocalBackend(PublishBackend):
    """Publishes to a trail or a folder on a local disk.

    ``path`` is the trail's prefix, such as ``dirdat/ot``, or the folder if ``is_folder``.
    ``state_name`` is the file in the folder that records the progress.
    """

    path: str
    state_name: str
    is_folder: bool = False

    @property
    def name(self) -> str:
        """The path of the local trail or folder."""
        return self.path

    @property
    def folder(self) -> Path:
        """The local folder that files are published into."""
        return Path(self.name) if self.is_folder else Path(self.name).parent

    @property
    def _stem(self) -> str:
        return "" if self.is_folder else Path(self.name).name

    @property
    def appends(self) -> bool:
        """True: local files can grow in place."""
        return True

    def locked(self) -> AbstractContextManager[None]:
        """Lock the local trail or folder with an operating system lock."""
        return lock(self.name)

    def check(self) -> None:
        """Do nothing: the operating system lock prevents concurrent runs."""

    def recover(self) -> RecoveredState:
        """Return the state file's content, which cannot change while the lock is held."""
        return RecoveredState(self, self.state())

    def state(self) -> bytes | None:
        """Read the local state file, or return None if nothing was published yet."""
        return self._read(self.folder / self.state_name)

    def replace_state(self, state: Callable[[int], bytes]) -> Self:
        """Replace the local state file atomically, by a rename."""
        replace_state(self.folder / self.state_name, state(0))
        return self

    def read(self, suffix: str) -> bytes | None:
        """Read a local file beside the trail, or return None if it does not exist."""
        return self._read(Path(f"{self.name}{suffix}"))

    def _read(self, path: Path) -> bytes | None:
        try:
            return read_if_exists(LOCAL, str(path))
        except OSError as error:
            problem = f"the file cannot be read: {error}"
            raise StorageError(problem, where=Where(source=str(path))) from error

    def names(self, after: str = "") -> Iterator[str]:
        """Yield the local names that begin with the trail's name and sort after ``after``, sorted."""
        with convert_write_errors(self.folder):
            names = [path.name for path in self.folder.iterdir()] if self.folder.exists() else []
        return (name for name in sorted(names) if name.startswith(self._stem) and name > after)

    def size(self, name: str) -> int | None:
        """Return the size of a local file, or None if it does not exist."""
        path = self.folder / name
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = f"the file cannot be examined: {error}"
            raise StorageError(problem, where=Where(source=str(path))) from error

    def staging(self, name: str) -> Path:
        """Return the path of a hidden local folder for staged files."""
        dotted = f".{self._stem}.{name}" if self._stem else f".{name}"
        return self.folder.absolute() / dotted

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Empty the local folder in which all runs stage files, one run after the other.

        Returns the folder and the run's time.
        """
        staging = self.staging(RUNS)
        record = staging / RUN_RECORD
        with suppress(OSError):  # no earlier run
            now = read_run_time(record.read_bytes(), fingerprint, now)
        self.create_staging(staging)
        replace_whole_file(record, encode_run_start(fingerprint, now))
        for path in staging.iterdir():
            if path != record:
                path.unlink()
        return staging, now

    def create_staging(self, staging: Path) -> None:
        """Create the local folder for staged files."""
        with convert_write_errors(staging):
            staging.mkdir(parents=True, exist_ok=True)

    def has_staging(self, staging: Path) -> bool:
        """Return whether the local folder for staged files exists."""
        return staging.is_dir()

    @contextmanager
    def staged_folder(self, staging: Path) -> Iterator[Path]:
        """Yield the local staging folder itself, because nothing has to be uploaded."""
        yield staging

    @contextmanager
    def file(
        self, staging: Path, staged: str, name: str
    ) -> Iterator[tuple[IO[bytes], list[StagedFile]]]:
        """Create a staged file on the local disk.

        Yields the open file, and a list that gets its ``StagedFile`` when it is closed.
        """
        path = staging / staged
        staged_files: list[StagedFile] = []
        with convert_write_errors(path), path.open("wb") as file:
            yield file, staged_files
        staged_files.append(StagedFile(staged, name, path.stat().st_size))

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return the total size of staged files on the local disk."""
        return sum((staging / name).stat().st_size for name in names)

    def commit(self, commit: CommitPlan, staging: Path) -> None:
        """Rename the staged local files to their final names, write the sidecar files, and replace the state file."""
        if commit.finished is not None:
            path = self.folder / commit.finished.name
            with convert_write_errors(path):
                _patch(path, commit.finished.patches, commit.finished.size)
        for sidecar in commit.sidecars:
            if sidecar.kept is None:
                replace_whole_file(self.folder / sidecar.name, sidecar.data)
        for file in commit.files:
            _place_file(staging, self.folder, file)
        if commit.parts:
            append_files(
                self.folder / commit.log, commit.kept, [staging / name for name in commit.parts]
            )
        # Renames are only durable once the folders are synced; the state must not be replaced before.
        for folder in {self.folder, *((self.folder / file.name).parent for file in commit.files)}:
            sync_folder(folder)
        for sidecar in commit.sidecars:
            if sidecar.kept is not None:
                append_lines(self.folder / sidecar.name, sidecar.kept, [BytesIO(sidecar.data)])
        replace_state(self.folder / self.state_name, commit.state(0))
        with suppress(OSError):  # publishing has succeeded; the next run deletes the rest
            remove_temporary_folder(staging)

    def discard(
        self, staging: Path, names: Sequence[str] | None = None, is_own: IsPublished | None = None
    ) -> None:
        """Delete the named files in the local staging folder, or the complete folder."""
        del is_own
        if names is None:
            remove_temporary_folder(staging)
            return
        with convert_write_errors(staging):
            for name in names:
                (staging / name).unlink(missing_ok=True)

    def discard_query(self, staging: Path) -> None:
        """Delete the local folders that a streaming query's batches up to this one have staged files in.

        A later batch may be running if the query was started twice.
        """
        with suppress(FileNotFoundError):
            for folder in sorted(staging.parent.iterdir()):
                # A folder whose removal was interrupted is named such as 000000007.removed.
                if folder.name.partition(".")[0] <= staging.name:
                    remove_temporary_folder(folder)
        with suppress(OSError):  # a later batch has a folder here
            staging.parent.rmdir()

    def absolute(self) -> Self:
        """Return the local backend with an absolute path."""
        return replace(self, path=absolute(self.path))


def replace_state(path: Path, data: bytes) -> None:
    """Replace a state file on a local disk atomically."""
    replace_whole_file(path, data)


def _place_file(staging: Path, folder: Path, file: StagedFile) -> None:
    """Patch the header of a staged file on the local disk, and rename it."""
    staged, final = staging / file.staged, folder / file.name
    with convert_write_errors(final):
        _patch(staged, file.patches)
        if "/" in file.name:
            final.parent.mkdir(exist_ok=True)
        staged.replace(final)


def _patch(path: Path, patches: Patches, size: int | None = None) -> None:
    """Truncate a local file to ``size``, if given, write bytes at offsets, and sync it."""
    with path.open("r+b") as file:
        if size is not None:
            file.truncate(size)
        for offset, data in patches:
            file.seek(offset)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
