"""Compiled loops that find the boundaries of records in files and messages, for ``framing.py``.

They fill arrays with the begin and end of each complete record, and return how many
there are, the offset of the first incomplete record, a problem code (FINE if none), and the length
that the problem is about. The caller turns the code into an error message.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, kernel

DESCRIPTOR: Final = 4  # bytes of an RDW or BDW: a length and two bytes of flags, zero here
MOST_STATED: Final = (1 << 16) - 1  # the largest length in two bytes
FINE, NO_RECORD, NO_BLOCK, OVERRUN, NO_LENGTH, NO_RULE, NO_NUMBER, NO_SEGMENT, NO_TYPE = range(9)
# Encodings of the numbers from which lengths are computed.
BIG, LITTLE, SIGNED_BIG, SIGNED_LITTLE, PACKED, UNSIGNED_PACKED, ZONED = range(7)
MOST_DIGITS: Final = 18
# Record types of Micro Focus: 1 is a duplicate, 3 the header; other types belong to indexed files.
DELETED, DATA = 2, 4
_LEAST_TYPED: Final = 8  # bytes of a record with its word
_LARGE: Final = 1 << 40  # larger than any record
_EXTENDED: Final = 1 << 31  # a BDW with this bit has a length of 31 bits
_BEYOND: Final = 1 << 62  # stands for a length that does not fit a signed word


@kernel(writes=("run", "begins", "stops"))
def find_line_records(
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
    r"""Find the records of a file of lines (line-sequential) from the offsets of possible delimiters.

    The runs ``data[starts[i]:ends[i]]`` are in ascending order. Fills ``begins`` and ``stops`` with
    the lines, and ``run`` with the index of each line's run.
    Returns the number of lines, and the offset after the last line. ``candidates`` are the offsets
    of the delimiter's first byte. With ``finish``, a run's last line may lack its delimiter.

    For example, ``ab\ncd\ne`` has lines at 0 to 2 and 3 to 5, and 6 is left over. With ``finish``
    there is a third line at 6 to 7.
    """
    count = offset = following = 0
    width, known = len(mark), len(candidates)
    for number in range(len(starts)):
        offset = starts[number]
        while following < known and candidates[following] < offset:
            following += 1
        while following < known and candidates[following] + width <= ends[number]:
            at = candidates[following]
            following += 1
            # A candidate inside the delimiter before it is skipped (width + 1 never equals width).
            same = 1 if at >= offset else width + 1
            while same < width and data[at + same] == mark[same]:
                same += 1
            if same == width:
                run[count], begins[count], stops[count] = number, offset, at
                count += 1
                offset = at + width
        if finish and offset < ends[number]:
            run[count], begins[count], stops[count] = number, offset, ends[number]
            count += 1
            offset = ends[number]
    return count, offset


@kernel(writes=("begins", "stops"))
def find_descriptor_records(
    data: Octets, blocks: bool, words: Longs, begins: Longs, stops: Longs
) -> tuple[int, int, int, int]:
    """Follow the descriptor words of records (RDW), in blocks (BDW) or not, and find the records.

    ``words`` has three numbers for record words, and three for block words: 1 if little-endian, 1
    if the length is in the second half, and the number of bytes to add to the length. Returns the
    number of records, the offset of the first incomplete or invalid one, a problem code, and the
    wrong length.

    For example, ``00 06 00 00 A B 00 05 00 00 C 00 09 00 00 D`` has two complete records, at 4 to 6
    and 10 to 11. The incomplete one starts at 11.
    """
    count = offset = 0
    size = len(data)
    while offset + DESCRIPTOR <= size:
        end = size
        if blocks:
            length = _block_length(data, offset, words)
            if length < DESCRIPTOR:
                return count, offset, NO_BLOCK, length
            end = offset + length
            if end > size:
                break
            offset += DESCRIPTOR
        while offset + DESCRIPTOR <= end:
            length = _record_length(data, offset, words)
            if length < DESCRIPTOR or _has_flags(data, offset, words):
                return count, offset, NO_RECORD, length
            # An incomplete record: it continues in the next chunk, or runs over its block.
            if offset + length > end:
                break
            begins[count], stops[count] = offset + DESCRIPTOR, offset + length
            count += 1
            offset += length
        # Bytes are left over. In a block that is an error; otherwise the record is just incomplete.
        if offset != end:
            return count, offset, OVERRUN if blocks else FINE, 0
    return count, offset, FINE, 0


@kernel(writes=("begins", "stops"))
def find_typed_records(
    data: Octets, width: int, finish: bool, begins: Longs, stops: Longs
) -> tuple[int, int, int, int]:
    """Follow the record words of a Micro Focus file, and find its data records. Returns the same as ``find_descriptor_records``.

    Before each record is a word of 2 or 4 bytes: a type in the first four bits, then the length. A
    record is padded to a multiple of four bytes, at least eight. With ``finish``, the last record
    may lack its padding. For NO_TYPE the last returned number is the type.

    For example, ``40 03 A B C 20 20 20, 20 01 D 20 20 20 20 20`` has a record of type 4 (data) at 2
    to 5, and a record of type 2, which is deleted and therefore skipped.
    """
    count = offset = 0
    size = len(data)
    while offset + width <= size:
        type_ = int(data[offset]) >> 4
        if type_ < DELETED - 1 or type_ > DATA:
            return count, offset, NO_TYPE, type_
        # The length has 12 bits in a word of 2 bytes, and 28 bits in a word of 4.
        length = int(data[offset]) & 15
        for at in range(1, width):
            length = length << 8 | int(data[offset + at])
        end = offset + width + length
        padded = max(_LEAST_TYPED, (width + length + 3) // 4 * 4)
        # Incomplete: the record itself, or its padding if more bytes may follow.
        if end > size or (offset + padded > size and not finish):
            break
        if type_ == DATA:
            begins[count], stops[count] = offset + width, end
            count += 1
        offset = min(offset + padded, size)
    return count, offset, FINE, 0


@kernel(writes=("begins", "stops", "closes"))
def find_spanned_records(
    data: Octets, left: int, words: Longs, begins: Longs, stops: Longs, closes: Octets
) -> tuple[int, int, int, int, int]:
    """Follow the descriptor words of spanned records, and find the segments of complete ones; ``closes`` marks the last segment of each record.

    The data starts inside a block of which ``left`` bytes remain, or at a new block if 0. Returns the
    number of segments, the offset of the first incomplete record, the number of bytes from there to
    the end of the block, a problem code, and the wrong length.

    A segment's third byte is 0 for a complete record, 1 for the first segment, 3 for a middle one
    and 2 for the last. For example, the block ``00 14 00 00, 00 06 01 00 A B, 00 05 02 00 C, 00 05
    00 00 D`` of two records has segments at 8 to 10, 14 to 15 and 19 to 20; the last two close a
    record.
    """
    count = complete = offset = end = 0
    size, block = len(data), left
    end_left = left
    is_open = False
    while offset < size:
        # A block ends here, so a block descriptor follows.
        if offset == block:
            if offset + DESCRIPTOR > size:
                break
            length = _block_length(data, offset, words)
            if length < DESCRIPTOR:
                return complete, end, end_left, NO_BLOCK, length
            block = offset + length
            offset += DESCRIPTOR
            continue
        if offset + DESCRIPTOR > block:
            return complete, end, end_left, OVERRUN, 0
        if offset + DESCRIPTOR > size:
            break
        length = _record_length(data, offset, words)
        code = data[offset + 2]
        if length < DESCRIPTOR or code > 3 or data[offset + 3]:
            return complete, end, end_left, NO_RECORD, length
        # Codes 2 and 3 continue a record; 0 and 1 begin one. Either is wrong in the wrong state.
        if is_open != (code >= 2):
            return complete, end, end_left, NO_SEGMENT, length
        if offset + length > block:
            return complete, end, end_left, OVERRUN, length
        if offset + length > size:
            break
        begins[count], stops[count] = offset + DESCRIPTOR, offset + length
        is_open = code == 1 or code == 3
        closes[count] = not is_open
        count += 1
        offset += length
        # Only complete records are returned: remember the state after the last one.
        if not is_open:
            complete, end, end_left = count, offset, block - offset
    if not is_open and offset == block:
        return complete, offset, 0, FINE, 0
    return complete, end, end_left, FINE, 0


class LengthTables(NamedTuple):
    """The rules of ``RecordLengths`` as flat arrays.

    ``key`` has three numbers: how many bytes of a record must be known to choose its rule, the
    default rule, and the width of a row of ``shifts``. A row of ``rules`` is: base length, minimum
    length, first term, end of terms. A row of ``terms`` is: offset, width, encoding, factor, maximum
    (negative: none).
    """

    key: Longs
    places: Longs
    values: Longs
    chosen: Longs
    rules: Longs
    terms: Longs
    shifts: Longs


@kernel(writes=("numbers", "begins", "stops"))
def find_computed_records(
    data: Octets,
    adjustment: int,
    lengths: LengthTables,
    numbers: Longs,
    begins: Longs,
    stops: Longs,
) -> tuple[int, int, int, int]:
    """Follow records without descriptors, and find them by lengths computed from numbers in them (``LengthTables``).

    Returns the same as ``find_descriptor_records``, but for NO_NUMBER the last returned number is the
    index of the term.

    For each record, a rule is chosen by the record's key bytes. The length is the rule's constant
    plus, for each of the rule's terms, a number read from the record times a factor, plus
    ``adjustment``. The offset of a term can depend on the numbers of earlier terms (``shifts``).
    ``numbers`` is working memory for one record.

    For example, in ``03 A B 02 C 04 D``, with the length in the first byte, two records are
    complete, at 0 to 3 and 3 to 5.
    """
    key, places, values, chosen, rules, terms, shifts = lengths
    count = offset = 0
    size = len(data)
    while offset < size:
        rule = 0
        # Several rules: choose one by the key bytes.
        if len(places):
            if offset + key[0] > size:
                break
            rule = _rule_of(data, offset, key[1], places, values, chosen)
            if rule < 0:
                return count, offset, NO_RULE, 0
        length = rules[4 * rule] + adjustment
        first, end = rules[4 * rule + 2], rules[4 * rule + 3]
        fits = True
        for term in range(first, end):
            row = 5 * term
            at, width = offset + terms[row], terms[row + 1]
            # Tables before this number move it by their actual lengths.
            for before in range(term - first):
                at += shifts[term * key[2] + before] * numbers[before]
            if at + width > size:
                fits = False
                break
            number = _coded_number(data, at, width, terms[row + 2])
            if number < 0 or (terms[row + 4] >= 0 and number > terms[row + 4]):
                return count, offset, NO_NUMBER, term
            # An absurd number cannot overflow the sum below; the record then counts as incomplete.
            fits = fits and number < _LARGE
            numbers[term - first] = number
            length += terms[row + 3] * min(number, _LARGE)
        if fits and length < rules[4 * rule + 1]:
            return count, offset, NO_LENGTH, length
        if not fits or offset + length > size:
            break
        begins[count], stops[count] = offset, offset + length
        count += 1
        offset += length
    return count, offset, FINE, 0


@inner
def _rule_of(
    data: Octets, begin: int, rest: int, places: Longs, values: Longs, chosen: Longs
) -> int:
    """Return the index of a record's length rule.

    It is ``chosen[i]`` for the first value i that equals the record's bytes at the offsets
    ``places``, or ``rest`` if no value is equal. A byte of -1 in a value matches any byte.
    """
    # Example: places 0 1, values 65 -1 66 49 (A and anything; B1) and chosen 7 8: records that begin
    # with A have rule 7, those with B1 rule 8, all others ``rest``.
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
    """Decode a whole number of ``width`` bytes with the encoding ``coding``, such as PACKED.

    Returns -1 if the bytes are not a number, or if it is negative.
    """
    if coding <= SIGNED_LITTLE:
        little = coding == LITTLE or coding == SIGNED_LITTLE
        if coding >= SIGNED_BIG and data[at + width - 1 if little else at] >= 0x80:
            return -1
        binary: int = _number(data, at, width, little)
        return binary
    value = 0
    for index in range(width):
        octet = int(data[at + index])
        high, low, last = octet >> 4, octet & 15, index == width - 1
        if coding == ZONED:
            blank = value == 0 and octet in (0x20, 0x40)
            # Zones F (EBCDIC) and 3 (ASCII); C and 4 are a plus overpunched on the first or last digit.
            zone = high == 15 or high == 3 or (high in (4, 12) and (last or index == 0))
            if low > 9 or not (zone or blank):
                return -1
            value = value * 10 + low
        elif coding == PACKED and last:
            if high > 9 or low < 10 or low == 11 or low == 13:
                return -1
            value = value * 10 + high
        else:
            if high > 9 or low > 9:
                return -1
            value = value * 100 + high * 10 + low
    return value


@inner
def _number(data: Octets, at: int, width: int, little: bool) -> int:
    """Return an unsigned binary number, or _BEYOND if it is too large for a signed 64-bit word."""
    value = 0
    for index in range(width):
        if value >= _BEYOND >> 8:
            return _BEYOND
        value = value * 256 + int(data[at + (width - 1 - index if little else index)])
    return value


@inner
def _record_length(data: Octets, offset: int, words: Longs) -> int:
    """Return the length that an RDW states, including the descriptor word."""
    length: int = _number(data, offset + 2 * words[1], 2, words[0] != 0) + words[2]
    return length


@inner
def _has_flags(data: Octets, offset: int, words: Longs) -> bool:
    """Return True if the half of an RDW without the length is not zero."""
    other = offset + 2 - 2 * words[1]
    return bool(data[other] != 0 or data[other + 1] != 0)


@inner
def _block_length(data: Octets, offset: int, words: Longs) -> int:
    """Return the length that a BDW states, including the descriptor word.

    If the top bit is set, the length has 31 bits: ``80 01 00 04`` is 65540 bytes.
    """
    little, second, adjustment = words[3] != 0, words[4], words[5]
    half: int = _number(data, offset + 2 * second, 2, little)
    if little or second or half < _EXTENDED >> 16:
        return half + adjustment
    long_length: int = _number(data, offset, DESCRIPTOR, False) - _EXTENDED
    return long_length + adjustment


@kernel(writes=("following",))
def follow_descriptor_chains(
    data: Octets, blocks: bool, words: Longs, longest: int, last: bool, following: Longs
) -> None:
    """For each offset, store the offset of the next record (or block) if a record can start here, else -1.

    A record here must have at most ``longest`` bytes, and the words after it must lead to the end
    of the data: exactly to it if ``last``, else to any offset at or beyond it. The loop runs
    backwards, so the answer for the next record is already known.

    For example, in ``00 05 00 00 A 00 05 00 00 B`` the results are 5 at offset 0 and 10 at 5; with
    ``last`` all others are -1.
    """
    size = len(data)
    for offset in range(size - 1, -1, -1):
        following[offset] = -1
        # No complete word fits here, so a record may start here unless the file ends.
        if offset + DESCRIPTOR > size:
            following[offset] = -1 if last else size
            continue
        length = (
            _block_length(data, offset, words) if blocks else _record_length(data, offset, words)
        )
        if length < DESCRIPTOR or length > longest:
            continue
        if not blocks and _has_flags(data, offset, words):
            continue
        end = offset + length
        # The chain breaks: it runs over the end of the file, or to an offset where no record can
        # start.
        if (end > size and last) or (end < size and following[end] < 0):
            continue
        # In a block, the record words must lead exactly to the block's end. Without blocks this
        # loop does nothing.
        inside = offset + DESCRIPTOR if blocks else end
        while inside + DESCRIPTOR <= min(end, size):
            record_length = _record_length(data, inside, words)
            if (
                record_length < DESCRIPTOR
                or inside + record_length > end
                or _has_flags(data, inside, words)
            ):
                break
            inside += record_length
        if inside == end or inside + DESCRIPTOR > size:
            following[offset] = end


@kernel(writes=("marks",))
def find_common_offset(following: Longs, reach: int, marks: Octets) -> int:
    """Find the first offset, ``reach`` or later, that all chains starting before ``reach`` pass through.

    Returns -1 if there is none. ``following[i]`` is the next offset of the chain at i, or -1 if no
    chain can start there. ``marks`` is working memory: an array of zeros, as long as ``following``.
    The loop marks the offsets that any chain reaches, and counts the marked offsets that it has not
    passed. If the current offset is the only one, all chains meet here.

    For example, in ``2 -1 4 4 6 -1 8 -1`` with a reach of 4, chains start at 0, 2 and 3, and all
    pass through 4.
    """
    open_chains = 0  # the number of marked offsets that the loop has not passed
    size = len(following)
    for offset in range(size):
        if offset < reach and following[offset] >= 0 and not marks[offset]:
            marks[offset] = 1
            open_chains += 1
        if not marks[offset]:
            continue
        if offset >= reach and open_chains == 1:
            return offset
        after = following[offset]
        if after >= size:
            return -1
        open_chains -= 1
        if not marks[after]:
            marks[after] = 1
            open_chains += 1
    return -1
