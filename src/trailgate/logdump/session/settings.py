"""What a session shows and how: the settings that commands change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from trailgate.logdump.syntax.times import GMT, TimeOffset

RECLEN: Final = 140  # bytes of data shown by default, as Logdump's ENV prints it
TRANS_RECORDS: Final = 100
TRANS_BYTES: Final = 10_000


class Display(StrEnum):
    """How much of something is shown."""

    OFF = "off"
    ON = "on"
    DETAIL = "detail"


class Detail(StrEnum):
    """How much of a record's columns is shown."""

    OFF = "off"
    ON = "on"
    DATA = "data"


class MetadataForm(StrEnum):
    """The form in which a table definition in a trail is shown."""

    DETAIL = "detail"
    DEFGEN = "defgenformat"
    DDL = "ddlformat"
    SQL = "sqlformat"
    OFF = "off"


class Charset(Enum):
    """The character set of the text beside a dump's hex digits."""

    ASCII = "latin-1"
    EBCDIC = "cp037"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; the defaults are those of a new session."""

    ghdr: bool = False
    detail: Detail = Detail.OFF
    ggs_tokens: Display = Display.OFF
    user_tokens: Display = Display.OFF
    header_tokens: Display = Display.OFF
    file_header: Display = Display.OFF
    metadata: MetadataForm = MetadataForm.DETAIL
    reclen: int = RECLEN
    column_length: int | None = None
    data_charset: Charset = Charset.ASCII
    header_charset: Charset = Charset.ASCII
    dump_charset: Charset = Charset.ASCII
    time_offset: TimeOffset = GMT
    forward: bool = True
    notify: int = 0
    scrolling: bool = True
    trans_history: int = 0
    trans_records: int = TRANS_RECORDS
    trans_bytes: int = TRANS_BYTES
    save_comments: bool = False
