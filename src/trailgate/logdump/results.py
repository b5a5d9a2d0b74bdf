"""The settings of a Logdump session, and the results of its commands, as frozen values.

Each result contains the settings at the time when it was created. ``result_output`` formats results
as text or JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from trailgate.errors import TrailgateError
from trailgate.logdump.counting import LargeTransaction, RecordTally
from trailgate.logdump.times import GMT, TimeOffset
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.record import TrailRecord
from trailgate.trail.records.table_metadata import TrailTable

RECLEN: Final = 140  # bytes of data shown by default, as Logdump's ENV prints it
TRANS_RECORDS: Final = 100
TRANS_BYTES: Final = 10_000


class DisplayLevel(StrEnum):
    """A level of detail of Logdump's output: how much of tokens, headers and similar parts is shown."""

    OFF = "off"
    ON = "on"
    DETAIL = "detail"


class DetailLevel(StrEnum):
    """A level of detail of Logdump's output: how much of a record's columns is shown."""

    OFF = "off"
    ON = "on"
    DATA = "data"


class MetadataForm(StrEnum):
    """The form in which Logdump shows a table definition of a trail."""

    DETAIL = "detail"
    DEFGEN = "defgenformat"
    DDL = "ddlformat"
    SQL = "sqlformat"
    OFF = "off"


class DumpCharset(Enum):
    """The character set of the text beside the hex digits of a Logdump dump."""

    ASCII = "latin-1"
    EBCDIC = "cp037"


@dataclass(frozen=True, slots=True)
class LogdumpSettings:
    """All settings of a Logdump session, with their defaults (``logdump/commands/settings.py`` describes them)."""

    ghdr: bool = False
    detail: DetailLevel = DetailLevel.OFF
    ggs_tokens: DisplayLevel = DisplayLevel.OFF
    user_tokens: DisplayLevel = DisplayLevel.OFF
    header_tokens: DisplayLevel = DisplayLevel.OFF
    file_header: DisplayLevel = DisplayLevel.OFF
    metadata: MetadataForm = MetadataForm.DETAIL
    reclen: int = RECLEN
    column_length: int | None = None
    data_charset: DumpCharset = DumpCharset.ASCII
    header_charset: DumpCharset = DumpCharset.ASCII
    dump_charset: DumpCharset = DumpCharset.ASCII
    time_offset: TimeOffset = GMT
    forward: bool = True
    notify: int = 0
    scrolling: bool = True
    trans_history: int = 0
    trans_records: int = TRANS_RECORDS
    trans_bytes: int = TRANS_BYTES
    save_comments: bool = False


@dataclass(frozen=True, slots=True)
class NoteResult:
    """A result of a Logdump command: a sentence, and the values in it."""

    text: str
    values: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class FailureResult:
    """A result of a Logdump command: the error that ended it. The session continues."""

    error: TrailgateError


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A result of a Logdump command: a record to print, with the name of its table and the settings."""

    record: TrailRecord
    name: str
    settings: LogdumpSettings
    partition: str | None = None
    table: TrailTable | None = None  # the table that this metadata record defines
    damage: str = ""  # why the record is damaged
    release: int = 0  # the major release that wrote the file, or 0 if it is not known


@dataclass(frozen=True, slots=True)
class ShownHeader:
    """A result of a Logdump command: the file header to print, as bytes and, if they can be decoded, its fields."""

    raw: bytes
    header: FileHeader | None
    order: ByteOrder
    settings: LogdumpSettings


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """A result of a Logdump command: bytes of the file to print in hex."""

    offset: int
    raw: bytes
    settings: LogdumpSettings


@dataclass(frozen=True, slots=True)
class CountResult:
    """A result of a Logdump command: the counts of COUNT for a file.

    The records between the offsets ``start`` and ``end`` were read. ``suppressed`` is the number of
    records that filters or options of COUNT exclude. ``files_in_transactions`` is a sum over all
    transactions: the number of different tables in each.
    """

    path: str
    start: int
    end: int
    total: RecordTally
    transactions: int
    files_in_transactions: int
    settings: LogdumpSettings
    tables: tuple[RecordTally, ...] = ()
    intervals: tuple[RecordTally, ...] = ()
    large: tuple[LargeTransaction, ...] = ()
    suppressed: int = 0
    damaged: int = 0  # damaged records among those counted
    first_damaged: int | None = None  # the offset of the first one


@dataclass(frozen=True, slots=True)
class ListingResult:
    """A result of a Logdump command: rows of names and values under a title.

    ``colon`` is printed between a name and its value.
    """

    title: str
    rows: tuple[tuple[str, str], ...]
    colon: str = ""


@dataclass(frozen=True, slots=True)
class TextResult:
    """A result of a Logdump command: several lines of text under a title, such as help."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EditResult:
    """A result of a Logdump command: an earlier command to edit.

    The terminal offers it at the next prompt.
    """

    line: str


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """A result of a Logdump command: the end of the session."""


Result = (
    NoteResult
    | FailureResult
    | ShownRecord
    | ShownHeader
    | ShownBytes
    | CountResult
    | ListingResult
    | TextResult
    | EditResult
    | SessionEnd
)
