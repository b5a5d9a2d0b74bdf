"""The parts of an analysis: elements (tokens with their contents), bytes, and damage.

An analysis as text, in the form of TrailAnalyzer's listings, and as plain values for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from trailgate.trail.format.tokens import FRAME, ByteOrder, find_tokens

Path = tuple[int, ...]


class Role(Enum):
    """What bytes are to one who replaces the data of a record, and nothing else."""

    STRUCTURE = auto()
    VALUE = auto()  # of a column: its null indicator and what follows
    PIECE = auto()  # of a large object
    NAME = auto()  # of a table, with the NUL after it
    COLUMN_NAME = auto()  # with the length before it
    TEXT = auto()  # of a file header's string, with the length before it
    UNKNOWN = auto()  # their layout is not public, or not understood


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes that are shown together; ``problem`` states what is wrong with them.

    ``label`` is shown above them, ``note`` beside them, and ``text``, their own text, instead of hex.
    ``level`` is their indentation.
    """

    offset: int
    raw: bytes
    note: str = ""
    label: str = ""
    text: str | None = None
    level: int = 0
    problem: str = ""
    role: Role = Role.STRUCTURE


@dataclass(frozen=True, slots=True)
class Element:
    """A token: its frame, the path of token ids to it, its name, and its contents.

    ``trailer`` is the token Z that ends a file header or a record.
    """

    offset: int
    frame: bytes
    length: int
    path: Path
    parts: tuple[Part, ...]
    name: str = ""
    value: str = ""
    trailer: bytes = b""

    @property
    def tag(self) -> str:
        """Return the path in the form 47_54_52."""
        return "_".join(f"{code:02X}" for code in self.path)


Part: TypeAlias = Element | Bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not a record, and some of those before them; reading continues after them."""

    offset: int
    length: int
    problem: str
    before: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class Area:
    """Bytes to explain, their offset in the file, and their byte order."""

    raw: bytes
    offset: int
    order: ByteOrder

    def part(self, start: int, end: int | None = None) -> Area:
        """Return a part of them."""
        return Area(self.raw[start:end], self.offset + start, self.order)

    def number(self, start: int, width: int) -> int:
        """Return the unsigned number that some of them hold."""
        return self.order.number(self.raw[start : start + width])

    def bytes(
        self, note: str = "", *, problem: str = "", level: int = 0, role: Role = Role.STRUCTURE
    ) -> tuple[Bytes, ...]:
        """Return all of them as one part, or no part if there are none."""
        if not self.raw:
            return ()
        return (Bytes(self.offset, self.raw, note, level=level, problem=problem, role=role),)


def elements(area: Area, path: Path, explain: Callable[[Element, Area], Element]) -> Iterator[Part]:
    """Yield the tokens that fill an area, each explained; bytes that are not a token are a problem."""
    found, problem = find_tokens(area.raw, area.order)
    for code, _, start, end in found:
        payload = area.part(start, end)
        frame = area.raw[start - FRAME : start]
        at = area.offset + start - FRAME
        yield explain(Element(at, frame, end - start, (*path, code), payload.bytes()), payload)
    if problem:
        yield from area.part(found[-1].end if found else 0).bytes(problem=problem)


def content(part: Part) -> bytes:
    """Return the bytes of the file that a part shows."""
    if isinstance(part, Bytes):
        return part.raw
    return part.frame + b"".join(map(content, part.parts)) + part.trailer


def problems(part: Part) -> Iterator[Bytes]:
    """Yield the bytes of a part that have a problem."""
    if isinstance(part, Bytes):
        if part.problem:
            yield part
        return
    for inner in part.parts:
        yield from problems(inner)


def printable(raw: bytes) -> str | None:
    """Return bytes as text that is safe to show; None if they are not."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\n\t" for c in text) else None


def shorten(raw: bytes, shown: int = 60) -> str:
    """Return bytes as one short line of text, with control characters escaped."""
    text = raw[: 4 * shown].decode("utf-8", "backslashreplace")
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= shown else f"{line[:shown]}..."


INDENT: Final = "  "
ROW: Final = 16  # bytes of hex in a line
NOTE_AT: Final = 3 * ROW + 1  # column of notes beside hex


class Line(NamedTuple):
    """One line: bytes of the file, a comment on them, and whether it reports a problem."""

    content: str
    comment: str = ""
    bad: bool = False

    def __str__(self) -> str:
        if not self.comment:
            return self.content
        sign = f"# {self.comment}"
        return f"{self.content}   {sign}" if self.content.strip() else f"{self.content}{sign}"


def lines(found: Element | Damage) -> Iterator[Line]:
    """Yield the lines of a header, a record or damage."""
    if isinstance(found, Damage):
        yield from _damage_lines(found)
        return
    yield Line("", f"Offset {found.offset} (0x{found.offset:X}): {_name(found)}")
    yield from _element(found, 0)


def _name(found: Element) -> str:
    return f"{found.name} {found.value}".rstrip()


def _element(found: Element, depth: int) -> Iterator[Line]:
    indent = INDENT * depth
    yield Line(f"{indent}{_hex(found.frame)}", _frame_note(found.frame, found.length))
    value = f" = {found.value}" if found.value else ""
    yield Line(f"{indent}<{found.tag}>", f"{found.name}{value}" if depth else "")
    for part in found.parts:
        yield from _part(part, depth + 1)
    yield Line(f"{indent}</{found.tag}>")
    if found.trailer:
        yield Line(f"{indent}{_hex(found.trailer)}", _frame_note(found.trailer, found.length))


def _part(part: Part, depth: int) -> Iterator[Line]:
    if isinstance(part, Element):
        yield from _element(part, depth)
    else:
        yield from _bytes(part, depth + part.level)


def _bytes(part: Bytes, depth: int) -> Iterator[Line]:
    indent = INDENT * depth
    if part.label:
        yield Line(indent, part.label)
    if part.problem:
        yield Line(indent, f"Offset {part.offset} (0x{part.offset:X}): {part.problem}", bad=True)
    if part.text is not None:
        raw = part.text.encode()
        if len(raw) < len(part.raw):
            yield Line(indent, f"String Len = {len(raw)} (0x{len(raw):X})")
        for text in part.text.removesuffix("\n").split("\n") if part.text else ():
            yield Line(f"{indent}{text}")
        return
    for at in range(0, len(part.raw), ROW):
        row = f"{indent}{_hex(part.raw[at : at + ROW])}"
        yield Line(row.ljust(NOTE_AT) if part.note and not at else row, "" if at else part.note)


def _damage_lines(found: Damage) -> Iterator[Line]:
    end = found.offset + found.length
    what = f"{found.length} bytes make no sense"
    yield Line("", f"Offset {found.offset} (0x{found.offset:X}): {what}: {found.problem}", bad=True)
    if found.before:
        yield Line("", f"the {len(found.before)} bytes before them", bad=True)
        yield from _bytes(Bytes(0, found.before), 1)
    yield Line("", f"the first {len(found.raw)} of them", bad=True)
    yield from _bytes(Bytes(0, found.raw), 1)
    yield Line("", f"reading continues at {end} (0x{end:X})", bad=True)


def _frame_note(frame: bytes, length: int) -> str:
    code, info = frame[:2]
    sign = f" ({chr(code)})" if 0x20 < code < 0x7F else ""
    return f"Type={code:02X}{sign} Flag={info} Len={length}"


def _hex(raw: bytes) -> str:
    return raw.hex(" ").upper()


def as_values(found: Part | Damage) -> dict[str, Any]:
    """Return a part as plain values, with all its bytes in hex."""
    if isinstance(found, Damage):
        return {
            "offset": found.offset,
            "length": found.length,
            "problem": found.problem,
            "before": found.before.hex(),
            "hex": found.raw.hex(),
        }
    if isinstance(found, Bytes):
        named = {"note": found.note or found.label, "text": found.text, "problem": found.problem}
        known = {name: value for name, value in named.items() if value}
        return {"offset": found.offset, "hex": found.raw.hex(), **known}
    return {
        "offset": found.offset,
        "tag": found.tag,
        "info": found.frame[1],
        "length": found.length,
        "name": found.name,
        **({"value": found.value} if found.value else {}),
        "parts": [as_values(part) for part in found.parts],
    }
