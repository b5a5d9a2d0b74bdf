"""Commands that show or change one setting: one row each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.logdump.results import Charset, Detail, Display, MetadataForm, Note, Result
from trailgate.logdump.session import Command, Session
from trailgate.logdump.syntax import Arguments, TimeOffset, one_of, read_number, read_offset

FLAG: Final[Mapping[str, Any]] = MappingProxyType({"ON": True, "OFF": False})
DISPLAY: Final[Mapping[str, Any]] = MappingProxyType({one.name: one for one in Display})
DETAIL: Final[Mapping[str, Any]] = MappingProxyType({one.name: one for one in Detail})
METADATA: Final[Mapping[str, Any]] = MappingProxyType(
    {one.value.upper(): one for one in MetadataForm}
)
ASCII: Final = MappingProxyType({"ON": Charset.ASCII, "OFF": Charset.EBCDIC})
EBCDIC: Final = MappingProxyType({"ON": Charset.EBCDIC, "OFF": Charset.ASCII})
GREATEST: Final = 1 << 30


class Setting(NamedTuple):
    """A command that shows a setting, or sets it to one of ``choices``, or to a number if there are none."""

    names: tuple[str, ...]
    field: str
    choices: Mapping[str, Any] | None
    help: str
    least: int = 0

    @property
    def arguments(self) -> str:
        """The syntax of the command's arguments."""
        return "n" if self.choices is None else " | ".join(self.choices)

    def read(self, word: str) -> Any:
        """Parse a word as a value. Raises OptionError."""
        if self.choices is None:
            return read_number(word, self.least, GREATEST)
        return one_of(word, self.choices)


SETTINGS: Final = (
    Setting(("GHDR",), "ghdr", FLAG, "The record header before a record."),
    Setting(
        ("DETAIL", "DET"),
        "detail",
        DETAIL,
        "The columns of a record; DATA: with their bytes. COUNT: counts of each table.",
    ),
    Setting(
        ("GGSTOKEN",),
        "ggs_tokens",
        DISPLAY,
        "GGS tokens, such as LOGCSN and TRANID: their bytes, or each with its name.",
    ),
    Setting(
        ("USERTOKEN",),
        "user_tokens",
        DISPLAY,
        "User tokens: names and lengths; DETAIL: names and values.",
    ),
    Setting(
        ("HEADERTOKEN",),
        "header_tokens",
        DISPLAY,
        "The tokens that make up a record; DETAIL: with the header's bytes.",
    ),
    Setting(
        ("FILEHEADER",),
        "file_header",
        DISPLAY,
        "The file header, shown by NEXT at RBA 0; DETAIL: each of its tokens.",
    ),
    Setting(
        ("METADATA",),
        "metadata",
        METADATA,
        "Table definitions in the trail: all attributes, as Defgen, as SQL, or as bytes.",
    ),
    Setting(("ASCIIDATA",), "data_charset", ASCII, "The text beside column data is ASCII."),
    Setting(("EBCDICDATA",), "data_charset", EBCDIC, "The text beside column data is EBCDIC."),
    Setting(("ASCIIHEADER",), "header_charset", ASCII, "The text beside header bytes is ASCII."),
    Setting(
        ("EBCDICHEADER", "HEADEREBCDIC"),
        "header_charset",
        EBCDIC,
        "The text beside header bytes is EBCDIC.",
    ),
    Setting(("ASCIIDUMP",), "dump_charset", ASCII, "The text beside dumps of a record is ASCII."),
    Setting(
        ("EBCDICDUMP",), "dump_charset", EBCDIC, "The text beside dumps of a record is EBCDIC."
    ),
    Setting(
        ("SCANSCROLLING",),
        "scrolling",
        FLAG,
        "Kept for scripts and without effect: NOTIFY always writes a line each time.",
    ),
    Setting(("RECLEN",), "reclen", None, "The number of bytes of a record that are shown."),
    Setting(
        ("COLUMNDATA",), "column_length", None, "The number of bytes of a column that are shown."
    ),
    Setting(
        ("NOTIFY", "NOTIFYINTERVAL"),
        "notify",
        None,
        "The number of records after which a scan reports its position; 0: never.",
    ),
    Setting(
        ("TRANSHIST",),
        "trans_history",
        None,
        "The number of the largest transactions that COUNT lists.",
    ),
    Setting(
        ("TRANSRECLIMIT",),
        "trans_records",
        None,
        "The number of records that make a transaction large.",
        least=1,
    ),
    Setting(
        ("TRANSBYTELIMIT",),
        "trans_bytes",
        None,
        "The number of bytes of data that make a transaction large.",
        least=1,
    ),
)


def _command(row: Setting) -> Command:
    def run(session: Session, arguments: Arguments) -> Iterator[Result]:
        verb = "set to" if arguments.plain else "is"
        if arguments.plain:
            session.set(**{row.field: row.read(arguments.only())})
        value = getattr(session.settings, row.field)
        plain = value.value if isinstance(value, Enum) else value
        text = f"{row.names[0].capitalize()} {verb} {setting_text(value)}"
        yield Note(text, {row.field: plain})

    return Command(row.names, row.arguments, row.help, run)


def setting_text(value: object) -> str:
    """Format a setting's value."""
    if isinstance(value, bool):
        return "On" if value else "Off"
    if isinstance(value, Charset):
        return value.name
    if isinstance(value, Enum):
        return str(value.value).capitalize()
    return "All" if value is None else str(value)


def time_offset(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Set the time zone of times that are shown and typed."""
    if arguments.text:
        session.set(time_offset=read_offset(arguments.text))
    offset: TimeOffset = session.settings.time_offset
    yield Note(f"Times are {offset}", {"offset": str(offset)})


ROWS: Final = (
    *map(_command, SETTINGS),
    Command(
        ("TIMEOFFSET",),
        "LOCAL | GMT | GMT +hh:mm",
        "The time zone of times that are shown and typed; GMT by default.",
        time_offset,
    ),
)
