"""Check values against database types that store less of a value than their Arrow type suggests.

Examples: timestamp(0) is an Arrow timestamp, but has no fraction; numeric is text here, but '00012'
and '12' are the same numeric value; char(5) pads values with blanks. The database would round, cut
or pad such values without an error, so they are checked before they are written. Each
``StorageRule`` has a row in ``RULES``: its check, the canonical spelling of values that are equal
in the database, and whether a column with this rule can be part of a key.
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
    cast_to_number_text,
    check_values_fit,
    lost_value_error,
    spell_numbers_plainly,
)
from trailgate.apply.effects.operation_errors import TOO_LARGE, TOO_LONG
from trailgate.columnar.strings import most_bytes, text_view

MICROSECOND_DIGITS: Final = 6
UUID_TEXT: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
# The least and the greatest integer of DuckDB's types of 16 bytes.
BOUNDS: Final = MappingProxyType(
    {"HUGEINT": (-(1 << 127), (1 << 127) - 1), "UHUGEINT": (0, (1 << 128) - 1)}
)


class StorageRule(Enum):
    """How a type of a database stores values. The text of a rule names the type, such as ``varchar(n)``."""

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
    """A column's type in a database: its name, how it stores values, and its numbers in parentheses.

    ``name`` includes the numbers. For numeric(12,2), ``size`` is 12 and ``scale`` is 2; ``size`` is
    -1 if the type has no numbers. ``canonical`` is set if `check_stored_values` must always return
    values in their canonical spelling, in which equal values have equal texts.
    """

    name: str
    rule: StorageRule
    size: int = -1
    scale: int = 0
    canonical: bool = False

    @property
    def only_checks(self) -> bool:
        """Whether the rule never converts a value, but only checks it as the database does.

        True for text of any length, which is only checked for U+0000.
        """
        return self.rule is StorageRule.CHARACTERS and self.size < 0

    @property
    def is_printed(self) -> bool:
        """Whether a value must be cast and printed by the database, to see if its text changes."""
        return self.rule in (StorageRule.PRINTED, StorageRule.PRINTED_KEY)

    @property
    def is_key(self) -> bool:
        """Whether two values are equal in the database if, and only if, their canonical spellings are equal."""
        return RULES[self.rule].is_key


class StorageRuleRow(NamedTuple):
    """A row of the table of storage rules (``RULES``): a rule's check and its canonical spelling.

    ``check`` and its ``fixed`` argument are described in ``check_stored_values``. ``is_key``: two
    values are equal in the database if, and only if, their spellings are equal.
    """

    check: Callable[[pa.Array, DatabaseColumnType, bool], pa.Array]
    spell: Callable[[pa.Array], pa.Array]
    is_key: bool = True


def check_stored_values(
    values: pa.Array, stored: DatabaseColumnType, *, fixed: bool, canonical: bool
) -> pa.Array:
    """Check values against a database column's type, and return them as the column stores them.

    Raises DecodeError for a value that the column would change. ``fixed``: the source pads these
    values with blanks, so trailing blanks have no meaning. ``canonical``: return the values in the
    canonical spelling.
    """
    row = RULES[stored.rule]
    checked = row.check(values, stored, fixed)
    return row.spell(checked) if canonical or stored.canonical else checked


def spell_stored_values(values: pa.Array, stored: DatabaseColumnType | None) -> pa.Array:
    """Convert values that were read from the database to their canonical spelling."""
    return values if stored is None else RULES[stored.rule].spell(values)


def _same(values: pa.Array) -> pa.Array:
    return values


def _check_fraction(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    del fixed
    # Arrow stores microseconds: with 3 digits of fraction they must be multiples of 1000.
    unit = 10 ** max(MICROSECOND_DIGITS - stored.size, 0)
    if stored.size >= 0 and unit > 1:
        micros = np.asarray(pc.fill_null(values.view(pa.int64()), 0))
        check_values_fit(values, micros % unit == 0, stored.name)
    return values


def _check_length(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    del fixed
    _check_nul(values, stored)
    # No text has more characters than bytes, so most columns need no count of characters.
    if stored.size >= 0 and most_bytes(values) > stored.size:
        _refuse_long(values, values, stored)
    return values


def _check_nul(values: pa.Array, stored: DatabaseColumnType) -> None:
    """Raise DecodeError for text that contains U+0000, which PostgreSQL cannot store."""
    offsets, data = text_view(values)
    if (data[offsets[0] : offsets[-1]] == 0).any():
        has_nul = pc.match_substring(values, "\0")
        check_values_fit(
            values, ~np.asarray(pc.fill_null(has_nul, False)), f"{stored.name} (without U+0000)"
        )


def _refuse_long(values: pa.Array, counted: pa.Array, stored: DatabaseColumnType) -> None:
    fits = pc.less_equal(pc.utf8_length(counted), stored.size)
    rows = np.asarray(pc.fill_null(fits, True))
    if not rows.all():
        error = lost_value_error(values, int(np.argmin(rows)), stored.name)
        error.problem = f"value too long: {error.problem}"
        raise error.with_numbers(TOO_LONG)


def _check_padded(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    """Check text for a database column that pads it with blanks (char), and remove trailing blanks.

    Trailing blanks that are part of the value are an error, unless the value fills the column.
    """
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
    """Check numbers in text against a database column of numeric(``size``, ``scale``). The text stays unchanged."""
    del fixed
    plain = cast_to_number_text(values, stored.name)
    if stored.size < 0:
        return values
    for row, text in enumerate(plain.to_pylist()):
        if text is None or text == "NaN":
            continue
        number = Decimal(text)
        # adjusted() is the power of ten of the first digit: 2 for 123.4, which needs 3 digits.
        if not number.is_finite() or (number and number.adjusted() >= stored.size - stored.scale):
            raise lost_value_error(values, row, stored.name).with_numbers(TOO_LARGE)
        step = Decimal((0, (1,), -stored.scale))
        if number and _lowest(number) < _lowest(step):
            raise lost_value_error(values, row, stored.name)
    return values


def _lowest(number: Decimal) -> int:
    """Return the power of ten of a number's last nonzero digit: 2 for 1500, -2 for 0.25."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return exponent + len(text) - len(text.rstrip("0"))


def _check_integer(values: pa.Array, stored: DatabaseColumnType, fixed: bool) -> pa.Array:
    del fixed
    plain = cast_to_number_text(values, stored.name)
    integral = pc.match_substring_regex(plain, "^-?[0-9]+$")
    check_values_fit(values, np.asarray(pc.fill_null(integral, True)), stored.name)
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
    """Check JSON text for a database column that stores the parsed value (jsonb).

    Duplicate member names are an error, because only the last one would be stored.
    """
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
    """Parse JSON text so that two values compare equal if they are equal in a jsonb column.

    Numbers become lists such as ``["number", "1.5"]``, in plain spelling. Raises ValueError for
    text that is not JSON, U+0000, and duplicate member names. None stays None.
    """

    def number(digits: str) -> list[str]:
        return ["number", spell_numbers_plainly(pa.array([digits]))[0].as_py()]

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        if len(parsed) < len(pairs):
            raise ValueError("duplicate member name")
        return parsed

    def constant(name: str) -> Any:
        raise ValueError(name)

    # An escaped backslash before u0000 is not U+0000, so pairs of backslashes are removed.
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


# By rule: how it checks values before they are written, and how it spells them.
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
        ),  # is_printed: the database is asked too
        StorageRule.PRINTED: StorageRuleRow(_check_length, _same, is_key=False),
        StorageRule.UNCASED: StorageRuleRow(_check_length, _same, is_key=False),
    }
)
