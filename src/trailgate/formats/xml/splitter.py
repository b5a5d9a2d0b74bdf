"""A message that is too long for memory, split into many: each transaction's element with the start tags around it is a message of its own.

Each is a document, with the same transaction, the same operations and the same places in the source as in the whole message. Rules that would find something else in
the parts than in the whole are named, and then the message is not split.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.errors import DecodeError, Where
from trailgate.formats.xml.automaton import Automaton, NotForScannerError, compile_rules
from trailgate.formats.xml.documents import HEAD, check_document, utf8_of, with_last
from trailgate.formats.xml.kernels.cutting import cut
from trailgate.formats.xml.kernels.names import (
    CUT,
    CUT_AT,
    CUT_DEPTH,
    CUT_INSIDE,
    CUT_WRITTEN,
    DECODED,
    DONE,
    FRAME,
    FULL,
    INNER,
    LITERALS,
    MANY_NAMES,
    NAME_SIZE,
    NEEDS_MORE,
    NOW,
    OPENED,
    REFUSED,
    SPARE,
    TAG_START,
    TEXT,
    UNREAD,
)
from trailgate.formats.xml.options import XmlOptions
from trailgate.formats.xml.rules import Part, Path, Rule, RuleType, Step
from trailgate.formats.xml.scanner import DECLARATION, Room, Scanner, has_forbidden
from trailgate.messages.messages import Chunks, MessageBatch
from trailgate.messages.properties import Lookup


class NotCuttableError(Exception):
    """Rules that need the whole message; the text has the reason."""


def compile_cuts(rules: Sequence[Rule], namespaces: Mapping[str, str]) -> Automaton:
    """Return the tables that find the elements of the rules at the top; raises NotCuttableError.

    What is around such an element is known by its start tags alone: no rule may ask for more.
    """
    kinds = {rule.type for rule in rules}
    indicated = any("txind" in rule.values for top in rules for rule in top.all())
    if any(rule.match is None for rule in rules) or (RuleType.OPERATION in kinds and not indicated):
        raise NotCuttableError("the whole message is one transaction")
    for rule in rules:
        assert rule.match is not None
        if any(_counts(step) for step in rule.match.steps):
            raise NotCuttableError(f"the match of {rule.name} counts elements")
        _check(rule, 0)
    alone = [replace(rule, values=Lookup(), subrules=()) for rule in rules]
    try:
        return compile_rules(alone, namespaces)
    except NotForScannerError as reason:
        raise NotCuttableError(f"the match of a rule at the top has {reason}") from None


def _check(rule: Rule, depth: int) -> None:
    """Raise NotCuttableError where a value of a rule, ``depth`` elements below the top one, is not known within that."""
    for name, path in _paths(rule):
        if path.absolute or path.up > depth:
            _check_outside(f"{rule.name}.{name}", path)
        if path.up == depth and not path.steps and not path.absolute:
            _check_accessor(f"{rule.name}.{name}", path, (Part.POSITION,))
    for subrule in rule.subrules:
        up, steps = (0, ()) if subrule.match is None else (subrule.match.up, subrule.match.steps)
        if up > depth:
            raise NotCuttableError(f"the match of {subrule.name} leads out of the rule at the top")
        _check(subrule, depth - up + len(steps))


def _paths(rule: Rule) -> Iterator[tuple[str, Path]]:
    return ((name, path) for name, path in rule.values.items() if isinstance(path, Path))


def _check_outside(name: str, path: Path) -> None:
    """Raise NotCuttableError for a path out of the top element to more than the start tags around it."""
    root_alone = path.absolute and len(path.steps) == 1 and not path.steps[0].anywhere
    if path.steps and not (root_alone and not _counts(path.steps[0])):
        raise NotCuttableError(f"{name} is found beside the element of the rule at the top")
    _check_accessor(name, path, (Part.POSITION, Part.TEXT, Part.CONTENT))


def _check_accessor(name: str, path: Path, refused: tuple[Part, ...]) -> None:
    if path.accessor is not None and path.accessor.part in refused:
        problem = f"{name} asks for the {path.accessor} of an element that is cut, or is counted"
        raise NotCuttableError(problem)


def _counts(step: Step) -> bool:
    return any(each.part in {Part.POSITION, Part.TEXT} for each in step.predicates)


_CUTS: Final = 1 << 16  # numbers: some thousand places
_TOKEN: Final = 1 << 20  # bytes after which a token that is not taken is checked by expat
BETWEEN: Final = 1 << 20  # bytes between transactions that are kept
_BEGIN: Final = re.compile(rb"<")
# Whole tokens by how they begin, and what they are called.
_TOKENS: Final = (
    (b"<!--", re.compile(rb"-->"), "comment"),
    (b"<![CDATA[", re.compile(rb"\]\]>"), "CDATA section"),
    (b"<?", re.compile(rb"\?>"), "processing instruction"),
    (b"<", re.compile(rb"(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+>"), "tag"),
)


@dataclass(frozen=True, slots=True)
class XmlCutter:
    """Cuts messages by rules."""

    options: XmlOptions

    def why_not(self) -> str:
        """Return why messages cannot be cut by these rules, empty where they can."""
        try:
            compile_cuts(self.options.rules, self.options.namespaces)
        except NotCuttableError as reason:
            return str(reason)
        return ""

    def cut(self, chunks: Chunks, file: int, longest: int) -> Iterator[MessageBatch]:
        """Yield the transactions of a message; raises DecodeError, with line, column and the text around, for one that is not well-formed."""
        return _Cutting(self.options, chunks, file, longest).batches()


@dataclass(slots=True)
class _Open:
    """The start tags around what comes next, and the names of their elements."""

    tags: list[bytes] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)

    @property
    def before(self) -> bytes:
        """Return the start tags."""
        return b"".join(self.tags)

    @property
    def after(self) -> bytes:
        """Return the end tags."""
        return b"".join(b"</%b>" % name for name in reversed(self.names))


class _Cutting:
    """One message while it is cut.

    ``text`` begins with the start tags that ``open`` has, of the elements around the last cut; what follows it is from ``begin`` on.
    ``base`` is where in the message the first byte of ``text`` would be, if those tags were just before the rest.
    """

    def __init__(self, options: XmlOptions, chunks: Chunks, file: int, longest: int) -> None:
        self.limits, self.longest = options.limits, longest
        self.encoding = options.encoding
        self.chunks, self.file = chunks, file
        self.automaton: Automaton = compile_cuts(options.rules, options.namespaces)
        self.names = Scanner(self.automaton, self.limits).names.copied()
        self.room = Room.of(self.automaton, self.limits, longest)
        self.now, self.cuts = np.zeros(NOW, np.int64), np.empty(_CUTS, np.int64)
        self.text, self.size = np.zeros(0, np.uint8), 0
        self.base, self.begin = 0, 0
        self.open, self.rows = _Open(), list[int]()
        self.refused = -1  # where in the message the token is that was not taken
        self.wanted = 0  # bytes that the next chunk has at least

    def batches(self) -> Iterator[MessageBatch]:
        """Yield the transactions."""
        begun = False
        for data, last in self._chunks():
            self._append(data)
            if not begun:
                self._begin()
                begun = True
            code = FULL
            while code == FULL:
                code = self._run(last=last)
                if self.now[CUT_WRITTEN]:
                    yield self._cut()
                elif code == FULL:
                    self.room = self.room.wider()
            if last and code != DONE:
                self._refuse(code)
            self._leave_out()
            self.wanted = 0
            if code not in {DONE, NEEDS_MORE}:
                self._wait(code)
            self._check_length()

    def _chunks(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the message as UTF-8, at least ``wanted`` bytes at once, and whether they are the last."""
        parts, size = list[bytes](), 0
        for data, last in with_last(utf8_of(self.chunks(), self.encoding)):
            parts.append(data)
            size += len(data)
            if last or size >= self.wanted:
                yield b"".join(parts), last
                parts, size = [], 0

    def _leave_out(self) -> None:
        """Remove what was read between transactions, where it is much: no rule is for it."""
        at = int(self.now[CUT_AT])
        if self.now[CUT_INSIDE] == 0 and at - self.begin > min(BETWEEN, self.longest // 2):
            frames = self.room.frames.reshape(-1, FRAME)
            rows = frames[1 : int(self.now[CUT_DEPTH]) + 1, [TAG_START, INNER, NAME_SIZE]]
            self._keep(at, self._open(rows.reshape(-1).tolist()))

    def _wait(self, code: int) -> None:
        """Wait for the rest of a token that is not whole; each time for as much again, so that reading it takes linear time."""
        what = self._unfinished_token() if code == REFUSED else ""
        left = self.size - int(self.now[CUT_AT])
        if what and left > self.longest:
            where = Where(offset=self.base + int(self.now[CUT_AT]))
            raise DecodeError(f"a {what} is longer than {self.longest} bytes", where=where)
        if not what and (code != REFUSED or self._is_refused_again()):
            self._refuse(code)
        self.wanted = min(left, self.longest + 1 - left) if what else 0

    def _unfinished_token(self) -> str:
        """Return what the token is that has not ended, empty where it has."""
        text = memoryview(pa.py_buffer(self.text))[: self.size]
        found = _BEGIN.search(text, int(self.now[CUT_AT]))
        at = self.size if found is None else found.start()
        for begin, whole, name in _TOKENS:
            if text[at : at + len(begin)] == begin:
                find = whole.match if name == "tag" else whole.search
                return "" if find(text, at + len(begin)) else name
        return ""

    def _append(self, data: bytes) -> None:
        """Add bytes after the text; raises DecodeError for characters that no document has."""
        before = self.size
        self._hold(self.text[:before], np.frombuffer(data, np.uint8))
        if has_forbidden(self.text, before, self.size):
            self._refuse()

    def _hold(self, *parts: Octets) -> None:
        """Make the text of parts, with room after it for literals, and for the kernel to work in."""
        literals = np.frombuffer(self.automaton.literals, np.uint8)
        size = sum(map(len, parts))
        fixed = size + SPARE + len(literals)
        text = np.empty(fixed + size + SPARE, np.uint8)
        np.concatenate(parts, out=text[:size])
        text[size : size + SPARE], text[size + SPARE : fixed] = 0, literals
        self.names.used[LITERALS], self.names.used[DECODED] = size + SPARE, fixed
        self.text, self.size = text, size

    def _begin(self) -> None:
        """Begin the document after its mark and declaration."""
        head = self.text[: min(self.size, HEAD)].tobytes()
        at = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        if head[at:].startswith(b"<?xml") and head[at + 5 : at + 6].isspace():
            end = head.find(b"?>") + 2
            if DECLARATION.fullmatch(head[at:end]) is None:
                check_document(self.chunks(), self.limits, self.encoding)
            at = max(at, end)
        self.now[CUT_AT] = self.begin = at
        self.room.frames[:FRAME] = 0
        self.room.frames[TEXT] = UNREAD
        self.room.counters[:] = 0

    def _run(self, *, last: bool) -> int:
        """Follow the text; return why that ended."""
        automaton, room = self.automaton, self.room
        while True:
            found: int = cut(
                self.text, self.size, last, *self.names, automaton.step, automaton.letters,
                automaton.choices, automaton.outcomes, automaton.predicates, automaton.bounds,
                room.frames, room.counters, automaton.counters, room.attributes, room.pieces,
                room.scopes, self.now, self.cuts,
            )  # fmt: skip
            more = self.names.grown() if found == MANY_NAMES else None
            if more is None:
                return found
            self.names = more

    def _check_length(self) -> None:
        if self.size > self.longest:
            raise DecodeError(
                f"a transaction is longer than {self.longest} bytes",
                hint="Is the match of the rules at the top that of each transaction?",
            )

    def _is_refused_again(self) -> bool:
        """Return whether a token was not taken twice, with much after it: else it may only not be whole."""
        at = self.base + int(self.now[CUT_AT])
        again = self.refused == at and self.size - self.now[CUT_AT] > _TOKEN
        self.refused = at
        return bool(again)

    def _refuse(self, code: int = REFUSED) -> NoReturn:
        """Raise the error of the message, which is read again for it."""
        check_document(self.chunks(), self.limits, self.encoding)
        what = "very many different names" if code == MANY_NAMES else "rare names or characters"
        problem = f"the message has {what}, which are read in whole messages alone"
        raise DecodeError(problem, hint="It is too long for that")

    def _cut(self) -> MessageBatch:
        """Return the transactions that were found, and keep what follows the last one."""
        numbers = self.cuts[: int(self.now[CUT_WRITTEN])].tolist()
        self.now[CUT_WRITTEN] = 0
        view = memoryview(pa.py_buffer(self.text))
        parts: list[bytes | memoryview] = []
        bounds, offsets = [0], []
        begin, opened, known = self.begin, self.open, self.rows
        at = 0
        while at < len(numbers):
            stop, depth = numbers[at : at + CUT]
            rows = numbers[at + CUT : at + CUT + OPENED * depth]
            at += CUT + OPENED * depth
            around = opened if rows == known else self._open(rows)
            before = opened.before
            parts += [before, view[begin:stop], around.after]
            bounds.append(bounds[-1] + len(before) + stop - begin + len(around.after))
            offsets.append(self.base + begin - len(before))
            begin, opened, known = stop, around, rows
        self._keep(begin, opened)
        files = np.full(len(offsets), self.file, np.int64)
        starts, ends = np.array(bounds[:-1], np.int64), np.array(bounds[1:], np.int64)
        data = pa.py_buffer(b"".join(parts))
        return MessageBatch(data, starts, ends, files, np.array(offsets, np.int64))

    def _open(self, rows: list[int]) -> _Open:
        """Return the start tags of open elements, of which ``rows`` has the places and the sizes of their names."""
        found = _Open()
        for at in range(0, len(rows), OPENED):
            start, end, size = rows[at : at + OPENED]
            tag = self.text[start:end].tobytes()
            found.tags.append(tag)
            found.names.append(tag[1 : 1 + size])
        return found

    def _keep(self, begin: int, opened: _Open) -> None:
        """Keep the text from a place on, after the start tags of the elements that are open there."""
        before = opened.before
        moved = len(before) - begin
        self._hold(np.frombuffer(before, np.uint8), self.text[begin : self.size])
        self.base -= moved
        self.now[CUT_AT] += moved
        frames = self.room.frames.reshape(-1, FRAME)
        sizes = np.array([len(tag) for tag in opened.tags], np.int64)
        ends = np.cumsum(sizes, dtype=np.int64)
        begins = ends - sizes
        # Of the elements that were open at the cut some may have ended, and others begun in their place.
        top = int(self.now[CUT_DEPTH]) + 1
        still = min(len(sizes), int((frames[1:top, TAG_START] < begin).sum()))
        frames[still + 1 : top, [TAG_START, INNER]] += moved
        frames[1 : still + 1, INNER] = ends[:still]
        frames[1 : still + 1, TAG_START] = begins[:still]
        self.begin, self.open = len(before), opened
        names = np.array([len(name) for name in opened.names], np.int64)
        self.rows = np.stack([begins, ends, names], axis=1).reshape(-1).tolist()
