"""The record types (IOType, byte 6 of GHDR).

Each row describes one type: its number, its name in Logdump and its role for readers of operations.
For example ``RecordType(5, "Insert", CHANGE, INSERT, image="A")``: an insert record is a change and
always has an after image. Arrays of 256 entries (`ROLE_OF` and others) look up many types at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.arrays import byte_table
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, TRUNCATE, UPDATE

IO_DELETE, IO_INSERT, IO_FULL_UPDATE, IO_OFFSET_UPDATE, IO_UPDATE = 3, 5, 10, 11, 15
IO_TRUNCATE, IO_KEY_UPDATE, IO_LARGE_OBJECT, IO_LONG_KEY_UPDATE = 100, 115, 116, 117
IO_SEQUENCE, IO_UNIFIED_UPDATE, IO_UNIFIED_KEY_UPDATE = 132, 134, 135
IO_RESTART_ABEND, IO_RESTART_OK, IO_DDL, IO_FRAGMENT, IO_METADATA = 150, 151, 160, 161, 170
IO_COMMENT: Final = 205


class RecordRole(IntEnum):
    """The role of a trail record for readers of operations, for example a change or a note.

    A note is not about rows (for example DDL, or a sequence's new value).
    """

    # May change or undo rows in a way that is not public: skipping it could lose changes.
    REFUSED = 0
    CHANGE = 1  # an operation, or one image of an update
    LARGE_OBJECT = 2  # a piece of a column of the change before it
    FRAGMENT = 3  # more of the data of the change before it
    METADATA = 4  # table definitions
    ABEND = 5  # undoes the open transaction, whose records are written again after it
    NOTE = 6  # not about rows: skipped, except that it may begin or end a transaction


class ImagePrefix(IntEnum):
    """The width in bytes of the length that precedes the before image, if a change has both images."""

    NONE = 0
    SHORT = 2  # u16
    LONG = 4  # u32
    EITHER = 6  # not public: readers try both


# The widths to try for each prefix.
IMAGE_WIDTHS: Final[Mapping[ImagePrefix, tuple[int, ...]]] = MappingProxyType(
    {
        ImagePrefix.NONE: (),
        ImagePrefix.SHORT: (2,),
        ImagePrefix.LONG: (4,),
        ImagePrefix.EITHER: (2, 4),
    }
)


class DataLayout(IntEnum):
    """The layout of a change record's data if they are not a list of columns (index, length, value).

    A bit of the partition byte is set for lists of columns.
    """

    NONE = 0  # not public
    WHOLE = 1  # the values of all columns, one after another
    BY_OFFSET = 2  # offset, length, value


class RecordType(NamedTuple):
    """One record type (IOType): its number, its name in Logdump, its role and, for a change, its operation and layout."""

    code: int
    name: str
    role: RecordRole = RecordRole.REFUSED
    op_type: int = 0
    prefix: ImagePrefix = ImagePrefix.NONE
    image: str = "AB"  # what BeforeAfter may be
    layout: DataLayout = DataLayout.NONE
    also: tuple[str, ...] = ()  # other names in manuals


_CHANGE, _NOTE = RecordRole.CHANGE, RecordRole.NOTE
_WHOLE = DataLayout.WHOLE
# trail format §7. Types without a role (REFUSED) are known by name only. Many exist on NonStop systems only.
ROWS: Final = (
    RecordType(1, "TMFAbort", also=("Abort",)),
    RecordType(2, "TMFCommit", _NOTE, also=("Commit",)),
    RecordType(IO_DELETE, "Delete", _CHANGE, DELETE, image="B", layout=_WHOLE),
    RecordType(4, "EndRollback"),
    RecordType(IO_INSERT, "Insert", _CHANGE, INSERT, image="A", layout=_WHOLE),
    RecordType(6, "Prepared", _NOTE),
    RecordType(7, "TMF-Shutdown", _NOTE, also=("TMFShutdown",)),
    RecordType(8, "TransBegin", _NOTE),
    RecordType(9, "TransRelease", _NOTE),
    RecordType(IO_FULL_UPDATE, "Update", _CHANGE, UPDATE, layout=_WHOLE),
    RecordType(IO_OFFSET_UPDATE, "UpdateComp", _CHANGE, UPDATE, layout=DataLayout.BY_OFFSET),
    RecordType(12, "FileAlter"),
    RecordType(13, "FileCreate"),
    RecordType(14, "FilePurge"),
    RecordType(IO_UPDATE, "FieldComp", _CHANGE, UPDATE),
    RecordType(16, "FileRename"),
    RecordType(17, "AuxPointer", _NOTE),
    RecordType(18, "NetworkCommit", _NOTE),
    RecordType(19, "NetworkAbort"),
    RecordType(89, "SQL/MX DDL"),
    RecordType(90, "SQLCol", also=("GGSSQLCol",)),
    RecordType(IO_TRUNCATE, "GGSPurgedata", _CHANGE, TRUNCATE, also=("Purgedata",)),
    RecordType(101, "Purge", also=("GGSPurge", "PurgeFile")),
    RecordType(102, "Create", also=("GGSCreate", "CreateFile")),
    RecordType(103, "Alter", also=("GGSAlter", "AlterFile")),
    RecordType(104, "Rename", also=("GGSRename", "RenameFile")),
    RecordType(105, "Setmode", also=("GGSSetmode",)),
    RecordType(106, "ChangeLabel", also=("GGSChangeLabel",)),
    RecordType(107, "Control", also=("GGSControl",)),
    RecordType(
        IO_KEY_UPDATE,
        "GGSPKUpdate",
        _CHANGE,
        KEY_UPDATE,
        ImagePrefix.SHORT,
        image="A",
        also=("GGSKeyFieldComp", "KeyFieldComp"),
    ),
    RecordType(IO_LARGE_OBJECT, "LargeObject", RecordRole.LARGE_OBJECT, also=("LOB",)),
    RecordType(
        IO_LONG_KEY_UPDATE,
        "GGSKeyFieldComp32",
        _CHANGE,
        KEY_UPDATE,
        ImagePrefix.LONG,
        image="A",
        also=("KeyFieldComp32",),
    ),
    RecordType(IO_SEQUENCE, "SequenceOp", _NOTE, also=("GGSSequenceOp",)),
    RecordType(
        IO_UNIFIED_UPDATE,
        "GGSUnifiedUpdate",
        _CHANGE,
        UPDATE,
        ImagePrefix.EITHER,
        image="A",
        also=("UnifiedUpdate",),
    ),
    RecordType(
        IO_UNIFIED_KEY_UPDATE,
        "GGSUnifiedPKUpdate",
        _CHANGE,
        KEY_UPDATE,
        ImagePrefix.EITHER,
        image="A",
        also=("UnifiedPKUpdate",),
    ),
    RecordType(IO_RESTART_ABEND, "RestartAbend", RecordRole.ABEND),
    RecordType(IO_RESTART_OK, "RestartOK", _NOTE),
    RecordType(IO_DDL, "DDLOP", _NOTE, also=("DDL_Op", "DDL")),
    RecordType(IO_FRAGMENT, "RecordFragment", RecordRole.FRAGMENT),
    RecordType(IO_METADATA, "Metadata", RecordRole.METADATA),
    RecordType(200, "BulkIO", also=("GGSUnstructuredBlock",)),
    *(RecordType(code, f"Trace{code}", _NOTE) for code in range(201, 205)),
    RecordType(IO_COMMENT, "GGSComment", _NOTE),
    *(RecordType(code, f"Trace{code}", _NOTE) for code in range(249, 255)),
)
RECORD_TYPES: Final[Mapping[int, RecordType]] = MappingProxyType({row.code: row for row in ROWS})
# Tables by IOType: 0 if it is not an operation, and RecordRole.REFUSED for unknown types.
OP_TYPE_OF: Final = byte_table({row.code: row.op_type for row in ROWS})
ROLE_OF: Final = byte_table({row.code: row.role for row in ROWS})
PREFIX_OF: Final = byte_table({row.code: row.prefix for row in ROWS})
LAYOUT_OF: Final = byte_table({row.code: row.layout for row in ROWS})


def type_name(code: int) -> str:
    """Return Logdump's name of a record type, or "unknown" if the type is not documented."""
    row = RECORD_TYPES.get(code)
    return row.name if row else "unknown"
