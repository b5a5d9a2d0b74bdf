"""The record types (IOType, GHDR byte 6) as a table: what a reader of operations does with each.

The text of a DDL record (160): fields named by codes, ",CODE='value'," one after another.

trail format §10.6. Assumed: a backslash before ' , = ( ) and of itself is an escape; that these
characters are escaped is documented, how is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trailgate.errors import DecodeError, Where
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, TRUNCATE, UPDATE


class Role(IntEnum):
    """What a record is to those who read operations."""

    REFUSED = (
        0  # it may change or undo rows in a way that is not public: to pass over it could lose that
    )
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


# The widths that the length before an image may have.
IMAGE_WIDTHS: Final[Mapping[Prefix, tuple[int, ...]]] = MappingProxyType(
    {Prefix.NONE: (), Prefix.SHORT: (2,), Prefix.LONG: (4,), Prefix.EITHER: (2, 4)}
)


class Layout(IntEnum):
    """How the data of a change lie where the partition byte does not have the bit of index, length and value."""

    NONE = 0  # not public
    WHOLE = 1  # the values of all columns, one after another
    BY_OFFSET = 2  # offset, length, value


class RecordType(NamedTuple):
    """One IOType: its number, Logdump's name, its role, and for a change what it makes."""

    code: int
    name: str
    role: Role = Role.REFUSED
    op_type: int = 0
    prefix: Prefix = Prefix.NONE
    image: str = "AB"  # what BeforeAfter may be
    layout: Layout = Layout.NONE
    also: tuple[str, ...] = ()  # other names that manuals have


IO_DELETE, IO_INSERT, IO_FULL_UPDATE, IO_OFFSET_UPDATE, IO_UPDATE = 3, 5, 10, 11, 15
IO_TRUNCATE, IO_KEY_UPDATE, IO_LARGE_OBJECT, IO_LONG_KEY_UPDATE = 100, 115, 116, 117
IO_SEQUENCE, IO_UNIFIED_UPDATE, IO_UNIFIED_KEY_UPDATE = 132, 134, 135
IO_RESTART_ABEND, IO_RESTART_OK, IO_DDL, IO_FRAGMENT, IO_METADATA = 150, 151, 160, 161, 170
IO_COMMENT: Final = 205

_CHANGE, _NOTE = Role.CHANGE, Role.NOTE
_WHOLE = Layout.WHOLE
# trail format §7. Those of NonStop systems alone say something of a transaction, of a file, or nothing of rows.
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
    RecordType(IO_OFFSET_UPDATE, "UpdateComp", _CHANGE, UPDATE, layout=Layout.BY_OFFSET),
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
        Prefix.SHORT,
        image="A",
        also=("GGSKeyFieldComp", "KeyFieldComp"),
    ),
    RecordType(IO_LARGE_OBJECT, "LargeObject", Role.LARGE_OBJECT, also=("LOB",)),
    RecordType(
        IO_LONG_KEY_UPDATE,
        "GGSKeyFieldComp32",
        _CHANGE,
        KEY_UPDATE,
        Prefix.LONG,
        image="A",
        also=("KeyFieldComp32",),
    ),
    RecordType(IO_SEQUENCE, "SequenceOp", _NOTE, also=("GGSSequenceOp",)),
    RecordType(
        IO_UNIFIED_UPDATE,
        "GGSUnifiedUpdate",
        _CHANGE,
        UPDATE,
        Prefix.EITHER,
        image="A",
        also=("UnifiedUpdate",),
    ),
    RecordType(
        IO_UNIFIED_KEY_UPDATE,
        "GGSUnifiedPKUpdate",
        _CHANGE,
        KEY_UPDATE,
        Prefix.EITHER,
        image="A",
        also=("UnifiedPKUpdate",),
    ),
    RecordType(IO_RESTART_ABEND, "RestartAbend", Role.ABEND),
    RecordType(IO_RESTART_OK, "RestartOK", _NOTE),
    RecordType(IO_DDL, "DDLOP", _NOTE, also=("DDL_Op", "DDL")),
    RecordType(IO_FRAGMENT, "RecordFragment", Role.FRAGMENT),
    RecordType(IO_METADATA, "Metadata", Role.METADATA),
    RecordType(200, "BulkIO", also=("GGSUnstructuredBlock",)),
    *(RecordType(code, f"Trace{code}", _NOTE) for code in range(201, 205)),
    RecordType(IO_COMMENT, "GGSComment", _NOTE),
    *(RecordType(code, f"Trace{code}", _NOTE) for code in range(249, 255)),
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
LAYOUT_OF: Final = _by_type("layout")


def type_name(code: int) -> str:
    """Return Logdump's name of a record type; "unknown" for one that is not public."""
    row = RECORD_TYPES.get(code)
    return row.name if row else "unknown"


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


def ddl_statement(text: bytes) -> str:
    """Return the statement of a DDL record; the whole text if it has no fields."""
    try:
        fields = read_ddl(text)
    except DecodeError:
        fields = {}
    return fields.get("statement", text.decode("utf-8", "backslashreplace")).strip(" \0")


def _end(text: str, start: int) -> int | None:
    """Return where the quote is that ends a value."""
    for found in _END.finditer(text, start):
        before = text[start : found.start()]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return found.start()
    return None
