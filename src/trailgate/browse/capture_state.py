"""What the disk has of the capture that writes a trail: whether it runs, up to where it has committed, and what waits to be captured.

A run holds the trail's lock for as long as it writes. A live capture notes each commit in the checkpoint, with the number of the message that comes next; what it has received
beyond that is in the journal. What a broker has not given yet is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, TrailgateError
from trailgate.live.files.journal_reader import JournalIndex
from trailgate.storage.files.addresses import LOCAL
from trailgate.storage.files.durable import lock_holder
from trailgate.storage.files.listing import Listing
from trailgate.storage.files.manifest import Checkpoint, checkpoint_path, read_checkpoint
from trailgate.storage.files.trail_files import TrailPlace

COUNTED: Final = 64 << 20  # bytes of a quarantine
JOURNAL: Final = "journal"  # the source of messages that were stored before their capture


@dataclass(frozen=True, slots=True)
class Commit:
    """What the last commit of a live capture has: when it was, and what came last; times are microseconds.

    ``source`` is what ``number``, that of the next message, belongs to; None where the trail was not written from a broker.
    """

    end: TrailPlace
    time: int
    last_time: int | None = None
    source: str | None = None
    number: int = 0
    quarantined: int = 0
    quarantine_counted: bool = True
    waiting: int | None = None  # messages of the journal; None where there is none


@dataclass(frozen=True, slots=True)
class CaptureState:
    """Who writes the trail now, None where nobody does, and the last commit of a live capture; ``problem`` is what could not be read."""

    holder: str | None
    commit: Commit | None = None
    problem: str = ""


def capture_state(listing: Listing) -> CaptureState | None:
    """Return the state of the capture of a trail; None where nothing on a disk has one."""
    if listing.store is not LOCAL:
        return None
    prefix, holder = listing.prefix, None
    try:
        holder = lock_holder(prefix)
        checkpoint = read_checkpoint(prefix)
        commit = None if checkpoint is None else _commit(prefix, checkpoint)
    except (TrailgateError, OSError) as error:
        return CaptureState(holder, problem=str(error))
    return None if holder is None and commit is None else CaptureState(holder, commit)


def _commit(prefix: str, checkpoint: Checkpoint) -> Commit:
    """Return what a checkpoint states."""
    from trailgate.live.jobs.run import read_position  # noqa: PLC0415  it knows all protocols

    end = TrailPlace(checkpoint.file, checkpoint.offset)
    time = int(checkpoint_path(prefix).stat().st_mtime) * 1_000_000
    last = None if checkpoint.last is None else checkpoint.last.io_time
    try:
        position = read_position(checkpoint.source_position, None, prefix)
    except StorageError:  # another program's own
        position = None
    if position is None:
        return Commit(end, time, last)
    quarantined = _messages(f"{prefix}.quarantine.jsonl", min(position.quarantine, COUNTED))
    waiting = None
    if position.source == JOURNAL:
        waiting = JournalIndex(Path(f"{prefix}.journal")).held().end - position.number
    counted = position.quarantine <= COUNTED
    return Commit(end, time, last, position.source, position.number, quarantined, counted, waiting)


@lru_cache(maxsize=8)
def _messages(path: str, size: int) -> int:
    """Return how many messages the first bytes of a quarantine have."""
    if not size:
        return 0
    with Path(path).open("rb") as file:
        return file.read(size).count(b"\n")
