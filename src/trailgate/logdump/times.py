"""Times in Logdump: parse and format times and time zones, as commands and output have them.

A time is microseconds since 1970 UTC. ``TimeOffset`` is the session's time zone, in which times are
typed and shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from trailgate.errors import OptionError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
# 2026-07-01, or 26/7/1
DATE: Final = r"(?P<year>\d{4}|\d{2})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"
# 12, 12:30, or 12:30:00.123456
CLOCK: Final = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?P<rest>[.\d]*))?)?"
TYPED: Final = re.compile(rf"(?:{DATE})?[ T:]*(?:{CLOCK})?", re.ASCII)
FORM: Final = "[[yy]yy-mm-dd] [hh[:mm[:ss]]]"
# +02:00, -5
GMT_OFFSET: Final = re.compile(r"([+-])\s*(\d{1,2})(?::?(\d{2}))?")


@dataclass(frozen=True, slots=True)
class TimeOffset:
    """The time zone of a Logdump session: the machine's time zone, or a number of minutes east of GMT."""

    minutes: int | None = 0  # None means the machine's time zone

    def __str__(self) -> str:
        if self.minutes is None:
            return "LOCAL"
        hours, minutes = divmod(abs(self.minutes), 60)
        sign = "-" if self.minutes < 0 else "+"
        return f"GMT {sign}{hours:02}:{minutes:02}" if self.minutes else "GMT"


GMT: Final = TimeOffset()


def time_text(microseconds: int, offset: TimeOffset) -> str:
    """Format a time as Logdump does: ``2022/12/26 15:03:45.978.220``, or as a number if it is out of range."""
    try:
        at = (EPOCH + timedelta(microseconds=microseconds)).astimezone(_zone(offset))
    except (OverflowError, ValueError, OSError):
        return f"({microseconds} microseconds)"
    date = f"{at.year:04}/{at.month:02}/{at.day:02} {at.hour:02}:{at.minute:02}:{at.second:02}"
    return f"{date}.{at.microsecond // 1000:03}.{at.microsecond % 1000:03}"


def iso_time(microseconds: int) -> str | None:
    """Format a time for Logdump's JSON output in ISO form (UTC), or return None if it is out of range."""
    try:
        at = EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def read_time(text: str, offset: TimeOffset, now: datetime) -> int:
    """Parse a time in a Logdump command as microseconds since 1970 UTC.

    Without a date it is a time of today. Raises OptionError.
    """
    matched = TYPED.fullmatch(text.strip())
    if matched is None or not text.strip():
        raise OptionError(f"{text!r} is not a time", hint=f"A time is {FORM}")
    zone = _zone(offset)
    today = now.astimezone(zone)
    part = {name: int(digits) for name, digits in matched.groupdict().items() if _number(digits)}
    year = part.get("year", today.year)
    try:
        at = datetime(  # noqa: DTZ001  the zone is set below: a local one depends on the time
            year + 2000 if year < 100 else year,
            part.get("month", today.month),
            part.get("day", today.day),
            part.get("hour", 0),
            part.get("minute", 0),
            part.get("second", 0),
        )
        aware = at.replace(tzinfo=zone) if zone is not None else at.astimezone()
        # ".978.220" → 978220 microseconds
        fraction = (matched["rest"] or "").replace(".", "")[:6].ljust(6, "0")
        return (aware - EPOCH) // MICROSECOND + int(fraction)
    except (ValueError, OverflowError, OSError) as error:
        raise OptionError(f"{text!r} is not a time: {error}") from error


def read_offset(text: str) -> TimeOffset:
    """Parse a time zone in a Logdump command: ``LOCAL``, ``GMT`` or ``GMT +hh[:mm]``.

    Raises OptionError.
    """
    word = text.strip().upper()
    if word == "LOCAL":
        return TimeOffset(None)
    matched = GMT_OFFSET.fullmatch(word.removeprefix("GMT").strip() or "+0")
    if not word.startswith("GMT") or matched is None:
        raise OptionError(f"{text!r} is not a time offset", hint="LOCAL, GMT, or GMT +hh:mm")
    minutes = int(matched[2]) * 60 + int(matched[3] or 0)
    if minutes >= 24 * 60:
        raise OptionError(f"{text!r} is a day or more")
    return TimeOffset(-minutes if matched[1] == "-" else minutes)


def _number(text: str | None) -> bool:
    return bool(text) and str(text).isdigit()


def _zone(offset: TimeOffset) -> timezone | None:
    return None if offset.minutes is None else timezone(timedelta(minutes=offset.minutes))
