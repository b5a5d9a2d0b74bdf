"""The column types: one row per data type code of Defgen.

Codes and names are those of Oracle's public header ``sqldatatypes.h`` (capture properties §9.3).
Each type belongs to a family, which determines how ``model.values`` converts text to values and
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

# Sub data types of type 64 whose text is a number (capture properties §9.4).
NUMBER_SUB_TYPES: Final = frozenset({2, 3, 27, 37})

# Sub data types that determine the encoding of a character type's values (capture properties §9.4).
UTF_16_SUB_TYPE: Final = 1
UTF_8_SUB_TYPES: Final = frozenset({7, 27, 37})
BINARY_SUB_TYPE: Final = 4


class TypeFamily(Enum):
    """How the values of a type are represented in the columns of a `ChangeBlock`."""

    TEXT = "text"  # pa.string()
    NUMBER_TEXT = "number text"  # pa.string() whose content is a number, kept digit by digit
    INTEGER = "integer"  # pa.int64(), or pa.decimal128(19, scale) if the scale is not 0
    UNSIGNED = "unsigned"  # pa.uint64(), or pa.decimal128(20, scale) if the scale is not 0
    DATETIME = "datetime"  # pa.string() in ISO form, "YYYY-MM-DD HH:MI:SS.ffffff", cut to the range
    BYTES = "bytes"  # pa.string() of upper-case hexadecimal digits
    FLOAT = "float"  # pa.float32() or pa.float64()
    NUMBERED = "numbered"  # pa.string(): a guess from the bytes, since nothing defines the column
    UNSUPPORTED = "unsupported"  # known by name only: the layout of its values is not public


class DefgenType(NamedTuple):
    """One data type code: its public name, its family, and for binary integers and floats its width in bytes."""

    code: int
    name: str
    family: TypeFamily
    width: int | None = None
    fixed: bool = False  # fixed-length text: padded with blanks, without a length field


def _rows() -> tuple[DefgenType, ...]:
    text, integer, unsigned = TypeFamily.TEXT, TypeFamily.INTEGER, TypeFamily.UNSIGNED
    unsupported = TypeFamily.UNSUPPORTED
    intervals = [
        "YEAR",
        "MONTH",
        "YEAR_MONTH",
        "DAY",
        "HOUR",
        "DAY_HOUR",
        "MINUTE",
        "HOUR_MINUTE",
        "DAY_MINUTE",
        "SECOND",
        "MINUTE_SECOND",
        "HOUR_SECOND",
        "DAY_SECOND",
        "FRACTION",
        "SECOND_FRACTION",
        "MINUTE_FRACTION",
        "HOUR_FRACTION",
        "DAY_FRACTION",
    ]
    return (
        DefgenType(0, "ASCII_F", text, fixed=True),
        DefgenType(1, "ASCII_F_UP", text, fixed=True),
        DefgenType(2, "DOUBLE_F", text, fixed=True),
        DefgenType(64, "ASCII_V", text),
        DefgenType(65, "ASCII_V_UP", text),
        DefgenType(66, "DOUBLE_V", text),
        DefgenType(130, "BIN16_S", integer, 2),
        DefgenType(131, "BIN16_U", unsigned, 2),
        DefgenType(132, "BIN32_S", integer, 4),
        DefgenType(133, "BIN32_U", unsigned, 4),
        DefgenType(134, "BIN64_S", integer, 8),
        DefgenType(135, "BIN64_U", unsigned, 8),
        DefgenType(140, "REAL", unsupported, 4),
        DefgenType(141, "DOUBLE", unsupported, 8),
        DefgenType(142, "IEEE_REAL", TypeFamily.FLOAT, 4),
        DefgenType(143, "IEEE_DOUBLE", TypeFamily.FLOAT, 8),
        DefgenType(150, "DEC_U", unsupported),
        DefgenType(151, "DEC_LSS", unsupported),
        DefgenType(152, "DEC_LSE", unsupported),
        DefgenType(153, "DEC_TSS", unsupported),
        DefgenType(154, "DEC_TSE", unsupported),
        DefgenType(155, "BIGNUM_U", unsupported),
        DefgenType(156, "BIGNUM_S", unsupported),
        DefgenType(189, "PACKED", unsupported),
        DefgenType(191, "DATETIME_V", TypeFamily.DATETIME),
        DefgenType(192, "DATETIME", TypeFamily.DATETIME),
        # Assumed: intervals are ASCII text of the column's length, as date times are.
        *(
            DefgenType(195 + i, f"INTERVAL_{name}", text, fixed=True)
            for i, name in enumerate(intervals)
        ),
    )


# By the code in definitions files.
TYPES: Final[Mapping[int, DefgenType]] = MappingProxyType({row.code: row for row in _rows()})
# Not a Defgen code: a column of a table without a definition. Its name is a number, such as #0.
NUMBERED: Final = DefgenType(-1, "NUMBERED", TypeFamily.NUMBERED)


INTERVAL_TYPES: Final = frozenset(
    code for code, row in TYPES.items() if row.name.startswith("INTERVAL_")
)
