"""The page of a record's bytes: each with the element that it belongs to, as ``trailgate analyze`` names them, and each element with its bytes.

Damage has a page like a record: bytes that are none, with those before them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from trailgate.browse.index import TrailIndex
from trailgate.browse.operations import Filters, Operation, Search, place_of
from trailgate.browse.pages import Query, link_to, place_text
from trailgate.browse.spans import records_of
from trailgate.errors import OptionError, mask_logins
from trailgate.storage.files.listing import TrailFile
from trailgate.storage.files.trail_files import TrailPlace
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.annotation.elements import Bytes, Damage, Element, Part, problems
from trailgate.trail.annotation.walk import analyze

ROW: Final = 16  # bytes of a line
COLOURS: Final = 6
_COLUMN: Final = re.compile(r"Column (\d+)")
SHOWN: Final = 160  # characters of a text beside the tree


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes with one meaning: their number among all, their place in the file, and whether they are damaged."""

    number: int
    offset: int
    raw: bytes
    bad: bool = False

    @property
    def style(self) -> str:
        """Return the class of its colour."""
        return "damage" if self.bad else f"c{self.number % COLOURS}"


@dataclass(slots=True)
class Node:
    """An element of the tree, or bytes: what it is, what it has, and the pieces from ``first`` to ``last``."""

    name: str
    value: str = ""
    problem: str = ""
    first: int = 0
    last: int = 0
    offset: int = 0
    length: int = 0
    style: str = ""
    inner: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the dump: its offset, and its pieces with their bytes as hex and as text."""

    offset: int
    parts: tuple[tuple[Piece, str, str, bool], ...]  # the last: whether the piece begins here

    @property
    def missing(self) -> str:
        """Return the blanks of the bytes that a last line has not."""
        return "   " * (ROW - sum(len(text) for _, _, text, _ in self.parts))


def record_bytes(index: TrailIndex, query: Query) -> dict[str, Any]:
    """Return what the page of the bytes at a place shows. Raises OptionError where the trail has no such place."""
    place = place_of(query.get("at", ""))
    if place is None:
        raise OptionError("the address has no at=POSITION of a record")
    file = index.readable_file(place.number)
    if place.offset >= file.size:
        problem = (
            f"the offset {place.offset} is not in file {place.number}, which has {file.size} bytes"
        )
        raise OptionError(problem)
    start, previous = _around(index, place)
    found = _object(file, start, place)
    pieces: list[Piece] = []
    root = _damaged(found, pieces) if isinstance(found, Damage) else _node(found, pieces)
    end = found.offset + found.length
    rows = _operation(index, TrailPlace(place.number, found.offset))
    if rows:
        _name_columns(root, [cell.name for cell in rows[0].cells])
    following = TrailPlace(place.number, end) if end < file.size else index.next_file(place.number)
    return {
        "place": TrailPlace(place.number, found.offset),
        "file": mask_logins(file.path.rpartition("/")[2]),
        "length": found.length,
        "damage": found if isinstance(found, Damage) else None,
        "reads_on": place_text(TrailPlace(place.number, end)),
        "problems": [] if isinstance(found, Damage) else [one.problem for one in problems(found)],
        "root": root,
        "lines": list(_lines(pieces)),
        "rows": rows,
        "previous": link_to("bytes", at=place_text(previous)) if previous else "",
        "next": link_to("bytes", at=place_text(following)) if following else "",
    }


def _around(index: TrailIndex, place: TrailPlace) -> tuple[int, TrailPlace | None]:
    """Return where the record begins that is at a place, or the last one before it, and the place of the one before that."""
    with index.lock:
        spans = [span for span in index.spans if span.number == place.number]
    at = bisect_right([span.start for span in spans], place.offset) - 1
    if at < 0:
        return (0 if spans else place.offset), None
    source, view = records_of(index, spans[at])
    row = int(np.searchsorted(view.offsets, place.offset - source.base, "right")) - 1
    start = source.base + int(view.offsets[row])
    if place.offset >= spans[at].end:  # in what is not a record
        return start, TrailPlace(place.number, start)
    if row:
        return start, TrailPlace(place.number, source.base + int(view.offsets[row - 1]))
    if not at:
        return start, TrailPlace(place.number, 0) if start else None
    before, records = records_of(index, spans[at - 1])
    return start, TrailPlace(place.number, before.base + int(records.offsets[-1]))


def _object(file: TrailFile, start: int, place: TrailPlace) -> Element | Damage:
    """Return the header, the record or the damage that has the byte of a place, else the next one."""
    with TrailFileReader(file) as reader:
        for found in analyze(reader.read, file.size, start):
            if found.offset + found.length > place.offset:
                return found
    raise OptionError(f"file {place.number} has neither a record nor damage at {place.offset}")


def _node(part: Part, pieces: list[Piece]) -> Node:
    """Return a part as a node, and add its bytes to the pieces."""
    if isinstance(part, Bytes):
        piece = Piece(len(pieces), part.offset, part.raw, bool(part.problem))
        pieces.append(piece)
        name = part.note or part.label or "bytes"
        value = part.text if part.text is not None else ""
        return Node(
            name,
            value if len(value) <= SHOWN else f"{value[:SHOWN]}...",
            part.problem,
            piece.number,
            piece.number,
            part.offset,
            len(part.raw),
            piece.style,
        )
    first = len(pieces)
    pieces.append(Piece(first, part.offset, part.frame))
    inner = [_node(one, pieces) for one in part.parts]
    if part.trailer:
        end = part.offset + part.length
        pieces.append(Piece(len(pieces), end - len(part.trailer), part.trailer))
    name = f"{part.name or 'token'} {part.tag}"
    last = len(pieces) - 1
    return Node(
        name, part.value, "", first, last, part.offset, part.length, pieces[first].style, inner
    )


def _name_columns(node: Node, names: list[str]) -> None:
    """Add the names of columns to the elements that have their numbers."""
    numbered = _COLUMN.match(node.name)
    if numbered and int(numbered[1]) < len(names):
        node.name = f"{numbered[0]} {names[int(numbered[1])]}{node.name[numbered.end() :]}"
    for one in node.inner:
        _name_columns(one, names)


def _damaged(found: Damage, pieces: list[Piece]) -> Node:
    """Return damage as a node of two parts: what is before it, and its first bytes."""
    parts = []
    for name, offset, raw, bad in (
        ("bytes before it", found.offset - len(found.before), found.before, False),
        ("its first bytes", found.offset, found.raw, True),
    ):
        if raw:
            piece = Piece(len(pieces), offset, raw, bad)
            pieces.append(piece)
            parts.append(
                Node(name, "", "", piece.number, piece.number, offset, len(raw), piece.style)
            )
    return Node(
        "damage", "", found.problem, 0, len(pieces) - 1, found.offset, found.length, inner=parts
    )


def _lines(pieces: list[Piece]) -> Iterator[Line]:
    """Yield the lines of the dump; a piece continues over as many as it needs."""
    begin = pieces[0].offset if pieces else 0
    parts: list[tuple[Piece, str, str, bool]] = []
    filled = 0
    for piece in pieces:
        at = 0
        while at < len(piece.raw):
            taken = piece.raw[at : at + ROW - filled]
            parts.append((piece, taken.hex(" "), _text(taken), not at))
            at, filled = at + len(taken), filled + len(taken)
            if filled == ROW:
                yield Line(begin, tuple(parts))
                begin, parts, filled = begin + ROW, [], 0
    if parts:
        yield Line(begin, tuple(parts))


def _text(raw: bytes) -> str:
    return "".join(chr(one) if 0x20 <= one < 0x7F else "." for one in raw)


def _operation(index: TrailIndex, place: TrailPlace) -> tuple[Operation, ...]:
    """Return the operation that begins at a record, if one does."""
    rows = Search(index, Filters(), place, rows=1).run().rows
    return tuple(row for row in rows if isinstance(row, Operation) and row.place == place)
