"""Check many records at once: header, parts, names, columns and tokens, and note what is wrong where.

The rules are those by which readers refuse a record (``trail.record_header``), but nothing is raised: a fault
is a kind and the records that have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.columnar.gather import gather
from trailgate.columnar.views import Octets, rows_at
from trailgate.trail.byte_order import ByteOrder
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.chains import Chained, Id, column_faults, token_faults
from trailgate.trail.checking.findings import Kind, Severity
from trailgate.trail.record_header import swapped_indicators
from trailgate.trail.record_layout import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    BY_PARTITION,
    BY_TABLE,
    FETCHED,
    FIELD_COMP,
    FROM_LOG,
    H_FIXED,
    INDICATOR,
    NAME_AT,
    RECORD_HEADS,
    SHORTEST,
)
from trailgate.trail.record_types import (
    IO_LARGE_OBJECT,
    IO_METADATA,
    IO_UPDATE,
    PREFIX_OF,
    RECORD_TYPES,
    ROLE_OF,
    Prefix,
    Role,
)
from trailgate.trail.records import Records
from trailgate.trail.times import JULIAN_EPOCH
from trailgate.trail.tokens import DATA, FRAME, GGS_TOKENS, HEADER, NORMAL, USER_TOKENS

Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

# 1990-01-01 and 2100-01-01 UTC: an IO time beyond them is no time of a change.
EARLIEST: Final = 631_152_000_000_000 + JULIAN_EPOCH
LATEST: Final = 4_102_444_800_000_000 + JULIAN_EPOCH
PIECE_HEAD: Final = 20  # bytes in front of the data of a piece (format notes 11)
UNNAMED: Final = -1
UNKNOWN: Final = 0xFF  # a TransInd


def _by_type(image: str) -> Mask:
    table = np.zeros(256, bool)
    for row in RECORD_TYPES.values():
        table[row.code] = image not in row.image
    table.setflags(write=False)
    return table


_NEVER: Final = (_by_type("A"), _by_type("B"))


@dataclass(frozen=True, slots=True)
class Inspected:
    """Records in columns, and their faults. A record of a fault that is an error is ``bad``.

    ``trans_ind`` is ``UNKNOWN`` where it cannot be known. ``name`` is an index into ``names``, ``index`` a table index of
    the file's metadata; -1 where a record has none. ``csn`` and ``tx`` are the ids that records carry.
    """

    offsets: Longs
    lengths: Longs
    readable: Mask
    io_type: Bytes
    role: Bytes
    trans_ind: Bytes
    is_before: Mask
    io_time: Longs
    name: Longs
    names: list[str]
    index: Longs
    csn: tuple[Longs, list[str]]
    tx: tuple[Longs, list[str]]
    faults: list[tuple[Kind, Longs]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def bad(self) -> Mask:
        """Return which records have an error of their own."""
        bad = np.zeros(len(self), bool)
        for kind, rows in self.faults:
            # Where a transaction is not ended it is the one in front of the record that is not whole.
            if kind.severity is Severity.ERROR and kind is not kinds.UNENDED:
                bad[rows] = True
        return bad

    def note(self, kind: Kind, found: Any) -> None:
        """Add a fault, given as a mask or as rows."""
        rows = np.asarray(found)
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(rows):
            self.faults.append((kind, rows))


def inspect(data: Octets, records: Records, order: ByteOrder) -> Inspected:
    """Return the records at these places of ``data``; whatever they hold."""
    offsets, lengths = records.offsets, records.lengths
    head, fits = _heads(data, offsets, lengths, order)
    limit = offsets + lengths - FRAME
    name_end = offsets + 2 * FRAME + head["h_length"]
    readable = fits & (head["h_id"] == HEADER) & (head["indicator"] == INDICATOR)
    readable &= (head["h_length"] > H_FIXED) & (name_end <= limit)
    role = np.where(readable, ROLE_OF[head["io_type"]], Role.REFUSED).astype(np.uint8)
    chained = Chained(data, order.frames(data), order)
    areas = _areas(chained, np.where(readable, name_end, limit), limit)
    token_bad, csn, tx = token_faults(chained, *areas.tokens)
    name, names, index, name_bad = _names(chained, head, (offsets, name_end), readable)
    csn_texts, tx_texts = (_texts(data, found) for found in (csn, tx))
    found = Inspected(
        offsets,
        lengths,
        readable,
        np.ascontiguousarray(head["io_type"]),
        role,
        _trans_ind(head, order, readable),
        readable & (head["image"] == BEFORE_IMAGE),
        head["io_time"].astype(np.int64) - JULIAN_EPOCH,
        name,
        names,
        index,
        csn_texts[:2],
        tx_texts[:2],
    )
    found.note(kinds.UNREADABLE, ~readable)
    found.note(kinds.PARTS, readable & (areas.over | (areas.size != head["data_length"])))
    found.note(kinds.EXTRA_PART, readable & areas.extra)
    found.note(kinds.NAME, name_bad)
    found.note(kinds.TOKENS, np.concatenate([token_bad, csn_texts[2], tx_texts[2]]))
    _check_fixed(found, head)
    _check_data(found, chained, head, areas.data)
    return found


def _heads(
    data: Octets, offsets: Longs, lengths: Longs, order: ByteOrder
) -> tuple[npt.NDArray[Any], Mask]:
    """Return the fixed bytes of each record, zeros for one that is too short to have them."""
    fits = lengths >= SHORTEST
    if fits.all():
        return rows_at(data, offsets, NAME_AT).view(RECORD_HEADS[order]).reshape(-1), fits
    head = np.zeros(len(offsets), RECORD_HEADS[order])
    head[fits] = rows_at(data, offsets[fits], NAME_AT).view(RECORD_HEADS[order]).reshape(-1)
    return head, fits


def _trans_ind(head: npt.NDArray[Any], order: ByteOrder, readable: Mask) -> Bytes:
    found = head["trans_ind"]
    if (found > 3).any():
        found = np.where(found > 3, swapped_indicators(head, order), found)
    return np.where(readable & (found <= 3), found, UNKNOWN).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class _Areas:
    """Where D and T lie, D's length, and which records have parts that do not fit."""

    data: tuple[Longs, Longs]
    tokens: tuple[Longs, Longs]
    size: Longs
    over: Mask
    extra: Mask


def _areas(chained: Chained, place: Longs, limit: Longs) -> _Areas:
    over = np.zeros(len(place), bool)
    found: list[tuple[Longs, Longs]] = []
    for code in (DATA, GGS_TOKENS, USER_TOKENS):
        if found and (place == limit).all():
            found.append((limit, limit))
            continue
        frames = chained.frames[place]
        there = (chained.order.codes(frames) == code) & (place < limit)
        start = place + FRAME * there
        end = start + np.where(there, chained.order.lengths(frames), 0)
        over |= end > limit
        if code == DATA:
            over |= there & (chained.data[place + 1] != NORMAL)
        place = np.minimum(end, limit)
        found.append((np.minimum(start, limit), place))
    data, tokens, _ = found
    return _Areas(data, tokens, data[1] - data[0], over, place < limit)


def _names(
    chained: Chained, head: npt.NDArray[Any], spans: tuple[Longs, Longs], readable: Mask
) -> tuple[Longs, list[str], Longs, Mask]:
    """Return each record's name and table index, and which of them do not fit."""
    offsets, name_end = spans
    by_index = readable & (head["partition"] & BY_TABLE != 0)
    index = np.full(len(offsets), UNNAMED)
    bad = np.zeros(len(offsets), bool)
    if by_index.any():
        width = np.where(head["partition"] & BY_PARTITION, 4, 2)
        bad |= by_index & (head["h_length"] != H_FIXED + width)
        rows = np.flatnonzero(by_index & ~bad)
        index[rows] = chained.order.words(chained.data, "u2")[offsets[rows] + NAME_AT]
    rows = np.flatnonzero(readable & ~by_index)
    ends = name_end[rows] - 1
    ended = chained.data[ends] == 0
    # A partition name record has more behind its name (format notes 12).
    bad[rows] |= ~ended & (head["io_type"][rows] != IO_METADATA)
    texts = gather(chained.data, offsets[rows] + NAME_AT, ends).dictionary_encode()
    name = np.full(len(offsets), UNNAMED)
    name[rows] = texts.indices.to_numpy()
    raw = texts.dictionary.to_pylist()
    faulty = [number for number, one in enumerate(raw) if not _is_name(one)]
    if faulty:
        bad |= np.isin(name, faulty) & (head["io_type"] != IO_METADATA)
    return name, [one.decode("utf-8", "backslashreplace") for one in raw], index, bad


def _is_name(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in raw


def _texts(data: Octets, found: Id) -> tuple[Longs, list[str], Longs]:
    """Return the records of an id and its texts, and the records whose id is no text."""
    values = gather(data, found.starts, found.ends)
    try:
        return found.rows, values.cast(pa.string()).to_pylist(), found.rows[:0]
    except pa.ArrowInvalid:
        texts = [one.decode("utf-8", "backslashreplace") for one in values.to_pylist()]
        bad = [not _is_text(one) for one in values.to_pylist()]
        return found.rows, texts, found.rows[np.array(bad, bool)]


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_fixed(found: Inspected, head: npt.NDArray[Any]) -> None:
    readable, io_type, image = found.readable, found.io_type, head["image"]
    after = image == AFTER_IMAGE
    wrong = np.where(after, _NEVER[0][io_type], _NEVER[1][io_type])
    found.note(kinds.IMAGE, readable & (wrong | ~(after | found.is_before)))
    found.note(kinds.FORMAT, readable & (head["format"] != FROM_LOG) & (head["format"] != FETCHED))
    unknown = found.role == Role.REFUSED
    if unknown.any():
        named = np.isin(io_type, list(RECORD_TYPES))
        found.note(kinds.TYPE, readable & unknown & ~named)
        found.note(kinds.NOT_READ, readable & unknown & named)
    odd = readable & (head["trans_ind"] > 3)
    # One printed 11.2.1.0.1 record has TransInd elsewhere (format notes 5): then it is known.
    found.note(kinds.TRANS_IND, odd & (found.trans_ind == UNKNOWN))
    change = found.role == Role.CHANGE
    untimely = (head["io_time"] < EARLIEST) | (head["io_time"] > LATEST)
    found.note(kinds.IO_TIME, readable & change & untimely)


def _check_data(
    found: Inspected, chained: Chained, head: npt.NDArray[Any], data: tuple[Longs, Longs]
) -> None:
    change = found.role == Role.CHANGE
    listed = change & (head["partition"] & FIELD_COMP != 0)
    starts, ends = data
    found.note(kinds.LAYOUT, change & ~listed & (ends > starts))
    prefix = PREFIX_OF[found.io_type]
    plain = np.flatnonzero(listed & (prefix == Prefix.NONE))
    found.note(kinds.COLUMNS, plain[column_faults(chained, starts[plain], ends[plain])])
    for rows, width in _prefixed(listed, prefix):
        found.note(kinds.COLUMNS, rows[_image_faults(chained, (starts[rows], ends[rows]), width)])
    pieces = np.flatnonzero(found.readable & (found.io_type == IO_LARGE_OBJECT))
    if len(pieces):
        size = ends[pieces] - starts[pieces]
        said = chained.frames[np.minimum(starts[pieces] + PIECE_HEAD - FRAME, ends[pieces])]
        found.note(kinds.PIECE, pieces[(size < PIECE_HEAD) | (said + PIECE_HEAD != size)])
    alone = (found.role == Role.LARGE_OBJECT) | (found.role == Role.FRAGMENT)
    if alone.any():
        found.note(kinds.ORPHAN, alone & ((found.trans_ind == 0) | (found.trans_ind == 3)))
    _check_pairs(found)


def _prefixed(listed: Mask, prefix: Bytes) -> Iterator[tuple[Longs, int]]:
    for kind, width in ((Prefix.SHORT, 2), (Prefix.LONG, 4)):
        rows = np.flatnonzero(listed & (prefix == kind))
        if len(rows):
            yield rows, width


def _image_faults(chained: Chained, data: tuple[Longs, Longs], width: int) -> Longs:
    """Return the rows whose two images, the first one behind its length, are no column lists."""
    starts, ends = data
    room = ends - starts >= width
    words = chained.order.words(chained.data, f"u{width}")[np.where(room, starts, 0)]
    border = starts + width + words.astype(np.int64)
    good = np.flatnonzero(room & (border <= ends))
    bad = [np.setdiff1d(np.arange(len(starts)), good)]
    for first, last in ((starts + width, border), (border, ends)):
        bad.append(good[column_faults(chained, first[good], last[good])])
    return np.unique(np.concatenate(bad))


def _check_pairs(found: Inspected) -> None:
    """Note before images without the after image behind them."""
    changes = np.flatnonzero(found.role == Role.CHANGE)
    is_before = found.is_before[changes] & (found.io_type[changes] == IO_UPDATE)
    if not is_before.any():
        return
    before = np.flatnonzero(is_before)
    behind = np.minimum(before + 1, len(changes) - 1)
    one, two = changes[before], changes[behind]
    good = (behind > before) & (found.io_type[two] == IO_UPDATE) & ~found.is_before[two]
    good &= (found.name[one] == found.name[two]) & (found.index[one] == found.index[two])
    good &= (found.trans_ind[one] < 2) & np.isin(found.trans_ind[two], (1, 2))
    found.note(kinds.PAIR, one[~good])


def trailing_befores(data: Octets, records: Records) -> int:
    """Return how many records at the end are before images, whose after images follow."""
    count = 0
    for place in records.offsets[::-1].tolist():
        if place + NAME_AT > len(data) or data[place + 11] != BEFORE_IMAGE:
            break
        if data[place + 14] != IO_UPDATE:
            break
        count += 1
    return count
