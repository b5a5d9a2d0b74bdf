"""Continue a trail at a stored position, after checking that it is still the same trail.

A stored position contains the position of the last operation that was applied or published, its
commit sequence number (CSN), and a digest of its record. If the trail was replaced by a different
one, the record there has a different digest. ``reached`` is where the next batch begins; it may be
in a later file, so that earlier files can be removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from trailgate.errors import DecodeError, StorageError, Where
from trailgate.model.positions import parse_position, short_position
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.storage.reading.transaction_spans import find_last_begin
from trailgate.trail.format.tokens import LOGCSN
from trailgate.trail.records.record import TrailRecord, decode_record

DIGEST_BYTES: Final = 8


class TrailUse(NamedTuple):
    """The purpose for which a trail is read, such as applying it, as words for error messages.

    ``done`` is what happened to its operations, such as "applied". ``missing`` is the hint if files
    are missing, in which ``{}`` stands for the option that skips the operations before them.
    ``changed`` is the hint if the trail was replaced by another one.
    """

    done: str
    missing: str
    changed: str


APPLIED: Final = TrailUse(
    "applied",
    "Restore the files. To continue without the missing operations, use a different group and skip the applied ones: --group NAME{}",
    "To continue the earlier trail, restore its files. To apply this one from its beginning, empty the tables and use a different group: --group NAME",
)


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """How far a trail was read: the position, CSN and digest of the last operation, and where to continue.

    ``position`` and ``reached``, where the next batch begins, have 20 digits. Every part except
    ``position`` may be None, if it is unknown. ``position`` is "" if no operation has been selected
    so far; ``reached`` is then known.
    """

    position: str
    csn: str | None = None
    digest: str | None = None
    reached: str | None = None

    @property
    def place(self) -> TrailPosition:
        """The stored position of the last operation, or where reading continues if there is none."""
        return TrailPosition(*parse_position(self.position or self.reached or ""))

    @property
    def first_needed(self) -> TrailPosition:
        """The first position that must still be in the trail."""
        return TrailPosition(*parse_position(self.reached)) if self.reached else self.place


def record_digest(trail: TrailFiles, position: TrailPosition) -> str:
    """Return the digest of the record at a trail position. Raises DecodeError if no record begins there."""
    with TrailFileReader(trail.file(position.number)) as reader:
        data = reader.read(position.offset, LONGEST)
        record = decode_record(data, order=reader.order, base=position.offset)
    return _digest(data[: record.length].tobytes())


def continue_at(
    trail: TrailFiles, stored: StoredPosition, use: TrailUse = APPLIED
) -> TrailPosition:
    """Find where to continue reading after a stored position. Errors name the ``use`` of the trail.

    Raises StorageError if files or bytes are missing, or if the trail or one of its files is a
    different one.
    """
    position, needed = stored.place, stored.first_needed
    _check_files(trail, stored, use)
    if stored.position and position.number >= trail.begin.number:
        _check_record(trail, stored, use)
    if stored.reached:
        return needed
    return find_last_begin(trail, position) or trail.begin


def _check_files(trail: TrailFiles, stored: StoredPosition, use: TrailUse) -> None:
    """Raise StorageError if trail files or bytes from the stored position on are missing."""
    needed, first = stored.first_needed, trail.begin.number
    where = Where(source=trail.prefix)
    if needed.number < first:
        last = first - 1
        missing = (
            f"file number {last} is"
            if needed.number == last
            else f"files number {needed.number} to {last} are"
        )
        # Not by its CSN, which later transactions may share.
        skip = f" --after {short_position(stored.position)}" if stored.position else ""
        raise StorageError(
            f"{missing} missing: the trail was read up to position {_short(needed)}, but now begins at file number {first}",
            where=where,
            hint=use.missing.format(skip),
        )
    # Example: file 3 was read to its end at byte 500. Reading continues at byte 500 of file 3, or at
    # the start of file 4, which does not exist yet.
    if needed in (TrailPosition(trail.end.number + 1, 0), trail.end):
        return  # the file was read to its end, and nothing follows it yet
    if needed > trail.end or needed.offset > trail.file(needed.number).size:
        end = (
            trail.end
            if needed > trail.end
            else TrailPosition(needed.number, trail.file(needed.number).size)
        )
        raise StorageError(
            f"the trail was cut back, or another one was written: it was {use.done} up to position {_short(stored.place)}, and read up to {_short(needed)}, "
            f"but {'ends' if end == trail.end else 'this file ends'} at {_short(end)}",
            where=where,
            hint=use.changed,
        )


def _check_record(trail: TrailFiles, stored: StoredPosition, use: TrailUse) -> None:
    """Raise StorageError if the record at the stored position is a different one."""
    position = stored.place
    file = trail.file(position.number)
    with TrailFileReader(file) as reader:
        reader.check_number()
        data = reader.read(position.offset, LONGEST)
        try:
            record = decode_record(data, order=reader.order, base=position.offset)
        except DecodeError:
            raise _another(trail, stored, use, "no record starts there now") from None
    if stored.digest and stored.digest != _digest(data[: record.length].tobytes()):
        raise _another(trail, stored, use, "the record there is a different one now")
    csn = _csn(trail, position, record)
    if stored.csn is not None and csn is not None and csn != stored.csn:
        raise _another(trail, stored, use, f"the CSN there is {csn} now")


def _csn(trail: TrailFiles, position: TrailPosition, record: TrailRecord) -> str | None:
    """Return the CSN of a trail record or of its transaction's first record, or None if neither has one."""
    # Usually only the first record of a transaction has a CSN.
    raw = record.token(LOGCSN)
    if raw is None:
        begin = find_last_begin(trail, position)
        if begin is None:
            return None  # the file with the beginning of the transaction is missing
        with TrailFileReader(trail.file(begin.number)) as reader:
            first = reader.read(begin.offset, LONGEST)
            raw = decode_record(first, order=reader.order, base=begin.offset).token(LOGCSN)
    return None if raw is None else raw.decode("utf-8", "replace")


def _another(
    trail: TrailFiles, stored: StoredPosition, use: TrailUse, problem: str
) -> StorageError:
    csn = "" if stored.csn is None else f", CSN {stored.csn}"
    name = name_of(trail.file(stored.place.number).path)
    return StorageError(
        f"another trail was written under this prefix: {name} was {use.done} up to byte {stored.place.offset}{csn}, but {problem}",
        where=Where(source=trail.prefix),
        hint=use.changed,
    )


def _digest(raw: bytes) -> str:
    return blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()


def _short(position: TrailPosition) -> str:
    return f"{position.number}:{position.offset}"
