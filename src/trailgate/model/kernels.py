"""Loops over operations or records in their order: which transaction each belongs to, and what remains of transactions."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import kernel

# Marks of a row.
BEGINS: Final = 1  # a transaction begins with it
ENDS: Final = 2  # its transaction ends with it
APART: Final = 4  # it is not part of the transaction around it
UNDOES: Final = 8  # a restart: what is open is abandoned
UNKNOWN: Final = 16  # it is not known what it begins or ends

# Faults of a row.
CONTINUES_NOTHING: Final = 1  # it continues a transaction, and none is open
BEGINS_INSIDE: Final = 2  # a transaction begins while another one is open
ABANDONS: Final = 3  # a restart while a transaction is open

# Flags of a transaction.
BEGUN: Final = 1
ENDED: Final = 2
CONTINUED: Final = 4  # the next row continues it, after its end
ABANDONED: Final = 8

# What becomes of the transaction that is open before rows of which some are kept.
STAYS, GETS_MORE, HAS_ENDED = range(3)


@kernel(writes=("number", "starts", "faults", "flags"))
def follow(
    marks: Octets, is_open: bool, number: Longs, starts: Mask, faults: Octets, flags: Octets
) -> tuple[int, bool]:
    """Write each row's transaction, whether it is the first one there is of it, and its fault; return the last transaction, and whether it is open.

    ``flags`` has one slot a transaction, and one for the transaction before all rows, number 0: ``is_open`` is whether that one is open.

    Of begin, middle, end, whole, middle the numbers are 1 1 1 2 3. The last one has the fault ``CONTINUES_NOTHING``, and the transaction before it the flag ``CONTINUED``.
    """
    own = 0
    flags[0] = 0
    for row in range(len(marks)):
        mark = marks[row]
        faults[row] = 0
        starts[row] = False
        if mark & APART:
            number[row] = own
            continue
        begins = mark & (BEGINS | UNDOES)
        if begins and is_open:
            faults[row] = BEGINS_INSIDE
            if mark & UNDOES:
                faults[row] = ABANDONS
                flags[own] |= ABANDONED
        elif not (begins or is_open or mark & UNKNOWN):
            faults[row] = CONTINUES_NOTHING
            flags[own] |= CONTINUED
        if begins or mark & UNKNOWN or not is_open:
            own += 1
            starts[row] = True
            flags[own] = BEGUN if begins else 0
        number[row] = own
        if mark & (ENDS | UNDOES):
            flags[own] |= ENDED
        is_open = not mark & (ENDS | UNDOES | UNKNOWN)
    return own, is_open


@kernel(writes=("letters",))
def mark_remaining(
    marks: Octets,
    keep: Mask,
    begun: bool,
    ended_before: bool,
    letters_of: Octets,
    letters: Octets,
) -> tuple[int, int]:
    """Write the indicators of the operations that are kept, as the first and the last ones of what remains of their transactions.

    ``begun``: operations of the transaction that is open before all are kept already; ``ended_before``: it has ended. ``letters_of`` are the indicators of operations in the
    middle, at the end, at the beginning, and of whole transactions. Returns the last kept row of the transaction that is open after all, -1 for none, and what becomes of the
    one that is open before.

    Of begin, middle, end, begin, end the operations 2, 3 and 5 are kept: their letters are B, E and W.
    """
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
