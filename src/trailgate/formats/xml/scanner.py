"""Run the compiled XML scanner over a batch: find its matches, and the messages that it rejects.

The kernel marks the messages that it rejects. It stops at a message for which it needs something,
and is called again from there: with more room, with a larger table of names, with the message's XML
declaration added to the known ones, or after skipping the message. Messages in other encodings are
converted to UTF-8 first (`convert_to_utf8`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets, byte_mask, octets
from trailgate.formats.xml.automaton import KINDS, Automaton
from trailgate.formats.xml.encodings import is_utf8_declaration
from trailgate.formats.xml.faults import XmlLimits
from trailgate.formats.xml.kernels.characters import find_unusual_bytes
from trailgate.formats.xml.kernels.scan import scan_xml
from trailgate.formats.xml.kernels.tables import (
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
    WIDTH,
    XMLNS,
    MatchArrays,
    MessageArrays,
    WorkArrays,
)
from trailgate.formats.xml.matches import AGAIN, PATHS, MatchRecords, RuleMatches
from trailgate.formats.xml.name_table import MOST, NameTable
from trailgate.messages.encoding_checks import is_utf8
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.utf8_kernels import find_not_utf8

# XML 1.0, 2.2: of the controls only TAB, LF and CR are characters, and U+FFFE and U+FFFF are not.
_CONTROLS: Final = byte_mask({*range(0x20)} - {0x09, 0x0A, 0x0D})
_NO_CHARACTERS: Final = re.compile(rb"\xef\xbf[\xbe\xbf]")
_XML_SPACE: Final = "http://www.w3.org/XML/1998/namespace"
_XMLNS_SPACE: Final = "http://www.w3.org/2000/xmlns/"
_FIXED: Final = ("xml", "xmlns", _XML_SPACE, _XMLNS_SPACE)  # numbered as in kernels/tables.py
# XML declarations to remember. The messages of a source have one or two different ones.
_MOST_DECLARATIONS: Final = 64
# The least sizes of the working arrays: open elements, attributes of an element, pieces of text, and
# namespace prefixes. A long message gets more of the first two; the others are doubled when they are full.
_DEPTH: Final = 256
_ATTRIBUTES: Final = 4096
_PIECES: Final = 4096
_SCOPES: Final = 1024
_BYTES: Final = (1000, 160, 28, 500)  # estimated bytes of messages per record of each type
_MOST_AT_FIRST: Final = 1 << 20  # the most records that room is made for initially


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of an XML scan: the matches of the rules, and the messages that the scanner cannot read.

    `refused` are the messages that the general engine must read, and `too_many_names` those that
    have too many different names to be read at all. `names` are the names in the other messages.
    """

    matches: RuleMatches
    refused: Longs
    too_many_names: list[int]
    names: Iterable[str]


class ScanArrays(WorkArrays):
    """The working arrays of an XML scan. Their sizes depend on the limits and on the messages."""

    @staticmethod
    def sizes(automaton: Automaton, limits: XmlLimits, longest: int) -> tuple[int, ...]:
        """Return the minimum sizes of the arrays for these rules, the limits, and messages of at most `longest` bytes.

        The depth is at most longest / 3, because the shortest element (`<a>`) has three bytes. An
        attribute has at least five (` a=""`).
        """
        # Frames for the document itself and for one level of look-ahead.
        depths = min(limits.depth, max(_DEPTH, longest // 3)) + 1
        return (
            (depths + 1) * FRAME,
            (depths + 1) * PLACED * max(1, automaton.instances),
            depths * max(1, automaton.counters) + automaton.groups,
            min(limits.attributes, max(_ATTRIBUTES, longest // 4)) * ATTRIBUTES,
            _PIECES * PIECE,
            _SCOPES * SCOPE,
        )

    @classmethod
    def of(cls, automaton: Automaton, limits: XmlLimits, longest: int) -> ScanArrays:
        """Allocate the working arrays of an XML scan with their minimum sizes."""
        sizes = cls.sizes(automaton, limits, longest)
        return cls(*(np.empty(size, np.int64) for size in sizes))

    def enlarge(self) -> ScanArrays:
        """Return an XML scan's arrays with twice the room for pieces of text and namespace prefixes."""
        return self._replace(pieces=np.tile(self.pieces, 2), scopes=np.tile(self.scopes, 2))


class XmlScanner:
    """Finds the matches of XML rules in batches of messages, with compiled loops."""

    def __init__(self, automaton: Automaton, limits: XmlLimits) -> None:
        self.automaton, self.limits = automaton, limits
        words = len(automaton.elements) + len(automaton.attributes) + len(automaton.spaces)
        self.names = NameTable.empty(max(MOST, 1 << (4 * words).bit_length()))
        for word in _FIXED:
            self.names.add(word.encode())
        for field, known in (
            (ELEMENT, automaton.elements),
            (ATTRIBUTE, automaton.attributes),
            (NAMESPACE, automaton.spaces),
        ):
            for letter, name in enumerate(known, 1):
                self.names.info[INFO * self.names.add(name.encode()) + field] = letter
        self.names.info[XMLNS * INFO + ATTRIBUTE] = 0  # xmlns="..." is not an attribute
        self.names.without_prefixes()
        self.declarations = 0
        self.spare: list[ScanArrays] = []  # arrays not in use; several threads may scan

    def room(self, longest: int) -> ScanArrays:
        """Return the working arrays for an XML scan, reused from an earlier scan if possible.

        `longest` is the size of the longest message.
        """
        sizes = ScanArrays.sizes(self.automaton, self.limits, longest)
        with suppress(IndexError):
            room = self.spare.pop()
            if all(len(own) >= least for own, least in zip(room, sizes, strict=True)):
                return room
        return ScanArrays.of(self.automaton, self.limits, longest)

    def scan(self, messages: MessageBatch) -> ScanResult:
        """Scan XML messages, and return the matches of the rules and the rejected messages."""
        return _Scan(self, messages).scan()

    def known_declaration(self, text: bytes, names: NameTable) -> bool:
        """Return whether an XML declaration is valid and declares UTF-8.

        If so, adds it to the name tables, so that the scanner accepts it by itself from now on.
        """
        if not is_utf8_declaration(text):
            return False
        if self.declarations < _MOST_DECLARATIONS:
            self.declarations += 1
            kept = self.names.copy()
            kept.add(text)
            self.names = kept
        return names.add(text) >= 0


class _Scan:
    """One run of the XML scanner: the text of a batch, the names seen so far, and the records found."""

    def __init__(self, scanner: XmlScanner, messages: MessageBatch) -> None:
        self.scanner, self.automaton = scanner, scanner.automaton
        self.count = len(messages)
        first, last = (int(messages.starts[0]), int(messages.ends[-1])) if self.count else (0, 0)
        self.size = last - first
        self.starts, self.ends = messages.starts - first, messages.ends - first
        self.names = scanner.names.copy()
        literals = np.frombuffer(self.automaton.literals, np.uint8)
        # Layout of the buffer: messages, SPARE zeros, the literals of rules, then decoded values.
        self.names.used[LITERALS] = self.size + SPARE
        self.names.used[DECODED] = self.size + SPARE + len(literals)
        self.buffer = self._text(octets(messages.data)[first:last], literals)
        self.text = self.buffer[:-SPARE]
        self.shape = np.zeros(KINDS * SHAPE, np.int64)
        self.records = np.zeros(0, np.int32)
        for kind, width in enumerate(self.automaton.widths):
            # Round the width up to a multiple of LINE.
            self.shape[kind * SHAPE + WIDTH] = -(-width // LINE) * LINE
        self._grow([min(self.size // size + self.count + 16, _MOST_AT_FIRST) for size in _BYTES])
        self.refused = np.zeros(self.count, bool)
        self.too_many_names: list[int] = []

    def _text(self, data: Octets, literals: Octets) -> Octets:
        fixed = self.size + SPARE + len(literals)
        text = np.empty(fixed + self.size + 3 * SPARE, np.uint8)
        text[: self.size] = data
        text[self.size : self.size + SPARE] = 0
        text[self.size + SPARE : fixed] = literals
        return text

    def _grow(self, rooms: Sequence[int]) -> None:
        """Allocate room for more XML match records of each type, and move the records already found."""
        # Example: types with records of 8 and 16 numbers, and room for 2 and 3 records: bases = 0 16 64, so
        # all records have 64 numbers, and record i of the second type begins at 16 + 16 * i.
        old = [self.kind(kind) for kind in range(KINDS)]
        widths = self.shape[WIDTH::SHAPE].tolist()
        bases = [0, *accumulate(width * room for width, room in zip(widths, rooms, strict=True))]
        records = np.empty(bases[-1], np.int32)
        for kind, before in enumerate(old):
            records[bases[kind] : bases[kind] + len(before)] = before
        self.shape[BASE::SHAPE], self.shape[ROOM::SHAPE] = bases[:-1], rooms
        self.records = records

    def kind(self, kind: int) -> Offsets:
        """Return the match records of one type, from the XML messages that were read completely."""
        base, _, kept, _, width = self.shape[kind * SHAPE : (kind + 1) * SHAPE].tolist()
        return self.records[base : base + kept * width]

    def scan(self) -> ScanResult:
        """Scan the XML messages of the batch, and return the matches and the rejected messages."""
        bad = self._with_forbidden()
        if len(bad):  # scanned as empty messages, which are refused
            self.ends = self.ends.copy()
            self.ends[bad] = self.starts[bad]
        self._run()
        refused = np.flatnonzero(self.refused)
        return ScanResult(
            _Finished(self).matches(), refused, self.too_many_names, self.names.seen()
        )

    def _with_forbidden(self) -> Longs:
        """Return the XML messages with bytes that are not UTF-8 or characters that XML forbids."""
        if not has_forbidden(self.text, 0, self.size):
            return np.zeros(0, np.int64)
        text = self.text[: self.size]
        places, stops = np.empty(self.count, np.int64), np.empty(self.count, np.int64)
        find_not_utf8(text, self.starts, self.ends, places, stops)
        # `before[i]` counts the control characters before offset i.
        before = np.append(0, np.cumsum(_CONTROLS[text]))
        bad: Mask = (places >= 0) | (before[self.ends] > before[self.starts])
        for found in _NO_CHARACTERS.finditer(text.data):
            at = int(np.searchsorted(self.starts, found.start(), "right")) - 1
            bad[at] |= found.start() < self.ends[at]
        return np.flatnonzero(bad)

    def _run(self) -> None:
        longest = int((self.ends - self.starts).max(initial=0))
        room = self.scanner.room(longest)
        first, code, again = 0, DONE, -1
        rules = self.automaton.arrays
        while True:
            first, code = scan_xml(
                MessageArrays(self.text, self.starts, self.ends),
                first,
                self.names,
                rules,
                room,
                MatchArrays(self.records, self.shape),
                self.refused,
            )
            if code == DONE:
                self.scanner.spare.append(room)
                return
            names = self.names
            names.without_prefixes()
            # A scan stopped in the middle of a message may leave serial numbers in SEEN: skip far
            # ahead, so that no attribute seems to be repeated.
            names.used[SERIAL] += 1 << 32
            if code == FULL:
                self._make_room()
                room = room.enlarge()
            # The table is full with names of earlier messages: start again with an empty one.
            elif code == MANY_NAMES and again != first:
                self.names, again = self._initial_names(), first
            elif code == MANY_NAMES:  # this message alone has too many
                more = names.enlarge()
                if more is not None:
                    self.names = more
                else:
                    self.too_many_names.append(first)
                    first += 1
            elif not self._is_known(first):  # UNKNOWN_DECLARATION
                self.refused[first] = True
                first += 1

    def _initial_names(self) -> NameTable:
        """Return the XML name table without the names that this batch added.

        The serial number of the next tag and the offset for the next decoded value are kept.
        """
        fresh = self.scanner.names.copy()
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
    """Return whether bytes must not be given to the compiled XML scanner: they are not UTF-8, or have characters that XML forbids.

    `SPARE` bytes must follow them.
    """
    flags = find_unusual_bytes(text, start, end)
    return flags & 1 > 0 or (flags > 0 and _is_no_text(text[start:end].tobytes()))


def _is_no_text(text: bytes) -> bool:
    return not is_utf8(text) or (b"\xef" in text and _NO_CHARACTERS.search(text) is not None)


class _Finished:
    """Turns the match records of an XML scan into `RuleMatches`."""

    def __init__(self, done: _Scan) -> None:
        self.automaton = done.automaton
        widths = done.shape[WIDTH::SHAPE].tolist()
        self.kinds = [
            MatchRecords(done.kind(kind), widths[kind], self.automaton.slots[kind])
            for kind in range(KINDS)
        ]
        self.text = done.buffer[: int(done.names.used[DECODED]) + SPARE]
        self._resolve()

    def _resolve(self) -> None:
        """Copy the values of anchors to the records that refer to them (see `AnchoredValue`)."""
        for each in self.automaton.anchored:
            rows, anchors = self.kinds[each.kind].rows, self.kinds[ANCHORS].rows
            own = self.automaton.slots[each.kind][each.name]
            pointing = np.flatnonzero((rows[:, RULE] == each.rule) & (rows[:, each.pointer] >= 0))
            which = rows[pointing, each.pointer]
            # A value is two numbers: its offset and its length.
            for more in range(2):
                rows[pointing, own + more] = anchors[which, each.theirs + more]
            if each.again >= 0:
                again = self.automaton.slots[each.kind][AGAIN] + 1
                further = pointing[anchors[which, each.again + 1] != -1]
                rows[further, again] &= ~(1 << PATHS.index(each.name))

    def _field(self, kind: int, field: int) -> Longs:
        records = self.kinds[kind]
        return records.records[field :: records.width].astype(np.int64)

    def matches(self) -> RuleMatches:
        """Return the matches of the XML rules in the order of operations."""
        outer, operations, columns = (self.kinds[kind] for kind in (OUTER, OPERATIONS, COLUMNS))
        fields = {
            name: self._field(OPERATIONS, field)
            for name, field in (
                ("message", MESSAGE), ("around", OWNER), ("transaction", TRANSACTION),
                ("start", START), ("end", END),
            )
        }  # fmt: skip
        operation = self._field(COLUMNS, OWNER)
        # Records were opened in document order; rules may list nested operations in another order.
        if self.automaton.nests and len(operations) > 1:
            order = self._order()
            # The inverse of the order: where each record is now. Example: order = 2 0 1, place = 1 2 0.
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            operations = operations.take(order)
            fields = {name: values[order] for name, values in fields.items()}
            operation = place[operation]
        # The cells have to be in the order of their operations too.
        if (operation[1:] < operation[:-1]).any():
            order = np.argsort(operation, kind="stable")
            columns, operation = columns.take(order), operation[order]
        return RuleMatches(
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
        """Return the order of XML operations whose matches may be nested.

        An operation precedes the operations inside it; others are in document order.
        """
        chains: list[list[tuple[int, int]]] = [[] for _ in range(len(self.kinds[OPERATIONS]))]
        start, rule = self._field(OPERATIONS, START), self._field(OPERATIONS, RULE)
        outer_start, outer_rule = self._field(OUTER, START), self._field(OUTER, RULE)
        above, around = self._field(OUTER, OWNER), self._field(OPERATIONS, OWNER)
        # An operation's key has the start and rule of each element around it, the outermost first. Of two
        # lists, one that the other one begins with sorts first: so an operation precedes those inside it.
        for number, chain in enumerate(chains):
            chain.append((int(start[number]), int(rule[number])))
            record = int(around[number])
            while record >= 0:
                chain.append((int(outer_start[record]), int(outer_rule[record])))
                record = int(above[record])
            chain.reverse()
        message = self._field(OPERATIONS, MESSAGE).tolist()
        return np.array(sorted(range(len(chains)), key=lambda n: (message[n], chains[n])), np.int64)
