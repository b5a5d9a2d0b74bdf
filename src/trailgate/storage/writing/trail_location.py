"""The location of a trail to write, and how a run's staged files are published there.

``location_of`` finds the location. ``publish`` numbers the staged files, and updates definitions,
quarantine and manifest. A trail is at a prefix, on a local disk or in an object store. Its manifest
is the state that decides which files belong to it (``storage.publish.protocol``).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Self

from trailgate.definitions.defgen import read_sourcedefs, write_sourcedefs
from trailgate.errors import OptionError, StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import Address, is_stored, locate, make_address_speller
from trailgate.storage.files.manifest import (
    CapturedFile,
    Manifest,
    ManifestFile,
    encode_manifest,
    parse_captured_files,
    parse_manifest,
)
from trailgate.storage.files.quarantine import check_kept_lines, digest_end
from trailgate.storage.files.trail_files import COPY_AGAIN, TrailFile
from trailgate.storage.files.trail_names import format_file_number, number_digits
from trailgate.storage.publish.local_disk import LocalBackend
from trailgate.storage.publish.protocol import (
    CommitPlan,
    IsPublished,
    OvertakenError,
    PublishBackend,
    SidecarFile,
    StagedFile,
)
from trailgate.storage.reading.trail_file import TrailFileReader, describe_size
from trailgate.storage.writing.file_headers import patches_to_finish
from trailgate.storage.writing.segments import Encoding, Segment, SegmentWriter, WriteOptions
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.writing.file_headers import (
    encode_file_start,
    encode_header_patches,
    fill_in_format,
)
from trailgate.trail.writing.trail_format import TrailFormat
from trailgate.trail.writing.writer import encode

LOG: Final = logging.getLogger(__name__)
_STORED_QUARANTINE: Final = re.compile(r"\.quarantine\.[0-9]{6,}\.jsonl")  # after the trail's name
LOST_DEFINITIONS: Final = (
    "{}.def was missing and is written again from the definitions of this run. They cannot be compared with the data that the "
    "trail already has: if they differ, its values are read wrongly. If you have a copy of the file, put it back first"
)
APPENDED: Final = "Live captures and salvage can only write to local disks; captures of files and Spark also to stores"


@dataclass(frozen=True, slots=True)
class TrailLocation:
    """Where a trail is written: on a local disk or in an object store (``backend``). Can be pickled.

    ``address`` is the trail's address for readers.
    """

    backend: PublishBackend
    address: str

    @property
    def prefix(self) -> str:
        """The trail's name in headers, messages and summaries, without credentials."""
        return self.backend.name

    @property
    def _stem(self) -> str:
        return self.prefix.rpartition("/")[2]

    def recover(self) -> tuple[Self, Manifest | None]:
        """Complete an interrupted publication, and return the manifest (or None).

        Also returns the location to publish with; it can only replace the manifest that was read.
        """
        backend, data, completed = self.backend.recover()
        manifest = self._parse(data)
        if completed and manifest is not None:
            backend.sweep(self._published_test(manifest, backend.generation))
        return replace(self, backend=backend), manifest

    def manifest(self) -> Manifest | None:
        """Read the trail's manifest. Raises OvertakenError if it is not the recovered manifest."""
        return self._parse(self.backend.state())

    def _parse(self, data: bytes | None) -> Manifest | None:
        return None if data is None else parse_manifest(data, f"{self.prefix}.manifest.json")

    def begin_manifest(self) -> None:
        """Write an empty manifest for a new trail on a local disk, unless it has one.

        If a run is killed while it renames files, readers and the next run see by the manifest
        that these files are not part of the trail.
        """
        # In an object store files only get names of the trail once publishing is decided.
        if self.backend.appends and self.manifest() is None:
            self.backend.replace_state(lambda _: encode_manifest(Manifest()))

    def has_files(self) -> bool:
        """Return True if a checkpoint exists, or a file with a name like a trail file's."""
        return bool(self._file_names("")) or self.backend.read(".checkpoint.json") is not None

    def _file_names(self, after: str) -> list[str]:
        """Return the names of the trail's files that sort after ``after``."""
        digits = ((name, number_digits(name)) for name in self.backend.names(after))
        return [name for name, some in digits if some and name[:-some] == self._stem]

    def check_last_file(self, manifest: Manifest) -> None:
        """Raise StorageError if the last file is missing, or is not the file that the manifest states.

        Its size must be that of the manifest, and its header must state the same number and size.
        If a streaming query appends to the file, an interrupted commit may have left bytes after
        that size. If none of the trail's files exists any more, they were purged, and the trail
        continues without them.
        """
        last = manifest.files[-1]
        size = self.backend.size(last.name)
        where = Where(source=self.prefix.removesuffix(self._stem) + last.name)
        if size is None:
            if manifest.by_name().keys().isdisjoint(self._file_names("")):
                return
            problem = f"the file is missing, but the manifest states {last.size} bytes"
        elif size < last.size or (size > last.size and manifest.growing is None):
            problem = f"the file has {size} bytes, but the manifest states {last.size}"
        else:
            _, path = locate(self.address)
            # The address in a store may end with parameters.
            spelled = make_address_speller(self.address, path)(
                path.removesuffix(self._stem) + last.name
            )
            with TrailFileReader(TrailFile(spelled, last.number, last.size)) as reader:
                reader.check_number()
                problem = describe_size(reader)
        if problem:
            raise StorageError(problem, where=where, hint=COPY_AGAIN.format(self.prefix))

    def definitions(self) -> Definitions | None:
        """Return the definitions in the trail's ``.def`` file, or None if it does not exist."""
        data = self.backend.read(".def")
        return None if data is None else read_sourcedefs(data, source=f"{self.prefix}.def")

    def note_lost_definitions(
        self, trail_format: TrailFormat, *, is_begun: bool
    ) -> tuple[str, ...]:
        """Return a note if the ``.def`` file of a trail that has records was deleted, since the run writes it again; else ()."""
        # A trail that describes its tables itself is read without the .def file.
        if trail_format.by_index or not is_begun or self.definitions() is not None:
            return ()
        return (LOST_DEFINITIONS.format(self.prefix),)

    def merge_definitions(self, tables: Definitions) -> Definitions:
        """Return the definitions of the trail's tables merged with ``tables``.

        Raises DefinitionError if a table has a different definition in the trail.
        """
        known = self.definitions()
        return tables if known is None else known.merge(tables)

    def captured_files(self, size: int) -> tuple[CapturedFile, ...]:
        """Return the list of message files that were captured into the trail.

        ``size`` is its length in bytes as stated in the manifest.
        """
        if not size:
            return ()
        data = self.backend.read(".captured.jsonl") or b""
        return parse_captured_files(data, size, f"{self.prefix}.captured.jsonl")

    def quarantine_name(self) -> str:
        """Return the name of the quarantine file of the next publication.

        In an object store each publication has its own file, because existing objects are not
        rewritten.
        """
        own = "" if self.backend.appends else f".{self.backend.generation + 2:06}"
        return f"{self.prefix}.quarantine{own}.jsonl"

    def check_quarantine(self, manifest: Manifest) -> None:
        """Raise StorageError if a quarantine file is missing, became shorter, or was edited and became longer."""
        if not self.backend.appends:
            # In an object store each publication has its own file.
            if sum(size for _, size in self.quarantine_files(manifest)) < manifest.quarantine:
                problem = "a file of the trail's quarantine is missing or became shorter"
                name = f"{self.prefix}.quarantine.*.jsonl"
                raise StorageError(problem, where=Where(source=name), hint="Restore the file")
            return
        path = Path(f"{self.prefix}.quarantine.jsonl")
        check_kept_lines(path, manifest.quarantine, manifest.quarantine_end)

    def quarantine_files(self, manifest: Manifest) -> tuple[tuple[str, int], ...]:
        """Return the address and the size of each quarantine file of the trail, in the order of the runs.

        Bytes after the size do not count. A file that was deleted or has become shorter is omitted.
        """
        if self.backend.appends:
            names = {f"{self._stem}.quarantine.jsonl": manifest.quarantine}
        else:
            begin = f"{self._stem}.quarantine."
            found = takewhile(lambda name: name.startswith(begin), self.backend.names(begin))
            names = {
                name: 0 for name in found if _STORED_QUARANTINE.fullmatch(name, len(self._stem))
            }
        sizes = {name: self.backend.size(name) or 0 for name in names}
        _, path = locate(self.address)
        spell = make_address_speller(self.address, path)
        folder = path.removesuffix(self._stem)
        return tuple(
            (spell(folder + name), counted or sizes[name])
            for name, counted in names.items()
            if sizes[name] and sizes[name] >= counted
        )

    def publish(
        self,
        target: TrailTarget,
        before: Manifest,
        after: Manifest,
        files: tuple[StagedFile, ...],
        staged: StagedRun | None = None,
    ) -> None:
        """Make staged files part of the trail, and delete the staging folder.

        Each step can be repeated after a crash.
        """
        quarantine, captured = ((), b"") if staged is None else (staged.quarantine, staged.captured)
        after = replace(after, decided={})
        # In an object store, a name that exists would be overwritten silently.
        if files and not self.backend.appends:
            self._check_names(before)
        sidecars = [SidecarFile(f"{self._stem}.def", write_sourcedefs(target.definitions))]
        if captured:
            name = f"{self._stem}.captured.jsonl"
            sidecars.append(SidecarFile(name, captured, before.captured))

        def deciding(generation: int, record: str) -> bytes:
            deciding_manifest = replace(before, edition=generation, decided={"record": record})
            return encode_manifest(deciding_manifest)

        commit = CommitPlan(
            files=files,
            state=lambda generation: encode_manifest(replace(after, edition=generation)),
            deciding=deciding,
            is_published=self._published_test(after, self.backend.generation + 2),
            sidecars=tuple(sidecars),
            parts=tuple(quarantine),
            log=self.quarantine_name().rpartition("/")[2],
            kept=before.quarantine,
            finished=self._finish(before),
        )
        self.backend.commit(commit, target.staging)

    def _finish(self, before: Manifest) -> StagedFile | None:
        """Return the change to the trail's last file that publishing further files requires, or None.

        If a streaming query appended to that file, its header must state that it will not grow any
        more.
        """
        if before.growing is None or not self.backend.appends:
            return None
        name, size = before.files[-1].name, before.files[-1].size
        path = Path(self.prefix).with_name(name)
        patches = patches_to_finish(path, size, before.growing)
        return StagedFile(name, name, size, tuple(patches))

    def _check_names(self, before: Manifest) -> None:
        """Raise StorageError if trail files that are not in the manifest would be overwritten."""
        existing = self._file_names(before.files[-1].name if before.files else "")
        if existing:
            self.manifest()  # another run may have published them just now
            problem = "a file has a name of the trail, but is not in its manifest"
            source = self.prefix.removesuffix(self._stem) + existing[0]
            hint = "Move the file away if no other program writes this trail"
            raise StorageError(problem, where=Where(source=source), hint=hint)

    def _published_test(self, manifest: Manifest, generation: int) -> IsPublished:
        """Return a function that returns whether a file with a given name is a published file of the trail.

        These are the manifest's files, the files beside the trail, and the quarantine files with a
        number up to ``generation``.
        """
        names = {file.name for file in manifest.files}
        names |= {self._stem + end for end in (".manifest.json", ".captured.jsonl", ".def")}
        log = f"{self._stem}.quarantine."

        def is_published(name: str) -> bool:
            number = name.removeprefix(log).partition(".")[0]
            own = name.startswith(log) and number.isdecimal()
            return name in names or (own and int(number) <= generation)

        return is_published


def location_of(address: Address) -> TrailLocation:
    """Return the location of the trail at an address, to write to it.

    Raises OptionError if the address is a folder, or if the store cannot be written.
    """
    text = os.fspath(address)
    if not is_stored(text):
        return local_trail(writable_prefix(text))
    from trailgate.storage.publish.store_folder import StoreBackend  # noqa: PLC0415  for stores
    from trailgate.storage.stores.writable_stores import writable_store  # noqa: PLC0415

    store, key = writable_store(text, "a trail")
    name = key.rpartition("/")[2]
    if not name or next(store.list_keys(f"{key}/"), None) is not None:
        hint = f"Name a prefix in it, such as {store.shown(f'{key}/ot' if name else f'{key}ot')}"
        raise OptionError(f"{text} is a folder, not a prefix of a trail", hint=hint)
    return TrailLocation(StoreBackend.of_trail(store, key), text)


def local_trail(prefix: str) -> TrailLocation:
    """Return the location of a trail on a local disk."""
    return TrailLocation(LocalBackend(prefix, f"{Path(prefix).name}.manifest.json"), prefix)


def local_prefix(address: Address) -> str:
    """Return the prefix of a local trail to write to as an absolute path. Raises OptionError otherwise."""
    return str(Path(writable_prefix(address)).absolute())


def writable_prefix(address: Address) -> str:
    """Return the prefix of a trail on a local disk to which a run may write. The address may begin with ``file:``.

    Raises OptionError if it is a folder, in an object store, or a path without a name.
    """
    problem = f"{address} is not a prefix of a trail on a local disk"
    if is_stored(address):
        raise OptionError(problem, hint=f"{APPENDED}. Name a prefix such as dirdat/ot")
    path = locate(address)[1]
    if not Path(path).name:
        raise OptionError(problem, hint="Name one, such as dirdat/ot")
    if path.endswith("/") or Path(path).is_dir():
        hint = f"Name a prefix in it, such as {Path(path) / 'ot'}"
        raise OptionError(f"{address} is a folder, not a prefix of a trail", hint=hint)
    return path


def number_files(
    target: TrailTarget, segments: Sequence[Segment], before: Manifest
) -> tuple[tuple[StagedFile, ...], tuple[ManifestFile, ...]]:
    """Assign the next free numbers to staged trail files, in order.

    Returns the files with their final names and header patches, and their manifest entries. Raises
    StorageError if a number has too many digits.
    """
    pairs = [
        _number_of(target, segment, number)
        for number, segment in enumerate(segments, before.next_number)
    ]
    return tuple(file for file, _ in pairs), tuple(entry for _, entry in pairs)


def _number_of(
    target: TrailTarget, segment: Segment, number: int
) -> tuple[StagedFile, ManifestFile]:
    trail_format = target.options.trail_format
    name = f"{target.prefix}{format_file_number(number, target.options.seq_digits)}"
    trail = replace(
        target.header.trail,
        filename=name,
        seqno=number,
        file_size=segment.size,
        first_csn=segment.first_csn,
        last_csn=segment.last_csn,
        first_io_time=segment.first_time,
        last_io_time=segment.last_time,
    )
    header = fill_in_format(replace(target.header, trail=trail), trail_format)
    patches = tuple(encode_header_patches(header)) if trail_format.has_header else ()
    short = name.rpartition("/")[2]
    placed = StagedFile(segment.name, short, segment.size, patches)
    return placed, ManifestFile(short, number, segment.size, segment.operations)


@dataclass(frozen=True, slots=True)
class StagedRun:
    """The files that a run has staged: trail files and quarantine files, in order.

    ``summary`` is the run's summary, for the manifest. ``repaired`` are the digests of the
    quarantined messages that the run repairs. ``sources`` counts message files, including the files
    of earlier runs. ``captured`` are the lines that this run adds to the list of captured files,
    and ``last_id`` is its highest sequence id.
    """

    segments: Sequence[Segment]
    quarantine: Sequence[str] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    sources: int = 0
    captured: bytes = b""
    last_id: str = ""
    repaired: str = ""


def publish(target: TrailTarget, staged: StagedRun) -> tuple[tuple[str, ...], str | None]:
    """Make the staged files of a run part of the trail. Each step can be repeated after a crash.

    Returns the names of the new trail files, and the name of the quarantine file if messages were
    added to it, else None. Raises StorageError if the trail ends inside a transaction of a
    streaming query or if the quarantine file was edited, and OvertakenError if another run has
    published first.
    """
    location = target.location
    before = location.manifest() or Manifest()
    if before.unfinished:
        problem = f"the trail ends inside the transaction {before.unfinished['transaction']} of a streaming query"
        hint = "Let the query complete it first, or write a different trail"
        raise StorageError(problem, where=Where(source=target.prefix), hint=hint)
    end = before.quarantine_end
    if staged.quarantine and location.backend.appends:
        try:
            location.check_quarantine(before)
        except StorageError:
            target.discard()
            raise
        end = digest_end(target.staging / staged.quarantine[-1])
    placed, published = number_files(target, staged.segments, before)
    names = tuple(file.name for file in published)
    quarantine = location.quarantine_name() if staged.quarantine else None
    manifest = Manifest(
        files=(*before.files, *published),
        quarantine=before.quarantine
        + location.backend.staged_bytes(target.staging, staged.quarantine),
        quarantine_end=end,
        repaired=before.repaired + staged.repaired,
        last_run=target.run,
        summary={**staged.summary, "files": names, "quarantine": quarantine},
        sources=max(before.sources, staged.sources),
        captured=before.captured + len(staged.captured),
        last_id=max(before.last_id, staged.last_id),
        queries=before.queries,
        positions=before.positions,
    )
    try:
        location.publish(target, before, manifest, placed, staged)
    except OvertakenError:
        target.discard()
        raise
    return names, quarantine


@dataclass(frozen=True, slots=True)
class TrailTarget:
    """The trail that a run writes to, and how: its location, tables, header and options.

    ``staging`` is the folder in which the run, whose id is ``run``, stages new trail files.
    ``header`` is the header of these files, whose numbers and sizes publishing fills in.
    """

    location: TrailLocation
    staging: Path
    run: str
    header: FileHeader
    definitions: Definitions
    options: WriteOptions

    @property
    def prefix(self) -> str:
        """The name of the trail that the run writes to."""
        return self.location.prefix

    def staged_folder(self) -> AbstractContextManager[Path]:
        """Context manager: a local folder for trail files, which are staged when the block ends."""
        return self.location.backend.staged_folder(self.staging)

    @property
    def lacks_definitions(self) -> bool:
        """True if the trail has files but no ``.def`` file, because that was deleted. Publishing writes it again."""
        manifest = self.location.manifest()
        return manifest is not None and bool(manifest.files) and self.location.definitions() is None

    def notes(self, manifest: Manifest | None) -> tuple[str, ...]:
        """Return what a user should know before the run publishes: that it replaces lost definitions."""
        is_begun = manifest is not None and bool(manifest.files)
        return self.location.note_lost_definitions(self.options.trail_format, is_begun=is_begun)

    def log_notes(self, manifest: Manifest | None) -> None:
        """Log ``notes``, for a run without a summary that shows them."""
        for note in self.notes(manifest):
            LOG.warning(note)

    def file_start(self) -> bytes:
        """Return the bytes of a trail file before its first operation: its header and metadata."""
        return encode_file_start(self.header, self.options.trail_format, self.definitions)

    def writer(self, folder: Path, stem: str) -> SegmentWriter:
        """Return a writer of the trail files ``<stem>.0``, ``<stem>.1`` and so on into a folder."""
        return SegmentWriter(folder, stem, self.file_start(), self.options.max_bytes)

    def encoding(self) -> Encoding:
        """Return the function that encodes operations as records of the trail's format."""
        form = self.options.trail_format
        return partial(encode, trail_format=form, definitions=self.definitions)

    def discard(self) -> None:
        """Delete the run's staging folder."""
        self.location.backend.discard(self.staging)
