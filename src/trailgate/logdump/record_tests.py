"""Tests of trail records, from which Logdump's filters and scans are built.

A test is a function of a chunk of records that returns one boolean per record. ``of_types``,
``of_names`` and the others build a test; ``any_of`` and ``all_of`` combine tests.
``filter_options`` builds the test of each option of FILTER, mostly by these functions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.record_chunks import LogdumpChunk
from trailgate.logdump.syntax import DataByteRange

RecordTest = Callable[[LogdumpChunk], Mask]
Comparison = Callable[[Any, Any], Any]


def any_of(tests: Sequence[RecordTest]) -> RecordTest:
    """Combine tests of records: the result passes records that at least one of the tests passes."""
    return lambda chunk: np.asarray(np.logical_or.reduce([test(chunk) for test in tests]))


def all_of(tests: Sequence[RecordTest]) -> RecordTest:
    """Combine tests of records: the result passes records that all of the tests pass."""
    return lambda chunk: np.asarray(np.logical_and.reduce([test(chunk) for test in tests]))


def of_types(codes: Sequence[int]) -> RecordTest:
    """Build a Logdump test that passes records of these record types."""
    # a lookup table by type code, so that one indexing step tests all records of a chunk
    table = np.zeros(256, bool)
    table[list(codes)] = True
    return lambda chunk: table[chunk.view.io_type]


def of_names(patterns: Sequence[str]) -> RecordTest:
    """Build a Logdump test that passes records of tables with these names.

    Patterns may contain ``*`` and ``?``.
    """
    return any_of([partial(_is_named, pattern) for pattern in patterns])


def _is_named(pattern: str, chunk: LogdumpChunk) -> Mask:
    return chunk.names.like(pattern)


def of_values(
    values_of: Callable[[LogdumpChunk], Any], compare: Comparison, value: int
) -> RecordTest:
    """Build a Logdump test that compares a column of a chunk, one element per record, with a number."""
    return lambda chunk: np.asarray(compare(values_of(chunk), value), bool)


def of_field(name: str, compare: Comparison, value: int) -> RecordTest:
    """Build a Logdump test that compares a field of the record header with a number."""
    return of_values(lambda chunk: chunk.heads[name], compare, value)


def of_time(compare: Comparison, value: int) -> RecordTest:
    """Build a Logdump test that compares the IO time of records with microseconds since 1970 UTC."""
    return of_values(lambda chunk: chunk.view.io_time, compare, value)


def of_image(*, before: bool) -> RecordTest:
    """Build a Logdump test that passes only before images, or only after images."""
    return lambda chunk: chunk.view.is_before == before


def of_bytes(needle: bytes, limits: DataByteRange, *, fold: bool = False) -> RecordTest:
    """Build a Logdump test that passes records whose data contain ``needle`` in a range of bytes.

    ``fold`` ignores the case of ASCII letters.

    The complete chunk is searched at once, and each match is then assigned to its record, because
    most records contain no match.
    """
    if not needle:
        raise OptionError("the text to look for is empty")
    first, last = limits.first, limits.last

    def test(chunk: LogdumpChunk) -> Mask:
        matches = np.zeros(len(chunk), bool)
        text = chunk.source.data.tobytes()
        pattern = needle.lower() if fold else needle
        text = text.lower() if fold else text
        offsets = chunk.view.offsets.tolist()
        areas = chunk.view.data
        starts, ends = areas.starts.tolist(), areas.ends.tolist()
        hit = text.find(pattern)
        while hit >= 0:
            row = bisect_right(offsets, hit) - 1
            low, high = starts[row] + first, ends[row]
            if last is not None:
                high = min(high, starts[row] + last + 1)
            # The hit lies before the range: search again from the start of the range.
            if hit < low < high:
                hit = text.find(pattern, low)
                continue
            # The hit is the first at or after the start of the range, so if it is outside, all later
            # hits in this record are outside too. Continue with the next record.
            matches[row] |= low <= hit <= high - len(pattern)
            end = offsets[row] + int(chunk.view.lengths[row])
            hit = text.find(pattern, max(end, hit + 1))
            if row + 1 == len(offsets):
                break
        return matches

    return test


def compare_strings(compare: Comparison, left: bytes, right: bytes) -> bool:
    """Compare a record's value with the value in a FILTER: as numbers if both are digits, otherwise as text.

    An empty left value never matches.
    """
    if not left:
        return False
    if left.isdigit() and right.isdigit():
        return bool(compare(_digits(left), _digits(right)))
    return bool(compare(left, right))


def _digits(text: bytes) -> tuple[int, bytes]:
    """Return a sort key of a string of digits: strings are compared as numbers, however long they are."""
    # Without leading zeros the longer string is the greater number.
    bare = text.lstrip(b"0")
    return len(bare), bare
