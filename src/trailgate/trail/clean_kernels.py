"""The loop that checks and counts clean trail records: records without a fault or a rare property.

Most trails consist of clean records. `trail.record_checks` checks one property after the other,
each for many records at once, and needs an array per property. This loop checks all properties of a
record while its bytes are in the CPU cache, and writes nothing but counts. It stops at the first
record that is not clean. Whether that record is faulty is then decided by `trail.record_checks`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.strings_kernels import spans_equal
from trailgate.trail.format.record_header import BEFORE_IMAGE, BY_TABLE, NAME_AT, SHORTEST
from trailgate.trail.format.record_types import IO_UPDATE
from trailgate.trail.format.tokens import FRAME, LOGCSN, TRANID
from trailgate.trail.records.kernels import (
    field_problems,
    frame_length,
    header_problems,
    rare_marks,
    read_half,
    read_long,
    walk_parts,
)
from trailgate.trail.values.cell_kernels import cells_fit, find_two_images

# The results of ``walk_clean_records``, in ``totals``. The loop continues from them at its next call.
(
    END,  # offset after the last clean operation
    LAST,  # offset of the last clean record
    RECORDS,
    OPERATIONS,
    TRANSACTIONS,
    IS_OPEN,
    HAS_IDS,
    CSN,  # the last CSN
    CSN_START,  # its span, or -1
    CSN_STOP,
    FIRST_CSN_START,  # the span of the first record's CSN, or -1
    FIRST_CSN_STOP,
    IMAGES,  # the number of images, so that each has a number of its own
) = range(13)
TOTALS: Final = 13
NOT_CLEAN: Final = 255  # instead of the prefix of a record type that the loop does not check
MOST_DIGITS: Final = 18  # of a CSN
NOT_ALL_CLEAN, NEW_NAME, DONE = range(3)


class RecordRules(NamedTuple):
    """The rules for clean records: four tables of 256 items, and the range of IO times.

    ``infos[b]`` is true if b may be the second byte of a record. ``types`` and ``prefixes`` are
    indexed by IOType: ``types`` has the bits of ``records.kernels`` (``KNOWN`` and others), and
    ``prefixes`` the ``ImagePrefix``, or ``NOT_CLEAN`` for a type that the loop does not check.
    ``texts[id]`` is true if the payload of a token with this id is text. IO times (microseconds
    since Julian Date 0.0) must be from ``earliest`` to ``latest``.
    """

    infos: Mask
    types: Octets
    prefixes: Octets
    texts: Mask
    earliest: int
    latest: int


class NamedTables(NamedTuple):
    """The tables that clean records may name, and a hash table to find them by the bytes of a name area.

    Name i is ``names[starts[i] : ends[i]]``: the bytes of a name area, or a table index of two
    bytes if ``indexed[i]`` is ``BY_TABLE``. Its table has ``columns[i]`` columns, whose widths
    begin at ``widths[firsts[i]]``. If ``columns[i]`` is -1, no record of the table is clean.
    ``slots`` is the hash table: each slot has the number of a name, or -1. Its length is a power of
    two.
    """

    names: Octets
    starts: Longs
    ends: Longs
    indexed: Octets
    columns: Longs
    firsts: Longs
    widths: Longs
    slots: Longs


@inner
def _find_name(data: Octets, start: int, size: int, indexed: int, tables: NamedTables) -> np.int64:
    """Return the number of the table whose name area has these bytes, or -1. `clean_records.hash_name` has the same hash."""
    slot = np.int64(indexed)
    for k in range(size):
        slot = (slot * 31 + np.int64(data[start + k])) & 0xFFFFFFFF
    mask = len(tables.slots) - 1
    slot = (slot ^ (slot >> 15)) & mask
    while tables.slots[slot] >= 0:
        number = np.int64(tables.slots[slot])
        at = tables.starts[number]
        same = tables.indexed[number] == indexed and tables.ends[number] - at == size
        if same:
            for k in range(size):
                same = same and tables.names[at + k] == data[start + k]
        if same:
            return number
        slot = (slot + 1) & mask
    return np.int64(-1)


@inner
def _csn_number(data: Octets, start: int, stop: int) -> np.int64:
    """Return a CSN of 1 to 18 digits as a number, or -1 if it has another form."""
    if stop <= start or stop - start > MOST_DIGITS:
        return np.int64(-1)
    number = np.int64(0)
    for at in range(start, stop):
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        number = 10 * number + digit
    return number


@inner
def _walk_tokens(
    data: Octets, offset: int, limit: int, big: bool, texts: Mask
) -> tuple[bool, int, int, bool]:
    """Check the tokens of a record, in [offset, limit), and find the record's CSN.

    Returns whether tokens fill the range exactly and their text is ASCII; the start and end of the
    first LOGCSN (-1 and -1 without one); and whether any token is a LOGCSN or TRANID.
    """
    csn_start = csn_stop = -1
    has_ids = False
    while offset < limit:
        start = offset + FRAME
        if start > limit:
            return False, csn_start, csn_stop, has_ids
        stop = start + read_half(data, offset + 2, big)
        if stop > limit:
            return False, csn_start, csn_stop, has_ids
        code = data[offset]
        if texts[code]:
            every = np.uint8(0)
            for at in range(start, stop):
                every |= data[at]
            if every >= 0x80:
                return False, csn_start, csn_stop, has_ids
        if code == LOGCSN and csn_start < 0:
            csn_start, csn_stop = start, stop
        has_ids = has_ids or code == LOGCSN or code == TRANID
        offset = stop
    return True, csn_start, csn_stop, has_ids


@kernel(writes=("types_seen", "last", "totals"))
def walk_clean_records(
    data: Octets,
    big: bool,
    rules: RecordRules,
    tables: NamedTables,
    types_seen: Longs,
    last: Longs,
    totals: Longs,
) -> tuple[int, int]:
    """Check trail records from offset ``totals[END]`` on, and count the clean ones.

    Adds the counts to ``totals``, and the number of records of each IOType to ``types_seen``.
    ``last`` is working memory for ``cells_fit``: one item per column, all -1 at the first call. An
    operation that may continue after the data is not counted.

    Returns the reason to stop, and the offset at which the loop stopped. ``DONE``: no complete
    record is left. ``NOT_ALL_CLEAN``: the record there is not clean. ``NEW_NAME``: the name in the
    record there is not in ``tables``.
    """
    # Example, with TransInd in parentheses: insert (0), before image (1), after image (1), insert (1).
    # Fragments may follow the last insert, so the result ends before it: three records, two
    # operations, and the transaction is open. If its indicator were 2, it would be counted.
    at = totals[END]
    reason = NOT_ALL_CLEAN
    is_open, in_pair = totals[IS_OPEN] != 0, False
    code = pair_code = np.int64(-1)
    name_at = name_size = name_kind = np.int64(0)
    records = totals[RECORDS]
    # The state before the last operation, to return to it.
    begin, begin_last = at, totals[LAST]
    begin_open, begin_ids = is_open, totals[HAS_IDS] != 0
    begin_csn, begin_start, begin_stop = totals[CSN], totals[CSN_START], totals[CSN_STOP]
    begin_transactions = totals[TRANSACTIONS]
    record_at = begin_last
    has_ids = begin_ids
    csn, csn_start, csn_stop = begin_csn, begin_start, begin_stop
    transactions, operations = begin_transactions, totals[OPERATIONS]
    size, io_type = 0, np.int64(0)  # of the last operation, in records
    while True:
        length = frame_length(data, at, big, rules.infos)
        if length == 0:
            reason = DONE
            break
        if length < SHORTEST:
            break
        limit = at + length - FRAME
        name_end = at + 2 * FRAME + read_half(data, at + 6, big)
        if header_problems(data, at, limit, name_end):
            break
        kind = np.int64(data[at + 14])
        prefix = np.int64(rules.prefixes[kind])
        data_length = read_half(data, at + 12, big)
        types = rules.types[kind]
        if prefix == NOT_CLEAN or field_problems(data, at, name_end, types, data_length):
            break
        # offset 40 is Continued: fragments follow
        if rare_marks(data, at, types, data_length) or data[at + 40]:
            break
        indicator = data[at + 36]
        if indicator > 3 and data[at + 32] <= 3:
            indicator = data[at + 32]  # see ``read_records``
        begins = indicator == 0 or indicator == 3
        if indicator > 3 or begins == is_open:
            break
        io_time = read_long(data, at + 16, big)
        if io_time < rules.earliest or io_time > rules.latest:
            break
        problems, start, stop, tokens_start, tokens_stop, _, _ = walk_parts(
            data, name_end, limit, big
        )
        if problems or stop - start != data_length:
            break
        name_start = at + NAME_AT
        indexed = np.int64(data[at + 9] & BY_TABLE)
        length_of_name = np.int64(2) if indexed else name_end - name_start
        if (
            code < 0
            or indexed != name_kind
            or length_of_name != name_size
            or not spans_equal(data, name_at, name_start, name_size)
        ):
            code = _find_name(data, name_start, length_of_name, indexed, tables)
            name_kind, name_size = indexed, length_of_name
            if code < 0:
                reason = NEW_NAME
                break
        name_at = name_start
        columns, first = tables.columns[code], tables.firsts[code]
        if columns < 0:
            break
        totals[IMAGES] += 1
        if prefix:
            one, two = find_two_images(data, start, stop, big, prefix, columns)
            if one < 0 or not cells_fit(
                data, one, two, big, tables.widths, first, columns, last, totals[IMAGES]
            ):
                break
            start = two
            totals[IMAGES] += 1
        if not cells_fit(
            data, start, stop, big, tables.widths, first, columns, last, totals[IMAGES]
        ):
            break
        good, token_start, token_stop, ids = _walk_tokens(
            data, tokens_start, tokens_stop, big, rules.texts
        )
        if not good:
            break
        number = csn
        if token_start >= 0:
            number = _csn_number(data, token_start, token_stop)
            if number < csn:
                break
        is_before = kind == IO_UPDATE and data[at + 11] == BEFORE_IMAGE
        # a before image is followed by the after image of the same update
        if in_pair:
            if kind != IO_UPDATE or is_before or code != pair_code or begins:
                break
        elif is_before and indicator > 1:
            break
        # The record is clean.
        if not in_pair:
            begin, begin_last = at, record_at
            begin_open, begin_ids = is_open, has_ids
            begin_csn, begin_start, begin_stop = csn, csn_start, csn_stop
            begin_transactions = transactions
            size, io_type = 0, kind
            operations += 1
        if token_start >= 0:
            csn, csn_start, csn_stop = number, token_start, token_stop
        if records == 0:
            totals[FIRST_CSN_START], totals[FIRST_CSN_STOP] = token_start, token_stop
        has_ids = has_ids or ids
        transactions += begins
        is_open = indicator < 2
        records += 1
        size += 1
        types_seen[kind] += 1
        in_pair, pair_code = is_before, code
        record_at = at
        at += length
    stopped_at = at
    if size and is_open:
        # more records of the last operation may follow
        at, record_at, is_open, has_ids = begin, begin_last, begin_open, begin_ids
        csn, csn_start, csn_stop = begin_csn, begin_start, begin_stop
        transactions = begin_transactions
        operations -= 1
        records -= size
        types_seen[io_type] -= size
    totals[END], totals[LAST], totals[RECORDS] = at, record_at, records
    totals[OPERATIONS], totals[TRANSACTIONS] = operations, transactions
    totals[IS_OPEN], totals[HAS_IDS] = is_open, has_ids
    totals[CSN], totals[CSN_START], totals[CSN_STOP] = csn, csn_start, csn_stop
    return reason, stopped_at
