"""Where a process holds files until they are in a store.

A trail in an object store: a publication is decided by one conditional put of the manifest, and then carried out (decision 0040).
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.durable import writing
from trailgate.storage.files.listing import number_digits
from trailgate.storage.files.manifest import (
    CapturedFile,
    Manifest,
    encode_manifest,
    parse_captured,
    parse_manifest,
)
from trailgate.storage.stores.object_store import ObjectStore
from trailgate.storage.writing.deciding import Beside, Decided, DecidingObject, StagingFolders
from trailgate.storage.writing.publication import RUN_RECORD, Publication, encode_run, time_of_run

OF_SPARK: Final = "SPARK_LOCAL_DIRS"  # set for the workers of Spark, for what they spill to disks


def scratch_folder() -> str | None:
    """Return the folder for temporary files; None: the system's.

    Workers of Spark have folders of their session's, on the disks that Spark is configured for. Spark deletes them when the session ends, so that nothing
    is left of a worker that was killed.
    """
    named = os.environ.get(OF_SPARK, "").split(",")
    there = [folder for folder in named if folder and os.access(folder, os.W_OK | os.X_OK)]
    return there[os.getpid() % len(there)] if there else None


UNREAD: Final = "?"  # the tag of a manifest that was not read
OF_STREAM: Final = "stream-"


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A prefix in a bucket; ``base`` is the tag of the manifest that is published over, None: there was none."""

    store: ObjectStore
    key: str
    address: str
    base: str | None = UNREAD
    edition: int = 0

    @property
    def prefix(self) -> str:
        """Return the address without credentials and parameters."""
        return self.store.shown(self.key)

    @property
    def appends(self) -> bool:
        """Return False: an object is put whole."""
        return False

    def held(self) -> AbstractContextManager[None]:
        """Hold nothing: what a run publishes over is what it has read."""
        return nullcontext()

    def check_conditions(self) -> None:
        """Check that the store obeys conditions."""
        self._runs.check_conditions(self.edition, uuid.uuid4().hex[:8])

    def open_current(self) -> tuple[Self, Manifest | None]:
        """Return the manifest and the place that publishes over it."""
        found, completed = self._manifest.recover()
        if found is None:
            return replace(self, base=None, edition=0), None
        manifest = self._parse(found.data)
        if completed:
            with suppress(StorageError):  # the next run deletes what is left
                self._abandon_placed(manifest)
        return replace(self, base=found.tag, edition=manifest.edition), manifest

    def manifest(self) -> Manifest | None:
        """Return the manifest; raises OvertakenError where it is not the one that was opened."""
        found = self.store.read(self._manifest.key)
        tag = None if found is None else found.tag
        if self.base not in (UNREAD, tag):
            raise self._manifest.overtaken_error()
        return None if found is None else self._parse(found.data)

    def begun(self) -> None:
        """Do nothing: files get names of the trail when they are decided on."""

    def has_files(self) -> bool:
        """Return whether there are files of a trail."""
        checkpoint = self.store.read(f"{self.key}.checkpoint.json")
        return checkpoint is not None or bool(self._list_numbered(""))

    def _list_numbered(self, after: str) -> list[str]:
        """Return the keys of trail files after one."""
        found = self.store.list_keys(self.key, after)
        digits = ((key, number_digits(key)) for key, _ in found)
        return [key for key, some in digits if some and key[:-some] == self.key]

    def definitions(self) -> Definitions | None:
        """Return the definitions beside the trail."""
        found = self.store.read(f"{self.key}.def")
        path = f"{self.prefix}.def"
        return None if found is None else read_sourcedefs(found.data, source=path)

    def read_captured(self, size: int) -> tuple[CapturedFile, ...]:
        """Return the list of captured files."""
        if not size:
            return ()
        found = self.store.read(self._captured)
        data = b"" if found is None else found.data
        return parse_captured(data, size, self.store.shown(self._captured))

    def quarantine(self) -> str:
        """Return a file of the next publication's own: what others wrote is not written again."""
        return f"{self.prefix}.quarantine.{self.edition + 2:06}.jsonl"

    def staging(self, name: str) -> Path:
        """Return a hidden folder beside the trail, of this edition; streaming queries have their own."""
        return Path(
            f"{self._hidden}{name}"
            if name.startswith(OF_STREAM)
            else self._runs.folder(self.edition, name)
        )

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Begin a folder of this run's own, with the time of an earlier one of its fingerprint."""
        self.check_conditions()
        wanted = fingerprint[:16]
        above = self._runs.above
        for key, _ in self.store.list_keys(above):
            own = re.fullmatch(rf"\d+-{wanted}-\w+/{re.escape(RUN_RECORD)}", key[len(above) :])
            found = self.store.read(key) if own else None
            if found is not None:
                now = time_of_run(found.data, fingerprint, now)
        staging = self.staging(f"{wanted}-{uuid.uuid4().hex[:8]}")
        self.store.put(f"{staging}/{RUN_RECORD}", encode_run(fingerprint, now), None)
        return staging, now

    def make(self, staging: Path) -> None:
        """Do nothing: a store has no folders."""

    def is_made(self, staging: Path) -> bool:
        """Return True: what a task stages after its job ended is deleted by the next publication."""
        del staging
        return True

    @contextmanager
    def filling(self, staging: Path) -> Iterator[Path]:
        """Give a temporary folder, and upload its files where nothing raises."""
        with TemporaryDirectory(prefix="trailgate-staged-", dir=scratch_folder()) as name:
            folder = Path(name)
            yield folder
            swept = self.base != UNREAD and str(staging).startswith(self._runs.above)
            with self._runs.staging(self.base) if swept else nullcontext():
                for path in sorted(folder.iterdir()):
                    with writing(path):
                        self.store.upload(f"{staging}/{path.name}", path)
                        path.unlink()

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return the files' sizes together."""
        return sum(self._stage(staging, names).values()) if names else 0

    def _stage(self, staging: Path, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of staged files; raises StorageError where one is not there."""
        above = f"{staging}/"
        sizes = {key[len(above) :]: size for key, size in self.store.list_keys(above)}
        for name in names:
            if name not in sizes:
                self.manifest()  # another run deletes what it has overtaken
                where = Where(source=self.store.shown(above + name))
                raise StorageError("the staged file is not there", where=where)
        return {name: sizes[name] for name in names}

    def apply(self, publication: Publication, staging: Path) -> None:
        """Decide by the manifest on a record of all steps, and do what it states."""
        self._check_names(publication)
        own = self._decide(publication, staging)
        before = replace(publication.before, edition=self.edition + 1)

        def naming(record: str) -> bytes:
            return encode_manifest(replace(before, decided={"record": record}))

        self._manifest.decide(own, naming, self.base)
        with suppress(StorageError):  # what is published is done: the next run deletes what is left
            self._abandon_placed(replace(publication.after, edition=self.edition + 2))
            self._runs.sweep(self.edition + 2)

    def _abandon_placed(self, manifest: Manifest) -> None:
        """Delete the parts of files that are published: of a run that was killed, or was slower than another one that completed it."""
        placed = {f"{self._folder}{file.name}" for file in manifest.files}
        placed |= {self._manifest.key, self._captured, f"{self.key}.def"}
        before = f"{self.key}.quarantine."

        def is_published(key: str) -> bool:
            number = key.removeprefix(before).partition(".")[0]
            own = key.startswith(before) and number.isdecimal()
            return key in placed or (own and int(number) <= manifest.edition)

        self.store.abandon(self.key, is_published)

    def _decide(self, publication: Publication, staging: Path) -> Decided:
        staged = [file.staged for file in publication.files]
        sizes = self._stage(staging, [*staged, *publication.quarantine])
        for file in publication.files:
            if sizes[file.staged] != file.size:
                problem = f"the staged file has {sizes[file.staged]} bytes, not {file.size}"
                where = Where(source=self.store.shown(f"{staging}/{file.staged}"))
                raise StorageError(problem, where=where)
        beside = [self._beside(f"{self.key}.def", 0, publication.definitions)]
        if publication.captured:
            size = publication.before.captured
            beside.append(self._beside(self._captured, size, publication.captured))
        after = replace(publication.after, edition=self.edition + 2, decided={})
        return Decided(
            str(staging),
            self._folder,
            publication.files,
            tuple(beside),
            self.quarantine().removeprefix(self.store.shown("")),
            tuple((name, sizes[name]) for name in publication.quarantine),
            encode_manifest(after),
        )

    def _check_names(self, publication: Publication) -> None:
        """Raise StorageError where files that the trail does not have would be overwritten."""
        files = publication.before.files
        after = f"{self._folder}{files[-1].name}" if files else ""
        there = self._list_numbered(after) if publication.files else []
        if there:
            self.manifest()  # another run may have published them just now
            problem = "there is a file of the trail's name that its manifest does not have"
            raise StorageError(problem, where=Where(source=self.store.shown(there[0])))

    def _beside(self, key: str, kept: int, data: bytes) -> Beside:
        """Return a file beside the trail: the first ``kept`` bytes of the one that is there, and more."""
        found = self.store.read(key)
        if found is None:
            return Beside(key, None, data)
        return Beside(key, found.tag, found.data[:kept] + data)

    def discard(self, staging: Path, names: Sequence[str] = ()) -> None:
        """Delete staged files, but not those that the manifest has decided on."""
        if self._runs.discard(str(staging), names) and not names:
            self._runs.sweep(self.edition)

    def forget(self, staging: Path) -> None:
        """Delete what batches up to this one staged; a later one may be under way, if the query was started twice."""
        above = f"{staging.parent}/"
        self._runs.delete_below(
            above, lambda key: key[len(above) :].partition("/")[0] <= staging.name
        )

    @property
    def _manifest(self) -> DecidingObject:
        return DecidingObject(self.store, f"{self.key}.manifest.json")

    def _parse(self, data: bytes) -> Manifest:
        return parse_manifest(data, f"{self.prefix}.manifest.json")

    @property
    def _folder(self) -> str:
        """Return what the keys of the trail and of all beside it begin with: a folder's name and a slash, or nothing."""
        return self.key[: self.key.rfind("/") + 1]

    @property
    def _captured(self) -> str:
        return f"{self.key}.captured.jsonl"

    @property
    def _hidden(self) -> str:
        """Return what the keys of all that is staged begin with."""
        return f"{self._folder}.{self.key.removeprefix(self._folder)}."

    @property
    def _runs(self) -> StagingFolders:
        return StagingFolders(self.store, self._manifest, f"{self._hidden}staging/")
