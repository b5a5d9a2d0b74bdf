"""Many records checked at once: header, parts, names, columns and tokens, images and pieces of large objects.

The rules are those by which readers refuse a record (``trail.records.record_problems``), but nothing is raised: a fault
is a kind and the records that have it. Tables that records name are known from definitions, or from the file's own metadata.

Note what is out of order: records that contradict the transactions around them, and CSNs that descend.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.errors import TrailgateError
from trailgate.model.kernels import ABANDONS, BEGINS, BEGINS_INSIDE, CONTINUES_NOTHING
from trailgate.model.tables import Definitions
from trailgate.model.transactions import Followed, follow
from trailgate.trail import findings as kinds
from trailgate.trail.findings import Kind, Severity
from trailgate.trail.format.record_layout import FETCHED, FIELD_COMP, FROM_LOG, PIECE_HEAD
from trailgate.trail.format.record_types import (
    IO_LARGE_OBJECT,
    IO_METADATA,
    IO_UPDATE,
    PREFIX_OF,
    RECORD_TYPES,
    Prefix,
    Role,
)
from trailgate.trail.format.tokens import FRAME, LOGCSN, TRANID
from trailgate.trail.reading.tokens import FoundToken, find_token
from trailgate.trail.records import record_problems as problems
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.kernels import SYSTEM_KEY
from trailgate.trail.records.metadata import MetadataKind, TrailTables
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_view import RecordNames, RecordView, find_names
from trailgate.trail.records.transactions import INDICATORS, LAST, ONLY_RECORD, record_marks
from trailgate.trail.values.cells import hold_cells

UNNAMED: Final = -1
UNKNOWN: Final = 0xFF  # a TransInd


@dataclass(frozen=True, slots=True)
class Inspected:
    """Records, and their faults. A record of a fault that is an error is ``bad``.

    ``trans_ind`` is ``UNKNOWN`` where it cannot be known. ``name`` is an index into ``names``, ``index`` a table index of
    the file's metadata; -1 where a record has none. ``csn`` and ``tx`` are the ids that records carry.
    """

    view: RecordView
    trans_ind: Octets
    name: Longs
    names: list[str]
    index: Longs
    csn: tuple[Longs, list[str]]
    tx: tuple[Longs, list[str]]
    faults: list[tuple[Kind, Longs]] = field(default_factory=list)
    details: dict[int, str] = field(default_factory=dict)  # of faults, by record

    def __len__(self) -> int:
        return len(self.view)

    @property
    def bad(self) -> Mask:
        """Return which records have an error of their own."""
        bad = np.zeros(len(self), bool)
        for kind, rows in self.faults:
            # Where a transaction is not ended it is the one before the record that is not whole.
            # Records of types that readers refuse are whole.
            if kind.severity is Severity.ERROR and kind not in (kinds.UNENDED, kinds.NOT_READ):
                bad[rows] = True
        return bad

    def note(self, kind: Kind, found: Any) -> None:
        """Add a fault, given as a mask or as rows."""
        rows = np.asarray(found)
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(rows):
            self.faults.append((kind, rows))


def check_data(found: Inspected, source: TrailBytes, *, accepted: bool) -> None:
    """Note data that are not what the record's type has; of ``accepted`` records readers know that."""
    if not accepted:
        _check_contents(found, source)
    view = found.view
    alone = (view.role == Role.LARGE_OBJECT) | (view.role == Role.FRAGMENT)
    if alone.any():
        found.note(kinds.ORPHAN, alone & (INDICATORS[found.trans_ind] & BEGINS != 0))
    _check_pairs(found)


def _check_contents(found: Inspected, source: TrailBytes) -> None:
    """Note data that are not lists of columns, and pieces that are not as long as they state."""
    view = found.view
    # What continues in fragments is looked at as a whole where it is read.
    listed = (view.role == Role.CHANGE) & (view.partition & FIELD_COMP != 0)
    listed &= (view.continued == 0) & (view.marks & SYSTEM_KEY == 0)
    kinds_of = PREFIX_OF[view.io_type]
    plain = np.flatnonzero(listed & (kinds_of == Prefix.NONE))
    found.note(kinds.COLUMNS, plain[~hold_cells(source, view.data.take(plain))])
    for kind in (Prefix.SHORT, Prefix.LONG):
        rows = np.flatnonzero(listed & (kinds_of == kind))
        if len(rows):
            found.note(kinds.COLUMNS, rows[~_two_images(source, view.data.take(rows), kind)])
    pieces = np.flatnonzero(view.readable & (view.io_type == IO_LARGE_OBJECT))
    if len(pieces):
        size = view.data.sizes[pieces]
        # The last of the head's words is the size of what follows.
        words = source.order.words(source.data, "u4")
        last = np.minimum(view.data.starts[pieces] + PIECE_HEAD - FRAME, view.data.ends[pieces])
        given = words[last]
        found.note(kinds.PIECE, pieces[(size < PIECE_HEAD) | (given + PIECE_HEAD != size)])


def _two_images(source: TrailBytes, areas: Spans, kind: Prefix) -> Mask:
    """Return which areas hold two images of columns, the first one after its length."""
    good = np.zeros(len(areas.starts), bool)
    room = np.flatnonzero(areas.sizes >= int(kind))
    own = areas.take(room)
    starts = own.starts + int(kind)
    borders = starts + source.order.words(source.data, f"u{int(kind)}")[own.starts].astype(np.int64)
    within = borders <= own.ends
    first = Spans(starts[within], borders[within])
    second = Spans(borders[within], own.ends[within])
    good[room[within]] = hold_cells(source, first) & hold_cells(source, second)
    return good


def _check_pairs(found: Inspected) -> None:
    """Note before images without the after image that should follow them."""
    view = found.view
    changes = np.flatnonzero(view.role == Role.CHANGE)
    is_before = view.is_before[changes] & (view.io_type[changes] == IO_UPDATE)
    if not is_before.any():
        return
    before = np.flatnonzero(is_before)
    following = np.minimum(before + 1, len(changes) - 1)
    one, two = changes[before], changes[following]
    good = (following > before) & (view.io_type[two] == IO_UPDATE) & ~view.is_before[two]
    good &= (found.name[one] == found.name[two]) & (found.index[one] == found.index[two])
    good &= (found.trans_ind[one] < 2) & np.isin(found.trans_ind[two], (1, 2))
    found.note(kinds.PAIR, one[~good])


def unfinished(view: RecordView) -> int:
    """Return how many records at the end are of an operation that may continue in what follows."""
    changes = np.flatnonzero(view.role == Role.CHANGE)
    if not len(changes) or (view.role[changes[-1] :] == Role.REFUSED).any():
        return 0
    is_before = view.is_before[changes] & (view.io_type[changes] == IO_UPDATE)
    if view.indicator[-1] >= LAST and not view.continued[-1] and not is_before[-1]:
        return 0
    paired = len(changes) > 1 and is_before[-2]
    return len(view) - int(changes[-2 if paired else -1])


# 1990-01-01 and 2100-01-01 UTC: an IO time beyond them is not the time of a change.
EARLIEST: Final = 631_152_000_000_000
LATEST: Final = 4_102_444_800_000_000
FORMAT_AT: Final = 37  # in a record
# What each kind of fault is, as problems of a record.
_FAULTS: Final = (
    (kinds.UNREADABLE, problems.UNREADABLE),
    (kinds.PARTS, problems.PART_OVER | problems.DATA_LENGTH | problems.DATA_INFO),
    (kinds.EXTRA_PART, problems.EXTRA_PART),
    (kinds.MISTYPED, problems.MISTYPED),
    (kinds.IMAGE, problems.IMAGE | problems.IMAGE_OF_TYPE),
    (kinds.TRANS_IND, problems.TRANS_IND),
    (kinds.LAYOUT, problems.LAYOUT),
    (kinds.SYSTEM_KEY, problems.SYSTEM_KEY_SIZE),
)


def inspect(source: TrailBytes, view: RecordView, *, accepted: bool = False) -> Inspected:
    """Return records with what is wrong with them, whatever they hold; ``accepted``: readers take all of them."""
    names = find_names(source, view)
    csn, tx = (find_token(source, view.tokens, code) for code in (LOGCSN, TRANID))
    csn_strings, tx_strings = (_strings(source, found) for found in (csn, tx))
    known = view.readable & (view.indicator <= ONLY_RECORD)
    by_text = np.array([not isinstance(name, int) for name in names.names] + [False])
    found = Inspected(
        view=view,
        trans_ind=np.where(known, view.indicator, UNKNOWN).astype(np.uint8),
        name=np.where(by_text[names.codes], names.codes, UNNAMED),
        names=[_name(name) for name in names.names],
        index=names.indexes(),
        csn=csn_strings[:2],
        tx=tx_strings[:2],
    )
    if view.has_problems:
        for kind, bits in _FAULTS:
            found.note(kind, view.problems & bits != 0)
    _check_names(found, names)
    faults = np.flatnonzero(csn.faults)
    found.note(kinds.TOKENS, np.concatenate([faults, csn_strings[2], tx_strings[2]]))
    _check_fields(found, source)
    check_data(found, source, accepted=accepted)
    return found


def _name(name: bytes | int) -> str:
    return "" if isinstance(name, int) else name[:-1].decode("utf-8", "backslashreplace")


def _check_names(found: Inspected, names: RecordNames) -> None:
    view = found.view
    # A partition name record has more after its name (trail format §12).
    other = view.io_type != IO_METADATA
    bad = (view.problems & problems.INDEX_AREA != 0) | (
        other & (view.problems & problems.NAME_END != 0)
    )
    faulty = [
        code
        for code, name in enumerate(names.names)
        if isinstance(name, bytes) and (b"\0" in name[:-1] or not _is_text(name[:-1]))
    ]
    found.note(kinds.NAME, bad | (other & np.isin(names.codes, faulty)) if faulty else bad)


def _strings(source: TrailBytes, found: FoundToken) -> tuple[Longs, list[str], Longs]:
    """Return the records that have an id and its strings, and the records whose id is not text."""
    rows = found.rows
    rows = rows[~found.faults[rows]]
    spans = found.spans.take(rows)
    values = gather(source.data, spans.starts, spans.ends)
    try:
        return rows, values.cast(pa.string()).to_pylist(), rows[:0]
    except pa.ArrowInvalid:
        raw = values.to_pylist()
        strings = [one.decode("utf-8", "backslashreplace") for one in raw]
        return rows, strings, rows[np.array([not _is_text(one) for one in raw], bool)]


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_fields(found: Inspected, source: TrailBytes) -> None:
    view = found.view
    readable = np.flatnonzero(view.readable)
    kept = source.data[view.offsets[readable] + FORMAT_AT]
    found.note(kinds.FORMAT, readable[(kept != FROM_LOG) & (kept != FETCHED)])
    refused = view.problems & problems.REFUSED != 0
    if refused.any():
        named = np.isin(view.io_type, list(RECORD_TYPES))
        found.note(kinds.TYPE, refused & ~named)
        found.note(kinds.NOT_READ, refused & named)
    untimely = (view.io_time < EARLIEST) | (view.io_time > LATEST)
    found.note(kinds.IO_TIME, (view.role == Role.CHANGE) & untimely)


NOTHING: Final = Definitions(())
WITH_TABLE: Final = (int(Role.CHANGE), int(Role.LARGE_OBJECT), int(Role.FRAGMENT))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of tables at a place of a file.

    With ``lost`` earlier metadata records may be missing: then a reference, whose own index is the next one,
    may mean another index than it seems.
    """

    definitions: Definitions | None = None
    tables: TrailTables = field(default_factory=TrailTables)
    lost: bool = False


def check_tables(found: Inspected, source: TrailBytes, known: Known) -> Known:
    """Note records whose table is not known, and return what is known after all of them."""
    role = found.view.role
    metadata = np.flatnonzero(role == Role.METADATA)
    wanted = np.isin(role, WITH_TABLE)
    # Any of these may have been metadata before it was damaged.
    bad = found.bad
    doubtful = np.flatnonzero((role == Role.REFUSED) | bad)
    _check_table_names(found, wanted, known)
    first = int(doubtful[0]) if len(doubtful) else len(found)
    start = 0
    for row in metadata.tolist():
        known = _check_indexes(found, wanted, (start, row), known)
        known = replace(known, lost=known.lost or first <= row)
        if not bad[row]:
            known = _with_record(found, source, row, known)
        start = row
    known = _check_indexes(found, wanted, (start, len(found)), known)
    return replace(known, lost=known.lost or bool(len(doubtful)))


def _check_table_names(found: Inspected, wanted: Mask, known: Known) -> None:
    if known.definitions is None:
        return
    unknown = [i for i, name in enumerate(found.names) if known.definitions.get(name) is None]
    if unknown:
        found.note(kinds.TABLE, wanted & np.isin(found.name, unknown))


def _check_indexes(found: Inspected, wanted: Mask, span: tuple[int, int], known: Known) -> Known:
    start, stop = span
    index = found.index[start:stop]
    used = wanted[start:stop] & (index >= 0)
    if not used.any():
        return known
    numbers = np.unique(index[used]).tolist()
    unknown = [number for number in numbers if number not in known.tables.tables]
    found.note(kinds.INDEX, start + np.flatnonzero(used & np.isin(index, unknown)))
    undefined = [n for n in numbers if n not in unknown and not _is_defined(known, n)]
    found.note(kinds.TABLE, start + np.flatnonzero(used & np.isin(index, undefined)))
    return replace(known, lost=known.lost or bool(unknown))


def _is_defined(known: Known, number: int) -> bool:
    found_table = known.tables.tables[number]
    if found_table.table is not None or known.definitions is None:
        return True
    return known.definitions.get(found_table.name) is not None


def _with_record(found: Inspected, source: TrailBytes, row: int, known: Known) -> Known:
    """Return what is known after a metadata record; one that cannot be trusted is noted."""
    try:
        record = decode_record(source.data, int(found.view.offsets[row]), order=source.order)
        tables = known.tables.with_record(record)
    except TrailgateError:
        found.note(kinds.METADATA, np.array([row]))
        return replace(known, lost=True)
    # trail format §5.3: a database's record has no second index.
    odd = record.node not in set(MetadataKind)
    odd |= record.node == MetadataKind.DATABASE and record.metadata_indexes[1] != 0
    if odd or (known.lost and record.node == MetadataKind.TABLE_REFERENCE):
        found.note(kinds.METADATA, np.array([row]))
        return replace(known, lost=True)
    if record.node == MetadataKind.TABLE:
        own = tables.tables[record.metadata_indexes[1]]
        if not own.is_defined(known.definitions or NOTHING):
            found.note(kinds.UNREAD_TABLE, np.array([row]))
    return replace(known, tables=tables)


DIGITS: Final = 19  # that an int64 may not hold


@dataclass(frozen=True, slots=True)
class TransactionState:
    """What earlier records mean for the next ones.

    ``is_open``: a transaction is not ended yet. ``elsewhere``: what comes first may belong to a transaction
    whose begin is not here. ``has_ids``: some transaction had a LOGCSN or TRANID. ``csn`` is the last one.
    """

    is_open: bool = False
    elsewhere: bool = False
    has_ids: bool = False
    csn: str | None = None


def follow_records(found: Inspected, state: TransactionState) -> tuple[Followed, TransactionState]:
    """Return the transactions of these records, and note what contradicts; the records follow each other."""
    followed = follow(record_marks(found.view, found.trans_ind), is_open=state.is_open)
    headless = np.flatnonzero(followed.faults == CONTINUES_NOTHING)
    unended = np.flatnonzero(followed.faults == BEGINS_INSIDE)
    own = np.flatnonzero(~followed.apart)
    if state.elsewhere and len(headless) and headless[0] == own[0]:
        # The very first one may have its begin in an earlier file.
        found.note(kinds.EARLIER, headless[:1])
        headless = headless[1:]
    found.note(kinds.HEADLESS, headless)
    found.note(kinds.UNENDED, unended)
    found.note(kinds.ABANDONED, followed.faults == ABANDONS)
    has_ids = state.has_ids or bool(len(found.csn[0]) or len(found.tx[0]))
    if has_ids and len(unended):
        found.note(kinds.TORN, np.setdiff1d(unended, np.union1d(found.csn[0], found.tx[0])))
    csn = found.csn[1][-1] if found.csn[1] else state.csn
    elsewhere = state.elsewhere and not len(own)
    return followed, TransactionState(followed.is_open, elsewhere, has_ids, csn)


def csn_key(csn: str) -> tuple[int, int | str]:
    """Return what CSNs are ordered by: digits as a number, other forms, of fixed width, as text."""
    return (0, int(csn)) if csn.isascii() and csn.isdigit() else (len(csn), csn)


def check_csns(found: Inspected, last: str | None) -> None:
    """Note records whose CSN is lower than the one before; ``last`` is that of earlier records."""
    rows, strings = found.csn
    if not strings:
        return
    before = [] if last is None else [last]
    numbers = _numbers(before + strings)
    rows = rows[1 - len(before) :]
    if numbers is not None:
        found.note(kinds.CSN_ORDER, rows[np.diff(numbers) < 0])
        return
    keys = [csn_key(text) for text in before + strings]
    compared = zip(rows.tolist(), pairwise(keys), strict=True)
    lower = [row for row, (one, two) in compared if one[0] == two[0] and two < one]
    found.note(kinds.CSN_ORDER, np.array(lower, np.int64))


def _numbers(csns: list[str]) -> Longs | None:
    """Return CSNs as numbers; None where some are not digits, or too many of them."""
    strings = pa.array(csns, pa.string())
    short = pc.less(pc.binary_length(strings), DIGITS)
    if not pc.all(pc.and_(pc.ascii_is_decimal(strings), short)).as_py():
        return None
    found: Longs = strings.cast(pa.int64()).to_numpy()
    return found
