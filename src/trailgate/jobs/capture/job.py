"""What a capture is given to do: planned once, run range by range anywhere, published in one place.

A run that did not finish is repeated with its time, so that its bytes are the same.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from trailgate.capture.capture import Capture
from trailgate.errors import OptionError
from trailgate.jobs.capture.loading import infer_tables
from trailgate.jobs.capture.repeats import IdRule, Recognised, recognised
from trailgate.messages.metadata import REMEMBERED, MessageIdRule
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.reading.message_files import (
    SPLIT_BYTES,
    FileList,
    MessageFiles,
    MessageRange,
    find_messages,
    plan_ranges,
)
from trailgate.storage.writing.segments import WriteOptions
from trailgate.storage.writing.target import (
    Target,
    check_tables,
    check_trail,
    file_header,
    location_of,
)
from trailgate.storage.writing.trail_location import TrailLocation


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
        strings = {name: tuple(fields.get(name, ())) for name in ("files", "notes", "problems")}
        return cls(**{**fields, **strings})


@dataclass(frozen=True)
class CaptureJob:
    """All that a worker needs to run any of the ranges; it can be pickled.

    ``done`` is what an interrupted run of the same input had published; then there are no ranges. ``recognised`` is what
    the trail knows of the input, and ``ids`` what its sequence ids are compared with, if the messages give them. ``message_ids``
    is how the messages' own ids are compared, where they have them; they are read in one range then.
    """

    capture: Capture
    source: MessageFiles
    target: Target
    options: CaptureOptions
    ranges: tuple[MessageRange, ...]
    done: CaptureSummary | None = None
    recognised: Recognised | None = None
    ids: IdRule | None = None
    message_ids: MessageIdRule | None = None

    def anywhere(self) -> CaptureJob:
        """Return the job as workers take it: with absolute paths, as they run in other folders, and without what publishing alone needs."""
        files = FileList(replace(file, path=absolute(file.path)) for file in self.source.files)
        ids = self.ids
        if ids is not None:
            ids = replace(ids, prefix=absolute(ids.prefix))
        source = replace(self.source, files=files)
        return replace(self, source=source, ids=ids, recognised=None)


def prepare(
    capture: Capture,
    path: Addresses,
    target: Address | TrailLocation,
    options: CaptureOptions | None = None,
) -> CaptureJob:
    """Return a job over the messages at ``path``, one address or several, into the trail ``target``.

    Files that were captured into it before are left out, unless the options say again.
    A run that did not finish and had the same input is resumed with its time, so that
    its bytes are the same. Raises StorageError where the trail must not be written.
    """
    options = options or CaptureOptions()
    location = location_of(target) if isinstance(target, str | os.PathLike) else target
    if options.dry_run:
        manifest = location.manifest()
    else:
        location, manifest = location.recover()
    prefix = location.prefix
    check_trail(location, manifest, options)
    found = find_messages(path, options.message_per_line, cutter=capture.cutter)
    captured = location.captured(manifest.captured) if manifest and not options.again else ()
    known = recognised(found, captured)
    source = known.files
    existing = location.definitions()
    capture = infer_tables(capture, found, existing)
    definitions = _merge(existing, capture)
    check_tables(definitions, options)
    asked = (replace(capture, now=0), source, prefix, options)
    fingerprint = hashlib.sha256(repr(asked).encode()).hexdigest()
    now, run, done, staging = time.time_ns() // 1000, "", None, location.backend.staging("staging")
    if not options.dry_run:
        staging, now = location.backend.begin_run(fingerprint, now)
        run = f"{fingerprint}-{now}"
        location.begin()
        if manifest is not None and manifest.last_run == run:
            done = CaptureSummary.of(manifest.summary)
    process = capture.rules.environment.group
    header = file_header(prefix, options.seq_digits, now, process)
    ids = None
    if capture.options.gives_ids:
        last = None if manifest is None or options.again else manifest.last_id or None
        ordered, by_id = not options.unordered_ids, capture.options.by_id
        ids = IdRule(location.address, last, ordered, by_id)
    message_ids = None
    if any(file.json for file in source.files):
        message_ids = MessageIdRule.of(
            capture.options, ordered=not options.unordered_ids, remembered=options.remembered_ids
        )
    capture = replace(capture, now=now, first_file=0 if manifest is None else manifest.sources)
    apart = not capture.options.by_id and message_ids is None
    ranges = () if done else plan_ranges(source, options.split_bytes, apart=apart)
    staged = Target(location, staging, run, header, definitions, options)
    return CaptureJob(capture, source, staged, options, ranges, done, known, ids, message_ids)


def _merge(known: Definitions | None, capture: Capture) -> Definitions:
    """Return the trail's definitions with those of the tables that are captured."""
    wanted = [table for table in capture.definitions if capture.rules.wants(table.name)]
    if known is None:
        return Definitions(tuple(wanted), capture.definitions.database)
    return known.merge(wanted)
