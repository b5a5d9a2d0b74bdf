"""The manifest of a trail, and the list beside it of the message files that were captured into the trail.

Only files listed in the manifest are part of a trail. It is written last, so an interrupted run has
published nothing. ``PREFIX.captured.jsonl`` lists the message files that were captured into the
trail. The manifest states how many bytes of this list are valid, so a file is only in the list if
its run was published. A live trail has a checkpoint instead (``storage/live/checkpoint.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from pyarrow import fs

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import LOCAL
from trailgate.storage.files.durable import replace_whole_file
from trailgate.storage.files.text_files import read_if_exists
from trailgate.storage.files.trail_names import NUMBERED

MANIFEST_HINT: Final = (
    "A trail can be read without it: move it away. To write into the trail, restore it from a copy"
)
CAPTURED_HINT: Final = "Restore it, or capture with --again, which does not read it"


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The manifest's entry for one file of a trail.

    ``operations`` is None if the manifest does not state the number of operations.
    """

    name: str
    number: int
    size: int
    operations: int | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Build the manifest entry of a trail file from its JSON fields.

        A manifest of another program may only have names and sizes.
        """
        name, operations = str(fields["name"]), fields.get("operations")
        matched = NUMBERED.fullmatch(name)
        number = fields.get("number", matched["number"] if matched else 0)
        operations = None if operations is None else int(operations)
        return cls(name, int(number), int(fields["size"]), operations)


@dataclass(frozen=True, slots=True)
class GrowingFileState:
    """The manifest's entry for a last file that still grows.

    ``begun`` is the time at which it was begun, in microseconds since 1970. ``form`` is a digest
    of the format of its records. ``last_csn`` and ``last_time`` belong to its last operation.
    """

    begun: int
    form: str
    last_csn: str | None = None
    last_time: int | None = None


@dataclass(frozen=True, slots=True)
class QueryPosition:
    """How far a streaming query has written: the sequence id of its last operation, and the file and offset at which it ends."""

    seq_id: str | None
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a trail: its published files in order, and the state for the next run.

    - ``quarantine`` is the size of the quarantine file, and ``quarantine_end`` a digest of its last
      bytes on a local disk (``digest_end``). ``last_run`` and ``summary`` describe the last run.
    - ``repaired`` has 16 hexadecimal digits for each message of the quarantine whose repaired copy
      was captured or quarantined again (``jobs/capture/repaired_lines.py``).
    - ``captured`` is the number of valid bytes in the list of captured files, and ``last_id`` the
      highest sequence id of messages.
    - ``sources`` counts the message files of all runs. The next run's files are numbered from
      there, so that generated ids ascend through the trail.
    - ``queries`` maps streaming queries to the numbers of their last batches, and ``positions`` to
      their progress.
    - ``unfinished`` names the query and the transaction if the trail ends inside a transaction.
      ``growing`` is set if a query appends to the last file.
    - In a store without renames, ``edition`` counts the manifests, and ``decided`` names the commit
      record of files that are being renamed; they are added to ``files`` afterwards.
    """

    files: tuple[ManifestFile, ...] = ()
    quarantine: int = 0
    quarantine_end: str = ""
    repaired: str = ""
    last_run: str = ""
    summary: dict[str, Any] = field(default_factory=dict)
    sources: int = 0
    captured: int = 0
    last_id: str = ""
    queries: dict[str, int] = field(default_factory=dict)
    positions: dict[str, QueryPosition] = field(default_factory=dict)
    unfinished: dict[str, str] = field(default_factory=dict)
    growing: GrowingFileState | None = None
    edition: int = 0
    decided: dict[str, str] = field(default_factory=dict)

    @property
    def next_number(self) -> int:
        """The number of the trail's next file."""
        return self.files[-1].number + 1 if self.files else 0

    def by_name(self) -> dict[str, ManifestFile]:
        """Return the manifest's entries by file name."""
        return {file.name: file for file in self.files}


def manifest_path(prefix: str) -> Path:
    """Return the path of a local trail's manifest."""
    return Path(f"{prefix}.manifest.json")


def read_manifest(prefix: str, store: fs.FileSystem = LOCAL) -> Manifest | None:
    """Read a trail's manifest, or return None if it does not exist. Raises StorageError."""
    path = f"{prefix}.manifest.json"
    try:
        text = read_if_exists(store, path)
    except OSError as error:
        problem = f"the manifest cannot be read: {error}"
        raise StorageError(problem, where=Where(source=path)) from error
    return None if text is None else parse_manifest(text, path)


def parse_manifest(text: bytes, path: str) -> Manifest:
    """Parse the content of a manifest. Raises StorageError."""
    try:
        fields = json.loads(text)
        files = tuple(ManifestFile.of(entry) for entry in fields["files"])
        growing = fields.get("growing")
        growing = None if growing is None else GrowingFileState(**growing)
        others = fields.keys() & set(Manifest.__slots__) - {"files", "growing"}
        named = {name: fields[name] for name in others}
        positions = named.get("positions", {})
        named["positions"] = {query: QueryPosition(**one) for query, one in positions.items()}
        return Manifest(files, growing=growing, **named)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        syntax = isinstance(error, json.JSONDecodeError)
        cause = error if syntax else "its members are not those of a manifest"
        problem = f"the manifest cannot be understood: {cause}"
        raise StorageError(problem, where=Where(source=path), hint=MANIFEST_HINT) from error


def write_manifest(prefix: str, manifest: Manifest) -> None:
    """Replace the manifest of a local trail completely or not at all."""
    replace_whole_file(manifest_path(prefix), encode_manifest(manifest))


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest as the JSON content of its file."""
    return json.dumps(asdict(manifest), indent=1).encode() + b"\n"


def file_number_digits(prefix: str, manifest: Manifest) -> int:
    """Return the number of digits at the end of the file names in a trail's manifest, 6 or 9."""
    return len(manifest.files[-1].name) - len(Path(prefix).name)


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A captured message file: its name without folder, its size, and a digest of its first and last bytes.

    ``modified`` is the modification time in nanoseconds since 1970, or None if the digest covers
    all bytes.
    """

    name: str
    size: int
    digest: str
    modified: int | None = None


def parse_captured_files(text: bytes, size: int, path: str) -> tuple[CapturedFile, ...]:
    """Parse the first ``size`` bytes of the list of captured files. Raises StorageError if it is shorter or cannot be parsed."""
    where, text = Where(source=path), text[:size]
    if len(text) < size:
        problem = f"the file is shorter than the {size} bytes that the manifest states"
        raise StorageError(problem, where=where, hint=CAPTURED_HINT)
    try:
        return tuple(CapturedFile(**json.loads(line)) for line in text.splitlines())
    except (ValueError, TypeError, RecursionError) as error:
        problem = f"the list of captured files cannot be understood: {error}"
        raise StorageError(problem, where=where, hint=CAPTURED_HINT) from None


def format_captured_files(files: Iterable[CapturedFile]) -> bytes:
    """Format captured files as JSON lines of the list beside the trail, ``PREFIX.captured.jsonl``."""
    # Not asdict, which copies each value, as there may be very many files.
    rows = ({name: getattr(file, name) for name in CapturedFile.__slots__} for file in files)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
