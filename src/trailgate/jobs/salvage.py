"""Copy all complete transactions of a damaged trail to a new trail, and list what was skipped.

The steps of a check are processed chunk by chunk. ``RecordGroups`` finds the transactions of a
chunk and decides which are complete; ``SalvageSelection`` writes these in order. Whether the last
transaction of a chunk is complete is known only later, so until then nothing after it is written,
to keep the order. Only the byte ranges of that transaction are stored, so memory use does not
depend on its length.

The new trail is built in a staging folder and checked there. Then its files get their names;
nothing is overwritten.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time_ns
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.jobs.check_steps import (
    CheckedChunk,
    FileBeginning,
    FileEnd,
    Step,
    UnreadableGap,
    last_transaction_id,
)
from trailgate.jobs.trail_check import CheckReport, FileTotals, check_files, files_to_check
from trailgate.model.kernels import BEGUN, CONTINUES_NOTHING, ENDS, UNDOES
from trailgate.model.tables import Definitions, Table
from trailgate.model.transactions import TransactionOutcome
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.durable import sync_folder
from trailgate.storage.files.locks import lock
from trailgate.storage.files.manifest import Manifest, ManifestFile, manifest_path, write_manifest
from trailgate.storage.files.trail_files import (
    StoredTrail,
    TrailFile,
    files_on_disk,
    find_stored_trail,
)
from trailgate.storage.files.trail_names import number_digits
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.writing.file_headers import build_file_header
from trailgate.storage.writing.trail_location import writable_prefix
from trailgate.trail import findings as kinds
from trailgate.trail.findings import (
    NOT_READ,
    SEQNO,
    SIZE,
    Finding,
    FindingCollector,
    FindingType,
    Severity,
)
from trailgate.trail.format.file_header import decode_header, encode_header
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.writing.file_headers import HeaderFacts, patch_header

SUSPECT: Final = "the next record continues the transaction after its end"
COPIED: Final = 4 << 20  # bytes copied at once

# Errors of the new trail that are accepted: its headers are completed only after the check, and records
# of types that readers refuse are copied too.
FILLED_IN: Final = frozenset((SIZE.name, SEQNO.name, NOT_READ.name))


@dataclass(frozen=True, slots=True)
class SourceByteRange:
    """The bytes [start, end) of a file of a damaged trail; ``number`` is its index in the trail.

    If ``apart``, they are records outside of transactions (metadata, DDL), which are copied even if
    the transaction around them is not.
    """

    number: int
    start: int
    end: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class SkippedBytes:
    """Bytes of a damaged trail that salvage does not copy, and the reason.

    ``number`` is the index of their file, and ``transaction`` the id of their transaction, if
    known.
    """

    number: int
    offset: int
    length: int
    reason: str
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class RecordGroups:
    """The records of a chunk of a damaged trail, divided into transactions ("groups").

    Some arrays have an element for each group: its first record (``firsts``), and whether it has a
    beginning (``headed``), is complete (``whole``), continues although nothing is open
    (``headless``), or is a restart (``restart``). The others have an element for each record:
    whether it closes its group (``closes``), is outside of transactions (``apart``), or is outside
    and bad (``dropped_apart``), and the index of its fault in ``kinds``, or -1 if it is good
    (``reason``). Records before the first group belong to the pending group of earlier chunks.
    """

    firsts: Longs
    headed: Mask
    whole: Mask
    headless: Mask
    restart: Mask
    closes: Mask
    apart: Mask
    dropped_apart: Mask
    reason: Longs
    kinds: tuple[FindingType, ...]

    @classmethod
    def of(cls, step: CheckedChunk) -> RecordGroups:
        """Divide the records of a checked chunk into transactions, and find those that can be salvaged."""
        found, followed = step.found, step.followed
        errors = [(kind, rows) for kind, rows in found.faults if _counts(kind)]
        reason = np.full(len(found), -1)
        # in reverse, so that the first fault of a record is the one that stays
        for number, (_, rows) in reversed(list(enumerate(errors))):
            reason[rows] = number
        apart, bad, firsts = followed.apart, reason >= 0, followed.firsts
        whole = followed.outcomes == TransactionOutcome.COMPLETE
        # one bad record makes its complete group incomplete
        whole[followed.number[bad & ~apart]] = False
        return cls(
            firsts=firsts,
            headed=followed.flags[1:] & BEGUN != 0,
            whole=whole[1:],
            headless=followed.faults[firsts] == CONTINUES_NOTHING,
            restart=followed.marks[firsts] & UNDOES != 0,
            closes=followed.marks & (ENDS | UNDOES) != 0,
            apart=apart,
            dropped_apart=apart & bad,
            reason=reason,
            kinds=tuple(kind for kind, _ in errors),
        )

    @property
    def first_row(self) -> int:
        """The row of the chunk's first group, or the number of records if no group begins."""
        return int(self.firsts[0]) if len(self.firsts) else len(self.reason)

    def why(self, row: int) -> str:
        """Return the fault of the bad record ``row``, as a sentence for the skipped bytes."""
        return self.kinds[int(self.reason[row])].statement

    def why_open(self, group: int) -> str:
        """Return the reason why the group before ``group`` has no end, as a sentence."""
        return (kinds.ABANDONED if self.restart[group] else kinds.UNENDED).statement

    def why_dropped(self, group: int) -> str:
        """Return the reason why salvage skips a group, which must not be the chunk's last one."""
        first, end = self.firsts[group : group + 2].tolist()
        rows = first + np.flatnonzero(~self.apart[first:end])
        faulty = rows[self.reason[rows] >= 0]
        if len(faulty):
            return self.why(int(faulty[0]))
        if not self.headed[group]:
            return kinds.HEADLESS.statement
        # All records are good, and the last one ends the transaction: then the end itself is
        # suspect, because the next record continues the transaction.
        return SUSPECT if self.closes[rows[-1]] else self.why_open(group + 1)


def _counts(finding_type: FindingType) -> bool:
    return finding_type.severity is Severity.ERROR and finding_type is not kinds.UNENDED


def _adjacent_ranges(step: CheckedChunk, rows: Longs) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of records within a chunk; adjacent records become one range."""
    if not len(rows):
        return
    starts = step.found.view.offsets[rows]
    ends = starts + step.found.view.lengths[rows]
    # The positions in `rows` at which a record does not start where the one before it ends.
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.concatenate([breaks, [len(rows)]]) - 1
    yield from zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)


def byte_ranges(step: CheckedChunk, rows: Longs, apart: Mask) -> Iterator[SourceByteRange]:
    """Yield the byte ranges of a chunk's records in the damaged file, in order.

    Records outside of transactions (``apart``) get separate ranges.
    """
    if not len(rows):
        return
    which = apart[rows]
    # Split between separate records and records of transactions.
    borders = np.flatnonzero(which[1:] != which[:-1]) + 1
    for piece in np.split(rows, borders):
        for start, end in _adjacent_ranges(step, piece):
            yield SourceByteRange(
                step.number, step.base + start, step.base + end, bool(apart[piece[0]])
            )


@dataclass(slots=True)
class PendingGroup:
    """A transaction or restart about which salvage cannot decide before it sees the next record.

    It may continue in the next chunk, or the next record may show that its end is wrong. ``headed``
    and ``closed``: its beginning and its end were found. ``fault`` is the problem of its first bad
    record, or "". ``parts`` are its bytes.
    """

    transaction: str | None
    headed: bool
    closed: bool = False
    counted: bool = True  # False for a restart record, which is not a transaction
    fault: str = ""
    parts: list[SourceByteRange] = field(default_factory=list)


Write = Callable[[int, Sequence[memoryview]], None]
Copy = Callable[[SourceByteRange], None]


@dataclass(slots=True)
class SalvageSelection:
    """Chooses the bytes of a damaged trail that salvage copies, from the steps of a check.

    ``write`` is called with bytes of the current file, in order, ``copy`` with byte ranges of the
    damaged files, and ``leave`` with the skipped bytes. ``transactions`` counts the copied ones.
    """

    write: Write
    copy: Copy
    leave: Callable[[SkippedBytes], None]
    transactions: int = 0
    _pending: PendingGroup | None = None
    _adjacent: bool = False
    _number: int = -1

    def take(self, step: Step) -> None:
        """Process one step of the check: write complete transactions, and report the skipped bytes to ``leave``."""
        if isinstance(step, CheckedChunk):
            self._chunk(step)
            self._adjacent = True
        elif isinstance(step, UnreadableGap):
            self._settle(kinds.BROKEN.statement)
            self._adjacent = False
            if step.end > step.start:
                self.leave(
                    SkippedBytes(step.number, step.start, step.end - step.start, step.problem)
                )
        elif isinstance(step, FileBeginning):
            # A file is missing before this one.
            if step.file.number != self._number + 1:
                self._adjacent = False
            self._number = step.file.number
        else:
            assert isinstance(step, FileEnd)

    def finish(self) -> None:
        """Decide whether to copy the pending group at the end of the damaged trail."""
        self._settle(kinds.OPEN.statement)

    def _chunk(self, step: CheckedChunk) -> None:
        groups = RecordGroups.of(step)
        first = groups.first_row
        self._extend(step, groups, range(first))
        if not len(groups.firsts):
            return
        # A first group without a beginning continues the pending one, after an end that was then
        # wrong.
        suspect = self._adjacent and bool(groups.headless[0])
        self._settle(groups.why_open(0), suspect=suspect)
        last = int(groups.firsts[-1])
        self._choose(step, groups, range(first, last))
        self._pending = PendingGroup(
            last_transaction_id(step, last, last),
            bool(groups.headed[-1]),
            counted=not groups.restart[-1],
        )
        self._extend(step, groups, range(last, len(step.found)))

    def _extend(self, step: CheckedChunk, groups: RecordGroups, span: range) -> None:
        """Add the records ``span`` of a damaged trail's chunk to the pending group.

        If no group is pending, they are outside of transactions, and begin a group that is
        complete.
        """
        start, stop = span.start, span.stop
        if start == stop:
            return
        rows = np.arange(start, stop)
        good = rows[~groups.dropped_apart[start:stop]]
        self._leave_apart(step, groups, span)
        pending = self._pending
        if pending is None:
            # At the start of a trail, only separate records come before the first group.
            pending = self._pending = PendingGroup(None, headed=True, closed=True)
        if pending.transaction is None:
            pending.transaction = last_transaction_id(step, stop - 1, start)
        for part in byte_ranges(step, good, groups.apart):
            pending.parts.append(part)
        in_transaction = rows[~groups.apart[start:stop]]
        if len(in_transaction):
            pending.closed = bool(groups.closes[in_transaction[-1]])
            faulty = in_transaction[groups.reason[in_transaction] >= 0]
            if len(faulty) and not pending.fault:
                pending.fault = groups.why(int(faulty[0]))

    def _choose(self, step: CheckedChunk, groups: RecordGroups, span: range) -> None:
        """Write the complete groups of the records ``span``, and report the others as skipped.

        All groups begin and end in the span.
        """
        start, stop = span.start, span.stop
        if start == stop:
            return
        # Without the last group, which may continue in the next chunk and is pending.
        whole = groups.whole[:-1]
        self.transactions += int((whole & ~groups.restart[:-1]).sum())
        # one element per record: whether its group is complete
        kept = np.repeat(whole, np.diff(groups.firsts))
        apart = groups.apart[start:stop]
        kept = np.where(apart, ~groups.dropped_apart[start:stop], kept)
        self._leave_apart(step, groups, span)
        rows = start + np.flatnonzero(kept)
        view = step.data.data
        parts = _adjacent_ranges(step, rows)
        self.write(step.number, [view[one:two] for one, two in parts])
        for group in np.flatnonzero(~whole).tolist():
            first, end = int(groups.firsts[group]), int(groups.firsts[group + 1])
            in_transaction = first + np.flatnonzero(~groups.apart[first:end])
            left = SkippedBytes(
                step.number,
                step.base + int(step.found.view.offsets[first]),
                int(step.found.view.lengths[in_transaction].sum()),
                groups.why_dropped(group),
                last_transaction_id(step, int(in_transaction[-1]), first),
            )
            self.leave(left)

    def _leave_apart(self, step: CheckedChunk, groups: RecordGroups, span: range) -> None:
        start, stop = span.start, span.stop
        for row in (start + np.flatnonzero(groups.dropped_apart[start:stop])).tolist():
            offset = step.base + int(step.found.view.offsets[row])
            length = int(step.found.view.lengths[row])
            self.leave(SkippedBytes(step.number, offset, length, groups.why(row)))

    def _settle(self, open_because: str, *, suspect: bool = False) -> None:
        """Copy the pending group of the damaged trail if it is complete.

        Otherwise copy only its records that are outside of transactions, and report the rest as
        skipped. ``open_because`` is the reason if the group has no end. ``suspect`` means that the
        next record continues the transaction after its end, so records are missing.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return
        reason = pending.fault or ("" if pending.headed else kinds.HEADLESS.statement)
        reason = reason or ("" if pending.closed else open_because)
        reason = reason or (SUSPECT if suspect else "")
        in_transaction = [part for part in pending.parts if not part.apart]
        if not reason and in_transaction:
            self.transactions += pending.counted
        for part in pending.parts:
            if part.apart or not reason:
                self.copy(part)
        if reason:
            # one entry of the list per source file
            for number in sorted({part.number for part in in_transaction}):
                here = [part for part in in_transaction if part.number == number]
                length = sum(part.end - part.start for part in here)
                left = SkippedBytes(number, here[0].start, length, reason, pending.transaction)
                self.leave(left)


class SalvagedTrail:
    """The files of the trail that salvage writes.

    Records are appended in the order in which they are found, and headers are completed at the end.
    """

    def __init__(self, folder: Path, prefix: str, files: tuple[TrailFile, ...]) -> None:
        self.digits = (number_digits(files[0].path) if files else 0) or 9
        self.first = files[0].number if files else 0
        self.folder, self.prefix, self.files = folder, prefix, files
        self.now = time_ns() // 1000
        self.headers: list[tuple[bytes, ByteOrder]] = []
        self.tables: dict[str, Table] = {}
        self.skipped_parts = self.skipped_bytes = 0
        self.list = (folder / "left-out").open("w")
        self.selection = SalvageSelection(self.write, self.copy, self.leave)

    def name(self, number: int) -> str:
        """Return the name of a new trail file, without its folder."""
        return f"{Path(self.prefix).name}{self.first + number:0{self.digits}}"

    def take(self, step: Step) -> None:
        """Process one step of the check: copy complete transactions, and list skipped bytes."""
        if isinstance(step, FileBeginning):
            self._begin(step)
        elif isinstance(step, FileEnd):
            for known in step.tables.tables.values():
                if known.table is not None:
                    self.tables.setdefault(known.name.casefold(), known.table)
        self.selection.take(step)

    def _begin(self, step: FileBeginning) -> None:
        """Start a file of the new trail with the header of the damaged trail's file.

        If that header is damaged or missing, the file gets a new one.
        """
        if step.problem and step.raw:
            self.leave(SkippedBytes(step.number, 0, len(step.raw), step.problem))
        facts = HeaderFacts("", self.first + step.number)
        if step.header is not None:
            self.headers.append((step.raw, step.header.order))
            # A patched header that reads back with the new number has all the fields to change.
            patched = self._patch(step.number, facts)
            if decode_header(patched)[0].trail.seqno == facts.seqno:
                (self.folder / self.name(step.number)).write_bytes(patched)
                return
            self.headers.pop()  # it does not have the fields that must be changed
        made = build_file_header(self.prefix, self.digits, self.now)
        self.headers.append((encode_header(made), made.order))
        patched = self._patch(step.number, facts)
        (self.folder / self.name(step.number)).write_bytes(patched)

    def _patch(self, number: int, facts: HeaderFacts) -> bytes:
        raw, order = self.headers[number]
        filename = str(Path(self.prefix).with_name(self.name(number)))
        return patch_header(raw, order, replace(facts, filename=filename))

    def write(self, number: int, pieces: Sequence[memoryview]) -> None:
        """Append bytes to the new trail file with the index ``number``."""
        with (self.folder / self.name(number)).open("ab") as file:
            file.writelines(pieces)

    def copy(self, part: SourceByteRange) -> None:
        """Append bytes of a damaged file to the new trail file with the same number."""
        with TrailFileReader(self.files[part.number]) as reader:
            for place in range(part.start, part.end, COPIED):
                data = reader.read(place, min(COPIED, part.end - place))
                self.write(part.number, [data.data])

    def leave(self, skipped: SkippedBytes) -> None:
        """Add an entry to the list of skipped bytes."""
        self.skipped_parts += 1
        self.skipped_bytes += skipped.length
        line = {
            "file": name_of(self.files[skipped.number].path),
            "offset": skipped.offset,
            "length": skipped.length,
            "reason": skipped.reason,
            "transaction": skipped.transaction,
        }
        self.list.write(json.dumps(line, ensure_ascii=False) + "\n")

    def staged_files(self) -> tuple[TrailFile, ...]:
        """Return the new trail files in the staging folder."""
        paths = [self.folder / self.name(number) for number in range(len(self.files))]
        return tuple(
            TrailFile(str(path), self.first + number, path.stat().st_size)
            for number, path in enumerate(paths)
        )

    def fill_in(self, number: int, totals: FileTotals) -> None:
        """Write the size, the CSNs and the times of a new trail file into its header."""
        actual = totals.facts
        facts = HeaderFacts(
            "",
            self.first + number,
            totals.file.size,
            first_csn=actual.first_csn,
            last_csn=actual.last_csn,
            first_io_time=actual.first_time,
            last_io_time=actual.last_time,
        )
        with Path(totals.file.path).open("r+b") as file:
            file.write(self._patch(number, facts))
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class SalvageResult:
    """The result of salvage: the new trail, how much was skipped, and the damaged trail's report.

    ``listed`` is the path of the list of skipped bytes.
    """

    prefix: str
    files: tuple[str, ...]
    transactions: int
    operations: int
    skipped_parts: int
    skipped_bytes: int
    listed: str
    report: CheckReport


def salvage(
    path: str, out: str, definitions: str | None = None, *, values: bool = False
) -> SalvageResult:
    """Copy the complete transactions of a damaged trail to a new trail ``out``.

    With ``values``, transactions with a value that cannot be decoded are skipped too. Raises
    StorageError if files of the new trail exist already, and OptionError if ``out`` is not a
    prefix.
    """
    prefix = writable_prefix(out)
    trail = find_stored_trail(path, definitions)
    findings = FindingCollector()
    files = files_to_check(trail, findings)
    with lock(prefix), _staging(prefix) as folder:
        _refuse_existing(prefix)
        work = SalvagedTrail(folder, prefix, files)
        totals = [one for one, _ in check_files(trail, files, findings, work.take, values=values)]
        work.selection.finish()
        report = CheckReport(path, tuple(one.report() for one in totals), findings.result())
        return _publish(work, trail, report)


def _refuse_existing(prefix: str) -> None:
    beside = [_list_path(prefix), manifest_path(prefix), Path(f"{prefix}.def")]
    existing = [path for path in beside if path.exists()]
    existing += [Path(file.path) for file in files_on_disk(prefix)]
    if existing:
        problem = "a file of the new trail exists already, and is not overwritten"
        raise StorageError(problem, where=Where(source=str(existing[0])), hint="Name a new prefix")


def _list_path(prefix: str) -> Path:
    return Path(f"{prefix}.left-out.jsonl")


@contextmanager
def _staging(prefix: str) -> Iterator[Path]:
    target = Path(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.salvage-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(work: SalvagedTrail, trail: StoredTrail, report: CheckReport) -> SalvageResult:
    """Check the salvaged trail, complete its headers, and give its files their names.

    The manifest is written last. Raises StorageError, and writes nothing, if the check finds an
    error.
    """
    work.list.close()
    staged = work.staged_files()
    definitions = trail.definitions
    if definitions is None and work.tables:
        definitions = Definitions(tuple(work.tables.values()))
    new_trail = StoredTrail(work.prefix, staged, definitions=definitions)
    findings = FindingCollector()
    totals = [one for one, _ in check_files(new_trail, staged, findings)]
    for number, one in enumerate(totals):
        work.fill_in(number, one)
    worst = next((found for found in findings.result() if _stays(found)), None)
    if worst is not None:
        problem = f"the salvaged trail is damaged, so nothing was written: {worst}"
        raise StorageError(problem, where=Where(source=report.path))
    published = tuple(
        ManifestFile(name_of(one.file.path), one.file.number, one.file.size, one.operations)
        for one in totals
    )
    _place(work, definitions)
    write_manifest(work.prefix, Manifest(published))
    return SalvageResult(
        prefix=work.prefix,
        files=tuple(file.name for file in published),
        transactions=work.selection.transactions,
        operations=sum(one.operations for one in totals),
        skipped_parts=work.skipped_parts,
        skipped_bytes=work.skipped_bytes,
        listed=str(_list_path(work.prefix)),
        report=report,
    )


def _stays(finding: Finding) -> bool:
    """Return whether an error in the salvaged trail remains after its headers are completed."""
    return finding.severity is Severity.ERROR and finding.kind not in FILLED_IN


def _place(work: SalvagedTrail, definitions: Definitions | None) -> None:
    folder = Path(work.prefix).parent
    if definitions is not None:
        with Path(f"{work.prefix}.def").open("xb") as file:
            file.write(write_sourcedefs(definitions))
    for number in range(len(work.files)):
        (work.folder / work.name(number)).rename(folder / work.name(number))
    (work.folder / "left-out").rename(_list_path(work.prefix))
    sync_folder(folder)
