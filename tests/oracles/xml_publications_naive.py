"""XML publications as their schema has them (event publishing §3), stated once more: what is valid, and the rows of a message."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
COMMON = {"subName", "srcOwner", "srcName"}
OF_TRANSACTION = {"authID", "correlationID", "planName"}
# Required and optional attributes of each kind.
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "trans": ({"isLast", "segmentNum", "cmitLSN", "cmitTime"}, OF_TRANSACTION),
    "rowOp": ({"cmitLSN", "cmitTime"}, {"isLast", *OF_TRANSACTION}),
    "lob": ({"isLast", "colName", "rowNum", "totalDataLen", "dataLen", *COMMON}, set()),
    "subSchema": (
        {"sendQName", "dbServerType", "dbRelease", "dbInstance", "capRelease", *COMMON},
        {"allChangedRows", "beforeValues", "changedColsOnly", "hasLoadPhase", "timestamp"},
    ),
}
LETTERS = {"insertRow": "I", "updateRow": "U", "deleteRow": "D"}
INTEGER = r"[+-]?\d+"
HEX = r"([0-9a-fA-F]{2})*"
DATE, TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d(\.\d+)?"
FORMS = {
    **dict.fromkeys(("smallint", "integer", "bigint"), INTEGER),
    "decimal": rf"{INTEGER}(\.\d*)?",
    **dict.fromkeys(("real", "double", "float"), rf"{INTEGER}(\.\d*)?([eE]{INTEGER})?|-?INF|NaN"),
    "decfloat": r".*",
    "date": DATE,
    "time": TIME,
    "timestamp": f"{DATE}T{TIME}",
    **dict.fromkeys(("blob", "rowid", "bitchar", "bitvarchar", "bitlongvarchar"), HEX),
    **dict.fromkeys(("char", "varchar", "longvarchar", "graphic", "vargraphic", "clob"), r"(?s).*"),
    **dict.fromkeys(("longvargraphic", "dbclob", "xml"), r"(?s).*"),
}
COLUMN = ({"name", "type"}, {"isKey", "len", "precision", "scale", "codepage", "default", "beforeColName"})  # fmt: skip
Row = dict[str, Any]


def check(body: bytes) -> tuple[str, list[Row]]:
    """Return a message's kind and rows; raises AssertionError for what its schema does not allow."""
    root = etree.fromstring(body)
    assert root.tag == "msg"
    assert set(root.attrib) == {"version", "dbName"}
    assert len(root) == 1
    (own,) = root
    _attributes(own, *KINDS[own.tag])
    if own.tag in ("trans", "rowOp"):
        assert len(own) >= 1
        assert own.tag == "trans" or len(own) == 1
        assert int(own.get("segmentNum", "1")) >= 1
        assert re.fullmatch(FORMS["timestamp"], own.get("cmitTime"))
        return own.tag, [_row(row, own) for row in own]
    if own.tag == "lob":
        (value,) = own
        assert value.tag in ("blob", "clob", "dbclob")
        assert re.fullmatch(FORMS[value.tag], value.text or "")
    else:
        for column in own:
            assert column.tag == "col"
            _attributes(column, *COLUMN)
            assert column.get("type") in FORMS
    return own.tag, []


def _attributes(element: Any, required: set[str], optional: set[str]) -> None:
    assert required <= set(element.attrib) <= required | optional, element.attrib
    for name in ("isLast", "isKey", "hasLOBCols"):
        assert element.get(name, "0") in ("0", "1", "true", "false")


def _row(row: Any, around: Any) -> Row:
    _attributes(row, {*COMMON, "rowNum"}, {"hasLOBCols", "intentSEQ"})
    assert len(row) >= 1
    images: dict[str, dict[str, str | None]] = {"before": {}, "after": {}}
    for column in row:
        assert column.tag == "col"
        _attributes(column, {"name"}, {"isKey"})
        (value,) = column
        name = column.get("name")
        if row.tag != "updateRow":
            images["before" if row.tag == "deleteRow" else "after"][name] = _value(value, value.tag)
            continue
        tags = [each.tag for each in value]
        assert tags in (["afterVal"], ["beforeVal", "afterVal"])
        assert not set(value.attrib)
        for each in value:
            images[each.tag.removesuffix("Val")][name] = _value(each, value.tag)
    table = f"{row.get('srcOwner')}.{row.get('srcName')}"
    return {"table": table, "op_type": LETTERS[row.tag], "csn": around.get("cmitLSN"), **images}


def _value(element: Any, kind: str) -> str | None:
    assert set(element.attrib) <= {NIL}
    assert len(element) == 0
    if element.get(NIL) in ("1", "true"):
        assert not element.text
        return None
    text = element.text or ""
    assert re.fullmatch(FORMS[kind], text), (kind, text)
    return text
