"""Files of records verified: every field is decoded, and what is not a value is counted by field and reason, with the first places.

All files are read whole, and nothing is written. Of a file that cannot be cut into records further the error is reported, and the next file is read.
Memory is that of one chunk, and of a few places for each field and reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as member
from typing import Final, Unpack

import numpy as np

from trailgate.arrays import Longs
from trailgate.cobol.copybook.items import UNPLACED
from trailgate.cobol.records.decoding import OnError
from trailgate.cobol.records.fields import Fault, FaultyRecords, RecordBytes, Tally
from trailgate.cobol.records.framing import FrameKind
from trailgate.cobol.values.codec import Why
from trailgate.columnar.rows import windows
from trailgate.errors import TrailgateError, mask_logins
from trailgate.jobs.record_files import CopybookOptions, Decoder, records_of_split
from trailgate.jobs.record_options import OPTIONS, RecordKeywords
from trailgate.options import list_names
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.reading.record_files import (
    WHOLE_FILE,
    RecordFile,
    find_record_files,
    plan_record_splits,
)

SHOWN: Final = 3  # places of a field and a reason
Progress = Callable[[int, int], None]
_WHY: Final = tuple(Why)


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Where a field is bad, and its bytes; ``record`` and ``offset`` are None where they are not known."""

    file: str
    record: int | None
    offset: int | None
    raw: bytes


@dataclass(frozen=True, slots=True)
class BadField:
    """How often a field is bad for one reason, the first places, and what is wrong there in words.

    ``record`` is the layout's name, empty for records whose kind is not known.
    """

    record: str
    field: str
    reason: str
    count: int
    problem: str
    places: tuple[BadPlace, ...]


@dataclass(frozen=True, slots=True)
class RecordsReport:
    """What is bad in files of records.

    ``unread`` are the errors of files that could not be read to their ends, and ``counts`` what policies decided on, by policy, record and field.
    """

    files: int
    records: int
    bad_records: int
    fields: tuple[BadField, ...]
    unread: tuple[str, ...]
    counts: Mapping[tuple[str, str, str], int]

    @property
    def is_good(self) -> bool:
        """Return whether all files were read whole, and all fields are values."""
        return not (self.fields or self.unread)


@dataclass(slots=True)
class _Found:
    """What is bad so far."""

    shown: int
    records: int = 0
    bad_records: int = 0
    fields: dict[tuple[str, str, str], BadField] = member(default_factory=dict)
    unread: list[str] = member(default_factory=list)

    def add(self, file: str, one: FaultyRecords) -> None:
        """Add what is wrong in some records of a file."""
        bad = np.zeros(len(one.records), bool)
        for fault in one.faults:
            bad |= fault.rows
            rows = np.flatnonzero(fault.rows)
            reasons = _reasons(one.records, fault, rows)
            for number in np.unique(reasons).tolist():
                own = rows[reasons == number]
                self._count(file, one, fault, _WHY[number].value, own)
        self.bad_records += int(np.count_nonzero(bad))

    def _count(self, file: str, one: FaultyRecords, fault: Fault, reason: str, rows: Longs) -> None:
        key = one.record, fault.field, reason
        held = self.fields.get(key)
        places = () if held is None else held.places
        new = tuple(_place(file, one, fault, int(row)) for row in rows[: self.shown - len(places)])
        if held is None:
            raw = new[0].raw if new else fault.raw(one.records, int(rows[0]))
            problem = ". ".join(filter(None, fault.explain(raw)))
            held = BadField(*key, 0, problem, ())
        self.fields[key] = replace(held, count=held.count + len(rows), places=places + new)


def _reasons(records: RecordBytes, fault: Fault, rows: Longs) -> Longs:
    """Return the number of the reason of each of the rows in which a field is bad."""
    if isinstance(fault.why, Why):
        return np.full(len(rows), _WHY.index(fault.why))
    starts = records.starts[rows] + fault.offsets(rows)
    raws = windows(records.data, fault.size)[starts].view(np.uint8).reshape(len(rows), fault.size)
    return fault.why(raws).astype(np.int64)


def _place(file: str, one: FaultyRecords, fault: Fault, row: int) -> BadPlace:
    records, at = one.records, fault.offset(row)
    number = records.number(row) if one.numbers is None else int(one.numbers[row])
    offset = None if at == UNPLACED else int(records.offsets[row]) + at
    return BadPlace(file, number, offset, fault.raw(records, row))


@list_names(RecordKeywords, OPTIONS)
def verify_records(
    path: Addresses,
    copybook: Addresses | None = None,
    *,
    places: int = SHOWN,
    progress: Progress | None = None,
    **options: Unpack[RecordKeywords],
) -> RecordsReport:
    """Return what is bad in files of records, with so many first ``places`` of each field and reason; nothing is written.

    The options are those of ``read_records``; ``errors`` has no effect. ``progress`` is called with the bytes that are read, and those of all files.
    Raises OptionError, DefinitionError and StorageError.
    """
    chosen = CopybookOptions.of({"copybook": copybook, **options})
    return verify_files(path, chosen, places=places, progress=progress)


def verify_files(
    path: Addresses, options: CopybookOptions, *, places: int, progress: Progress | None = None
) -> RecordsReport:
    """Return what is bad in files, as ``verify_records`` does."""
    options = replace(options, records=replace(options.records, errors=OnError.COLUMN))
    tally, found = Tally(), _Found(places)
    decoder = options.decoder(tally)
    files = find_record_files(path, options.partitions)
    done, total = 0, sum(file.size for file in files)
    for file in files:
        name = mask_logins(file.path)
        try:
            for records in decoder.whole(_records(file, options, tally)):
                _verify(found, decoder, name, records)
                if progress is not None and file.codec is None and len(records):
                    progress(done + int(records.offsets[-1]), total)
        except TrailgateError as error:
            found.unread.append(str(error.with_place(source=file.path)))
        done += file.size
        if progress is not None:
            progress(done, total)
    fields = sorted(
        found.fields.values(), key=lambda one: (-one.count, one.record, one.field, one.reason)
    )
    return RecordsReport(
        len(files), found.records, found.bad_records, tuple(fields), tuple(found.unread), tally
    )


def _records(file: RecordFile, options: CopybookOptions, tally: Tally) -> Iterator[RecordBytes]:
    """Yield the records of a file; of one that ends inside a record of fixed length those before it, and then its error."""
    framing, read = options.framing, file
    if framing.kind is FrameKind.FIXED and file.codec is None:
        left = (file.size - framing.header_bytes - framing.trailer_bytes) % framing.length
        read = replace(file, size=file.size - left)
    for split in plan_record_splits((read,), framing, WHOLE_FILE):
        yield from records_of_split(split, options, tally)
    if read != file:
        plan_record_splits((file,), framing, WHOLE_FILE)  # raises


def _verify(found: _Found, decoder: Decoder, file: str, records: RecordBytes) -> None:
    found.records += len(records)
    for one in decoder.faults(records):
        found.add(file, one)
