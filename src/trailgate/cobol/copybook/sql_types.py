"""Replace ``SQL TYPE IS`` declarations by the items that the Db2 precompiler makes (copybooks §2.10).

For example, ``01 DOC SQL TYPE IS CLOB(1000)`` becomes the items DOC-LENGTH (four bytes) and
DOC-DATA (1000 characters).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.entries import CopybookEntry
from trailgate.cobol.copybook.pictures import parse_picture
from trailgate.errors import OptionError

BYTES: Final = "SQL BYTES"  # the usage of an item of bytes; no text can state it
# Db2 declares the length and the data of a VARCHAR as items of level 49.
_LEVEL: Final = 49
# The letter after a length: CLOB(2K) has 2,048 bytes.
_FACTORS: Final = MappingProxyType({"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30})
_LENGTH: Final = r" ?\( ?([1-9]\d{0,9}) ?([KMG])? ?\)"
_LOB: Final = r"(BLOB|CLOB|DBCLOB|BINARY LARGE OBJECT|CHAR(?:ACTER)? LARGE OBJECT)"
KNOWN: Final = (
    "BLOB, CLOB and DBCLOB(n), also as XML AS ..., -LOCATOR and -FILE, BINARY(n), VARBINARY(n), ROWID, TABLE LIKE ... AS LOCATOR"
    " and RESULT-SET-LOCATOR are read"
)


def _item(name: str, picture: str, usage: str, around: CopybookEntry) -> CopybookEntry:
    return CopybookEntry(_LEVEL, name, around.token, picture=parse_picture(picture), usage=usage)


def _bytes(name: str, size: int, around: CopybookEntry) -> CopybookEntry:
    return CopybookEntry(_LEVEL, name, around.token, usage=BYTES, byte_length=size)


def _size(match: re.Match[str], at: int) -> int:
    return int(match[at]) * _FACTORS[match[at + 1] or ""]


def _large_object(entry: CopybookEntry, match: re.Match[str]) -> None:
    """Describe an SQL LOB by two items: a length of four bytes, then text or bytes."""
    size, type_ = _size(match, 2), match[1]
    length = _item(f"{entry.name}-LENGTH", "S9(9)", "COMP-5", entry)
    name = f"{entry.name}-DATA"
    if type_.startswith("DB"):
        data = _item(name, f"G({size})", "DISPLAY-1", entry)
    elif type_.startswith("C"):
        data = _item(name, f"X({size})", "DISPLAY", entry)
    else:
        data = _bytes(name, size, entry)
    entry.children = [length, data]


def _describe_varying(entry: CopybookEntry, match: re.Match[str]) -> None:
    length = _item(f"{entry.name}-LEN", "S9(4)", "COMP-5", entry)
    entry.children = [length, _bytes(f"{entry.name}-TEXT", _size(match, 1), entry)]


def _describe_fixed(entry: CopybookEntry, match: re.Match[str]) -> None:
    entry.usage, entry.byte_length = BYTES, _size(match, 1)


def _row_id(entry: CopybookEntry, match: re.Match[str]) -> None:
    del match
    length = _item(f"{entry.name}-LEN", "S9(4)", "COMP-5", entry)
    entry.children = [length, _bytes(f"{entry.name}-DATA", 40, entry)]


def _locator(entry: CopybookEntry, match: re.Match[str]) -> None:
    del match
    entry.picture, entry.usage = parse_picture("S9(9)"), "COMP-5"


def _file(entry: CopybookEntry, match: re.Match[str]) -> None:
    del match
    names = ("NAME-LENGTH", "DATA-LENGTH", "FILE-OPTIONS")
    numbers = [_item(f"{entry.name}-{name}", "S9(9)", "COMP-5", entry) for name in names]
    entry.children = [*numbers, _item(f"{entry.name}-NAME", "X(255)", "DISPLAY", entry)]


# Patterns of the types, with the functions that describe them. assumed: sql-type-layouts (all
# but large objects).
_TYPES: Final[Mapping[re.Pattern[str], Callable[[CopybookEntry, re.Match[str]], None]]] = (
    MappingProxyType(
        {
            re.compile(pattern): make
            for pattern, make in (
                (rf"(?:XML AS )?{_LOB}{_LENGTH}", _large_object),
                (rf"(?:VARBINARY|BINARY VARYING){_LENGTH}", _describe_varying),
                (rf"BINARY{_LENGTH}", _describe_fixed),
                ("ROWID", _row_id),
                ("(?:B|C|DBC)LOB[-_]LOCATOR", _locator),
                ("RESULT-SET-LOCATOR(?: VARYING)?|TABLE LIKE .+ AS LOCATOR", _locator),
                ("(?:XML AS )?(?:B|C|DBC)LOB[-_]FILE", _file),
            )
        }
    )
)


def describe_sql_type(entry: CopybookEntry, text: str) -> None:
    """Describe a ``SQL TYPE IS`` entry by the COBOL items into which Db2's precompiler would translate it.

    Raises OptionError if the type is unknown.
    """
    for pattern, make in _TYPES.items():
        if (match := pattern.fullmatch(text.upper())) is not None:
            make(entry, match)
            return
    raise OptionError(f"{text} is not a known SQL type", hint=KNOWN)
