"""The tests of filters: each takes a chunk of records and returns a mask of those that match.

The filters of a session: which records are included, and which are excluded.
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
from trailgate.logdump.open_trail import Chunk
from trailgate.logdump.syntax import ByteRange, Comparison

RecordTest = Callable[[Chunk], Mask]


def any_of(tests: Sequence[RecordTest]) -> RecordTest:
    """Return a test for records that pass any of some tests."""
    return lambda chunk: np.asarray(np.logical_or.reduce([test(chunk) for test in tests]))


def all_of(tests: Sequence[RecordTest]) -> RecordTest:
    """Return a test for records that pass all of some tests."""
    return lambda chunk: np.asarray(np.logical_and.reduce([test(chunk) for test in tests]))


def of_types(codes: Sequence[int]) -> RecordTest:
    """Return a test for record types."""
    table = np.zeros(256, bool)
    table[list(codes)] = True
    return lambda chunk: table[chunk.view.io_type]


def of_names(patterns: Sequence[str]) -> RecordTest:
    """Return a test for table names; each pattern may hold ``*`` and ``?``."""
    return any_of([partial(_is_named, pattern) for pattern in patterns])


def _is_named(pattern: str, chunk: Chunk) -> Mask:
    return chunk.names.like(pattern)


def of_values(values_of: Callable[[Chunk], Any], compare: Comparison, value: int) -> RecordTest:
    """Return a test for numbers that a chunk has one a record."""
    return lambda chunk: np.asarray(compare(values_of(chunk), value), bool)


def of_field(name: str, compare: Comparison, value: int) -> RecordTest:
    """Return a test for the value of a header field."""
    return of_values(lambda chunk: chunk.heads[name], compare, value)


def of_time(compare: Comparison, value: int) -> RecordTest:
    """Return a test for the IO time."""
    return of_values(lambda chunk: chunk.view.io_time, compare, value)


def of_image(*, before: bool) -> RecordTest:
    """Return a test for before images, or for after images."""
    return lambda chunk: chunk.view.is_before == before


def of_bytes(needle: bytes, limits: ByteRange, *, fold: bool = False) -> RecordTest:
    """Return a test for bytes in the data; ``fold`` matches letters in either case."""
    if not needle:
        raise OptionError("nothing to look for")
    first, last = limits.first, limits.last

    def test(chunk: Chunk) -> Mask:
        found = np.zeros(len(chunk), bool)
        whole = chunk.source.data.tobytes()
        sought = needle.lower() if fold else needle
        whole = whole.lower() if fold else whole
        offsets = chunk.view.offsets.tolist()
        areas = chunk.view.data
        starts, ends = areas.starts.tolist(), areas.ends.tolist()
        place = whole.find(sought)
        while place >= 0:
            row = bisect_right(offsets, place) - 1
            low, high = starts[row] + first, ends[row]
            if last is not None:
                high = min(high, starts[row] + last + 1)
            if place < low < high:
                place = whole.find(sought, low)
                continue
            # Later hits in the same record lie even further right: continue with the next record.
            found[row] |= low <= place <= high - len(sought)
            end = offsets[row] + int(chunk.view.lengths[row])
            place = whole.find(sought, max(end, place + 1))
            if row + 1 == len(offsets):
                break
        return found

    return test


class Side(StrEnum):
    """Whether the records that match a filter are shown or suppressed."""

    INCLUDE = "include"
    EXCLUDE = "exclude"


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter: its option, the text that was typed, and the test of records.

    If ``joins``, the filters of one option count as one: any of them suffices.
    """

    option: str
    text: str
    test: RecordTest = field(repr=False, compare=False)
    joins: bool = False


@dataclass(frozen=True, slots=True)
class FilterList:
    """The filters of one side, of which a record must match all or any."""

    filters: tuple[Filter, ...] = ()
    match_all: bool = True

    def mask(self, chunk: Chunk) -> Mask:
        """Return which records match; there must be filters."""
        masks: dict[tuple[str, int], Mask] = {}
        for number, one in enumerate(self.filters):
            key = (one.option, -1 if one.joins else number)
            mask = one.test(chunk)
            masks[key] = masks[key] | mask if key in masks else mask
        combine = np.logical_and if self.match_all else np.logical_or
        found: Mask = combine.reduce(list(masks.values()))
        return found


@dataclass(frozen=True, slots=True)
class Filters:
    """All filters. Records that are shown match those that include and not those that exclude."""

    enabled: bool = False
    include: FilterList = FilterList()
    exclude: FilterList = FilterList(match_all=False)

    @property
    def by_number(self) -> tuple[Filter, ...]:
        """Return the filters in the order of their numbers in FILTER SHOW."""
        return (*self.include.filters, *self.exclude.filters)

    def side(self, side: Side) -> FilterList:
        """Return the filters of a side."""
        return self.include if side is Side.INCLUDE else self.exclude

    def mask(self, chunk: Chunk) -> Mask:
        """Return which records of a chunk are shown."""
        found = np.ones(len(chunk), bool)
        if not self.enabled or not len(chunk):
            return found
        if self.include.filters:
            found &= self.include.mask(chunk)
        if self.exclude.filters:
            found &= ~self.exclude.mask(chunk)
        return found

    def add_counts(self, side: Side, one: Filter) -> Filters:
        """Return the filters with one more, switched on."""
        longer = (*self.side(side).filters, one)
        return replace(self._with(side, filters=longer), enabled=True)

    def matching(self, side: Side, *, match_all: bool) -> Filters:
        """Return the filters, of which those of a side must match all, or any."""
        return self._with(side, match_all=match_all)

    def _with(self, side: Side, **changes: Any) -> Filters:
        changed = replace(self.side(side), **changes)
        if side is Side.INCLUDE:
            return replace(self, include=changed)
        return replace(self, exclude=changed)

    def clear(self, what: str) -> Filters:
        """Return the filters without a number of FILTER SHOW, or without those of an option."""
        if what.upper() == "ALL":
            return Filters()
        gone = [
            number
            for number, one in enumerate(self.by_number)
            if what == str(number) or what.upper() == one.option
        ]
        if not gone:
            raise OptionError(f"there is no filter {what[:40]!r}", hint="FILTER SHOW lists them")
        return replace(
            self,
            include=_without(self.include, gone, 0),
            exclude=_without(self.exclude, gone, len(self.include.filters)),
        )


def _without(filters: FilterList, gone: list[int], first: int) -> FilterList:
    kept = (one for number, one in enumerate(filters.filters, first) if number not in gone)
    return replace(filters, filters=tuple(kept))
