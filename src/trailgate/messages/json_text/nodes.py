"""What a scan finds: records, and below them the members of their objects, in the order of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.gather import column, gather_measured, unfit
from trailgate.columnar.kernels.gather import MAX_INT32, TOO_MANY
from trailgate.messages.json_text.kernels import members as kernels
from trailgate.messages.json_text.kernels.layout import ARRAY, OBJECT
from trailgate.messages.json_text.kernels.members import NO_NODE

CONTAINERS: Final = (OBJECT, ARRAY)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The values of a batch of messages.

    ``text`` holds the messages, and after them the strings that had escapes. Node i is named ``names[name[i]]``; its value is at
    ``start[i]``, a string's without its quotes; the nodes i + 1 to before ``last[i]`` are below it. ``root`` and ``message``
    are the node and the message of each record.
    """

    text: Octets
    names: list[str]
    name: Offsets
    kind: Octets
    start: Longs
    length: Longs
    last: Offsets
    root: Longs
    message: Longs

    def members(self, parents: Longs, names: Sequence[str]) -> Sequence[Longs]:
        """Return for each name the member of each parent, ``NO_NODE`` where there is none or the parent is not an object."""
        if not any(name in self.names for name in names):
            return [np.full(len(parents), NO_NODE)] * len(names)
        slot = np.full(len(self.names), -1, np.int64)
        for number, name in enumerate(names):
            if name in self.names:
                slot[self.names.index(name)] = number
        found = np.full(len(names) * len(parents), NO_NODE)
        kernels.pick_members(parents, self.name, self.kind, self.last, slot, found)
        return list(found.reshape(len(names), len(parents)))

    def kinds(self, nodes: Longs | Offsets) -> Octets:
        """Return the kind of each node's value, 0 where there is none."""
        if not len(self.kind):
            return np.zeros(len(nodes), np.uint8)
        kinds: Octets = np.where(nodes >= 0, self.kind[nodes], 0).astype(np.uint8)
        return kinds

    def texts(self, nodes: Longs) -> pa.Array:
        """Return each node's value as text, null where it is null or there is no node."""
        return self.texts_and_nested(nodes)[0]

    def texts_and_nested(self, nodes: Longs) -> tuple[pa.Array, int]:
        """Return each node's value as text, and how many of them are the JSON texts of objects and arrays."""
        rows = len(nodes)
        begins, offsets = np.empty(rows, np.int64), np.empty(rows + 1, np.int32)
        nulls = np.empty(rows, bool)
        nodes = np.ascontiguousarray(nodes)
        nested = kernels.measure_nodes(
            nodes, self.kind, self.start, self.length, begins, offsets, nulls
        )
        if nested < 0:
            raise unfit(nested, len(self.text))
        values = gather_measured(self.text, begins, offsets, nulls, text=True, checked=True)
        return values, nested

    def text_columns(self, begins: Longs, sizes: Offsets, count: int) -> Sequence[pa.Array]:
        """Return ``count`` columns of as many texts each, by their places; one of a negative size is null."""
        ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
        if len(ends) and ends[-1] > MAX_INT32:
            raise unfit(TOO_MANY, len(self.text))
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        nulls = sizes < 0
        values = gather_measured(self.text, begins, offsets, nulls, text=True, checked=True)
        data, size = values.buffers()[2], len(sizes) // max(1, count)
        parts = (slice(at * size, (at + 1) * size) for at in range(count))
        # Each with offsets of its own: loops take columns that begin at their first row.
        return [
            column(offsets[own.start : own.stop + 1], data, nulls[own], text=True) for own in parts
        ]

    def raw(self, node: int) -> bytes:
        """Return the bytes of a node's value."""
        begin = int(self.start[node])
        return self.text[begin : begin + int(self.length[node])].tobytes()
