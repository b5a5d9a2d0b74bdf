"""XML publications for tests: their tables, messages around rows, and captures of them."""

from __future__ import annotations

from typing import Final

from trailgate.definitions.defgen.record_layout import complete
from trailgate.model.tables import Column, Definitions, Table

BINARY: Final = 4  # the sub type of binary text
TABLE: Final = complete(
    Table(
        "USER1.T1",
        (
            Column("ID", 132, 10, key=True, nullable=False),
            Column("C", 0, 10),
            Column("V", 64, 60),
            Column("D", 192, 10),
            Column("TM", 64, 8),
            Column("TS", 192, 26),
            Column("N", 134, 9, scale=2),
            Column("F", 143, 8),
            Column("B", 64, 40, sub_type=BINARY),
            Column("L", 64, 4000),
        ),
    )
)
DEFINITIONS: Final = Definitions((TABLE,))
NAMESPACE: Final = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
COMMON: Final = 'subName="S1" srcOwner="USER1" srcName="T1"'


def message(inner: str) -> str:
    """Return a publication with an element in its root."""
    return f'<msg {NAMESPACE} version="1.0.0" dbName="SAMPLE">{inner}</msg>'


def transaction(
    *rows: str, segment: int = 1, last: int = 1, commit: str = "0000:00AA", more: str = ""
) -> str:
    """Return a trans message."""
    given = f'isLast="{last}" segmentNum="{segment}" cmitLSN="{commit}" cmitTime="2026-01-31T10:11:12.000001"{more}'
    return message(f"<trans {given}>{''.join(rows)}</trans>")


def row(kind: str, *columns: str, number: int = 1, more: str = "") -> str:
    """Return a row element."""
    return f'<{kind} {COMMON} rowNum="{number}"{more}>{"".join(columns)}</{kind}>'


def column(name: str, inner: str, *, key: bool = False) -> str:
    """Return a column element."""
    return f'<col name="{name}"{" isKey=" + chr(34) + "1" + chr(34) if key else ""}>{inner}</col>'
