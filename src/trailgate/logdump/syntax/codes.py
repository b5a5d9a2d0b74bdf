"""Record types, transaction indicators, GGS tokens and metadata kinds: their codes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.syntax.values import listed, one_of, read_number
from trailgate.trail.format.record_types import ROWS
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS
from trailgate.trail.records.metadata import MetadataKind

RECORD_TYPES: Final[Mapping[str, int]] = MappingProxyType(
    {name.upper(): row.code for row in ROWS for name in (row.name, *row.also)}
)
INDICATORS: Final[Mapping[str, int]] = MappingProxyType(
    {"FIRST": 0, "BEGIN": 0, "MIDDLE": 1, "LAST": 2, "END": 2, "ONLY": 3, "WHOLE": 3}
)
GGS_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {row.name: row.code for row in GGS_TOKEN_ROWS}
)
METADATA_KINDS: Final[Mapping[str, MetadataKind]] = MappingProxyType(
    {
        "DDR": MetadataKind.DATABASE,
        "TDR": MetadataKind.TABLE,
        "TDRREF": MetadataKind.TABLE_REFERENCE,
        "PNR": MetadataKind.PARTITION,
    }
)


def type_codes(words: Sequence[str]) -> list[int]:
    """Return the codes of record types, given by name or number; raises OptionError."""
    codes = []
    for word in words:
        if word.upper() in RECORD_TYPES:
            codes.append(RECORD_TYPES[word.upper()])
        elif word.isascii() and word[:1].isdigit():
            codes.append(read_number(word, 0, 255))
        else:
            raise OptionError(f"{word[:40]!r} is not a record type", hint="SHOW RECTYPE lists them")
    return codes


def indicator_code(word: str, greatest: int = 255) -> int:
    """Return a TransInd, given by name or number; raises OptionError."""
    return read_number(word, 0, greatest) if word.isdigit() else one_of(word, INDICATORS)


def ggs_token_code(name: str) -> int:
    """Return the id of a GGS token, given by name, letter, or x and hex; raises OptionError."""
    code = GGS_TOKENS.get(name.upper())
    if code is None and name.lower().startswith("x"):
        code = read_number("0" + name.lower(), 0, 255)
    if code is None and len(name) == 1 and ord(name) < 256:
        code = ord(name)
    if code is None:
        hint = f"{listed(GGS_TOKENS)}, or x and an id"
        raise OptionError(f"{name[:40]!r} is not a GGS token", hint=hint)
    return code
