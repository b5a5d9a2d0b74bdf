"""Commands about the session: its state, help, and earlier commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trailgate.errors import OptionError, masked
from trailgate.logdump.commands.conversions import COLON, show_time
from trailgate.logdump.commands.filtering import show_filters
from trailgate.logdump.commands.settings import setting_text
from trailgate.logdump.commands.unsupported import UNSUPPORTED
from trailgate.logdump.filters.options import OPTIONS as FILTER_OPTIONS
from trailgate.logdump.session.results import Edit, Goodbye, Lines, Listing, Note, Result
from trailgate.logdump.session.session import DEEPEST, Command, Session
from trailgate.logdump.syntax.arguments import Arguments
from trailgate.logdump.syntax.values import one_of, read_number
from trailgate.trail.format.record_types import ROWS as TYPE_ROWS

REFUSED: Final = "REFUSED"
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


def environment(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """List the open file and all settings."""
    settings = session.settings
    rows = [("Current Volume", masked(session.folder or "."))]
    if session.is_open:
        trail = session.trail
        current = session.position if session.current is None else session.current
        rows += [
            ("LogTrail", masked(trail.path)),
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
    yield Listing("", tuple(rows), COLON)


def show_open(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """List the open file."""
    rows = [(masked(session.trail.path), f"{session.trail.size} bytes")] if session.is_open else []
    yield Listing("Open files", tuple(rows))


def show_types(_session: Session, _arguments: Arguments) -> Iterator[Result]:
    """List the record types."""
    yield Listing(
        "Record types",
        tuple((f"{row.code:>3}", row.name) for row in TYPE_ROWS),
    )


def _show_filter(session: Session, _arguments: Arguments) -> Iterator[Result]:
    yield show_filters(session)


SHOWS: Final = {
    "ENV": environment,
    "FILTER": _show_filter,
    "OPEN": show_open,
    "RECTYPE": show_types,
    "TIME": show_time,
}


def show(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show a part of the session's state."""
    return one_of(arguments.only("ENV"), SHOWS)(session, arguments)


def explain(session: Session, arguments: Arguments) -> Iterator[Result]:
    """List the commands, or explain one of them; REFUSED lists those without effect."""
    name = " ".join(arguments.plain)
    if name and name.upper() != REFUSED:
        command, _ = session.find(name)
        lines = (command.help, *_more(command))
        others = f"  ({', '.join(command.names[1:])})" if command.names[1:] else ""
        yield Lines(f"{command.syntax}{others}", lines)
        return
    without = {names for row in UNSUPPORTED for names in row.names}
    rows = {row.names: row for row in session.commands.values()}
    listed = (
        f"{row.names[0]:<22}{row.help}"
        for row in rows.values()
        if (row.names[0] in without) is bool(name)
    )
    title = "HELP command explains one of them; HELP REFUSED lists those of Logdump without effect."
    yield Lines(
        "Commands without effect, with the reason." if name else title, tuple(sorted(listed))
    )


def _more(command: Command) -> tuple[str, ...]:
    if command.names[0] != "FILTER":
        return ()
    return tuple(f"  {option.syntax:<42} {option.help}" for option in FILTER_OPTIONS)


def history(session: Session, arguments: Arguments) -> Iterator[Result]:
    """List the commands that were typed, or the last of them."""
    count = arguments.number(len(session.history)) if arguments.plain else len(session.history)
    numbered = [(f"{number}>", line) for number, line in enumerate(session.history, 1)]
    yield Listing("", tuple(numbered[max(0, len(numbered) - count) :]))


def edit(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Offer an earlier command for editing."""
    yield Edit(_earlier(session, arguments.text))


def again(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Run an earlier command once more."""
    line = _earlier(session, arguments.text)
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
    """Return the command of a number, of a number counted from the end, or by its first letters."""
    earlier = session.history[:-1]
    sought = text.strip().removeprefix("!")  # !! is the last one
    if sought.lstrip("-").isdigit() and sought.isascii():
        number = read_number(sought, -len(earlier), len(earlier))
        return earlier[number if number < 0 else number - 1]
    for line in reversed(earlier):
        if line.upper().startswith(sought.upper()) and line[:1] != "!":
            return line
    raise OptionError("no earlier command is like that", hint="HISTORY lists them")


def leave(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """End the session."""
    session.close()
    yield Goodbye()


ROWS: Final = (
    Command(("ENV",), "", "List the open file and all settings.", environment),
    Command(
        ("SHOW", "SH"),
        "[ENV | FILTER | OPEN | RECTYPE | TIME]",
        "Show a part of the session's state.",
        show,
    ),
    Command(
        ("HELP", "?"),
        "[command | REFUSED]",
        "List the commands, or explain one of them; REFUSED: those without effect.",
        explain,
    ),
    Command(("HISTORY", "H"), "[n]", "List the commands that were typed, or the last n.", history),
    Command(
        ("FC",),
        "[n | -n | text]",
        "Edit an earlier command: the last, one by number, or one by its first letters.",
        edit,
    ),
    Command(("!",), "[n | -n | text]", "Run an earlier command once more.", again),
    Command(("EXIT", "QUIT", "E", "Q"), "", "End the session.", leave),
)
