"""Split an XML message that is too large for memory into many small ones, one per transaction.

Each part is a document: the start tags around a transaction's element, that element, and the end
tags. Reading it results in the same operations at the same offsets as in the complete message.

    <all v="1"><tx>1</tx><tx>2</tx></all>
    ->  <all v="1"><tx>1</tx></all>   and   <all v="1"><tx>2</tx></all>

`compile_cuts` rejects rules that would find something different in the parts, for example a path to
the next transaction. `_Cutting` reads the message in chunks, runs the kernel `find_cuts` over each,
and keeps only the start tags and the unfinished transaction.
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
from trailgate.formats.xml.documents import check_document
from trailgate.formats.xml.encodings import DECLARATION, HEAD, utf8_of, with_last
from trailgate.formats.xml.kernels.cutting import find_cuts
from trailgate.formats.xml.kernels.tables import (
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
from trailgate.formats.xml.rules import ElementPart, PathStep, RulePath, RuleType, XmlRule
from trailgate.formats.xml.scanner import ScanArrays, XmlScanner, has_forbidden
from trailgate.messages.message_batch import Chunks, MessageBatch
from trailgate.messages.property_reader import Lookup

_CUTS: Final = 1 << 16  # size of the array of cuts: room for some thousand
_TOKEN: Final = 1 << 20  # with more bytes after a refused token, expat checks the message
BETWEEN: Final = 1 << 20  # the most bytes between transactions that are kept
_BEGIN: Final = re.compile(rb"<")
# The start tag of the root element and its name, after comments and processing instructions.
_ROOT: Final = re.compile(
    rb"(?:[^<]|<!--.*?-->|<\?.*?\?>)*+(<([^\s/>!?]+)(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+>)",
    re.DOTALL,
)
# Complete tokens: their first bytes, their pattern, and their name.
_TOKENS: Final = (
    (b"<!--", re.compile(rb"-->"), "comment"),
    (b"<![CDATA[", re.compile(rb"\]\]>"), "CDATA section"),
    (b"<?", re.compile(rb"\?>"), "processing instruction"),
    (b"<", re.compile(rb"(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+>"), "tag"),
)


class NotCuttableError(Exception):
    """Raised for XML rules that need the complete message, so that it cannot be cut.

    The text is the reason.
    """


def compile_cuts(rules: Sequence[XmlRule], namespaces: Mapping[str, str]) -> Automaton:
    """Compile the XML rules that find the elements at which a message is cut. Raises NotCuttableError.

    Around such an element only start tags are known, so no rule may need more.
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
    # Only the elements matter for cutting, not values and subrules.
    alone = [replace(rule, values=Lookup(), subrules=()) for rule in rules]
    try:
        return compile_rules(alone, namespaces)
    except NotForScannerError as reason:
        raise NotCuttableError(f"the match of a rule at the top has {reason}") from None


def _check(rule: XmlRule, depth: int) -> None:
    """Raise NotCuttableError if an XML rule needs more than the top element and the start tags around it.

    The top element is the element of the rule at the top. `depth` is the depth of the rule's
    element below it.
    """
    for name, path in _paths(rule):
        if path.absolute or path.up > depth:
            _check_outside(f"{rule.name}.{name}", path)
        if path.up == depth and not path.steps and not path.absolute:
            _check_accessor(f"{rule.name}.{name}", path, (ElementPart.POSITION,))
    for subrule in rule.subrules:
        up, steps = (0, ()) if subrule.match is None else (subrule.match.up, subrule.match.steps)
        if up > depth:
            raise NotCuttableError(f"the match of {subrule.name} leads out of the rule at the top")
        _check(subrule, depth - up + len(steps))


def _paths(rule: XmlRule) -> Iterator[tuple[str, RulePath]]:
    return ((name, path) for name, path in rule.values.items() if isinstance(path, RulePath))


def _check_outside(name: str, path: RulePath) -> None:
    """Raise NotCuttableError if an XML path out of the top element needs more than start tags."""
    root_alone = path.absolute and len(path.steps) == 1 and not path.steps[0].anywhere
    if path.steps and not (root_alone and not _counts(path.steps[0])):
        raise NotCuttableError(f"{name} is found beside the element of the rule at the top")
    _check_accessor(name, path, (ElementPart.POSITION, ElementPart.TEXT, ElementPart.CONTENT))


def _check_accessor(name: str, path: RulePath, refused: tuple[ElementPart, ...]) -> None:
    if path.accessor is not None and path.accessor.part in refused:
        problem = f"{name} needs the {path.accessor} of an element that is cut, or is counted"
        raise NotCuttableError(problem)


def _counts(step: PathStep) -> bool:
    return any(each.part in {ElementPart.POSITION, ElementPart.TEXT} for each in step.predicates)


@dataclass(frozen=True, slots=True)
class XmlCutter:
    """Cuts a long XML message into one message for each element that a top-level rule matches."""

    options: XmlOptions

    def why_not(self) -> str:
        """Return the reason why XML messages cannot be cut with these rules, or "" if they can."""
        try:
            compile_cuts(self.options.rules, self.options.namespaces)
        except NotCuttableError as reason:
            return str(reason)
        return ""

    def cut(self, chunks: Chunks, file: int, longest: int) -> Iterator[MessageBatch]:
        """Yield the transactions of a long XML message, each as a separate message.

        `chunks` returns the message's bytes, and `longest` is the maximum size of a transaction.
        Raises DecodeError, with line, column and surrounding text, if the message is malformed.
        """
        return _Cutting(self.options, chunks, file, longest).batches()


@dataclass(slots=True)
class _Open:
    """The start tags of the XML elements that are open at a cut, and the names in them."""

    tags: list[bytes] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)

    @property
    def before(self) -> bytes:
        """The start tags of the open XML elements, joined."""
        return b"".join(self.tags)

    @property
    def after(self) -> bytes:
        """The end tags of the open XML elements, joined."""
        return b"".join(b"</%b>" % name for name in reversed(self.names))


class _Cutting:
    """The state of cutting one XML message into transactions.

    `text` begins with the start tags of the elements around the last cut (`open`); the unread rest
    follows from `begin` on. `base` is the offset in the message that the first byte of `text` would
    have if these tags were directly before the rest.
    """

    def __init__(self, options: XmlOptions, chunks: Chunks, file: int, longest: int) -> None:
        self.limits, self.longest = options.limits, longest
        self.encoding = options.encoding
        self.chunks, self.file = chunks, file
        self.automaton: Automaton = compile_cuts(options.rules, options.namespaces)
        self.names = XmlScanner(self.automaton, self.limits).names.copy()
        self.room = ScanArrays.of(self.automaton, self.limits, longest)
        self.now, self.cuts = np.zeros(NOW, np.int64), np.empty(_CUTS, np.int64)
        self.text, self.size = np.zeros(0, np.uint8), 0
        self.base, self.begin = 0, 0
        self.open, self.rows = _Open(), list[int]()
        self.refused = -1  # the offset in the message of the token that was refused last
        self.wanted = 0  # the minimum size of the next chunk

    def batches(self) -> Iterator[MessageBatch]:
        """Yield the transactions of the XML message, or an empty root element if there are none.

        So a message in which no rule matches is a message without operations, as a short one is.
        """
        begun = found = False
        root = b""
        for data, last in self._chunks():
            self._append(data)
            if not begun:
                self._begin()
                begun = True
            # Before the kernel has read the tag, so that it is still in the text.
            root = root or self._empty_root()
            code = FULL
            while code == FULL:
                code = self._run(last=last)
                if self.now[CUT_WRITTEN]:
                    found = True
                    yield self._cut()
                elif code == FULL:
                    self.room = self.room.enlarge()
            # At the end of the message every token must be complete.
            if last and code != DONE:
                self._refuse(code)
            self._drop_between()
            self.wanted = 0
            if code not in {DONE, NEEDS_MORE}:
                self._wait(code)
            self._check_length()
        if not found:
            zero = np.zeros(1, np.int64)
            size = zero + len(root)
            yield MessageBatch(pa.py_buffer(root), zero, size, zero + self.file, zero)

    def _empty_root(self) -> bytes:
        """Return the root element without its content, or b"" while its tag is incomplete. Nothing may be read of it."""
        found = _ROOT.match(memoryview(pa.py_buffer(self.text))[self.begin : self.size])
        if found is None:
            return b""
        tag, name = found.groups()
        return tag if tag.endswith(b"/>") else b"%b</%b>" % (tag, name)

    def _chunks(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the XML message as UTF-8 in chunks of at least `wanted` bytes, with a flag for the last."""
        parts, size = list[bytes](), 0
        for data, last in with_last(utf8_of(self.chunks(), self.encoding)):
            parts.append(data)
            size += len(data)
            if last or size >= self.wanted:
                yield b"".join(parts), last
                parts, size = [], 0

    def _drop_between(self) -> None:
        """Drop the bytes between transactions if there are many. No rule needs them."""
        at = int(self.now[CUT_AT])
        if self.now[CUT_INSIDE] == 0 and at - self.begin > min(BETWEEN, self.longest // 2):
            frames = self.room.frames.reshape(-1, FRAME)
            rows = frames[1 : int(self.now[CUT_DEPTH]) + 1, [TAG_START, INNER, NAME_SIZE]]
            self._keep(at, self._open(rows.reshape(-1).tolist()))

    def _wait(self, code: int) -> None:
        """Request more bytes of the XML message if the next token may only be incomplete.

        The wanted size doubles each time, so that reading takes linear time. Raises DecodeError if
        the token is too long, or refused for another reason.
        """
        what = self._unfinished_token() if code == REFUSED else ""
        left = self.size - int(self.now[CUT_AT])
        if what and left > self.longest:
            where = Where(offset=self.base + int(self.now[CUT_AT]))
            raise DecodeError(f"a {what} is longer than {self.longest} bytes", where=where)
        if not what and (code != REFUSED or self._is_refused_again()):
            self._refuse(code)
        self.wanted = min(left, self.longest + 1 - left) if what else 0

    def _unfinished_token(self) -> str:
        """Return the type of the next XML token, such as "comment", if its end has not been read.

        Returns "" if it is complete.
        """
        text = memoryview(pa.py_buffer(self.text))[: self.size]
        found = _BEGIN.search(text, int(self.now[CUT_AT]))
        at = self.size if found is None else found.start()
        for begin, whole, name in _TOKENS:
            if text[at : at + len(begin)] == begin:
                # A tag's pattern starts right after `<`; other tokens end at their first end mark.
                find = whole.match if name == "tag" else whole.search
                return "" if find(text, at + len(begin)) else name
        return ""

    def _append(self, data: bytes) -> None:
        """Append bytes of the XML message to the text.

        Raises DecodeError if they have characters that XML forbids.
        """
        before = self.size
        self._set_text(self.text[:before], np.frombuffer(data, np.uint8))
        if has_forbidden(self.text, before, self.size):
            self._refuse()

    def _set_text(self, *parts: Octets) -> None:
        """Set the text of the XML message to the joined parts, then the literals and working space."""
        literals = np.frombuffer(self.automaton.literals, np.uint8)
        size = sum(map(len, parts))
        fixed = size + SPARE + len(literals)
        text = np.empty(fixed + size + SPARE, np.uint8)
        np.concatenate(parts, out=text[:size])
        text[size : size + SPARE], text[size + SPARE : fixed] = 0, literals
        self.names.used[LITERALS], self.names.used[DECODED] = size + SPARE, fixed
        self.text, self.size = text, size

    def _begin(self) -> None:
        """Begin after the XML message's byte order mark and declaration, with no element open."""
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
        """Run the kernel `find_cuts` over the text of the XML message.

        Return the code with which it stopped.
        """
        while True:
            code: int = find_cuts(
                self.text,
                self.size,
                last,
                self.names,
                self.automaton.arrays,
                self.room,
                self.now,
                self.cuts,
            )
            more = self.names.enlarge() if code == MANY_NAMES else None
            if more is None:
                return code
            self.names = more

    def _check_length(self) -> None:
        if self.size > self.longest:
            raise DecodeError(
                f"a transaction is longer than {self.longest} bytes",
                hint="Is the match of the rules at the top that of each transaction?",
            )

    def _is_refused_again(self) -> bool:
        """Return whether an XML token was refused twice, the second time with much text after it.

        Otherwise it may be incomplete.
        """
        at = self.base + int(self.now[CUT_AT])
        again = self.refused == at and self.size - self.now[CUT_AT] > _TOKEN
        self.refused = at
        return bool(again)

    def _refuse(self, code: int = REFUSED) -> NoReturn:
        """Raise the error of a malformed XML message. To find it, the message is read again."""
        check_document(self.chunks(), self.limits, self.encoding)
        what = "very many different names" if code == MANY_NAMES else "rare names or characters"
        problem = (
            f"the message has {what}, which are supported only in messages that fit into memory"
        )
        raise DecodeError(problem, hint="This message is too large")

    def _cut(self) -> MessageBatch:
        """Return the XML transactions found so far as messages, and keep the text after the last one."""
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
            # Consecutive cuts mostly have the same open elements: build their tags once.
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
        """Return the start tags of open XML elements, copied from the text.

        `rows` has their bounds and the sizes of their names.
        """
        opened = _Open()
        for at in range(0, len(rows), OPENED):
            start, end, size = rows[at : at + OPENED]
            tag = self.text[start:end].tobytes()
            opened.tags.append(tag)
            opened.names.append(tag[1 : 1 + size])
        return opened

    def _keep(self, begin: int, opened: _Open) -> None:
        """Keep the XML text from `begin` on, after the start tags of the elements that are open there."""
        before = opened.before
        # The distance by which the remaining text moves; negative if it moves towards the start.
        moved = len(before) - begin
        self._set_text(np.frombuffer(before, np.uint8), self.text[begin : self.size])
        self.base -= moved
        self.now[CUT_AT] += moved
        frames = self.room.frames.reshape(-1, FRAME)
        sizes = np.array([len(tag) for tag in opened.tags], np.int64)
        ends = np.cumsum(sizes, dtype=np.int64)
        begins = ends - sizes
        # The kernel may be past the cut: some of the elements that were open there have ended, and others
        # have begun. `still` is the number of elements open both at the cut and now.
        top = int(self.now[CUT_DEPTH]) + 1
        still = min(len(sizes), int((frames[1:top, TAG_START] < begin).sum()))
        frames[still + 1 : top, [TAG_START, INNER]] += moved
        frames[1 : still + 1, INNER] = ends[:still]
        frames[1 : still + 1, TAG_START] = begins[:still]
        self.begin, self.open = len(before), opened
        names = np.array([len(name) for name in opened.names], np.int64)
        self.rows = np.stack([begins, ends, names], axis=1).reshape(-1).tolist()
