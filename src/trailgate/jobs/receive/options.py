"""How messages are received into a trail, and what a batch did."""

from __future__ import annotations

from dataclasses import dataclass, field

from trailgate.errors import OptionError
from trailgate.jobs.receive.held import HELD_BYTES
from trailgate.storage.files.journal.journal import JournalOptions
from trailgate.storage.live.options import AppendOptions
from trailgate.storage.writing.counts import Counts


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """``on_error`` is stop or quarantine; ``until_empty`` stops where nothing came for ``idle_seconds``.

    With ``unordered_ids`` message ids that fall are captured. ``needed_header`` is one that a message is not acknowledged without. A transaction
    whose messages have more than ``held_bytes`` is held in a temporary file beside the trail until its end comes.
    """

    on_error: str = "stop"
    until_empty: bool = False
    idle_seconds: float = 2.0
    append: AppendOptions = field(default_factory=AppendOptions)
    journal: JournalOptions = field(default_factory=JournalOptions)
    unordered_ids: bool = False
    needed_header: str | None = None
    held_bytes: int = HELD_BYTES

    def __post_init__(self) -> None:
        if self.on_error not in ("stop", "quarantine"):
            raise OptionError(f"on-error is {self.on_error}, expected stop or quarantine")


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one batch did.

    ``repeated`` messages were given again by the broker and left out; ``duplicates`` were sent again, by the ids that ``jms.id`` selects.
    ``lag_messages`` are received but not in the trail; ``lag_seconds`` is the age of the last message, None where it has no time.
    ``trail_file`` and ``trail_offset`` are the trail's end, ``number`` the message that comes next.
    """

    messages: int
    operations: int
    transactions: int
    repeated: int
    duplicates: int
    quarantined: int
    lag_messages: int
    lag_seconds: float | None
    trail_file: int
    trail_offset: int
    number: int
    counts: Counts
