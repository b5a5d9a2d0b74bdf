"""@DATE and @DATEDIFF: convert dates and times between formats, and compute their difference.

A format (descriptor) is text such as ``YYYY-MM-DD HH:MI:SS``: names of parts, and literal
characters. ``parse_descriptor`` splits it into parts, ``read_parts`` extracts the numbers of the
parts from a column of texts, and ``write_parts`` formats them. A two-digit year from 50 on belongs
to the twentieth century, any other to the twenty-first, which is the default of
Y2KCENTURYADJUSTMENT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.errors import OptionError
from trailgate.expressions.syntax import FunctionCall, Node, TextLiteral, expression_error
from trailgate.expressions.values import EvaluationScope, ExpressionValueType, Value, missing_of

MONTHS: Final = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS: Final = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
REFUSED: Final = ("JTSLCT", "JTSGMT", "JTS", "TTS", "PHAMIS", "STRATUS", "CDATE")
# One part of a descriptor such as YYYY-MM-DD HH:MI:SS.FFF, or one other character
_NAMES: Final = re.compile(
    rf"{'|'.join(REFUSED)}|JUL|YYYY|YY|CC|MMM|MM|MI|DDD|DD|DOW[01A]|HH|SS|F+|.", re.DOTALL
)
CENTURY: Final = 50  # the first two-digit year of the twentieth century
JULIAN_EPOCH: Final = 2440588  # the Julian day of 1970-01-01
THURSDAY: Final = 4  # the weekday of 1970-01-01, where Sunday is 0
DAY: Final = 86_400  # seconds
MICROSECONDS: Final = 6  # digits
# The format that @DATEDIFF reads, by Oracle's reference (docs.oracle.com, GoldenGate 26, @DATEDIFF).
# Columns have further digits, which must be zeros.
FORM: Final = "YYYY-MM-DD[ HH:MI[:SS]]"
_DATE_TIME: Final = r"^[0-9-]{10}([ :][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.0+)?)?)?$"
# Parts that are written in letters: the part that they follow from, and how.
_WORDS: Final[Mapping[str, tuple[str, Callable[[Longs], pa.Array]]]] = MappingProxyType(
    {
        "MMM": ("MM", lambda months: pa.array(MONTHS).take(pa.array(months - 1))),
        "DOWA": ("DOW0", lambda days: pa.array(WEEKDAYS).take(pa.array(days))),
    }
)
# The largest hour, minute and second.
_LIMITS: Final = {"HH": 23, "MI": 59, "SS": 59}


class DescriptorPart(NamedTuple):
    """A part of a date descriptor such as YYMMDD.

    ``name`` is YY, MM and so on, F for digits of a second, or "" for literal characters. ``text``
    is the part as written.
    """

    name: str
    text: str

    @property
    def width(self) -> int:
        """The number of characters to read for this part of a date: 7 for JUL, otherwise the length of ``text``."""
        return 7 if self.name == "JUL" else len(self.text)


def parse_descriptor(text: str, *, is_input: bool) -> tuple[DescriptorPart, ...]:
    """Split a date descriptor such as YYMMDD into parts.

    With ``is_input``, it describes a text to read, in which DOW cannot occur, and no part twice.
    Raises OptionError for a descriptor that is not supported.
    """
    result: list[DescriptorPart] = []
    for word in _NAMES.findall(text):
        if word in REFUSED:
            raise OptionError(f"@DATE does not support {word}")
        if is_input and word.startswith("DOW"):
            raise OptionError(
                f"@DATE can write {word} but not read it, as it does not determine a date"
            )
        if word[0] == "F" and len(word) > MICROSECONDS:
            hint = f"F to {'F' * MICROSECONDS} are digits of a second, and @STREXT takes the first characters of a value with more"
            raise OptionError(f"@DATE does not support {len(word)} digits of a second", hint=hint)
        is_name = len(word) > 1 or word == "F"
        result.append(DescriptorPart(("F" if word[0] == "F" else word) if is_name else "", word))
    names = [part.name for part in result if part.name]
    if is_input and len(set(names)) < len(names):
        raise OptionError("a part occurs twice in the format that @DATE reads")
    return tuple(result)


Parts = dict[str, Longs]


def read_parts(
    parts: Sequence[DescriptorPart], text: pa.Array
) -> tuple[Parts, np.ndarray[Any, Any]]:
    """Parse dates by the parts of a descriptor such as YYMMDD, for @DATE.

    Returns the number of each row by the name of the part, for example ``{"YY": [26], "MM": [1]}``,
    and a mask of the NULL rows. F is in microseconds. Raises OptionError if a text does not match
    the descriptor.
    """
    width = sum(part.width for part in parts)
    wrong = pc.fill_null(pc.not_equal(pc.utf8_length(text), width), False)
    numbers_by_part: Parts = {}
    at = 0
    for part in parts:
        piece = pc.utf8_slice_codeunits(text, at, at + part.width)
        at += part.width
        if not part.name:
            ok = pc.equal(piece, part.text)
        elif part.name == "MMM":
            month = pc.index_in(pc.utf8_upper(piece), pa.array(MONTHS))
            ok = pc.or_(pc.is_valid(month), pc.is_null(text))
            numbers_by_part["MM"] = (
                pc.add(month.fill_null(0), 1).to_numpy(zero_copy_only=False).astype(np.int64)
            )
        else:
            ok = pc.fill_null(pc.match_substring_regex(piece, r"^[0-9]+$"), True)
            # Rows that do not match get "1", so that the cast works; they are refused below.
            digits = pc.if_else(pc.and_(ok, pc.is_valid(piece)), piece, "1")
            digits_read = digits.cast(pa.int64()).to_numpy(zero_copy_only=False)
            # FFF reads milliseconds: 125 is 125 * 10**3 microseconds.
            numbers_by_part[part.name] = (
                digits_read * 10 ** (6 - len(part.text)) if part.name == "F" else digits_read
            )
        wrong = pc.or_(wrong, pc.fill_null(pc.invert(ok), False))
    _refuse(wrong, text, "".join(part.text for part in parts), partial(_length_hint, parts))
    return numbers_by_part, np.asarray(pc.is_null(text))


def _length_hint(parts: Sequence[DescriptorPart], value: str) -> str:
    """Return a hint for a text of @DATE that is longer or shorter than its descriptor, or "".

    A shorter text has a hint only if the descriptor has a fraction of a second.
    """
    width, form = sum(part.width for part in parts), "".join(part.text for part in parts)
    rest = value[width:]
    if re.fullmatch(r"\.[0-9]+", rest) and len(rest) <= MICROSECONDS + 1:
        return f"{form}.{'F' * (len(rest) - 1)} reads the fraction of a second, and @STREXT (..., 1, {width}) removes it"
    if rest:
        return f"@STREXT (..., 1, {width}) is the part that {form} reads"
    if len(value) < width and any(part.name == "F" for part in parts):
        return "Write one F for each digit of the fraction of a second"
    return ""


def _no_hint(_: str) -> str:
    return ""


def _refuse(
    wrong: pa.Array, text: pa.Array, descriptor: str, hint: Callable[[str], str] = _no_hint
) -> None:
    if pc.any(wrong, min_count=0).as_py():
        value = text[int(np.argmax(np.asarray(wrong)))].as_py()
        raise OptionError(f"{value!r} is not {descriptor}", hint=hint(value))


def days_of(parts: Parts, shown: pa.Array) -> Longs | None:
    """Convert the parts of dates to days since 1970, or None if they do not determine a date.

    Raises OptionError if a day does not exist. ``shown`` are the texts that errors show.
    """
    if "JUL" in parts:
        return parts["JUL"] - JULIAN_EPOCH
    year = parts.get("YYYY")
    if year is None and "YY" in parts:
        century = parts.get("CC")
        year = parts["YY"] + np.where(parts["YY"] < CENTURY, 2000, 1900)
        if century is not None:
            year = parts["YY"] + 100 * century
    if year is None or not ("DDD" in parts or {"MM", "DD"} <= parts.keys()):
        return None
    # numpy counts years, months and days since 1970.
    begin = (year - 1970).astype("datetime64[Y]")
    if "DDD" in parts:
        days = begin.astype("datetime64[D]") + (parts["DDD"] - 1)
        wrong = days.astype("datetime64[Y]") != begin
    else:
        month = begin.astype("datetime64[M]") + (parts["MM"] - 1)
        days = month.astype("datetime64[D]") + (parts["DD"] - 1)
        # Month 13 would be in the next year, and day 31 of a short month in the next month.
        wrong = (month.astype("datetime64[Y]") != begin) | (days.astype("datetime64[M]") != month)
    nulls = np.asarray(pc.is_null(shown))
    _refuse(pa.array(wrong & ~nulls), shown, "a day")
    return days.astype(np.int64)


def _of_day(days: Longs) -> Parts:
    """Convert days since 1970 to all parts of dates by name, such as ``YYYY`` and ``MM``."""
    day = days.astype("datetime64[D]")
    # numpy truncates to the first day of the month and the year, and differences count in the finer
    # unit. Example: 1970-03-05 is month 2 after the start of its year, and day 4 after the start of
    # its month.
    month, year = day.astype("datetime64[M]"), day.astype("datetime64[Y]")
    years = year.astype(np.int64) + 1970
    return {
        "YYYY": years,
        "YY": years % 100,
        "CC": years // 100,
        "MM": (month - year).astype(np.int64) + 1,
        "DD": (day - month).astype(np.int64) + 1,
        "DDD": (day - year.astype("datetime64[D]")).astype(np.int64) + 1,
        # 1970-01-01 was a Thursday.
        "DOW0": (days + THURSDAY) % 7,
        "DOW1": (days + THURSDAY) % 7 + 1,
        "JUL": days + JULIAN_EPOCH,
    }


def write_parts(
    parts: Sequence[DescriptorPart], known: Parts, days: Longs | None, rows: int
) -> pa.Array:
    """Format dates by the parts of a descriptor such as YYMMDD, for @DATE.

    The numbers of its parts are in ``known``, or follow from ``days`` (since 1970). Raises
    OptionError if a part is unknown.
    """
    numbers_known = known if days is None else {**known, **_of_day(days)}
    pieces = []
    for part in parts:
        source, as_word = _WORDS.get(part.name, (part.name, None))
        if not part.name:
            pieces.append(pa.repeat(part.text, rows) if rows else pa.array([], pa.string()))
            continue
        if source not in numbers_known:
            raise OptionError(f"{part.text} does not follow from the parts that @DATE reads")
        numbers = numbers_known[source]
        if as_word is not None:
            pieces.append(as_word(numbers))
            continue
        if part.name == "F":
            numbers = numbers // 10 ** (6 - len(part.text))
        width = 1 if part.name.startswith("DOW") else part.width
        pieces.append(pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0"))
    return pc.binary_join_element_wise(*pieces, "") if pieces else pa.array([""] * rows)


def check_times(parts: Parts, shown: pa.Array) -> None:
    """Raise OptionError if the hour, minute or second of a date is out of range.

    ``shown`` are the texts that errors show.
    """
    for name, most in _LIMITS.items():
        if name in parts:
            nulls = np.asarray(pc.is_null(shown))
            _refuse(
                pa.array((parts[name] > most) & ~nulls), shown, f"a time with {name} up to {most}"
            )


def date_value(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@DATE: parse values by their descriptors, such as YYMMDD, and format the date and time by the first descriptor."""
    form, *pairs = call.arguments
    rows = len(scope.block)
    known: Parts = {}
    nulls = np.zeros(rows, bool)
    values = []
    shown = pa.nulls(rows, pa.string())
    for descriptor, node in zip(pairs[::2], pairs[1::2], strict=True):
        value = scope.value(node)
        text = value.text()
        shown = pa.repeat(text, rows) if isinstance(text, pa.Scalar) else text
        parts_read, own_nulls = read_parts(_descriptor(descriptor, is_input=True), shown)
        # Later values override earlier ones: @DATE (f, 'YYMMDD', A, 'HHMI', B) collects both.
        known |= parts_read
        nulls |= own_nulls
        values.append(value)
    check_times(known, shown)
    days = days_of(known, shown)
    written = write_parts(_descriptor(form, is_input=False), known, days, rows)
    kind = (
        ExpressionValueType.NUMBER
        if isinstance(form, TextLiteral) and form.text == "JUL"
        else ExpressionValueType.TEXT
    )
    return Value(pc.if_else(pa.array(nulls), None, written), kind, missing_of(values))


def _descriptor(node: Node, *, is_input: bool) -> tuple[DescriptorPart, ...]:
    assert isinstance(node, TextLiteral)
    return parse_descriptor(node.text, is_input=is_input)


def check_date(call: FunctionCall, text: str) -> None:
    """Raise OptionError with a caret if a call of @DATE has an invalid descriptor."""
    form, *pairs = call.arguments
    for number, node in enumerate([form, *pairs[::2]]):
        if len(pairs) % 2 or not isinstance(node, TextLiteral):
            hint = "As in @DATE ('YYYY-MM-DD', 'YYMMDD', SOLD)"
            problem = "@DATE takes a descriptor, and pairs of a descriptor and a value"
            raise expression_error(problem, text, node.at, hint)
        try:
            parse_descriptor(node.text, is_input=number > 0)
        except OptionError as error:
            raise expression_error(error.problem, text, node.at, error.hint) from None


def date_difference(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@DATEDIFF: the days or seconds from one date and time to another, NULL if either is NULL.

    Raises OptionError if the result depends on whether a part of a day is counted as a day, which
    is not documented.
    """
    unit, *nodes = call.arguments
    assert isinstance(unit, TextLiteral)
    values = [scope.value(node) for node in nodes]
    (first, start, no_first), (second, end, no_second) = (
        _instants(value.text(), len(scope.block)) for value in values
    )
    days, seconds = second - first, (second - first) * DAY + end - start
    nulls = no_first | no_second
    if unit.text.upper() == "DD":
        # The difference of the dates must not depend on the times of day.
        wrong = (days != np.trunc(seconds / DAY)) & ~nulls
        if wrong.any():
            raise OptionError(
                f"it is not documented how many days {seconds[wrong][0] / 3600:g} hours between two dates are",
                hint="Use dates without times, as in @STREXT (SOLD, 1, 10), or 'SS'",
            )
        seconds = days
    return Value(pa.array(seconds, mask=nulls), ExpressionValueType.NUMBER, missing_of(values))


_PARTS: Final = parse_descriptor("YYYY-MM-DD HH:MI:SS", is_input=True)


def _instants(text: pa.Array | pa.Scalar, rows: int) -> tuple[Longs, Longs, np.ndarray[Any, Any]]:
    """Parse the dates and times of @DATEDIFF.

    Returns days since 1970, seconds since midnight, and a mask of the NULL rows. Raises OptionError
    if a text is not ``YYYY-MM-DD[ HH:MI[:SS]]``; a fraction must be zero.
    """
    shown = pa.repeat(text, rows) if isinstance(text, pa.Scalar) else text
    fits = pc.match_substring_regex(shown, _DATE_TIME)
    _refuse(pc.fill_null(pc.invert(fits), False), shown, FORM)
    times = pc.utf8_slice_codeunits(shown, 11, 19)
    # Complete the time: 8 characters need nothing, 5 need ":00", and 0 need "00:00:00".
    lacking = pc.index_in(pc.utf8_length(times), pa.array([8, 5, 0], pa.int32()))
    filled = pc.choose(lacking, "", ":00", "00:00:00")
    days_shown = pc.utf8_slice_codeunits(shown, 0, 10)
    completed = pc.binary_join_element_wise(days_shown, " ", times, filled, "")
    known, nulls = read_parts(_PARTS, completed)
    check_times(known, shown)
    days = days_of(known, shown)
    assert days is not None
    return days, known["HH"] * 3600 + known["MI"] * 60 + known["SS"], nulls
