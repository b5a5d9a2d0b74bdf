"""The write checkpoint of a live trail: up to where it is vouched for, and what the source needs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, Where

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
