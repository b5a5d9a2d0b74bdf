"""Commands about the session itself, and small conversions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.commands.filtering import show_filters
from trailgate.logdump.commands.views import setting_text
from trailgate.logdump.filters.options import OPTIONS as FILTER_OPTIONS
from trailgate.logdump.session.results import Edit, Goodbye, Lines, Listing, Note, Result
from trailgate.logdump.session.session import DEEPEST, Command, Session
from trailgate.logdump.terms.times import EPOCH, MICROSECOND, iso_time, read_time, time_text
from trailgate.logdump.terms.words import Words, one_of, read_number
from trailgate.trail.format.record_types import ROWS as TYPE_ROWS
from trailgate.trail.format.times import julian_from_unix, unix_from_julian

COLON: Final = " :"
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
    ("Timeoffset", "offset"),
    ("Scan Notify Interval", "notify"),
)


def environment(session: Session, words: Words) -> Iterator[Result]:
    """List the open files and all settings."""
    del words
    settings = session.settings
    rows = [("Current Volume", session.folder or ".")]
    if session.is_open:
        trail = session.trail
        rows += [
            ("LogTrail", trail.path),
            ("Byte Order", f"{trail.order.label.capitalize()} Endian"),
            ("End of File", str(trail.size)),
            (
                "Current Position",
                str(session.place if session.current is None else session.current),
            ),
            ("Next Position", str(session.place)),
        ]
    rows.append(("Direction", "Forward" if settings.forward else "Reverse"))
    rows.append(("Logtrail Filter", setting_text(session.filters.enabled)))
    rows += [(title, setting_text(getattr(settings, field))) for title, field in SHOWN_SETTINGS]
    limits = f"Records {settings.trans_records}, Bytes {settings.trans_bytes}"
    rows.append(("Trans History", f"{settings.trans_history} Transactions, {limits}"))
    yield Listing("", tuple(rows), COLON)


def show_open(session: Session, words: Words) -> Iterator[Result]:
    """List the open file."""
    del words
    rows = [(session.trail.path, f"{session.trail.size} bytes")] if session.is_open else []
    yield Listing("Open files", tuple(rows))


def show_types(session: Session, words: Words) -> Iterator[Result]:
    """List the record types."""
    del session, words
    yield Listing("Record types", tuple((f"{row.code:>3}", row.name) for row in TYPE_ROWS))


def show_time(session: Session, words: Words) -> Iterator[Result]:
    """Print the time."""
    del words
    now = (session.now() - EPOCH) // MICROSECOND
    yield _times(session, now)


def _times(session: Session, microseconds: int) -> Result:
    text = time_text(microseconds, session.settings.offset)
    rows = (
        ("Time", f"{text} ({session.settings.offset})"),
        ("GMT", iso_time(microseconds) or "no date"),
        ("Trail timestamp", str(julian_from_unix(microseconds))),
        ("Unix microseconds", str(microseconds)),
    )
    return Listing("", rows, COLON)


def _show_filter(session: Session, words: Words) -> Iterator[Result]:
    del words
    yield show_filters(session)


SHOWS: Final = {
    "ENV": environment,
    "FILTER": _show_filter,
    "OPEN": show_open,
    "RECTYPE": show_types,
    "TIME": show_time,
}


def show(session: Session, words: Words) -> Iterator[Result]:
    """Show one part of the session's state."""
    return one_of(words.only("ENV"), SHOWS)(session, words)


def explain(session: Session, words: Words) -> Iterator[Result]:
    """List the commands, or describe one."""
    name = " ".join(words.plain)
    if name:
        command, _ = session.find(name)
        lines = (command.help, *_more(command))
        others = f"  ({', '.join(command.names[1:])})" if command.names[1:] else ""
        yield Lines(f"{command.syntax}{others}", lines)
        return
    rows = {row.names: row for row in session.commands.values()}
    names = (f"{row.names[0]:<22}{row.help}" for row in rows.values())
    yield Lines("HELP command describes one.", tuple(sorted(names)))


def _more(command: Command) -> tuple[str, ...]:
    if command.names[0] != "FILTER":
        return ()
    return tuple(f"  {option.syntax:<42} {option.help}" for option in FILTER_OPTIONS)


def history(session: Session, words: Words) -> Iterator[Result]:
    """List what was typed, or the last of it."""
    count = words.number(len(session.history)) if words.plain else len(session.history)
    numbered = [(f"{number}>", line) for number, line in enumerate(session.history, 1)]
    yield Listing("", tuple(numbered[max(0, len(numbered) - count) :]))


def edit(session: Session, words: Words) -> Iterator[Result]:
    """Offer an earlier command for editing."""
    yield Edit(_earlier(session, words.text))


def again(session: Session, words: Words) -> Iterator[Result]:
    """Run an earlier command again."""
    line = _earlier(session, words.text)
    if session.depth == DEEPEST:
        raise OptionError("this command would repeat itself")
    yield Note(f">> {line}", {"command": line})
    session.history[-1] = line
    session.depth += 1
    try:
        yield from session.command(line)
    finally:
        session.depth -= 1


def _earlier(session: Session, text: str) -> str:
    """Return the command of a number, one so many back, or the last that begins so."""
    earlier = session.history[:-1]
    sought = text.strip().removeprefix("!")  # !! is the last one
    if sought.lstrip("-").isdigit() and sought.isascii():
        number = read_number(sought, -len(earlier), len(earlier))
        return earlier[number if number < 0 else number - 1]
    for line in reversed(earlier):
        if line.upper().startswith(sought.upper()) and line[:1] != "!":
            return line
    raise OptionError("no earlier command is like that", hint="HISTORY lists them")


def leave(session: Session, words: Words) -> Iterator[Result]:
    """End the session."""
    del words
    session.close()
    yield Goodbye()


def compute_timestamp(session: Session, words: Words) -> Iterator[Result]:
    """Convert a time to a trail's timestamp."""
    typed = " ".join(words.plain)
    yield _times(session, read_time(typed, session.settings.offset, session.now()))


def interpret_timestamp(session: Session, words: Words) -> Iterator[Result]:
    """Convert a trail's timestamp to a time."""
    yield _times(session, unix_from_julian(words.number()))


def interpret_interval(session: Session, words: Words) -> Iterator[Result]:
    """Convert microseconds to days, hours, minutes and seconds."""
    del session
    microseconds = words.number()
    seconds, rest = divmod(microseconds, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"
    yield Note(f"{days} days {clock}", {"microseconds": microseconds, "days": days})


def show_float(session: Session, words: Words) -> Iterator[Result]:
    """Convert 4 or 8 bytes in hex to an IEEE float."""
    del session
    digits = "".join(words.plain).removeprefix("0x")
    try:
        raw = bytes.fromhex(digits)
        kind = {4: ">f", 8: ">d"}[len(raw)]
    except (ValueError, KeyError) as error:
        raise OptionError("FLOAT takes 8 or 16 hex digits") from error
    value = struct.unpack(kind, raw)[0]
    yield Note(repr(value), {"value": repr(value)})


ROWS: Final = (
    Command(("ENV",), "ENV", "List the open files and all settings.", environment),
    Command(
        ("SHOW", "SH"),
        "SHOW [ENV | FILTER | OPEN | RECTYPE | TIME]",
        "Show one part of the session's state.",
        show,
        tuple(SHOWS),
    ),
    Command(("TIME",), "TIME", "Print the time.", show_time),
    Command(("HELP", "?"), "HELP [command]", "List the commands, or describe one.", explain),
    Command(("HISTORY", "H"), "HISTORY [n]", "List the commands typed, or the last n.", history),
    Command(
        ("FC",),
        "FC [n | -n | text]",
        "Edit an earlier command: the last, one by number, or one that begins so.",
        edit,
    ),
    Command(("!",), "! [n | -n | text]", "Run an earlier command again.", again),
    Command(("EXIT", "QUIT", "E", "Q"), "EXIT", "End the session.", leave),
    Command(
        ("COMPUTETIMESTAMP", "CTS"),
        "COMPUTETIMESTAMP time",
        "Convert a time to a trail's timestamp.",
        compute_timestamp,
    ),
    Command(
        ("INTERPRETTIMESTAMP", "ITS", "CTIME"),
        "INTERPRETTIMESTAMP number",
        "Convert a trail's timestamp to a time.",
        interpret_timestamp,
    ),
    Command(
        ("INTERPRETINTERVAL", "II"),
        "INTERPRETINTERVAL number",
        "Convert microseconds to days, hours, minutes and seconds.",
        interpret_interval,
    ),
    Command(
        ("FLOAT",), "FLOAT digits", "Convert 4 or 8 bytes in hex to an IEEE float.", show_float
    ),
)
