"""The files beside a trail that state what counts of it: the manifest, the list of captured files, and the checkpoint of a live trail.

Only what a manifest lists is part of the trail. It is written last, so that a run that was
interrupted has published nothing. The message files that were captured into the trail are listed in ``PREFIX.captured.jsonl``. The manifest states
how many bytes of that file count, so files are remembered exactly where their run was published. A live trail has a checkpoint instead: up to
where it is vouched for, and what the source needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from pyarrow import fs

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import LOCAL, bytes_if_present
from trailgate.storage.files.durable import write_whole
from trailgate.storage.files.listing import NUMBERED


@dataclass(frozen=True, slots=True)
class Published:
    """One file of a trail; ``operations`` None: the manifest does not state how many it has."""

    name: str
    number: int
    size: int
    operations: int | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the file of such fields; a foreign manifest may have names and sizes alone."""
        name, operations = str(fields["name"]), fields.get("operations")
        matched = NUMBERED.fullmatch(name)
        number = fields.get("number", matched["number"] if matched else 0)
        operations = None if operations is None else int(operations)
        return cls(name, int(number), int(fields["size"]), operations)


@dataclass(frozen=True, slots=True)
class Growing:
    """What is known of a last file that is added to: when it was begun, in microseconds, and its last change.

    ``form`` is the digest of what its records are encoded by.
    """

    begun: int
    form: str
    last_csn: str | None = None
    last_time: int | None = None


@dataclass(frozen=True, slots=True)
class QueryPosition:
    """Where a streaming query is: its last operation's sequence id, and the end of that in the trail, as file number and byte."""

    seq_id: str | None
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is published: files in order, bytes of the quarantine, and the last run.

    ``captured`` are the bytes of the list of captured files, ``last_id`` is the highest sequence id that messages gave.

    ``sources`` counts the message files of all runs: the next run's are numbered from there, so
    that generated ids ascend through the whole trail.

    ``queries`` are the last batches of streaming queries, by their ids, and ``positions`` where these are. ``unfinished`` is the query and the transaction that
    the trail ends inside of, if it does. ``growing`` is set where a query adds to the last file.

    In a store without renames ``edition`` counts the manifests of a trail, and ``decided`` names the record of files that are
    being given their names; only then are they among ``files``.
    """

    files: tuple[Published, ...] = ()
    quarantine: int = 0
    last_run: str = ""
    summary: dict[str, Any] = field(default_factory=dict)
    sources: int = 0
    captured: int = 0
    last_id: str = ""
    queries: dict[str, int] = field(default_factory=dict)
    positions: dict[str, QueryPosition] = field(default_factory=dict)
    unfinished: dict[str, str] = field(default_factory=dict)
    growing: Growing | None = None
    edition: int = 0
    decided: dict[str, str] = field(default_factory=dict)

    @property
    def next_number(self) -> int:
        """Return the number of the file that comes next."""
        return self.files[-1].number + 1 if self.files else 0

    def by_name(self) -> dict[str, Published]:
        """Return the files by their names."""
        return {file.name: file for file in self.files}


def manifest_path(prefix: str) -> Path:
    """Return where the manifest of a local trail is."""
    return Path(f"{prefix}.manifest.json")


def read_manifest(prefix: str, store: fs.FileSystem = LOCAL) -> Manifest | None:
    """Return the manifest of a trail; None where there is none. Raises StorageError."""
    path = f"{prefix}.manifest.json"
    try:
        text = bytes_if_present(store, path)
    except OSError as error:
        problem = f"the manifest cannot be read: {error}"
        raise StorageError(problem, where=Where(source=path)) from error
    return None if text is None else parse_manifest(text, path)


def parse_manifest(text: bytes, path: str) -> Manifest:
    """Return the manifest that is a file's content; raises StorageError."""
    try:
        fields = json.loads(text)
        files = tuple(Published.of(entry) for entry in fields["files"])
        growing = fields.get("growing")
        growing = None if growing is None else Growing(**growing)
        others = fields.keys() & set(Manifest.__slots__) - {"files", "growing"}
        named = {name: fields[name] for name in others}
        positions = named.get("positions", {})
        named["positions"] = {query: QueryPosition(**one) for query, one in positions.items()}
        return Manifest(files, growing=growing, **named)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the manifest cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=path)) from error


def write_manifest(prefix: str, manifest: Manifest) -> None:
    """Replace the manifest of a trail, whole or not at all."""
    write_whole(manifest_path(prefix), encode_manifest(manifest))


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the file's content."""
    return json.dumps(asdict(manifest), indent=1).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A message file that was captured: its name without folder, its size, and the digest of its ends.

    ``modified`` is None where the digest is that of all bytes.
    """

    name: str
    size: int
    digest: str
    modified: int | None = None


CAPTURED_HINT: Final = "Restore it, or capture with --again, which does not read it"


def parse_captured(text: bytes, size: int, path: str) -> tuple[CapturedFile, ...]:
    """Return the files that the first ``size`` bytes of a list have; raises StorageError."""
    where, text = Where(source=path), text[:size]
    if len(text) < size:
        problem = f"the file is shorter than the {size} bytes that the manifest states"
        raise StorageError(problem, where=where, hint=CAPTURED_HINT)
    try:
        return tuple(CapturedFile(**json.loads(line)) for line in text.splitlines())
    except (ValueError, TypeError, RecursionError) as error:
        problem = f"the list of captured files cannot be understood: {error}"
        raise StorageError(problem, where=where, hint=CAPTURED_HINT) from None


def captured_lines(files: Iterable[CapturedFile]) -> bytes:
    """Return files as lines of the list."""
    # Not by asdict, which copies each value: there may be very many files.
    rows = ({name: getattr(file, name) for name in CapturedFile.__slots__} for file in files)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


VERSION: Final = 1
HINT: Final = "Without its checkpoint a trail cannot be continued: begin a new one"


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """By what a transaction is known again, and the commit time of its last operation."""

    tx_id: str | None
    csn: str | None
    io_time: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The end of the last transaction that was committed, and the source's position there.

    ``begun`` is the last file that the writer ever began: it is noted before the file is made, so
    files from ``file`` to there are this writer's. With offset 0 that file does not count yet.
    """

    level: int
    digits: int
    file: int = 0
    offset: int = 0
    begun: int = -1
    source_position: str | None = None
    last: TransactionMark | None = None


def checkpoint_path(prefix: str) -> Path:
    """Return where the checkpoint of a trail lies."""
    return Path(f"{prefix}.checkpoint.json")


def is_live(prefix: str) -> bool:
    """Return whether a trail is one that is received into."""
    return checkpoint_path(prefix).exists()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the file's content."""
    return json.dumps({"version": VERSION, **asdict(checkpoint)}, indent=1).encode() + b"\n"


def read_checkpoint(prefix: str) -> Checkpoint | None:
    """Return the checkpoint of a trail; None where there is none. Raises StorageError."""
    path = checkpoint_path(prefix)
    try:
        fields = json.loads(path.read_bytes())
        version, last = fields.pop("version"), fields.pop("last")
        if version != VERSION:
            raise StorageError(
                f"the checkpoint has version {version}, not {VERSION}",
                where=Where(source=str(path)),
            )
        return Checkpoint(**fields, last=TransactionMark(**last) if last else None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        problem = f"the checkpoint cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=str(path)), hint=HINT) from error
