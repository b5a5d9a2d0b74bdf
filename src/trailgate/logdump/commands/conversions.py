"""Commands that show and convert times, intervals and floats."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.session.results import Listing, Note, Result
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.syntax.arguments import Arguments
from trailgate.logdump.syntax.times import EPOCH, MICROSECOND, iso_time, read_time, time_text
from trailgate.trail.format.times import julian_from_unix, unix_from_julian

COLON: Final = " :"


def show_time(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """Show the time."""
    now = (session.now() - EPOCH) // MICROSECOND
    yield _times(session, now)


def _times(session: Session, microseconds: int) -> Result:
    text = time_text(microseconds, session.settings.time_offset)
    rows = (
        ("Time", f"{text} ({session.settings.time_offset})"),
        ("GMT", iso_time(microseconds) or "no date"),
        ("Trail timestamp", str(julian_from_unix(microseconds))),
        ("Unix microseconds", str(microseconds)),
    )
    return Listing("", rows, COLON)


def compute_timestamp(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show a time as a trail's timestamp."""
    typed = " ".join(arguments.plain)
    yield _times(session, read_time(typed, session.settings.time_offset, session.now()))


def interpret_timestamp(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show a trail's timestamp as a time."""
    yield _times(session, unix_from_julian(arguments.number()))


def interpret_interval(_session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show microseconds as days, hours, minutes and seconds."""
    microseconds = arguments.number()
    seconds, rest = divmod(microseconds, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"
    yield Note(f"{days} days {clock}", {"microseconds": microseconds, "days": days})


def show_float(_session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show the number of an IEEE float of 4 or 8 bytes in hex."""
    digits = "".join(arguments.plain).removeprefix("0x")
    try:
        raw = bytes.fromhex(digits)
        kind = {4: ">f", 8: ">d"}[len(raw)]
    except (ValueError, KeyError) as error:
        raise OptionError("FLOAT takes 8 or 16 hex digits") from error
    value = struct.unpack(kind, raw)[0]
    yield Note(repr(value), {"value": repr(value)})


ROWS: Final = (
    Command(("TIME",), "", "Show the time.", show_time),
    Command(
        ("COMPUTETIMESTAMP", "CTS"),
        "time",
        "Show a time as a trail's timestamp.",
        compute_timestamp,
    ),
    Command(
        ("INTERPRETTIMESTAMP", "ITS", "CTIME"),
        "number",
        "Show a trail's timestamp as a time.",
        interpret_timestamp,
    ),
    Command(
        ("INTERPRETINTERVAL", "II"),
        "number",
        "Show microseconds as days, hours, minutes and seconds.",
        interpret_interval,
    ),
    Command(
        ("FLOAT",), "digits", "Show the number of an IEEE float of 4 or 8 bytes in hex.", show_float
    ),
)
