"""A live trail on disk: its growing file, its checkpoint, and recovery after an interruption.

``growing_file.py`` writes the last file, and ``recovery.py`` reads what an interrupted run has left
after the checkpoint. At a start, ``LiveTrail.recover`` repairs the trail in one of two modes: append
mode keeps the complete records after the last commit and appends a restart record, overwrite mode
truncates the trail to its checkpoint. docs/recovery.md gives the reasons.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trailgate.errors import OptionError, StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.options import NamedValues, check_calls
from trailgate.storage.files.manifest import manifest_path
from trailgate.storage.files.trail_files import TrailFile, TrailPosition, files_on_disk
from trailgate.storage.live.checkpoint import (
    Checkpoint,
    TransactionMark,
    checkpoint_path,
    encode_checkpoint,
    read_checkpoint,
)
from trailgate.storage.live.growing_file import Disk, GrowingFile
from trailgate.storage.live.recovery import Recovered, files_after, read_tail
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.writing.file_headers import PRODUCER, build_file_header
from trailgate.storage.writing.segments import WriteOptions, check_digits
from trailgate.trail.format.file_header import ContinuityInfo, FileHeader
from trailgate.trail.writing.file_headers import encode_metadata, fill_in_format
from trailgate.trail.writing.writer import encode_restart_record

LOG: Final = logging.getLogger(__name__)
DISCARDED: Final = "%s, byte %d: the last %d bytes are discarded: an interrupted run had not finished them, and the source is asked for them again"
APPEND_LEVEL: Final = 1  # append recovery needs release 10 (trail format §4.6)


class Recovery(NamedValues):
    """What a start of a live capture does with the bytes after the last commit (docs/recovery.md).

    ``APPEND`` keeps complete records and appends a restart record; ``OVERWRITE`` truncates the
    trail. The values are written into file headers. Their meaning is an assumption: the
    documentation only shows a header with the value 1.
    """

    OVERWRITE = 0
    APPEND = 1


@check_calls
@dataclass(frozen=True, slots=True)
class AppendOptions(WriteOptions):
    """The options of writing a live trail.

    If ``recovery`` is None, the mode is append, or overwrite if the format's level does not support
    append mode. ``new_file`` begins a new file at each start. ``group`` is the writer's name in
    headers and restart records.
    """

    recovery: Recovery | None = None
    new_file: bool = False
    group: str = PRODUCER

    def __post_init__(self) -> None:
        WriteOptions.__post_init__(self)  # super() does not work in classes with slots
        if not self._appends and self.recovery is Recovery.APPEND:
            problem = f"a trail of level {self.trail_format.level} only supports overwrite recovery"
            raise OptionError(problem)
        try:
            self.group.encode()
        except UnicodeEncodeError:
            raise OptionError(f"group is {self.group!r}, which is not UTF-8") from None

    @property
    def mode(self) -> Recovery:
        """The recovery mode that applies to the live trail."""
        return self.recovery or (Recovery.APPEND if self._appends else Recovery.OVERWRITE)

    @property
    def _appends(self) -> bool:
        return self.trail_format.level >= APPEND_LEVEL


def load_checkpoint(prefix: str, options: AppendOptions) -> Checkpoint | None:
    """Return the checkpoint from which a live trail is continued, or None if the trail does not exist yet.

    Raises StorageError or OptionError if the trail cannot be continued.
    """
    where = Where(source=prefix)
    if manifest_path(prefix).exists():
        hint = "Add to it in the way it was made: by a capture of files, or with Spark"
        raise StorageError(
            "the trail has a manifest, so it is not a live trail", where=where, hint=hint
        )
    known = read_checkpoint(prefix)
    if known is None:
        if files_on_disk(prefix):
            hint = "Begin a new trail: only live trails can be continued"
            raise StorageError("the trail has no checkpoint", where=where, hint=hint)
        return None
    check_digits(known.digits, options.seq_digits)
    if bool(known.level) != options.trail_format.has_header:
        problem = f"the trail has level {known.level}: level 0 cannot be mixed with others"
        raise OptionError(problem)
    return known


class LiveTrail:
    """The files, checkpoint and recovery of a live trail. The caller decides which bytes to write.

    ``files`` writes the trail's files. ``last`` is the last complete transaction that this writer
    knows; the caller updates it.
    """

    def __init__(
        self,
        disk: Disk,
        prefix: str,
        options: AppendOptions,
        definitions: Definitions,
        known: Checkpoint | None,
    ) -> None:
        self._disk, self._prefix, self._options = disk, prefix, options
        trail_format = options.trail_format
        self._checkpoint = known or Checkpoint(trail_format.level, options.seq_digits)
        if known is None:
            self._write_checkpoint(self._checkpoint)
        template = _template(prefix, options) if trail_format.has_header else None
        metadata = b""
        if trail_format.by_index:
            metadata = encode_metadata(definitions, trail_format, _now())
        self.files = GrowingFile(disk, prefix, options.seq_digits, template, metadata)
        self.last = self._checkpoint.last

    def recover(self) -> Recovered:
        """Repair the live trail so that it can be added to, and return the point from which capture continues."""
        modes = {Recovery.APPEND: self._append_mode, Recovery.OVERWRITE: self._overwrite_mode}
        return modes[self._options.mode]()

    def begin(self, first: TransactionMark | None) -> None:
        """Begin the live trail's next file.

        The checkpoint is written first, so that a later start recognizes the file.
        """
        number = self.files.number
        if number > self._checkpoint.begun:
            self._write_checkpoint(replace(self._checkpoint, begun=number))
        self.files.begin(first)

    def commit(self, source_position: str) -> None:
        """Sync everything written so far, and record its end in the checkpoint."""
        self.files.sync()
        self._write_checkpoint(
            replace(
                self._checkpoint,
                file=self.files.number,
                offset=self.files.size,
                source_position=source_position,
                last=self.last,
            )
        )

    def _append_mode(self) -> Recovered:
        """Recover in append mode: truncate a torn last record, then append a restart record."""
        tail = read_tail(self._prefix, self._checkpoint)
        self.last = tail.last
        self.files.number = tail.file
        if tail.torn and tail.path:
            _log_discarded(tail.path, tail.offset, tail.path.stat().st_size)
        # An offset of 0 means that the last file has no complete header, or no change yet.
        if tail.offset and tail.path:
            self._continue_file(tail.path, TrailPosition(tail.file, tail.offset), tail.current)
        elif tail.torn and tail.path:
            self._disk.remove(tail.path)
        if tail.offset or tail.file:
            self._restart(abandoned=tail.is_open)
        position = self._checkpoint.source_position
        return Recovered(position, tail.transactions, tail.last, tail.is_open)

    def _continue_file(
        self, path: Path, position: TrailPosition, last: TransactionMark | None
    ) -> None:
        """Reopen the live trail's last file at a position, or close it there if a new file must follow.

        ``last`` is the transaction of the last change before the position.
        """
        header = _header_of(path, position)
        self.files.resume(position, header, last)
        self.files.sync()
        # Readers of a closed file wait for the next one, so nothing may be added to it.
        if self._must_change(header) or (header and header.trail.file_size is not None):
            self.files.finish()

    def _must_change(self, header: FileHeader | None) -> bool:
        """Return True if a reopened file must be followed by a new file at once.

        This is the case if the options request it. It is also the case if the format has changed,
        because all records of a file must be of one version (trail format §4.6), or if records name
        tables by index, because the file's metadata may lack tables that were defined later.
        """
        wanted = self._options.trail_format
        if self._options.new_file or wanted.by_index:
            return True
        if header is None:
            return False
        return (header.trail.compatibility, header.order) != (wanted.level, wanted.order)

    def _restart(self, *, abandoned: bool) -> None:
        """Append a restart record to the live trail, in a new file if the open one is full.

        ``abandoned`` means that the record undoes an incomplete transaction before it.
        """
        order = self._options.trail_format.order
        record = encode_restart_record(
            self._options.group, _now(), abandoned=abandoned, order=order
        )
        if self.files.is_open and self.files.size + len(record) > self._options.max_bytes:
            self.files.finish()
        if not self.files.is_open:
            self.begin(None)
        self.files.write(record, None)
        self.files.sync()

    def _overwrite_mode(self) -> Recovered:
        """Recover in overwrite mode: truncate the live trail to its checkpoint, and delete later files."""
        known = self._checkpoint
        files = files_after(self._prefix, known)
        self.files.number = known.file
        # From the last file backwards, so that an interruption leaves no gap.
        for file in reversed(files):
            kept = known.offset if file.number == known.file else 0
            _log_discarded(Path(file.path), kept, file.size)
            if file.number > known.file or not known.offset:
                self._disk.remove(Path(file.path))
        if known.offset:
            position = TrailPosition(known.file, known.offset)
            header = _header_of(Path(files[0].path), position)
            self.files.resume(position, header, known.last)
            self.files.reopen()
            self.files.sync()
            if self._must_change(header):
                self.files.finish()
        cut = bool(files) and (files[-1].number, files[-1].size) != (known.file, known.offset)
        return Recovered(known.source_position, 0, known.last, cut)

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._disk.replace(checkpoint_path(self._prefix), encode_checkpoint(checkpoint))
        self._checkpoint = checkpoint


def _template(prefix: str, options: AppendOptions) -> FileHeader:
    header = build_file_header(prefix, options.seq_digits, _now())
    header = replace(
        header,
        producer=replace(header.producer, name=options.group),
        continuity=ContinuityInfo(recovery_mode=options.mode.value),
    )
    return fill_in_format(header, options.trail_format)


def _header_of(path: Path, position: TrailPosition) -> FileHeader | None:
    with TrailFileReader(TrailFile(str(path), *position)) as reader:
        return reader.header


def _log_discarded(path: Path, kept: int, size: int) -> None:
    """Warn if bytes at the end of a live trail's file are discarded."""
    if size > kept:
        LOG.warning(DISCARDED, path, kept, size - kept)


def _now() -> int:
    return time.time_ns() // 1000
