"""Compiled loops of ``model/transactions.py`` and ``model/positions.py``.

They follow transactions, repair the indicators of kept rows, and write trail positions. A row is an
operation or a trail record. Its marks state whether it begins or ends a transaction.
"""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.numbers_kernels import DIGITS, LIMIT, write_ten_digits

# Marks of a row.
BEGINS: Final = 1  # the row begins a transaction
ENDS: Final = 2  # the row ends its transaction
APART: Final = 4  # the row is not part of the transaction around it
UNDOES: Final = 8  # the row is a restart that abandons the open transaction
UNKNOWN: Final = 16  # it is unknown what the row begins or ends

# Faults of a row.
CONTINUES_NOTHING: Final = 1  # the row continues a transaction, but none is open
BEGINS_INSIDE: Final = 2  # the row begins a transaction while another one is open
ABANDONS: Final = 3  # the row is a restart while a transaction is open

# Flags of a transaction.
BEGUN: Final = 1
ENDED: Final = 2
CONTINUED: Final = 4  # a row after its end continues it
ABANDONED: Final = 8

# What becomes of the transaction that is open before the rows: it stays open without further rows, gets more
# rows, or ends.
STAYS, GETS_MORE, HAS_ENDED = range(3)


@kernel(writes=("number", "starts", "faults", "flags"))
def follow(
    marks: Octets, is_open: bool, number: Longs, starts: Mask, faults: Octets, flags: Octets
) -> tuple[int, bool]:
    """Write each row's transaction number, whether it is the first row of that transaction, and its fault.

    ``flags`` gets one item per transaction, for example ``BEGUN | ENDED``. Number 0 is the
    transaction before all rows, which is open if ``is_open``. Returns the number of the last
    transaction, and whether it is open.

    For begin, middle, end, whole, middle the numbers are 1 1 1 2 3. The last row has the fault
    ``CONTINUES_NOTHING``, and transaction 2 before it gets the flag ``CONTINUED``.
    """
    # Example: begin, middle, end, whole, middle.
    #   begin   opens transaction 1, BEGUN           middle  is in 1
    #   end     ENDED, none is open                  whole   opens and ends transaction 2
    #   middle  none is open: a fault, transaction 2 gets CONTINUED, and the row opens transaction 3
    current = 0
    flags[0] = 0
    for row in range(len(marks)):
        mark = marks[row]
        faults[row] = 0
        starts[row] = False
        if mark & APART:
            number[row] = current
            continue
        begins = mark & (BEGINS | UNDOES)
        if begins and is_open:
            faults[row] = BEGINS_INSIDE
            if mark & UNDOES:
                faults[row] = ABANDONS
                flags[current] |= ABANDONED
        elif not (begins or is_open or mark & UNKNOWN):
            faults[row] = CONTINUES_NOTHING
            flags[current] |= CONTINUED
        if begins or mark & UNKNOWN or not is_open:
            current += 1
            starts[row] = True
            flags[current] = BEGUN if begins else 0
        number[row] = current
        if mark & (ENDS | UNDOES):
            flags[current] |= ENDED
        is_open = not mark & (ENDS | UNDOES | UNKNOWN)
    return current, is_open


@kernel(writes=("letters",))
def mark_remaining(
    marks: Octets,
    keep: Mask,
    begun: bool,
    ended_before: bool,
    letters_of: Octets,
    letters: Octets,
) -> tuple[int, int]:
    """Write the indicators of the kept operations, as if the others had never been in their transactions.

    ``begun`` is true if an operation of the earlier transaction, which is open before all rows, was
    already kept. ``ended_before`` is true if the earlier transaction has ended without another row.
    ``letters_of`` are the indicators of an operation in the middle, at the end, at the beginning,
    and alone. Returns the last kept row of the transaction that is open after all rows, or -1, and
    the state of the earlier transaction (``STAYS``, ``GETS_MORE`` or ``HAS_ENDED``).

    Example: if the second, third and fifth of the operations begin, middle, end, begin, end are
    kept, their letters are B, E and W.
    """
    # Example: keep 2, 3 and 5 of begin, middle, end, begin, end (rows counted from 1).
    #   row 2  the first kept one of its transaction: BEGIN
    #   row 3  MIDDLE; then its mark ENDS makes it END
    #   row 5  the first kept one: BEGIN; then its mark ENDS makes it WHOLE
    # ``last`` is the last kept row of the open transaction, which becomes the end if the transaction ends with a
    # row that is dropped.
    last, before = -1, HAS_ENDED if ended_before else STAYS
    is_before = not ended_before
    begun = begun and is_before
    for row in range(len(marks)):
        if marks[row] & BEGINS:
            last, begun, is_before = -1, False, False
        if keep[row]:
            letters[row] = letters_of[0 if begun else 2]
            last, begun = row, True
            if is_before:
                before = GETS_MORE
        if marks[row] & ENDS:
            if last >= 0:
                letters[last] = letters_of[3 if letters[last] == letters_of[2] else 1]
            if is_before and before == STAYS:
                before = HAS_ENDED
            last, begun, is_before = -1, False, False
    return last, before


@kernel(writes=("strings",))
def write_positions(numbers: Longs, offsets: Longs, strings: Octets) -> int:
    """Write trail positions: file number and offset as ten digits each. Return the first row in which one has more digits, or -1."""
    for row in range(len(numbers)):
        number, offset = numbers[row], offsets[row]
        if min(number, offset) < 0 or max(number, offset) >= LIMIT * LIMIT:
            return row
        place = 2 * DIGITS * row
        # The rows of one file have the same number: copy its digits from the row before.
        if row and number == numbers[row - 1]:
            for digit in range(DIGITS):
                strings[place + digit] = strings[place + digit - 2 * DIGITS]
        else:
            write_ten_digits(number, strings, place)
        write_ten_digits(offset, strings, place + DIGITS)
    return -1
