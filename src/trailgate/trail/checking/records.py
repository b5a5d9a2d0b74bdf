"""Check many records at once: header, parts, names, columns and tokens, and note what is wrong where.

The rules are those by which readers refuse a record (``trail.format.record_problems``), but nothing is raised: a fault
is a kind and the records that have it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.gather import gather
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.data import check_data
from trailgate.trail.checking.inspected import UNKNOWN, UNNAMED, Inspected
from trailgate.trail.format.record_layout import FETCHED, FROM_LOG
from trailgate.trail.format.record_types import IO_METADATA, RECORD_TYPES, Role
from trailgate.trail.format.tokens import LOGCSN, TRANID
from trailgate.trail.records import record_problems as problems
from trailgate.trail.records.record_view import RecordNames, RecordView, find_names
from trailgate.trail.records.token_places import FoundToken, find_token
from trailgate.trail.records.trail_bytes import TrailBytes
from trailgate.trail.records.transactions import ONLY

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
    csn_texts, tx_texts = (_texts(source, found) for found in (csn, tx))
    known = view.readable & (view.indicator <= ONLY)
    by_text = np.array([not isinstance(name, int) for name in names.names] + [False])
    found = Inspected(
        view=view,
        trans_ind=np.where(known, view.indicator, UNKNOWN).astype(np.uint8),
        name=np.where(by_text[names.codes], names.codes, UNNAMED),
        names=[_name(name) for name in names.names],
        index=names.indexes(),
        csn=csn_texts[:2],
        tx=tx_texts[:2],
    )
    if view.has_problems:
        for kind, bits in _FAULTS:
            found.note(kind, view.problems & bits != 0)
    _check_names(found, names)
    faults = np.flatnonzero(csn.faults)
    found.note(kinds.TOKENS, np.concatenate([faults, csn_texts[2], tx_texts[2]]))
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


def _texts(source: TrailBytes, found: FoundToken) -> tuple[Longs, list[str], Longs]:
    """Return the records that have an id and its texts, and the records whose id is not text."""
    rows = found.rows
    rows = rows[~found.faults[rows]]
    spans = found.spans.take(rows)
    values = gather(source.data, spans.starts, spans.ends)
    try:
        return rows, values.cast(pa.string()).to_pylist(), rows[:0]
    except pa.ArrowInvalid:
        raw = values.to_pylist()
        texts = [one.decode("utf-8", "backslashreplace") for one in raw]
        return rows, texts, rows[np.array([not _is_text(one) for one in raw], bool)]


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
