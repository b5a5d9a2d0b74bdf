"""The attributes of a column in a Defgen file: one row each, read and written by the same row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from trailgate.definitions.defgen.text import CONTROL, Word
from trailgate.errors import EncodeError, Where
from trailgate.model.tables import Column
from trailgate.model.types import TYPES

SHORT, LONG = 19, 24  # attributes a column has up to version 2.0, and since 4.0
_LARGEST: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)


class Attribute(NamedTuple):
    """One attribute: its position, label, Column field, default, least and greatest value."""

    position: int
    label: str
    field: str
    default: int = 0
    least: int = 0
    greatest: int = _LARGEST
    width: int = 1


# Positions and labels: capture properties §9.2. Attribute 1, the name, is text and has no row.
ATTRIBUTES: Final[tuple[Attribute, ...]] = (
    Attribute(2, "Data Type", "data_type", greatest=65535, width=3),
    Attribute(3, "External Length", "external_length", width=6),
    Attribute(4, "Fetch Offset", "fetch_offset", width=8),
    Attribute(5, "Scale", "scale", least=-1000, greatest=1000, width=2),
    Attribute(6, "Level", "level", width=2),
    Attribute(7, "Null", "nullable", default=1, greatest=1),
    Attribute(8, "Bump if Odd", "bump_if_odd"),
    Attribute(9, "Internal Length", "internal_length", width=6),
    Attribute(10, "Binary Length", "binary_length", width=6),
    Attribute(11, "Table Length", "table_length", width=6),
    Attribute(12, "Most Significant DT", "most_significant"),
    Attribute(13, "Least Significant DT", "least_significant"),
    Attribute(14, "High Precision", "high_precision"),
    Attribute(15, "Low Precision", "low_precision"),
    Attribute(16, "Elementary Item", "elementary", default=1),
    Attribute(17, "Occurs", "occurs", width=4),
    Attribute(18, "Key Column", "key", greatest=1),
    Attribute(19, "Sub Data Type", "sub_type", width=3),
    Attribute(20, "Native Data Type", "native_type", least=-_LARGEST - 1, width=3),
    Attribute(21, "Character Set", "character_set", default=-1, least=-1, width=3),
    Attribute(22, "Character Length", "character_length", width=4),
    Attribute(23, "LOB Type", "lob_type"),
    Attribute(24, "Partial Type", "partial_type"),
)
_FLAGS: Final = frozenset({"nullable", "key"})


def number(word: Word, what: str, codec: str, least: int = 0, greatest: int = _LARGEST) -> int:
    """Return a word as a number; raises DefinitionError with what was expected."""
    value = int(word.text) if _NUMBER.fullmatch(word.text) else None
    if value is None or not least <= value <= greatest:
        expected = f"a number from {least} to {greatest}"
        raise word.error(f"expected {expected} for {what}, found {word.text!r}", codec)
    return value


def read_column(words: Sequence[Word], codec: str) -> Column:
    """Return the column of a line's words; raises DefinitionError at the wrong word."""
    name = words[0]
    if len(words) not in (SHORT, LONG):
        last = words[-1]
        raise last.error(
            f"expected {SHORT} or {LONG} attributes, found {len(words)}", codec
        ).located(field=name.text)
    if not name.text or CONTROL.search(name.text):
        raise name.error("expected a column name", codec)
    values: dict[str, Any] = {"name": name.text}
    for attribute, word in zip(ATTRIBUTES, words[1:], strict=False):
        label = f"{attribute.label} (attribute {attribute.position})"
        value = number(word, label, codec, attribute.least, attribute.greatest)
        values[attribute.field] = bool(value) if attribute.field in _FLAGS else value
    if values["data_type"] not in TYPES:
        raise (
            words[1]
            .error(f"expected a known data type code, found {values['data_type']}", codec)
            .located(field=name.text)
        )
    return Column(**values)


def needs_long_form(column: Column) -> bool:
    """Return whether a column holds something in attributes 20 to 24."""
    late = ATTRIBUTES[SHORT - 1 :]
    return any(getattr(column, a.field) != a.default for a in late)


def attribute_text(column: Column, count: int) -> str:
    """Return attributes 2 to ``count`` of a column as a line's text.

    Raises EncodeError for a number that ``read_column`` would refuse.
    """
    return " ".join(_attribute(column, a) for a in ATTRIBUTES[: count - 1])


def _attribute(column: Column, attribute: Attribute) -> str:
    value = int(getattr(column, attribute.field))
    if not attribute.least <= value <= attribute.greatest:
        where = Where(field=column.name)
        raise EncodeError(f"{attribute.label} {value} does not fit a line", where=where)
    return f"{value:>{attribute.width}}"
