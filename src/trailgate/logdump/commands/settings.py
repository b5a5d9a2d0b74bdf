"""Logdump's commands that show or change one setting of the session: one row each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.logdump.results import (
    DetailLevel,
    DisplayLevel,
    DumpCharset,
    MetadataForm,
    NoteResult,
    Result,
)
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import (
    CommandArguments,
    TimeOffset,
    read_choice,
    read_number,
    read_offset,
)

FLAG: Final[Mapping[str, Any]] = MappingProxyType({"ON": True, "OFF": False})
DISPLAY: Final[Mapping[str, Any]] = MappingProxyType({one.name: one for one in DisplayLevel})
DETAIL: Final[Mapping[str, Any]] = MappingProxyType({one.name: one for one in DetailLevel})
METADATA: Final[Mapping[str, Any]] = MappingProxyType(
    {one.value.upper(): one for one in MetadataForm}
)
ASCII: Final = MappingProxyType({"ON": DumpCharset.ASCII, "OFF": DumpCharset.EBCDIC})
EBCDIC: Final = MappingProxyType({"ON": DumpCharset.EBCDIC, "OFF": DumpCharset.ASCII})
GREATEST: Final = 1 << 30


class SettingCommand(NamedTuple):
    """A Logdump command that shows or changes a setting of the session.

    ``field`` is the setting's name in ``LogdumpSettings``. Its values are ``choices``, or numbers
    of at least ``least`` if there are no choices.
    """

    names: tuple[str, ...]
    field: str
    choices: Mapping[str, Any] | None
    help: str
    least: int = 0

    @property
    def arguments(self) -> str:
        """The syntax of the setting command's arguments."""
        return "n" if self.choices is None else " | ".join(self.choices)

    def read(self, word: str) -> Any:
        """Parse a word as the value of a Logdump setting. Raises OptionError."""
        if self.choices is None:
            return read_number(word, self.least, GREATEST)
        return read_choice(word, self.choices)


SETTINGS: Final = (
    SettingCommand(("GHDR",), "ghdr", FLAG, "The record header before a record."),
    SettingCommand(
        ("DETAIL", "DET"),
        "detail",
        DETAIL,
        "The columns of a record; DATA: with their bytes. COUNT: counts of each table.",
    ),
    SettingCommand(
        ("GGSTOKEN",),
        "ggs_tokens",
        DISPLAY,
        "GGS tokens, such as LOGCSN and TRANID: their bytes, or each with its name.",
    ),
    SettingCommand(
        ("USERTOKEN",),
        "user_tokens",
        DISPLAY,
        "User tokens: names and lengths; DETAIL: names and values.",
    ),
    SettingCommand(
        ("HEADERTOKEN",),
        "header_tokens",
        DISPLAY,
        "The tokens that make up a record; DETAIL: with the header's bytes.",
    ),
    SettingCommand(
        ("FILEHEADER",),
        "file_header",
        DISPLAY,
        "The file header, shown by NEXT at RBA 0; DETAIL: each of its tokens.",
    ),
    SettingCommand(
        ("METADATA",),
        "metadata",
        METADATA,
        "Table definitions in the trail: all attributes, as Defgen, as SQL, or as bytes.",
    ),
    SettingCommand(("ASCIIDATA",), "data_charset", ASCII, "The text beside column data is ASCII."),
    SettingCommand(
        ("EBCDICDATA",), "data_charset", EBCDIC, "The text beside column data is EBCDIC."
    ),
    SettingCommand(
        ("ASCIIHEADER",), "header_charset", ASCII, "The text beside header bytes is ASCII."
    ),
    SettingCommand(
        ("EBCDICHEADER", "HEADEREBCDIC"),
        "header_charset",
        EBCDIC,
        "The text beside header bytes is EBCDIC.",
    ),
    SettingCommand(
        ("ASCIIDUMP",), "dump_charset", ASCII, "The text beside dumps of a record is ASCII."
    ),
    SettingCommand(
        ("EBCDICDUMP",), "dump_charset", EBCDIC, "The text beside dumps of a record is EBCDIC."
    ),
    SettingCommand(
        ("SCANSCROLLING",),
        "scrolling",
        FLAG,
        "Kept for scripts and without effect: NOTIFY always writes a line each time.",
    ),
    SettingCommand(("RECLEN",), "reclen", None, "The number of bytes of a record that are shown."),
    SettingCommand(
        ("COLUMNDATA",), "column_length", None, "The number of bytes of a column that are shown."
    ),
    SettingCommand(
        ("NOTIFY", "NOTIFYINTERVAL"),
        "notify",
        None,
        "The number of records after which a scan reports its position; 0: never.",
    ),
    SettingCommand(
        ("TRANSHIST",),
        "trans_history",
        None,
        "The number of the largest transactions that COUNT lists.",
    ),
    SettingCommand(
        ("TRANSRECLIMIT",),
        "trans_records",
        None,
        "The number of records that make a transaction large.",
        least=1,
    ),
    SettingCommand(
        ("TRANSBYTELIMIT",),
        "trans_bytes",
        None,
        "The number of bytes of data that make a transaction large.",
        least=1,
    ),
)


def _command(row: SettingCommand) -> LogdumpCommand:
    def run(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
        verb = "set to" if arguments.plain else "is"
        if arguments.plain:
            session.set(**{row.field: row.read(arguments.only())})
        value = getattr(session.settings, row.field)
        plain = value.value if isinstance(value, Enum) else value
        text = f"{row.names[0].capitalize()} {verb} {setting_text(value)}"
        yield NoteResult(text, {row.field: plain})

    return LogdumpCommand(row.names, row.arguments, row.help, run)


def setting_text(value: object) -> str:
    """Format the value of a Logdump setting for output: ``On``, ``ASCII``, ``Detail``, ``140`` or ``All``."""
    if isinstance(value, bool):
        return "On" if value else "Off"
    if isinstance(value, DumpCharset):
        return value.name
    if isinstance(value, Enum):
        return str(value.value).capitalize()
    return "All" if value is None else str(value)


def set_time_offset(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """TIMEOFFSET: set the time zone of times that are shown and typed."""
    if arguments.text:
        session.set(time_offset=read_offset(arguments.text))
    offset: TimeOffset = session.settings.time_offset
    yield NoteResult(f"Times are {offset}", {"offset": str(offset)})


SETTING_COMMANDS: Final = (
    *map(_command, SETTINGS),
    LogdumpCommand(
        ("TIMEOFFSET",),
        "LOCAL | GMT | GMT +hh:mm",
        "The time zone of times that are shown and typed; GMT by default.",
        set_time_offset,
    ),
)
