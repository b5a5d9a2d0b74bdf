"""Rows of decimal digits, and binary words, to the words of Arrow's numbers.

Two tables give what each byte is. In ``digits`` it is the digits that the byte holds, in ``signs``, for the one byte with the
sign, MINUS is added where that is negative; WRONG is for a byte that holds neither. A column of int64 has one
word a row, a decimal column two, the low one first.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Words
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8

MINUS: Final = 128
WRONG: Final = 256
_DIGITS: Final = 127  # the bits of a table's row that hold digits
_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_SIGN_BIT: Final = np.uint64(63)
_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE: Final = np.uint64(1)
_EIGHT: Final = 8  # bytes of a word
_LEAST: Final = 5  # bytes of digits that are read as a word faster than one by one
_BYTES: Final = np.uint64(0x0101010101010101)
_NIBBLES: Final = np.uint64(0x0F0F0F0F0F0F0F0F)
_LOW_BITS: Final = np.uint64(0x1111111111111111)
_TOP_BITS: Final = np.uint64(0x8080808080808080)
_ABOVE_NINE: Final = np.uint64(0x7676767676767676)  # added to 10 or more it reaches the top bit
_EVEN_BYTES: Final = np.uint64(0x00FF00FF00FF00FF)
_EVEN_PAIRS: Final = np.uint64(0x0000FFFF0000FFFF)
_SIX: Final = np.uint64(6)


@kernel(writes=("numbers", "bad"))
def narrow_numbers(
    data: Octets,
    step: int,
    size: int,
    most_first: int,
    digits: Longs,
    base: int,
    zone: int,
    signs: Longs,
    sign_at: int,
    sign_base: int,
    zeros: int,
    numbers: Longs,
    bad: Mask,
) -> int:
    """Fill in the numbers of up to 18 digits, and which rows are bad; return how many are.

    Row i is the ``size`` bytes from ``i * step`` on. ``base`` is ten to the power of the digits in a byte, ``sign_base``
    that of the byte at ``sign_at``: the first one, the last one, or -1 for none. A first byte above
    ``most_first`` is bad. The digits are followed by so many ``zeros``.

    Five to eight bytes of digits before the sign are read as one word, where bytes of one digit have all the same ``zone``, which is not -1.

    Packed bytes hold two digits each (``base`` 100), and the last one a digit and the sign (``sign_base`` 10): 12 34 5D is -12345, and 12 34 5A is bad.
    """
    rows = len(bad)
    words = len(numbers) // max(rows, 1)
    factor = 10**zeros
    first = 1 if sign_at == 0 else 0
    stop = size - 1 if sign_at > 0 else size
    in_word = zone >= 0 and first == 0 and _LEAST <= stop <= _EIGHT
    unused = np.uint64(8 * (_EIGHT - stop)) if in_word else np.uint64(0)
    own = (_ALL >> unused) << unused
    zones = np.uint64(zone) * _BYTES & own if in_word else np.uint64(0)
    found = 0
    for row in range(rows):
        at = np.uint64(row * step)  # without a sign: an index that cannot count from the end
        wrong = data[at] > most_first
        number = sign = 0
        if in_word and row * step + stop >= _EIGHT:
            word = (load8(data, row * step + stop - _EIGHT) & own) ^ zones
            if base == 100:
                two, four = word >> np.uint64(1), word >> np.uint64(2)
                wrong |= word >> np.uint64(3) & (two | four) & _LOW_BITS != 0
                word -= (word >> np.uint64(4) & _NIBBLES) * _SIX  # of 0x42 is left 42
            else:
                wrong |= ((word & ~_TOP_BITS) + _ABOVE_NINE | word) & _TOP_BITS != 0
            number = _join(word, base)
        else:
            if sign_at == 0:
                sign = signs[data[at]]
                number = sign & _DIGITS
            for place in range(first, stop):
                digit = digits[data[at + np.uint64(place)]]
                if wrong or digit >= WRONG:
                    wrong = True
                    break
                number = number * base + digit
        if sign_at > 0:
            sign = signs[data[at + np.uint64(stop)]]
            number = number * sign_base + (sign & _DIGITS)
        wrong |= sign >= WRONG
        negative = (sign >> 7) & 1
        number = 0 if wrong else (number * factor ^ -negative) + negative
        numbers[row * words] = number
        if words == 2:
            numbers[row * words + 1] = number >> 63
        bad[row] = wrong
        found += wrong
    return found


@inner
def _join(word: np.uint64, base: int) -> int:
    """Return the number of eight digits of a base, a byte each, of which the first one is lowest."""
    below, power = np.uint64(8), np.uint64(base)
    word = (word & _EVEN_BYTES) * power + (word >> below & _EVEN_BYTES)
    below, power = below + below, power * power
    word = (word & _EVEN_PAIRS) * power + (word >> below & _EVEN_PAIRS)
    return np.int64((word & _LOW_HALF) * (power * power) + (word >> _HALF))


@kernel(writes=("numbers", "bad"))
def wide_numbers(
    data: Octets,
    step: int,
    size: int,
    most_first: int,
    digits: Longs,
    base: int,
    signs: Longs,
    sign_at: int,
    sign_base: int,
    zeros: int,
    numbers: Words,
    bad: Mask,
) -> int:
    """Fill in the numbers of up to 38 digits; all else is as in ``narrow_numbers``."""
    first = 1 if sign_at == 0 else 0
    stop = size - 1 if sign_at > 0 else size
    chunk = 4 if base == 100 else 8  # bytes whose digits fit the half of a word
    whole, rest = base**chunk, base ** ((stop - first) % chunk)
    found = 0
    for row in range(len(bad)):
        at = np.uint64(row * step)
        sign = signs[data[at + np.uint64(sign_at)]] if sign_at >= 0 else 0
        wrong = data[at] > most_first or sign >= WRONG
        high, low = np.uint64(0), np.uint64(0 if sign_at else sign & _DIGITS)
        for begin in range(first, stop, chunk):
            part, end = 0, min(begin + chunk, stop)
            for place in range(begin, end):
                digit = digits[data[at + np.uint64(place)]]
                wrong |= digit >= WRONG
                part = part * base + digit
            if wrong:
                break
            high, low = _multiply_add(high, low, whole if end - begin == chunk else rest, part)
        if sign_at > 0 and not wrong:
            high, low = _multiply_add(high, low, sign_base, sign & _DIGITS)
        for _ in range(0 if wrong else zeros):
            high, low = _multiply_add(high, low, 10, 0)
        if wrong:
            high = low = np.uint64(0)
        high, low = _negate(high, low, (sign >> 7) & 1)
        numbers[row * 2], numbers[row * 2 + 1] = low, high
        bad[row] = wrong
        found += wrong
    return found


@kernel(writes=("data", "done"))
def replace_padding(
    data: Octets,
    size: int,
    pads: Mask,
    signs: Longs,
    sign_at: int,
    separate: bool,
    zero: int,
    every: bool,
    trim: bool,
    done: Mask,
) -> int:
    """Write zeros over the padding of DISPLAY numbers, a number each ``size`` bytes, and mark those that have any; return how many.

    ``pads`` are the bytes that pad, ``zero`` is the digit 0; ``signs`` and ``sign_at`` are those of ``narrow_numbers``. Padding is what
    precedes the first digit, or ``every`` such byte; with ``trim`` the digits between padding are moved to the right.

    Of ``" 12 "`` the bytes are ``"012 "``, with ``every`` ``"0120"``, with ``trim`` ``"0012"``. Numbers without a digit stay.
    """
    found = 0
    first = 1 if separate and sign_at == 0 else 0
    stop = size - 1 if separate and sign_at > 0 else size
    for row in range(len(done)):
        begin, end = row * size + first, row * size + stop
        done[row] = False
        if trim:
            done[row] = _move_right(data, begin, end, pads, signs, sign_at, separate, zero)
        else:
            padding = 0
            for at in range(begin, end):
                if pads[data[at]]:
                    padding += 1
                elif not every:
                    break
            if 0 < padding < end - begin:
                for at in range(begin, end):
                    if pads[data[at]]:
                        data[at] = zero
                    elif not every:
                        break
                done[row] = True
        found += done[row]
    return found


@inner
def _move_right(
    data: Octets,
    begin: int,
    end: int,
    pads: Mask,
    signs: Longs,
    sign_at: int,
    separate: bool,
    zero: int,
) -> bool:
    """Move a number to the end of its digits' bytes and its sign to its own byte; return whether there was padding and a digit."""
    low = begin - 1 if separate and sign_at == 0 else begin
    high = end + 1 if separate and sign_at > 0 else end
    start, stop = low, high
    while start < stop and pads[data[start]]:
        start += 1
    while start < stop and pads[data[stop - 1]]:
        stop -= 1
    sign = zero
    if separate and start < stop:
        if sign_at == 0:
            sign = data[start]
            start += 1
        else:
            stop -= 1
            sign = data[stop]
        while start < stop and pads[data[start]]:
            start += 1
        while start < stop and pads[data[stop - 1]]:
            stop -= 1
    count = stop - start
    if count < 1 or count == end - begin:
        return False
    if sign_at == 0 and not separate:
        held = signs[data[start]]
        if held >= WRONG:
            return False
        data[start] = zero + (held & _DIGITS)
        sign = _sign_byte(signs, held & MINUS)
    for step in range(1, count + 1):
        data[end - step] = data[stop - step]
    for at in range(begin, end - count):
        data[at] = zero
    if separate or sign_at == 0:
        data[low if sign_at == 0 else high - 1] = sign
    return True


@inner
def _sign_byte(signs: Longs, held: int) -> int:
    """Return a byte that holds the digit 0 with this sign."""
    for byte in range(255, -1, -1):
        if signs[byte] == held:
            return byte
    return 0


@kernel(writes=("numbers",))
def scaled_words(words: Words, signed: bool, zeros: int, numbers: Words) -> int:
    """Fill in the numbers of binary words, of two's complement or without a sign, times 10 ** zeros: of 5 and -5 with two zeros 500 and -500."""
    rows = len(words)
    width = len(numbers) // max(rows, 1)
    for row in range(rows):
        low = words[row]
        negative = int(low >> _SIGN_BIT) if signed else 0
        high, low = np.uint64(0), ~low + _ONE if negative else low
        for _ in range(zeros):
            high, low = _multiply_add(high, low, 10, 0)
        high, low = _negate(high, low, negative)
        numbers[row * width] = low
        if width == 2:
            numbers[row * width + 1] = high
    return rows


@kernel(writes=("numbers",))
def scale_pairs(numbers: Words, zeros: int) -> int:
    """Multiply 128-bit numbers of two words each, the low one first, by 10 ** zeros: with two zeros -5 becomes -500."""
    rows = len(numbers) // 2
    for row in range(rows):
        low, high = numbers[row * 2], numbers[row * 2 + 1]
        negative = int(high >> _SIGN_BIT)
        high, low = _negate(high, low, negative)
        for _ in range(zeros):
            high, low = _multiply_add(high, low, 10, 0)
        high, low = _negate(high, low, negative)
        numbers[row * 2], numbers[row * 2 + 1] = low, high
    return rows


@inner
def _multiply_add(
    high: np.uint64, low: np.uint64, power: int, part: int
) -> tuple[np.uint64, np.uint64]:
    """Return 128 bits times ``power`` plus ``part``, both below 2 ** 32: no product of halves overflows."""
    times = np.uint64(power)
    below = (low & _LOW_HALF) * times + np.uint64(part)
    above = (low >> _HALF) * times + (below >> _HALF)
    return high * times + (above >> _HALF), (above << _HALF) | (below & _LOW_HALF)


@inner
def _negate(high: np.uint64, low: np.uint64, negative: int) -> tuple[np.uint64, np.uint64]:
    """Return the two's complement of 128 bits where ``negative`` is 1, without a branch on it."""
    one = np.uint64(negative if high or low else 0)
    flip = one * _ALL
    if low:
        return high ^ flip, (low ^ flip) + one
    return (high ^ flip) + one, low
