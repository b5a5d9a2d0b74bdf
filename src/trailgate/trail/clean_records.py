"""Check and count clean records of a trail in one pass, without an array per property.

A record is clean if `trail.record_checks` and the readers would find nothing wrong and nothing
unusual in it. `CleanRecords.count` returns the counts of a portion if all of its records are clean.
Otherwise, for example if it contains a metadata record, it returns None, and the caller checks the
portion with `trail.record_checks` instead. The loop in `trail.clean_kernels` identifies tables by
the bytes of their name area. It stops at each new name, whose table is then looked up and added to
the loop's tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trailgate.arrays import Longs, Octets, byte_table
from trailgate.model.table_names import normalize_table_name
from trailgate.model.tables import Definitions, Table
from trailgate.trail import clean_kernels as kernels
from trailgate.trail.format.header_fields import JULIAN_EPOCH
from trailgate.trail.format.record_header import BY_TABLE, NAME_AT
from trailgate.trail.format.record_types import (
    IO_DELETE,
    IO_INSERT,
    IO_KEY_UPDATE,
    IO_LONG_KEY_UPDATE,
    IO_UNIFIED_KEY_UPDATE,
    IO_UNIFIED_UPDATE,
    IO_UPDATE,
    PREFIX_OF,
)
from trailgate.trail.format.tokens import FRAME, ByteOrder
from trailgate.trail.reading.tokens import IS_TEXT
from trailgate.trail.record_checks import (
    EARLIEST,
    LATEST,
    KnownTables,
    TransactionCheckState,
    csn_sort_key,
)
from trailgate.trail.records.framing import RECORD_INFO
from trailgate.trail.records.record_view import TYPE_BITS
from trailgate.trail.records.table_metadata import TrailTables
from trailgate.trail.values.codec_table import cell_widths

_MOST_SKIPPED: Final = 15  # portions, after others that were not clean
_FEW: Final = 64  # tables for which there is room at first


# The types of changes whose data are one or two lists of columns.
_TYPES: Final = (
    IO_DELETE,
    IO_INSERT,
    IO_UPDATE,
    IO_KEY_UPDATE,
    IO_LONG_KEY_UPDATE,
    IO_UNIFIED_UPDATE,
    IO_UNIFIED_KEY_UPDATE,
)
_RULES: Final = kernels.RecordRules(
    infos=RECORD_INFO,
    types=TYPE_BITS,
    prefixes=byte_table({code: int(PREFIX_OF[code]) for code in _TYPES}, kernels.NOT_CLEAN),
    texts=IS_TEXT,
    earliest=EARLIEST + JULIAN_EPOCH,
    latest=LATEST + JULIAN_EPOCH,
)


@dataclass(frozen=True, slots=True)
class CleanRecordCounts:
    """The counts of a portion's clean trail records, and the state of transactions after them.

    The records occupy the first ``size`` bytes of the portion. ``types`` has a count for each
    IOType. ``first_csn`` is the CSN of the first record, or None if it has none. The times are the
    IO times of the first and the last record, in microseconds since 1970 UTC.
    """

    size: int
    records: int
    operations: int
    transactions: int
    types: Longs
    first_csn: str | None
    first_time: int
    last_time: int
    state: TransactionCheckState


class CleanRecords:
    """Checks and counts the clean records of a trail, portion by portion.

    Tables are defined by ``definitions`` or by the trail's metadata.
    """

    def __init__(self, definitions: Definitions | None) -> None:
        self._definitions = definitions
        self._pause = self._skipped = 0
        self._clear(TrailTables())

    def _clear(self, tables: TrailTables) -> None:
        self._tables, self._count = tables, 0
        self._names = kernels.NamedTables(
            names=np.zeros(32 * _FEW, np.uint8),
            starts=np.zeros(_FEW, np.int64),
            ends=np.zeros(_FEW, np.int64),
            indexed=np.zeros(_FEW, np.uint8),
            columns=np.zeros(_FEW, np.int64),
            firsts=np.zeros(_FEW, np.int64),
            widths=np.zeros(16 * _FEW, np.int64),
            slots=np.full(4 * _FEW, -1, np.int64),
        )
        self._last = np.full(16, -1, np.int64)

    def count(
        self,
        data: Octets,
        order: ByteOrder,
        state: TransactionCheckState,
        known: KnownTables,
        *,
        finish: bool,
    ) -> CleanRecordCounts | None:
        """Count the clean records of a trail's portion, or return None if all must be checked by `trail.record_checks`.

        The result is None if a record is not clean, if there is no complete operation, or if the
        CSN before the portion is not a number of at most 18 digits. After such a portion, up to 15
        portions are not checked here at all, and the result is None for them too.

        An operation at the end that may continue after the data is not counted. With ``finish``
        nothing follows the data, and the result is None unless the counts include all of them.
        """
        if self._skipped < self._pause:
            self._skipped += 1
            return None
        counts = self._count_clean(data, order, state, known)
        if counts is None or (finish and counts.size < len(data)):
            # Trails with a large object in each portion should not be slower than without the loop.
            self._skipped, self._pause = 0, min(2 * self._pause + 1, _MOST_SKIPPED)
            return None
        self._pause = 0
        return counts

    def _count_clean(
        self, data: Octets, order: ByteOrder, state: TransactionCheckState, known: KnownTables
    ) -> CleanRecordCounts | None:
        kind, csn = (0, 0) if state.csn is None else csn_sort_key(state.csn)
        if kind or not isinstance(csn, int) or csn >= 10**kernels.MOST_DIGITS:
            return None
        if known.tables is not self._tables:
            # A table index may have another meaning now.
            self._clear(known.tables)
        totals, types = np.zeros(kernels.TOTALS, np.int64), np.zeros(256, np.int64)
        totals[kernels.IS_OPEN], totals[kernels.HAS_IDS] = state.is_open, state.has_ids
        totals[kernels.CSN], totals[kernels.CSN_START] = csn, -1
        totals[kernels.FIRST_CSN_START] = -1
        big = order is ByteOrder.BIG
        # The loop numbers the images of each chunk from 1, so forget the numbers of the last chunk.
        self._last.fill(-1)
        while True:
            reason, offset = kernels.walk_clean_records(
                data, big, _RULES, self._names, types, self._last, totals
            )
            if reason == kernels.NOT_ALL_CLEAN:
                return None
            if reason == kernels.DONE:
                break
            self._add(data, order, offset)
        return _counts(data, order, totals, types, state) if totals[kernels.RECORDS] else None

    def _add(self, data: Octets, order: ByteOrder, offset: int) -> None:
        """Add the name area of the record at an offset, and its table's widths, to the tables of the loop over clean records.

        The record's header must be valid.
        """
        indexed = int(data[offset + 9]) & BY_TABLE
        start = offset + NAME_AT
        name_end = offset + 2 * FRAME + order.number(data[offset + 6 : offset + 8].tobytes())
        name = data[start : start + 2 if indexed else name_end].tobytes()
        table = self._by_index(order.number(name)) if indexed else self._by_name(name)
        widths = np.zeros(0, np.int64) if table is None else cell_widths(table)
        number = self._count
        names = self._names = self._make_room(len(name), len(widths))
        first_byte, first_width = (0, 0)
        if number:
            first_byte = int(names.ends[number - 1])
            first_width = int(names.firsts[number - 1] + max(0, names.columns[number - 1]))
        names.starts[number], names.ends[number] = first_byte, first_byte + len(name)
        names.names[first_byte : first_byte + len(name)] = np.frombuffer(name, np.uint8)
        names.indexed[number] = indexed
        names.firsts[number] = first_width
        names.columns[number] = -1 if table is None else len(widths)
        names.widths[first_width : first_width + len(widths)] = widths
        _enter(names, number, hash_name(name, indexed))
        self._count += 1

    def _by_name(self, area: bytes) -> Table | None:
        """Return the table that a name area names, or None if its records cannot be clean.

        They cannot be clean if the area is not UTF-8 with a single NUL at its end, or if the table
        is not defined.
        """
        name, nul = area[:-1], area[-1:]
        if nul != b"\0" or b"\0" in name or self._definitions is None:
            return None
        try:
            text = name.decode()
        except UnicodeDecodeError:
            return None
        if self._definitions.get(text) is None:
            return None
        return self._definitions.get(normalize_table_name(text))

    def _by_index(self, number: int) -> Table | None:
        """Return the table that metadata assign to an index, or None if its columns are unknown."""
        known = self._tables.tables.get(number)
        if known is None:
            return None
        defined = None if self._definitions is None else self._definitions.get(known.name)
        return known.table or defined

    def _make_room(self, name: int, columns: int) -> kernels.NamedTables:
        """Return the tables of the loop over clean records with room for a name of ``name`` bytes and ``columns`` more columns."""
        number, names = self._count, self._names
        room: dict[str, Any] = {}
        used = int(names.ends[number - 1]) if number else 0
        filled = int(names.firsts[number - 1] + max(0, names.columns[number - 1])) if number else 0
        for field, needed in (
            ("names", used + name),
            ("widths", filled + columns),
            *((field, number + 1) for field in ("starts", "ends", "indexed", "columns", "firsts")),
        ):
            array = getattr(names, field)
            if needed > len(array):
                room[field] = np.zeros(2 * needed, array.dtype)
                room[field][: len(array)] = array
        if columns > len(self._last):
            self._last = np.full(columns, -1, np.int64)
        names = names._replace(**room)
        if 2 * (number + 1) <= len(names.slots):
            return names
        names = names._replace(slots=np.full(4 * len(names.slots), -1, np.int64))
        for other in range(number):
            raw = names.names[int(names.starts[other]) : int(names.ends[other])].tobytes()
            _enter(names, other, hash_name(raw, int(names.indexed[other])))
        return names


def hash_name(name: bytes, indexed: int) -> int:
    """Return the hash of a name area. `clean_kernels._find_name` must compute the same one."""
    slot = indexed
    for byte in name:
        slot = (slot * 31 + byte) & 0xFFFFFFFF
    return slot ^ (slot >> 15)


def _enter(names: kernels.NamedTables, number: int, hashed: int) -> None:
    mask = len(names.slots) - 1
    slot = hashed & mask
    while names.slots[slot] >= 0:
        slot = (slot + 1) & mask
    names.slots[slot] = number


def _counts(
    data: Octets, order: ByteOrder, totals: Longs, types: Longs, before: TransactionCheckState
) -> CleanRecordCounts:
    """Convert the totals of the loop over clean records to counts. ``before`` is the state before these records."""
    numbers = totals.tolist()

    def text(start: int, stop: int) -> str | None:
        return None if start < 0 else data[start:stop].tobytes().decode()

    def time(at: int) -> int:
        # the header's timestamp, eight bytes
        return order.number(data[at + 16 : at + 24].tobytes()) - JULIAN_EPOCH

    last_csn = text(numbers[kernels.CSN_START], numbers[kernels.CSN_STOP])
    return CleanRecordCounts(
        size=numbers[kernels.END],
        records=numbers[kernels.RECORDS],
        operations=numbers[kernels.OPERATIONS],
        transactions=numbers[kernels.TRANSACTIONS],
        types=types,
        first_csn=text(numbers[kernels.FIRST_CSN_START], numbers[kernels.FIRST_CSN_STOP]),
        first_time=time(0),
        last_time=time(numbers[kernels.LAST]),
        state=TransactionCheckState(
            is_open=bool(numbers[kernels.IS_OPEN]),
            elsewhere=False,
            has_ids=bool(numbers[kernels.HAS_IDS]),
            csn=before.csn if last_csn is None else last_csn,
        ),
    )
