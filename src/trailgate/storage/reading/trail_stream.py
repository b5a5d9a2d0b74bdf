"""A growing trail as a stream of batches that contain only complete transactions.

An offset in the stream is always the end of a transaction. All bytes after the last such end have
to wait, however many there are: they may be an open transaction, or a transaction that a restart
record undid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Self
from zlib import crc32

from trailgate.errors import OptionError, StorageError, Where
from trailgate.model.positions import parse_position
from trailgate.storage.files.trail_files import (
    TrailFile,
    TrailFiles,
    TrailPosition,
    check_last_files,
)
from trailgate.storage.reading.message_stream import NO_LIMIT, BatchLimit
from trailgate.storage.reading.splits import TrailSplit, plan_splits
from trailgate.storage.reading.stored_position import StoredPosition, TrailUse, continue_at
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.storage.reading.trail_file_checks import (
    check_file_ends,
    check_numbers,
    check_stated_size,
)
from trailgate.storage.reading.trail_rest import TrailRest, find_trail_rest
from trailgate.storage.reading.transaction_spans import (
    find_first_end,
    find_last_begin,
    find_last_end,
)

EARLIEST, LATEST = "earliest", "latest"
# The bytes before an offset that must not change. They usually contain the transaction's CSN.
CHECKED: Final = 4096
FIRST_CHECKED, FIRST_DIGITS = 32, 8  # the checksum's bytes and digits in old checkpoints
BEFORE_ALL: Final = TrailPosition(-1, 0)  # the beginning of a trail that has no files yet
HINT: Final = "Restore the trail, or start a new stream with a new checkpoint and startingPosition"
STREAMED: Final = TrailUse("read", HINT, HINT)


def check_starting_position(text: str) -> str:
    """Check where a stream of a trail starts: "earliest", "latest" or a position. Raises OptionError."""
    if text not in (EARLIEST, LATEST):
        try:
            parse_position(text)
        except OptionError as error:
            problem = f"startingPosition must be earliest, latest or a position, not {text!r}"
            raise OptionError(problem, hint=error.hint) from None
    return text


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The offset of a trail stream: a position, and a checksum of the bytes before it.

    The checksum detects that a trail was rewritten after it was read.
    """

    place: TrailPosition
    check: str = ""  # 16 digits; 8 in old checkpoints (``_first_check_sum``)

    @classmethod
    def read(cls, offset: Mapping[str, Any]) -> Self:
        """Parse the offset of a trail stream from its JSON form."""
        return cls(TrailPosition(int(offset["file"]), int(offset["offset"])), str(offset["check"]))

    def json(self) -> dict[str, Any]:
        """Format the offset of a trail stream as JSON.

        Spark compares the text, so the order of keys is fixed.
        """
        return {"file": self.place.number, "offset": self.place.offset, "check": self.check}


NOWHERE: Final = StreamOffset(BEFORE_ALL)


class TrailStream:
    """A growing trail as a stream: finds the ends of batches, and their splits.

    ``find`` returns the trail in its current state, or None while it has no files. ``use`` contains
    the words for error messages.
    """

    def __init__(self, find: Callable[[], TrailFiles | None], use: TrailUse = STREAMED) -> None:
        self._find, self._use = find, use
        self._target: TrailPosition | None = None
        # No transaction ends between these two positions, so a long open one is not searched twice.
        self._barren = (BEFORE_ALL, BEFORE_ALL)
        self._sound = BEFORE_ALL.number  # files up to this number end with a complete record

    def initial(self, position: str) -> StreamOffset:
        """Return the offset at which a new trail stream starts.

        ``position`` is "earliest", "latest" (the end of the last complete transaction) or a
        position in the trail. A position inside a transaction is moved to the beginning of that
        transaction. Raises OptionError for a position after the trail's end.
        """
        trail = self._find()
        if trail is None:
            return NOWHERE
        if position == EARLIEST:
            found: TrailPosition | None = trail.begin
        elif position == LATEST:
            found = find_last_end(trail, trail.end, trail.begin)
        else:
            requested = TrailPosition(*parse_position(position))
            if requested > trail.end:
                end = f"{trail.end.number}:{trail.end.offset}"
                problem = f"startingPosition {position} is after the trail's end, which is {end}"
                raise OptionError(
                    problem, hint="latest begins with operations that are added from now on"
                )
            if requested == trail.end == find_last_end(trail, trail.end, trail.begin):
                found = requested  # after the last transaction, not inside it
            else:
                found = find_last_begin(trail, requested) if requested > trail.begin else None
        return _offset(trail, found or trail.begin)

    def stop_at_present_end(self) -> None:
        """Limit all later batches to the operations that are in the trail now (Spark's ``availableNow``)."""
        trail = self._find()
        self._target = BEFORE_ALL if trail is None else trail.end

    @property
    def ends(self) -> bool:
        """True if the trail stream ends at a fixed position."""
        return self._target is not None

    def latest(self, start: StreamOffset, limit: BatchLimit = NO_LIMIT) -> StreamOffset:
        """Return the end of the next batch of the trail, or ``start`` if no complete transaction follows.

        If ``start`` is the end of a finished file, that is the start of the next file instead.
        """
        trail = self._find()
        if trail is None:
            self._check_begun(trail, start)
            return start
        self._check(trail, start)
        check_last_files(trail)
        begin = max(start.place, trail.begin)
        ceiling = trail.end if self._target is None else min(trail.end, self._target)
        if ceiling <= begin:
            return _pass_finished_file(trail, start)
        end = self._end(trail, begin, min(_limit(trail, begin, limit), ceiling))
        # No transaction ends: check that this is not because of damage.
        if end is None:
            self._check_rest(trail, begin)
        if end is None or end > ceiling:
            return _pass_finished_file(trail, start)
        reached = _offset(trail, end)
        read = [file for file in trail.files_from(begin.number) if (file.number, 0) < end]
        check_numbers(read)
        # A file that is followed by others must be complete.
        for file in read:
            if file.number < reached.place.number:
                check_stated_size(file)
        return reached

    def resume_at(self, stored: StoredPosition) -> StreamOffset:
        """Return the offset at which the trail stream continues after a stored position.

        Raises StorageError if the trail has no files, and in the cases in which ``continue_at``
        does.
        """
        trail = self._find()
        if trail is None:
            raise self._no_trail()
        position = continue_at(trail, stored, self._use)
        if position.number > trail.end.number:
            return StreamOffset(position)
        return StreamOffset(position, _check_sum(trail.file(position.number), position.offset))

    def rest(self, start: StreamOffset) -> TrailRest | None:
        """Return the bytes after the trail's last complete transaction, or None while the trail has no files."""
        trail = self._find()
        if trail is None:
            return None
        return find_trail_rest(trail, start.place)

    def check_numbers(self, start: StreamOffset) -> None:
        """Raise StorageError if the number in a file's header differs from the number in its name, from a position on."""
        trail = self._find()
        if trail is not None:
            check_numbers(trail.files_from(start.place.number))

    def splits(
        self, start: StreamOffset, end: StreamOffset, split_bytes: int
    ) -> tuple[TrailFiles, list[TrailSplit]] | None:
        """Return the trail up to the end of a stream's batch, and the batch's splits; None for an empty batch.

        The same batch always contains the same operations.
        """
        trail = self._find()
        if start == end or trail is None:
            self._check_begun(trail, start)
            return None
        self._check(trail, start)
        self._check(trail, end)
        begin = max(start.place, trail.begin)
        return trail.until(end.place), plan_splits(trail, split_bytes, (begin, end.place))

    def _check_rest(self, trail: TrailFiles, begin: TrailPosition) -> None:
        """Raise an error if damaged or missing bytes are the reason that no transaction ends after ``begin``.

        Files that were checked before are not read again.
        """
        first = max(begin.number, min(self._sound + 1, trail.end.number))
        check_file_ends(trail, TrailPosition(first, 0))
        self._sound = trail.end.number - 1

    def _end(
        self, trail: TrailFiles, begin: TrailPosition, wanted: TrailPosition
    ) -> TrailPosition | None:
        """Return where a stream's batch that starts at ``begin`` and should end at ``wanted`` ends, or None.

        That is the end of the last transaction up to ``wanted``, or if there is none, of the first
        transaction after it.
        """
        since, until = self._barren
        # A writer may remove its last file and start it again, so the range may not exist any more.
        # Continue the search after the range that was already searched in vain.
        floor = until if since == begin and until <= trail.end else begin
        end = find_last_end(trail, wanted, floor) if wanted > floor else None
        end = end or find_first_end(trail, max(wanted, floor))
        if end is None:
            # The last record may be continued, so its part of the range is searched again.
            offset = max(trail.end.offset - LONGEST, 0)
            self._barren = (begin, max(begin, TrailPosition(trail.end.number, offset)))
        return end

    def _no_trail(self) -> StorageError:
        return StorageError(
            "the trail that was read before no longer exists", hint=self._use.changed
        )

    def _check_begun(self, trail: TrailFiles | None, start: StreamOffset) -> None:
        if trail is None and start.place != BEFORE_ALL:
            raise self._no_trail()

    def _check(self, trail: TrailFiles, offset: StreamOffset) -> None:
        """Raise StorageError if the trail has changed before an offset of the stream."""
        number, byte_offset = offset.place
        if offset.place in (BEFORE_ALL, (trail.end.number + 1, 0)):
            return  # nothing was read from a file that does not exist yet, or no longer
        if number < trail.begin.number:
            raise self._change_error(
                trail.prefix, f"file number {number} was removed before it was read"
            )
        if number > trail.end.number:
            problem = (
                f"the trail was shortened: file number {number}, read before, no longer exists"
            )
            raise self._change_error(trail.prefix, problem)
        file = trail.file(number)
        if byte_offset > file.size:
            problem = f"the trail was shortened to byte {file.size}, but was read up to byte {byte_offset} before"
            raise self._change_error(file.path, problem)
        check_sum = _first_check_sum if len(offset.check) == FIRST_DIGITS else _check_sum
        if check_sum(file, byte_offset) != offset.check:
            problem = f"the trail was rewritten before byte {byte_offset}, which was read before"
            raise self._change_error(file.path, problem)

    def _change_error(self, source: str, problem: str) -> StorageError:
        return StorageError(problem, where=Where(source=source), hint=self._use.changed)


def _limit(trail: TrailFiles, begin: TrailPosition, limit: BatchLimit) -> TrailPosition:
    """Return the trail position up to which a batch that begins at ``begin`` may extend."""
    files = list(trail.files_from(begin.number))
    if limit.files is not None:
        files = files[: limit.files]
    position = begin
    room = limit.bytes
    for file in files:
        start = begin.offset if file.number == begin.number else 0
        # The limit is reached inside this file.
        if room is not None and file.size - start >= room:
            return TrailPosition(file.number, start + room)
        room = None if room is None else room - (file.size - start)
        position = TrailPosition(file.number, file.size)
    return position


def _offset(trail: TrailFiles, position: TrailPosition) -> StreamOffset:
    """Convert a trail position to an offset of the stream.

    The end of a finished file becomes the start of the next file, so that the finished file may be
    removed once it is read.
    """
    file = trail.file(position.number)
    if position.offset == file.size and file.number < trail.end.number:
        return StreamOffset(TrailPosition(position.number + 1, 0))
    return StreamOffset(position, _check_sum(file, position.offset))


def _pass_finished_file(trail: TrailFiles, start: StreamOffset) -> StreamOffset:
    """Return the start of the next file if ``start`` is the end of a finished file, else ``start``.

    The finished file may then be removed.
    """
    position = start.place
    if not trail.begin.number <= position.number < trail.end.number:
        return start
    file = trail.file(position.number)
    if position.offset < file.size:
        return start
    check_stated_size(file)
    return _offset(trail, position)


def _check_sum(file: TrailFile, offset: int) -> str:
    """Return a checksum of the last ``CHECKED`` bytes before an offset of a trail file, without the file's header."""
    if not offset:
        return ""
    start = max(offset - CHECKED, 0)
    with TrailFileReader(file) as reader:
        if start < LONGEST:  # a header, which its writer changes, may be that long
            start = max(start, reader.begin)
        if start >= offset:
            return ""
        return blake2b(reader.read(start, offset - start).tobytes(), digest_size=8).hexdigest()


def _first_check_sum(file: TrailFile, offset: int) -> str:
    """Return a checksum as in old checkpoints of a trail stream: of the last ``FIRST_CHECKED`` bytes."""
    start = max(offset - FIRST_CHECKED, 0)
    with TrailFileReader(file) as reader:
        return f"{crc32(reader.read(start, offset - start).tobytes()):08x}"
