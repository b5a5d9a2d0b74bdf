"""Parse and format columns of dates and times in the format language of properties files (capture properties §4.1).

A format such as ``YYYY-MM-DD:HH:MI:SS.FFF`` is compiled to layouts. Each layout has one length and
fixed offsets for its parts; optional digits result in several layouts. Compiled loops match each
value against the layouts and return ISO text or microseconds since 1970. Times are written in ISO
form, or with other separators for Db2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Octets, octets
from trailgate.columnar import temporal_kernels as kernels
from trailgate.columnar.numbers import parse_integers
from trailgate.columnar.rows import convert_valid_rows, row_error
from trailgate.columnar.strings import NO_NULLS, build_binary_column, matrix_to_strings, text_view
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import EncodeError, OptionError, Where

MOST_FRACTION_DIGITS: Final = 12  # Db2's TIMESTAMP(12); digits 10 to 12 must be zero

# Words of Java's date formats, such as yyyy, dd, HH, mm, ss and SSS
_WORDS: Final = re.compile("y+|d+|h+|H+|m+|s+|S+")
# One token of a format such as YYYY-MM-DD HH:MI:SS.FFF, or a character other than capitals and digits.
_SCANNER: Final = re.compile(r"YYYY|YY|MMM|MM|MI|M|DD|D|HH|SS|F[0-9]{1,2}|F+|[^A-Z0-9]", re.DOTALL)

__all__ = [
    "DEFAULT_FORMAT",
    "DateFormat",
    "compile_format",
    "iso_to_timestamp",
    "parse_datetimes",
    "parse_timestamps",
]

# Assumed, since the documentation leaves it open (capture properties §4.1, §13.6 and §13.11): these
# constants, and that a missing year, month or day is that of 1970-01-01 (see the kernel).
COMMIT_ZONE: Final = "UTC"  # commit times without a zone
# A number without a format has the form of JMSTimestamp: milliseconds since 1970. From 2001 to 2286
# these have 13 digits. Other numbers are rather seconds (10), or dates without separators: YYYYMMDDHHMI
# (12) and YYYYMMDDHHMISS (14) would become times in 1976 and in the year 2610.
EPOCH_DIGITS: Final = 13
UNFORMATTED: Final = (
    "Unless a format is configured, a date is year, month and day, with an optional time"
)
FINE_HINT: Final = "Timestamps hold microseconds. times=text reads the date times of a table as text with all their digits"

# A value of one of these lengths ends with a complete part: year, month, day, hour, minute, second.
_WHOLE_WIDTHS: Final[tuple[int, ...]] = (4, 7, 10, 13, 16, 19, *range(21, 30))
TO_HOUR: Final = len("YYYY-MM-DD HH")

_MONTHS: Final = b"JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
_NO_TIMES: Final = np.zeros(0, np.int64)
_NO_TEXT: Final = np.zeros(0, np.uint8)

DB2: Final = b"-..."  # YYYY-MM-DD-HH.MM.SS.ffffff
ISO: Final = b" ::."
ISO_T: Final = b"T::."


class DatePart(Enum):
    """A part of a date format, such as the year or the month."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    FRACTION = "fraction"


class DateField(NamedTuple):
    """The offset of one date part in a value. With ``letters``, the part is the three letters of a month."""

    part: DatePart
    start: int
    width: int
    letters: bool = False


class DateLayout(NamedTuple):
    """One layout of a date format's values: their length, the offset of each part, and the literals between."""

    length: int
    fields: tuple[DateField, ...]
    literals: tuple[tuple[int, bytes], ...]  # position, the bytes allowed there


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A compiled date format: its text, and the layouts of each length, the most common one first.

    ``origin`` is where the format was configured, for errors. Formats that differ only in origin
    are equal.
    """

    text: str
    layouts: tuple[DateLayout, ...]
    origin: str = field(default="", compare=False, repr=False)

    def __hash__(self) -> int:
        """Return the hash of the text only, so that lookups of compiled tables by format are fast."""
        return hash(self.text)


class _Token(NamedTuple):
    part: DatePart | None
    widths: tuple[int, ...]
    literal: bytes = b""
    letters: bool = False


# By word of a format. A part with two widths, such as D, makes layouts of both.
_TOKENS: Final[Mapping[str, _Token]] = MappingProxyType(
    {
        "YYYY": _Token(DatePart.YEAR, (4,)),
        "YY": _Token(DatePart.YEAR, (2,)),
        "MMM": _Token(DatePart.MONTH, (3,), letters=True),
        "MM": _Token(DatePart.MONTH, (2,)),
        "M": _Token(DatePart.MONTH, (2, 1)),
        "DD": _Token(DatePart.DAY, (2,)),
        "D": _Token(DatePart.DAY, (2, 1)),
        "HH": _Token(DatePart.HOUR, (2,)),
        "MI": _Token(DatePart.MINUTE, (2,)),
        "SS": _Token(DatePart.SECOND, (2,)),
    }
)
_UTC: Final = _Token(None, (1,), b"Z")  # commit times without a zone are in UTC too
# Words of Java's format language, and the parts that they mean.
_FOREIGN: Final = {
    "yy": DatePart.YEAR,
    "dd": DatePart.DAY,
    "hh": DatePart.HOUR,
    "mm": DatePart.MINUTE,
    "ss": DatePart.SECOND,
}


@cache
def compile_format(text: str) -> DateFormat:
    """Compile a date format. Raises OptionError for text that is not part of the format language.

    Tokens: YYYY YY M MM MMM D DD HH MI SS, and F repeated or Fn. MM after HH is minutes; M and D
    have one or two digits. Everything else is literal, such as the Z of UTC at the end of ISO 8601
    times. A fraction at the end of a format matches any number of digits, because fields of 22 and
    23 characters share the one documented format, which has FF.
    """
    tokens = _minutes(list(_scan(text.strip())))
    _check_capitals(tokens, text)
    _check(tokens, text)
    layouts = [DateLayout(0, (), ())]
    for i, token in enumerate(tokens):
        open_end = token.part is DatePart.FRACTION and tokens[i + 1 :] in ([], [_UTC])
        widths = _any_width(token.widths[0]) if open_end else token.widths
        # Every width of a token makes its own layouts: D.MM.YYYY has one with D and one with DD.
        layouts = [_extend(layout, token, width) for layout in layouts for width in widths]
    return DateFormat(text, tuple(layouts))


def _any_width(first: int) -> tuple[int, ...]:
    others = (n for n in range(1, MOST_FRACTION_DIGITS + 1) if n != first)
    return (first, *others)


def _scan(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _SCANNER.match(text, at)
        if match is None and text[at] != "T" and text[at:] != "Z":
            raise OptionError(
                f"date format {text!r} is not understood at {text[at:]!r}",
                hint="Tokens: YYYY YY MM M MMM DD D HH MI SS FFF; everything else except capitals and digits is literal, and so is a Z at the end",
            )
        word = match.group() if match else text[at]
        at += len(word)
        if word in _TOKENS:
            yield _TOKENS[word]
        elif word[0] == "F":
            yield _fraction(word, text)
        else:
            yield _Token(None, (len(word.encode()),), word.encode())


def _fraction(word: str, text: str) -> _Token:
    digits = int(word[1:]) if word[1:].isdigit() else len(word)
    if not 1 <= digits <= MOST_FRACTION_DIGITS:
        problem = f"date format {text!r} has {digits} fraction digits"
        raise OptionError(problem, hint=f"A fraction has 1 to {MOST_FRACTION_DIGITS} digits")
    return _Token(DatePart.FRACTION, (digits,))


def _minutes(tokens: list[_Token]) -> list[_Token]:
    """Return a date format's tokens, in which the first MM after HH means minutes, as in the examples of the manuals.

    If the format has MI or no HH, nothing is changed.
    """
    parts = [token.part for token in tokens]
    if DatePart.HOUR not in parts or DatePart.MINUTE in parts:
        return tokens
    hour = parts.index(DatePart.HOUR)
    for i in range(hour + 1, len(tokens)):
        if tokens[i] is _TOKENS["MM"]:
            return [*tokens[:i], _TOKENS["MI"], *tokens[i + 1 :]]
    return tokens


def _check(tokens: list[_Token], text: str) -> None:
    parts = [token.part for token in tokens if token.part is not None]
    if not parts:
        raise OptionError(f"date format {text!r} has no part of a date")
    for part, same in groupby(sorted(parts, key=lambda p: p.value)):
        if len(list(same)) > 1:
            raise OptionError(f"date format {text!r} has the {part.value} twice")
    for this, following in pairwise(tokens):
        literal_digit = following.literal[:1].isdigit()
        if len(this.widths) > 1 and (following.part is not None or literal_digit):
            raise OptionError(
                f"date format {text!r} has a one-or-two-digit part without a separator after it",
                hint="Write MM or DD",
            )
    if DatePart.FRACTION in parts and DatePart.SECOND not in parts:
        raise OptionError(f"date format {text!r} has a fraction without seconds")


def _check_capitals(tokens: list[_Token], text: str) -> None:
    """Raise OptionError for letters that have a meaning in other format languages, and would only be literals here."""
    # Such a format is probably Java's: yyyy-MM-dd HH:mm:ss. The hint translates each word: "mm" is
    # the month if it precedes the hours, and otherwise the minutes; SSS are digits of a fraction.
    parts = {token.part for token in tokens}
    if any(part not in parts and word in text for word, part in _FOREIGN.items()):
        hour = re.search("[hH]", text)
        end = hour.start() if hour else len(text)

        def ours(match: re.Match[str]) -> str:
            word = match[0]
            if word[0] == "m":
                return "MM" if match.start() < end and "MM" not in text[:end] else "MI"
            return "F" * len(word) if len(word) > 2 and word[0] in "sS" else word.upper()

        raise OptionError(
            f"date format {text!r} has lower-case letters, which are literal text",
            hint=f"Did you mean {_WORDS.sub(ours, text)}?",
        )


def _extend(layout: DateLayout, token: _Token, width: int) -> DateLayout:
    # Example: after YYYY (length 4), the literal "-" is allowed at offset 4, and MM is at 5.
    at = layout.length
    if token.part is not None:
        field = DateField(token.part, at, width, token.letters)
        return DateLayout(at + width, (*layout.fields, field), layout.literals)
    extra = tuple((at + i, bytes([byte])) for i, byte in enumerate(token.literal))
    return DateLayout(at + width, layout.fields, (*layout.literals, *extra))


def _default() -> DateFormat:
    """Return the lenient default: time and fraction are optional, and a blank, T or colon precedes the time.

    The documented default is YYYY-MM-DD:HH:MI:SS.FFF. Some manuals print a blank in place of the
    colon, and the XML samples rely on the default without a fraction (capture properties §4.1 and
    §11).
    """
    layouts = []
    for shape in (
        "YYYY-MM-DD:HH:MI:SS.FFF",
        "YYYY-MM-DD:HH:MI:SS",
        "YYYY-MM-DD",
        "YYYY-MM-DD:HH:MI",
    ):
        for layout in compile_format(shape).layouts:
            literals = tuple((at, b" T:" if at == 10 else text) for at, text in layout.literals)
            layouts.append(layout._replace(literals=literals))
    return DateFormat("YYYY-MM-DD:HH:MI:SS.FFF", tuple(layouts))


DEFAULT_FORMAT: Final = _default()


def _db2() -> DateFormat:
    """Return Db2's ISO forms and their variants: a date, or a timestamp with 0 to 12 fraction digits.

    Db2 writes YYYY-MM-DD-HH.MM.SS.ffffff. A blank or T before the time, and colons within it, are
    accepted too.
    """
    layouts = []
    for shape in ("YYYY-MM-DD-HH.MI.SS", "YYYY-MM-DD", "YYYY-MM-DD-HH.MI.SS.FFFFFF"):
        for layout in compile_format(shape).layouts:
            allowed = {10: b"- T", 13: b".:", 16: b".:"}
            literals = tuple((at, allowed.get(at, text)) for at, text in layout.literals)
            layouts.append(layout._replace(literals=literals))
    return DateFormat("YYYY-MM-DD-HH.MI.SS.FFFFFF", tuple(layouts))


DB2_FORMAT: Final = _db2()


# The number of each part in the kernels: YEAR is 0, as in dates.py.
_PARTS: Final = {part: number for number, part in enumerate(DatePart)}


def parse_datetimes(values: pa.StringArray, fmt: DateFormat, width: int) -> pa.StringArray:
    """Parse a column of dates to ISO text, YYYY-MM-DD HH:MI:SS.ffffff, cut to ``width`` (the column's external length).

    Width 10 is enough for a date, 19 for a time to the second, and 20 + n for a time with n
    fraction digits (at most 9). Nulls stay null. Raises DecodeError, with the row in
    ``where.record``, for a value that does not match the format, or has digits other than zero
    beyond the width.
    """
    size = iso_width(width)

    def convert(dense: pa.Array) -> pa.Array:
        out = np.empty(len(dense) * size + SPARE, np.uint8)
        _read(dense, fmt, size, _NO_TIMES, out)
        offsets = np.arange(len(dense) + 1, dtype=np.int32) * np.int32(size)
        return build_binary_column(offsets, out, NO_NULLS, text=True)

    return convert_valid_rows(convert, values)


def iso_width(width: int) -> int:
    """Return how many characters of an ISO time, YYYY-MM-DD HH:MI:SS.ffffff, fit in a datetime column of ``width`` characters.

    Raises OptionError if not even the year (4 characters) fits.
    """
    # Example: a column of 21 characters has one fraction digit, but one of 20 would end with the
    # point, and holds 19.
    fitting = [complete_width for complete_width in _WHOLE_WIDTHS if complete_width <= width]
    if not fitting:
        raise OptionError(f"a datetime column cannot be {width} characters wide")
    return fitting[-1]


def parse_timestamps(values: pa.StringArray, fmt: DateFormat | None) -> tuple[Longs, int]:
    """Parse a column of times to microseconds since 1970 UTC.

    Without a format, they are milliseconds since 1970, of 13 digits.

    Fraction digits beyond microseconds are dropped. The second result is the first row in which
    these are not zeros, or -1. Raises DecodeError, with the row in ``where.record``, for a null or a
    value that does not match.
    """
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise row_error("the commit time is null", values, row)
    return (_epoch_milliseconds(values), -1) if fmt is None else _microseconds(values, fmt)


def _epoch_milliseconds(values: pa.StringArray) -> Longs:
    milliseconds = parse_integers(values, 0, 8, signed=True).to_numpy()
    bad = (milliseconds < 10 ** (EPOCH_DIGITS - 1)) | (milliseconds >= 10**EPOCH_DIGITS)
    if bad.any():
        raise row_error(
            "not a time in milliseconds since 1970",
            values,
            int(np.argmax(bad)),
            f"A number without a format is milliseconds since 1970, which have {EPOCH_DIGITS} digits",
        )
    micros: Longs = milliseconds * 1000
    return micros


def _microseconds(values: pa.StringArray, fmt: DateFormat) -> tuple[Longs, int]:
    out = np.empty(len(values), np.int64)
    return out, _read(values, fmt, 0, out, _NO_TEXT)


def _read(values: pa.StringArray, fmt: DateFormat, size: int, micros: Longs, iso: Octets) -> int:
    """Parse times of a date format: to microseconds, or if ``size`` is not 0 to ISO text of that many characters.

    Writes them to ``micros`` or ``iso``. Returns the first row whose value the microseconds
    truncate, or -1. Raises DecodeError for the first bad row, with all bad rows in ``alike``.
    """
    offsets, data = text_view(values)
    tables, part = _tables(fmt), np.empty(kernels.PARTS, np.int64)
    row = kernels.read_times(data, offsets, tables, size, part, micros, iso, NO_NULLS)
    if row >= 0:
        hint = UNFORMATTED if fmt is DEFAULT_FORMAT else _configure(fmt)
        error = row_error(_wrong(fmt), values, row, hint)
        wrong = np.zeros(len(values), np.bool_)
        kernels.read_times(data, offsets, tables, size, part, micros, iso, wrong)
        error.alike = np.flatnonzero(wrong).tolist()
        raise error
    return int(part[kernels.CUT])


def _wrong(fmt: DateFormat) -> str:
    return f"not a date in the form {fmt.text}, or digits that would be lost"


def _configure(fmt: DateFormat) -> str:
    return f"The form is that of {fmt.origin}" if fmt.origin else ""


@cache
def _tables(fmt: DateFormat) -> kernels.LayoutTables:
    """Return a date format's layouts, fields, literals and shapes as arrays for the kernel."""
    layouts: list[tuple[int, ...]] = []
    fields: list[tuple[int, ...]] = []
    literals: list[tuple[int, ...]] = []
    for layout in fmt.layouts:
        # All layouts share flat tables: a layout has the ranges of its rows in them. Literals with
        # several allowed bytes come first: those of one byte are usually compared by the shape.
        before = len(fields), len(literals)
        fields += [(_PARTS[f.part], f.start, f.width, f.letters) for f in layout.fields]
        several = [row for row in layout.literals if len(row[1]) > 1]
        single = [row for row in layout.literals if len(row[1]) == 1]
        # The kernel always compares with three bytes: b"-/" is stored as - / -, b":" as : : :.
        literals += [(at, *(allowed * 3)[:3]) for at, allowed in several + single]
        start_of = {field.part: field.start for field in layout.fields}
        starts = (start_of.get(part, -1) for part in list(DatePart)[:6])
        ends = (before[0], len(fields), before[1], len(literals), before[1] + len(several))
        layouts.append((layout.length, *ends, *starts))
    rows = [np.array(table, np.int64).ravel() for table in (layouts, fields, literals)]
    shapes = np.concatenate([_shape(layout) for layout in fmt.layouts]).view(np.uint64)
    return kernels.LayoutTables(rows[0], rows[1], rows[2], shapes, octets(_MONTHS))


def _shape(layout: DateLayout) -> Octets:
    """Return the shape of a date layout, to compare eight bytes of a value at once: masks and expected bytes.

    They are zeros if the layout has parts that are not pairs of digits, or is too long.
    """
    # For "HH:MI": mask F0 F0 FF F0 F0, the expected bytes under it 30 30 3A 30 30, and digits F0 F0 00 F0 F0.
    mask, left, digits = shape = np.zeros((3, kernels.SHAPED), np.uint8)
    if layout.length > kernels.SHAPED or not all(map(_is_pairs, layout.fields)):
        return shape.ravel()
    for part in layout.fields:
        within = slice(part.start, part.start + part.width)
        mask[within], left[within], digits[within] = 0xF0, 0x30, 0xF0
    for at, allowed in layout.literals:
        if len(allowed) == 1:
            mask[at], left[at] = 0xFF, allowed[0]
    return shape.ravel()


def _is_pairs(field: DateField) -> bool:
    """Return whether a field of a date layout consists of pairs of digits: two for the year, otherwise one."""
    width = 4 if field.part is DatePart.YEAR else 2
    return field.width == width and not field.letters and field.part is not DatePart.FRACTION


def iso_to_timestamp(values: pa.StringArray, width: int) -> pa.Array:
    """Convert ISO text of a given width to date32 (width 10) or naive timestamp[us].

    Raises DecodeError, with the row in ``where.record``, if digits beyond microseconds are not
    zero.
    """

    def convert(dense: pa.Array) -> pa.Array:
        offsets, data = text_view(dense)
        micros, part = np.empty(len(dense), np.int64), np.empty(7, np.int64)
        if kernels.read_iso(data, offsets, width, part, micros) >= 0:
            if width == TO_HOUR:  # the default format has no layout that ends with the hour
                dense = pc.binary_join_element_wise(dense, ":00", "")
            micros, cut = _microseconds(dense, DEFAULT_FORMAT)
            if cut >= 0:
                hint = FINE_HINT
                raise row_error(_wrong(DEFAULT_FORMAT), dense, cut, hint)
        if width == 10:
            # ``date32`` counts days since 1970. ``//`` rounds down, so this is right before 1970
            # too.
            return pa.array((micros // 86_400_000_000).astype(np.int32)).view(pa.date32())
        return pa.array(micros).view(pa.timestamp("us"))

    return convert_valid_rows(convert, values)


def format_times(micros: Longs, marks: bytes = ISO, *, trimmed: bool = False) -> pa.StringArray:
    """Format microseconds since 1970 as text of 26 characters. With ``trimmed``, complete seconds have 19.

    ``marks`` are the characters before hours, minutes, seconds and the fraction. Raises
    EncodeError, with the row in ``where.record``, for a time outside the years 1 to 9999.
    """
    times = np.ascontiguousarray(micros, np.int64)
    offsets = np.empty(len(times) + 1, np.int32)
    out = np.empty(len(times) * kernels.LONGEST, np.uint8)
    _check_text_format(times, kernels.write_times(times, octets(marks), trimmed, offsets, out))
    return build_binary_column(offsets, out, NO_NULLS, text=True)


def format_ordinals(micros: Longs) -> tuple[pa.StringArray, pa.StringArray]:
    """Format microseconds since 1970 as YYYYDDD and HHMMSSffffff. Raises the same errors as ``format_times``."""
    times = np.ascontiguousarray(micros, np.int64)
    dates = np.empty((len(times), kernels.DATE), np.uint8)
    clocks = np.empty((len(times), kernels.CLOCK), np.uint8)
    _check_text_format(times, kernels.write_ordinals(times, dates.reshape(-1), clocks.reshape(-1)))
    return matrix_to_strings(dates), matrix_to_strings(clocks)


def replace_time_marks(values: pa.StringArray, marks: bytes) -> pa.StringArray:
    """Replace the separators before hours, minutes and seconds in a column of ISO times, in those that are long enough to have them."""
    offsets, data = text_view(values)
    changed = data[offsets[0] : offsets[-1]].copy()
    lengths, starts = np.diff(offsets), offsets[:-1] - offsets[0]
    # Offsets in YYYY-MM-DD HH:MI:SS.
    for at, mark in zip((10, 13, 16), marks, strict=False):
        changed[starts[lengths > at] + at] = mark
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    return build_binary_column(
        offsets - offsets[0], changed, NO_NULLS if valid is None else ~valid, text=True
    )


def _check_text_format(micros: Longs, row: int) -> None:
    if row >= 0:
        problem = f"{int(micros[row])} microseconds since 1970 are not in the years 1 to 9999"
        raise EncodeError(problem, where=Where(record=row))
