"""Messages to nodes: the scanner with its table of names, and the errors of texts that are not JSON."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.gather import MAX_INT32
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, TrailgateError, Where, caret_below
from trailgate.messages.json_text.kernels.layout import (
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
)
from trailgate.messages.json_text.kernels.names import fill_table
from trailgate.messages.json_text.kernels.scan import scan
from trailgate.messages.json_text.nodes import Nodes
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.message_text import check_utf8
from trailgate.messages.parsing.messages import MessageBatch

DEPTH: Final = (
    256  # values within each other: what people write has a dozen, and each one costs memory
)
_NAMES: Final = 512  # at first
_MOST_NAMES: Final = 1 << 14  # that are kept for the next batch
_NODE: Final = 16  # bytes of text that a node has about
_SHOWN: Final = 8  # bytes before and after what is wrong

# RFC 8259, and two things that it leaves open: how deep texts may be, and names that occur twice.
PROBLEMS: Final = {
    ENDED: ("the JSON text ends too early", "Is the message cut off?"),
    NO_VALUE: ("expected a JSON value", ""),
    NO_NAME: ("expected the name of a member in quotes", ""),
    NO_COLON: ("expected a colon after the name of a member", ""),
    NO_COMMA: ("expected a comma or the end of an object or array", ""),
    BAD_NUMBER: ("not a number as JSON has them", ""),
    BAD_LITERAL: ("expected true, false or null", "Text is in double quotes"),
    CONTROL: ("a control character in a string", "It is written with an escape, as \\n or \\u0007"),
    BAD_ESCAPE: ("an escape that JSON does not have", 'There are \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX'),
    LONE_SURROGATE: ("half of a surrogate pair, which is not a character", ""),
    OPEN_STRING: ("a string has no closing quote", "Is the message cut off?"),
    TOO_DEEP: (f"more than {DEPTH} values within each other", ""),
    TWICE: ("the name of a member occurs twice in an object", "Which of its values is meant is not known"),
}  # fmt: skip


class Scanner:
    """Scans batches; names that occurred are known in the next one.

    Nodes are the members of objects up to ``levels`` below a record, but not those of the records' members named ``opaque``.
    """

    def __init__(self, levels: int, opaque: str = "") -> None:
        self.levels, self.opaque = levels, opaque
        self._start_over()

    def _start_over(self) -> None:
        self.used = np.zeros(USED, np.int64)
        self.used[NAMES] = 1
        self.info, self.pool = np.zeros(_NAMES * INFO, np.int64), np.zeros(_NAMES * 16, np.uint8)
        self.names = [""]
        self._tabled()
        self.opaque_name = self._number(self.opaque) if self.opaque else -1

    def _number(self, name: str) -> int:
        """Return the number of a name, by a document that has it."""
        text = np.zeros(2 * (len(name) + 7) + 3 * SPARE, np.uint8)
        document = f'{{"{name}":0}}'.encode()
        text[: len(document)] = octets(document)
        one = np.array([len(document)])
        nodes = _Room(4, 4)
        _, code = scan(
            text, len(document), one * 0, one, 0, 1, -1, *self._tables(), *nodes.arrays,
            np.zeros(1, np.uint8), one * 0,
        )  # fmt: skip
        assert code == DONE, "the document has two nodes"
        return int(nodes.name[1])

    def _tabled(self) -> None:
        """Make the table of names, as large as there may be names."""
        self.table = np.zeros(4 * len(self.info) // INFO, np.int32)
        fill_table(self.info, self.pool, int(self.used[NAMES]), self.table)
        self.seen = np.zeros((self.levels + 1) * (len(self.info) // INFO), np.int64)
        self.stack = np.zeros(DEPTH * FRAME, np.int64)

    def _tables(self) -> tuple[np.ndarray, ...]:
        return self.table, self.info, self.pool, self.seen, self.stack, self.used

    def scan(self, messages: MessageBatch) -> Nodes:
        """Return the nodes of the messages; raises BadMessagesError for those that are not JSON or not UTF-8."""
        check_utf8(messages)
        if self.used[NAMES] > _MOST_NAMES:
            self._start_over()
        first, last = (int(messages.starts[0]), int(messages.ends[-1])) if len(messages) else (0, 0)
        size = last - first
        if size > MAX_INT32:  # a batch of several messages is halved then
            raise DecodeError("the messages have more than 2 GiB", hint="Read fewer at a time")
        text = np.empty(2 * size + 3 * SPARE, np.uint8)
        text[:size] = octets(messages.data)[first:last]
        text[size : size + SPARE] = 0
        self.used[[NODES, RECORDS, SCHEMA_SIZE]] = 0
        self.used[DECODED] = size + SPARE
        starts, ends = messages.starts - first, messages.ends - first
        problem, place = np.zeros(len(messages), np.uint8), np.zeros(len(messages), np.int64)
        room = _Room(size // _NODE + 16, len(messages) + 16)
        begin, code = 0, MORE_NODES
        while True:
            begin, code = scan(
                text, size, starts, ends, begin, self.levels, self.opaque_name, *self._tables(),
                *room.arrays, problem, place,
            )  # fmt: skip
            if code == DONE:
                break
            if code == MORE_NODES:
                room = room.doubled()
            else:
                assert code == MORE_NAMES, "messages are within their buffer"
                self._grow()
        if problem.any():
            raise BadMessagesError(_errors(text, starts, ends, problem, place))
        nodes, records = int(self.used[NODES]), int(self.used[RECORDS])
        return Nodes(
            text[: int(self.used[DECODED]) + SPARE],
            self._known_names(),
            *(array[:nodes] for array in room.arrays[:5]),
            *(array[:records] for array in room.arrays[5:]),
        )

    def _grow(self) -> None:
        self.info = np.concatenate([self.info, np.zeros_like(self.info)])
        self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])
        self._tabled()

    def _known_names(self) -> list[str]:
        pool = self.pool[: int(self.used[POOL])].tobytes()
        for number in range(len(self.names), int(self.used[NAMES])):
            begin, size = self.info[number * INFO + POOLED], self.info[number * INFO + SIZE]
            self.names.append(pool[begin : begin + size].decode())
        return list(self.names)


class _Room:
    """Arrays for nodes and records."""

    def __init__(self, nodes: int, records: int) -> None:
        self.name, self.last = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
        self.kind = np.empty(nodes, np.uint8)
        self.start, self.length = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
        self.root, self.message = np.empty(records, np.int64), np.empty(records, np.int64)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the arrays in the order of ``Nodes``."""
        return (
            self.name, self.kind, self.start, self.length, self.last, self.root, self.message,
        )  # fmt: skip

    def doubled(self) -> _Room:
        """Return room for twice as many, with what is there."""
        room = _Room(2 * len(self.name), 2 * len(self.root))
        for new, old in zip(room.arrays, self.arrays, strict=True):
            new[: len(old)] = old
        return room


def _errors(
    text: Octets, starts: Longs, ends: Longs, problem: Octets, place: Longs
) -> dict[int, TrailgateError]:
    return {
        number: _error(
            text[starts[number] : ends[number]].tobytes(),
            int(place[number] - starts[number]),
            int(problem[number]),
        )
        for number in np.flatnonzero(problem).tolist()
    }


def _error(body: bytes, at: int, code: int) -> DecodeError:
    problem, hint = PROBLEMS[code]
    before = body[:at].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    whole = body.decode(errors="replace")
    shown = caret_below(whole, len(before))
    where = Where(line=line, column=column, offset=at, raw=body[max(0, at - _SHOWN) : at + _SHOWN])
    return DecodeError(problem, where=where, hint=f"{hint or 'Here'}:{shown}")
