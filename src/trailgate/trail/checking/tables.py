"""Whether the tables that records name are known: from definitions, or from the file's own metadata."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import TrailgateError
from trailgate.model.tables import Definitions
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.inspected import Inspected
from trailgate.trail.format.record_types import Role
from trailgate.trail.records.metadata import MetadataKind, TrailTables
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.trail_bytes import TrailBytes

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
    _check_names(found, wanted, known)
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


def _check_names(found: Inspected, wanted: Mask, known: Known) -> None:
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
