"""Commands that say how much is shown, and how: one row a switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.logdump.session.results import Note, Result
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.terms.settings import Charset, Detail, Metadata, Offset, Shown
from trailgate.logdump.terms.times import read_offset
from trailgate.logdump.terms.words import Words, one_of, read_number

FLAG: Final[Mapping[str, Any]] = MappingProxyType({"ON": True, "OFF": False})
SHOWN: Final[Mapping[str, Any]] = MappingProxyType({one.name: one for one in Shown})
DETAIL: Final[Mapping[str, Any]] = MappingProxyType({one.name: one for one in Detail})
METADATA: Final[Mapping[str, Any]] = MappingProxyType({one.value.upper(): one for one in Metadata})
ASCII: Final = MappingProxyType({"ON": Charset.ASCII, "OFF": Charset.EBCDIC})
EBCDIC: Final = MappingProxyType({"ON": Charset.EBCDIC, "OFF": Charset.ASCII})
LONGEST_SHOWN: Final = 1 << 30


class Switch(NamedTuple):
    """A setting that a command sets to one of a few values, or prints if no word follows."""

    names: tuple[str, ...]
    field: str
    choices: Mapping[str, Any]
    help: str


class Number(NamedTuple):
    """A setting that a command sets to a number."""

    names: tuple[str, ...]
    field: str
    help: str
    least: int = 0


SWITCHES: Final = (
    Switch(("GHDR",), "ghdr", FLAG, "The record header before a record."),
    Switch(
        ("DETAIL", "DET"),
        "detail",
        DETAIL,
        "The columns of a record; DATA: with their bytes. COUNT: counts of each table.",
    ),
    Switch(
        ("GGSTOKEN",),
        "ggs_tokens",
        SHOWN,
        "GGS tokens, such as LOGCSN and TRANID: their bytes, or each with its name.",
    ),
    Switch(
        ("USERTOKEN",),
        "user_tokens",
        SHOWN,
        "User tokens: names and lengths; DETAIL: names and values.",
    ),
    Switch(
        ("HEADERTOKEN",),
        "header_tokens",
        SHOWN,
        "The tokens of a record; DETAIL: with the header's bytes.",
    ),
    Switch(
        ("FILEHEADER",),
        "file_header",
        SHOWN,
        "The file header, shown by NEXT at RBA 0; DETAIL: each of its tokens.",
    ),
    Switch(
        ("METADATA",),
        "metadata",
        METADATA,
        "Table definitions in the trail: all attributes, as Defgen, as SQL, or as bytes.",
    ),
    Switch(("ASCIIDATA",), "data_charset", ASCII, "The text beside column data is ASCII."),
    Switch(("EBCDICDATA",), "data_charset", EBCDIC, "The text beside column data is EBCDIC."),
    Switch(("ASCIIHEADER",), "header_charset", ASCII, "The text beside header bytes is ASCII."),
    Switch(
        ("EBCDICHEADER", "HEADEREBCDIC"),
        "header_charset",
        EBCDIC,
        "The text beside header bytes is EBCDIC.",
    ),
    Switch(("ASCIIDUMP",), "dump_charset", ASCII, "The text beside dumps of a record is ASCII."),
    Switch(("EBCDICDUMP",), "dump_charset", EBCDIC, "The text beside dumps of a record is EBCDIC."),
    Switch(
        ("SCANSCROLLING",),
        "scrolling",
        FLAG,
        "Whether NOTIFY writes a new line each time; accepted for scripts, without effect.",
    ),
)
NUMBERS: Final = (
    Number(("RECLEN",), "reclen", "Bytes of a record that are shown."),
    Number(("COLUMNDATA",), "column_length", "Bytes of a column that are shown."),
    Number(
        ("NOTIFY", "NOTIFYINTERVAL"),
        "notify",
        "Report the progress of a scan every n records; 0: never.",
    ),
    Number(("TRANSHIST",), "trans_history", "COUNT lists the n largest transactions."),
    Number(("TRANSRECLIMIT",), "trans_records", "Records that make a transaction large.", 1),
    Number(("TRANSBYTELIMIT",), "trans_bytes", "Bytes of data that make a transaction large.", 1),
)


def _switch(row: Switch) -> Command:
    def run(session: Session, words: Words) -> Iterator[Result]:
        session.set(**{row.field: one_of(words.only(), row.choices)})
        yield _told(session, row.names[0], row.field)

    choices = tuple(row.choices)
    syntax = f"{row.names[0]} {' | '.join(choices)}"
    runs = _shown_or(run, row.names[0], row.field)
    return Command(row.names, syntax, row.help, runs, choices)


def _number(row: Number) -> Command:
    def run(session: Session, words: Words) -> Iterator[Result]:
        session.set(**{row.field: read_number(words.only(), row.least, LONGEST_SHOWN)})
        yield _told(session, row.names[0], row.field)

    runs = _shown_or(run, row.names[0], row.field)
    return Command(row.names, f"{row.names[0]} n", row.help, runs)


Run = Callable[[Session, Words], Iterator[Result]]


def _shown_or(run: Run, name: str, field: str) -> Run:
    """Return a function that prints the setting if no word follows."""

    def either(session: Session, words: Words) -> Iterator[Result]:
        return run(session, words) if words.plain else iter((_told(session, name, field, "is"),))

    return either


def _told(session: Session, name: str, field: str, verb: str = "set to") -> Note:
    value = getattr(session.settings, field)
    said = setting_text(value)
    shown = value.value if isinstance(value, Enum) else value
    return Note(f"{name.capitalize()} {verb} {said}", {field: shown})


def setting_text(value: object) -> str:
    """Return a setting's value for people."""
    if isinstance(value, bool):
        return "On" if value else "Off"
    if isinstance(value, Charset):
        return value.name
    if isinstance(value, Enum):
        return str(value.value).capitalize()
    return "All" if value is None else str(value)


def time_offset(session: Session, words: Words) -> Iterator[Result]:
    """Say in which zone times are shown and typed."""
    if words.text:
        session.set(offset=read_offset(words.text))
    offset: Offset = session.settings.offset
    yield Note(f"Times are {offset}", {"offset": str(offset)})


ROWS: Final = (
    *(_switch(row) for row in SWITCHES),
    *(_number(row) for row in NUMBERS),
    Command(
        ("TIMEOFFSET",),
        "TIMEOFFSET LOCAL | GMT | GMT +hh:mm",
        "The zone of times that are shown and typed; GMT unless set.",
        time_offset,
        ("LOCAL", "GMT"),
    ),
)
