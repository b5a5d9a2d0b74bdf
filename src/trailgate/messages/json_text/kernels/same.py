"""Texts that are mostly the same, numbered."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.compiled import kernel
from trailgate.messages.json_text.kernels.scan import is_same

MANY: Final = -1


@kernel(writes=("codes", "known"))
def code_texts(text: Octets, starts: Longs, lengths: Longs, codes: Longs, known: Longs) -> int:
    """Write the number of each different text, 0 for one of a negative length; return how many there are, ``MANY`` where they do not fit.

    ``known`` becomes the row of each number's first text.
    """
    count = 1
    last = 0
    for row in range(len(starts)):
        size = lengths[row]
        codes[row] = 0
        if size < 0:
            continue
        at = starts[row]
        if at < 0 or at + size > len(text):
            return MANY
        code = last
        if (
            code == 0
            or lengths[known[code]] != size
            or not is_same(text, starts[known[code]], at, size)
        ):
            code = 1
            while code < count and (
                lengths[known[code]] != size or not is_same(text, starts[known[code]], at, size)
            ):
                code += 1
            if code == count:
                if count == len(known):
                    return MANY
                known[count] = row
                count += 1
        codes[row] = last = code
    return count
