"""Select records in Logdump: tests that return a mask for a chunk, and the session's filters built from them.

A test is a function of a chunk of records that returns one boolean per record. A session has a list
of filters that include records and a list that exclude; a record is shown if it matches the first
list and not the second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.open_trail import LogdumpChunk
from trailgate.logdump.syntax import Comparison, DataByteRange

RecordTest = Callable[[LogdumpChunk], Mask]


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


class FilterSide(StrEnum):
    """The two lists of a Logdump session's filters: matching records are shown, or suppressed."""

    INCLUDE = "include"
    EXCLUDE = "exclude"


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A filter of a Logdump session: its option, the text that was typed, and the test.

    If ``joins``, all filters of the same option count as one, and a record passes if any of them
    matches.
    """

    option: str
    text: str
    test: RecordTest = field(repr=False, compare=False)
    joins: bool = False


@dataclass(frozen=True, slots=True)
class RecordFilterList:
    """The filters that include records, or the filters that exclude them.

    A record matches the list if it matches all of the filters. Without ``match_all``, it matches if
    it matches one of them.
    """

    filters: tuple[RecordFilter, ...] = ()
    match_all: bool = True

    def mask(self, chunk: LogdumpChunk) -> Mask:
        """Return a mask of a chunk's records that match the list of filters.

        The list must have at least one filter.
        """
        # Filters of an option that joins share the key (option, -1), and their masks are combined
        # by or.
        masks: dict[tuple[str, int], Mask] = {}
        for number, one in enumerate(self.filters):
            key = (one.option, -1 if one.joins else number)
            mask = one.test(chunk)
            masks[key] = masks[key] | mask if key in masks else mask
        combine = np.logical_and if self.match_all else np.logical_or
        combined: Mask = combine.reduce(list(masks.values()))
        return combined


@dataclass(frozen=True, slots=True)
class RecordFilters:
    """All filters of a session: a record is shown if it matches ``include`` and does not match ``exclude``."""

    enabled: bool = False
    include: RecordFilterList = RecordFilterList()
    exclude: RecordFilterList = RecordFilterList(match_all=False)

    @property
    def by_number(self) -> tuple[RecordFilter, ...]:
        """The session's filters in the order of their numbers in FILTER SHOW."""
        return (*self.include.filters, *self.exclude.filters)

    def side(self, side: FilterSide) -> RecordFilterList:
        """Return the list of the session's filters that include, or that exclude."""
        return self.include if side is FilterSide.INCLUDE else self.exclude

    def mask(self, chunk: LogdumpChunk) -> Mask:
        """Return a mask of records that the session's filters show."""
        shown = np.ones(len(chunk), bool)
        if not self.enabled or not len(chunk):
            return shown
        if self.include.filters:
            shown &= self.include.mask(chunk)
        if self.exclude.filters:
            shown &= ~self.exclude.mask(chunk)
        return shown

    def with_filter(self, side: FilterSide, one: RecordFilter) -> RecordFilters:
        """Return the session's filters with one more on a side, and switch filtering on."""
        longer = (*self.side(side).filters, one)
        return replace(self._with(side, filters=longer), enabled=True)

    def matching(self, side: FilterSide, *, match_all: bool) -> RecordFilters:
        """Return the filters with another ``match_all`` for a side.

        If true, a record must match all filters of the side; otherwise one is enough.
        """
        return self._with(side, match_all=match_all)

    def _with(self, side: FilterSide, **changes: Any) -> RecordFilters:
        changed = replace(self.side(side), **changes)
        if side is FilterSide.INCLUDE:
            return replace(self, include=changed)
        return replace(self, exclude=changed)

    def clear(self, what: str) -> RecordFilters:
        """Return the session's filters without those that ``what`` names.

        ``what`` is the number of a filter in FILTER SHOW, an option (which removes all its filters,
        for example "RECTYPE"), or "ALL", which also switches filtering off. Raises OptionError if
        there is no such filter.
        """
        if what.upper() == "ALL":
            return RecordFilters()
        removed = [
            number
            for number, one in enumerate(self.by_number)
            if what == str(number) or what.upper() == one.option
        ]
        if not removed:
            raise OptionError(f"there is no filter {what[:40]!r}", hint="FILTER SHOW lists them")
        # the numbers of excluding filters continue after the including ones
        return replace(
            self,
            include=_without(self.include, removed, 0),
            exclude=_without(self.exclude, removed, len(self.include.filters)),
        )


def _without(filters: RecordFilterList, removed: list[int], first: int) -> RecordFilterList:
    kept = (one for number, one in enumerate(filters.filters, first) if number not in removed)
    return replace(filters, filters=tuple(kept))
