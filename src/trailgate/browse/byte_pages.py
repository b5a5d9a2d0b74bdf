"""The page of a record's bytes: a dump in which each byte belongs to a named element, and a tree of these elements.

``trailgate analyze`` finds the elements. Damaged bytes have a page like a record, which also shows
the bytes before them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np

from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.pages import Query, link_to, parse_place, place_text
from trailgate.browse.shown_operations import ShownOperation
from trailgate.browse.spans import operation_begins, records_of
from trailgate.errors import OptionError, mask_logins
from trailgate.storage.files.trail_files import TrailFile, TrailPosition
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.annotation.elements import (
    DamagedSpan,
    ExplainedBytes,
    ExplainedToken,
    Part,
    find_problems,
)
from trailgate.trail.annotation.trail_file import explain_trail
from trailgate.trail.format.record_types import RecordRole

ROW: Final = 16  # bytes per line of the dump
COLOURS: Final = 6
_COLUMN: Final = re.compile(r"Column (\d+)")
SHOWN: Final = 160  # the most characters of a value in the tree
LINES: Final = 1500  # lines of a dump on a page
PIECES: Final = 1500  # elements on a page
# The records of an operation: one or two images, and what continues them.
_PARTS: Final = (RecordRole.CHANGE, RecordRole.FRAGMENT, RecordRole.LARGE_OBJECT)


@dataclass(frozen=True, slots=True)
class BytePiece:
    """Consecutive bytes of a record's dump that have one meaning.

    ``number`` counts the pieces of the page from 0, and ``offset`` is that of the first byte in the
    file. ``bad`` states whether the bytes are damaged.
    """

    number: int
    offset: int
    raw: bytes
    bad: bool = False

    @property
    def style(self) -> str:
        """The CSS class for the colour of the bytes in a record's dump."""
        return "damage" if self.bad else f"c{self.number % COLOURS}"


@dataclass(slots=True)
class ElementNode:
    """An element in the tree of a record's bytes, with the elements inside it (``inner``).

    It consists of the pieces with the numbers ``first`` to ``last``, both included.
    """

    name: str
    value: str = ""
    problem: str = ""
    first: int = 0
    last: int = 0
    offset: int = 0
    length: int = 0
    style: str = ""
    inner: list[ElementNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DumpLine:
    """A line of the byte dump: its offset, and its pieces as hex and as text."""

    offset: int
    # Each with its bytes in hex, as text, and whether the piece begins in this line.
    parts: tuple[tuple[BytePiece, str, str, bool], ...]

    @property
    def missing(self) -> str:
        """Blanks that pad an incomplete last line of the dump."""
        return "   " * (ROW - sum(len(text) for _, _, text, _ in self.parts))


def bytes_page(index: TrailIndex, query: Query) -> dict[str, Any]:
    """Return the template values for the page of a record's bytes.

    Raises OptionError for an invalid position.
    """
    place = parse_place(query.get("at", ""))
    if place is None:
        raise OptionError("the address has no at=POSITION of a record")
    file = index.readable_file(place.number)
    if place.offset >= file.size:
        problem = (
            f"the offset {place.offset} is not in file {place.number}, which has {file.size} bytes"
        )
        raise OptionError(problem)
    start, previous = _around(index, place)
    element = _object(file, start, place)
    pieces: list[BytePiece] = []
    root = (
        _damage_node(element, pieces)
        if isinstance(element, DamagedSpan)
        else _node(element, pieces)
    )
    end = element.offset + element.length
    rows = _operation(index, TrailPosition(place.number, element.offset))
    if rows:
        _name_columns(root, [cell.name for cell in rows[0].cells])
    lines = list(islice(_lines(pieces[:PIECES]), LINES))
    shown = sum(len(text) for line in lines for _, _, text, _ in line.parts)
    _cut_tree(root, PIECES)
    following = (
        TrailPosition(place.number, end) if end < file.size else index.next_file(place.number)
    )
    return {
        "place": TrailPosition(place.number, element.offset),
        "file": mask_logins(file.path.rpartition("/")[2]),
        "length": element.length,
        "damage": element if isinstance(element, DamagedSpan) else None,
        "reads_on": place_text(TrailPosition(place.number, end)),
        "problems": []
        if isinstance(element, DamagedSpan)
        else [one.problem for one in find_problems(element)],
        "root": root,
        "lines": lines,
        "shown": shown if shown < sum(len(one.raw) for one in pieces) else 0,
        "rows": rows,
        "previous": link_to("bytes", at=place_text(previous)) if previous else "",
        "next": link_to("bytes", at=place_text(following)) if following else "",
    }


def _around(index: TrailIndex, position: TrailPosition) -> tuple[int, TrailPosition | None]:
    """Return an offset from which to search for the element at a position, and the position of the element before it.

    The offset is that of a record at or before the position. The second result is None for the
    first element of a file.
    """
    with index.lock:
        spans = [span for span in index.spans if span.number == position.number]
    # the last span that starts at or before the offset
    at = bisect_right([span.start for span in spans], position.offset) - 1
    if at < 0:
        return (0 if spans else position.offset), None
    source, view = records_of(index, spans[at])
    # The last record that starts at or before the offset.
    row = int(np.searchsorted(view.offsets, position.offset - source.base, "right")) - 1
    start = source.base + int(view.offsets[row])
    if position.offset >= spans[at].end:  # in damaged bytes after the span
        return start, TrailPosition(position.number, start)
    if row:
        return start, TrailPosition(position.number, source.base + int(view.offsets[row - 1]))
    # The first record of the file comes after the header, which starts at 0.
    if not at:
        return start, TrailPosition(position.number, 0) if start else None
    # The last record of the span before.
    before, records = records_of(index, spans[at - 1])
    return start, TrailPosition(position.number, before.base + int(records.offsets[-1]))


def _object(file: TrailFile, start: int, position: TrailPosition) -> ExplainedToken | DamagedSpan:
    """Find the file header, record or damage that contains a position, or else the next one, from offset ``start`` on."""
    with TrailFileReader(file) as reader:
        for element in explain_trail(reader.read, file.size, start):
            if element.offset + element.length > position.offset:
                return element
    raise OptionError(
        f"file {position.number} has neither a record nor damage at {position.offset}"
    )


def _node(part: Part, pieces: list[BytePiece]) -> ElementNode:
    """Convert an explained part of a record to a node of the page's tree, with the parts inside it.

    Their bytes are appended to ``pieces``.
    """
    if isinstance(part, ExplainedBytes):
        piece = BytePiece(len(pieces), part.offset, part.raw, bool(part.problem))
        pieces.append(piece)
        name = part.note or part.label or "bytes"
        value = part.text if part.text is not None else ""
        return ElementNode(
            name=name,
            value=value if len(value) <= SHOWN else f"{value[:SHOWN]}...",
            problem=part.problem,
            first=piece.number,
            last=piece.number,
            offset=part.offset,
            length=len(part.raw),
            style=piece.style,
        )
    first = len(pieces)
    # A token's frame comes first, then its parts, then its trailer.
    pieces.append(BytePiece(first, part.offset, part.frame))
    inner = [_node(one, pieces) for one in part.parts]
    if part.trailer:
        end = part.offset + part.length
        pieces.append(BytePiece(len(pieces), end - len(part.trailer), part.trailer))
    name = f"{part.name or 'token'} {part.tag}"
    last = len(pieces) - 1
    return ElementNode(
        name=name,
        value=part.value,
        problem="",
        first=first,
        last=last,
        offset=part.offset,
        length=part.length,
        style=pieces[first].style,
        inner=inner,
    )


def _cut_tree(node: ElementNode, pieces: int) -> None:
    """Remove the elements from the tree of a record's bytes that begin after the first ``pieces`` pieces."""
    node.inner = [one for one in node.inner if one.first < pieces]
    for one in node.inner:
        _cut_tree(one, pieces)


def _name_columns(node: ElementNode, names: list[str]) -> None:
    """Add the column's name to each element of a record's tree whose name only has a column's number.

    ``names[i]`` is the name of the column number i.
    """
    numbered = _COLUMN.match(node.name)
    if numbered and int(numbered[1]) < len(names):
        node.name = f"{numbered[0]} {names[int(numbered[1])]}{node.name[numbered.end() :]}"
    for one in node.inner:
        _name_columns(one, names)


def _damage_node(damage: DamagedSpan, pieces: list[BytePiece]) -> ElementNode:
    """Convert damage to a node of the page's tree with two parts: the bytes before the damage, and its first bytes."""
    parts = []
    for name, offset, raw, bad in (
        ("bytes before it", damage.offset - len(damage.before), damage.before, False),
        ("its first bytes", damage.offset, damage.raw, True),
    ):
        if raw:
            piece = BytePiece(len(pieces), offset, raw, bad)
            pieces.append(piece)
            parts.append(
                ElementNode(
                    name=name,
                    value="",
                    problem="",
                    first=piece.number,
                    last=piece.number,
                    offset=offset,
                    length=len(raw),
                    style=piece.style,
                )
            )
    return ElementNode(
        name="damage",
        value="",
        problem=damage.problem,
        first=0,
        last=len(pieces) - 1,
        offset=damage.offset,
        length=damage.length,
        inner=parts,
    )


def _lines(pieces: list[BytePiece]) -> Iterator[DumpLine]:
    """Divide the pieces of a record's bytes into lines of the dump. A piece may continue over several lines."""
    begin = pieces[0].offset if pieces else 0
    parts: list[tuple[BytePiece, str, str, bool]] = []
    filled = 0
    for piece in pieces:
        at = 0
        while at < len(piece.raw):
            taken = piece.raw[at : at + ROW - filled]
            parts.append((piece, taken.hex(" "), _text(taken), not at))
            at, filled = at + len(taken), filled + len(taken)
            if filled == ROW:
                yield DumpLine(begin, tuple(parts))
                begin, parts, filled = begin + ROW, [], 0
    if parts:
        yield DumpLine(begin, tuple(parts))


def _text(raw: bytes) -> str:
    return "".join(chr(one) if 0x20 <= one < 0x7F else "." for one in raw)


def _operation(index: TrailIndex, position: TrailPosition) -> tuple[ShownOperation, ...]:
    """Return the operation to which the record at a position belongs, as a tuple of one or no items.

    The record is the operation's first one, the after image of an update, a fragment, or a piece of
    a large object.
    """
    begin = _begin(index, position)
    if begin is None:
        return ()
    rows = OperationSearch(index, OperationFilters(), begin, rows=1).run().rows
    return tuple(row for row in rows if isinstance(row, ShownOperation) and row.place == begin)


def _begin(index: TrailIndex, position: TrailPosition) -> TrailPosition | None:
    """Return the position of the first record of the operation to which the record at a position belongs.

    Returns None if the record belongs to no operation, or its operation's first record is lost.
    """
    with index.lock:
        spans = [span for span in index.spans if span.begin <= position < span.stop]
    for span in spans:
        source, view = records_of(index, span)
        begins = operation_begins(view)
        begins = begins[view.role[begins] == RecordRole.CHANGE]
        row = int(np.searchsorted(view.offsets, position.offset - source.base))
        at = int(np.searchsorted(begins, row, "right")) - 1
        if row < len(view) and view.role[row] in _PARTS and at >= 0:
            return TrailPosition(span.number, source.base + int(view.offsets[begins[at]]))
    return None
