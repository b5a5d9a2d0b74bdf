"""The rows of the ``xml.*`` properties (capture properties §7)."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.rows import Effect, PropertyRow, ValueKind

_ORIGIN: Final = "capture properties §7.1"
_INFERRED: Final = "inferred from `fixed.userdefs`, capture properties §5.3"

XML: Final[tuple[PropertyRow, ...]] = (
    PropertyRow(
        "xml.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables; only read by `trailgate gendef`",
        _ORIGIN,
    ),
    PropertyRow(
        "xml.userdefs.tables",
        ValueKind.NAMES,
        "tables defined here, as SCHEMA.TABLE; only read by `trailgate gendef`",
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
        "names of the rules; with `parser.type=xml` properties that begin with such a name are accepted too",
        _ORIGIN,
        effect=Effect.NONE,
        reason="no XML is parsed yet",
    ),
)
