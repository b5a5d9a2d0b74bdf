"""JSON objects as the records of messages."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.errors import DecodeError
from trailgate.messages.json_text.kernels.layout import (
    ARRAY,
    FALSE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
)
from trailgate.messages.json_text.nodes import CONTAINERS, Nodes
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.records import Records

SHOWN = 4096  # bytes of a record that an error may need
KINDS = {
    OBJECT: "an object", ARRAY: "an array", STRING: "a string", NUMBER: "a number",
    TRUE: "true", FALSE: "false", NULL: "null",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JsonRecords(Records):
    """The documents of messages; a header field is a member of one, or a path to one as in ``tokens.6``.

    ``holder`` is the object whose members these are.
    """

    nodes: Nodes
    document: Longs
    holder: Longs
    known: dict[str, pa.Array] = field(default_factory=dict)
    found: dict[str, Longs] = field(default_factory=dict)

    def text(self, name: str) -> pa.Array:
        """Return each record's member as text, null where it is null or there is none; raises BadMessagesError for objects and arrays."""
        if name not in self.known:
            self.known[name] = self._text(name)
        return self.known[name]

    def node_at(self, path: str) -> Longs:
        """Return the node that names with points between them lead to in each record, ``NO_NODE`` where there is none.

        A member that has the whole name comes first.
        """
        if path not in self.found:
            self.found[path] = self._node_at(path)
        return self.found[path]

    def _node_at(self, path: str) -> Longs:
        found = self.nodes.members(self.holder, [path])[0]
        above, point, last = path.rpartition(".")
        if not point or (found >= 0).all():
            return found
        below = self.nodes.members(self.node_at(above), [last])[0]
        return np.where(found >= 0, found, below)

    def _text(self, name: str) -> pa.Array:
        nodes = self.node_at(name)
        values, nested = self.nodes.texts_and_nested(nodes)
        if nested:
            kinds = self.nodes.kinds(nodes)

            def error(row: int) -> DecodeError:
                problem = f"expected text or a number, found {KINDS[int(kinds[row])]}"
                return self.error(row, problem, field=name)

            self.refuse(np.flatnonzero(np.isin(kinds, CONTAINERS)), error)
        return values

    def raw(self, row: int) -> bytes:
        """Return the beginning of a record's document."""
        return self.nodes.raw(int(self.document[row]))[:SHOWN]

    def check_objects(self) -> None:
        """Raise BadMessagesError where a document is not an object."""
        kinds: Octets = self.nodes.kinds(self.holder)
        bad = np.flatnonzero(kinds != OBJECT)
        if len(bad):

            def error(row: int) -> DecodeError:
                found = KINDS.get(int(kinds[row]), "nothing")
                return self.error(row, f"expected a JSON object, found {found}")

            self.refuse(bad, error)


def document_records(messages: MessageBatch, nodes: Nodes) -> JsonRecords:
    """Return the documents of messages, each with its own members."""
    starts = messages.starts - (int(messages.starts[0]) if len(messages) else 0)
    offset = nodes.start[nodes.root] - starts[nodes.message]
    return JsonRecords(
        messages, nodes.message, offset, nodes, document=nodes.root, holder=nodes.root
    )
