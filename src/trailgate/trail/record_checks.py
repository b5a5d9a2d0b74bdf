"""Check many trail records at once, without raising errors: headers, parts, names, columns, tokens, transactions.

`inspect_records` starts from a view of the records (`trail.records.record_view`) and reports every
record that a reader would reject (`trail.records.record_problems`), and more: wrong column lists,
updates without their after image, large-object pieces of a wrong length. The caller then runs three
passes over the result of each portion, in file order. Each pass continues from the state that it
had after the previous portion:

- `check_table_references`: does each record's table have a definition, in a file or in the trail's
  metadata?
- `check_transactions`: are the transaction indicators consistent with each other?
- `check_csns`: do the CSNs ever decrease?

A fault is a pair (type, rows). Its rows are indexes into the inspected records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.columnar.numbers import MOST, parse_plain_integers
from trailgate.errors import DecodeError, TrailgateError
from trailgate.model.kernels import ABANDONS, BEGINS
from trailgate.model.tables import Definitions
from trailgate.model.transactions import FollowedTransactions, follow
from trailgate.trail import findings as kinds
from trailgate.trail.findings import FindingType, Severity
from trailgate.trail.format.record_header import FIELD_COMP, PIECE_HEAD
from trailgate.trail.format.record_types import (
    IO_LARGE_OBJECT,
    IO_METADATA,
    IO_UPDATE,
    PREFIX_OF,
    RECORD_TYPES,
    ImagePrefix,
    RecordRole,
)
from trailgate.trail.format.tokens import FRAME, LOGCSN, TRANID
from trailgate.trail.reading.tokens import FirstTokens, find_token
from trailgate.trail.records import record_problems as problems
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.kernels import ODD_FORMAT, SYSTEM_KEY
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_view import RecordColumns, RecordNames, find_names
from trailgate.trail.records.table_metadata import MetadataType, TrailTables
from trailgate.trail.records.transactions import (
    INDICATORS,
    LAST,
    ONLY_RECORD,
    find_contradictions,
    record_marks,
)
from trailgate.trail.values.cells import mask_filled_areas

UNNAMED: Final = -1
UNKNOWN: Final = 0xFF  # stands for an unknown TransInd

# 1990-01-01 and 2100-01-01 UTC: an IO time beyond them is not the time of a change.
EARLIEST: Final = 631_152_000_000_000
LATEST: Final = 4_102_444_800_000_000
# Each type of fault, and the bits of ``record_problems`` that it covers.
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

NOTHING: Final = Definitions(())
# By role: whether such a record has a table.
WITH_TABLE: Final = np.isin(
    np.arange(256), (RecordRole.CHANGE, RecordRole.LARGE_OBJECT, RecordRole.FRAGMENT)
)
WITH_TABLE.setflags(write=False)

# Errors that are not damage of the record: its neighbour is missing, or its type is not known.
_NOT_DAMAGE: Final = (kinds.PAIR, kinds.TYPE, kinds.NOT_READ)


class IdTokens(NamedTuple):
    """A token such as LOGCSN: the rows of the records that have it, ascending, and its text in each of them."""

    rows: Longs
    strings: pa.StringArray

    def at(self, row: int, before: str | None, since: int = 0) -> str | None:
        """Return the token's text that applies to a record: that of the last record from ``since`` to ``row`` with the token.

        Returns ``before`` if none of these records has it.
        """
        place = int(np.searchsorted(self.rows, row, "right")) - 1
        if place < 0 or self.rows[place] < since:
            return before
        text: str = self.strings[place].as_py()
        return text


@dataclass(frozen=True, slots=True)
class InspectedRecords:
    """Trail records and their faults, as arrays with one element per record.

    ``trans_ind`` is ``UNKNOWN`` if the header cannot be read. ``name`` is an index into ``names``,
    and ``index`` a table index of the file's metadata; both are -1 if a record has none. ``csn``
    and ``tx`` are the LOGCSN and TRANID tokens.
    """

    view: RecordColumns
    trans_ind: Octets
    name: Longs
    names: list[str]
    index: Longs
    csn: IdTokens
    tx: IdTokens
    faults: list[tuple[FindingType, Longs]] = field(default_factory=list)
    details: dict[int, str] = field(default_factory=dict)  # of faults, by record

    def __len__(self) -> int:
        return len(self.view)

    @property
    def bad(self) -> Mask:
        """Return a mask of the records that are damaged or wrong themselves.

        Records with only ``UNENDED`` (the transaction before the record has no end) or ``NOT_READ``
        (readers refuse its type) are intact, and not included.
        """
        bad = np.zeros(len(self), bool)
        for kind, rows in self.faults:
            # UNENDED marks the record that begins the next transaction: the one before is damaged.
            # NOT_READ records are intact; readers just do not know their type.
            if kind.severity is Severity.ERROR and kind not in (kinds.UNENDED, kinds.NOT_READ):
                bad[rows] = True
        return bad

    def add_fault(self, finding_type: FindingType, records: Any) -> None:
        """Add a fault to some inspected records. ``records`` is a mask over all records, or an array of their rows."""
        rows = np.asarray(records)
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(rows):
            self.faults.append((finding_type, rows))


def check_record_data(inspected: InspectedRecords, source: TrailBytes, *, accepted: bool) -> None:
    """Add the faults of trail records whose data contradict their record type.

    With ``accepted``, readers have already decoded the columns, so these are not checked again.
    """
    if not accepted:
        _check_contents(inspected, source)
    view = inspected.view
    # Pieces and fragments belong to the change before them, so they can never begin a transaction.
    alone = (view.role == RecordRole.LARGE_OBJECT) | (view.role == RecordRole.FRAGMENT)
    if alone.any():
        inspected.add_fault(kinds.ORPHAN, alone & (INDICATORS[inspected.trans_ind] & BEGINS != 0))
    _check_pairs(inspected)


def _check_contents(inspected: InspectedRecords, source: TrailBytes) -> None:
    """Add faults for data that are not column lists, and for pieces whose length field is wrong."""
    view = inspected.view
    # Records that continue in fragments are checked by the reader that joins them.
    # Listed are changes whose data are a plain list of columns: no system key before it.
    listed = (view.role == RecordRole.CHANGE) & (view.partition & FIELD_COMP != 0)
    listed &= (view.continued == 0) & (view.marks & SYSTEM_KEY == 0)
    kinds_of = PREFIX_OF[view.io_type]
    plain = np.flatnonzero(listed & (kinds_of == ImagePrefix.NONE))
    inspected.add_fault(kinds.COLUMNS, plain[~mask_filled_areas(source, view.data.take(plain))])
    for kind in (ImagePrefix.SHORT, ImagePrefix.LONG):
        rows = np.flatnonzero(listed & (kinds_of == kind))
        if len(rows):
            inspected.add_fault(
                kinds.COLUMNS, rows[~_two_images(source, view.data.take(rows), kind)]
            )
    pieces = np.flatnonzero(view.readable & (view.io_type == IO_LARGE_OBJECT))
    if len(pieces):
        size = view.data.sizes[pieces]
        # The last u32 of a piece's head is the size of its bytes. The minimum keeps the index
        # within the data for pieces shorter than a head; those are faults anyway.
        words = source.order.words(source.data, "u4")
        last = np.minimum(view.data.starts[pieces] + PIECE_HEAD - FRAME, view.data.ends[pieces])
        stated = words[last]
        inspected.add_fault(
            kinds.PIECE, pieces[(size < PIECE_HEAD) | (stated + PIECE_HEAD != size)]
        )


def _two_images(source: TrailBytes, areas: Spans, kind: ImagePrefix) -> Mask:
    """Return a mask of the areas that consist of a length, a before image of this length, and an after image.

    ``kind`` is the width of the length: 2 or 4 bytes.
    """
    good = np.zeros(len(areas.starts), bool)
    room = np.flatnonzero(areas.sizes >= int(kind))
    # With a u16 length, 00 05 | 00 00 00 01 41 | 00 00 00 01 42 splits into column 0 = "A" before
    # and column 0 = "B" after.
    long_enough = areas.take(room)
    starts = long_enough.starts + int(kind)
    lengths = source.order.words(source.data, f"u{int(kind)}")[long_enough.starts]
    splits = starts + lengths.astype(np.int64)
    within = splits <= long_enough.ends
    first = Spans(starts[within], splits[within])
    second = Spans(splits[within], long_enough.ends[within])
    good[room[within]] = mask_filled_areas(source, first) & mask_filled_areas(source, second)
    return good


def _check_pairs(inspected: InspectedRecords) -> None:
    """Add a fault for each before image of an update that is not followed by its after image."""
    view = inspected.view
    changes = view.changes
    is_before = view.is_before[changes] & (view.io_type[changes] == IO_UPDATE)
    if not is_before.any():
        return
    before = np.flatnonzero(is_before)
    following = np.minimum(before + 1, len(changes) - 1)
    one, two = changes[before], changes[following]
    # The last change has no following one: there ``following`` is the same row, which is not good.
    # Large objects and fragments between the two images are not in ``changes``.
    good = (following > before) & (view.io_type[two] == IO_UPDATE) & ~view.is_before[two]
    good &= (inspected.name[one] == inspected.name[two]) & (
        inspected.index[one] == inspected.index[two]
    )
    # FIRST or MIDDLE (0, 1), then MIDDLE or LAST (1, 2): no transaction ends or begins in between.
    good &= (inspected.trans_ind[one] < 2) & np.isin(inspected.trans_ind[two], (1, 2))
    inspected.add_fault(kinds.PAIR, one[~good])


def count_unfinished_records(view: RecordColumns) -> int:
    """Return the number of records at the end of a portion to check later, because their operation may continue after it.

    A before image needs its after image, and a change may be followed by fragments or large
    objects.
    """
    changes = view.changes
    # After a damaged record nothing can continue the operation before it.
    if not len(changes) or (view.role[changes[-1] :] == RecordRole.REFUSED).any():
        return 0
    changes = changes[-2:]
    is_before = view.is_before[changes] & (view.io_type[changes] == IO_UPDATE)
    if view.indicator[-1] >= LAST and not view.continued[-1] and not is_before[-1]:
        return 0
    # If the last change is the after image of an update, its before image is unfinished too.
    paired = len(changes) > 1 and is_before[-2]
    return len(view) - int(changes[-2 if paired else -1])


def inspect_records(
    source: TrailBytes, view: RecordColumns, *, accepted: bool = False
) -> InspectedRecords:
    """Check each trail record, and return the records with their faults.

    Never raises an error for damaged records.

    With ``accepted``, readers have already decoded all of these records, so their columns are not
    checked again.
    """
    names = find_names(source, view)
    csn, tx = (find_token(source, view.tokens, code) for code in (LOGCSN, TRANID))
    (csn_ids, bad_csns), (tx_ids, bad_ids) = (_ids(source, token) for token in (csn, tx))
    known = view.readable & (view.indicator <= ONLY_RECORD)
    # One more item, False, which the code -1 (no name) selects.
    by_text = np.array([not isinstance(name, int) for name in names.names] + [False])
    inspected = InspectedRecords(
        view=view,
        trans_ind=np.where(known, view.indicator, UNKNOWN).astype(np.uint8),
        name=np.where(by_text[names.codes], names.codes, UNNAMED),
        names=[_name(name) for name in names.names],
        index=names.indexes(),
        csn=csn_ids,
        tx=tx_ids,
    )
    if view.has_problems:
        for kind, bits in _FAULTS:
            inspected.add_fault(kind, view.problems & bits != 0)
    _check_names(inspected, names)
    faults = np.flatnonzero(csn.faults)
    inspected.add_fault(kinds.TOKENS, np.concatenate([faults, bad_csns, bad_ids]))
    _check_fields(inspected)
    check_record_data(inspected, source, accepted=accepted)
    return inspected


def describe_record_faults(source: TrailBytes, view: RecordColumns) -> dict[int, str]:
    """Check trail records, and describe the fault of each damaged one, by its row, for example ``{4: "the columns do not fill ..."}``.

    All commands that show single records use this function. It examines each record separately, so
    the result does not depend on how a file is divided into chunks.
    """
    damage: dict[int, str] = {}
    for kind, rows in inspect_records(source, view).faults:
        if kind.severity is Severity.ERROR and kind not in _NOT_DAMAGE:
            damage.update((row, kind.statement) for row in rows.tolist() if row not in damage)
    return damage


def _name(name: bytes | int) -> str:
    return "" if isinstance(name, int) else name[:-1].decode("utf-8", "backslashreplace")


def _check_names(inspected: InspectedRecords, names: RecordNames) -> None:
    view = inspected.view
    # A partition name record has more bytes after its name (trail format §12).
    other = view.io_type != IO_METADATA
    bad = (view.problems & problems.INDEX_AREA != 0) | (
        other & (view.problems & problems.NAME_END != 0)
    )
    faulty = [
        code
        for code, name in enumerate(names.names)
        if isinstance(name, bytes) and (b"\0" in name[:-1] or not _is_text(name[:-1]))
    ]
    inspected.add_fault(kinds.NAME, bad | (other & np.isin(names.codes, faulty)) if faulty else bad)


def _ids(source: TrailBytes, token: FirstTokens) -> tuple[IdTokens, Longs]:
    r"""Return the text of a token such as LOGCSN in each record that has it, and the rows whose text is not UTF-8.

    Text that is not UTF-8 is returned with escapes, such as ``a\xff``. Records with damaged tokens
    are skipped.
    """
    rows = token.rows
    rows = rows[~token.faults[rows]]
    spans = token.spans.take(rows)
    try:
        strings = gather(source.data, spans.starts, spans.ends, text=True)
        return IdTokens(rows, strings), rows[:0]
    except DecodeError:
        raw = gather(source.data, spans.starts, spans.ends).to_pylist()
        strings = pa.array(one.decode("utf-8", "backslashreplace") for one in raw)
        bad = rows[np.array([not _is_text(one) for one in raw], bool)]
        return IdTokens(rows, strings), bad


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_fields(inspected: InspectedRecords) -> None:
    view = inspected.view
    inspected.add_fault(kinds.FORMAT, view.rows_with_mark(ODD_FORMAT))
    refused = view.problems & problems.REFUSED != 0
    if refused.any():
        named = np.isin(view.io_type, list(RECORD_TYPES))
        # Readers refuse both; only the second kind has a public name.
        inspected.add_fault(kinds.TYPE, refused & ~named)
        inspected.add_fault(kinds.NOT_READ, refused & named)
    untimely = (view.io_time < EARLIEST) | (view.io_time > LATEST)
    inspected.add_fault(kinds.IO_TIME, (view.role == RecordRole.CHANGE) & untimely)


@dataclass(frozen=True, slots=True)
class KnownTables:
    """The table definitions that a check knows at one position of a trail file.

    ``lost`` means that metadata records before this position may be missing. Table references are
    then unreliable: each takes the next free index (trail format §5.3), so one lost record shifts
    all later ones.
    """

    definitions: Definitions | None = None
    tables: TrailTables = field(default_factory=TrailTables)
    lost: bool = False


def check_table_references(
    inspected: InspectedRecords, source: TrailBytes, tables: KnownTables
) -> KnownTables:
    """Add the faults of records whose table is unknown. Returns the tables known after these records."""
    role = inspected.view.role
    metadata = np.flatnonzero(role == RecordRole.METADATA)
    wanted = WITH_TABLE[role]
    # A damaged record may have been a metadata record.
    bad = inspected.bad
    doubtful = np.flatnonzero((role == RecordRole.REFUSED) | bad)
    _check_table_names(inspected, wanted, tables)
    first = int(doubtful[0]) if len(doubtful) else len(inspected)
    # Check the records up to each metadata record with the tables known there, then add its table.
    start = 0
    for row in metadata.tolist():
        tables = _check_indexes(inspected, wanted, (start, row), tables)
        tables = replace(tables, lost=tables.lost or first <= row)
        if not bad[row]:
            tables = _with_record(inspected, source, row, tables)
        start = row
    tables = _check_indexes(inspected, wanted, (start, len(inspected)), tables)
    return replace(tables, lost=tables.lost or bool(len(doubtful)))


def _check_table_names(inspected: InspectedRecords, checked: Mask, tables: KnownTables) -> None:
    if tables.definitions is None:
        return
    unknown = [i for i, name in enumerate(inspected.names) if tables.definitions.get(name) is None]
    if unknown:
        inspected.add_fault(kinds.TABLE, checked & np.isin(inspected.name, unknown))


def _check_indexes(
    inspected: InspectedRecords, checked: Mask, span: tuple[int, int], tables: KnownTables
) -> KnownTables:
    start, stop = span
    index = inspected.index[start:stop]
    used = checked[start:stop] & (index >= 0)
    if not used.any():
        return tables
    # A table index is unknown if no metadata record assigned it, and undefined if the assigned name
    # has no definition.
    numbers = np.unique(index[used]).tolist()
    unknown = [number for number in numbers if number not in tables.tables.tables]
    undefined = [n for n in numbers if n not in unknown and not _is_defined(tables, n)]
    for kind, faulty in ((kinds.INDEX, unknown), (kinds.TABLE, undefined)):
        if faulty:
            inspected.add_fault(kind, start + np.flatnonzero(used & np.isin(index, faulty)))
    return replace(tables, lost=tables.lost or bool(unknown))


def _is_defined(tables: KnownTables, number: int) -> bool:
    trail_table = tables.tables.tables[number]
    if trail_table.table is not None or tables.definitions is None:
        return True
    return tables.definitions.get(trail_table.name) is not None


def _with_record(
    inspected: InspectedRecords, source: TrailBytes, row: int, known: KnownTables
) -> KnownTables:
    """Return the tables known after the metadata record at ``row``. Adds a fault if the record is unreliable.

    A record is unreliable if it is damaged or of an unknown type. A reference record also is if
    metadata records before it may be missing.
    """
    try:
        record = decode_record(source.data, int(inspected.view.offsets[row]), order=source.order)
        tables = known.tables.with_record(record)
    except TrailgateError:
        inspected.add_fault(kinds.METADATA, np.array([row]))
        return replace(known, lost=True)
    # trail format §5.3: a database's record has no second index.
    odd = record.node not in set(MetadataType)
    odd |= record.node == MetadataType.DATABASE and record.metadata_indexes[1] != 0
    if odd or (known.lost and record.node == MetadataType.TABLE_REFERENCE):
        inspected.add_fault(kinds.METADATA, np.array([row]))
        return replace(known, lost=True)
    if record.node == MetadataType.TABLE:
        table = tables.tables[record.metadata_indexes[1]]
        if not table.is_defined(known.definitions or NOTHING):
            inspected.add_fault(kinds.UNREAD_TABLE, np.array([row]))
    return replace(known, tables=tables)


@dataclass(frozen=True, slots=True)
class TransactionCheckState:
    """The state that the check of transactions passes from one portion of records to the next.

    - ``is_open``: the last transaction has not ended yet.
    - ``elsewhere``: no record of a transaction has been seen yet, so the first one may continue a
      transaction from an earlier file.
    - ``has_ids``: some record had a LOGCSN or TRANID token.
    - ``csn``: the last CSN.
    """

    is_open: bool = False
    elsewhere: bool = False
    has_ids: bool = False
    csn: str | None = None


def check_transactions(
    inspected: InspectedRecords, state: TransactionCheckState
) -> tuple[FollowedTransactions, TransactionCheckState]:
    """Add the faults of `InspectedRecords` whose transaction indicators contradict the indicators before them.

    Returns the transactions, and the state for the next records of the file.
    """
    followed = follow(record_marks(inspected.view, inspected.trans_ind), is_open=state.is_open)
    headless, unended = find_contradictions(followed)
    grouped = np.flatnonzero(~followed.apart)
    if state.elsewhere and len(headless) and headless[0] == grouped[0]:
        # Only the first record of all may continue a transaction from an earlier file.
        inspected.add_fault(kinds.EARLIER, headless[:1])
        headless = headless[1:]
    inspected.add_fault(kinds.HEADLESS, headless)
    inspected.add_fault(kinds.UNENDED, unended)
    inspected.add_fault(kinds.ABANDONED, followed.faults == ABANDONS)
    has_ids = state.has_ids or bool(len(inspected.csn.rows) or len(inspected.tx.rows))
    if has_ids and len(unended):
        inspected.add_fault(
            kinds.TORN, np.setdiff1d(unended, np.union1d(inspected.csn.rows, inspected.tx.rows))
        )
    csn = inspected.csn.at(len(inspected), state.csn)
    elsewhere = state.elsewhere and not len(grouped)
    return followed, TransactionCheckState(followed.is_open, elsewhere, has_ids, csn)


def csn_sort_key(csn: str) -> tuple[int, int | str]:
    """Return the sort key by which the check compares a CSN with the previous one: digits compare as a number, other forms by length and then as text."""
    return (0, int(csn)) if csn.isascii() and csn.isdigit() else (len(csn), csn)


def check_csns(inspected: InspectedRecords, last: str | None) -> None:
    """Add a fault for each CSN that is lower than the previous one. ``last`` is the CSN before these records.

    CSNs of different forms, such as digits and other text, are not compared.
    """
    rows, strings = inspected.csn
    if not len(rows):
        return
    kind, before = (0, 0) if last is None else csn_sort_key(last)
    numbers = parse_plain_integers(strings, (0, MOST))
    if numbers is not None and isinstance(before, int) and before <= MOST:
        found = np.asarray(numbers)
        inspected.add_fault(kinds.CSN_ORDER, rows[found < np.append(before, found[:-1])])
        return
    # Compare each CSN with the one before. Without a CSN from earlier records, the first has none.
    keys = [*([] if last is None else [(kind, before)]), *map(csn_sort_key, strings.to_pylist())]
    compared = zip(rows[len(rows) + 1 - len(keys) :].tolist(), pairwise(keys), strict=True)
    # CSNs of different forms (digits and text, or texts of different lengths) are not comparable.
    lower = [row for row, (one, two) in compared if one[0] == two[0] and two < one]
    inspected.add_fault(kinds.CSN_ORDER, np.array(lower, np.int64))
