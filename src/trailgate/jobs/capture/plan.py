"""The options of a capture, and the planned job: its files, their ranges, and where the trail is.

A ``CaptureJob`` can be pickled and contains everything that a worker needs. ``job.plan_capture`` makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trailgate.capture.capture import Capture
from trailgate.errors import (
    OptionError,
)
from trailgate.jobs.capture.recognized_files import RecognizedFiles
from trailgate.jobs.capture.sequence_ids import SequenceIdRule
from trailgate.jobs.capture.summary import (
    CaptureSummary,
)
from trailgate.messages.message_ids import REMEMBERED, MessageIdRule
from trailgate.storage.files.addresses import absolute
from trailgate.storage.reading.message_files import (
    MESSAGE_SPLIT_BYTES,
    MessageFileList,
    MessageFiles,
    MessageRange,
)
from trailgate.storage.writing.segments import WriteOptions
from trailgate.storage.writing.trail_location import (
    TrailTarget,
)


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


@dataclass(frozen=True)
class CaptureJob:
    """A planned capture: everything that a worker needs to run any of its ranges.

    It can be pickled. `source` are the message files, `target` is the trail, and `ranges` are the
    parts of the input.

    If an interrupted run of the same input had already published, `done` is its summary and
    `ranges` is empty. `recognized` is the result of comparing the input with the files captured
    before. `repaired` are the digests of the quarantined messages that the input repairs. `ids` is
    the rule for checking sequence ids, if the messages have them. `message_ids` is the rule for
    recognizing redelivered messages; such messages are read in one range.
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
    repaired: str = ""

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
        return replace(self, source=source, ids=ids, recognized=None, repaired="")
