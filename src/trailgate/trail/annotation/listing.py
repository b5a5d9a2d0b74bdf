"""An analysis as text, in the form of TrailAnalyzer's listings, and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from trailgate.trail.annotation.elements import Bytes, Damage, Element, Part

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
    yield Line("", f"Offset {found.offset} (0x{found.offset:X}): {_named(found)}")
    yield from _element(found, 0)


def _named(found: Element) -> str:
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
