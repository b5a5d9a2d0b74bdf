"""The capture properties: one row each, with what its value may be and what it does.

Origins cite sections of the reference (``docs/properties.md`` lists the same rows).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.errors import did_you_mean
from trailgate.messages.properties.connection import CONNECTION
from trailgate.messages.properties.debezium import DEBEZIUM
from trailgate.messages.properties.delimited import DELIMITED
from trailgate.messages.properties.event_publishing import EVENT_PUBLISHING
from trailgate.messages.properties.fixed_width import FIXED
from trailgate.messages.properties.json import JSON
from trailgate.messages.properties.rows import Effect, PropertyRow, SourceKind, ValueKind
from trailgate.messages.properties.xml import XML

__all__ = ["PROPERTIES", "Effect", "PropertyRow", "SourceKind", "ValueKind", "nearest", "row_of"]

PROPERTIES: Final[tuple[PropertyRow, ...]] = (
    *CONNECTION,
    *DEBEZIUM,
    *DELIMITED,
    *EVENT_PUBLISHING,
    *FIXED,
    *JSON,
    *XML,
)

_ROWS: Final[Mapping[str, PropertyRow]] = MappingProxyType(
    {name: row for row in PROPERTIES for name in (row.name, *row.aliases)}
)
_PART: Final = r'(?:"[^"]+"|[^."<>\s]+)'
_TWO_PARTS: Final = rf"{_PART}\.{_PART}"


def _pattern(name: str) -> re.Pattern[str]:
    # A table's own properties end in one more part, so its name may begin with a catalog.
    catalog = rf"(?:{_PART}\.)?" if ".userdefs." in name else ""
    return re.compile(
        re.escape(name)
        .replace("<SCHEMA\\.TABLE>", catalog + _TWO_PARTS)
        .replace("<COLUMN>", _PART)
        .replace("\\*", ".+")
    )


_PATTERNS: Final = tuple(
    (_pattern(row.name), row) for row in PROPERTIES if "<" in row.name or "*" in row.name
)


def row_of(name: str) -> PropertyRow | None:
    """Return the row of a property's name or alias, or None."""
    if name in _ROWS and "<" not in name and "*" not in name:
        return _ROWS[name]
    return next((row for pattern, row in _PATTERNS if pattern.fullmatch(name)), None)


def nearest(name: str) -> str:
    """Return a hint that names the nearest known property, or an empty text."""
    return did_you_mean(name, _ROWS, cutoff=0.5)
