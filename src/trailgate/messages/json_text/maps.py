"""Objects of texts as maps: tokens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.errors import DecodeError
from trailgate.messages.json_text.kernels.layout import NULL, OBJECT
from trailgate.messages.json_text.nodes import CONTAINERS
from trailgate.messages.json_text.records import KINDS, JsonRecords


def text_maps(records: JsonRecords, name: str) -> pa.Array | None:
    """Return each record's member as a map of names to texts, null where it has none; None where no record has one.

    Raises BadMessagesError where such a member is not an object, or has objects or arrays.
    """
    nodes = records.nodes
    parents = nodes.members(records.holder, [name])[0]
    kinds = nodes.kinds(parents)
    odd = np.flatnonzero((kinds != OBJECT) & (kinds != 0) & (kinds != NULL))
    if len(odd):
        records.refuse(odd, lambda row: _error(records, row, name, int(kinds[row])))
    rows = np.flatnonzero(kinds == OBJECT)
    if not len(rows):
        return None
    begins, ends = parents[rows] + 1, nodes.last[parents[rows]].astype(np.int64)
    counts = ends - begins
    places = np.cumsum(counts) - counts
    entries: Longs = np.arange(int(counts.sum())) + np.repeat(begins - places, counts)
    below = nodes.kind[entries]
    if np.isin(below, CONTAINERS).any():
        at = np.repeat(rows, counts)[np.isin(below, CONTAINERS)]
        records.refuse(np.unique(at), lambda row: _error(records, row, name, OBJECT))
    offsets = np.zeros(len(parents) + 1, np.int32)
    sizes = np.zeros(len(parents), np.int64)
    sizes[rows] = counts
    np.cumsum(sizes, out=offsets[1:])
    keys = pa.array(nodes.names, pa.string()).take(pa.array(nodes.name[entries]))
    maps = pa.MapArray.from_arrays(pa.array(offsets), keys, nodes.texts(entries))
    if len(rows) == len(parents):
        return maps
    valid = np.packbits(kinds == OBJECT, bitorder="little")
    buffers = [pa.py_buffer(valid), maps.buffers()[1]]
    return pa.MapArray.from_buffers(maps.type, len(maps), buffers, children=[maps.values])


def _error(records: JsonRecords, row: int, name: str, kind: int) -> DecodeError:
    problem = f"expected an object of texts as {name}, found {KINDS[kind]}"
    return records.error(row, problem, "Tokens are names with texts", field=name)
