"""The record types (IOType, GHDR byte 6) as a table: what a reader of level 3 does with each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, TRUNCATE, UPDATE


class RecordType(NamedTuple):
    """One IOType: its number, Logdump's name, and the operation it makes (None: refused)."""

    code: int
    name: str
    op_type: int | None = None


IO_DELETE, IO_INSERT, IO_UPDATE, IO_KEY_UPDATE, IO_TRUNCATE = 3, 5, 15, 115, 100

# Format notes 7. Restart records are refused as well: what was written of an open transaction
# before RestartAbend must be dropped (notes 13, inferred), so to skip one could double changes.
ROWS: Final = (
    RecordType(IO_DELETE, "Delete", DELETE),
    RecordType(IO_INSERT, "Insert", INSERT),
    RecordType(10, "Update"),
    RecordType(IO_UPDATE, "FieldComp", UPDATE),
    RecordType(IO_TRUNCATE, "GGSPurgedata", TRUNCATE),
    RecordType(IO_KEY_UPDATE, "GGSPKUpdate", KEY_UPDATE),
    RecordType(116, "LargeObject"),
    RecordType(117, "GGSKeyFieldComp32"),
    RecordType(132, "SequenceOp"),
    RecordType(134, "GGSUnifiedUpdate"),
    RecordType(135, "GGSUnifiedPKUpdate"),
    RecordType(150, "RestartAbend"),
    RecordType(151, "RestartOK"),
    RecordType(160, "DDLOP"),
    RecordType(161, "RecordFragment"),
    RecordType(170, "Metadata"),
    RecordType(205, "GGSComment"),
)
RECORD_TYPES: Final[Mapping[int, RecordType]] = MappingProxyType({row.code: row for row in ROWS})


def _op_types() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    table = np.zeros(256, np.uint8)
    for row in ROWS:
        table[row.code] = row.op_type or 0
    table.setflags(write=False)
    return table


OP_TYPE_OF: Final = _op_types()  # by IOType; 0 where it is refused
