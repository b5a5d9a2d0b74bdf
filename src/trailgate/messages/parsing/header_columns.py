"""Headers of messages in columns: names and values of all of them, as an Arrow map has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask


class HeaderColumns(Sequence[Mapping[str, str]]):
    """The headers of messages, one mapping each, kept as the columns of an Arrow map."""

    def __init__(self, headers: pa.MapArray) -> None:
        self._headers = headers
        self._bounds = np.asarray(headers.offsets).astype(np.int64)

    @staticmethod
    def joined(parts: Sequence[HeaderColumns]) -> HeaderColumns:
        """Return the headers of consecutive batches as one."""
        return HeaderColumns(pa.concat_arrays([part._headers for part in parts]))  # noqa: SLF001  its own

    def __len__(self) -> int:
        return len(self._headers)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, at: slice) -> HeaderColumns: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, str] | HeaderColumns:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            assert step == 1
            return HeaderColumns(self._headers.slice(begin, max(0, end - begin)))
        begin, end = int(self._bounds[at]), int(self._bounds[at + 1])
        names = self._headers.keys.slice(begin, end - begin).to_pylist()
        values = self._headers.items.slice(begin, end - begin).to_pylist()
        return dict(zip(names, values, strict=True))

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        return (self[at] for at in range(len(self)))

    def values(self, name: str) -> pa.Array:
        """Return each message's value of a header, null where it has none; see ``MessageBatch.header``."""
        names, items = self._headers.keys, self._headers.items
        own = np.asarray(pc.equal(names, name).to_numpy(zero_copy_only=False), bool)
        found = self._places(own)
        if (found < 0).any():
            folded = name.casefold()
            coded = names.dictionary_encode()
            alike = [str(known).casefold() == folded for known in coded.dictionary.to_pylist()]
            if any(alike):
                other = self._places(np.asarray(alike, bool)[np.asarray(coded.indices)])
                found = np.where(found < 0, other, found)
        return items.take(pa.array(found, mask=found < 0))

    def _places(self, wanted: Mask) -> Longs:
        """Return the first wanted header of each message, -1 where there is none."""
        places = np.flatnonzero(wanted)
        begins, ends = self._bounds[:-1], self._bounds[1:]
        at = np.searchsorted(places, begins)
        there = np.append(places, np.iinfo(np.int64).max)[at]
        return np.where(there < ends, there, -1)
