"""Logdump's commands about the session: its log, command files, help, earlier commands, conversions of times and numbers.

Also lists Logdump's commands that are not supported, each with the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trailgate.errors import OptionError
from trailgate.logdump.filter_options import OPTIONS as FILTER_OPTIONS
from trailgate.logdump.results import (
    EditResult,
    ListingResult,
    NoteResult,
    Result,
    SessionEnd,
    TextResult,
)
from trailgate.logdump.session import DEEPEST, LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import CommandArguments, read_number, unquote
from trailgate.logdump.times import EPOCH, MICROSECOND, iso_time, read_time, time_text
from trailgate.storage.files.text_files import read_file
from trailgate.trail.format.header_fields import julian_from_unix, unix_from_julian

COLON: Final = " :"
NONSTOP: Final = "it applies only to NonStop systems"
ENCRYPTION: Final = (
    "the encryption of trails is not public, and the file holds no key; records of an encrypted"
    " trail are shown as bytes"
)
BLOCKS: Final = "files are read in chunks of 4 MB; there is no block size to set"
LISTED: Final = "HISTORY lists them"
EXACT: Final = "counts per table are always exact; there is no hash table to set or clear"
_NONSTOP_NAMES: Final = """
    TMFBEFOREIMAGE TMFGETRECADDR NOTMFGETRECADDR TMFIGNORERECCOUNT DATAFILE GGSAUDITREAD
    BULKIOSTATS CALCTLFKEY PRINTMXCOLUMNINFO ARGETNONDATACHANGES ARSTOPNONDATACHANGES
"""
REFUSED: Final = "REFUSED"


def show_time(session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    """TIME: show the current time, in the session's time zone and in GMT."""
    now = (session.now() - EPOCH) // MICROSECOND
    yield _times(session, now)


def _times(session: LogdumpSession, microseconds: int) -> Result:
    text = time_text(microseconds, session.settings.time_offset)
    rows = (
        ("Time", f"{text} ({session.settings.time_offset})"),
        ("GMT", iso_time(microseconds) or "no date"),
        ("Trail timestamp", str(julian_from_unix(microseconds))),
        ("Unix microseconds", str(microseconds)),
    )
    return ListingResult("", rows, COLON)


def compute_timestamp(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """COMPUTETIMESTAMP: convert a time to a trail's timestamp."""
    typed = " ".join(arguments.plain)
    yield _times(session, read_time(typed, session.settings.time_offset, session.now()))


def interpret_timestamp(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """INTERPRETTIMESTAMP: convert a trail's timestamp to a time."""
    yield _times(session, unix_from_julian(arguments.number()))


def interpret_interval(_session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """INTERPRETINTERVAL: convert microseconds to days, hours, minutes and seconds."""
    microseconds = arguments.number()
    # 90,061,000,002 microseconds are 1 day, 01:01:01.000002.
    seconds, rest = divmod(microseconds, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"
    yield NoteResult(f"{days} days {clock}", {"microseconds": microseconds, "days": days})


def show_float(_session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """FLOAT: convert hex digits to an IEEE float of 4 or 8 bytes."""
    digits = "".join(arguments.plain).removeprefix("0x")
    try:
        raw = bytes.fromhex(digits)
        # 4 bytes are a float, 8 a double; other lengths raise KeyError.
        kind = {4: ">f", 8: ">d"}[len(raw)]
    except (ValueError, KeyError) as error:
        raise OptionError("FLOAT takes 8 or 16 hex digits") from error
    value = struct.unpack(kind, raw)[0]
    yield NoteResult(repr(value), {"value": repr(value)})


CONVERSION_COMMANDS: Final = (
    LogdumpCommand(("TIME",), "", "Show the time.", show_time),
    LogdumpCommand(
        ("COMPUTETIMESTAMP", "CTS"),
        "time",
        "Show a time as a trail's timestamp.",
        compute_timestamp,
    ),
    LogdumpCommand(
        ("INTERPRETTIMESTAMP", "ITS", "CTIME"),
        "number",
        "Show a trail's timestamp as a time.",
        interpret_timestamp,
    ),
    LogdumpCommand(
        ("INTERPRETINTERVAL", "II"),
        "number",
        "Show microseconds as days, hours, minutes and seconds.",
        interpret_interval,
    ),
    LogdumpCommand(
        ("FLOAT",), "digits", "Show the number of an IEEE float of 4 or 8 bytes in hex.", show_float
    ),
)


class UnsupportedCommand(NamedTuple):
    """A Logdump command that has no effect here.

    It raises an error if ``refused``, and prints a note otherwise.
    """

    names: tuple[str, ...]
    reason: str
    refused: bool = True


UNSUPPORTED: Final = (
    *(UnsupportedCommand((name,), NONSTOP) for name in _NONSTOP_NAMES.split()),
    UnsupportedCommand(("RECORD", "REC"), NONSTOP),
    *(UnsupportedCommand((name,), ENCRYPTION) for name in ("DECRYPT", "ENCRYPT")),
    *(UnsupportedCommand((name,), BLOCKS, refused=False) for name in ("ESBLOCK", "BIO")),
    *(UnsupportedCommand((name,), EXACT, refused=False) for name in ("HASHSTATS", "HASHCLEAR")),
    UnsupportedCommand(
        ("TRAILFORMAT",), "a file states its format; the one before release 6 is not public"
    ),
    UnsupportedCommand(
        ("DEBUG",), "there is no debugger; TRAILGATE_DEBUG=1 in the environment shows tracebacks"
    ),
    UnsupportedCommand(("X",), "a session runs no other programs"),
)


def _command(row: UnsupportedCommand) -> LogdumpCommand:
    def run(_session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
        if row.refused:
            raise OptionError(f"{row.names[0]}: {row.reason}")
        yield NoteResult(f"{row.names[0]}: {row.reason}", {"ignored": row.names[0]})

    verb = "Refused" if row.refused else "Accepted without effect"
    return LogdumpCommand(row.names, "", f"{verb}: {row.reason}.", run)


UNSUPPORTED_COMMANDS: Final = tuple(_command(row) for row in UNSUPPORTED)


def show_help(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """HELP: list the commands, or explain one command. REFUSED lists the commands without effect."""
    name = " ".join(arguments.plain)
    if name and name.upper() != REFUSED:
        command, _ = session.find(name)
        lines = (command.help, *_more(command))
        others = f"  ({', '.join(command.names[1:])})" if command.names[1:] else ""
        yield TextResult(f"{command.syntax}{others}", lines)
        return
    without = {names for row in UNSUPPORTED for names in row.names}
    # The mapping has a command under each of its names; list it once.
    rows = {row.names: row for row in session.commands.values()}
    listed = (
        f"{row.names[0]:<22}{row.help}"
        for row in rows.values()
        if (row.names[0] in without) is bool(name)
    )
    title = "HELP command explains one of them; HELP REFUSED lists those of Logdump without effect."
    yield TextResult(
        "Commands without effect, with the reason." if name else title, tuple(sorted(listed))
    )


def _more(command: LogdumpCommand) -> tuple[str, ...]:
    if command.names[0] != "FILTER":
        return ()
    return tuple(f"  {option.syntax:<42} {option.help}" for option in FILTER_OPTIONS)


def show_history(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """HISTORY: list the typed commands, or the last of them."""
    count = arguments.number(len(session.history)) if arguments.plain else len(session.history)
    numbered = [(f"{number}>", line) for number, line in enumerate(session.history, 1)]
    yield ListingResult("", tuple(numbered[max(0, len(numbered) - count) :]))


def edit_command(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """FC: offer an earlier command at the prompt for editing."""
    yield EditResult(_earlier(session, arguments.text))


def repeat_command(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """Run an earlier command again: ``!`` or ``!5``."""
    line = _earlier(session, arguments.text)
    if session.depth == DEEPEST:
        raise OptionError("this command would repeat itself")
    yield NoteResult(f">> {line}", {"command": line})
    # the history gets the repeated command in place of the "!"
    session.history[-1] = line
    session.depth += 1
    try:
        yield from session.command(line)
    finally:
        session.depth -= 1


def _earlier(session: LogdumpSession, text: str) -> str:
    """Find an earlier command of the session, for FC and ``!``.

    ``text`` is its number, a negative number counted from the end, or its first letters. If it is
    empty, the last command is found.
    """
    # the last entry is the present command
    earlier = session.history[:-1]
    sought = text.strip().removeprefix("!")  # !! repeats the last one
    if sought.lstrip("-").isdigit() and sought.isascii():
        # read_number refuses numbers outside the list, except 0: commands count from 1.
        number = read_number(sought, -len(earlier), len(earlier))
        if not number:
            raise OptionError(f"no earlier command has the number {sought}", hint=LISTED)
        return earlier[number if number < 0 else number - 1]
    for line in reversed(earlier):
        if line.upper().startswith(sought.upper()) and line[:1] != "!":
            return line
    raise OptionError("no earlier command matches", hint=LISTED)


def obey_file(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """OBEY: run the Logdump commands in a file."""
    path = session.path(unquote(arguments.text))
    if session.depth == DEEPEST:
        raise OptionError(f"command files are nested more than {DEEPEST} deep")
    lines = read_file(path).decode("utf-8", "replace").splitlines()
    session.depth += 1
    try:
        # -- starts a comment
        for line in lines:
            if line.strip() and not line.lstrip().startswith("--"):
                yield NoteResult(f">> {line.strip()}", {"command": line.strip()})
                yield from session.run(line)
    finally:
        session.depth -= 1


def log_session(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """LOG: start or stop the log of the session."""
    text = arguments.text
    first, _, rest = text.partition(" ")
    if first.upper() == "STOP" and not rest:
        if session.log is None:
            raise OptionError("no log is being written")
        session.log.close()
        session.log = None
        yield NoteResult("The session log is closed", {"log": None})
        return
    path = session.path(unquote(rest.strip() if first.upper() == "TO" else text))
    if not text or not path:
        raise OptionError("a log needs a file", hint="LOG TO session.txt")
    if session.log is not None:
        session.log.close()
    session.log = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  LOG STOP closes it
    yield NoteResult(f"The session is logged to {path}", {"log": path})


def write_log(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """WRITELOG: write a line into the log of the session."""
    if session.log is None:
        raise OptionError("no log is being written", hint="LOG TO starts one")
    session.log.write(f"{unquote(arguments.text)}\n")
    session.log.flush()
    return iter(())


SCRIPT_COMMANDS: Final = (
    LogdumpCommand(("OBEY", "O"), "file", "Run the commands of a file, one per line.", obey_file),
    LogdumpCommand(
        ("LOG",),
        "TO file | STOP",
        "Write everything that is typed and printed to a file as well.",
        log_session,
    ),
    LogdumpCommand(("WRITELOG",), "text", "Write a line into the session log.", write_log),
)


def end_session(session: LogdumpSession, _arguments: CommandArguments) -> Iterator[Result]:
    """EXIT: end the Logdump session."""
    session.close()
    yield SessionEnd()


SESSION_COMMANDS: Final = (
    LogdumpCommand(
        ("HELP", "?"),
        "[command | REFUSED]",
        "List the commands, or explain one of them; REFUSED: those without effect.",
        show_help,
    ),
    LogdumpCommand(
        ("HISTORY", "H"), "[n]", "List the commands that were typed, or the last n.", show_history
    ),
    LogdumpCommand(
        ("FC",),
        "[n | -n | text]",
        "Edit an earlier command: the last, one by number, or one by its first letters.",
        edit_command,
    ),
    LogdumpCommand(("!",), "[n | -n | text]", "Run an earlier command once more.", repeat_command),
    LogdumpCommand(("EXIT", "QUIT", "E", "Q"), "", "End the session.", end_session),
)
