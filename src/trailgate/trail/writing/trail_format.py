"""The format in which a trail is written: level, byte order, form of updates.

For example, FORMAT RELEASE 12.2 is level 5. The level decides what a trail may contain: a file
header from level 1, unified updates and little-endian numbers from level 4, metadata records from
level 5 (trail format §4.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, Self, TypeVar

from trailgate.errors import OptionError
from trailgate.options import NamedValues, check_calls
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.table_metadata import METADATA_LEVEL

Kind = TypeVar("Kind", bound=Enum)

HEADER_LEVEL: Final = 1  # 10.0, the first level with a file header (trail format §4.6)
NEWER_LEVEL: Final = 4  # 12.1: little-endian trails, unified updates

DEFAULT_RELEASE: Final = "11.2"


class TrailRelease(NamedTuple):
    """A release that FORMAT RELEASE may name, and its format level."""

    major: int
    minor: int
    level: int

    @property
    def name(self) -> str:
        """Return the release as FORMAT RELEASE spells it, such as "12.2"."""
        return f"{self.major}.{self.minor}"


# trail format §4.6. Levels 6 and 7 were seen in trails of these releases. The levels of releases
# between these, and after them, are not public.
RELEASES: Final[Mapping[str, TrailRelease]] = MappingProxyType(
    {
        row.name: row
        for row in (
            TrailRelease(9, 5, 0),
            TrailRelease(10, 0, 1),
            TrailRelease(10, 4, 2),
            TrailRelease(11, 2, 3),
            TrailRelease(12, 1, 4),
            TrailRelease(12, 2, 5),
            TrailRelease(12, 3, 6),
            TrailRelease(19, 1, 7),
        )
    }
)


class UpdateFormat(NamedValues):
    """The form in which an update with before values is written to a trail.

    SEPARATE: two records. FULL and COMPACT: one record of type 134 or 135, as with
    UPDATERECORDFORMAT. A COMPACT record has the key and the changed columns before the change, and
    only the changed columns after it.
    """

    SEPARATE = "separate"
    FULL = "full"
    COMPACT = "compact"


@check_calls
@dataclass(frozen=True, slots=True)
class TrailFormat:
    """The format in which a trail is written: its level, byte order and form of updates.

    Raises OptionError for a combination that its level does not support.
    """

    level: int = RELEASES[DEFAULT_RELEASE].level
    order: ByteOrder = ByteOrder.BIG
    updates: UpdateFormat = UpdateFormat.SEPARATE

    def __post_init__(self) -> None:
        levels = [row.level for row in RELEASES.values()]
        if self.level not in levels:
            raise OptionError(f"level {self.level} is not one of {levels[0]} to {levels[-1]}")
        hint = "Use format release 12.1 or later"
        if self.level < NEWER_LEVEL and self.order is ByteOrder.LITTLE:
            problem = f"a trail of format release {self.release} is big-endian"
            raise OptionError(problem, hint=hint)
        if self.level < NEWER_LEVEL and self.updates is not UpdateFormat.SEPARATE:
            problem = f"a trail of format release {self.release} has no unified updates"
            raise OptionError(problem, hint=hint)

    @classmethod
    def from_options(
        cls, release: str | None = None, byte_order: str | None = None, updates: str | None = None
    ) -> Self:
        """Build the trail format from the values of options. None selects the default."""
        return cls(
            _release(release or DEFAULT_RELEASE).level,
            _chosen("byte order", {order.label: order for order in ByteOrder}, byte_order)
            or ByteOrder.BIG,
            _chosen("update format", {each.value: each for each in UpdateFormat}, updates)
            or UpdateFormat.SEPARATE,
        )

    @property
    def release(self) -> str:
        """The GoldenGate release with the format's level."""
        return next(row.name for row in RELEASES.values() if row.level == self.level)

    @property
    def has_header(self) -> bool:
        """Whether trail files of this format begin with a file header."""
        return self.level >= HEADER_LEVEL

    @property
    def by_index(self) -> bool:
        """Return whether records of this format name their table by an index that metadata records define."""
        return self.level >= METADATA_LEVEL


LEVEL_3: Final = TrailFormat()


def _release(name: str) -> TrailRelease:
    try:
        return RELEASES[name.strip()]
    except KeyError:
        problem = f"the format of release {name} is not public"
        raise OptionError(problem, hint=f"Known: {', '.join(RELEASES)}") from None


def _chosen(what: str, known: Mapping[str, Kind], text: str | None) -> Kind | None:
    if text is None:
        return None
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise OptionError(f"the {what} is {' or '.join(known)}, not {text!r}") from None


HIGHEST_LEVEL: Final = max(release.level for release in RELEASES.values())


def is_newer_level(level: int) -> bool:
    """Return True if a trail's format level is above those of all releases that this version knows."""
    return level > HIGHEST_LEVEL
