"""The parts of an analysis: elements (tokens with their contents), bytes, and damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.tokens import FRAME

Path = tuple[int, ...]


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

    def bytes(self, note: str = "", *, problem: str = "", level: int = 0) -> tuple[Bytes, ...]:
        """Return all of them as one part, or no part if there are none."""
        if not self.raw:
            return ()
        return (Bytes(self.offset, self.raw, note, level=level, problem=problem),)


def elements(area: Area, path: Path, explain: Callable[[Element, Area], Element]) -> Iterator[Part]:
    """Yield the tokens that fill an area, each explained; bytes that are not a token are a problem."""
    place = 0
    while place < len(area.raw):
        start = place + FRAME
        if start > len(area.raw):
            yield from area.part(place).bytes(problem="no token fits here")
            return
        length = area.number(place + 2, 2)
        if start + length > len(area.raw):
            problem = f"a token of {length} bytes is longer than the one around it"
            yield from area.part(place).bytes(problem=problem)
            return
        frame = area.raw[place:start]
        payload = area.part(start, start + length)
        bare = Element(area.offset + place, frame, length, (*path, frame[0]), payload.bytes())
        yield explain(bare, payload)
        place = start + length


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


def shortened(raw: bytes, shown: int = 60) -> str:
    """Return bytes as one short line of text, with control characters escaped."""
    text = raw[: 4 * shown].decode("utf-8", "backslashreplace")
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= shown else f"{line[:shown]}..."
