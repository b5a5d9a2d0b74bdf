"""Files of records verified: every field is decoded, and what is not a value is counted by field and reason, with the first places.

Nothing is written. Work is planned once and verified in parts by any process, whose findings are joined in the order of the files. Of a file that cannot be cut into records
further the error is reported, and the next file is read. Memory is that of one chunk, and of a few places for each field and reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from trailgate.mainframe.files.record_files import (
    WHOLE_FILE,
    RecordFile,
    RecordSplit,
    find_record_files,
    plan_record_splits,
)
from trailgate.mainframe.jobs.options import OPTIONS, RecordKeywords
from trailgate.mainframe.jobs.reading import CopybookOptions, Decoder, records_of_split
from trailgate.options import list_names
from trailgate.storage.files.found_files import Addresses

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
class Findings:
    """What is bad so far: in one split, or in all.

    ``end`` is the number of the last record. In a split whose records have numbers that are not known they count from its first one. ``error`` is what ended a split early.
    """

    shown: int
    records: int = 0
    bad_records: int = 0
    fields: dict[tuple[str, str, str], BadField] = member(default_factory=dict)
    tally: Tally = member(default_factory=Tally)
    end: int = 0
    error: TrailgateError | None = None

    def add(self, one: FaultyRecords) -> None:
        """Add what is wrong in some records."""
        bad = np.zeros(len(one.records), bool)
        for fault in one.faults:
            bad |= fault.rows
            rows = np.flatnonzero(fault.rows)
            reasons = _reasons(one.records, fault, rows)
            for number in np.unique(reasons).tolist():
                own = rows[reasons == number]
                self._count(one, fault, _WHY[number].value, own)
        self.bad_records += int(np.count_nonzero(bad))

    def _count(self, one: FaultyRecords, fault: Fault, reason: str, rows: Longs) -> None:
        key = one.record, fault.field, reason
        held = self.fields.get(key)
        places = () if held is None else held.places
        new = tuple(_place(one, fault, int(row)) for row in rows[: self.shown - len(places)])
        if held is None:
            raw = new[0].raw if new else fault.raw(one.records, int(rows[0]))
            problem = ". ".join(filter(None, fault.explain(raw)))
            held = BadField(*key, 0, problem, ())
        self.fields[key] = replace(held, count=held.count + len(rows), places=places + new)

    def join(self, other: Findings, file: str, before: int) -> None:
        """Add what is bad in a split of a file, whose numbers count from the record after so many ``before`` it."""
        self.records += other.records
        self.bad_records += other.bad_records
        self.tally.update(other.tally)
        for key, bad in other.fields.items():
            held = self.fields.get(key, replace(bad, count=0, places=()))
            places = tuple(
                replace(one, file=file, record=None if one.record is None else one.record + before)
                for one in bad.places[: self.shown - len(held.places)]
            )
            count = held.count + bad.count
            self.fields[key] = replace(held, count=count, places=held.places + places)


def _reasons(records: RecordBytes, fault: Fault, rows: Longs) -> Longs:
    """Return the number of the reason of each of the rows in which a field is bad."""
    if isinstance(fault.why, Why):
        return np.full(len(rows), _WHY.index(fault.why))
    starts = records.starts[rows] + fault.offsets(rows)
    raws = windows(records.data, fault.size)[starts].view(np.uint8).reshape(len(rows), fault.size)
    return fault.why(raws).astype(np.int64)


def _place(one: FaultyRecords, fault: Fault, row: int) -> BadPlace:
    records, at = one.records, fault.offset(row)
    number = records.number(row) if one.numbers is None else int(one.numbers[row])
    offset = None if at == UNPLACED else int(records.offsets[row]) + at
    return BadPlace("", number, offset, fault.raw(records, row))


@dataclass(frozen=True, slots=True)
class FileWork:
    """What is verified of a file: its splits, and what is wrong with the file itself."""

    path: str
    size: int
    splits: tuple[RecordSplit, ...]
    error: TrailgateError | None = None


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """What a worker needs to verify any of the splits; without its files it can be pickled cheaply."""

    options: CopybookOptions
    places: int
    files: tuple[FileWork, ...] = ()

    @property
    def splits(self) -> list[RecordSplit]:
        """Return the splits of all files, in their order."""
        return [split for file in self.files for split in file.splits]


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
    """Return what is bad in files, each read whole in this process, as ``verify_records`` does."""
    job = prepare_verify(path, options, places, WHOLE_FILE)
    return join_findings(job, verify_splits(job, job.splits, progress))


def prepare_verify(
    path: Addresses, options: CopybookOptions, places: int, split_bytes: int | None = None
) -> VerifyJob:
    """Return the job that verifies the files at a path in splits of so many bytes, None for those of the options."""
    options = replace(options, records=replace(options.records, errors=OnError.COLUMN))
    options.decoder()  # raises
    size = split_bytes or options.split_bytes
    files = find_record_files(path, options.partitions)
    return VerifyJob(options, places, tuple(_work(file, options, size) for file in files))


def _work(file: RecordFile, options: CopybookOptions, split_bytes: int) -> FileWork:
    """Return the splits of a file; of one that ends inside a record of fixed length those of the records before that, and an error."""
    framing, whole = options.framing, file
    if framing.kind is FrameKind.FIXED and file.codec is None:
        left = (file.size - framing.header_bytes - framing.trailer_bytes) % framing.length
        whole = replace(file, size=file.size - left)
    found: tuple[RecordSplit, ...] = ()
    try:
        # Of records that are skipped the numbers are not seen in a split.
        planned = plan_record_splits(
            (whole,), framing, split_bytes, options.search, numbered=framing.skips
        )
        found = tuple(planned)
        if whole != file:
            plan_record_splits((file,), framing, WHOLE_FILE)  # raises
    except TrailgateError as error:
        return FileWork(file.path, file.size, found, error.with_place(source=file.path))
    return FileWork(file.path, file.size, found)


def verify_splits(
    job: VerifyJob, splits: Iterable[RecordSplit], progress: Progress | None = None
) -> Iterator[Findings]:
    """Yield what is bad in each of some splits, one after the other."""
    tally = Tally()
    decoder = job.options.decoder(tally)
    done, total = 0, sum(file.size for file in job.files)
    for split in splits:
        tally.clear()
        found = Findings(job.places)
        known = replace(split, first=split.first or 0)
        try:
            for records in decoder.whole(records_of_split(known, job.options, tally)):
                _verify(found, decoder, records)
                if progress is not None and split.file.codec is None and len(records):
                    progress(done + int(records.offsets[-1]), total)
        except TrailgateError as error:
            found.error = error
        found.tally = Tally(tally)
        done += split.file.size
        if progress is not None:
            progress(done, total)
        yield found


def _verify(found: Findings, decoder: Decoder, records: RecordBytes) -> None:
    found.records += len(records)
    if len(records):
        found.end = records.number(len(records) - 1) or 0
    for one in decoder.faults(records):
        found.add(one)


def join_findings(job: VerifyJob, findings: Iterable[Findings]) -> RecordsReport:
    """Return the report of what is bad in all splits, whose findings are given in their order.

    As in a file that is read whole, what is after the first error in it is not reported.
    """
    whole, unread, rest = Findings(job.places), list[str](), iter(findings)
    for file in job.files:
        name, end = mask_logins(file.path), 0
        broken: TrailgateError | None = None
        for split in file.splits:
            one = next(rest)
            if broken is not None:
                continue
            is_own = split.first is None and split.start > split.file.begin
            relative = is_own and job.options.framing.kind is not FrameKind.FIXED
            before = end if relative else 0
            whole.join(one, name, before)
            end, broken = before + one.end, one.error
        broken = broken or file.error
        if broken is not None:
            broken.where = replace(broken.where, source=file.path)
            unread.append(str(broken))
    fields = sorted(
        whole.fields.values(), key=lambda one: (-one.count, one.record, one.field, one.reason)
    )
    return RecordsReport(
        len(job.files),
        whole.records,
        whole.bad_records,
        tuple(fields),
        tuple(unread),
        whole.tally,
    )
