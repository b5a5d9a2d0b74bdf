"""The filters of a Logdump session, which FILTER adds, switches and removes.

A session has a list of filters that include records and a list that exclude; a record is shown if
it matches the first list and not the second. A filter is a row of ``filter_options`` with the test
of records (``record_tests``) that it has built.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.record_chunks import LogdumpChunk
from trailgate.logdump.record_tests import RecordTest


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
