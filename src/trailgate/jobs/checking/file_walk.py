"""Go through the files of a trail once, in portions, and tell all that a check or a rescue needs of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from trailgate.arrays import PORTION, Octets
from trailgate.errors import DecodeError, TrailgateError
from trailgate.jobs.checking.reading import Reading
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.found_trail import FoundTrail
from trailgate.storage.files.trail_files import TrailFile
from trailgate.storage.reading.trail.trail_file import TrailFileReader, usual_charset
from trailgate.trail.annotation.file_header import header_order
from trailgate.trail.checking.data import unfinished
from trailgate.trail.checking.inspected import Inspected
from trailgate.trail.checking.records import inspect
from trailgate.trail.checking.tables import Known, check_tables
from trailgate.trail.checking.transactions import Followed, TransactionState, check_csns, follow
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.file_header import SIGNATURE, FileHeader, decode_header
from trailgate.trail.format.tokens import FRAME, RECORD
from trailgate.trail.records.framing import find_sound
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record_view import RecordView, view_records
from trailgate.trail.records.resync import LONGEST, find_good, guess_order
from trailgate.trail.records.trail_bytes import TrailBytes, trail_bytes

SIGNATURE_AT: Final = 3 * FRAME  # after the frames of F, its first group and its first field
AFTER_DAMAGE: Final = 256 << 10  # where there is damage there may be more: less is read in vain
SHORTER: Final = "the file is shorter than its header or the manifest states"
UNFINISHED: Final = "the file ends inside a record"


@dataclass(frozen=True, slots=True)
class FileBegun:
    """A file's begin: its header as bytes and as a value, or why there is none."""

    number: int  # of the file among those looked at
    file: TrailFile
    order: ByteOrder
    raw: bytes = b""
    header: FileHeader | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Portion:
    """RecordPlaces that follow each other; ``base`` is the place of ``data`` in the file."""

    number: int
    base: int
    data: Octets
    found: Inspected
    followed: Followed


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are not records, up to the next good one."""

    number: int
    start: int
    end: int
    problem: str
    before: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class FileEnded:
    """The end of a file, with the tables of its metadata."""

    number: int
    file: TrailFile
    tables: TrailTables


Step = FileBegun | Portion | Gap | FileEnded


@dataclass(slots=True)
class _Place:
    """What goes along from portion to portion."""

    state: TransactionState
    known: Known = field(default_factory=Known)
    reading: Reading = field(default_factory=Reading)
    size: int = 0  # that the file should have, as manifest and header say; 0: they do not


def steps(
    trail: FoundTrail, files: tuple[TrailFile, ...], *, values: bool = False
) -> Iterator[Step]:
    """Yield all that is in these files; damage is reported, not raised. Raises StorageError.

    With ``values`` values are decoded as well.
    """
    elsewhere = bool(files) and (trail.alone or files[0].number > 0)
    reading = Reading(trail.definitions or Definitions(()), values=values)
    place = _Place(TransactionState(elsewhere=elsewhere), reading=reading)
    last: TrailFile | None = None
    for number, file in enumerate(files):
        if last is not None and file.number != last.number + 1:
            place.state = replace(place.state, is_open=False)
        place.known = Known(trail.definitions)
        entry = (trail.manifest or {}).get(name_of(file.path))
        place.size = entry.size if entry is not None else 0
        with TrailFileReader(file) as reader:
            yield from _file(number, reader, place)
            if place.state.is_open and file.size < place.size:
                # Cut where a record ends: the next file must not continue this transaction.
                yield _gap(number, reader, (file.size, file.size), SHORTER)
                place.state = replace(place.state, is_open=False)
        yield FileEnded(number, file, place.known.tables)
        last = file


def _file(number: int, reader: TrailFileReader, place: _Place) -> Iterator[Step]:
    begun, begin = _begin(number, reader)
    yield begun
    said = begun.header.trail.file_size if begun.header is not None else None
    charset = usual_charset(begun.header, place.reading.definitions)
    place.reading = replace(place.reading, charset=charset)
    place.size = max(place.size, said or 0)
    if begin > len(begun.raw):
        place.known = replace(place.known, lost=True)
        yield _gap(number, reader, (len(begun.raw), begin), "no record begins here")
        place.state = replace(place.state, is_open=False)
    yield from _body(number, reader, (begin, begun.order), place)


def _begin(number: int, reader: TrailFileReader) -> tuple[FileBegun, int]:
    """Return a file's header and where its first record begins."""
    file = reader.file
    head = reader.read(0, LONGEST).tobytes()
    if head[:1] == bytes((RECORD,)):
        return FileBegun(number, file, guess_order(reader.read, 0, file.size)), 0
    try:
        header, length = decode_header(head)
        if head[SIGNATURE_AT : SIGNATURE_AT + len(SIGNATURE)] != SIGNATURE:
            raise DecodeError("the header's signature is missing")
    except TrailgateError as error:
        length = _framed(head)
        order = guess_order(reader.read, length, file.size)
        begun = FileBegun(number, file, order, head[:length], problem=error.problem)
    else:
        order = guess_order(reader.read, length, file.size)
        begun = FileBegun(number, file, order, head[:length], header)
    first = head[length : length + 1]
    if begun.header is not None or length or not first:
        return begun, length
    return begun, find_good(reader.read, 0, file.size, order)


def _framed(head: bytes) -> int:
    """Return the length of a header whose frame is right, whatever is in it; else 0."""
    order = header_order(head)
    return 0 if order is None else order.number(head[2:FRAME])


def _body(
    number: int, reader: TrailFileReader, begin: tuple[int, ByteOrder], place: _Place
) -> Iterator[Step]:
    at, order = begin
    size, wanted = reader.file.size, PORTION
    while at < size:
        data = reader.read(at, wanted)
        places, error = find_sound(data, order)
        problem = error.problem if error is not None else ""
        source = trail_bytes(data, at, order)
        view = view_records(source, places)
        if not problem and at + len(data) < size:
            # An operation at the end waits for the next portion, which may have more of it.
            view = view.take(slice(len(view) - unfinished(view)))
            if not len(view) and wanted < size:
                wanted = 4 * wanted
                continue
        wanted = PORTION if wanted > PORTION else min(2 * wanted, PORTION)
        if len(view):
            yield _portion(number, source, view, place)
            at += view.end
        elif not problem:
            problem = UNFINISHED
        if problem:
            end = find_good(reader.read, at + 1, size, order)
            yield _gap(number, reader, (at, end), problem)
            place.state = replace(place.state, is_open=False)
            place.known = replace(place.known, lost=True)
            at, wanted = end, min(AFTER_DAMAGE, PORTION)


def _portion(number: int, source: TrailBytes, view: RecordView, place: _Place) -> Portion:
    tables = place.known.tables
    accepted = place.reading.accepts(source, view, tables)
    found = inspect(source, view, accepted=accepted)
    check_csns(found, place.state.csn)
    followed = follow(found, place.state)
    place.state = followed.state
    place.known = check_tables(found, source, place.known)
    if not accepted:
        place.reading.check(found, followed, source, tables)
    return Portion(number, source.base, source.data, found, followed)


AROUND: Final = 32  # bytes shown before damage
SHOWN: Final = 64  # bytes shown of the damage itself


def _gap(number: int, reader: TrailFileReader, span: tuple[int, int], problem: str) -> Gap:
    start, end = span
    before = max(0, start - AROUND)
    raw = reader.read(start, min(SHOWN, end - start)).tobytes()
    return Gap(number, start, end, problem, reader.read(before, start - before).tobytes(), raw)
