"""How a run publishes: it stages files, and one state file decides what is published.

Trails, folders of messages and folders of Parquet files are published by the same steps. They differ in their state file (``ot.manifest.json``,
``.published.json``, ``_SUCCESS``) and in the names of their files. ``LocalDisk`` and ``StoreFolder`` are the two backends.

    stage     files are written under hidden names, which no reader looks at
    decide    the run states all that it is going to do; from then on it is done, whatever happens to the run
    apply     files get their names, and the sidecar files their content
    publish   the state file is replaced: readers see all of it now
    sweep     what was staged and is not needed any more is deleted

A run can be killed between any two steps. What is there then, and who deals with it:

    killed                 local disk                                   store
    while staging          hidden files: the next run deletes them      objects of the run's own folder: deleted when the generation has changed
    after deciding         (nothing is decided before the state)        the state names a commit record: the next run applies it first
    while applying         files without a mention in the state: the    the same: each step of a commit record gives the same bytes, whoever
                           next run writes them again                   does it, however often
    after publishing       hidden files: the next run deletes them      staged objects: swept by the next run

On a local disk one run holds the trail or folder by a lock, so nobody else can publish between its reading of the state and its replacing it. The names that a
killed run has given are given again by the next one. A store has no lock that ends with its process: there the state is put only in place of the one
that the run has read, and each put of it has a higher generation (decisions 0040, 0046 and 0071).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.stores.object_store import Pending

Patches = tuple[tuple[int, bytes], ...]
IsPublished = Callable[[str], bool]  # whether a name of the folder is published
RUN_RECORD: Final = "run.json"


class OvertakenError(StorageError):
    """Another run has published since this one began; nothing of this one is published."""


def overtaken_error(state: str) -> OvertakenError:
    """Return the error of a run that was not the first to replace a state."""
    problem = "another run has published here since this one began"
    hint = "Nothing of this one is published: run it again"
    return OvertakenError(problem, where=Where(source=state), hint=hint)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged file, and the name that it gets; ``patches`` (offset, bytes) are written over its header.

    In a store it may be an upload, which has its name already, and is seen when it is completed.
    """

    staged: str
    name: str
    size: int
    patches: Patches = ()
    upload: Pending | None = None


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A file beside the published ones: the first ``kept`` bytes of the one that is there, and ``data``."""

    name: str
    data: bytes
    kept: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """All that one publication does.

    ``state`` gives the state file for its generation, and ``deciding`` the one before it, with the name of a commit record; only stores need that.
    ``parts`` are staged files that are appended to the file ``log`` after its first ``kept`` bytes. ``finished`` is a published file whose header is
    completed, since others follow it now; ``is_published`` knows the names that no unfinished upload can be of.
    """

    files: tuple[StagedFile, ...]
    state: Callable[[int], bytes]
    deciding: Callable[[int, str], bytes]
    is_published: IsPublished
    sidecars: tuple[Sidecar, ...] = ()
    parts: tuple[str, ...] = ()
    log: str = ""
    kept: int = 0
    finished: StagedFile | None = None


class Recovered(NamedTuple):
    """A backend that publishes over the state that it has read, and that state; ``completed``: what another run had decided was applied first."""

    backend: Backend
    state: bytes | None
    completed: bool = False


class Backend(Protocol):
    """Where a trail or a folder is published. Values can be pickled; staged files are in folders, which ``staging`` names.

    What has a body here is the same for backends that have nothing to do in that step.
    """

    __slots__ = ()

    @property
    def generation(self) -> int:
        """Return the generation of the state that was recovered; 0 on a local disk."""
        return 0

    @property
    def name(self) -> str:
        """Return what headers, messages and summaries call the trail or the folder; without credentials."""

    @property
    def appends(self) -> bool:
        """Return whether files can be added to in place."""

    def held(self) -> AbstractContextManager[None]:
        """Hold the trail or folder for one run, where the backend can; raises StorageError where another run holds it."""
        return nullcontext()

    def check(self) -> None:
        """Raise StorageError where the backend cannot decide between two runs."""

    def recover(self) -> Recovered:
        """Apply what an interrupted run has decided, and return the state, None: there is none."""

    def state(self) -> bytes | None:
        """Return the state as it is; raises OvertakenError where it is not the one that was recovered."""

    def replace_state(self, state: Callable[[int], bytes]) -> Self:
        """Replace the state without publishing files; raises OvertakenError."""

    def read(self, suffix: str) -> bytes | None:
        """Return the file whose name is the trail's and a suffix; None where there is none."""

    def names(self, after: str = "") -> Iterator[str]:
        """Yield the names in the folder that begin as those of the trail, and follow ``after``; staged objects of a store are left out."""

    def staging(self, name: str) -> Path:
        """Return a hidden folder of staged files."""

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Return an empty folder of staged files, and the time of an earlier run of this fingerprint that was interrupted, else ``now``."""

    def make(self, staging: Path) -> None:
        """Make a folder of staged files; a store has none."""
        del staging

    def is_made(self, staging: Path) -> bool:
        """Return whether files can be staged in a folder: it was made, and not discarded.

        A store has no folders: what a task stages after its job ended is deleted by the next publication.
        """
        del staging
        return True

    def filling(self, staging: Path) -> AbstractContextManager[Path]:
        """Give a local folder; the files that are in it at the end are staged, where nothing raises."""

    def file(
        self, staging: Path, staged: str, name: str
    ) -> AbstractContextManager[tuple[IO[bytes], list[StagedFile]]]:
        """Give a file to write, and a list for the staged file that it becomes; another attempt has another one."""

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return how many bytes staged files have together."""

    def commit(self, commit: Commit, staging: Path) -> None:
        """Decide, apply, publish and sweep; each step can be done again after a crash. Raises OvertakenError."""

    def discard(
        self, staging: Path, names: Sequence[str] = (), is_own: IsPublished | None = None
    ) -> None:
        """Delete a folder of staged files, or the named ones in it, and unfinished uploads of ``is_own`` names; what is decided on stays."""

    def forget(self, staging: Path) -> None:
        """Delete what the batches of a query staged up to the one of this folder, which is committed."""

    def sweep(self, is_published: IsPublished) -> None:
        """Delete what killed runs have left that nobody can publish any more; on a local disk each run empties what it stages in."""
        del is_published

    def absolute(self) -> Self:
        """Return the backend as other working folders name it."""
        return self


def encode_run(fingerprint: str, now: int) -> bytes:
    """Return the record of a run that began at a time, in nanoseconds: a run that repeats an interrupted one keeps its time."""
    return json.dumps({"fingerprint": fingerprint, "now": now}).encode()


def time_of_run(record: bytes, fingerprint: str, now: int) -> int:
    """Return the time of a run's record if it is of that fingerprint, else ``now``; any bytes may be in it."""
    try:
        earlier = json.loads(record)
        return int(earlier["now"]) if earlier["fingerprint"] == fingerprint else now
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
        return now
