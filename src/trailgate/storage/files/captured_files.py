"""The list of message files that were captured into a trail: ``PREFIX.captured.jsonl`` beside the trail.

Each line is a JSON object with the members of a ``CapturedFile``. The next capture skips the files of the
list. A run only appends to it, before it writes the manifest, which states how many bytes of the
list are valid (``storage/files/manifest.py``). So a file is only in the list if its run was published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trailgate.errors import StorageError, Where

CAPTURED_HINT: Final = "Restore it, or capture with --again, which does not read it"


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


def parse_captured(text: bytes, size: int, path: str) -> tuple[CapturedFile, ...]:
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


def format_captured(files: Iterable[CapturedFile]) -> bytes:
    """Format captured files as lines of the list beside the trail."""
    # Not asdict, which copies each value, as there may be very many files.
    rows = ({name: getattr(file, name) for name in CapturedFile.__slots__} for file in files)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
