"""The compiled loop that packs written records into messages to publish, for ``publishing.py``."""

from __future__ import annotations

from trailgate.arrays import Longs, Mask
from trailgate.columnar.compiling import kernel


@kernel(writes=("first", "segment"))
def cut_records(
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
    """Pack written records into messages to publish: find the first record of each message.

    Writes it into `first`, and into `segment` the message's number in its transaction. A message
    ends where a transaction begins (`begins`), before a record that would make it longer than
    `limit`, or after each record if `single`. `overhead` is the number of bytes that each message
    has besides its records. `held` is the size of the message that is still open before the first
    record, or -1. `number` is the number of that message in its transaction.

    Returns the number of messages that begin, or -1 - row if the record `row` is too long.

    Example with a limit of 100: records of 40, 40, 40, 10 and 10 bytes, of which records 0, 3 and 4
    begin transactions, make four messages: `first` is 0, 2, 3, 4 and `segment` is 0, 1, 0, 0.
    """
    count, size = 0, held
    for row in range(len(sizes)):
        if sizes[row] + overhead > limit:
            return -1 - row
        # No message is open, or another transaction begins.
        new = size < 0 or begins[row]
        if new or single or size + sizes[row] > limit:
            number = 0 if new or single else number + 1
            first[count], segment[count] = row, number
            count += 1
            size = overhead
        size += sizes[row]
    return count
