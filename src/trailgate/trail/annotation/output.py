"""The output of the parts of an explained trail (`elements`): as text, or as plain values for JSON.

`format_listing` formats a file header, a record or damage in the form of TrailAnalyzer's listings:
the bytes in hex, with a note beside them. `part_to_json` returns its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from trailgate.trail.annotation.elements import DamagedSpan, ExplainedBytes, ExplainedToken, Part

INDENT: Final = "  "
ROW: Final = 16  # bytes of hex in a line
# A row of hex has 3 * 16 - 1 characters, and two blanks follow it.
NOTE_AT: Final = 3 * ROW + 1  # column of notes beside hex


class ListingLine(NamedTuple):
    """A line of an explained trail as text: bytes of the file, a comment, and whether it reports a problem."""

    content: str
    comment: str = ""
    bad: bool = False

    def __str__(self) -> str:
        if not self.comment:
            return self.content
        sign = f"# {self.comment}"
        return f"{self.content}   {sign}" if self.content.strip() else f"{self.content}{sign}"


def format_listing(item: ExplainedToken | DamagedSpan) -> Iterator[ListingLine]:
    """Format an explained file header, record or damage as lines of text, as ``trailgate analyze`` prints it."""
    if isinstance(item, DamagedSpan):
        yield from _damage_lines(item)
        return
    yield ListingLine("", f"Offset {item.offset} (0x{item.offset:X}): {_name(item)}")
    yield from _element(item, 0)


def _name(element: ExplainedToken) -> str:
    return f"{element.name} {element.value}".rstrip()


def _element(element: ExplainedToken, depth: int) -> Iterator[ListingLine]:
    indent = INDENT * depth
    yield ListingLine(f"{indent}{_hex(element.frame)}", _frame_note(element.frame, element.length))
    # The outermost token gets no name here, because the title line has it.
    value = f" = {element.value}" if element.value else ""
    yield ListingLine(f"{indent}<{element.tag}>", f"{element.name}{value}" if depth else "")
    for part in element.parts:
        yield from _part(part, depth + 1)
    yield ListingLine(f"{indent}</{element.tag}>")
    if element.trailer:
        # The trailer Z repeats the info and length of its F or G (trail format §2).
        yield ListingLine(
            f"{indent}{_hex(element.trailer)}", _frame_note(element.trailer, element.length)
        )


def _part(part: Part, depth: int) -> Iterator[ListingLine]:
    if isinstance(part, ExplainedToken):
        yield from _element(part, depth)
    else:
        yield from _bytes(part, depth + part.level)


def _bytes(part: ExplainedBytes, depth: int) -> Iterator[ListingLine]:
    indent = INDENT * depth
    if part.label:
        yield ListingLine(indent, part.label)
    if part.problem:
        yield ListingLine(
            indent, f"Offset {part.offset} (0x{part.offset:X}): {part.problem}", bad=True
        )
    if part.text is not None:
        raw = part.text.encode()
        # A string of the file header has its length before the text (trail format §4).
        if len(raw) < len(part.raw):
            yield ListingLine(indent, f"String Len = {len(raw)} (0x{len(raw):X})")
        for text in part.text.removesuffix("\n").split("\n") if part.text else ():
            yield ListingLine(f"{indent}{text}")
        return
    for at in range(0, len(part.raw), ROW):
        row = f"{indent}{_hex(part.raw[at : at + ROW])}"
        yield ListingLine(
            row.ljust(NOTE_AT) if part.note and not at else row, "" if at else part.note
        )


def _damage_lines(damage: DamagedSpan) -> Iterator[ListingLine]:
    end = damage.offset + damage.length
    what = f"{damage.length} bytes make no sense"
    yield ListingLine(
        "", f"Offset {damage.offset} (0x{damage.offset:X}): {what}: {damage.problem}", bad=True
    )
    if damage.before:
        yield ListingLine("", f"the {len(damage.before)} bytes before them", bad=True)
        yield from _bytes(ExplainedBytes(0, damage.before), 1)
    yield ListingLine("", f"the first {len(damage.raw)} of them", bad=True)
    yield from _bytes(ExplainedBytes(0, damage.raw), 1)
    yield ListingLine("", f"reading continues at {end} (0x{end:X})", bad=True)


def _frame_note(frame: bytes, length: int) -> str:
    code, info = frame[:2]
    sign = f" ({chr(code)})" if 0x20 < code < 0x7F else ""
    return f"Type={code:02X}{sign} Flag={info} Len={length}"


def _hex(raw: bytes) -> str:
    return raw.hex(" ").upper()


def part_to_json(item: Part | DamagedSpan) -> dict[str, Any]:
    """Convert an explained part of a trail, or damage, to plain values for JSON, with its bytes in hex."""
    if isinstance(item, DamagedSpan):
        return {
            "offset": item.offset,
            "length": item.length,
            "problem": item.problem,
            "before": item.before.hex(),
            "hex": item.raw.hex(),
        }
    if isinstance(item, ExplainedBytes):
        named = {"note": item.note or item.label, "text": item.text, "problem": item.problem}
        known = {name: value for name, value in named.items() if value}
        return {"offset": item.offset, "hex": item.raw.hex(), **known}
    return {
        "offset": item.offset,
        "tag": item.tag,
        "info": item.frame[1],
        "length": item.length,
        "name": item.name,
        **({"value": item.value} if item.value else {}),
        "parts": [part_to_json(part) for part in item.parts],
    }
