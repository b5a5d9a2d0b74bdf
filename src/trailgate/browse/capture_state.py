"""The state of the capture that writes a trail, from its files: which process runs it, its last commit, and its backlog.

A run holds the trail's lock while it writes. A live capture records each commit in its checkpoint,
with the number of the next message; later messages that it has already received are in its journal.
Messages that are still at the broker are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, TrailgateError
from trailgate.storage.files.addresses import LOCAL
from trailgate.storage.files.locks import lock_holder
from trailgate.storage.files.trail_files import TrailListing, TrailPosition
from trailgate.storage.live.checkpoint import Checkpoint, checkpoint_path, read_checkpoint

COUNTED: Final = 64 << 20  # the most bytes of a quarantine in which messages are counted
JOURNAL: Final = "journal"  # the source of messages that were stored before their capture


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last commit of the live capture that writes the browsed trail.

    ``end`` is the trail's end at the commit. ``time`` is that of the commit and ``last_time`` that
    of the last operation, in microseconds since 1970.

    ``number`` is the number of the next message in ``source``, which is None if the trail does not
    come from a broker. ``quarantined`` is the number of quarantined messages; if the quarantine is
    too large to count all of them, ``quarantine_counted`` is False.
    """

    end: TrailPosition
    time: int
    last_time: int | None = None
    source: str | None = None
    number: int = 0
    quarantined: int = 0
    quarantine_counted: bool = True
    waiting: int | None = None  # messages of the journal to capture, or None if there is no journal


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The process that writes the trail now, and the last commit of a live capture; both may be None.

    ``holder`` describes the process, which holds the trail's lock. ``problem`` is the error if the
    state cannot be read.
    """

    holder: str | None
    commit: LastCommit | None = None
    problem: str = ""


def capture_state(listing: TrailListing) -> CaptureState | None:
    """Return the state of a trail's capture, or None if the trail has neither a lock nor a checkpoint.

    Also returns None for a trail in an object store.
    """
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


def _commit(prefix: str, checkpoint: Checkpoint) -> LastCommit:
    """Describe the commit in a live capture's checkpoint, with the messages in its quarantine and journal."""
    from trailgate.live.jobs.source import read_source_position  # noqa: PLC0415

    end = TrailPosition(checkpoint.file, checkpoint.offset)
    time = int(checkpoint_path(prefix).stat().st_mtime) * 1_000_000
    last = None if checkpoint.last is None else checkpoint.last.io_time
    try:
        position = read_source_position(checkpoint.source_position, None, prefix)
    except StorageError:  # a checkpoint in which another program keeps its own position
        position = None
    if position is None:
        return LastCommit(end, time, last)
    quarantined = _messages(f"{prefix}.quarantine.jsonl", min(position.quarantine, COUNTED))
    waiting = None
    if position.source == JOURNAL:
        from trailgate.live.files.journal_reader import JournalIndex  # noqa: PLC0415  for journals

        # Only a journal is at hand. For Kafka, the broker would have to be asked.
        waiting = JournalIndex(Path(f"{prefix}.journal")).extent().end - position.number
    counted = position.quarantine <= COUNTED
    return LastCommit(
        end=end,
        time=time,
        last_time=last,
        source=position.source,
        number=position.number,
        quarantined=quarantined,
        quarantine_counted=counted,
        waiting=waiting,
    )


@lru_cache(maxsize=8)
def _messages(path: str, size: int) -> int:
    """Count the messages in the first bytes of a quarantine."""
    if not size:
        return 0
    with Path(path).open("rb") as file:
        return file.read(size).count(b"\n")
