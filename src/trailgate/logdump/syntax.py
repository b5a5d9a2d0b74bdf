"""Parse Logdump's command lines: split a line into commands, and commands into arguments.

Arguments are numbers, hex digits, ranges of bytes (``0:231``), times, comparisons (``>= 100``,
``100 GE``, ``100``), and the names of codes such as record types.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, Final, TypeVar

from trailgate.errors import OptionError, did_you_mean
from trailgate.trail.format.record_types import ROWS
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS
from trailgate.trail.records.table_metadata import MetadataType

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
# 1024, -3, or 0x1F
NUMBER: Final = re.compile(r"[+-]?(?:(0[xX])[0-9A-Fa-f]{1,16}|[0-9]{1,20})", re.ASCII)
QUOTES: Final = "\"'"

# A quoted text; a text between slashes after a blank; a comma; or another run of characters.
ARGUMENT: Final = re.compile(r"\"[^\"]*\"|'[^']*'|(?<![^\s])/[^/]*/(?=[\s,]|$)|,|[^\s,]+")
RECORD_TYPES: Final[Mapping[str, int]] = MappingProxyType(
    {name.upper(): row.code for row in ROWS for name in (row.name, *row.also)}
)
INDICATORS: Final[Mapping[str, int]] = MappingProxyType(
    {"FIRST": 0, "BEGIN": 0, "MIDDLE": 1, "LAST": 2, "END": 2, "ONLY": 3, "WHOLE": 3}
)
GGS_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {row.name: row.code for row in GGS_TOKEN_ROWS}
)
METADATA_KINDS: Final[Mapping[str, MetadataType]] = MappingProxyType(
    {
        "DDR": MetadataType.DATABASE,
        "TDR": MetadataType.TABLE,
        "TDRREF": MetadataType.TABLE_REFERENCE,
        "PNR": MetadataType.PARTITION,
    }
)
# >=100 has the pieces >= and 100.
SIGN: Final = re.compile(r"[<>=!]+|[^<>=!]+")
QUOTING: Final = "put quotes around the value"
# The spellings of comparisons.
OPERATORS: Final[Mapping[str, Comparison]] = MappingProxyType(
    {
        **dict.fromkeys(("=", "==", "EQ"), operator.eq),
        **dict.fromkeys(("<>", "!=", "NE"), operator.ne),
        **dict.fromkeys(("<", "LT"), operator.lt),
        **dict.fromkeys(("<=", "LE"), operator.le),
        **dict.fromkeys((">", "GT"), operator.gt),
        **dict.fromkeys((">=", "GE"), operator.ge),
    }
)


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


Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class DataByteRange:
    """A range of a record's data bytes, such as ``0:231`` in a FILTER. It includes both ends.

    ``last`` is None for an open range.
    """

    first: int = 0
    last: int | None = None


def read_number(text: str, least: int = 0, greatest: int = 2**63 - 1) -> int:
    """Parse a number in a Logdump command: decimal, or hexadecimal after 0x. Raises OptionError."""
    matched = NUMBER.fullmatch(text)
    number = int(text, 16 if matched[1] else 10) if matched else least - 1
    if not least <= number <= greatest:
        raise OptionError(f"{text[:40]!r} is not a number from {least} to {greatest}")
    return number


def read_byte_range(words: Sequence[str]) -> DataByteRange:
    """Parse a byte range ``start:end`` of a Logdump command.

    If the word is missing, return the range of all bytes. Raises OptionError.
    """
    if not words:
        return DataByteRange()
    first, _, last = words[0].partition(":")
    if len(words) > 1 or not first:
        raise OptionError("a range is start:end, such as 0:231")
    return DataByteRange(read_number(first), read_number(last) if last else None)


def read_choice(text: str, choices: Mapping[str, Choice]) -> Choice:
    """Find the choice that a word of a Logdump command names. The word may be abbreviated.

    Raises OptionError unless exactly one choice matches.
    """
    folded = text.upper()
    if folded in choices:
        return choices[folded]
    matches = [choices[name] for name in choices if folded and name.startswith(folded)]
    # several names of one choice are the same object, and count once
    if len(set(map(id, matches))) != 1:
        problem = f"{text[:40]!r} is none of {list_names(choices)}"
        raise OptionError(problem, hint=did_you_mean(text[:40], choices))
    return matches[0]


def list_names(names: Iterable[str]) -> str:
    """Join the names of a Logdump command's choices with commas."""
    return ", ".join(names)


@dataclass(frozen=True, slots=True)
class CommandArguments:
    """The words after a Logdump command's name, including commas, and the complete text.

    Words keep their quotes; ``plain`` and ``phrases`` remove them.
    """

    words: tuple[str, ...]
    text: str = ""

    @property
    def plain(self) -> list[str]:
        """The words of the command without commas and quotes."""
        return [unquote(word) for word in self.words if word != ","]

    def phrases(self) -> list[list[str]]:
        """Split the words of the command at commas."""
        groups: list[list[str]] = [[]]
        for word in self.words:
            if word == ",":
                groups.append([])
            else:
                groups[-1].append(unquote(word))
        return [phrase for phrase in groups if phrase]

    def only(self, default: str | None = None) -> str:
        """Return the command's only word, or the default if there is none.

        Raises OptionError if there are several words, or neither a word nor a default.
        """
        plain = self.plain
        if len(plain) == 1:
            return plain[0]
        if not plain and default is not None:
            return default
        if plain:
            raise OptionError(f"one word was expected, not {' '.join(plain)[:40]!r}")
        raise OptionError("a word is missing at the end")

    def number(self, default: int | None = None) -> int:
        """Return the command's only word as a number, or the default if there is no word.

        Raises OptionError.
        """
        return read_number(self.only(None if default is None else str(default)))


def split_commands(line: str) -> list[str]:
    """Split a line into Logdump commands at semicolons outside of quotes."""
    pieces: list[str] = [""]
    # the quote character that is open, or ""
    quote = ""
    for letter in line:
        if letter == ";" and not quote:
            pieces.append("")
            continue
        if letter in QUOTES and quote in ("", letter):
            quote = "" if quote else letter
        pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip()]


def read_arguments(text: str) -> CommandArguments:
    """Split the text after a Logdump command into arguments."""
    return CommandArguments(tuple(ARGUMENT.findall(text)), text.strip())


class QuotedWord(str):
    """A word of a Logdump command that was quoted: a sign such as < in it is not a comparison."""

    __slots__ = ()


def unquote(word: str) -> str:
    """Remove the quotes around a word of a Logdump command.

    Returns a ``QuotedWord``; a word without quotes is returned unchanged.
    """
    if len(word) >= 2 and word[0] == word[-1] and word[0] in QUOTES:
        return QuotedWord(word[1:-1])
    return word


def type_codes(words: Sequence[str]) -> list[int]:
    """Return the codes of record types that are typed in a Logdump command, by name or number.

    Raises OptionError.
    """
    codes = []
    for word in words:
        if word.upper() in RECORD_TYPES:
            codes.append(RECORD_TYPES[word.upper()])
        elif word.isascii() and word[:1].isdigit():
            codes.append(read_number(word, 0, 255))
        else:
            raise OptionError(f"{word[:40]!r} is not a record type", hint="SHOW RECTYPE lists them")
    return codes


def indicator_code(word: str, greatest: int = 255) -> int:
    """Return the transaction indicator (TransInd) that a Logdump command gives by name or number.

    Raises OptionError.
    """
    return read_number(word, 0, greatest) if word.isdigit() else read_choice(word, INDICATORS)


def ggs_token_code(name: str) -> int:
    """Return the id of a GGS token that a Logdump command gives by name, by letter, or in hex as ``x52``.

    Raises OptionError.
    """
    code = GGS_TOKENS.get(name.upper())
    if code is None and name.lower().startswith("x"):
        code = read_number("0" + name.lower(), 0, 255)
    if code is None and len(name) == 1 and ord(name) < 256:
        code = ord(name)
    if code is None:
        hint = f"{list_names(GGS_TOKENS)}, or x and an id"
        raise OptionError(f"{name[:40]!r} is not a GGS token", hint=hint)
    return code


Comparison = Callable[[Any, Any], Any]


def read_comparison(
    words: Sequence[str], *, after_name: bool = False
) -> tuple[Comparison, list[str]]:
    """Split the words of a FILTER option into the comparison (by default equality) and the other words.

    With ``after_name``, the comparison may be between a name and a value, as in ``L>300``. Raises
    OptionError for an unknown sign such as ``=!``, for a second comparison, and for a comparison
    between two values.
    """
    comparisons: list[Comparison] = []
    rest: list[str] = []
    before = 0  # the number of values before the comparison
    for word in words:
        # A quoted word is one value: "a<b" has no comparison.
        for piece in (word,) if isinstance(word, QuotedWord) else SIGN.findall(word):
            compare = _operator(piece)
            if compare is not None:
                comparisons.append(compare)
                before = len(rest)
            else:
                rest.append(piece)
    if len(comparisons) > 1:
        raise OptionError("only one comparison is possible")
    if 0 < before < len(rest) and not after_name:
        one, other = (" ".join(part)[:40] for part in (rest[:before], rest[before:]))
        problem = f"a comparison is between {one!r} and {other!r}"
        raise OptionError(problem, hint=f"If it is a part of the value: {QUOTING}")
    return (comparisons or [operator.eq])[0], rest


def _operator(piece: str) -> Comparison | None:
    """Convert a comparison such as ``>=`` or ``GE`` to its function, or return None for a value.

    Raises OptionError for an unknown sign such as ``=!``.
    """
    if isinstance(piece, QuotedWord):
        return None
    compare = OPERATORS.get(piece.upper())
    if compare is None and piece[0] in "<>=!":
        raise OptionError(f"{piece!r} is not a comparison", hint=f"If it is a value: {QUOTING}")
    return compare


def compare_strings(compare: Comparison, left: bytes, right: bytes) -> bool:
    """Compare two values of a FILTER as numbers if both are digits, otherwise as text.

    An empty left value never matches.
    """
    if not left:
        return False
    if left.isdigit() and right.isdigit():
        return bool(compare(_digits(left), _digits(right)))
    return bool(compare(left, right))


def _digits(text: bytes) -> tuple[int, bytes]:
    """Return a sort key of a string of digits: strings are compared as numbers, however long they are."""
    # Without leading zeros the longer string is the greater number.
    bare = text.lstrip(b"0")
    return len(bare), bare
