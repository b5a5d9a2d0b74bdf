"""What was captured into a trail: its message files, in ``PREFIX.captured.jsonl`` beside the trail.

The manifest states how many bytes of that file count, so files are remembered exactly where their run was published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import read_whole


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A message file that was captured: its name without folder, its size, and the digest of its ends.

    ``modified`` is None where the digest is that of all bytes.
    """

    name: str
    size: int
    digest: str
    modified: int | None = None


def captured_path(prefix: str) -> Path:
    """Return where the captured files of a local trail are listed."""
    return Path(f"{prefix}.captured.jsonl")


def read_captured(prefix: str, size: int) -> tuple[CapturedFile, ...]:
    """Return the files that were captured into a trail, of which the manifest states ``size`` bytes.

    Raises StorageError where the list is not that long, or cannot be understood.
    """
    if not size:
        return ()
    path = captured_path(prefix)
    text = read_whole(path)[:size]
    hint = "Restore it, or capture with --again, which does not read it"
    if len(text) < size:
        problem = f"the file is shorter than the {size} bytes that the manifest states"
        raise StorageError(problem, where=Where(source=str(path)), hint=hint)
    try:
        return tuple(CapturedFile(**json.loads(line)) for line in text.splitlines())
    except (ValueError, TypeError, RecursionError) as error:
        problem = f"the list of captured files cannot be understood: {error}"
        raise StorageError(problem, where=Where(source=str(path)), hint=hint) from None


def captured_lines(files: Iterable[CapturedFile]) -> bytes:
    """Return files as lines of the list."""
    return b"".join(json.dumps(asdict(file)).encode() + b"\n" for file in files)
