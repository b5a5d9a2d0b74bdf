"""Publishing in an object store: a conditional put of the state decides, and a commit record states what follows.

Two puts publish. The first one puts the state with the name of a commit record, in place of the state that the run has read. The record states all
that is to be done: whoever finds it applies it, with the same bytes, however often and however late. Files of the folder get their names only then. The second
put is that of the state which the record has (decision 0040).

Each put raises the generation of the state. A run stages below a folder that begins with the generation that it has read. Once the state has a later one, the
tag that the run has is gone for good, so the put by which it would publish is refused, however long the run was paused. So what is staged below an
earlier generation can be deleted at once: that follows from what is in the store, without a clock or a lease (decision 0046). A folder of the generation
that is read is left alone, since its run may live; it is deleted after the next publication.
"""

from __future__ import annotations

import base64
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import writing
from trailgate.storage.publish.protocol import (
    RUN_RECORD,
    Backend,
    Commit,
    IsPublished,
    OvertakenError,
    Recovered,
    Sidecar,
    StagedFile,
    encode_run,
    overtaken_error,
    time_of_run,
)
from trailgate.storage.stores.object_store import ObjectStore, Pending, Range, check_conditions

HEAD: Final = (
    5 << 20
)  # bytes of a file that are read to change its header; the store copies the rest
AT_ONCE: Final = 8  # files that are given their names at once: a store answers slowly
OF_SPARK: Final = "SPARK_LOCAL_DIRS"  # set for the workers of Spark, for what they spill to disks
OF_STREAM: Final = "stream-"
UNREAD: Final = "?"  # the tag of a state that was not read
STATE: Final = ".published.json"  # the state of a folder that is not a trail's
STAGED: Final = ".publishing"
MAY_BE_DECIDED: Final = (
    "The next writer completes what was decided: see what is there before writing the same again"
)


class _CompletedError(Exception):
    """Another run has completed the publication meanwhile."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The whole content of a sidecar file, and the tag of the object that it replaces, None: there is none."""

    key: str
    over: str | None
    data: bytes


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """Staged files and their names, sidecar files, parts of a log, and the state that follows.

    ``folder`` is what the keys of the files begin with. Uploads among the files have their names already, and are completed first.
    """

    staging: str
    folder: str
    files: tuple[StagedFile, ...]
    sidecars: tuple[Replacement, ...]
    log: str
    parts: tuple[tuple[str, int], ...]
    after: bytes

    def encode(self) -> bytes:
        """Return the record's content."""
        fields = {
            "staging": self.staging,
            "folder": self.folder,
            "files": [
                [
                    file.staged,
                    file.name,
                    file.size,
                    [[at, _text(data)] for at, data in file.patches],
                ]
                for file in self.files
                if file.upload is None
            ],
            "beside": [[one.key, one.over, _text(one.data)] for one in self.sidecars],
            "quarantine": self.log,
            "parts": self.parts,
            "after": self.after.decode(),
            "uploads": [file.upload for file in self.files if file.upload is not None],
        }
        return json.dumps(fields).encode()

    @classmethod
    def parse(cls, data: bytes, path: str) -> Self:
        """Return the record that is an object's content; raises StorageError."""
        try:
            fields: dict[str, Any] = json.loads(data)
            files = [
                StagedFile(staged, name, size, tuple((at, _bytes(text)) for at, text in patches))
                for staged, name, size, patches in fields["files"]
            ]
            uploads = [
                StagedFile("", "", 0, upload=Pending(key, upload, tuple(tags)))
                for key, upload, tags in fields.get("uploads", ())
            ]
            return cls(
                fields["staging"],
                fields["folder"],
                (*files, *uploads),
                tuple(Replacement(key, over, _bytes(text)) for key, over, text in fields["beside"]),
                fields["quarantine"],
                tuple((name, size) for name, size in fields["parts"]),
                fields["after"].encode(),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            problem = f"the record of what is being published cannot be understood: {error!r}"
            raise StorageError(problem, where=Where(source=path)) from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def record_of(state: bytes) -> str:
    """Return the commit record that a state names; empty where it names none."""
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        return str(json.loads(state)["decided"]["record"])
    return ""


def generation_of(state: bytes) -> int:
    """Return the generation of a state; 0 where it has none, before which nothing is swept."""
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        return int(json.loads(state)["edition"])
    return 0


def scratch_folder() -> str | None:
    """Return the folder for temporary files; None: the system's.

    Workers of Spark have folders of their session's, on the disks that Spark is configured for. Spark deletes them when the session ends, so that nothing
    is left of a worker that was killed.
    """
    named = os.environ.get(OF_SPARK, "").split(",")
    there = [folder for folder in named if folder and os.access(folder, os.W_OK | os.X_OK)]
    return there[os.getpid() % len(there)] if there else None


@dataclass(frozen=True, slots=True)
class StoreFolder(Backend):
    """A prefix of a trail, or a folder of a bucket: ``folder`` is what keys begin with, ``stem`` what the names of a trail do.

    ``base`` is the tag of the state that is published over, None: there was none.
    """

    store: ObjectStore
    folder: str
    stem: str
    state_name: str
    base: str | None = UNREAD
    generation: int = 0

    @classmethod
    def of_trail(cls, store: ObjectStore, key: str) -> Self:
        """Return the backend of a trail."""
        folder, slash, stem = key.rpartition("/")
        return cls(store, folder + slash, stem, f"{stem}.manifest.json")

    @classmethod
    def of_folder(cls, store: ObjectStore, key: str) -> Self:
        """Return the backend of a folder, which has no state as far as is known."""
        return cls(store, f"{key.rstrip('/')}/", "", STATE, None)

    @property
    def name(self) -> str:
        """Return the address without credentials and parameters."""
        return self.store.shown(self._prefix if self.stem else self.folder.rstrip("/"))

    @property
    def appends(self) -> bool:
        """Return False: an object is put whole."""
        return False

    @property
    def _prefix(self) -> str:
        return self.folder + self.stem

    @property
    def _state(self) -> str:
        return self.folder + self.state_name

    @property
    def _hidden(self) -> str:
        """Return what the keys of all that a trail stages begin with."""
        return f"{self.folder}.{self.stem}."

    @property
    def _runs(self) -> str:
        """Return what the keys begin with that runs stage, followed by their generation."""
        return f"{self._hidden}staging/" if self.stem else f"{self.folder}{STAGED}/"

    def check(self) -> None:
        """Check that the store obeys conditions."""
        check_conditions(self.store, str(self.staging(f"check-{uuid.uuid4().hex[:8]}")))

    def recover(self) -> Recovered:
        """Return the state without a commit record, after applying the one that is there."""
        completed = False
        while True:
            found = self.store.read(self._state)
            if found is None:
                return Recovered(replace(self, base=None, generation=0), None, completed)
            record = record_of(found.data)
            if not record:
                own = replace(self, base=found.tag, generation=generation_of(found.data))
                return Recovered(own, found.data, completed)
            self._complete(record, found.tag)
            completed = True

    def state(self) -> bytes | None:
        """Return the state; raises OvertakenError where it is not the one that was recovered."""
        found = self.store.read(self._state)
        if self.base not in (UNREAD, None if found is None else found.tag):
            raise self._overtaken()
        return None if found is None else found.data

    def replace_state(self, state: Callable[[int], bytes]) -> Self:
        """Put the state in place of the one that was recovered."""
        tag = self.store.put(self._state, state(self.generation + 1), self.base)
        if tag is None:
            raise self._overtaken()
        return replace(self, base=tag, generation=self.generation + 1)

    def read(self, suffix: str) -> bytes | None:
        """Return an object."""
        found = self.store.read(self._prefix + suffix)
        return None if found is None else found.data

    def names(self, after: str = "") -> Iterator[str]:
        """Yield names of objects; those below folders have slashes."""
        found = self.store.list_keys(self._prefix, f"{self.folder}{after}" if after else "")
        return (key[len(self.folder) :] for key, _ in found if not key.startswith(self._runs))

    def staging(self, name: str) -> Path:
        """Return a hidden folder of this generation; streaming queries have their own."""
        if name.startswith(OF_STREAM):
            return Path(self._hidden + name)
        return Path(f"{self._runs}{self.generation:09}-{name}")

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Begin a folder of this run's own, with the time of an earlier one of its fingerprint."""
        self.check()
        wanted, above = fingerprint[:16], self._runs
        for key, _ in self.store.list_keys(above):
            own = re.fullmatch(rf"\d+-{wanted}-\w+/{re.escape(RUN_RECORD)}", key[len(above) :])
            found = self.store.read(key) if own else None
            if found is not None:
                now = time_of_run(found.data, fingerprint, now)
        staging = self.staging(f"{wanted}-{uuid.uuid4().hex[:8]}")
        self.store.put(f"{staging}/{RUN_RECORD}", encode_run(fingerprint, now), None)
        return staging, now

    @contextmanager
    def _overtaken_first(self, staging: Path) -> Iterator[None]:
        """Raise OvertakenError in place of an error in here, where another run has published: then it has swept what was staged."""
        try:
            yield
        except StorageError:
            if str(staging).startswith(self._runs):
                self.state()
            raise

    @contextmanager
    def filling(self, staging: Path) -> Iterator[Path]:
        """Give a temporary folder, and upload its files where nothing raises."""
        with TemporaryDirectory(prefix="trailgate-staged-", dir=scratch_folder()) as name:
            folder = Path(name)
            yield folder
            with self._overtaken_first(staging):
                for path in sorted(folder.iterdir()):
                    with writing(path):
                        self.store.upload(f"{staging}/{path.name}", path)
                        path.unlink()

    @contextmanager
    def file(
        self, staging: Path, staged: str, name: str
    ) -> Iterator[tuple[IO[bytes], list[StagedFile]]]:
        """Give an upload under the file's name. Nobody sees one that is not completed."""
        upload = self.store.begin(self.folder + name, later=True)
        made: list[StagedFile] = []
        try:
            with self._overtaken_first(staging):
                yield upload.file, made
                made.append(StagedFile(staged, name, 0, upload=upload.leave()))
        finally:
            upload.abort()

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return the files' sizes together."""
        return sum(self._sizes(staging, names).values()) if names else 0

    def _sizes(self, staging: Path, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of staged files; raises StorageError where one is not there."""
        above = f"{staging}/"
        sizes = {key[len(above) :]: size for key, size in self.store.list_keys(above)}
        for name in names:
            if name not in sizes:
                self.state()  # another run deletes what it has overtaken
                where = Where(source=self.store.shown(above + name))
                raise StorageError("the staged file is not there", where=where)
        return {name: sizes[name] for name in names}

    def commit(self, commit: Commit, staging: Path) -> None:
        """Decide by the state on a commit record, apply it, and sweep."""
        own = self._record(commit, staging)
        record = f"{staging}/decided-{uuid.uuid4().hex}.json"
        if self.store.put(record, own.encode(), None) is None:
            raise self._overtaken()
        try:
            tag = self.store.put(
                self._state, commit.deciding(self.generation + 1, record), self.base
            )
            if tag is not None:
                self._complete(record, tag, own)
        except StorageError as error:
            if not self._is_unchanged():
                error.hint = error.hint or MAY_BE_DECIDED
            raise
        if tag is None:
            raise self._overtaken()
        replace(self, generation=self.generation + 2).sweep(commit.is_published)

    def _record(self, commit: Commit, staging: Path) -> CommitRecord:
        """Return the commit record; raises StorageError where a staged file is not there, or has another size."""
        staged = [file for file in commit.files if file.upload is None]
        wanted = [*(file.staged for file in staged), *commit.parts]
        sizes = self._sizes(staging, wanted) if wanted else {}
        for file in staged:
            if sizes[file.staged] != file.size:
                problem = f"the staged file has {sizes[file.staged]} bytes, not {file.size}"
                where = Where(source=self.store.shown(f"{staging}/{file.staged}"))
                raise StorageError(problem, where=where)
        return CommitRecord(
            str(staging),
            self.folder,
            commit.files,
            tuple(map(self._replacement, commit.sidecars)),
            self.folder + commit.log,
            tuple((name, sizes[name]) for name in commit.parts),
            commit.state(self.generation + 2),
        )

    def _replacement(self, sidecar: Sidecar) -> Replacement:
        key = self.folder + sidecar.name
        found = self.store.read(key)
        if found is None:
            return Replacement(key, None, sidecar.data)
        return Replacement(key, found.tag, found.data[: sidecar.kept or 0] + sidecar.data)

    def _is_unchanged(self) -> bool:
        """Return whether the state is surely the one that was recovered."""
        try:
            self.state()
        except StorageError:
            return False
        return True

    def _complete(self, record: str, tag: str, own: CommitRecord | None = None) -> None:
        """Apply a commit record, and replace the state that names it; others may do the same at the same time.

        ``tag`` is that of the state. Nothing happens where another run was faster.
        """
        try:
            own = self._read_record(record) if own is None else own
            self._apply(own, record)
        except _CompletedError:
            return
        except StorageError:
            if self._names(record):
                raise
            return  # another run has completed it, and deleted what was staged
        if self.store.put(self._state, own.after, tag) is None and self._names(record):
            raise self._overtaken()

    def _overtaken(self) -> OvertakenError:
        return overtaken_error(self.store.shown(self._state))

    def _read_record(self, record: str) -> CommitRecord:
        shown = self.store.shown(record)
        found = self.store.read(record)
        if found is None:
            problem = "the record of what is being published is gone"
            raise StorageError(problem, where=Where(source=shown))
        return CommitRecord.parse(found.data, shown)

    def _names(self, record: str) -> bool:
        """Return whether the state names a record."""
        found = self.store.read(self._state)
        return found is not None and record_of(found.data) == record

    def _apply(self, own: CommitRecord, record: str) -> None:
        """Do what a record states, but for the state."""
        uploads = [file.upload for file in own.files if file.upload is not None]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(self.store.complete, uploads):
                pass
        for one in own.sidecars:
            over = one.over
            while self.store.put(one.key, one.data, over) is None:
                found = self.store.read(one.key)
                if not self._names(record):
                    raise _CompletedError
                # While the record is named nothing later can have been published: somebody else has changed the file.
                over = None if found is None else found.tag
        files = [file for file in own.files if file.upload is None]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda file: self._place_file(own, file), files):
                pass
        if own.parts:
            pieces = [Range(f"{own.staging}/{name}", 0, size) for name, size in own.parts]
            self.store.compose(own.log, pieces)

    def _place_file(self, own: CommitRecord, file: StagedFile) -> None:
        """Write a staged file under its name, with its header."""
        source = f"{own.staging}/{file.staged}"
        head = bytearray(self.store.part(Range(source, 0, min(HEAD, file.size))))
        for offset, data in file.patches:
            head[offset : offset + len(data)] = data
        rest = Range(source, len(head), file.size)
        self.store.compose(f"{own.folder}{file.name}", [bytes(head), rest])

    def discard(
        self, staging: Path, names: Sequence[str] = (), is_own: IsPublished | None = None
    ) -> None:
        """Delete staged objects, but not those that the state has decided on."""
        found = self.store.read(self._state)
        if found is not None and record_of(found.data).startswith(f"{staging}/"):
            return
        if names:
            self.store.delete(f"{staging}/{name}" for name in names)
            return
        self._delete_below(f"{staging}/", bool)
        self._sweep_runs()
        if is_own is not None:
            self._abandon(is_own)

    def forget(self, staging: Path) -> None:
        """Delete what batches up to this one staged; a later one may be under way, if the query was started twice."""
        above = f"{staging.parent}/"
        self._delete_below(above, lambda key: key[len(above) :].partition("/")[0] <= staging.name)

    def sweep(self, is_published: IsPublished) -> None:
        """Delete what runs of earlier generations left, and unfinished uploads of files that are published: of a run that was slower than the one that completed it."""
        with suppress(StorageError):  # what is published is done: the next run deletes what is left
            self._abandon(is_published)
            self._sweep_runs()

    def _sweep_runs(self) -> None:
        above = self._runs

        def is_left(key: str) -> bool:
            number = key[len(above) :].partition("-")[0]
            return number.isdecimal() and int(number) < self.generation

        self._delete_below(above, is_left)

    def _abandon(self, wanted: IsPublished) -> None:
        """Delete the parts of unfinished uploads of wanted names."""
        self.store.abandon(self._prefix, lambda key: wanted(key[len(self.folder) :]))

    def _delete_below(self, above: str, wanted: Callable[[str], bool]) -> None:
        """Delete staged objects, and the parts of those that were not finished."""
        self.store.delete(key for key, _ in self.store.list_keys(above) if wanted(key))
        self.store.abandon(above, wanted)
