"""Records of transactions put into messages, by their sizes."""

from __future__ import annotations

from trailgate.arrays import Longs, Mask
from trailgate.columnar.kernels.compiled import kernel


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

    Records of 40, 40, 40, 10 and 10 bytes, of which 1, 4 and 5 begin transactions, are four messages of at most 100 bytes: ``first`` is 0, 2, 3, 4 and ``segment`` 0, 1, 0, 0.
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
