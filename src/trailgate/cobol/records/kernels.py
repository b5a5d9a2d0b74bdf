"""Where records begin and end: the loops of framing."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8, store2, store4, store8

DESCRIPTOR: Final = 4  # bytes of an RDW or BDW: a length and two bytes of flags, zero here
MOST_STATED: Final = (1 << 16) - 1  # the most that two bytes state
FINE, NO_RECORD, NO_BLOCK, OVERRUN, NO_LENGTH, NO_RULE, NO_NUMBER, NO_SEGMENT, NO_TYPE = range(9)
# How the numbers are coded that lengths are computed of.
BIG, LITTLE, SIGNED_BIG, SIGNED_LITTLE, PACKED, UNSIGNED_PACKED, ZONED = range(7)
MOST_DIGITS: Final = 18
# Types of records of Micro Focus: 1 is a duplicate's, 3 the header's; other types are those of indexed files.
DELETED, DATA = 2, 4
_LEAST_TYPED: Final = 8  # bytes of a record with its word
_WORD: Final = 8  # bytes
_BYTE: Final = np.uint64(0xFF)
_TWO_BYTES, _FOUR_BYTES = np.uint64(16), np.uint64(32)  # in bits
_LARGE: Final = 1 << 40  # bytes that no record has
_EXTENDED: Final = 1 << 31  # a BDW with this bit has a length of 31 bits
_BEYOND: Final = 1 << 62  # instead of a length that a signed word does not hold


@kernel(writes=("run", "begins", "stops"))
def line_records(
    data: Octets,
    candidates: Longs,
    starts: Longs,
    ends: Longs,
    mark: Octets,
    finish: bool,
    run: Longs,
    begins: Longs,
    stops: Longs,
) -> tuple[int, int]:
    r"""Fill in the lines of runs that ascend; return how many, and where what is left over begins.

    ``candidates`` are the offsets of the mark's first byte. With ``finish`` what is left over
    at a run's end is a line too, unless it is empty.

    In the run ``ab\ncd\ne`` there are lines at 0 to 2 and 3 to 5, and 6 is left over; with ``finish`` there is one at 6 to 7 too.
    """
    count = place = following = 0
    width, known = len(mark), len(candidates)
    for number in range(len(starts)):
        place = starts[number]
        while following < known and candidates[following] < place:
            following += 1
        while following < known and candidates[following] + width <= ends[number]:
            at = candidates[following]
            following += 1
            same = 1 if at >= place else width + 1  # not inside the mark before
            while same < width and data[at + same] == mark[same]:
                same += 1
            if same == width:
                run[count], begins[count], stops[count] = number, place, at
                count += 1
                place = at + width
        if finish and place < ends[number]:
            run[count], begins[count], stops[count] = number, place, ends[number]
            count += 1
            place = ends[number]
    return count, place


@kernel(writes=("begins", "stops"))
def descriptor_records(
    data: Octets, blocks: bool, words: Longs, begins: Longs, stops: Longs
) -> tuple[int, int, int, int]:
    """Fill in the records after descriptor words, in blocks or not.

    ``words`` are the forms of the words of records, and of those of blocks: whether they are little-endian, whether the length
    is in the second half, and what is added to it. Return how many records, where the first one that is not whole begins, a problem, and the length that it is about.

    In ``00 06 00 00 A B 00 05 00 00 C 00 09 00 00 D`` two records are whole, at 4 to 6 and 10 to 11; the next one begins at 11.
    """
    count = place = 0
    size = len(data)
    while place + DESCRIPTOR <= size:
        end = size
        if blocks:
            length = _block_length(data, place, words)
            if length < DESCRIPTOR:
                return count, place, NO_BLOCK, length
            end = place + length
            if end > size:
                break
            place += DESCRIPTOR
        while place + DESCRIPTOR <= end:
            length = _record_length(data, place, words)
            if length < DESCRIPTOR or _flagged(data, place, words):
                return count, place, NO_RECORD, length
            if place + length > end:
                break
            begins[count], stops[count] = place + DESCRIPTOR, place + length
            count += 1
            place += length
        if place != end:
            return count, place, OVERRUN if blocks else FINE, 0
    return count, place, FINE, 0


@kernel(writes=("begins", "stops"))
def typed_records(
    data: Octets, width: int, finish: bool, begins: Longs, stops: Longs
) -> tuple[int, int, int, int]:
    """Fill in the data records of a file of Micro Focus, after words of 2 or 4 bytes whose first four bits are a type; return what ``descriptor_records`` does.

    A record ends with padding to a multiple of four bytes, and has eight at least. With ``finish`` the padding of the last one may be missing. With a problem its type comes instead of a length.

    In ``40 03 A B C 20 20 20 20 01 D 20 20 20 20 20`` one record is at 2 to 5; the other, of type 2, is a deleted one.
    """
    count = place = 0
    size = len(data)
    while place + width <= size:
        kind = int(data[place]) >> 4
        if kind < DELETED - 1 or kind > DATA:
            return count, place, NO_TYPE, kind
        length = int(data[place]) & 15
        for at in range(1, width):
            length = length << 8 | int(data[place + at])
        end = place + width + length
        padded = max(_LEAST_TYPED, (width + length + 3) // 4 * 4)
        if end > size or (place + padded > size and not finish):
            break
        if kind == DATA:
            begins[count], stops[count] = place + width, end
            count += 1
        place = min(place + padded, size)
    return count, place, FINE, 0


@kernel(writes=("begins", "stops", "closes"))
def spanned_records(
    data: Octets, left: int, words: Longs, begins: Longs, stops: Longs, closes: Octets
) -> tuple[int, int, int, int, int]:
    """Fill in the segments of whole records, and which ones close their record.

    The data begins in a block of which so many bytes are ``left``, or with a block. Return how many segments, where the first record begins that is not whole, how much is left of its
    block there, a problem, and its length.

    In ``00 16 00 00, 00 06 01 00 A B, 00 05 02 00 C, 00 05 00 00 D``, a block of two records, the segments are at 8 to 10, 14 to 15 and 19 to 20, and the last two close a record.
    """
    count = whole = place = end = 0
    size, block = len(data), left
    end_left = left
    is_open = False
    while place < size:
        if place == block:
            if place + DESCRIPTOR > size:
                break
            length = _block_length(data, place, words)
            if length < DESCRIPTOR:
                return whole, end, end_left, NO_BLOCK, length
            block = place + length
            place += DESCRIPTOR
            continue
        if place + DESCRIPTOR > block:
            return whole, end, end_left, OVERRUN, 0
        if place + DESCRIPTOR > size:
            break
        length = _record_length(data, place, words)
        code = data[place + 2]
        if length < DESCRIPTOR or code > 3 or data[place + 3]:
            return whole, end, end_left, NO_RECORD, length
        if is_open != (code >= 2):
            return whole, end, end_left, NO_SEGMENT, length
        if place + length > block:
            return whole, end, end_left, OVERRUN, length
        if place + length > size:
            break
        begins[count], stops[count] = place + DESCRIPTOR, place + length
        is_open = code == 1 or code == 3
        closes[count] = not is_open
        count += 1
        place += length
        if not is_open:
            whole, end, end_left = count, place, block - place
    if not is_open and place == block:
        return whole, place, 0, FINE, 0
    return whole, end, end_left, FINE, 0


@kernel(writes=("numbers", "begins", "stops"))
def computed_records(
    data: Octets,
    adjustment: int,
    key: Longs,
    places: Longs,
    values: Longs,
    chosen: Longs,
    rules: Longs,
    terms: Longs,
    shifts: Longs,
    numbers: Longs,
    begins: Longs,
    stops: Longs,
) -> tuple[int, int, int, int]:
    """Fill in the records whose length is a sum of numbers in them; return what ``descriptor_records`` does.

    The arrays are those of ``record_lengths.LengthTables``; ``numbers`` is memory for those of one record. With a problem of a number its term comes instead of a length.

    In ``03 A B 02 C 04 D``, with a length of one byte at the beginning, two records are whole, at 0 to 3 and 3 to 5.
    """
    count = place = 0
    size = len(data)
    while place < size:
        rule = 0
        if len(places):
            if place + key[0] > size:
                break
            rule = _rule_of(data, place, key[1], places, values, chosen)
            if rule < 0:
                return count, place, NO_RULE, 0
        length = rules[4 * rule] + adjustment
        first, end = rules[4 * rule + 2], rules[4 * rule + 3]
        whole = True
        for term in range(first, end):
            row = 5 * term
            at, width = place + terms[row], terms[row + 1]
            for before in range(term - first):
                at += shifts[term * key[2] + before] * numbers[before]
            if at + width > size:
                whole = False
                break
            number = _coded_number(data, at, width, terms[row + 2])
            if number < 0 or (terms[row + 4] >= 0 and number > terms[row + 4]):
                return count, place, NO_NUMBER, term
            whole = whole and number < _LARGE
            numbers[term - first] = number
            length += terms[row + 3] * min(number, _LARGE)
        if whole and length < rules[4 * rule + 1]:
            return count, place, NO_LENGTH, length
        if not whole or place + length > size:
            break
        begins[count], stops[count] = place, place + length
        count += 1
        place += length
    return count, place, FINE, 0


@kernel(writes=("found",))
def only_padding(data: Octets, starts: Longs, ends: Longs, pads: Mask, found: Mask) -> int:
    """Mark the runs data[start:end] all of whose bytes are among ``pads``; return how many.

    With blanks as pads, of ``"  "``, ``" x"`` and an empty run the first and the last are marked.
    """
    count = 0
    for row in range(len(starts)):
        place = starts[row]
        while place < ends[row] and pads[data[place]]:
            place += 1
        found[row] = place >= ends[row]
        count += found[row]
    return count


@kernel(writes=("target",))
def copy_present(
    data: Octets, starts: Longs, ends: Longs, rows: Longs, size: int, target: Octets
) -> int:
    """Copy items that their records end inside, data[start:end], to the beginning of rows of ``size`` bytes; return how many bytes.

    Of ``AB`` in a row of ``....`` the row becomes ``AB..``. An item whose start is after its end has no bytes.
    """
    copied = 0
    for number in range(len(rows)):
        at = rows[number] * size
        for place in range(min(size, ends[number] - starts[number])):
            target[at + place] = data[starts[number] + place]
            copied += 1
    return copied


@inner
def _rule_of(
    data: Octets, begin: int, rest: int, places: Longs, values: Longs, chosen: Longs
) -> int:
    """Return the rule of a record by its bytes at ``places``: that of the first value with these bytes, of which -1 is any byte."""
    width = len(places)
    for number in range(len(chosen)):
        same = 0
        while same < width:
            value = values[number * width + same]
            if value >= 0 and data[begin + places[same]] != value:
                break
            same += 1
        if same == width:
            return int(chosen[number])
    return int(rest)


@inner
def _coded_number(data: Octets, at: int, width: int, coding: int) -> int:
    """Return a whole number; -1 where there is none, or one below zero."""
    if coding <= SIGNED_LITTLE:
        little = coding == LITTLE or coding == SIGNED_LITTLE
        if coding >= SIGNED_BIG and data[at + width - 1 if little else at] >= 0x80:
            return -1
        binary: int = _number(data, at, width, little)
        return binary
    found = 0
    for index in range(width):
        octet = int(data[at + index])
        high, low, last = octet >> 4, octet & 15, index == width - 1
        if coding == ZONED:
            blank = found == 0 and octet in (0x20, 0x40)
            # Digits of EBCDIC and ASCII; an overpunched plus is on the first one or the last.
            zone = high == 15 or high == 3 or (high in (4, 12) and (last or index == 0))
            if low > 9 or not (zone or blank):
                return -1
            found = found * 10 + low
        elif coding == PACKED and last:
            if high > 9 or low < 10 or low == 11 or low == 13:
                return -1
            found = found * 10 + high
        else:
            if high > 9 or low > 9:
                return -1
            found = found * 100 + high * 10 + low
    return found


@inner
def _number(data: Octets, at: int, width: int, little: bool) -> int:
    """Return a binary number without a sign."""
    found = 0
    for index in range(width):
        if found >= _BEYOND >> 8:
            return _BEYOND
        found = found * 256 + int(data[at + (width - 1 - index if little else index)])
    return found


@inner
def _record_length(data: Octets, place: int, words: Longs) -> int:
    """Return the length that an RDW states, with the word itself."""
    found: int = _number(data, place + 2 * words[1], 2, words[0] != 0) + words[2]
    return found


@inner
def _flagged(data: Octets, place: int, words: Longs) -> bool:
    """Return whether the half of an RDW that does not have the length is not zero."""
    other = place + 2 - 2 * words[1]
    return bool(data[other] != 0 or data[other + 1] != 0)


@inner
def _block_length(data: Octets, place: int, words: Longs) -> int:
    """Return the length that a BDW states, with the word itself."""
    little, second, adjustment = words[3] != 0, words[4], words[5]
    half: int = _number(data, place + 2 * second, 2, little)
    if little or second or half < _EXTENDED >> 16:
        return half + adjustment
    whole: int = _number(data, place, DESCRIPTOR, False) - _EXTENDED
    return whole + adjustment


@kernel(writes=("following",))
def descriptor_chains(
    data: Octets, blocks: bool, words: Longs, longest: int, last: bool, following: Longs
) -> None:
    """Fill in for each offset where the next record (or block) begins if one of at most ``longest`` bytes begins there; -1 where none can.

    None can where the words after it are not those of records up to the end of the data, or with ``last`` do not lead to that end itself.

    In ``00 05 00 00 A 00 05 00 00 B`` these are 5 at 0, 10 at 5, and with ``last`` -1 elsewhere.
    """
    size = len(data)
    for place in range(size - 1, -1, -1):
        following[place] = -1
        if place + DESCRIPTOR > size:
            following[place] = -1 if last else size
            continue
        length = _block_length(data, place, words) if blocks else _record_length(data, place, words)
        if length < DESCRIPTOR or length > longest:
            continue
        if not blocks and _flagged(data, place, words):
            continue
        end = place + length
        if (end > size and last) or (end < size and following[end] < 0):
            continue
        inside = place + DESCRIPTOR if blocks else end
        while inside + DESCRIPTOR <= min(end, size):
            own = _record_length(data, inside, words)
            if own < DESCRIPTOR or inside + own > end or _flagged(data, inside, words):
                break
            inside += own
        if inside == end or inside + DESCRIPTOR > size:
            following[place] = end


@kernel(writes=("marks",))
def common_place(following: Longs, reach: int, marks: Octets) -> int:
    """Return the first offset from ``reach`` on through which all chains go that begin before ``reach``; -1 if there is none.

    ``following`` are the chains: for each offset the next one, -1 where there is no chain. ``marks`` are zeros, as many.

    In ``2 -1 4 4 6 -1 8 -1`` with a reach of 4 there are chains from 0, 2 and 3, and all go through 4.
    """
    open_chains = 0  # offsets that are marked, and not passed yet
    size = len(following)
    for place in range(size):
        if place < reach and following[place] >= 0 and not marks[place]:
            marks[place] = 1
            open_chains += 1
        if not marks[place]:
            continue
        if place >= reach and open_chains == 1:
            return place
        after = following[place]
        if after >= size:
            return -1
        open_chains -= 1
        if not marks[after]:
            marks[after] = 1
            open_chains += 1
    return -1


@kernel(writes=("out",))
def copy_columns(
    data: Octets, begin: int, step: int, offsets: Longs, size: int, out: Octets
) -> int:
    """Copy the items at some offsets of records that are ``step`` bytes apart, all of the same size: those of the first offset, then those of the next one; return how many records."""
    columns = len(offsets)
    rows = len(out) // (size * columns)
    for row in range(rows):
        for column in range(columns):
            at, to = begin + row * step + offsets[column], (column * rows + row) * size
            if at + max(size, _WORD) > len(data):
                for byte in range(size):
                    out[to + byte] = data[at + byte]
            elif size < _WORD:
                word = load8(data, at)
                if size & 4:
                    store4(out, to, word)
                    word, to = word >> _FOUR_BYTES, to + 4
                if size & 2:
                    store2(out, to, word)
                    word, to = word >> _TWO_BYTES, to + 2
                if size & 1:
                    out[to] = np.uint8(word & _BYTE)
            else:
                for done in range(0, size - _WORD, _WORD):
                    store8(out, to + done, load8(data, at + done))
                store8(out, to + size - _WORD, load8(data, at + size - _WORD))
    return rows
