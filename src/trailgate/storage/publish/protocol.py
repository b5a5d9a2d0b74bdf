"""The protocol of publishing: a run stages files, and one state file decides which files are published.

Trails, folders of messages and folders of Parquet files are published in the same steps. They
differ in their state file (``ot.manifest.json``, ``.published.json``, ``_SUCCESS``) and in the
names of their files. ``LocalBackend`` and ``StoreBackend`` are the two backends.

    stage     write files under hidden names, which readers ignore
    decide    record everything that the run is going to do; from then on it will be done, even if the run is killed
    apply     give the files their names, and write the sidecar files
    publish   replace the state file: now readers see all of it
    sweep     delete staged files that are no longer needed

A run can be killed between any two steps. This is what it leaves, and how that is repaired:

    killed                 local disk                                   object store
    while staging          hidden files: deleted by the next run        objects in the run's folder: deleted once the generation has changed
    after deciding         (there is no separate decision)              the state names a commit record: the next run applies it first
    while applying         files that the state does not mention:       the same files: every step of a commit record gives the same bytes,
                           overwritten by the next run                  whoever applies it, however often
    after publishing       hidden files: deleted by the next run        staged objects: swept by the next run

On a local disk a run locks the trail or folder, so nobody else can publish between reading the
state and replacing it. The next run reuses the file names of a killed one. A store has no lock that
ends with its process. There the state is replaced only if it is still the state that the run has
read, and each put increases its generation (decisions 0040, 0046 and 0071).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.stores.object_store import PendingUpload

Patches = tuple[tuple[int, bytes], ...]
IsPublished = Callable[[str], bool]  # whether a name of the folder is published
RUN_RECORD: Final = "run.json"


class OvertakenError(StorageError):
    """Raised if another run has published to the trail or folder since this run began.

    Nothing of this run is published.
    """


def overtaken_error(state: str) -> OvertakenError:
    """Build the error of a run whose state was replaced by another run."""
    problem = "another run has published here since this one began"
    hint = "Nothing of this one is published: run it again"
    return OvertakenError(problem, where=Where(source=state), hint=hint)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged file and its final name. ``patches`` (offset, bytes) are written over its header.

    ``staged`` is its name in the staging folder, and ``size`` its size there. In a store it may be
    an upload instead, which already has its final name and becomes visible when it is completed.
    """

    staged: str
    name: str
    size: int
    patches: Patches = ()
    upload: PendingUpload | None = None


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """A file beside the published files, such as the definitions of a trail's tables.

    Its new content is ``data``, or if ``kept`` is not None, the first ``kept`` bytes of the
    existing file and then ``data``.
    """

    name: str
    data: bytes
    kept: int | None = None


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The plan of one publication: the staged files, sidecar files and state that it commits.

    ``state`` returns the content of the new state file for a generation. In a store, a state that
    only names a commit record is written first; ``deciding`` returns it for a generation and the
    record's key. ``parts`` are staged files that are appended to the file ``log`` (the quarantine
    file of a trail) after its first ``kept`` bytes. ``finished`` is a published file whose header
    is completed now, because other files follow it. ``is_published`` returns whether a file name is
    published once the plan is committed.
    """

    files: tuple[StagedFile, ...]
    state: Callable[[int], bytes]
    deciding: Callable[[int, str], bytes]
    is_published: IsPublished
    sidecars: tuple[SidecarFile, ...] = ()
    parts: tuple[str, ...] = ()
    log: str = ""
    kept: int = 0
    finished: StagedFile | None = None


class RecoveredState(NamedTuple):
    """The state of a trail or folder after recovery, and a backend that can only replace exactly this state.

    ``completed`` means that the publication of an interrupted run was completed first.
    """

    backend: PublishBackend
    state: bytes | None
    completed: bool = False


class PublishBackend(Protocol):
    """The interface of the places where a trail or folder is published: a local disk or an object store.

    Backends can be pickled. Files are first written to staging folders, which ``staging`` names.
    A method with a body here is optional: the body is its default.
    """

    __slots__ = ()

    @property
    def generation(self) -> int:
        """Return the generation of the recovered state; 0 on a local disk."""
        return 0

    @property
    def name(self) -> str:
        """Return the name of the trail or folder for headers, messages and summaries, without credentials."""

    @property
    def appends(self) -> bool:
        """Whether published files can grow in place."""

    def locked(self) -> AbstractContextManager[None]:
        """Lock the trail or folder for one run, if the backend can.

        Raises StorageError if another run has locked it.
        """
        return nullcontext()

    def check(self) -> None:
        """Raise StorageError if the backend cannot prevent two concurrent runs from both publishing."""

    def recover(self) -> RecoveredState:
        """Complete the publication that an interrupted run had decided on, if any, and return the state.

        The state's content is None if nothing was published yet.
        """

    def state(self) -> bytes | None:
        """Return the current state of the trail or folder.

        Raises OvertakenError if it is not the recovered state.
        """

    def replace_state(self, state: Callable[[int], bytes]) -> Self:
        """Replace the recovered state without publishing files, and return the backend for the new one.

        ``state`` returns the new content for a generation. Raises OvertakenError if the state has
        changed.
        """

    def read(self, suffix: str) -> bytes | None:
        """Return the file whose name is the trail's name and a suffix, or None if it does not exist."""

    def names(self, after: str = "") -> Iterator[str]:
        """Yield the names in the folder that begin with the trail's name and sort after ``after``.

        Staged objects of a store are not included.
        """

    def size(self, name: str) -> int | None:
        """Return the size of a published file, or None if it does not exist."""

    def staging(self, name: str) -> Path:
        """Return the hidden folder for staged files with this name."""

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Return an empty folder for staged files, and the time of the run (microseconds since 1970).

        ``fingerprint`` is a digest of the run's input and options. If a run with the same
        fingerprint was interrupted, the time is that of the interrupted run, so that the repeated
        run stages the same bytes; otherwise it is ``now``.
        """

    def create_staging(self, staging: Path) -> None:
        """Create a folder for staged files. A store has no folders."""
        del staging

    def has_staging(self, staging: Path) -> bool:
        """Return whether files can be staged in a folder: it was created and has not been deleted.

        A store has no folders. Files that a task stages after its job has ended are deleted by the
        next publication.
        """
        del staging
        return True

    def staged_folder(self, staging: Path) -> AbstractContextManager[Path]:
        """Context manager: a local folder whose files are staged at the end, unless the block raises."""

    def file(
        self, staging: Path, staged: str, name: str
    ) -> AbstractContextManager[tuple[IO[bytes], list[StagedFile]]]:
        """Context manager: a file to write, and a list that gets its ``StagedFile`` when it is closed.

        ``staged`` is its name in the folder, and ``name`` its final name. Attempts at the same file
        that may run at the same time need different names ``staged``.
        """

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return the total size of the staged files with these names."""

    def commit(self, commit: CommitPlan, staging: Path) -> None:
        """Publish: write the decision, give the staged files their names, and delete what remains.

        Each step can be repeated after a crash. Raises OvertakenError.
        """

    def discard(
        self, staging: Path, names: Sequence[str] | None = None, is_own: IsPublished | None = None
    ) -> None:
        """Delete a folder of staged files, or if ``names`` is not None, only the named files in it.

        Nothing is deleted if the state names a commit record in this folder, because the files will
        be published. Unfinished uploads are deleted too if ``is_own`` returns true for their names.
        """

    def discard_query(self, staging: Path) -> None:
        """Delete all files that a streaming query has staged up to this folder's batch, which is committed."""

    def sweep(self, is_published: IsPublished) -> None:
        """Delete the files of killed runs that no run can publish any more.

        On a local disk this does nothing, because each run empties its staging folder when it
        begins.
        """
        del is_published

    def absolute(self) -> Self:
        """Return the backend with a name that is valid in other working folders."""
        return self


def encode_run_start(fingerprint: str, now: int) -> bytes:
    """Encode the JSON state file of a run that began to publish at ``now``, in microseconds since 1970.

    If the run is interrupted and started again, it reads its time from this file.
    """
    return json.dumps({"fingerprint": fingerprint, "now": now}).encode()


def read_run_time(record: bytes, fingerprint: str, now: int) -> int:
    """Return the time in a run's record if its fingerprint matches, or else ``now``. The record may be damaged."""
    try:
        earlier = json.loads(record)
        return int(earlier["now"]) if earlier["fingerprint"] == fingerprint else now
    # Anything can be in a damaged record. Nested too deeply, it raises RecursionError, and a
    # ``now`` of Infinity raises OverflowError.
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
        return now
