"""Where records begin and end: the loops of framing."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import inner, kernel

DESCRIPTOR: Final = 4  # bytes of an RDW or BDW: a length and two bytes of flags, zero here
FINE, NO_RECORD, NO_BLOCK, OVERRUN, NO_LENGTH = range(5)
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
    data: Octets, blocks: bool, little: bool, adjustment: int, begins: Longs, stops: Longs
) -> tuple[int, int, int, int]:
    """Fill in the records after descriptor words, in blocks or not.

    Return how many records, where the first one that is not whole begins, a problem, and the length that it is about.

    In ``00 06 00 00 A B 00 05 00 00 C 00 09 00 00 D`` two records are whole, at 4 to 6 and 10 to 11; the next one begins at 11.
    """
    count = place = 0
    size = len(data)
    while place + DESCRIPTOR <= size:
        end = size
        if blocks:
            length = _block_length(data, place, little) + adjustment
            if length < DESCRIPTOR:
                return count, place, NO_BLOCK, length
            end = place + length
            if end > size:
                break
            place += DESCRIPTOR
        while place + DESCRIPTOR <= end:
            length = _number(data, place, 2, little) + adjustment
            if length < DESCRIPTOR or data[place + 2] or data[place + 3]:
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
def length_field_records(
    data: Octets,
    offset: int,
    width: int,
    little: bool,
    adjustment: int,
    begins: Longs,
    stops: Longs,
) -> tuple[int, int, int, int]:
    """Fill in the records that hold their length; return what ``descriptor_records`` does.

    In ``03 A B 02 C 04 D``, with a length of one byte at the beginning, two records are whole, at 0 to 3 and 3 to 5.
    """
    count = place = 0
    size, least = len(data), offset + width
    while place + least <= size:
        length = _number(data, place + offset, width, little) + adjustment
        if length < least:
            return count, place, NO_LENGTH, length
        if place + length > size:
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
def _number(data: Octets, at: int, width: int, little: bool) -> int:
    """Return a binary number without a sign."""
    found = 0
    for index in range(width):
        if found >= _BEYOND >> 8:
            return _BEYOND
        found = found * 256 + int(data[at + (width - 1 - index if little else index)])
    return found


@inner
def _block_length(data: Octets, place: int, little: bool) -> int:
    word: int = _number(data, place, 2 if little else DESCRIPTOR, little)
    if little:
        return word
    return word - _EXTENDED if word >= _EXTENDED else word >> 16
