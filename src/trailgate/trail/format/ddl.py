"""The text of a DDL record (160): fields named by codes, ",CODE='value'," one after another.

trail format §10.6. Assumed: a backslash before ' , = ( ) and of itself is an escape; that these
characters are escaped is documented, how is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.errors import DecodeError, Where

# Code and name in the order in which a printed record has them; then those that it lacks.
FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "C5": "marker_sequence",
        "B7": "ddl_sequence",
        "B2": "object_id",
        "C21": "C21",
        "B3": "owner",
        "B4": "name",
        "C12": "master_owner",
        "C13": "master_name",
        "B5": "object_type",
        "B6": "ddl_type",
        "B8": "history_table",
        "B9": "login_user",
        "C7": "version",
        "C8": "compatibility",
        "C9": "valid",
        "C10": "instance_number",
        "C11": "instance_name",
        "C14": "object_table",
        "C15": "ignored",
        "C17": "nls_parameter",
        "C18": "nls_value",
        "C19": "nls_count",
        "C20": "xml_type_table",
        "G1": "history_statement",
        "C1": "statement",
    }
)

_BEGIN: Final = re.compile(r"[\s,]*([A-Z][0-9]{1,2})='")
# A quote ends a value only where another field or the end follows: statements hold quotes too.
_END: Final = re.compile(r"'(?=[\s,]*\x00*\Z|\s*,[\s,]*[A-Z][0-9]{1,2}=')")
_ESCAPED: Final = re.compile(r"\\([\\',=()])")


def read_ddl(text: bytes) -> dict[str, str]:
    """Return the fields by name, one of an unknown code by its code; raises DecodeError."""
    try:
        rest = text.decode()
    except UnicodeDecodeError as error:
        where = Where(offset=error.start, raw=text[error.start : error.start + 32])
        raise DecodeError("the text of a DDL record is not UTF-8", where=where) from None
    found: dict[str, str] = {}
    place = 0
    while rest[place:].strip(" \t\r\n,\0"):
        begin = _BEGIN.match(rest, place)
        end = _end(rest, begin.end()) if begin else None
        if begin is None or end is None:
            raw = rest[place : place + 32].encode()
            where = Where(offset=len(rest[:place].encode()), raw=raw)
            raise DecodeError("a field CODE='value' was expected in a DDL record", where=where)
        name = FIELDS.get(begin[1], begin[1])
        found.setdefault(name, _ESCAPED.sub(r"\1", rest[begin.end() : end]))
        place = end + 1
    return found


def _end(text: str, start: int) -> int | None:
    """Return where the quote is that ends a value."""
    for found in _END.finditer(text, start):
        before = text[start : found.start()]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return found.start()
    return None
