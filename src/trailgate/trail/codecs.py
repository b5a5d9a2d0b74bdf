"""Which codec a column has: one row a kind of value, chosen once a column and block."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.errors import DefinitionError
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.trail.number_values import decode_integer, encode_integer
from trailgate.trail.text_values import (
    decode_fixed,
    decode_variable,
    encode_fixed,
    encode_variable,
)
from trailgate.trail.time_values import decode_datetime, encode_datetime
from trailgate.trail.values import ValueCodec

_TEXT, _PADDED = (
    ValueCodec(decode_variable, encode_variable),
    ValueCodec(decode_fixed, encode_fixed),
)
_INTEGER = ValueCodec(decode_integer, encode_integer)

# Keyed by family and whether the type is of fixed length.
CODECS: Final[Mapping[tuple[Family, bool], ValueCodec]] = MappingProxyType(
    {
        (Family.TEXT, False): _TEXT,
        (Family.TEXT, True): _PADDED,
        (Family.NUMBER_TEXT, False): _TEXT,
        (Family.NUMBER_TEXT, True): _PADDED,
        (Family.INTEGER, False): _INTEGER,
        (Family.UNSIGNED, False): _INTEGER,
        (Family.DATETIME, False): ValueCodec(decode_datetime, encode_datetime),
    }
)


def codec_of(column: Column) -> ValueCodec | None:
    """Return the codec of a column; None where no public layout of its type is known.

    Raises DefinitionError for an unknown type code.
    """
    return CODECS.get((column.family, column.type_row.fixed))


def unreadable(column: Column) -> str:
    """Return why values of a column can be neither read nor written."""
    try:
        row = column.type_row
    except DefinitionError as error:
        return error.problem
    return f"values of type {row.name} ({row.code}) have no public layout"
