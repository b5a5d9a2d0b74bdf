"""Scan a batch of JSON messages into nodes: a list of their values.

`JsonScanner` runs the kernel of `scanner_kernels.py` over all messages at once. The result is
`JsonNodes`: parallel arrays with one element per value, in the order of the text. For
`{"op":"U","after":{"ID":7}}`:

    node   name    type     text             last
    0      (root)  OBJECT   the whole text   4
    1      op      STRING   U                2
    2      after   OBJECT   {"ID":7}         4
    3      ID      NUMBER   7                4

`last[i]` is the number of the first node after node i that is not inside it. The members of object
i are therefore the nodes `i + 1`, `last[i + 1]`, and so on until `last[i]`: those of node 0 are 1,
2, and then `last[2]` = 4 ends them. Names are numbered once, and keep their numbers from batch to
batch. `records.py` makes records of the nodes that are messages' top-level values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Octets, Offsets, octets
from trailgate.columnar.gather import gather, gather_measured, measure_error
from trailgate.columnar.gather_kernels import MAX_INT32, TOO_MANY
from trailgate.columnar.strings import build_binary_column
from trailgate.errors import CARET_SHOWN, DecodeError, Where, caret_below
from trailgate.formats.json import node_kernels as kernels
from trailgate.formats.json.node_kernels import NO_NODE
from trailgate.formats.json.scanner_kernels import (
    ARRAY,
    BAD_ESCAPE,
    BAD_LITERAL,
    BAD_NUMBER,
    CONTROL,
    DECODED,
    DONE,
    ENDED,
    FRAME,
    INFO,
    LONE_SURROGATE,
    MORE_NAMES,
    MORE_NODES,
    NAMES,
    NO_COLON,
    NO_COMMA,
    NO_NAME,
    NO_VALUE,
    NODES,
    OBJECT,
    OPEN_STRING,
    POOL,
    POOLED,
    RECORDS,
    SCHEMA_SIZE,
    SIZE,
    SPARE,
    TOO_DEEP,
    TWICE,
    USED,
    FaultArrays,
    JsonText,
    NodeArrays,
    RootArrays,
    ScanTables,
    fill_table,
    scan_json,
)
from trailgate.messages.encoding_checks import check_utf8, registry_hint
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.problems import MessageErrors
from trailgate.messages.records import BadMessagesError

CONTAINERS: Final = (OBJECT, ARRAY)


# The deepest nesting. Real messages have about a dozen levels, and each level costs memory.
DEPTH: Final = 256
_NAMES: Final = 512  # names that the first table has room for
_MOST_NAMES: Final = 1 << 14  # with more names than this, the next batch starts a new table
_NODE: Final = 16  # estimated bytes of text per node
_SHOWN: Final = 8  # bytes shown before and after a fault

# The faults of RFC 8259, and of two things that it leaves open: nesting depth and repeated names.
PROBLEMS: Final = {
    ENDED: ("the JSON text ends too early", "Is the message cut off?"),
    NO_VALUE: ("expected a JSON value", ""),
    NO_NAME: ("expected the name of a member in quotes", ""),
    NO_COLON: ("expected a colon after the name of a member", ""),
    NO_COMMA: ("expected a comma or the end of an object or array", ""),
    BAD_NUMBER: ("not a JSON number", ""),
    BAD_LITERAL: ("expected true, false or null", "Text is in double quotes"),
    CONTROL: ("a control character in a string", "Write it with an escape, such as \\n or \\u0007"),
    BAD_ESCAPE: ("an escape that JSON does not have", 'There are \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX'),
    LONE_SURROGATE: ("half of a surrogate pair, which is not a character", ""),
    OPEN_STRING: ("a string has no closing quote", "Is the message cut off?"),
    TOO_DEEP: (f"more than {DEPTH} levels of nested values", ""),
    TWICE: ("the name of a member occurs twice in an object", "It is unclear which of its values is meant"),
}  # fmt: skip
_ASCII: Final = 128
_PRINTED: Final = np.where(
    (np.arange(256) < 32) | (np.arange(256) == 127), 32, np.arange(256)
).astype(np.uint8)
_BLANKS: Final = b" " * (CARET_SHOWN + 3)


@dataclass(frozen=True, slots=True)
class JsonNodes:
    """The values in a batch of JSON messages, as parallel arrays; the module docstring has an example.

    `text` contains the messages, followed by the decoded form of the strings that have escapes.
    Node i has the name `names[name[i]]` and the value `text[start[i]:start[i] + length[i]]`, a
    string without its quotes. The nodes i + 1 to `last[i]` - 1 are inside it. `root` and
    `message` are the node and the message of each record.
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

    @property
    def arrays(self) -> NodeArrays:
        """The JSON nodes in the form that kernels accept."""
        return NodeArrays(self.name, self.kind, self.start, self.length, self.last)

    def members(self, parents: Longs, names: Sequence[str]) -> Sequence[Longs]:
        """Find, for each name, the member of each JSON object in `parents`.

        The result is `NO_NODE` if an object does not have the member, or the parent is not an
        object.
        """
        if not any(name in self.names for name in names):
            return [np.full(len(parents), NO_NODE)] * len(names)
        # The output column of each name, -1 for names that are not wanted.
        slot = np.full(len(self.names), -1, np.int64)
        for number, name in enumerate(names):
            if name in self.names:
                slot[self.names.index(name)] = number
        found = np.full(len(names) * len(parents), NO_NODE)
        kernels.pick_members(parents, self.name, self.kind, self.last, slot, found)
        return list(found.reshape(len(names), len(parents)))

    def kinds(self, nodes: Longs | Offsets) -> Octets:
        """Return the JSON type of each node's value (OBJECT, STRING ...), or 0 for `NO_NODE`."""
        if not len(self.kind):
            return np.zeros(len(nodes), np.uint8)
        # `NO_NODE` is -1, which reads the last node; `where` replaces that by 0.
        kinds: Octets = np.where(nodes >= 0, self.kind[nodes], 0).astype(np.uint8)
        return kinds

    def strings(self, nodes: Longs) -> pa.Array:
        """Return each JSON node's value as text, null for JSON null and for `NO_NODE`."""
        return self.strings_and_nested(nodes)[0]

    def strings_and_nested(self, nodes: Longs) -> tuple[pa.Array, int]:
        """Return each JSON node's value as text, and how many of the values are objects or arrays (as JSON text)."""
        rows = len(nodes)
        begins, offsets = np.empty(rows, np.int64), np.empty(rows + 1, np.int32)
        nulls = np.empty(rows, bool)
        nodes = np.ascontiguousarray(nodes)
        nested = kernels.measure_nodes(
            nodes, self.kind, self.start, self.length, begins, offsets, nulls
        )
        if nested < 0:
            raise measure_error(nested, len(self.text))
        values = gather_measured(self.text, begins, offsets, nulls, text=True, checked=True)
        return values, nested

    def text_columns(self, begins: Longs, sizes: Offsets, count: int) -> Sequence[pa.Array]:
        """Build `count` text columns of equal length from the spans of JSON values, column by column.

        A negative size is a null. Raises DecodeError if all strings together exceed 2 GiB.
        """
        # Nulls take no bytes. The sum is computed with 64 bits, because 32 could overflow before
        # the check.
        ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
        if len(ends) and ends[-1] > MAX_INT32:
            raise measure_error(TOO_MANY, len(self.text))
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        nulls = sizes < 0
        values = gather_measured(self.text, begins, offsets, nulls, text=True, checked=True)
        data, size = values.buffers()[2], len(sizes) // max(1, count)
        parts = (slice(at * size, (at + 1) * size) for at in range(count))
        # Each column gets its own slice of the offsets, because kernels expect columns without an offset.
        return [
            build_binary_column(offsets[own.start : own.stop + 1], data, nulls[own], text=True)
            for own in parts
        ]

    def raws(self, nodes: Longs, most: int) -> pa.BinaryArray:
        """Return the first bytes (`most` at most) of several JSON nodes' values, for errors."""
        begins = self.start[nodes].astype(np.int64)
        return gather(self.text, begins, begins + np.minimum(self.length[nodes], most))

    def raw(self, node: int) -> bytes:
        """Return the bytes of a JSON node's value."""
        begin = int(self.start[node])
        return self.text[begin : begin + int(self.length[node])].tobytes()


class JsonScanner:
    """Scans batches of JSON messages. Member names keep their numbers from batch to batch.

    Members of objects become nodes down to `levels` levels below a record. A record's member named
    `opaque` becomes a node too, but its own members do not.
    """

    def __init__(self, levels: int, opaque: str = "") -> None:
        self.levels, self.opaque = levels, opaque
        self._start_over()

    def _start_over(self) -> None:
        self.used = np.zeros(USED, np.int64)
        # Number 0 is "", the name of values that are not members.
        self.used[NAMES] = 1
        self.info, self.pool = np.zeros(_NAMES * INFO, np.int64), np.zeros(_NAMES * 16, np.uint8)
        self.names = [""]
        self._table()
        self.opaque_name = self._number(self.opaque) if self.opaque else -1

    def _number(self, name: str) -> int:
        """Return the number of a JSON member name.

        A new name is added, by scanning a document that contains it.
        """
        # The same layout as in `scan_json`: text, SPARE zeros, room for decoded strings.
        text = np.zeros(2 * (len(name) + 7) + 3 * SPARE, np.uint8)
        document = f'{{"{name}":0}}'.encode()
        text[: len(document)] = octets(document)
        one = np.array([len(document)])
        nodes = _Room(4, 4)
        _, code = scan_json(
            JsonText(text, len(document), one * 0, one),
            0,
            1,
            -1,
            self._tables(),
            nodes.nodes,
            nodes.roots,
            FaultArrays(np.zeros(1, np.uint8), one * 0),
        )
        assert code == DONE, "the document has two nodes"
        return int(nodes.nodes.name[1])

    def _table(self) -> None:
        """Create the hash table of JSON member names, with room for as many names as `info` has."""
        # Four slots per name: a search in a quarter full table rarely needs a second look.
        self.table = np.zeros(4 * len(self.info) // INFO, np.int32)
        fill_table(self.info, self.pool, int(self.used[NAMES]), self.table)
        self.seen = np.zeros((self.levels + 1) * (len(self.info) // INFO), np.int64)
        self.stack = np.zeros(DEPTH * FRAME, np.int64)

    def _tables(self) -> ScanTables:
        return ScanTables(
            table=self.table,
            info=self.info,
            pool=self.pool,
            seen=self.seen,
            stack=self.stack,
            used=self.used,
        )

    def scan(self, messages: MessageBatch) -> JsonNodes:
        """Scan a batch of JSON messages into nodes.

        Raises BadMessagesError for messages that are not JSON or not UTF-8, and DecodeError if the
        batch exceeds 2 GiB.
        """
        check_utf8(messages)
        # Messages with data in their member names would otherwise let the table grow forever.
        if self.used[NAMES] > _MOST_NAMES:
            self._start_over()
        first, last = (int(messages.starts[0]), int(messages.ends[-1])) if len(messages) else (0, 0)
        size = last - first
        if size > MAX_INT32:  # the caller then halves the batch
            raise DecodeError("the messages have more than 2 GiB", hint="Read fewer at a time")
        # Layout: the messages, SPARE zeros, room for decoded strings (never longer than the
        # messages), and SPARE bytes at the end for reads of whole words.
        text = np.empty(2 * size + 3 * SPARE, np.uint8)
        text[:size] = octets(messages.data)[first:last]
        text[size : size + SPARE] = 0
        # These count within a batch; NAMES and POOL continue.
        self.used[[NODES, RECORDS, SCHEMA_SIZE]] = 0
        self.used[DECODED] = size + SPARE
        starts, ends = messages.starts - first, messages.ends - first
        problem, place = np.zeros(len(messages), np.uint8), np.zeros(len(messages), np.int64)
        room = _Room(size // _NODE + 16, len(messages) + 16)
        begin, code = 0, MORE_NODES
        # The kernel stops at the message for which it needs more room, and continues there.
        while True:
            begin, code = scan_json(
                JsonText(text, size, starts, ends),
                begin,
                self.levels,
                self.opaque_name,
                self._tables(),
                room.nodes,
                room.roots,
                FaultArrays(problem, place),
            )
            if code == DONE:
                break
            if code == MORE_NODES:
                room = room.double()
            else:
                assert code == MORE_NAMES, "messages are within their buffer"
                self._grow()
        if problem.any():
            raise BadMessagesError(_errors(text, starts, ends, problem, place))
        nodes, records = int(self.used[NODES]), int(self.used[RECORDS])
        return JsonNodes(
            text=text[: int(self.used[DECODED]) + SPARE],
            names=self._known_names(),
            name=room.nodes.name[:nodes],
            kind=room.nodes.kind[:nodes],
            start=room.nodes.start[:nodes],
            length=room.nodes.length[:nodes],
            last=room.nodes.last[:nodes],
            root=room.roots.record_node[:records],
            message=room.roots.record_message[:records],
        )

    def _grow(self) -> None:
        self.info = np.concatenate([self.info, np.zeros_like(self.info)])
        self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])
        self._table()

    def _known_names(self) -> list[str]:
        pool = self.pool[: int(self.used[POOL])].tobytes()
        # Names are only ever added, so those of earlier batches need not be decoded again.
        for number in range(len(self.names), int(self.used[NAMES])):
            begin, size = self.info[number * INFO + POOLED], self.info[number * INFO + SIZE]
            self.names.append(pool[begin : begin + size].decode())
        return list(self.names)


class _Room:
    """The output arrays of a JSON scan, with room for a number of nodes and records."""

    def __init__(self, nodes: int, records: int) -> None:
        self.nodes = NodeArrays(
            name=np.empty(nodes, np.int32),
            kind=np.empty(nodes, np.uint8),
            start=np.empty(nodes, np.int64),
            length=np.empty(nodes, np.int64),
            last=np.empty(nodes, np.int32),
        )
        self.roots = RootArrays(np.empty(records, np.int64), np.empty(records, np.int64))

    def double(self) -> _Room:
        """Return output arrays of a JSON scan that are twice as large, with the same content."""
        room = _Room(2 * len(self.nodes.name), 2 * len(self.roots.record_node))
        arrays: tuple[np.ndarray, ...] = (*self.nodes, *self.roots)
        larger: tuple[np.ndarray, ...] = (*room.nodes, *room.roots)
        for new, old in zip(larger, arrays, strict=True):
            new[: len(old)] = old
        return room


def _errors(
    text: Octets, starts: Longs, ends: Longs, problem: Octets, place: Longs
) -> MessageErrors:
    """Build the errors of messages that are not JSON: those whose code in `problem` is not 0.

    Message i is `text[starts[i]:ends[i]]`, and its fault is at the offset `place[i]` of the text.
    """
    numbers = np.flatnonzero(problem)
    begins, stops, at = starts[numbers], ends[numbers], place[numbers]
    # Characters are counted one by one where they are not ASCII. A zero byte may be that of a schema registry.
    others = np.append(
        0, np.cumsum((text[: int(stops[-1])] >= _ASCII) | (text[: int(stops[-1])] == 0))
    )
    # `others[i]` counts such bytes before offset i, so these messages have at least one of them.
    odd = others[stops] > others[begins]
    errors = MessageErrors()
    plain = np.flatnonzero(~odd)
    errors.add(
        numbers[plain],
        _ascii_errors(text, begins[plain], stops[plain], at[plain], problem[numbers[plain]]),
    )
    each = [
        _error(
            text[begins[i] : stops[i]].tobytes(), int(at[i] - begins[i]), int(problem[numbers[i]])
        )
        for i in np.flatnonzero(odd).tolist()
    ]
    errors.add(numbers[odd], ErrorColumns.of_errors(each))
    return errors


def _ascii_errors(
    text: Octets, begins: Longs, ends: Longs, at: Longs, codes: Octets
) -> ErrorColumns:
    """Build the errors of messages that are not JSON and consist of ASCII characters, all at once.

    Message i is `text[begins[i]:ends[i]]`. It has the fault `codes[i]` at the offset `at[i]` of the
    text.
    """
    count, known = len(codes), range(max(PROBLEMS) + 1)
    which = pa.array(codes, pa.int64())
    problem = pa.array([PROBLEMS.get(code, ("", ""))[0] for code in known]).take(which)
    hint = pa.array([PROBLEMS.get(code, ("", ""))[1] or "Here" for code in known]).take(which)
    # `first` is the number of line feeds before each message, `after` the number before its fault. The
    # fault's line begins after the last of these, if that is in the message, or else with the message.
    feeds = np.flatnonzero(text[: int(ends[-1]) if count else 0] == ord("\n"))
    first, after = np.searchsorted(feeds, begins), np.searchsorted(feeds, at)
    last = np.append(feeds, 0)[after - 1]
    line_begins = np.where(after > first, last + 1, begins)
    # The lines of `caret_below`: the text around the fault, and the caret.
    low, high = np.maximum(begins, at - CARET_SHOWN), np.minimum(ends, at + CARET_SHOWN)
    shown = gather(_PRINTED[text[: int(ends[-1]) if count else 0]], low, high).cast(pa.string())
    head = pc.if_else(pa.array(low > begins), "...", "")
    tail = pc.if_else(pa.array(at + CARET_SHOWN < ends), "...", "")
    zero = np.zeros(count, np.int64)
    # The caret is below the fault: after the text shown before it, and after "..." if there is one.
    indent = at - low + 3 * (low > begins)
    blanks = gather(_BLANKS, zero, indent).cast(pa.string())
    return ErrorColumns.of(
        count,
        problem,
        pc.binary_join_element_wise(hint, ":\n  ", head, shown, tail, "\n  ", blanks, "^", ""),
        line=after - first + 1,
        column=at - line_begins + 1,
        offset=at - begins,
        raw=gather(text, np.maximum(begins, at - _SHOWN), np.minimum(ends, at + _SHOWN)),
    )


def _error(body: bytes, at: int, code: int) -> DecodeError:
    problem, hint = PROBLEMS[code]
    hint = registry_hint(body) or hint
    # Columns count characters, offsets count bytes.
    before = body[:at].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    decoded = body.decode(errors="replace")
    shown = caret_below(decoded, len(before))
    where = Where(line=line, column=column, offset=at, raw=body[max(0, at - _SHOWN) : at + _SHOWN])
    return DecodeError(problem, where=where, hint=f"{hint or 'Here'}:{shown}")
