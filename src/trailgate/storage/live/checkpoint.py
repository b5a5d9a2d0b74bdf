"""The checkpoint of a live trail: the end of the committed bytes, and the position of the source there.

It is the file ``PREFIX.checkpoint.json``, which is replaced with each commit. A trail with a checkpoint
is a live trail; it has no manifest.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, Where
from trailgate.model.changes import ChangeBatch

VERSION: Final = 1
OTHER_VERSION: Final = "Use the version of Trailgate that wrote it, or a newer one"
HINT: Final = "Without its checkpoint a trail cannot be continued: begin a new one"


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """The identity of a transaction of a live trail: its id and CSN, and a commit time.

    ``io_time`` is the commit time of one of its operations, in microseconds since 1970; in a
    checkpoint, of the last one.
    """

    tx_id: str | None
    csn: str | None
    io_time: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a live trail: the end of the last committed transaction, and the source's position there.

    ``level`` is the level of the trail's format, and ``digits`` the number of digits in the names of
    its files. The transaction ends at the byte ``offset`` of the file ``file``.

    ``begun`` is the number of the last file that the writer has begun. It is stored before that
    file is created, so that a restart knows that the writer created all files from ``file`` to
    ``begun``. If ``offset`` is 0, nothing in ``file`` is committed yet, and the file may not exist.
    """

    level: int
    digits: int
    file: int = 0
    offset: int = 0
    begun: int = -1
    source_position: str | None = None
    last: TransactionMark | None = None


def checkpoint_path(prefix: str) -> Path:
    """Return the path of a live trail's checkpoint."""
    return Path(f"{prefix}.checkpoint.json")


def has_checkpoint(prefix: str) -> bool:
    """Return True if a local trail has a checkpoint, so that it is a live trail."""
    return checkpoint_path(prefix).exists()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode a checkpoint as the JSON content of its file."""
    return json.dumps({"version": VERSION, **asdict(checkpoint)}, indent=1).encode() + b"\n"


def read_checkpoint(prefix: str) -> Checkpoint | None:
    """Read a live trail's checkpoint, or return None if it does not exist. Raises StorageError."""
    path = checkpoint_path(prefix)
    try:
        fields = json.loads(path.read_bytes())
        version, last = fields.pop("version"), fields.pop("last")
        if version != VERSION:
            raise StorageError(
                f"the checkpoint has version {version}, not {VERSION}",
                where=Where(source=str(path)),
                hint=OTHER_VERSION,
            )
        # Fields that are unknown or missing raise TypeError, which is reported below.
        return Checkpoint(**fields, last=TransactionMark(**last) if last else None)
    # Before the other errors, because it is an OSError too.
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        problem = f"the checkpoint cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=str(path)), hint=HINT) from error


def mark_transaction(batch: ChangeBatch, order: int) -> TransactionMark:
    """Return what a live trail's checkpoint keeps of its last transaction: its id, its CSN, and the commit time of operation ``order`` of the batch."""
    block, row = batch.find(order)
    return TransactionMark(block.tx_id[row].as_py(), block.csn[row].as_py(), int(block.op_ts[row]))
