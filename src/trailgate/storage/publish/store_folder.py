"""Publish in an object store: a conditional put of the state decides, and a commit record describes the rest.

Publishing takes two puts of the state. The first one replaces the state that the run has read with
a state that names a commit record. The record describes everything that must be done: any run that
finds it applies it, with the same bytes, however often and however late. Only then do the files get
their names. The second put is the final state, which is also in the record (decision 0040).

Each put increases the generation of the state. A run stages below a folder whose name begins with
the generation that it has read. After the state has got a later generation, the run's put can never
succeed, however long the run was paused, because it names a tag that no longer exists. Everything
staged below an earlier generation can therefore be deleted at once. This follows from the contents
of the store alone, without clocks or leases (decision 0046). Folders of the current generation are
not deleted, because their runs may still be alive; the next publication deletes them.
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
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.publish.protocol import (
    RUN_RECORD,
    CommitPlan,
    IsPublished,
    OvertakenError,
    PublishBackend,
    RecoveredState,
    SidecarFile,
    StagedFile,
    encode_run_start,
    overtaken_error,
    read_run_time,
)
from trailgate.storage.stores.object_store import (
    ObjectRange,
    ObjectStore,
    PendingUpload,
    check_conditions,
)

# Bytes of a file that are read to change its header; the store copies the rest.
HEAD: Final = 5 << 20
AT_ONCE: Final = 8  # parallel requests, since a store answers slowly
OF_SPARK: Final = "SPARK_LOCAL_DIRS"  # set for Spark's workers: the folders that they spill to
OF_STREAM: Final = "stream-"
UNREAD: Final = "?"  # the tag of a state that was not read yet
STATE: Final = ".published.json"  # the state file of a folder other than a trail's
STAGED: Final = ".publishing"
MAY_BE_DECIDED: Final = "The next writer completes this run if it had decided to publish: check the published files before writing the same again"


class _CompletedError(Exception):
    """Raised internally if another run has completed the publication first."""


@dataclass(frozen=True, slots=True)
class SidecarReplacement:
    """A sidecar file in a store: its complete content, and the tag of the object that it replaces.

    The tag ``over`` is None if the object does not exist yet.
    """

    key: str
    over: str | None
    data: bytes


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The commit record of a publication in a store: everything that must be done to complete it.

    ``staging`` is the folder of the staged files, and ``folder`` the prefix of the keys of
    published files. Uploads among ``files`` already have their final names, and are completed
    first. ``parts`` are the names and sizes of staged files that become the object ``log`` (the
    quarantine file). ``after`` is the content of the final state.
    """

    staging: str
    folder: str
    files: tuple[StagedFile, ...]
    sidecars: tuple[SidecarReplacement, ...]
    log: str
    parts: tuple[tuple[str, int], ...]
    after: bytes

    def encode(self) -> bytes:
        """Encode the commit record as JSON."""
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
        """Parse the content of a commit record. Raises StorageError if it is damaged."""
        try:
            fields: dict[str, Any] = json.loads(data)
            files = [
                StagedFile(staged, name, size, tuple((at, _bytes(text)) for at, text in patches))
                for staged, name, size, patches in fields["files"]
            ]
            uploads = [
                StagedFile("", "", 0, upload=PendingUpload(key, upload, tuple(tags)))
                for key, upload, tags in fields.get("uploads", ())
            ]
            return cls(
                fields["staging"],
                fields["folder"],
                (*files, *uploads),
                tuple(
                    SidecarReplacement(key, over, _bytes(text))
                    for key, over, text in fields["beside"]
                ),
                fields["quarantine"],
                tuple((name, size) for name, size in fields["parts"]),
                fields["after"].encode(),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            problem = f"the commit record cannot be parsed: {error!r}"
            raise StorageError(problem, where=Where(source=path)) from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def commit_record_of(state: bytes) -> str:
    """Return the key of the commit record that a store's state names, or ""."""
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        return str(json.loads(state)["decided"]["record"])
    return ""


def generation_of(state: bytes) -> int:
    """Return the generation of a store's state, or 0 if there is no state.

    Nothing is older than 0, so nothing is swept then.
    """
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        return int(json.loads(state)["edition"])
    return 0


def scratch_folder() -> str | None:
    """Return the local folder for files that will be uploaded, or None for the system's default.

    Spark's workers use folders of their session on the disks that Spark is configured for. Spark
    deletes these when the session ends, so a killed worker leaves nothing.
    """
    named = os.environ.get(OF_SPARK, "").split(",")
    writable = [folder for folder in named if folder and os.access(folder, os.W_OK | os.X_OK)]
    # Spread the workers of one machine over its disks.
    return writable[os.getpid() % len(writable)] if writable else None


@dataclass(frozen=True, slots=True)
class StoreBackend(PublishBackend):
    """Publishes to a trail or a folder in a bucket of an object store.

    ``folder`` is the prefix of its keys, and ``stem`` the prefix of a trail's file names ("" for a
    folder). ``state_name`` is the name of the state object. ``base`` is the tag of the state that
    will be replaced, None if there is no state, or ``UNREAD`` before ``recover``. ``generation`` is
    the number of puts of that state.
    """

    store: ObjectStore
    folder: str
    stem: str
    state_name: str
    base: str | None = UNREAD
    generation: int = 0

    @classmethod
    def of_trail(cls, store: ObjectStore, key: str) -> Self:
        """Build the backend of a trail in a store."""
        folder, slash, stem = key.rpartition("/")
        return cls(store, folder + slash, stem, f"{stem}.manifest.json")

    @classmethod
    def of_folder(cls, store: ObjectStore, key: str) -> Self:
        """Build the backend of a folder in a store that has no state object yet."""
        return cls(store, f"{key.rstrip('/')}/", "", STATE, None)

    @property
    def name(self) -> str:
        """The address in the store without credentials and parameters."""
        return self.store.shown(self._prefix if self.stem else self.folder.rstrip("/"))

    @property
    def appends(self) -> bool:
        """False: an object is always written completely."""
        return False

    @property
    def _prefix(self) -> str:
        return self.folder + self.stem

    @property
    def _state(self) -> str:
        return self.folder + self.state_name

    @property
    def _hidden(self) -> str:
        """Return the prefix of the keys of everything that a trail stages."""
        return f"{self.folder}.{self.stem}."

    @property
    def _runs(self) -> str:
        """Return the prefix of the keys that runs stage. The generation of the run follows it."""
        return f"{self._hidden}staging/" if self.stem else f"{self.folder}{STAGED}/"

    def check(self) -> None:
        """Raise StorageError if the store ignores the conditions of a put."""
        check_conditions(self.store, str(self.staging(f"check-{uuid.uuid4().hex[:8]}")))

    def recover(self) -> RecoveredState:
        """Apply the commit record that the state object names, if there is one, and return the state after it."""
        completed = False
        while True:
            stored = self.store.read(self._state)
            if stored is None:
                return RecoveredState(replace(self, base=None, generation=0), None, completed)
            record = commit_record_of(stored.data)
            if not record:
                recovered = replace(self, base=stored.tag, generation=generation_of(stored.data))
                return RecoveredState(recovered, stored.data, completed)
            # After this the state names no record, unless another run has decided in the meantime:
            # so look again.
            self._complete(record, stored.tag)
            completed = True

    def state(self) -> bytes | None:
        """Read the state object. Raises OvertakenError if it is not the recovered one."""
        stored = self.store.read(self._state)
        if self.base not in (UNREAD, None if stored is None else stored.tag):
            raise self._overtaken()
        return None if stored is None else stored.data

    def replace_state(self, state: Callable[[int], bytes]) -> Self:
        """Replace the recovered state object by a conditional put."""
        tag = self.store.put(self._state, state(self.generation + 1), self.base)
        if tag is None:
            raise self._overtaken()
        return replace(self, base=tag, generation=self.generation + 1)

    def read(self, suffix: str) -> bytes | None:
        """Read an object beside the trail, or return None if it does not exist."""
        stored = self.store.read(self._prefix + suffix)
        return None if stored is None else stored.data

    def names(self, after: str = "") -> Iterator[str]:
        """Yield the names of objects that begin with the trail's name and sort after ``after``.

        Names in subfolders contain slashes. Staged objects are not included.
        """
        # A listing is in the order of the keys, so it can begin after the last known name.
        keys = self.store.list_keys(self._prefix, f"{self.folder}{after}" if after else "")
        return (key[len(self.folder) :] for key, _ in keys if not key.startswith(self._runs))

    def size(self, name: str) -> int | None:
        """Return the size of an object, or None if it does not exist, by a listing of its name."""
        sizes = dict(self.store.list_keys(self.folder + name))
        return sizes.get(self.folder + name)

    def staging(self, name: str) -> Path:
        """Return a hidden folder of the store for this generation.

        Streaming queries have folders without a generation.
        """
        if name.startswith(OF_STREAM):
            return Path(self._hidden + name)
        # The generation comes first, so that `_sweep_runs` can tell from a key alone whether its
        # run is older than the published state.
        return Path(f"{self._runs}{self.generation:09}-{name}")

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Create a folder in the store for this run, and return it with the run's time.

        The time is ``now``, unless a run with the same fingerprint was interrupted: then it is the
        time of that run.
        """
        self.check()
        wanted, above = fingerprint[:16], self._runs
        for key, _ in self.store.list_keys(above):
            match = re.fullmatch(rf"\d+-{wanted}-\w+/{re.escape(RUN_RECORD)}", key[len(above) :])
            stored = self.store.read(key) if match else None
            if stored is not None:
                now = read_run_time(stored.data, fingerprint, now)
        staging = self.staging(f"{wanted}-{uuid.uuid4().hex[:8]}")
        self.store.put(f"{staging}/{RUN_RECORD}", encode_run_start(fingerprint, now), None)
        return staging, now

    @contextmanager
    def _overtaken_first(self, staging: Path) -> Iterator[None]:
        """Convert errors into OvertakenError if another run has published, because that run has deleted this run's files."""
        try:
            yield
        except StorageError:
            if str(staging).startswith(self._runs):
                self.state()
            raise

    @contextmanager
    def staged_folder(self, staging: Path) -> Iterator[Path]:
        """Yield a temporary local folder, and upload its files to the store unless the block raises."""
        with TemporaryDirectory(prefix="trailgate-staged-", dir=scratch_folder()) as name:
            folder = Path(name)
            yield folder
            with self._overtaken_first(staging):
                for path in sorted(folder.iterdir()):
                    with convert_write_errors(path):
                        self.store.upload(f"{staging}/{path.name}", path)
                        path.unlink()

    @contextmanager
    def file(
        self, staging: Path, staged: str, name: str
    ) -> Iterator[tuple[IO[bytes], list[StagedFile]]]:
        """Yield an upload under the final name of the file, which is invisible until it is completed."""
        upload = self.store.begin(self.folder + name, later=True)
        staged_files: list[StagedFile] = []
        try:
            with self._overtaken_first(staging):
                yield upload.file, staged_files
                staged_files.append(StagedFile(staged, name, 0, upload=upload.suspend()))
        finally:
            upload.abort()

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return the total size of staged objects, by one listing of the store."""
        return sum(self._sizes(staging, names).values()) if names else 0

    def _sizes(self, staging: Path, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of staged objects in the store. Raises StorageError if one is missing."""
        above = f"{staging}/"
        sizes = {key[len(above) :]: size for key, size in self.store.list_keys(above)}
        for name in names:
            if name not in sizes:
                self.state()  # raises if another run has overtaken this one and deleted its files
                where = Where(source=self.store.shown(above + name))
                raise StorageError("the staged file is missing", where=where)
        return {name: sizes[name] for name in names}

    def commit(self, commit: CommitPlan, staging: Path) -> None:
        """Publish staged files in a store: put a commit record, and then a state that names it.

        The second put decides: from then on any run that finds the record applies it. This run
        applies it at once, puts the final state, and deletes what is not needed any more. Raises
        OvertakenError if another run has published first.
        """
        content = self._record(commit, staging)
        record = f"{staging}/decided-{uuid.uuid4().hex}.json"
        if self.store.put(record, content.encode(), None) is None:
            raise self._overtaken()
        try:
            # Once this put succeeds, the publication is decided: whoever finds the record applies it.
            tag = self.store.put(
                self._state, commit.deciding(self.generation + 1, record), self.base
            )
            if tag is not None:
                self._complete(record, tag, content)
        except StorageError as error:
            # An error such as a lost connection does not say whether the put took effect. Only if
            # the state is still the recovered one is it certain that nothing was published.
            if not self._is_unchanged():
                error.hint = error.hint or MAY_BE_DECIDED
            raise
        if tag is None:
            raise self._overtaken()
        # The deciding and the final state were two puts, so the generation has increased by two.
        replace(self, generation=self.generation + 2).sweep(commit.is_published)

    def _record(self, commit: CommitPlan, staging: Path) -> CommitRecord:
        """Build the commit record of a plan. Raises StorageError if a staged file is missing or has another size."""
        staged = [file for file in commit.files if file.upload is None]
        wanted = [*(file.staged for file in staged), *commit.parts]
        sizes = self._sizes(staging, wanted) if wanted else {}
        for file in staged:
            if sizes[file.staged] != file.size:
                problem = f"the staged file has {sizes[file.staged]} bytes, not {file.size}"
                where = Where(source=self.store.shown(f"{staging}/{file.staged}"))
                raise StorageError(problem, where=where)
        return CommitRecord(
            staging=str(staging),
            folder=self.folder,
            files=commit.files,
            sidecars=tuple(map(self._replacement, commit.sidecars)),
            log=self.folder + commit.log,
            parts=tuple((name, sizes[name]) for name in commit.parts),
            after=commit.state(self.generation + 2),
        )

    def _replacement(self, sidecar: SidecarFile) -> SidecarReplacement:
        key = self.folder + sidecar.name
        stored = self.store.read(key)
        if stored is None:
            return SidecarReplacement(key, None, sidecar.data)
        return SidecarReplacement(key, stored.tag, stored.data[: sidecar.kept or 0] + sidecar.data)

    def _is_unchanged(self) -> bool:
        """Return whether the state in the store is certainly still the one that was recovered."""
        try:
            self.state()
        except StorageError:
            return False
        return True

    def _complete(self, record: str, tag: str, content: CommitRecord | None = None) -> None:
        """Apply a commit record, and replace the state that names it, which has the tag ``tag``.

        Other runs may do the same at the same time. Returns normally if one of them was faster.
        """
        try:
            content = self._read_record(record) if content is None else content
            # Every step of this can be repeated with the same result, because another run may apply
            # the record at the same time, or this one may be killed halfway.
            self._apply(content, record)
        except _CompletedError:
            return
        except StorageError:
            # If the state no longer names the record, another run has completed the commit, and the
            # failure only shows that its staged objects are deleted. Else it is a real fault.
            if self._names(record):
                raise
            return  # another run has completed it, and deleted what was staged
        if self.store.put(self._state, content.after, tag) is None and self._names(record):
            raise self._overtaken()

    def _overtaken(self) -> OvertakenError:
        return overtaken_error(self.store.shown(self._state))

    def _read_record(self, record: str) -> CommitRecord:
        shown = self.store.shown(record)
        stored = self.store.read(record)
        if stored is None:
            problem = "the commit record is missing"
            raise StorageError(problem, where=Where(source=shown))
        return CommitRecord.parse(stored.data, shown)

    def _names(self, record: str) -> bool:
        """Return whether the published state names this commit record, so that the commit took effect."""
        stored = self.store.read(self._state)
        return stored is not None and commit_record_of(stored.data) == record

    def _apply(self, content: CommitRecord, record: str) -> None:
        """Complete the uploads, sidecar files and staged files of a commit record with the key ``record``.

        The caller replaces the state. Raises _CompletedError if another run has already done so.
        """
        uploads = [file.upload for file in content.files if file.upload is not None]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(self.store.complete, uploads):
                pass
        for one in content.sidecars:
            over = one.over
            while self.store.put(one.key, one.data, over) is None:
                stored = self.store.read(one.key)
                if not self._names(record):
                    raise _CompletedError
                # While the state names the record, nothing later can have been published. So the
                # object was changed by another run that applies the record, or by somebody else.
                over = None if stored is None else stored.tag
        files = [file for file in content.files if file.upload is None]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda file: self._place_file(content, file), files):
                pass
        if content.parts:
            pieces = [
                ObjectRange(f"{content.staging}/{name}", 0, size) for name, size in content.parts
            ]
            self.store.compose(content.log, pieces)

    def _place_file(self, content: CommitRecord, file: StagedFile) -> None:
        """Copy a staged object to its final name in the store, with its header patched."""
        source = f"{content.staging}/{file.staged}"
        # An object cannot be changed in place. Only the first bytes, which the patches concern, are
        # read and uploaded again; the store itself copies the rest.
        head = bytearray(self.store.read_range(ObjectRange(source, 0, min(HEAD, file.size))))
        for offset, data in file.patches:
            head[offset : offset + len(data)] = data
        rest = ObjectRange(source, len(head), file.size)
        self.store.compose(f"{content.folder}{file.name}", [bytes(head), rest])

    def discard(
        self, staging: Path, names: Sequence[str] | None = None, is_own: IsPublished | None = None
    ) -> None:
        """Delete staged objects, unless the state has decided to publish them."""
        stored = self.store.read(self._state)
        if stored is not None and commit_record_of(stored.data).startswith(f"{staging}/"):
            return
        if names is not None:
            self.store.delete(f"{staging}/{name}" for name in names)
            return
        self._delete_below(f"{staging}/", bool)
        self._sweep_runs()
        if is_own is not None:
            self._abandon(is_own)

    def discard_query(self, staging: Path) -> None:
        """Delete the objects that a streaming query's batches up to this one have staged.

        A later batch may be running if the query was started twice.
        """
        above = f"{staging.parent}/"
        self._delete_below(above, lambda key: key[len(above) :].partition("/")[0] <= staging.name)

    def sweep(self, is_published: IsPublished) -> None:
        """Delete the staged files of earlier generations, and unfinished uploads of published files.

        Such an upload belongs to a run that was slower than the run that completed its publication.
        """
        with suppress(StorageError):  # publishing has succeeded; the next run deletes the rest
            self._abandon(is_published)
            self._sweep_runs()

    def _sweep_runs(self) -> None:
        above = self._runs

        def is_left(key: str) -> bool:
            number = key[len(above) :].partition("-")[0]
            return number.isdecimal() and int(number) < self.generation

        self._delete_below(above, is_left)

    def _abandon(self, condition: IsPublished) -> None:
        """Delete the parts of unfinished uploads for whose names ``condition`` returns true."""
        self.store.abandon(self._prefix, lambda key: condition(key[len(self.folder) :]))

    def _delete_below(self, above: str, condition: Callable[[str], bool]) -> None:
        """Delete the staged objects whose keys begin with ``above`` and for which ``condition`` is true.

        The parts of unfinished uploads to such keys are deleted too.
        """
        self.store.delete(key for key, _ in self.store.list_keys(above) if condition(key))
        self.store.abandon(above, condition)
