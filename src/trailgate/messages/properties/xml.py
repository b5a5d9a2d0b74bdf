"""The rows of the ``xml.*`` properties (capture properties §7)."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.rows import PropertyRow, ValueKind

_ORIGIN: Final = "capture properties §7.1"
_OWN: Final = "our own"
_INFERRED: Final = "inferred from `fixed.userdefs`, capture properties §5.3"

XML: Final[tuple[PropertyRow, ...]] = (
    PropertyRow(
        "xml.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables",
        _ORIGIN,
    ),
    PropertyRow(
        "xml.userdefs.tables",
        ValueKind.NAMES,
        "tables defined here, as SCHEMA.TABLE",
        _INFERRED,
    ),
    PropertyRow(
        "xml.userdefs.<SCHEMA.TABLE>.columns",
        ValueKind.NAMES,
        "columns of such a table, in order",
        _INFERRED,
    ),
    PropertyRow(
        "xml.userdefs.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.TEXT,
        "type of such a column: `vchar N`, text of length N",
        _INFERRED,
    ),
    PropertyRow(
        "xml.rules",
        ValueKind.NAMES,
        "names of the top rules; the properties of a rule begin with its name",
        _ORIGIN,
        aliases=("xmlparser.rules",),
    ),
    PropertyRow(
        "xml.namespaces.*",
        ValueKind.TEXT,
        "namespace of a prefix that paths have; paths without prefixes match any namespace",
        _OWN,
    ),
    PropertyRow("xml.maxdepth", ValueKind.TEXT, "the most elements within each other", _OWN, "256"),
    PropertyRow(
        "xml.maxattributes", ValueKind.TEXT, "the most attributes of an element", _OWN, "10000"
    ),
)
