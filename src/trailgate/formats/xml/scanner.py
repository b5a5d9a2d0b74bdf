"""Findings by the compiled scanner: one pass over a batch, and the messages that it leaves to the general way.

A scan is called again from the message that it did not take: with more room where there was too little, with more names, with a declaration that
it knows from then on, or without that message. Of messages of other encodings than UTF-8 it gets a copy that is UTF-8.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.rows import octets
from trailgate.errors import DecodeError
from trailgate.formats.xml.automaton import KINDS, Automaton
from trailgate.formats.xml.documents import (
    DECLARED,
    HEAD,
    UTF8,
    Limits,
    declared_in,
    encoding_of,
    utf8_of,
)
from trailgate.formats.xml.findings import AGAIN, MOST, PATHS, Findings, Found, Names
from trailgate.formats.xml.kernels.names import (
    ANCHORS,
    ATTRIBUTE,
    ATTRIBUTES,
    BASE,
    COLUMNS,
    DECODED,
    DONE,
    ELEMENT,
    END,
    FRAME,
    FULL,
    INFO,
    LINE,
    LITERALS,
    MANY_NAMES,
    MESSAGE,
    NAMESPACE,
    OPERATIONS,
    OUTER,
    OWNER,
    PIECE,
    PLACED,
    ROOM,
    RULE,
    SCOPE,
    SERIAL,
    SHAPE,
    SPARE,
    START,
    TRANSACTION,
    UNKNOWN_DECLARATION,
    WIDTH,
    XMLNS,
)
from trailgate.formats.xml.kernels.scan import scan, survey
from trailgate.messages.messages import MessageBatch
from trailgate.messages.records import is_utf8

DECLARATION: Final = re.compile(
    rb"<\?xml\s+version\s*=\s*(?:\"[\w.\-]+\"|'[\w.\-]+')"
    rb"(?:\s+encoding\s*=\s*(?:\"([A-Za-z][\w.\-]*)\"|'([A-Za-z][\w.\-]*)'))?"
    rb"(?:\s+standalone\s*=\s*(?:\"(?:yes|no)\"|'(?:yes|no)'))?\s*\?>"
)
_ENCODINGS: Final = {b"utf-8", b"utf8"}
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NO_CHARACTERS: Final = re.compile(rb"\xef\xbf[\xbe\xbf]")
_XML_SPACE: Final = "http://www.w3.org/XML/1998/namespace"
_XMLNS_SPACE: Final = "http://www.w3.org/2000/xmlns/"
_FIXED: Final = ("xml", "xmlns", _XML_SPACE, _XMLNS_SPACE)  # in the order of kernels.names
_MOST_DECLARATIONS: Final = 64
_DEPTH: Final = 256
_ATTRIBUTES: Final = 4096
_PIECES: Final = 4096
_SCOPES: Final = 1024
_BYTES: Final = (1000, 160, 28, 500)  # of a message, to a record of each kind, at first
_MOST_AT_FIRST: Final = 1 << 20  # records


@dataclass(frozen=True, slots=True)
class Scanned:
    """The findings of a batch, the messages that the scanner does not take, those with too many names, and names in the others."""

    findings: Findings
    refused: list[int]
    crowded: list[int]
    names: Iterable[str]


class Room(NamedTuple):
    """Arrays that a scan works in."""

    frames: Longs
    instances: Longs
    counters: Longs
    attributes: Longs
    pieces: Longs
    scopes: Longs

    @classmethod
    def of(cls, automaton: Automaton, limits: Limits, longest: int) -> Room:
        """Return room for the rules, and for documents within limits that have so many bytes."""
        depths = min(limits.depth, max(_DEPTH, longest // 3)) + 1
        sizes = (
            (depths + 1) * FRAME,
            (depths + 1) * PLACED * max(1, automaton.instances),
            depths * max(1, automaton.counters) + automaton.groups,
            min(limits.attributes, max(_ATTRIBUTES, longest // 4)) * ATTRIBUTES,
            _PIECES * PIECE,
            _SCOPES * SCOPE,
        )
        return cls(*(np.empty(size, np.int64) for size in sizes))

    def wider(self) -> Room:
        """Return the same with room for twice as many pieces of text and prefixes."""
        return self._replace(pieces=np.tile(self.pieces, 2), scopes=np.tile(self.scopes, 2))


class Scanner:
    """Finds what rules name in batches of messages."""

    def __init__(self, automaton: Automaton, limits: Limits) -> None:
        self.automaton, self.limits = automaton, limits
        words = len(automaton.elements) + len(automaton.attributes) + len(automaton.spaces)
        self.names = Names.empty(max(MOST, 1 << (4 * words).bit_length()))
        for word in _FIXED:
            self.names.add(word.encode())
        for field, known in (
            (ELEMENT, automaton.elements),
            (ATTRIBUTE, automaton.attributes),
            (NAMESPACE, automaton.spaces),
        ):
            for letter, name in enumerate(known, 1):
                self.names.info[INFO * self.names.add(name.encode()) + field] = letter
        self.names.info[XMLNS * INFO + ATTRIBUTE] = 0  # a declaration is not an attribute
        self.names.without_prefixes()
        self.declarations = 0
        self.spare: list[Room] = []  # several threads may scan

    def room(self, longest: int) -> Room:
        """Return arrays to work in, of an earlier scan if there was one; ``longest`` is the size of a message."""
        new = Room.of(self.automaton, self.limits, longest)
        with suppress(IndexError):
            room = self.spare.pop()
            if all(len(own) >= len(least) for own, least in zip(room, new, strict=True)):
                return room
        return new

    def scan(self, messages: MessageBatch) -> Scanned:
        """Return what the rules find in messages."""
        return _Scan(self, messages).scan()

    def known_declaration(self, text: bytes, names: Names) -> bool:
        """Return whether a declaration is one of UTF-8, which later scans know."""
        found = DECLARATION.fullmatch(text)
        if found is None:
            return False
        encoding = found[1] or found[2]
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            return False
        if self.declarations < _MOST_DECLARATIONS:
            self.declarations += 1
            kept = self.names.copied()
            kept.add(text)
            self.names = kept
        return names.add(text) >= 0


class _Scan:
    """One scan of a batch."""

    def __init__(self, scanner: Scanner, messages: MessageBatch) -> None:
        self.scanner, self.automaton = scanner, scanner.automaton
        self.count = len(messages)
        first, last = (int(messages.starts[0]), int(messages.ends[-1])) if self.count else (0, 0)
        self.size = last - first
        self.starts, self.ends = messages.starts - first, messages.ends - first
        self.names = scanner.names.copied()
        literals = np.frombuffer(self.automaton.literals, np.uint8)
        self.names.used[LITERALS] = self.size + SPARE
        self.names.used[DECODED] = self.size + SPARE + len(literals)
        self.buffer = self._text(octets(messages.data)[first:last], literals)
        self.text = self.buffer[:-SPARE]
        self.shape = np.zeros(KINDS * SHAPE, np.int64)
        self.records = np.zeros(0, np.int32)
        for kind, width in enumerate(self.automaton.widths):
            self.shape[kind * SHAPE + WIDTH] = -(-width // LINE) * LINE
        self._grow([min(self.size // size + self.count + 16, _MOST_AT_FIRST) for size in _BYTES])
        self.refused: list[int] = []
        self.crowded: list[int] = []

    def _text(self, data: Octets, literals: Octets) -> Octets:
        fixed = self.size + SPARE + len(literals)
        text = np.empty(fixed + self.size + 3 * SPARE, np.uint8)
        text[: self.size] = data
        text[self.size : self.size + SPARE] = 0
        text[self.size + SPARE : fixed] = literals
        return text

    def _grow(self, rooms: Sequence[int]) -> None:
        """Make room for so many records of each kind, and move those that are kept."""
        old = [self.kind(kind) for kind in range(KINDS)]
        widths = self.shape[WIDTH::SHAPE].tolist()
        bases = [0, *accumulate(width * room for width, room in zip(widths, rooms, strict=True))]
        records = np.empty(bases[-1], np.int32)
        for kind, before in enumerate(old):
            records[bases[kind] : bases[kind] + len(before)] = before
        self.shape[BASE::SHAPE], self.shape[ROOM::SHAPE] = bases[:-1], rooms
        self.records = records

    def kind(self, kind: int) -> Offsets:
        """Return the records of a kind, of the messages that were read."""
        base, _, kept, _, width = self.shape[kind * SHAPE : (kind + 1) * SHAPE].tolist()
        return self.records[base : base + kept * width]

    def scan(self) -> Scanned:
        """Return the findings, and the messages that are left."""
        bad = self._with_forbidden()
        if bad:  # they are read as empty messages, which are not taken
            self.ends = self.ends.copy()
            self.ends[bad] = self.starts[bad]
        self._run()
        return Scanned(_Finished(self).findings(), self.refused, self.crowded, self.names.seen())

    def _with_forbidden(self) -> list[int]:
        """Return the messages with bytes that are not UTF-8 or that XML forbids."""
        if not has_forbidden(self.text, 0, self.size):
            return []
        whole = self.text[: self.size].tobytes()
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [number for number, (s, e) in enumerate(bounds) if _is_bad(whole[s:e])]

    def _run(self) -> None:
        longest = int((self.ends - self.starts).max(initial=0))
        automaton, room = self.automaton, self.scanner.room(longest)
        first, code, again = 0, DONE, -1
        while True:
            first, code = scan(
                self.text, self.starts, self.ends, first, *self.names, automaton.step,
                automaton.letters, automaton.choices, automaton.outcomes,
                automaton.predicates, automaton.bounds, automaton.actions, room.frames,
                room.instances, automaton.instances, room.counters, automaton.counters,
                room.attributes, room.pieces, room.scopes, self.records, self.shape,
            )  # fmt: skip
            if code == DONE:
                self.scanner.spare.append(room)
                return
            names = self.names
            names.without_prefixes()
            names.used[SERIAL] += 1 << 32
            if code == FULL:
                self._make_room()
                room = room.wider()
            elif code == MANY_NAMES and again != first:
                self.names, again = self._fresh(), first
            elif code == MANY_NAMES:  # of this message alone
                more = names.grown()
                if more is not None:
                    self.names = more
                else:
                    self.crowded.append(first)
                    first += 1
            elif code != UNKNOWN_DECLARATION or not self._is_known(first):
                self.refused.append(first)
                first += 1

    def _fresh(self) -> Names:
        """Return the table of names as it was at first, with the places of this batch."""
        fresh = self.scanner.names.copied()
        fresh.used[SERIAL:] = self.names.used[SERIAL:]
        return fresh

    def _make_room(self) -> None:
        rooms = self.shape[ROOM::SHAPE]
        self._grow((2 * rooms).tolist())
        used = int(self.names.used[DECODED])
        buffer = np.empty(2 * len(self.buffer), np.uint8)
        buffer[:used] = self.buffer[:used]
        self.buffer, self.text = buffer, buffer[:-SPARE]

    def _is_known(self, message: int) -> bool:
        body = self.text[self.starts[message] : self.ends[message]].tobytes()
        body = body.removeprefix(b"\xef\xbb\xbf")
        end = body.find(b"?>", 1) + 2
        return self.scanner.known_declaration(body[:end], self.names)


def has_forbidden(text: Octets, start: int, end: int) -> bool:
    """Return whether bytes are not UTF-8 or have characters that XML forbids; ``SPARE`` bytes follow them."""
    flags = survey(text, start, end)
    return flags & 1 > 0 or (flags > 0 and _is_no_text(text[start:end].tobytes()))


def _is_bad(text: bytes) -> bool:
    return _is_no_text(text) or _CONTROLS.search(text) is not None


def _is_no_text(text: bytes) -> bool:
    return not is_utf8(text) or (b"\xef" in text and _NO_CHARACTERS.search(text) is not None)


class _Finished:
    """Makes findings of a scan's records."""

    def __init__(self, done: _Scan) -> None:
        self.automaton = done.automaton
        widths = done.shape[WIDTH::SHAPE].tolist()
        self.kinds = [
            Found(done.kind(kind), widths[kind], self.automaton.slots[kind])
            for kind in range(KINDS)
        ]
        self.text = done.buffer[: int(done.names.used[DECODED]) + SPARE]
        self._resolve()

    def _resolve(self) -> None:
        """Copy the values that anchors have to the records that point at them."""
        for each in self.automaton.anchored:
            rows, anchors = self.kinds[each.kind].rows, self.kinds[ANCHORS].rows
            own = self.automaton.slots[each.kind][each.name]
            mine = np.flatnonzero((rows[:, RULE] == each.rule) & (rows[:, each.pointer] >= 0))
            which = rows[mine, each.pointer]
            for more in range(2):
                rows[mine, own + more] = anchors[which, each.theirs + more]
            if each.again >= 0:
                again = self.automaton.slots[each.kind][AGAIN] + 1
                further = mine[anchors[which, each.again + 1] != -1]
                rows[further, again] &= ~(1 << PATHS.index(each.name))

    def _field(self, kind: int, field: int) -> Longs:
        found = self.kinds[kind]
        return found.records[field :: found.width].astype(np.int64)

    def findings(self) -> Findings:
        """Return the findings in the order of operations."""
        outer, operations, columns = (self.kinds[kind] for kind in (OUTER, OPERATIONS, COLUMNS))
        fields = {
            name: self._field(OPERATIONS, field)
            for name, field in (
                ("message", MESSAGE), ("around", OWNER), ("transaction", TRANSACTION),
                ("start", START), ("end", END),
            )
        }  # fmt: skip
        operation = self._field(COLUMNS, OWNER)
        if self.automaton.nests and len(operations) > 1:
            order = self._order()
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            operations = operations.taken(order)
            fields = {name: values[order] for name, values in fields.items()}
            operation = place[operation]
        if (operation[1:] < operation[:-1]).any():
            order = np.argsort(operation, kind="stable")
            columns, operation = columns.taken(order), operation[order]
        return Findings(
            text=self.text,
            outer=outer,
            above=self._field(OUTER, OWNER),
            outer_message=self._field(OUTER, MESSAGE),
            operations=operations,
            columns=columns,
            operation=operation,
            **fields,
        )

    def _order(self) -> Longs:
        """Return the operations as rules list them: those below one after it, in the order of their elements."""
        chains: list[list[tuple[int, int]]] = [[] for _ in range(len(self.kinds[OPERATIONS]))]
        start, rule = self._field(OPERATIONS, START), self._field(OPERATIONS, RULE)
        outer_start, outer_rule = self._field(OUTER, START), self._field(OUTER, RULE)
        above, around = self._field(OUTER, OWNER), self._field(OPERATIONS, OWNER)
        for number, chain in enumerate(chains):
            chain.append((int(start[number]), int(rule[number])))
            record = int(around[number])
            while record >= 0:
                chain.append((int(outer_start[record]), int(outer_rule[record])))
                record = int(above[record])
            chain.reverse()
        message = self._field(OPERATIONS, MESSAGE).tolist()
        return np.array(sorted(range(len(chains)), key=lambda n: (message[n], chains[n])), np.int64)


_END: Final = b"?>"


def utf8_numbers(
    messages: MessageBatch, numbers: Iterable[int], given: str = DECLARED
) -> tuple[list[int], list[bytes]]:
    """Return which of these messages are or declare another encoding, and their strings as UTF-8; ``given`` is the encoding of all without a mark.

    Declarations are blank then, so that places are those of the document as UTF-8. One that is not text of its encoding is left out, as is
    one with a declaration that is not plainly right.
    """
    whole = memoryview(messages.data)
    found, bodies = [], []
    for number in numbers:
        body = bytes(whole[messages.starts[number] : messages.ends[number]])
        head = body[:HEAD]
        named = encoding_of(head, given), declared_in(head) or "utf-8"
        if UTF8.issuperset(name.lower() for name in named):
            continue
        try:
            text = b"".join(utf8_of([body], given)).removeprefix(codecs.BOM_UTF8)
        except DecodeError:
            continue
        end = 0
        if text.startswith(b"<?xml"):
            end = text.find(_END, 0, HEAD) + len(_END)
            if DECLARATION.fullmatch(text[:end]) is None:
                continue
        found.append(number)
        bodies.append(b" " * end + text[end:])
    return found, bodies


def batch_of(messages: MessageBatch, numbers: list[int], bodies: list[bytes]) -> MessageBatch:
    """Return some messages of a batch with other bodies."""
    sizes = np.array([len(body) for body in bodies], np.int64)
    ends: Longs = np.cumsum(sizes)
    which = np.array(numbers, np.int64)
    headers = messages.headers
    return replace(
        messages,
        data=pa.py_buffer(b"".join(bodies)),
        starts=ends - sizes,
        ends=ends,
        files=messages.files[which],
        offsets=messages.offsets[which],
        headers=None if headers is None else tuple(headers[number] for number in numbers),
    )
