"""The vocabulary of XML publications: nine message types, three row types, and the value types (event publishing §3).

It ends with the rules (`RULES`) with which the engine of `formats/xml` finds envelopes, rows and
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.formats.xml.rules import (
    ElementPart,
    PathAccessor,
    RulePath,
    RuleType,
    Value,
    XmlRule,
    parse_path,
)
from trailgate.messages.property_reader import Lookup

ROOT: Final = "msg"
VERSION: Final = "1.0.0"
TRANSACTION, ROW, LARGE_OBJECT = "trans", "rowOp", "lob"
TABLE, ADDED_COLUMN = "subSchema", "addColumn"
DEACTIVATED, LOADED, HEARTBEAT, ERROR = "subDeactivated", "loadDoneRcvd", "heartbeat", "errorRpt"
OF_ROWS: Final = (TRANSACTION, ROW)
DEFINING: Final = (TABLE, ADDED_COLUMN)
CONTROLS: Final = (DEACTIVATED, LOADED, HEARTBEAT, ERROR)
KINDS: Final = (*OF_ROWS, LARGE_OBJECT, *DEFINING, *CONTROLS)

COLUMN: Final = "col"
BEFORE, AFTER = "beforeVal", "afterVal"
# By the element of a row: the letter of its operation.
OPERATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"insertRow": "I", "updateRow": "U", "deleteRow": "D"}
)
# The elements with a part of a large object. IBM's own reader accepts dblob too (§3.1).
LARGE_OBJECTS: Final = ("blob", "clob", "dbclob", "dblob")


_ROW: Final[Mapping[str, str | RulePath]] = {
    "operation": "name()",
    "schema": "@srcOwner",
    "table": "@srcName",
    "row": "@rowNum",
    "large": "@hasLOBCols",
}

# The references for text and attributes, also for line ends and tabs, which parsers would change.
REFERENCES: Final = MappingProxyType(
    {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"}
    | {ord(sign): f"&#{ord(sign)};" for sign in "\r\n\t"}
)


class PublicationValueType(NamedTuple):
    """An XML element that encloses a value and names its type, such as `<varchar>`.

    If `binary`, the content consists of hex digits. A `large` value may be sent in separate `lob`
    messages.
    """

    name: str
    text: bool = False
    binary: bool = False
    large: bool = False


TYPES: Final = (
    PublicationValueType("smallint"),
    PublicationValueType("integer"),
    PublicationValueType("bigint"),
    PublicationValueType("float"),
    PublicationValueType("real"),
    PublicationValueType("double"),
    PublicationValueType("decimal"),
    PublicationValueType("decfloat"),
    PublicationValueType("date"),
    PublicationValueType("time"),
    PublicationValueType("timestamp"),
    PublicationValueType("char", text=True),
    PublicationValueType("varchar", text=True),
    PublicationValueType("longvarchar", text=True),
    PublicationValueType("bitchar", binary=True),
    PublicationValueType("bitvarchar", binary=True),
    PublicationValueType("bitlongvarchar", binary=True),
    PublicationValueType("graphic", text=True),
    PublicationValueType("vargraphic", text=True),
    PublicationValueType("longvargraphic", text=True),
    PublicationValueType("rowid", binary=True),
    PublicationValueType("blob", binary=True, large=True),
    PublicationValueType("clob", text=True, large=True),
    PublicationValueType("dbclob", text=True, large=True),
    PublicationValueType("dblob", text=True, large=True),
    PublicationValueType("xml", text=True),
)
TYPE_OF: Final[Mapping[str, PublicationValueType]] = MappingProxyType(
    {row.name: row for row in TYPES}
)


def _exact(path: str) -> RulePath:
    parsed = parse_path(path, value=True)
    return RulePath(parsed.absolute, parsed.up, parsed.steps, PathAccessor(ElementPart.EXACT_TEXT))


# The values that the rules read from each message, row and column, under names of our own.
_MESSAGE: Final[Mapping[str, str | RulePath]] = {
    "kind": "name()",
    "last": "@isLast",
    "segment": "@segmentNum",
    "commit": "@cmitLSN",
    "time": "@cmitTime",
    "owner": "@authID",
    "plan": "@planName",
    "correlation": "@correlationID",
    "schema": "@srcOwner",
    "table": "@srcName",
    "row": "@rowNum",
    "column": "@colName",
    "total": "@totalDataLen",
    "size": "@dataLen",
    **{name: _exact(f"./{name}") for name in LARGE_OBJECTS},
}
_COLUMN: Final[Mapping[str, str | RulePath]] = {
    "element": "name()",
    "name": "@name",
    "type": "./*/name()",
    "more": "./*[2]",
    **{
        f"{image}{name}": path if name else _exact(path)
        for image, element in (("own", "./*"), ("before", f"./*/{BEFORE}"), ("after", f"./*/{AFTER}"))
        for name, path in (
            ("", element),
            (".nil", f"{element}/@nil"),
            (".invalid", f"{element}/@invalidData"),
            (".raw", f"{element}/@rawData"),
        )
    },
    "before.more": f"./*/{BEFORE}[2]",
    "after.more": f"./*/{AFTER}[2]",
}  # fmt: skip

# The values of a cell, in the order of the constants in `xml_cell_kernels.py`.
CELL_VALUES: Final = tuple(_COLUMN)


def _rule(
    number: int, name: str, rule_type: RuleType, *, match: str, below: tuple[XmlRule, ...]
) -> XmlRule:
    paths = {RuleType.TRANSACTION: _MESSAGE, RuleType.OPERATION: _ROW, RuleType.COLUMN: _COLUMN}
    values: list[tuple[str, Value]] = [
        (own, path if isinstance(path, RulePath) else parse_path(path, value=True))
        for own, path in paths[rule_type].items()
    ]
    pattern = parse_path(match, value=False)
    return XmlRule(
        number=number,
        name=name,
        type=rule_type,
        match=pattern,
        values=Lookup(tuple(values)),
        subrules=below,
    )


_OF_COLUMNS: Final = _rule(2, COLUMN, RuleType.COLUMN, match="./*", below=())
_OF_OPERATIONS: Final = _rule(
    1, "row", RuleType.OPERATION, match="./*", below=(_OF_COLUMNS,)
)  # fmt: skip
RULES: Final = (_rule(0, ROOT, RuleType.TRANSACTION, match=f"/{ROOT}/*", below=(_OF_OPERATIONS,)),)


def escape_attribute(text: str) -> bytes:
    """Write a string as the value of an attribute of XML publications, with their references (`REFERENCES`)."""
    return text.translate({code: f"&#{code};" for code in range(32)} | {**REFERENCES}).encode()
