"""Kernels that convert rows of decimal digits, and binary words, to the words of Arrow's numbers.

Two lookup tables classify bytes. ``digits`` maps a byte to the value of its digits, for example
packed 0x12 to 12. ``signs`` applies to the one byte with the sign: it maps to the byte's digit,
plus MINUS if negative. WRONG marks invalid bytes. An int64 column has one word per row; a
decimal128 column has two, low word first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Words
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import load8

MINUS: Final = 128
WRONG: Final = 256
_DIGITS: Final = 127  # mask of a table entry's digits
_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_SIGN_BIT: Final = np.uint64(63)
_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE: Final = np.uint64(1)
_EIGHT: Final = 8  # bytes of a word
_LEAST: Final = 5  # from this many digit bytes on, one word load is faster than a loop
_BYTES: Final = np.uint64(0x0101010101010101)
_NIBBLES: Final = np.uint64(0x0F0F0F0F0F0F0F0F)
_LOW_BITS: Final = np.uint64(0x1111111111111111)
_TOP_BITS: Final = np.uint64(0x8080808080808080)
_ABOVE_NINE: Final = np.uint64(0x7676767676767676)  # 0x76 + 10 = 0x80: sets a byte's top bit
_EVEN_BYTES: Final = np.uint64(0x00FF00FF00FF00FF)
_EVEN_PAIRS: Final = np.uint64(0x0000FFFF0000FFFF)
_SIX: Final = np.uint64(6)


class DecimalRows(NamedTuple):
    """Rows of bytes: row i consists of the ``size`` bytes from ``i * step`` on."""

    data: Octets
    step: int
    size: int


class DigitTables(NamedTuple):
    """The tables that classify the bytes of decimal numbers, and where the sign is.

    ``base`` is 10 for zoned bytes and 100 for packed ones. The byte at ``sign_at`` (the first, the
    last, or -1 for none) contains the sign, and a digit if ``sign_base`` is 10. A first byte above
    ``most_first`` is bad. ``zone`` is the high nibble of zoned digit bytes, such as 0xF0, and 0 for
    packed bytes; -1 if digits must be looked up byte by byte.
    """

    most_first: int
    digits: Longs
    base: int
    zone: int
    signs: Longs
    sign_at: int
    sign_base: int


@kernel(writes=("numbers", "bad"))
def decode_narrow_numbers(
    values: DecimalRows, tables: DigitTables, zeros: int, numbers: Longs, bad: Mask
) -> int:
    """Convert rows of up to 18 digits to 64-bit words. Fills ``numbers`` and ``bad``; returns how many rows are bad.

    ``zeros`` zeros are appended to the digits. For example, packed ``12 34 5D`` (``base`` 100,
    ``sign_base`` 10) is -12345, and ``12 34 5A`` is bad under strict signs.

    Rows with five to eight digit bytes, and the sign after them or no sign, are read as one 64-bit
    word, unless ``zone`` is -1. All others are read byte by byte.
    """
    data, step, size = values
    most_first, digits, base, zone, signs, sign_at, sign_base = tables
    rows = len(bad)
    words = len(numbers) // max(rows, 1)
    factor = 10**zeros
    first = 1 if sign_at == 0 else 0
    stop = size - 1 if sign_at > 0 else size
    # The eight bytes that end with the last digit byte are loaded at once. They may start before the
    # row, so ``used`` masks the bytes of other rows. XOR with the zones turns F1 F2 into 01 02.
    in_word = zone >= 0 and first == 0 and _LEAST <= stop <= _EIGHT
    unused = np.uint64(8 * (_EIGHT - stop)) if in_word else np.uint64(0)
    used = (_ALL >> unused) << unused
    zones = np.uint64(zone) * _BYTES & used if in_word else np.uint64(0)
    bad_count = 0
    for row in range(rows):
        at = np.uint64(row * step)  # unsigned, so that numba needs no check for a negative index
        wrong = data[at] > most_first
        number = sign = 0
        if in_word and row * step + stop >= _EIGHT:
            word = (load8(data, row * step + stop - _EIGHT) & used) ^ zones
            # Packed: subtracting 6 times the high nibble from each byte turns BCD into binary.
            if base == 100:
                # A nibble is above 9 if its bit 8 is set together with bit 4 or bit 2.
                two, four = word >> np.uint64(1), word >> np.uint64(2)
                wrong |= word >> np.uint64(3) & (two | four) & _LOW_BITS != 0
                word -= (word >> np.uint64(4) & _NIBBLES) * _SIX  # per byte: 0x42 becomes 42
            else:
                # Zoned: a byte above 9 gets its top bit set by adding 0x76, unless the bit is set
                # already.
                wrong |= ((word & ~_TOP_BITS) + _ABOVE_NINE | word) & _TOP_BITS != 0
            number = _join(word, base)
        else:
            if sign_at == 0:
                sign = signs[data[at]]
                number = sign & _DIGITS
            for offset in range(first, stop):
                digit = digits[data[at + np.uint64(offset)]]
                if wrong or digit >= WRONG:
                    wrong = True
                    break
                number = number * base + digit
        if sign_at > 0:
            sign = signs[data[at + np.uint64(stop)]]
            number = number * sign_base + (sign & _DIGITS)
        wrong |= sign >= WRONG
        negative = (sign >> 7) & 1
        # x ^ -1 is -x - 1, so this negates the number if ``negative`` is 1, without a branch.
        number = 0 if wrong else (number * factor ^ -negative) + negative
        numbers[row * words] = number
        if words == 2:
            numbers[row * words + 1] = number >> 63
        bad[row] = wrong
        bad_count += wrong
    return bad_count


@inner
def _join(word: np.uint64, base: int) -> int:
    """Join eight digits, one per byte and most significant in the lowest byte, into one number.

    Neighbours are joined in three steps. With base 10 the bytes 1 2 3 4 5 6 7 8 become the pairs 12
    34 56 78, then 1234 5678, then 12345678.
    """
    # The masks keep every second byte, then every second pair, so that no sum reaches its
    # neighbour: with base 100 a pair is at most 9999 (16 bits), and two are 99,999,999 (32 bits).
    below, power = np.uint64(8), np.uint64(base)
    word = (word & _EVEN_BYTES) * power + (word >> below & _EVEN_BYTES)
    below, power = below + below, power * power
    word = (word & _EVEN_PAIRS) * power + (word >> below & _EVEN_PAIRS)
    return np.int64((word & _LOW_HALF) * (power * power) + (word >> _HALF))


@kernel(writes=("numbers", "bad"))
def decode_wide_numbers(
    values: DecimalRows, tables: DigitTables, zeros: int, numbers: Words, bad: Mask
) -> int:
    """Convert rows of up to 38 digits to 128-bit words. The parameters are the same as those of ``decode_narrow_numbers``.

    The digits are read in chunks whose value fits 32 bits; each chunk is added to a 128-bit number
    (``high``, ``low``). For example, 12 zoned digits are a chunk of 8 and one of 4: number = (first
    * 10**4) + second.
    """
    data, step, size = values
    most_first, digits, base, _, signs, sign_at, sign_base = tables
    first = 1 if sign_at == 0 else 0
    stop = size - 1 if sign_at > 0 else size
    # Row by row: read the sign, then the digits in chunks, then append the zeros, then negate.
    chunk = 4 if base == 100 else 8  # bytes with eight digits: below 10**8, so they fit 32 bits
    full_power, last_power = base**chunk, base ** ((stop - first) % chunk)
    bad_count = 0
    for row in range(len(bad)):
        at = np.uint64(row * step)
        sign = signs[data[at + np.uint64(sign_at)]] if sign_at >= 0 else 0
        wrong = data[at] > most_first or sign >= WRONG
        high, low = np.uint64(0), np.uint64(0 if sign_at else sign & _DIGITS)
        # The last chunk may be shorter: the number is then multiplied by a smaller power.
        for begin in range(first, stop, chunk):
            part, end = 0, min(begin + chunk, stop)
            for offset in range(begin, end):
                digit = digits[data[at + np.uint64(offset)]]
                wrong |= digit >= WRONG
                part = part * base + digit
            if wrong:
                break
            high, low = _multiply_add(
                high, low, full_power if end - begin == chunk else last_power, part
            )
        if sign_at > 0 and not wrong:
            high, low = _multiply_add(high, low, sign_base, sign & _DIGITS)
        for _ in range(0 if wrong else zeros):
            high, low = _multiply_add(high, low, 10, 0)
        if wrong:
            high = low = np.uint64(0)
        high, low = _negate(high, low, (sign >> 7) & 1)
        numbers[row * 2], numbers[row * 2 + 1] = low, high
        bad[row] = wrong
        bad_count += wrong
    return bad_count


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
    """Replace the padding in rows of bytes of DISPLAY numbers by zeros.

    Marks the changed rows in ``done``, and returns their number.

    Each number has ``size`` bytes. ``pads`` marks padding bytes, and ``zero`` is the byte of the
    digit 0; ``signs`` and ``sign_at`` are the same as in ``DigitTables``, and ``separate`` means that
    the sign byte has no digit. By default only padding before the first digit is replaced; with
    ``every``, all padding; with ``trim``, the digits are moved to the right. For example, ``" 12 "``
    becomes ``"012 "``, with ``every`` ``"0120"``, and with ``trim`` ``"0012"``. Rows that consist
    only of padding stay unchanged.
    """
    changed = 0
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
            # Only if there is some padding, and also something else.
            if 0 < padding < end - begin:
                for at in range(begin, end):
                    if pads[data[at]]:
                        data[at] = zero
                    elif not every:
                        break
                done[row] = True
        changed += done[row]
    return changed


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
    """Move a padded number to the right end. Returns False if it has no padding or no digit.

    ``begin`` and ``end`` limit the bytes for digits, without a separate sign. For example, with a
    separate leading sign ``" -12 "`` becomes ``"-0012"``, where ``begin`` is 1 and ``end`` is 5.
    """
    # Find the number between the padding: first its sign and digits, then the digits alone.
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
    # The first digit carries the sign, which must move to the first byte of the field: replace it
    # by the plain digit here, and write the sign with a zero there.
    if sign_at == 0 and not separate:
        sign_code = signs[data[start]]
        if sign_code >= WRONG:
            return False
        data[start] = zero + (sign_code & _DIGITS)
        sign = _sign_byte(signs, sign_code & MINUS)
    # Copy from the right, as source and target overlap.
    for step in range(1, count + 1):
        data[end - step] = data[stop - step]
    for at in range(begin, end - count):
        data[at] = zero
    if separate or sign_at == 0:
        data[low if sign_at == 0 else high - 1] = sign
    return True


@inner
def _sign_byte(signs: Longs, sign_code: int) -> int:
    """Return the byte that encodes the digit 0 with this sign (0 or MINUS), or 0 if no byte does."""
    for byte in range(255, -1, -1):
        if signs[byte] == sign_code:
            return byte
    return 0


@kernel(writes=("numbers",))
def scale_words(words: Words, signed: bool, zeros: int, numbers: Words) -> int:
    """Append the zeros of a picture such as S9PP to decoded numbers of 64 bits: -5 becomes -500. Returns the number of rows.

    ``numbers`` gets one word per row (int64), or two words if it is twice as long (128 bits, low word
    first).
    """
    rows = len(words)
    width = len(numbers) // max(rows, 1)
    for row in range(rows):
        low = words[row]
        negative = int(low >> _SIGN_BIT) if signed else 0
        # The absolute value in two's complement: -5 is ...FFFB, its complement 4, plus 1 is 5.
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
    """Append the zeros of a picture such as S9PP to decoded numbers of 128 bits (low word first), in place: -5 becomes -500.

    Returns the number of rows.
    """
    rows = len(numbers) // 2
    for row in range(rows):
        low, high = numbers[row * 2], numbers[row * 2 + 1]
        negative = int(high >> _SIGN_BIT)
        # The absolute value is multiplied, and the sign returns after it.
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
    """Return the 128-bit number times ``power`` plus ``part``.

    ``power`` and ``part`` are below 2 ** 32, and the number is multiplied in 32-bit halves, so no
    product overflows 64 bits.
    """
    times = np.uint64(power)
    below = (low & _LOW_HALF) * times + np.uint64(part)
    above = (low >> _HALF) * times + (below >> _HALF)
    return high * times + (above >> _HALF), (above << _HALF) | (below & _LOW_HALF)


@inner
def _negate(high: np.uint64, low: np.uint64, negative: int) -> tuple[np.uint64, np.uint64]:
    """Return the two's complement of a 128-bit number if ``negative`` is 1, without branching on it."""
    one = np.uint64(negative if high or low else 0)
    flip = one * _ALL
    if low:
        return high ^ flip, (low ^ flip) + one
    return (high ^ flip) + one, low
