"""Verify files of records: decode every field, and count bad fields by name and reason.

Nothing is written. ``prepare_verify`` plans splits, ``verify_splits`` verifies them in any process,
and ``join_findings`` combines the results in file order. If the rest of a file cannot be divided
into records, the error is reported and the next file is read. Memory is limited to one chunk, and a
few examples per field and reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as member
from typing import Final, Unpack

import numpy as np

from trailgate.arrays import Longs
from trailgate.cobol.copybook.placed_items import UNPLACED
from trailgate.cobol.records.field_faults import FaultyRecords, FieldFault
from trailgate.cobol.records.framing import FrameKind
from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.cobol.records.record_options import BadFieldPolicy
from trailgate.cobol.values.codec import FaultReason
from trailgate.columnar.gather import sliding_windows
from trailgate.errors import TrailgateError, shown_source
from trailgate.mainframe.files.record_files import (
    WHOLE_FILE,
    RecordFile,
    RecordSplit,
    find_record_files,
    plan_record_splits,
)
from trailgate.mainframe.jobs.copybook_options import CopybookOptions, Decoder
from trailgate.mainframe.jobs.options import OPTIONS, RecordKeywords
from trailgate.mainframe.jobs.reading import read_undecoded_records
from trailgate.options import list_names
from trailgate.storage.files.addresses import Addresses

SHOWN: Final = 3  # examples per field and reason
Progress = Callable[[int, int], None]
_WHY: Final = tuple(FaultReason)


@dataclass(frozen=True, slots=True)
class BadFieldExample:
    """One occurrence of a bad field in a record file, and its bytes.

    ``record`` and ``offset`` are None if unknown.
    """

    file: str
    record: int | None
    offset: int | None
    raw: bytes


@dataclass(frozen=True, slots=True)
class BadField:
    """The number of bad values of a field for one reason, with the first occurrences and an explanation.

    ``record`` is the layout's name, or "" for records of unknown kind.
    """

    record: str
    field: str
    reason: str
    count: int
    problem: str
    examples: tuple[BadFieldExample, ...]


@dataclass(frozen=True, slots=True)
class RecordsReport:
    """The report of verifying record files (``records --verify``).

    ``unread`` are the errors of files that could not be read to the end. ``counts`` is the number
    of values that an option changed or accepted, by option, record and field.
    """

    files: int
    records: int
    bad_records: int
    fields: tuple[BadField, ...]
    unread: tuple[str, ...]
    counts: Mapping[tuple[str, str, str], int]

    @property
    def is_good(self) -> bool:
        """True if all files were read completely, and no field is bad."""
        return not (self.fields or self.unread)


@dataclass(slots=True)
class VerifyFindings:
    """The bad fields found so far in one split of a record file, or in all splits.

    ``shown`` is the maximum number of examples of each field and reason. ``end`` is the number of the
    last record; if the record numbers of a split are unknown, it counts from the split's first
    record. ``error`` is the error that ended a split early.
    """

    shown: int
    records: int = 0
    bad_records: int = 0
    fields: dict[tuple[str, str, str], BadField] = member(default_factory=dict)
    tally: PolicyTally = member(default_factory=PolicyTally)
    end: int = 0
    error: TrailgateError | None = None

    def add(self, part: FaultyRecords) -> None:
        """Count the bad fields of a chunk of records, and keep the first examples."""
        bad = np.zeros(len(part.records), bool)
        for fault in part.faults:
            bad |= fault.rows
            rows = np.flatnonzero(fault.rows)
            reasons = _reasons(part.records, fault, rows)
            # ``rows`` are the records in which the field is bad, ``reasons`` their reasons, in the
            # same order.
            for number in np.unique(reasons).tolist():
                rows_of_reason = rows[reasons == number]
                self._count(part, fault, _WHY[number].value, rows_of_reason)
        self.bad_records += int(np.count_nonzero(bad))

    def _count(self, part: FaultyRecords, fault: FieldFault, reason: str, rows: Longs) -> None:
        key = part.record, fault.field, reason
        field = self.fields.get(key)
        examples = () if field is None else field.examples
        new = tuple(_example(part, fault, int(row)) for row in rows[: self.shown - len(examples)])
        if field is None:
            raw = new[0].raw if new else fault.raw(part.records, int(rows[0]))
            problem = ". ".join(filter(None, fault.explain(raw)))
            field = BadField(*key, 0, problem, ())
        self.fields[key] = replace(field, count=field.count + len(rows), examples=examples + new)

    def join(self, other: VerifyFindings, file: str, before: int) -> None:
        """Add the findings of a split of ``file``. ``before`` is added to the split's record numbers."""
        self.records += other.records
        self.bad_records += other.bad_records
        self.tally.update(other.tally)
        for key, bad in other.fields.items():
            field = self.fields.get(key, replace(bad, count=0, examples=()))
            examples = tuple(
                replace(one, file=file, record=None if one.record is None else one.record + before)
                for one in bad.examples[: self.shown - len(field.examples)]
            )
            count = field.count + bad.count
            self.fields[key] = replace(field, count=count, examples=field.examples + examples)


def _reasons(records: RecordBytes, fault: FieldFault, rows: Longs) -> Longs:
    """Return for each of ``rows``, in which a field is bad, the index of the reason in ``FaultReason``."""
    if isinstance(fault.why, FaultReason):
        return np.full(len(rows), _WHY.index(fault.why))
    starts = records.starts[rows] + fault.offsets(rows)
    raws = (
        sliding_windows(records.data, fault.size)[starts]
        .view(np.uint8)
        .reshape(len(rows), fault.size)
    )
    return fault.why(raws).astype(np.int64)


def _example(part: FaultyRecords, fault: FieldFault, row: int) -> BadFieldExample:
    records, at = part.records, fault.offset(row)
    number = records.number(row) if part.numbers is None else int(part.numbers[row])
    offset = None if at == UNPLACED else int(records.offsets[row]) + at
    return BadFieldExample("", number, offset, fault.raw(records, row))


@dataclass(frozen=True, slots=True)
class FileWork:
    """The splits of a record file to verify, and the error that applies to the whole file, if there is one."""

    path: str
    size: int
    splits: tuple[RecordSplit, ...]
    error: TrailgateError | None = None


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """The plan to verify record files: the options, the number of examples, and the splits of each file.

    To verify a split, a worker does not need ``files``, so the job is pickled without them.
    """

    options: CopybookOptions
    examples: int
    files: tuple[FileWork, ...] = ()

    @property
    def splits(self) -> list[RecordSplit]:
        """The splits of all files to verify, in order."""
        return [split for file in self.files for split in file.splits]


@list_names(RecordKeywords, OPTIONS)
def verify_records(
    path: Addresses,
    copybook: Addresses | None = None,
    *,
    examples: int = SHOWN,
    progress: Progress | None = None,
    **options: Unpack[RecordKeywords],
) -> RecordsReport:
    """Verify files of records, and return a report with up to ``examples`` bad values of each field and reason.

    The options are those of ``read_records``; ``errors`` has no effect. ``progress`` is
    called with the number of bytes read and the total. Raises OptionError, DefinitionError or
    StorageError.
    """
    chosen = CopybookOptions.of({"copybook": copybook, **options})
    return verify_files(path, chosen, examples=examples, progress=progress)


def verify_files(
    path: Addresses, options: CopybookOptions, *, examples: int, progress: Progress | None = None
) -> RecordsReport:
    """Verify record files in this process, each as one split, as ``verify_records`` does."""
    job = prepare_verify(path, options, examples, WHOLE_FILE)
    return join_findings(job, verify_splits(job, job.splits, progress))


def prepare_verify(
    path: Addresses, options: CopybookOptions, examples: int, split_bytes: int | None = None
) -> VerifyJob:
    """Plan the verification of files in splits of ``split_bytes`` (None: the option's value)."""
    options = replace(options, records=replace(options.records, errors=BadFieldPolicy.COLUMN))
    options.decoder()  # only to raise errors early
    size = split_bytes or options.split_bytes
    files = find_record_files(path, options.partitions)
    job = VerifyJob(options, examples, tuple(_work(file, options, size) for file in files))
    options.warn_of_ascii(job.splits)
    return job


def _work(file: RecordFile, options: CopybookOptions, split_bytes: int) -> FileWork:
    """Plan the splits in which a record file is verified.

    If a file of fixed-length records ends inside a record, the complete records are planned, and
    the error is stored.
    """
    framing, readable = options.framing, file
    if framing.kind is FrameKind.FIXED and file.codec is None:
        left = (file.size - framing.header_bytes - framing.trailer_bytes) % framing.length
        readable = replace(file, size=file.size - left)
    splits_found: tuple[RecordSplit, ...] = ()
    try:
        # If records are skipped, numbers do not follow from offsets, so splits must know them.
        planned = plan_record_splits(
            (readable,), framing, split_bytes, options.search, numbered=framing.skips
        )
        splits_found = tuple(planned)
        if readable != file:
            plan_record_splits((file,), framing, WHOLE_FILE)  # raises the error to report
    except TrailgateError as error:
        return FileWork(file.path, file.size, splits_found, error.with_place(source=file.path))
    return FileWork(file.path, file.size, splits_found)


def verify_splits(
    job: VerifyJob, splits: Iterable[RecordSplit], progress: Progress | None = None
) -> Iterator[VerifyFindings]:
    """Verify splits of record files, and yield the findings of each."""
    tally = PolicyTally()
    decoder = job.options.decoder(tally)
    done, total = 0, sum(file.size for file in job.files)
    for split in splits:
        tally.clear()
        findings = VerifyFindings(job.examples)
        # Count from 0 if the number is unknown; ``join`` adds the number of earlier records.
        known = replace(split, first=split.first or 0)
        try:
            for records in decoder.independent_pieces(
                read_undecoded_records(known, job.options, tally)
            ):
                _verify(findings, decoder, records)
                if progress is not None and split.file.codec is None and len(records):
                    progress(done + int(records.offsets[-1]), total)
        except TrailgateError as error:
            findings.error = error
        findings.tally = PolicyTally(tally)
        done += split.file.size
        if progress is not None:
            progress(done, total)
        yield findings


def _verify(findings: VerifyFindings, decoder: Decoder, records: RecordBytes) -> None:
    findings.records += len(records)
    if len(records):
        findings.end = records.number(len(records) - 1) or 0
    for one in decoder.faults(records):
        findings.add(one)


def join_findings(job: VerifyJob, findings: Iterable[VerifyFindings]) -> RecordsReport:
    """Combine the findings of all splits, in order, into the report of the verification.

    After the first error in a file its later splits are ignored, as if the file had been read in
    one piece.
    """
    total, unread, rest = VerifyFindings(job.examples), list[str](), iter(findings)
    for file in job.files:
        name, end = shown_source(file.path), 0
        broken: TrailgateError | None = None
        for split in file.splits:
            one = next(rest)
            if broken is not None:
                continue
            # Numbers of such a split count from its own first record.
            is_own = split.first is None and split.start > split.file.begin
            relative = is_own and job.options.framing.kind is not FrameKind.FIXED
            before = end if relative else 0
            total.join(one, name, before)
            end, broken = before + one.end, one.error
        broken = broken or file.error
        if broken is not None:
            broken.where = replace(broken.where, source=file.path)
            unread.append(str(broken))
    fields = sorted(
        total.fields.values(), key=lambda one: (-one.count, one.record, one.field, one.reason)
    )
    return RecordsReport(
        files=len(job.files),
        records=total.records,
        bad_records=total.bad_records,
        fields=tuple(fields),
        unread=tuple(unread),
        counts=total.tally,
    )
