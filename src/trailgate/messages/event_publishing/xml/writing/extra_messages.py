"""Messages beside those of rows: the schema of a table before its first row, and large objects after their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.errors import EncodeError
from trailgate.messages.event_publishing.xml.schemas import schema_of
from trailgate.messages.event_publishing.xml.vocabulary import LARGE_OBJECT, TABLE, TYPE_OF
from trailgate.messages.event_publishing.xml.writing.elements import escaped
from trailgate.messages.event_publishing.xml.writing.row_pieces import LargeColumn
from trailgate.messages.event_publishing.xml.writing.writer_options import XmlPublishOptions
from trailgate.messages.publishing.messages import Messages
from trailgate.model.changes import ChangeBlock
from trailgate.model.tables import Table

_LONGEST: Final = 6  # bytes of a reference
_SERVER: Final = 'dbServerType="QDB2" dbRelease="" dbInstance="" capRelease=""'


@dataclass(frozen=True, slots=True)
class _Large:
    """A large object: the order of its operation in the batch, and its messages."""

    order: int
    bodies: tuple[bytes, ...]


class ExtraMessages:
    """Makes these messages and puts them among those of rows; ``around`` makes a message of its element."""

    def __init__(self, options: XmlPublishOptions, around: Callable[[bytes], bytes]) -> None:
        self.options, self._around = options, around
        self._described: dict[str, Table] = {}
        self._large: list[_Large] = []
        self._after_held: list[bytes] = []  # large objects of the message that is held

    def add_large(self, block: ChangeBlock, columns: Sequence[LargeColumn], numbers: Longs) -> None:
        """Take the large objects of operations, whose numbers in their transactions are given."""
        common = _common(block.table)
        for column in columns:
            for row in np.flatnonzero(column.rows).tolist():
                text = column.texts[row].as_py()
                given = f'{common} rowNum="{int(numbers[row])}" colName="{_written(column.name)}"'
                try:
                    bodies = tuple(self._parts(given, column.type, text))
                except EncodeError as error:
                    raise error.located(table=block.table.name, field=column.name) from None
                self._large.append(_Large(int(block.order[row]), bodies))

    def _parts(self, given: str, kind: str, text: str) -> Iterator[bytes]:
        """Yield the messages of a large object, each with as much of it as fits."""
        binary = TYPE_OF[kind].binary
        total = len(text) // 2 if binary else len(text.encode())
        overhead = len(self._message(given, kind, "", total, total, last=True)) + 4
        room = (
            (self.options.max_message_bytes - overhead)
            // (2 if binary else _LONGEST)
            * (2 if binary else 1)
        )
        if room < 1:
            problem = "a message of max_message_bytes has no room for a part of a large object"
            raise EncodeError(problem, hint="Set max-message-bytes")
        for begin in range(0, max(1, len(text)), room):
            part = text[begin : begin + room]
            size = len(part) // 2 if binary else len(part.encode())
            last = begin + room >= len(text)
            yield self._message(given, kind, part, size, total, last=last)

    def _message(
        self, given: str, kind: str, part: str, size: int, total: int, *, last: bool
    ) -> bytes:
        sizes = f'totalDataLen="{total}" dataLen="{size}"'
        inner = f'<{LARGE_OBJECT} isLast="{int(last)}" {given} {sizes}><{kind}>'.encode()
        return self._around(inner + escaped(part) + f"</{kind}></{LARGE_OBJECT}>".encode())

    def among(
        self, messages: Messages, blocks: Sequence[ChangeBlock], message: Longs, complete: int
    ) -> Messages:
        """Return messages with those that belong before and after them; ``message`` is that of each operation.

        What belongs to a message that is not ``complete`` waits.
        """
        after: dict[int, list[bytes]] = {}
        if self._after_held:
            after[0], self._after_held = self._after_held, []
        for own in sorted(self._large, key=lambda each: each.order):
            after.setdefault(int(message[own.order]), []).extend(own.bodies)
        self._large = []
        before = self._schemas(blocks, message)
        self._after_held = after.pop(complete, [])
        early = before.pop(complete, [])
        if not (after or before or early):
            return messages
        bodies: list[pa.Array] = []
        orders: list[Longs] = []
        for number in range(complete):
            for own_bodies in (before.get(number), [None], after.get(number)):
                for body in own_bodies or ():
                    own = messages.bodies.slice(number, 1) if body is None else _one(body)
                    bodies.append(own)
                    orders.append(messages.order[number : number + 1])
        for body in early:
            bodies.append(_one(body))
            orders.append(np.array([int(np.argmax(message == complete))]))
        if not bodies:
            return messages
        return Messages(pa.concat_arrays(bodies), np.concatenate(orders))

    def with_held(self, messages: Messages) -> Messages:
        """Return the message that was held with the large objects of its rows."""
        extra, self._after_held = self._after_held, []
        bodies = pa.concat_arrays([messages.bodies, *map(_one, extra)])
        return Messages(bodies, np.repeat(messages.order, len(bodies)))

    def _schemas(self, blocks: Sequence[ChangeBlock], message: Longs) -> dict[int, list[bytes]]:
        """Return the schemas that come before each message: of tables that were not described so before."""
        found: dict[int, list[bytes]] = {}
        if not self.options.schemas:
            return found
        for block in sorted(blocks, key=lambda each: int(each.order.min())):
            table = block.table
            if self._described.get(table.name) != table:
                self._described[table.name] = table
                own = self._schema(table)
                found.setdefault(int(message[block.order.min()]), []).append(own)
        return found

    def _schema(self, table: Table) -> bytes:
        queue = _written(self.options.queue)
        inner = f'<{TABLE} {_common(table)} sendQName="{queue}" {_SERVER}>'.encode()
        return self._around(inner + schema_of(table) + f"</{TABLE}>".encode())


def _common(table: Table) -> str:
    owner, _, name = table.name.rpartition(".")
    return f'subName="{_written(name)}" srcOwner="{_written(owner)}" srcName="{_written(name)}"'


def _written(text: str) -> str:
    return escaped(text).decode()


def _one(body: bytes) -> pa.Array:
    return pa.array([body], pa.large_binary())
