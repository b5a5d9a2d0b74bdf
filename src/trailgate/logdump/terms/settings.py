"""What a session shows and how: the switches that commands set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

RECLEN: Final = 140  # bytes of data shown by default, as Logdump's ENV prints it
TRANS_RECORDS: Final = 100
TRANS_BYTES: Final = 10_000


class Shown(StrEnum):
    """How much of something is shown."""

    OFF = "off"
    ON = "on"
    DETAIL = "detail"


class Detail(StrEnum):
    """How much of a record's columns is shown."""

    OFF = "off"
    ON = "on"
    DATA = "data"


class Metadata(StrEnum):
    """How a table definition in a trail is shown."""

    DETAIL = "detail"
    DEFGEN = "defgenformat"
    DDL = "ddlformat"
    SQL = "sqlformat"
    OFF = "off"


class Charset(Enum):
    """What the text column of a dump is read as."""

    ASCII = "latin-1"
    EBCDIC = "cp037"


@dataclass(frozen=True, slots=True)
class Offset:
    """How times are shown: in the machine's zone, or so many minutes east of GMT."""

    minutes: int | None = 0  # None: the machine's zone

    def __str__(self) -> str:
        if self.minutes is None:
            return "LOCAL"
        hours, minutes = divmod(abs(self.minutes), 60)
        sign = "-" if self.minutes < 0 else "+"
        return f"GMT {sign}{hours:02}:{minutes:02}" if self.minutes else "GMT"


@dataclass(frozen=True, slots=True)
class Settings:
    """The switches, as a session begins with them."""

    ghdr: bool = False
    detail: Detail = Detail.OFF
    ggs_tokens: Shown = Shown.OFF
    user_tokens: Shown = Shown.OFF
    header_tokens: Shown = Shown.OFF
    file_header: Shown = Shown.OFF
    metadata: Metadata = Metadata.DETAIL
    reclen: int = RECLEN
    column_length: int | None = None
    data_charset: Charset = Charset.ASCII
    header_charset: Charset = Charset.ASCII
    dump_charset: Charset = Charset.ASCII
    offset: Offset = Offset()
    forward: bool = True
    notify: int = 0
    scrolling: bool = True
    trans_history: int = 0
    trans_records: int = TRANS_RECORDS
    trans_bytes: int = TRANS_BYTES
    save_comments: bool = False
