"""The parts of an explained trail: tokens, bytes with a note or a problem, and damage.

Every byte of a header or record is in exactly one part. An `ExplainedToken` has the frame of a
token and its parts. `ExplainedBytes` are shown together with a note, or with a problem;
`DamagedSpan` are bytes that are not records. `output` formats them as text, or as values for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from trailgate.trail.format.tokens import FRAME, ByteOrder, find_tokens

Path = tuple[int, ...]


class ByteRole(Enum):
    """The type of content of explained bytes, for example a value or a table name.

    `trailgate redact` replaces data such as values and names, and leaves the structure unchanged.
    """

    STRUCTURE = auto()
    VALUE = auto()  # a column's null indicator and value
    PIECE = auto()  # a piece of a large object
    NAME = auto()  # a table name and its NUL
    COLUMN_NAME = auto()  # a column name and the length before it
    TEXT = auto()  # a string of the file header and the length before it
    UNKNOWN = auto()  # the layout is not public, or not understood


@dataclass(frozen=True, slots=True)
class ExplainedBytes:
    """Bytes of a trail that are explained together. ``problem`` states what is wrong with them, or is empty.

    ``label`` is shown above them, ``note`` beside them, and ``text`` instead of the hex.
    ``level`` is their indentation.
    """

    offset: int
    raw: bytes
    note: str = ""
    label: str = ""
    text: str | None = None
    level: int = 0
    problem: str = ""
    role: ByteRole = ByteRole.STRUCTURE


@dataclass(frozen=True, slots=True)
class ExplainedToken:
    """An explained token of a trail: its frame, the path of token ids to it, its name, and its contents.

    ``frame`` are its id, info and length as bytes, and ``length`` is the length that they state.
    ``value`` is shown after the name, for example the record type after "record". ``trailer`` is
    the token Z that ends a file header or record.
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
        """The path to the token as a tag of TrailAnalyzer, such as 47_54_52."""
        return "_".join(f"{code:02X}" for code in self.path)


Part: TypeAlias = ExplainedToken | ExplainedBytes


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """Bytes of a trail that cannot be read as records. Reading continues after them.

    There are ``length`` of these bytes; ``raw`` are only the first ones, to show them. ``before``
    are some bytes before them, to show the context.
    """

    offset: int
    length: int
    problem: str
    before: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class ByteArea:
    """An area of a trail file to explain: its bytes, their offset in the file and their byte order."""

    raw: bytes
    offset: int
    order: ByteOrder

    def part(self, start: int, end: int | None = None) -> ByteArea:
        """Return the bytes [start, end) of this area of a trail as a smaller area."""
        return ByteArea(self.raw[start:end], self.offset + start, self.order)

    def number(self, start: int, width: int) -> int:
        """Return the unsigned number in ``width`` bytes of the area at ``start``."""
        return self.order.number(self.raw[start : start + width])

    def bytes(
        self,
        note: str = "",
        *,
        problem: str = "",
        level: int = 0,
        role: ByteRole = ByteRole.STRUCTURE,
    ) -> tuple[ExplainedBytes, ...]:
        """Explain all bytes of this area of a trail as one part. Returns no part if the area is empty."""
        if not self.raw:
            return ()
        return (
            ExplainedBytes(self.offset, self.raw, note, level=level, problem=problem, role=role),
        )


def explain_tokens(
    area: ByteArea, path: Path, explain: Callable[[ExplainedToken, ByteArea], ExplainedToken]
) -> Iterator[Part]:
    """Explain the tokens that fill an area of a file header or record.

    ``path`` are the ids of the tokens around the area. ``explain`` gets each token, with its
    payload as the only part, and its payload as an area; it returns the token with its parts
    explained. Bytes that are not a token become a part with a problem.
    """
    tokens, problem = find_tokens(area.raw, area.order)
    for code, _, start, end in tokens:
        payload = area.part(start, end)
        # ``start`` is the offset of the payload. The token's id, info and length precede it.
        frame = area.raw[start - FRAME : start]
        at = area.offset + start - FRAME
        yield explain(
            ExplainedToken(at, frame, end - start, (*path, code), payload.bytes()), payload
        )
    if problem:
        # The search stops at the first bytes that are not a token. The rest is the problem.
        yield from area.part(tokens[-1].end if tokens else 0).bytes(problem=problem)


def bytes_of_part(part: Part) -> bytes:
    """Join the bytes of an explained part (`ExplainedToken` or `ExplainedBytes`): those that it covers in the trail file."""
    if isinstance(part, ExplainedBytes):
        return part.raw
    return part.frame + b"".join(map(bytes_of_part, part.parts)) + part.trailer


def find_problems(part: Part) -> Iterator[ExplainedBytes]:
    """Yield the `ExplainedBytes` with a problem among the parts of an explained part."""
    if isinstance(part, ExplainedBytes):
        if part.problem:
            yield part
        return
    for inner in part.parts:
        yield from find_problems(inner)


def decode_printable(raw: bytes) -> str | None:
    """Decode bytes of a trail as text that is safe to print, or return None if they are not printable."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\n\t" for c in text) else None


def shorten_text(raw: bytes, shown: int = 60) -> str:
    """Return bytes of a trail as one line of text, in which control characters are escaped.

    After ``shown`` characters the text is cut off and ends with "...".
    """
    # A character of UTF-8 has at most four bytes, so this is enough for ``shown`` characters.
    text = raw[: 4 * shown].decode("utf-8", "backslashreplace")
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= shown else f"{line[:shown]}..."
