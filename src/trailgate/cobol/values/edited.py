"""Edited numbers: read as they are printed, and printed again.

A picture becomes a list of positions, each of one kind: a digit, a suppressed digit, a floating sign, an insertion, a sign. Reading and printing go
through the positions in order, each for all rows at once, with a state a row: whether the first digit has come, and which sign was seen.
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
from trailgate.cobol.copybook.layouts import Field
from trailgate.cobol.values.codec import Decoded, Decoder, Encoder, ValueOptions, page_of
from trailgate.cobol.values.digits import (
    DigitBytes,
    DigitRows,
    decode_digits,
    digit_table,
    digits_of,
    number_form,
    number_of,
    zone_of,
)
from trailgate.cobol.values.kernels import MINUS, WRONG
from trailgate.errors import DefinitionError, Where


class PositionKind(Enum):
    """What a position holds."""

    DIGIT = "digit"  # 9
    SUPPRESSED = "suppressed"  # Z and *: a digit, or the filler before the first one
    FLOATING = "floating"  # + - $ more than once: a digit, a blank, or the symbol itself
    FLOAT_BEGIN = "float begin"  # the first of them: no digit
    INSERTED = "inserted"  # , . B 0 /
    SIGN = "sign"  # a single + or -
    CURRENCY = "currency"  # a single $
    CREDIT = "credit"  # CR and DB, a position a letter


@dataclass(frozen=True, slots=True)
class Position:
    """One character of the printed number; ``symbol`` is the picture's, B shown as a blank."""

    kind: PositionKind
    symbol: str


_PART: Final = re.compile(r"(CR|DB|.)(?:\((\d+)\))?")
_FIXED: Final = {"+": PositionKind.SIGN, "-": PositionKind.SIGN, "$": PositionKind.CURRENCY}
# V, S and P print nothing.
_PLAIN: Final[Mapping[str, tuple[tuple[PositionKind, str], ...]]] = MappingProxyType(
    {
        "9": ((PositionKind.DIGIT, "9"),),
        "Z": ((PositionKind.SUPPRESSED, " "),),
        "*": ((PositionKind.SUPPRESSED, "*"),),
        "B": ((PositionKind.INSERTED, " "),),
        "CR": ((PositionKind.CREDIT, "C"), (PositionKind.CREDIT, "R")),
        "DB": ((PositionKind.CREDIT, "D"), (PositionKind.CREDIT, "B")),
        **{symbol: ((PositionKind.INSERTED, symbol),) for symbol in ",.0/"},
    }
)


def positions(field: Field) -> tuple[Position, ...]:
    """Return the positions of an edited field; raises DefinitionError if they are not its bytes."""
    symbols = []
    for symbol, count in _PART.findall(field.picture.upper()):
        symbols += [symbol] * int(count or 1)
    floating = {s for s in _FIXED if symbols.count(s) > 1}
    begun: set[str] = set()
    found: list[Position] = []
    for symbol in symbols:
        found += _positions(symbol, floating, begun)
    if len(found) != field.size:
        problem = f"the picture {field.picture} does not print {field.size} characters"
        raise DefinitionError(problem, where=Where(field=field.name))
    return tuple(found)


def _positions(symbol: str, floating: set[str], begun: set[str]) -> list[Position]:
    if symbol in floating:
        kind = PositionKind.FLOATING if symbol in begun else PositionKind.FLOAT_BEGIN
        begun.add(symbol)
        return [Position(kind, symbol)]
    if symbol in _FIXED:
        return [Position(_FIXED[symbol], symbol)]
    return [Position(kind, shown) for kind, shown in _PLAIN.get(symbol, ())]


def printed_zero(found: tuple[Position, ...]) -> str | None:
    """Return how zero is printed where every digit is suppressed: blank, or stars and the point."""
    if any(position.kind is PositionKind.DIGIT for position in found):
        return None
    stars = any(position.symbol == "*" for position in found)
    return "".join("." if stars and p.symbol == "." else "*" if stars else " " for p in found)


# What is read of a position is a digit; what is read of the sign, a number of _SIGNS.
_DIGITS: Final = digit_table(bytes(range(10)))
_SIGNS: Final = np.full(256, WRONG)
_SIGNS[:2] = 0, MINUS
_BAD: Final = 2
_HOLDING_DIGITS: Final = (PositionKind.DIGIT, PositionKind.SUPPRESSED, PositionKind.FLOATING)
_SYMBOLS: Final = "0123456789 +-$*,./CRDB"
_FLOATED: Final = {"+": "+- ", "-": "- ", "$": "$ "}


def _bytes_of(field: Field, options: ValueOptions) -> npt.NDArray[np.uint8]:
    """Return for each ASCII character of _SYMBOLS its byte in the field's page."""
    zone_of(field, options)  # refuses pages without digits of one byte
    table = np.zeros(256, np.uint8)
    made = page_of(field, options).encode(pa.array(list(_SYMBOLS))).to_pylist()
    for character, byte in zip(_SYMBOLS, made, strict=True):
        table[ord(character)] = byte[0]
    if field.comma:
        table[[ord("."), ord(",")]] = table[[ord(","), ord(".")]]
    return table


@dataclass(slots=True)
class _Read:
    """What is known of the rows after some positions."""

    bad: Mask
    started: Mask
    negative: Mask
    fills: str = " "
    digits: list[npt.NDArray[np.uint8]] = member(default_factory=list)


def decode_edited(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of a printed number."""
    form, places = number_form(field, options), positions(field)
    back = np.zeros(256, np.uint8)
    table = _bytes_of(field, options)
    for character in _SYMBOLS:
        back[table[ord(character)]] = ord(character)
    zero = printed_zero(places)
    held = DigitBytes(_DIGITS, 10, _SIGNS, sign_at=sum(p.kind in _HOLDING_DIGITS for p in places))
    template = None if zero is None else np.frombuffer(zero.encode(), np.uint8)

    def decode(matrix: Octets) -> Decoded:
        shown = back[matrix]
        rows = len(matrix)
        state = _Read(np.zeros(rows, bool), np.zeros(rows, bool), np.zeros(rows, bool))
        for at, position in enumerate(places):
            _READERS[position.kind](state, shown[:, at], position)
        state.bad |= _torn_credit(shown, places)
        if template is not None:
            state.bad &= ~(shown == template).all(axis=1)
        signs = np.where(state.bad, _BAD, state.negative).astype(np.uint8)
        digits = np.column_stack([*state.digits, signs])
        return decode_digits(form, held, digits, written=matrix)

    return decode


def _any_of(column: Octets, characters: str) -> Mask:
    return np.isin(column, np.frombuffer(characters.encode(), np.uint8))


def _read_digit(state: _Read, column: Octets, position: Position) -> None:
    del position
    value = column - np.uint8(ord("0"))
    state.bad |= value > 9
    state.started[:] = True
    state.digits.append(np.minimum(value, 9))


def _read_suppressed(state: _Read, column: Octets, position: Position) -> None:
    fills = _FLOATED.get(position.symbol, position.symbol)
    state.fills += fills
    value = column - np.uint8(ord("0"))
    digit = value <= 9
    state.bad |= ~digit & (state.started | ~_any_of(column, fills))
    state.negative |= column == ord("-")
    state.started |= digit
    state.digits.append(np.where(digit, value, 0).astype(np.uint8))


def _read_float_begin(state: _Read, column: Octets, position: Position) -> None:
    fills = _FLOATED[position.symbol]
    state.fills += fills
    state.bad |= ~_any_of(column, fills)
    state.negative |= column == ord("-")


def _read_inserted(state: _Read, column: Octets, position: Position) -> None:
    own = column == ord(position.symbol)
    state.bad |= ~own & (state.started | ~_any_of(column, state.fills))
    state.negative |= column == ord("-")
    if position.symbol == ".":
        state.started |= own


def _read_sign(state: _Read, column: Octets, position: Position) -> None:
    state.bad |= ~_any_of(column, "+-" if position.symbol == "+" else "- ")
    state.negative |= column == ord("-")


def _read_currency(state: _Read, column: Octets, position: Position) -> None:
    state.bad |= column != ord(position.symbol)


def _read_credit(state: _Read, column: Octets, position: Position) -> None:
    own = column == ord(position.symbol)
    state.bad |= ~own & (column != ord(" "))
    state.negative |= own


def _torn_credit(shown: Octets, places: tuple[Position, ...]) -> Mask:
    """Return the rows with one letter of CR or DB and a blank."""
    columns = [at for at, position in enumerate(places) if position.kind is PositionKind.CREDIT]
    blank = shown[:, columns] == ord(" ")
    found: Mask = blank.any(axis=1) & ~blank.all(axis=1)
    return found


_READERS: Final[Mapping[PositionKind, Callable[[_Read, Octets, Position], None]]] = (
    MappingProxyType(
        {
            PositionKind.DIGIT: _read_digit,
            PositionKind.SUPPRESSED: _read_suppressed,
            PositionKind.FLOATING: _read_suppressed,
            PositionKind.FLOAT_BEGIN: _read_float_begin,
            PositionKind.INSERTED: _read_inserted,
            PositionKind.SIGN: _read_sign,
            PositionKind.CURRENCY: _read_currency,
            PositionKind.CREDIT: _read_credit,
        }
    )
)


def encode_edited(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of a printed number."""
    number, form, places = number_of(field), number_form(field, options), positions(field)
    table = _bytes_of(field, options)
    zero = printed_zero(places)

    def encode(values: pa.Array) -> Octets:
        written = digits_of(values, number, form)
        empty = ~written.digits.any(axis=1)
        shown = _print(written, written.negative & ~empty, places)
        if zero is not None:
            shown[empty] = np.frombuffer(zero.encode(), np.uint8)
        shown[written.blank] = ord(" ")
        return table[shown]

    return encode


def _print(written: DigitRows, negative: Mask, places: tuple[Position, ...]) -> Octets:
    rows = len(negative)
    shown = np.full((rows, len(places)), ord(" "), np.uint8)
    started = np.zeros(rows, bool)
    suppressing, filler, digit = False, " ", 0
    float_at: Longs | None = None  # where the floating symbol goes: the last place without a digit
    floated = ""
    for at, position in enumerate(places):
        kind, symbol = position.kind, position.symbol
        if kind in (PositionKind.SIGN, PositionKind.CURRENCY, PositionKind.CREDIT):
            shown[:, at] = _symbol(symbol, negative, credit=kind is PositionKind.CREDIT)
            continue
        if kind is PositionKind.FLOAT_BEGIN:
            float_at, floated, suppressing = np.full(rows, at), symbol, True
            continue
        if kind is PositionKind.INSERTED:
            seen = started if suppressing and symbol != "." else np.ones(rows, bool)
            shown[:, at] = np.where(seen, ord(symbol), ord(filler))
            started = started | (symbol == ".")
        else:
            value = written.digits[:, digit]
            digit += 1
            suppressing = suppressing or kind is PositionKind.SUPPRESSED
            filler = symbol if kind is PositionKind.SUPPRESSED else filler
            seen = started = started | (value != 0) | (kind is PositionKind.DIGIT)
            shown[:, at] = np.where(seen, value + ord("0"), ord(filler))
        if float_at is not None:
            float_at = np.where(seen, float_at, at)
    if float_at is not None:
        shown[np.arange(rows), float_at] = _symbol(floated, negative, credit=False)
    return shown


def _symbol(symbol: str, negative: Mask, *, credit: bool) -> npt.NDArray[np.uint8]:
    if credit:
        return np.where(negative, ord(symbol), ord(" ")).astype(np.uint8)
    shown = {"+": ("-", "+"), "-": ("-", " ")}.get(symbol, (symbol, symbol))
    return np.where(negative, ord(shown[0]), ord(shown[1])).astype(np.uint8)
