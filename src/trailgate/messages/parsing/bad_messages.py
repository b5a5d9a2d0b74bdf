"""The errors of many messages of a batch at once, so that each message is parsed only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.errors import DecodeError, TrailgateError


class BadMessagesError(Exception):
    """The error of each bad message that was found, by its number in the batch.

    There may be more. It never leaves the parser: the good ones are parsed again without these.
    """

    def __init__(self, errors: Mapping[int, TrailgateError]) -> None:
        self.errors = errors
        super().__init__(f"{len(errors)} bad messages")


def errors_by_row(
    convert: Callable[[pa.Array], object], values: pa.Array, error: DecodeError
) -> dict[int, DecodeError]:
    """Return the error of each row that ``convert`` refuses; ``error`` is that of the column.

    An error has the first bad row of what was tried. How much is tried at once follows from how
    far the last bad rows lay apart, so that both few and many cost little.
    """
    coded = values.dictionary_encode()
    # Values that look alike are mostly bad together: sorted, they are neighbours.
    order = pc.array_sort_indices(coded.dictionary)
    found = _refused(convert, coded.dictionary.take(order))
    if not found:
        raise error
    by_value = {order[at].as_py(): found[at] for at in found}
    codes = enumerate(coded.indices.to_pylist())
    return {row: by_value[code] for row, code in codes if code in by_value}


def _refused(convert: Callable[[pa.Array], object], values: pa.Array) -> dict[int, DecodeError]:
    errors = {}
    at, size = 0, len(values)
    while at < len(values):
        size = min(size, len(values) - at)
        try:
            convert(values.slice(at, size))
        except DecodeError as error:
            good = error.where.record or 0
            errors[at + good] = error
            at, size = at + good + 1, 1 + good
        else:
            at, size = at + size, 2 * size
    return errors
