"""The record types (IOType, GHDR byte 6) as a table: what a reader of operations does with each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, TRUNCATE, UPDATE


class Role(IntEnum):
    """What a record is to those who read operations."""

    REFUSED = 0  # it may change rows in a way that is not public: to pass over it could lose them
    CHANGE = 1  # an operation, or one of the two images of one
    LARGE_OBJECT = 2  # a piece of a column of the change before it
    FRAGMENT = 3  # more of the data of the change before it
    METADATA = 4  # what tables look like
    ABEND = 5  # what comes before it, of an open transaction, comes again after it
    NOTE = 6  # nothing about rows: passed over, but for its place in a transaction


class Prefix(IntEnum):
    """How a change's data give the length of the before image, which comes before its after image."""

    NONE = 0
    SHORT = 2  # u16
    LONG = 4  # u32
    EITHER = 6  # not public: the one that fits


class RecordType(NamedTuple):
    """One IOType: its number, Logdump's name, its role, and for a change what it makes."""

    code: int
    name: str
    role: Role = Role.REFUSED
    op_type: int = 0
    prefix: Prefix = Prefix.NONE
    image: str = "AB"  # what BeforeAfter may be


IO_DELETE, IO_INSERT, IO_FULL_UPDATE, IO_UPDATE = 3, 5, 10, 15
IO_TRUNCATE, IO_KEY_UPDATE, IO_LARGE_OBJECT, IO_LONG_KEY_UPDATE = 100, 115, 116, 117
IO_SEQUENCE, IO_UNIFIED_UPDATE, IO_UNIFIED_KEY_UPDATE = 132, 134, 135
IO_RESTART_ABEND, IO_RESTART_OK, IO_DDL, IO_FRAGMENT, IO_METADATA = 150, 151, 160, 161, 170

_CHANGE, _NOTE = Role.CHANGE, Role.NOTE
# trail format §7. Names after 205 and below 20 are those of NonStop systems.
ROWS: Final = (
    RecordType(1, "TMFAbort"),
    RecordType(2, "TMFCommit"),
    RecordType(IO_DELETE, "Delete", _CHANGE, DELETE, image="B"),
    RecordType(IO_INSERT, "Insert", _CHANGE, INSERT, image="A"),
    RecordType(IO_FULL_UPDATE, "Update", _CHANGE, UPDATE),
    RecordType(IO_UPDATE, "FieldComp", _CHANGE, UPDATE),
    RecordType(89, "SQL/MX DDL"),
    RecordType(90, "SQLCol"),
    RecordType(IO_TRUNCATE, "GGSPurgedata", _CHANGE, TRUNCATE),
    RecordType(101, "Purge"),
    RecordType(102, "Create"),
    RecordType(103, "Alter"),
    RecordType(104, "Rename"),
    RecordType(105, "Setmode"),
    RecordType(106, "ChangeLabel"),
    RecordType(107, "Control"),
    RecordType(IO_KEY_UPDATE, "GGSPKUpdate", _CHANGE, KEY_UPDATE, Prefix.SHORT, image="A"),
    RecordType(IO_LARGE_OBJECT, "LargeObject", Role.LARGE_OBJECT),
    RecordType(
        IO_LONG_KEY_UPDATE, "GGSKeyFieldComp32", _CHANGE, KEY_UPDATE, Prefix.LONG, image="A"
    ),
    RecordType(IO_SEQUENCE, "SequenceOp", _NOTE),
    RecordType(IO_UNIFIED_UPDATE, "GGSUnifiedUpdate", _CHANGE, UPDATE, Prefix.EITHER, image="A"),
    RecordType(
        IO_UNIFIED_KEY_UPDATE, "GGSUnifiedPKUpdate", _CHANGE, KEY_UPDATE, Prefix.EITHER, image="A"
    ),
    RecordType(IO_RESTART_ABEND, "RestartAbend", Role.ABEND),
    RecordType(IO_RESTART_OK, "RestartOK", _NOTE),
    RecordType(IO_DDL, "DDLOP", _NOTE),
    RecordType(IO_FRAGMENT, "RecordFragment", Role.FRAGMENT),
    RecordType(IO_METADATA, "Metadata", Role.METADATA),
    RecordType(200, "BulkIO"),
    RecordType(205, "GGSComment", _NOTE),
)
RECORD_TYPES: Final[Mapping[int, RecordType]] = MappingProxyType({row.code: row for row in ROWS})


def _by_type(member: str) -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    for row in ROWS:
        table[row.code] = getattr(row, member)
    table.setflags(write=False)
    return table


OP_TYPE_OF: Final = _by_type("op_type")  # by IOType; 0 where it makes no operation
ROLE_OF: Final = _by_type("role")  # Role.REFUSED where the type is unknown
PREFIX_OF: Final = _by_type("prefix")


def type_name(code: int) -> str:
    """Return Logdump's name of a record type; "unknown" for one that is not public."""
    row = RECORD_TYPES.get(code)
    return row.name if row else "unknown"
