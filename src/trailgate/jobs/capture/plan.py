"""The options, the planned job and the summary of a capture; `job.py` makes and runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from trailgate.capture.capture import Capture
from trailgate.errors import (
    OptionError,
)
from trailgate.jobs.capture.recognized_files import RecognizedFiles
from trailgate.jobs.capture.sequence_ids import SequenceIdRule
from trailgate.messages.metadata import REMEMBERED, MessageIdRule
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import absolute
from trailgate.storage.reading.message_files import (
    MESSAGE_SPLIT_BYTES,
    MessageFileList,
    MessageFiles,
    MessageRange,
)
from trailgate.storage.writing.segments import WriteOptions
from trailgate.storage.writing.trail_location import TrailTarget

KNOWN: Final = ("skipped", "continued", "changed", "copied")  # counts of `RecognizedFiles`
SUMMED: Final = (  # counts of RangeReport that are added up, under the same names in the summary
    "messages",
    "transactions",
    "operations",
    "quarantined",
    "skipped_operations",
    "repeated_operations",
    "late_operations",
    "duplicate_messages",
    "skipped_messages",
)
RANKED: Final = 20  # reasons listed in a summary


@dataclass(frozen=True, slots=True)
class CaptureOptions(WriteOptions):
    """How a capture runs and writes. `on_error` is "stop" or "quarantine".

    A `dry_run` reads and checks all messages, but writes nothing. The input is cut into ranges of
    about `split_bytes`. With `message_per_line`, each line of a plain file is a message; otherwise
    the file is one. If more than `max_bad` messages are bad, nothing is published. `again` also
    captures files that were captured before. `unordered_ids` accepts sequence ids that fall or
    repeat. If `jms.id` selects message ids, the last `remembered_ids` ids are remembered to
    recognize redelivered messages.
    """

    on_error: str = "stop"
    dry_run: bool = False
    split_bytes: int = MESSAGE_SPLIT_BYTES
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
    """The result of a capture: operations by table and type, the published files, and warnings.

    `target` is the prefix of the trail. `definitions` is the definitions file written beside the
    trail, if the trail's own files do not contain definitions. `quarantine` is the file with the
    `quarantined` messages.

    The other fields are counts. `skipped_files` and `skipped_operations` were captured before and
    were skipped. Of `continued_files` only the appended part was captured. These were captured
    completely: `changed_files` (captured before with different content), `copied_files` (captured
    before under a different name) and `late_operations` (their sequence ids are lower than the
    highest one in the trail). `repeated_operations` and `duplicate_messages` occurred twice in the
    input and were captured once; the latter are recognized by the ids that `jms.id` selects.
    `skipped_messages` contain no operation.

    `reasons` counts the bad messages by reason, the most frequent first. `problems` lists them, in
    a dry run only.
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
    skipped_messages: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Mapping[str, Any], ...] = ()

    @property
    def mostly_bad(self) -> bool:
        """Whether more messages were quarantined than captured. Messages without operations are neither."""
        return 2 * self.quarantined > self.messages - self.skipped_messages

    @classmethod
    @check_arguments
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Rebuild the summary of a capture from its fields in the manifest of the trail."""
        strings = {name: tuple(fields.get(name, ())) for name in ("files", "notes", "problems")}
        return cls(**{**fields, **strings})


@dataclass(frozen=True)
class CaptureJob:
    """A planned capture: everything that a worker needs to run any of its ranges.

    It can be pickled. `source` are the message files, `target` is the trail, and `ranges` are the
    parts of the input.

    If an interrupted run of the same input had already published, `done` is its summary and
    `ranges` is empty. `recognized` is the result of comparing the input with the files captured
    before. `ids` is the rule for checking sequence ids, if the messages have them. `message_ids` is
    the rule for recognizing redelivered messages; such messages are read in one range.
    """

    capture: Capture
    source: MessageFiles
    target: TrailTarget
    options: CaptureOptions
    ranges: tuple[MessageRange, ...]
    done: CaptureSummary | None = None
    recognized: RecognizedFiles | None = None
    ids: SequenceIdRule | None = None
    message_ids: MessageIdRule | None = None

    def anywhere(self) -> CaptureJob:
        """Return the capture job for workers on other machines.

        Its paths are absolute, and it lacks the members that only `publish_capture` needs.
        """
        files = MessageFileList(
            replace(file, path=absolute(file.path)) for file in self.source.files
        )
        ids = self.ids
        if ids is not None:
            ids = replace(ids, prefix=absolute(ids.prefix))
        source = replace(self.source, files=files)
        return replace(self, source=source, ids=ids, recognized=None)
