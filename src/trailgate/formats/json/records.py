"""The JSON documents in a batch of messages as records, and the header fields in them.

A record is a top-level value of a message, as a node of the scan (`scanner.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.formats.json.scanner import CONTAINERS, JsonNodes
from trailgate.formats.json.scanner_kernels import KINDS, NULL, OBJECT
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.records import MessageRecords
from trailgate.messages.skipped import SkipReason

SHOWN = 4096  # bytes of a record that an error keeps


@dataclass(frozen=True, slots=True)
class JsonRecords(MessageRecords):
    """The JSON documents of a batch of messages as records.

    `document` is the node of each record's document, and `holder` the node of the object in it
    whose members are the header fields: the document itself, or its payload. A header field is a
    member of the holder, or a path of names such as `tokens.6`. `known` and `found` cache the
    columns and nodes that were already read.
    """

    no_record: ClassVar[SkipReason] = SkipReason.EMPTY_ARRAY

    nodes: JsonNodes
    document: Longs
    holder: Longs
    known: dict[str, pa.Array] = field(default_factory=dict)
    found: dict[str, Longs] = field(default_factory=dict)

    def text(self, name: str) -> pa.Array:
        """Return a member of each JSON document as text, null if it is missing or JSON null.

        Raises BadMessagesError if it is an object or an array.
        """
        if name not in self.known:
            self.known[name] = self._text(name)
        return self.known[name]

    def node_at(self, path: str) -> Longs:
        """Return each record's JSON node at a path of names separated by points, or `NO_NODE`.

        A member with the complete path as its name takes precedence.
        """
        if path not in self.found:
            self.found[path] = self._node_at(path)
        return self.found[path]

    def _node_at(self, path: str) -> Longs:
        members = self.nodes.members(self.holder, [path])[0]
        above, point, last = path.rpartition(".")
        if not point or (members >= 0).all():
            return members
        # Example: `tokens.6` is first searched as one name; records that lack it are searched for
        # `6` in `tokens`.
        below = self.nodes.members(self.node_at(above), [last])[0]
        return np.where(members >= 0, members, below)

    def _text(self, name: str) -> pa.Array:
        nodes = self.node_at(name)
        values, nested = self.nodes.strings_and_nested(nodes)
        if nested:
            kinds = self.nodes.kinds(nodes)

            def errors(rows: Longs) -> ErrorColumns:
                found = _kind_names("expected text or a number, found {}", kinds[rows])
                return self.errors(rows, found, field=name)

            self.refuse(np.flatnonzero(np.isin(kinds, CONTAINERS)), errors)
        return values

    def raws(self, rows: Longs) -> pa.BinaryArray:
        """Return the first bytes of several JSON documents, for errors."""
        return self.nodes.raws(self.document[rows], SHOWN)

    def check_objects(self) -> None:
        """Raise BadMessagesError if a JSON document is not an object."""
        kinds: Octets = self.nodes.kinds(self.holder)
        bad = np.flatnonzero(kinds != OBJECT)
        if len(bad):
            self.refuse(
                bad,
                lambda rows: self.errors(
                    rows, _kind_names("expected a JSON object, found {}", kinds[rows])
                ),
            )


def _kind_names(text: str, kinds: Octets) -> pa.StringArray:
    """Fill the name of each JSON type into a text.

    Example: "expected text, found {}" and NUMBER become "expected text, found a number".
    """
    # Format the text once for each distinct type, and repeat it by index.
    known, which = np.unique(kinds, return_inverse=True)
    texts = [text.format(KINDS.get(kind, "nothing")) for kind in known.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(which))


def document_records(messages: MessageBatch, nodes: JsonNodes) -> JsonRecords:
    """Return the messages' JSON documents as records whose header fields are members of the document itself."""
    starts = messages.starts - (int(messages.starts[0]) if len(messages) else 0)
    offset = nodes.start[nodes.root] - starts[nodes.message]
    return JsonRecords(
        messages, nodes.message, offset, nodes, document=nodes.root, holder=nodes.root
    )


def text_maps(records: JsonRecords, name: str) -> pa.Array | None:
    """Return a member of each JSON record as a map of names to strings, null if it is missing.

    Returns None if no record has the member. Raises BadMessagesError if such a member is not an
    object, or contains objects or arrays.
    """
    nodes = records.nodes
    parents = records.node_at(name)
    kinds = nodes.kinds(parents)
    odd = np.flatnonzero((kinds != OBJECT) & (kinds != 0) & (kinds != NULL))
    if len(odd):
        records.refuse(odd, lambda rows: _not_text(records, rows, name, kinds[rows]))
    rows = np.flatnonzero(kinds == OBJECT)
    if not len(rows):
        return None
    begins, ends = parents[rows] + 1, nodes.last[parents[rows]].astype(np.int64)
    counts = ends - begins
    # `begins` and `ends` bound the member nodes of each object; all of them are leaves, so
    # consecutive. Example: begins = [3, 9] and counts = [2, 1] give entries [3, 4, 9].
    places = np.cumsum(counts) - counts
    entries: Longs = np.arange(int(counts.sum())) + np.repeat(begins - places, counts)
    below = nodes.kind[entries]
    if np.isin(below, CONTAINERS).any():
        at = np.repeat(rows, counts)[np.isin(below, CONTAINERS)]
        records.refuse(
            np.unique(at),
            lambda rows: _not_text(records, rows, name, np.full(len(rows), OBJECT, np.uint8)),
        )
    # Records without the member have a size of 0, so their map is empty; below it becomes null.
    offsets = np.zeros(len(parents) + 1, np.int32)
    sizes = np.zeros(len(parents), np.int64)
    sizes[rows] = counts
    np.cumsum(sizes, out=offsets[1:])
    keys = pa.array(nodes.names, pa.string()).take(pa.array(nodes.name[entries]))
    maps = pa.MapArray.from_arrays(pa.array(offsets), keys, nodes.strings(entries))
    if len(rows) == len(parents):
        return maps
    # Arrow's bitmap of valid records has one bit for each, the first one in the lowest bit.
    valid = np.packbits(kinds == OBJECT, bitorder="little")
    buffers = [pa.py_buffer(valid), maps.buffers()[1]]
    return pa.MapArray.from_buffers(maps.type, len(maps), buffers, children=[maps.values])


def _not_text(records: JsonRecords, rows: Longs, name: str, kinds: Octets) -> ErrorColumns:
    problem = _kind_names(f"expected an object of strings as {name}, found {{}}", kinds)
    return records.errors(rows, problem, "Tokens are names with strings", field=name)
