"""What a column's type in a database keeps of a value, where its Arrow type alone does not state it.

A PostgreSQL timestamp(0) is an Arrow timestamp that keeps no fraction, a numeric is text in which '00012' and '12' are one value, a char(5) has blanks at its end. The database would round, cut
or pad such a value without an error, so values are checked before they are written. Each ``StorageRule`` is a row of ``RULES``: the check, the one spelling of
values that are equal in the database, and whether such a column can be part of a key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.exact_casts import (
    check_values_fit,
    lost_value_error,
    parse_numbers,
    spell_numbers_plainly,
)
from trailgate.apply.effects.faults import TOO_LARGE, TOO_LONG
from trailgate.columnar.rows import most_bytes, text_view

MICROSECOND_DIGITS: Final = 6
UUID_TEXT: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
BOUNDS: Final = MappingProxyType(
    {"HUGEINT": (-(1 << 127), (1 << 127) - 1), "UHUGEINT": (0, (1 << 128) - 1)}
)


class StorageRule(Enum):
    """How a database's type treats values."""

    FRACTION = "timestamp(p)"
    CHARACTERS = "varchar(n)"
    PADDED = "char(n)"
    NUMBER = "numeric"
    INTEGER = "hugeint"
    UUID = "uuid"
    JSON_VALUE = "jsonb"
    PRINTED_KEY = "another type whose values are equal if their text is"
    PRINTED = "another type"
    UNCASED = "text that is compared without case"


@dataclass(frozen=True, slots=True)
class DatabaseColumnType:
    """A column's type in a database: its name there, its rule, and the numbers in parentheses, of which ``size`` is -1 if there is none.

    ``canonical``: values get the spelling in which they are compared with others.
    """

    name: str
    rule: StorageRule
    size: int = -1
    scale: int = 0
    canonical: bool = False

    @property
    def only_checks(self) -> bool:
        """Return whether values are only checked, as the database does too."""
        return self.rule is StorageRule.CHARACTERS and self.size < 0

    @property
    def is_printed(self) -> bool:
        """Return whether the database has to be asked if a value's text comes back as it was."""
        return self.rule in (StorageRule.PRINTED, StorageRule.PRINTED_KEY)

    @property
    def is_key(self) -> bool:
        """Return whether values are equal in the database if, and only if, their canonical spellings are."""
        return RULES[self.rule].is_key


class StorageRuleRow(NamedTuple):
    """The check of a rule, and its canonical spelling."""

    check: Callable[[pa.Array, DatabaseColumnType, bool], pa.Array]
    spell: Callable[[pa.Array], pa.Array]
    is_key: bool = True


def check_stored_values(
    values: pa.Array, stored: DatabaseColumnType, *, fixed: bool, canonical: bool
) -> pa.Array:
    """Return values as a column of a type is to get them; raises DecodeError for one that it would change.

    ``fixed``: they are text padded with blanks in the source, so that blanks at their end have no meaning.
    """
    row = RULES[stored.rule]
    found = row.check(values, stored, fixed)
    return row.spell(found) if canonical or stored.canonical else found


def spell_stored_values(values: pa.Array, stored: DatabaseColumnType | None) -> pa.Array:
    """Return values that a database gave in the spelling in which they are compared."""
    return values if stored is None else RULES[stored.rule].spell(values)


def _same(values: pa.Array) -> pa.Array:
    return values


def _check_fraction(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    del fixed
    unit = 10 ** max(MICROSECOND_DIGITS - stored.size, 0)
    if stored.size >= 0 and unit > 1:
        micros = np.asarray(pc.fill_null(values.view(pa.int64()), 0))
        check_values_fit(values, micros % unit == 0, stored.name)
    return values


def _check_length(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    del fixed
    _check_nul(values, stored)
    if stored.size >= 0 and most_bytes(values) > stored.size:
        _refuse_long(values, values, stored)
    return values


def _check_nul(values: pa.Array, stored: DatabaseColumnType) -> None:
    """Raise DecodeError for text with U+0000, which text of PostgreSQL cannot have."""
    offsets, data = text_view(values)
    if (data[offsets[0] : offsets[-1]] == 0).any():
        found = pc.match_substring(values, "\0")
        check_values_fit(
            values, ~np.asarray(pc.fill_null(found, False)), f"{stored.name} (without U+0000)"
        )


def _refuse_long(values: pa.Array, counted: pa.Array, stored: DatabaseColumnType) -> None:
    fits = pc.less_equal(pc.utf8_length(counted), stored.size)
    rows = np.asarray(pc.fill_null(fits, True))
    if not rows.all():
        error = lost_value_error(values, int(np.argmin(rows)), stored.name)
        error.problem = f"value too long: {error.problem}"
        raise error.numbered(TOO_LONG)


def _check_padded(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    """Check text for a column that pads it: blanks at its end are not kept, unless they fill the column."""
    _check_nul(values, stored)
    trimmed = pc.utf8_rtrim(values, " ")
    if stored.size >= 0 and most_bytes(trimmed) > stored.size:
        _refuse_long(values, trimmed, stored)
    if not fixed:
        fills = pc.equal(pc.utf8_length(values), stored.size)
        good = pc.fill_null(pc.or_(fills, pc.equal(values, trimmed)), True)
        check_values_fit(values, np.asarray(good), stored.name)
    return trimmed


def _check_number(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    """Check numbers in text, whose digits stay as they are; ``size`` and ``scale`` are those of numeric(p, s)."""
    del fixed
    plain = parse_numbers(values, stored.name)
    if stored.size < 0:
        return values
    for row, text in enumerate(plain.to_pylist()):
        if text is None or text == "NaN":
            continue
        number = Decimal(text)
        if not number.is_finite() or (number and number.adjusted() >= stored.size - stored.scale):
            raise lost_value_error(values, row, stored.name).numbered(TOO_LARGE)
        step = Decimal((0, (1,), -stored.scale))
        if number and _lowest(number) < _lowest(step):
            raise lost_value_error(values, row, stored.name)
    return values


def _lowest(number: Decimal) -> int:
    """Return the power of ten of a number's last digit that is not 0."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return exponent + len(text) - len(text.rstrip("0"))


def _check_integer(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    del fixed
    plain = parse_numbers(values, stored.name)
    whole = pc.match_substring_regex(plain, "^-?[0-9]+$")
    check_values_fit(values, np.asarray(pc.fill_null(whole, True)), stored.name)
    low, high = BOUNDS.get(stored.name, (-math.inf, math.inf))
    fits = [one is None or low <= int(one) <= high for one in plain.to_pylist()]
    check_values_fit(values, np.array(fits, bool), stored.name)
    return plain


def _check_uuid(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    plain = _spell_uuid(pc.utf8_rtrim(values, " ") if fixed else values)
    good = pc.match_substring_regex(plain, UUID_TEXT)
    check_values_fit(values, np.asarray(pc.fill_null(good, True)), stored.name)
    return plain


def _spell_uuid(values: pa.Array) -> pa.Array:
    digits = pc.utf8_lower(values)
    bare = r"^\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?$"
    return pc.replace_substring_regex(digits, bare, r"\1-\2-\3-\4-\5")


def _check_json(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    """Check JSON for a type that keeps values and not text: of two members with one name only the last one would stay."""
    del fixed
    for row, text in enumerate(values.to_pylist()):
        try:
            _json_value(text)
        except ValueError:
            raise lost_value_error(values, row, stored.name) from None
    return values


def _spell_json(values: pa.Array) -> pa.Array:
    return pa.array([_json_text(one) for one in values.to_pylist()], values.type)


def _json_text(text: str | None) -> str | None:
    return None if text is None else json.dumps(_json_value(text), sort_keys=True)


def _json_value(text: str | None) -> Any:
    """Return a JSON value whose numbers are lists with their plain spelling; raises ValueError."""

    def number(digits: str) -> list[str]:
        return ["number", spell_numbers_plainly(pa.array([digits]))[0].as_py()]

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name is there twice")
        return found

    def constant(name: str) -> Any:
        raise ValueError(name)

    if text is not None and "\\u0000" in text.replace("\\\\", ""):
        raise ValueError("text with U+0000")
    return (
        None
        if text is None
        else json.loads(
            text,
            parse_int=number,
            parse_float=number,
            parse_constant=constant,
            object_pairs_hook=members,
        )
    )


RULES: Final[Mapping[StorageRule, StorageRuleRow]] = MappingProxyType(
    {
        StorageRule.FRACTION: StorageRuleRow(_check_fraction, _same),
        StorageRule.CHARACTERS: StorageRuleRow(_check_length, _same),
        StorageRule.PADDED: StorageRuleRow(
            _check_padded, lambda values: pc.utf8_rtrim(values, " ")
        ),
        StorageRule.NUMBER: StorageRuleRow(_check_number, spell_numbers_plainly),
        StorageRule.INTEGER: StorageRuleRow(_check_integer, spell_numbers_plainly),
        StorageRule.UUID: StorageRuleRow(_check_uuid, _spell_uuid),
        StorageRule.JSON_VALUE: StorageRuleRow(_check_json, _spell_json, is_key=False),
        StorageRule.PRINTED_KEY: StorageRuleRow(
            _check_length, _same
        ),  # the database is asked about the rest
        StorageRule.PRINTED: StorageRuleRow(_check_length, _same, is_key=False),
        StorageRule.UNCASED: StorageRuleRow(_check_length, _same, is_key=False),
    }
)
