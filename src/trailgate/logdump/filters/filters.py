"""The filters of a session: what is included, what is excluded, and how several are matched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.filters.criteria import Test
from trailgate.logdump.records.portions import Portion


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing asked of records: the option, what was typed, and the test.

    Criteria of one option that ``joins`` are one question: any of them suffices.
    """

    option: str
    text: str
    test: Test = field(repr=False, compare=False)
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """The criteria to include by, or to exclude by."""

    criteria: tuple[Criterion, ...] = ()
    match_all: bool = True

    def mask(self, portion: Portion) -> Mask:
        """Return which records match."""
        questions: dict[tuple[str, int], Mask] = {}
        for number, criterion in enumerate(self.criteria):
            key = (criterion.option, -1 if criterion.joins else number)
            mask = criterion.test(portion)
            questions[key] = questions[key] | mask if key in questions else mask
        combine = np.logical_and if self.match_all else np.logical_or
        found: Mask = combine.reduce(list(questions.values()))
        return found


@dataclass(frozen=True, slots=True)
class Filters:
    """All filters. Records must match what is to be included and not what is to be excluded."""

    enabled: bool = False
    include: Side = Side()
    exclude: Side = Side(match_all=False)

    @property
    def active(self) -> bool:
        """Return whether any record may be suppressed."""
        return self.enabled and bool(self.include.criteria or self.exclude.criteria)

    def mask(self, portion: Portion) -> Mask:
        """Return which records of a portion are shown."""
        found = np.ones(len(portion), bool)
        if not self.active or not len(portion):
            return found
        if self.include.criteria:
            found &= self.include.mask(portion)
        if self.exclude.criteria:
            found &= ~self.exclude.mask(portion)
        return found

    def side(self, name: str) -> Side:
        """Return the criteria to ``include`` or to ``exclude`` by."""
        return self.include if name == INCLUDE else self.exclude

    def with_side(self, name: str, side: Side) -> Filters:
        """Return the filters with one side replaced."""
        if name == INCLUDE:
            return replace(self, include=side)
        return replace(self, exclude=side)

    def added(self, name: str, criterion: Criterion) -> Filters:
        """Return the filters with one criterion more, switched on."""
        side = self.side(name)
        side = replace(side, criteria=(*side.criteria, criterion))
        return replace(self.with_side(name, side), enabled=True)

    def cleared(self, what: str) -> Filters:
        """Return the filters without those of an option, or a number as SHOW FILTER lists it."""
        if what.upper() == "ALL":
            return Filters()
        numbered = [*self.include.criteria, *self.exclude.criteria]
        gone = {i for i, one in enumerate(numbered) if what == str(i) or what.upper() == one.option}
        if not gone:
            raise OptionError(f"there is no filter {what[:40]!r}", hint="FILTER SHOW lists them")
        kept = [None if i in gone else one for i, one in enumerate(numbered)]
        middle = len(self.include.criteria)
        include = tuple(one for one in kept[:middle] if one)
        exclude = tuple(one for one in kept[middle:] if one)
        return replace(
            self,
            include=replace(self.include, criteria=include),
            exclude=replace(self.exclude, criteria=exclude),
        )


INCLUDE: Final = "include"
EXCLUDE: Final = "exclude"
