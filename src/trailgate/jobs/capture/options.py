"""How a capture runs, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from trailgate.errors import OptionError
from trailgate.messages.parsing.message_ids import REMEMBERED
from trailgate.storage.reading.messages.files import SPLIT_BYTES
from trailgate.storage.writing.options import WriteOptions


@dataclass(frozen=True, slots=True)
class CaptureOptions(WriteOptions):
    """How a capture runs and writes; ``on_error`` is stop or quarantine.

    With more than ``max_bad`` bad messages nothing is published.
    ``again`` captures what was captured before too. With ``unordered_ids`` sequence ids that fall or repeat are captured.
    Of messages whose ids ``jms.id`` selects, ``remembered_ids`` are known when they come again.
    """

    on_error: str = "stop"
    dry_run: bool = False
    split_bytes: int = SPLIT_BYTES
    message_per_line: bool = False
    again: bool = False
    unordered_ids: bool = False
    remembered_ids: int = REMEMBERED
    max_bad: int | None = None

    def __post_init__(self) -> None:
        if self.on_error not in ("stop", "quarantine"):
            raise OptionError(f"on-error is {self.on_error}, expected stop or quarantine")
        WriteOptions.__post_init__(self)  # super() does not work in classes with slots


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """What a capture did: operations by table and kind, the files it published, and what is worth a note.

    ``definitions`` is the file that belongs to the trail where the trail's files do not hold definitions.
    What was captured before: ``skipped_files`` and ``skipped_operations`` were left out; of ``continued_files`` only the new
    end was captured. Captured whole were ``changed_files``, which had other content then, ``copied_files``, which had another
    name, and ``late_operations``, whose sequence ids are lower than the trail's highest. ``repeated_operations`` came twice in the
    messages, and were captured once; so were ``duplicate_messages``, by the ids that ``jms.id`` selects.
    ``reasons`` count the bad messages, the most frequent first; ``problems`` are these messages, in a dry run.
    """

    target: str
    counts: dict[str, dict[str, int]]
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    files: tuple[str, ...] = ()
    quarantine: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()
    definitions: str | None = None
    skipped_files: int = 0
    skipped_operations: int = 0
    continued_files: int = 0
    changed_files: int = 0
    copied_files: int = 0
    late_operations: int = 0
    repeated_operations: int = 0
    duplicate_messages: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Mapping[str, Any], ...] = ()

    @property
    def mostly_bad(self) -> bool:
        """Return whether more messages were quarantined than captured."""
        return 2 * self.quarantined > self.messages

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the summary that a manifest has of its last run."""
        texts = {name: tuple(fields.get(name, ())) for name in ("files", "notes", "problems")}
        return cls(**{**fields, **texts})
