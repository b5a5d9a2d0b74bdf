"""The filters of a session: which records are included, and which are excluded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.filters.record_tests import RecordTest
from trailgate.logdump.records.portions import Portion


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

    def mask(self, portion: Portion) -> Mask:
        """Return which records match; there must be filters."""
        masks: dict[tuple[str, int], Mask] = {}
        for number, one in enumerate(self.filters):
            key = (one.option, -1 if one.joins else number)
            mask = one.test(portion)
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
    def numbered(self) -> tuple[Filter, ...]:
        """Return the filters in the order of their numbers in FILTER SHOW."""
        return (*self.include.filters, *self.exclude.filters)

    def side(self, side: Side) -> FilterList:
        """Return the filters of a side."""
        return self.include if side is Side.INCLUDE else self.exclude

    def mask(self, portion: Portion) -> Mask:
        """Return which records of a portion are shown."""
        found = np.ones(len(portion), bool)
        if not self.enabled or not len(portion):
            return found
        if self.include.filters:
            found &= self.include.mask(portion)
        if self.exclude.filters:
            found &= ~self.exclude.mask(portion)
        return found

    def added(self, side: Side, one: Filter) -> Filters:
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

    def cleared(self, what: str) -> Filters:
        """Return the filters without a number of FILTER SHOW, or without those of an option."""
        if what.upper() == "ALL":
            return Filters()
        gone = [
            number
            for number, one in enumerate(self.numbered)
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
