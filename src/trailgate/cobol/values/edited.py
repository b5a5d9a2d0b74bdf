"""Read and print edited numbers, such as ``1,234.50-`` with the picture ``Z,ZZ9.99-``.

A picture becomes a list of positions, one per printed character, each with a
``PrintedPositionType``: a digit, a suppressed digit, a floating symbol, an insertion, a sign. Both
directions process the positions from left to right, each for all rows at once. For each row they
keep track of whether the first digit has been reached, and of the sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as member
from enum import Enum
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField
from trailgate.cobol.values.code_pages import page_of_field
from trailgate.cobol.values.codec import DecodedColumn, Decoder, Encoder, ValueOptions
from trailgate.cobol.values.decimals import (
    DigitBytes,
    DigitRows,
    decimal_digit_table,
    decode_decimal_digits,
    digits_of,
    number_form,
    number_of,
)
from trailgate.cobol.values.kernels import MINUS, WRONG
from trailgate.cobol.values.zoned import zone_of
from trailgate.errors import DefinitionError, Where

# A symbol of a picture and its repetition: Z(3), 9, CR
_PART: Final = re.compile(r"(CR|DB|.)(?:\((\d+)\))?")

# Reading yields digits 0 to 9 and a sign code: 0 plus, 1 minus, _BAD.
_DIGITS: Final = decimal_digit_table(bytes(range(10)))
_SIGNS: Final = np.full(256, WRONG)
_SIGNS[:2] = 0, MINUS
_BAD: Final = 2

_SYMBOLS: Final = "0123456789 +-$*,./CRDB"
# By floating symbol: the characters that may precede the first digit.
_FLOATED: Final = {"+": "+- ", "-": "- ", "$": "$ "}


class PrintedPositionType(Enum):
    """The type of a printed position of an edited number, such as a digit or a sign."""

    DIGIT = "digit"  # 9
    SUPPRESSED = "suppressed"  # Z and *: a digit, or the filler before the first one
    FLOATING = "floating"  # + - $ more than once: a digit, a blank, or the symbol itself
    FLOAT_BEGIN = "float begin"  # the first floating symbol, which is never a digit
    INSERTED = "inserted"  # , . B 0 /
    SIGN = "sign"  # a single + or -
    CURRENCY = "currency"  # a single $
    CREDIT = "credit"  # a letter of CR or DB


@dataclass(frozen=True, slots=True)
class PrintedPosition:
    """One printed character of an edited number. ``symbol`` is the picture's symbol, with B as a blank."""

    kind: PrintedPositionType
    symbol: str


# Symbols that have a fixed position if they occur once, and float otherwise.
_FIXED: Final = {
    "+": PrintedPositionType.SIGN,
    "-": PrintedPositionType.SIGN,
    "$": PrintedPositionType.CURRENCY,
}
# V, S and P print nothing.
_PLAIN: Final[Mapping[str, tuple[tuple[PrintedPositionType, str], ...]]] = MappingProxyType(
    {
        "9": ((PrintedPositionType.DIGIT, "9"),),
        "Z": ((PrintedPositionType.SUPPRESSED, " "),),
        "*": ((PrintedPositionType.SUPPRESSED, "*"),),
        "B": ((PrintedPositionType.INSERTED, " "),),
        "CR": ((PrintedPositionType.CREDIT, "C"), (PrintedPositionType.CREDIT, "R")),
        "DB": ((PrintedPositionType.CREDIT, "D"), (PrintedPositionType.CREDIT, "B")),
        **{symbol: ((PrintedPositionType.INSERTED, symbol),) for symbol in ",.0/"},
    }
)


def printed_positions(field: CopybookField) -> tuple[PrintedPosition, ...]:
    """Return the printed positions of an edited field. Raises DefinitionError if they do not fit its size."""
    # Z(3)9.99 has the symbols Z Z Z 9 . 9 9. A sign or currency symbol that occurs more than once
    # floats, as in --9; in -9 it has a fixed position.
    symbols = []
    for symbol, count in _PART.findall(field.picture.upper()):
        symbols += [symbol] * int(count or 1)
    floating = {s for s in _FIXED if symbols.count(s) > 1}
    started: set[str] = set()
    result: list[PrintedPosition] = []
    for symbol in symbols:
        result += _positions(symbol, floating, started)
    if len(result) != field.size:
        problem = f"the picture {field.picture} does not print {field.size} characters"
        raise DefinitionError(problem, where=Where(field=field.name))
    return tuple(result)


def _positions(symbol: str, floating: set[str], started: set[str]) -> list[PrintedPosition]:
    """Return the printed positions of one symbol of an edited picture.

    ``floating`` are the floating symbols of the picture. ``started`` are the floating symbols seen so
    far; ``symbol`` is added if it floats.
    """
    if symbol in floating:
        kind = (
            PrintedPositionType.FLOATING if symbol in started else PrintedPositionType.FLOAT_BEGIN
        )
        started.add(symbol)
        return [PrintedPosition(kind, symbol)]
    if symbol in _FIXED:
        return [PrintedPosition(_FIXED[symbol], symbol)]
    return [PrintedPosition(kind, shown) for kind, shown in _PLAIN.get(symbol, ())]


def format_zero(printed: tuple[PrintedPosition, ...]) -> str | None:
    """Return the printed form of zero in an edited field if every digit is suppressed, otherwise None.

    It is blank, or consists of stars and the decimal point.
    """
    if any(position.kind is PrintedPositionType.DIGIT for position in printed):
        return None
    # ZZ.ZZ prints zero as five blanks, and **.** prints it as **.**.
    stars = any(position.symbol == "*" for position in printed)
    return "".join("." if stars and p.symbol == "." else "*" if stars else " " for p in printed)


_HOLDING_DIGITS: Final = (
    PrintedPositionType.DIGIT,
    PrintedPositionType.SUPPRESSED,
    PrintedPositionType.FLOATING,
)


def _bytes_of(field: CopybookField, options: ValueOptions) -> npt.NDArray[np.uint8]:
    """Return a table from the characters of edited numbers to their bytes in the field's code page.

    It is indexed by ASCII code. With DECIMAL-POINT IS COMMA, comma and point are swapped.
    """
    zone_of(field, options)  # raises for code pages without single-byte digits
    table = np.zeros(256, np.uint8)
    encoded = page_of_field(field, options).encode(pa.array(list(_SYMBOLS))).to_pylist()
    for character, byte in zip(_SYMBOLS, encoded, strict=True):
        table[ord(character)] = byte[0]
    if field.comma:
        table[[ord("."), ord(",")]] = table[[ord(","), ord(".")]]
    return table


@dataclass(slots=True)
class _Read:
    """The state of reading edited numbers: what is known of each row after the positions so far.

    ``started`` is a mask of the rows whose first digit or decimal point has been read. Before it,
    an insertion may be replaced by one of the characters ``fills``.
    """

    bad: Mask
    started: Mask
    negative: Mask
    fills: str = " "
    digits: list[npt.NDArray[np.uint8]] = member(default_factory=list)


def decode_edited(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return the decoder of an edited number such as ``1,234.50-``."""
    form, printed = number_form(field, options), printed_positions(field)
    back = np.zeros(256, np.uint8)
    table = _bytes_of(field, options)
    # Map bytes back to ASCII, so that reading does not depend on the code page.
    for character in _SYMBOLS:
        back[table[ord(character)]] = ord(character)
    zero = format_zero(printed)
    digit_bytes = DigitBytes(
        _DIGITS, 10, _SIGNS, sign_at=sum(p.kind in _HOLDING_DIGITS for p in printed)
    )
    template = None if zero is None else np.frombuffer(zero.encode(), np.uint8)

    def decode(matrix: Octets) -> DecodedColumn:
        shown = back[matrix]
        rows = len(matrix)
        state = _Read(np.zeros(rows, bool), np.zeros(rows, bool), np.zeros(rows, bool))
        for at, position in enumerate(printed):
            _READERS[position.kind](state, shown[:, at], position)
        state.bad |= _torn_credit(shown, printed)
        if template is not None:
            # A fully suppressed zero is valid, although no digit is printed.
            state.bad &= ~(shown == template).all(axis=1)
        signs = np.where(state.bad, _BAD, state.negative).astype(np.uint8)
        digits = np.column_stack([*state.digits, signs])
        return decode_decimal_digits(form, digit_bytes, digits, written=matrix)

    return decode


def _any_of(column: Octets, characters: str) -> Mask:
    """Return a mask of the printed numbers that have one of ``characters`` at this position."""
    return np.isin(column, np.frombuffer(characters.encode(), np.uint8))


def _read_digit(state: _Read, column: Octets, position: PrintedPosition) -> None:
    del position
    value = column - np.uint8(ord("0"))
    state.bad |= value > 9
    state.started[:] = True
    state.digits.append(np.minimum(value, 9))


def _read_suppressed(state: _Read, column: Octets, position: PrintedPosition) -> None:
    """Read a suppressed or floating position: a digit, or a fill character before the first digit."""
    fills = _FLOATED.get(position.symbol, position.symbol)
    state.fills += fills
    # Characters below "0" wrap around to large numbers, so ``<= 9`` only selects digits.
    value = column - np.uint8(ord("0"))
    digit = value <= 9
    state.bad |= ~digit & (state.started | ~_any_of(column, fills))
    state.negative |= column == ord("-")
    state.started |= digit
    state.digits.append(np.where(digit, value, 0).astype(np.uint8))


def _read_float_begin(state: _Read, column: Octets, position: PrintedPosition) -> None:
    fills = _FLOATED[position.symbol]
    state.fills += fills
    state.bad |= ~_any_of(column, fills)
    state.negative |= column == ord("-")


def _read_inserted(state: _Read, column: Octets, position: PrintedPosition) -> None:
    """Read an inserted character; before the first digit it may be suppressed to a fill character."""
    matches = column == ord(position.symbol)
    state.bad |= ~matches & (state.started | ~_any_of(column, state.fills))
    state.negative |= column == ord("-")
    if position.symbol == ".":
        state.started |= matches


def _read_sign(state: _Read, column: Octets, position: PrintedPosition) -> None:
    state.bad |= ~_any_of(column, "+-" if position.symbol == "+" else "- ")
    state.negative |= column == ord("-")


def _read_currency(state: _Read, column: Octets, position: PrintedPosition) -> None:
    state.bad |= column != ord(position.symbol)


def _read_credit(state: _Read, column: Octets, position: PrintedPosition) -> None:
    matches = column == ord(position.symbol)
    state.bad |= ~matches & (column != ord(" "))
    state.negative |= matches


def _torn_credit(shown: Octets, printed: tuple[PrintedPosition, ...]) -> Mask:
    """Return a mask of the rows with only one of the two letters of CR or DB."""
    columns = [
        at for at, position in enumerate(printed) if position.kind is PrintedPositionType.CREDIT
    ]
    blank = shown[:, columns] == ord(" ")
    torn: Mask = blank.any(axis=1) & ~blank.all(axis=1)
    return torn


# By the type of a position: what reads one character of all rows.
_READERS: Final[Mapping[PrintedPositionType, Callable[[_Read, Octets, PrintedPosition], None]]] = (
    MappingProxyType(
        {
            PrintedPositionType.DIGIT: _read_digit,
            PrintedPositionType.SUPPRESSED: _read_suppressed,
            PrintedPositionType.FLOATING: _read_suppressed,
            PrintedPositionType.FLOAT_BEGIN: _read_float_begin,
            PrintedPositionType.INSERTED: _read_inserted,
            PrintedPositionType.SIGN: _read_sign,
            PrintedPositionType.CURRENCY: _read_currency,
            PrintedPositionType.CREDIT: _read_credit,
        }
    )
)


def encode_edited(field: CopybookField, options: ValueOptions) -> Encoder:
    """Return the encoder of an edited number such as ``1,234.50-``."""
    number, form, printed = (
        number_of(field),
        number_form(field, options),
        printed_positions(field),
    )
    table = _bytes_of(field, options)
    zero = format_zero(printed)

    def encode(values: pa.Array) -> Octets:
        written = digits_of(values, number, form)
        # Zero has no sign, and may have a printed form of its own, such as all blanks.
        empty = ~written.digits.any(axis=1)
        shown = _print(written, written.negative & ~empty, printed)
        if zero is not None:
            shown[empty] = np.frombuffer(zero.encode(), np.uint8)
        shown[written.blank] = ord(" ")
        return table[shown]

    return encode


def _print(written: DigitRows, negative: Mask, printed: tuple[PrintedPosition, ...]) -> Octets:
    """Print rows of digits as edited numbers, by the positions of the picture.

    ``started`` is a mask of the rows whose first significant digit has been printed. Until then a
    floating symbol moves right: ``float_at`` is its last suppressed position. For example, -12 with
    ``--,--9`` is printed as ``"   -12"``.
    """
    rows = len(negative)
    shown = np.full((rows, len(printed)), ord(" "), np.uint8)
    started = np.zeros(rows, bool)
    suppressing, filler, digit = False, " ", 0
    float_at: Longs | None = None  # per row, the last position before the first printed digit
    floated = ""
    for at, position in enumerate(printed):
        kind, symbol = position.kind, position.symbol
        # These do not depend on suppression.
        if kind in (
            PrintedPositionType.SIGN,
            PrintedPositionType.CURRENCY,
            PrintedPositionType.CREDIT,
        ):
            shown[:, at] = _symbol(symbol, negative, credit=kind is PrintedPositionType.CREDIT)
            continue
        if kind is PrintedPositionType.FLOAT_BEGIN:
            float_at, floated, suppressing = np.full(rows, at), symbol, True
            continue
        if kind is PrintedPositionType.INSERTED:
            # Insertion characters are suppressed until the first digit; the decimal point ends
            # suppression.
            seen = started if suppressing and symbol != "." else np.ones(rows, bool)
            shown[:, at] = np.where(seen, ord(symbol), ord(filler))
            started = started | (symbol == ".")
        else:
            value = written.digits[:, digit]
            digit += 1
            suppressing = suppressing or kind is PrintedPositionType.SUPPRESSED
            filler = symbol if kind is PrintedPositionType.SUPPRESSED else filler
            seen = started = started | (value != 0) | (kind is PrintedPositionType.DIGIT)
            shown[:, at] = np.where(seen, value + ord("0"), ord(filler))
        if float_at is not None:
            float_at = np.where(seen, float_at, at)
    if float_at is not None:
        shown[np.arange(rows), float_at] = _symbol(floated, negative, credit=False)
    return shown


def _symbol(symbol: str, negative: Mask, *, credit: bool) -> npt.NDArray[np.uint8]:
    """Return the printed form of a sign, currency or CR/DB symbol for each row."""
    if credit:
        return np.where(negative, ord(symbol), ord(" ")).astype(np.uint8)
    # A plus in the picture is printed as + or -, a minus only before negative numbers.
    shown = {"+": ("-", "+"), "-": ("-", " ")}.get(symbol, (symbol, symbol))
    return np.where(negative, ord(shown[0]), ord(shown[1])).astype(np.uint8)
