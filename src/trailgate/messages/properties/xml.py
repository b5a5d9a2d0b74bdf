"""The rows of the ``xml.*`` properties (capture properties §7)."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.rows import PropertyRow, ValueKind, userdefs_rows

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
    *userdefs_rows("xml", _INFERRED),
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
    PropertyRow(
        "xml.encoding",
        ValueKind.TEXT,
        "encoding of all messages without a byte-order mark, whatever they declare, as `utf-8`; `auto`: the declared one",
        _OWN,
        "auto",
    ),
    PropertyRow("xml.maxdepth", ValueKind.TEXT, "the most elements within each other", _OWN, "256"),
    PropertyRow(
        "xml.maxattributes", ValueKind.TEXT, "the most attributes of an element", _OWN, "10000"
    ),
)
