"""Operations that follow one another put into transactions by their ids.

Records of transactions into messages, by their sizes.
"""

from __future__ import annotations

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8


@kernel(writes=("opens",))
def find_changes(data: Octets, offsets: Offsets, ends: Mask, opens: Mask) -> None:
    """Mark the operations whose id is not that of the one before, or that follow an end; the first one is left as it is."""
    for row in range(1, len(opens)):
        opens[row] = ends[row - 1] or not same(data, offsets, row)


@inner
def same(data: Octets, offsets: Offsets, row: int) -> bool:
    """Return whether a text is that of the row before."""
    beside, at, end = offsets[row - 1], offsets[row], offsets[row + 1]
    if end - at != at - beside or beside < 0 or end > len(data):
        return False
    while at + 8 <= end:
        if load8(data, beside) != load8(data, at):
            return False
        beside += 8
        at += 8
    for byte in range(end - at):
        if data[beside + byte] != data[at + byte]:
            return False
    return True


@kernel(writes=("opened", "starts"))
def mark_units(
    message: Longs,
    opens: Mask,
    ends: Mask,
    unreadable: Mask,
    awaiting: Mask,
    is_open: bool,
    opened: Mask,
    starts: Mask,
) -> bool:
    """Mark the messages that open a transaction and those that start a unit; return whether nothing is open after the last one.

    ``opened`` has the unreadable messages already that open one. After these something may be open. After an operation that is not marked as
    an end something is open up to the next message that opens a transaction: whether that comes may not be known yet. After ``awaiting`` ones something is
    open up to the next message that opens a transaction: parts of theirs may come until then.
    """
    row, awaits = 0, False
    for number in range(len(opened)):
        starts[number] = opened[number] or not is_open
        awaits = awaits and not opened[number]
        if row < len(message) and message[row] == number:
            opened[number] = opens[row]
            starts[number] = starts[number] or opens[row]
            awaits = awaits and not opens[row]
            while row < len(message) and message[row] == number:
                is_open = not ends[row]
                row += 1
        awaits = awaits or awaiting[number]
        if unreadable[number] or awaits:
            is_open = True
    return not is_open


@kernel(writes=("letters", "ordinals"))
def number_operations(
    opens: Mask,
    closes: Mask,
    before: int,
    letters_of: Octets,
    letters: Octets,
    ordinals: Longs,
) -> int:
    """Write each operation's indicator and its number in its transaction; return how many the last one has.

    ``before`` is how many the one that is open before has. ``letters_of`` are the indicators of operations in the middle, at the end, at the beginning, and
    of whole transactions.
    """
    count = before
    for row in range(len(opens)):
        if opens[row]:
            count = 0
        letters[row] = letters_of[2 * opens[row] + closes[row]]
        ordinals[row] = count
        count += 1
    return count


@kernel(writes=("first", "segment"))
def cut_messages(
    sizes: Longs,
    begins: Mask,
    single: bool,
    overhead: int,
    limit: int,
    held: int,
    number: int,
    first: Longs,
    segment: Longs,
) -> int:
    """Write each message's first record and its number in its transaction; return how many begin, or -1 - row of a record that is too long.

    A message ends where a transaction begins (``begins``), before a record that would make it longer than ``limit``, or with
    each record where they are ``single``. ``overhead`` are the bytes that each message has beside its records, ``held`` those of a message that is open
    before the first record, -1 for none, and ``number`` is that message's number.
    """
    count, size = 0, held
    for row in range(len(sizes)):
        if sizes[row] + overhead > limit:
            return -1 - row
        new = size < 0 or begins[row]
        if new or single or size + sizes[row] > limit:
            number = 0 if new or single else number + 1
            first[count], segment[count] = row, number
            count += 1
            size = overhead
        size += sizes[row]
    return count
