"""Logdump's commands that show or change the settings of the session: one row for each setting, and SHOW and ENV.

ENV lists all settings and the open file. SHOW lists one part of the session's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.errors import mask_logins
from trailgate.logdump.commands.filtering import show_filters
from trailgate.logdump.commands.session import COLON, show_time
from trailgate.logdump.results import (
    DetailLevel,
    DisplayLevel,
    DumpCharset,
    ListingResult,
    MetadataForm,
    NoteResult,
    Result,
)
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import CommandArguments, read_choice, read_number
from trailgate.logdump.times import TimeOffset, read_offset
from trailgate.trail.format.record_types import ROWS as TYPE_ROWS

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
SHOWN_SETTINGS: Final = (
    ("Show Ghdr", "ghdr"),
    ("Detail", "detail"),
    ("GGS Tokens", "ggs_tokens"),
    ("User Tokens", "user_tokens"),
    ("Header Tokens", "header_tokens"),
    ("File Header", "file_header"),
    ("Metadata", "metadata"),
    ("Display RecLen", "reclen"),
    ("Logtrail Data", "data_charset"),
    ("Logtrail Headers", "header_charset"),
    ("Dump", "dump_charset"),
    ("Timeoffset", "time_offset"),
    ("Scan Notify Interval", "notify"),
)


def show_environment(session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    """ENV: show the open file and all settings of the session."""
    settings = session.settings
    rows = [("Current Volume", mask_logins(session.folder or "."))]
    if session.is_open:
        trail = session.trail
        current = session.position if session.current is None else session.current
        rows += [
            ("LogTrail", mask_logins(trail.path)),
            ("Byte Order", f"{trail.order.label.capitalize()} Endian"),
            ("End of File", str(trail.size)),
            ("Current Position", str(current)),
            ("Next Position", str(session.position)),
        ]
    rows.append(("Direction", "Forward" if settings.forward else "Reverse"))
    rows.append(("Logtrail Filter", setting_text(session.filters.enabled)))
    rows += [(title, setting_text(getattr(settings, field))) for title, field in SHOWN_SETTINGS]
    limits = f"Records {settings.trans_records}, Bytes {settings.trans_bytes}"
    rows.append(("Trans History", f"{settings.trans_history} Transactions, {limits}"))
    yield ListingResult("", tuple(rows), COLON)


def show_open(session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    """SHOW OPEN: show which trail file is open."""
    rows = (
        [(mask_logins(session.trail.path), f"{session.trail.size} bytes")]
        if session.is_open
        else []
    )
    yield ListingResult("Open files", tuple(rows))


def show_record_types(_session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    """SHOW RECTYPE: list the record types of trails."""
    yield ListingResult(
        "Record types",
        tuple((f"{row.code:>3}", row.name) for row in TYPE_ROWS),
    )


def _show_filter(session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    yield show_filters(session)


# By the word after SHOW.
SHOWS: Final = {
    "ENV": show_environment,
    "FILTER": _show_filter,
    "OPEN": show_open,
    "RECTYPE": show_record_types,
    "TIME": show_time,
}


def show(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SHOW: show a part of the session's state."""
    return read_choice(arguments.only("ENV"), SHOWS)(session, arguments)


SHOW_COMMANDS: Final = (
    LogdumpCommand(("ENV",), "", "List the open file and all settings.", show_environment),
    LogdumpCommand(
        ("SHOW", "SH"),
        "[ENV | FILTER | OPEN | RECTYPE | TIME]",
        "Show a part of the session's state.",
        show,
    ),
)
