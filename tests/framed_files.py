"""Records as the bytes of a file: the way back of framing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_copybook_splits

DESCRIPTOR = 4


def frame(records: list[bytes], framing: Framing) -> bytes:
    def word(size: int, form: list[int]) -> bytes:
        little, twisted, adjustment = form
        order: Literal["little", "big"] = "little" if little else "big"
        half = (size + DESCRIPTOR - adjustment).to_bytes(2, order)
        return b"\0\0" + half if twisted else half + b"\0\0"

    forms = framing.words.tolist()
    if framing.kind is FrameKind.LINE:
        return b"".join(record + framing.delimiter for record in records)
    if framing.kind is FrameKind.SPANNED:
        return span(records, framing, 13)
    if framing.kind in (FrameKind.RDW, FrameKind.BDW):
        body = b"".join(word(len(record), forms[:3]) + record for record in records)
        return (
            word(len(body), forms[3:]) + body if framing.kind is FrameKind.BDW and records else body
        )
    return b"".join(records)


def span(records: list[bytes], framing: Framing, block_bytes: int) -> bytes:
    """Return blocks of so many bytes, in which records continue that the block before has no room for."""
    forms = framing.words.tolist()

    def word(size: int, form: list[int], code: int = 0) -> bytes:
        order: Literal["little", "big"] = "little" if form[0] else "big"
        return (size + DESCRIPTOR - form[2]).to_bytes(2, order) + bytes([code, 0])

    blocks, block = [], b""
    for record in records:
        left, begins = record, True
        while left or begins:
            if len(block) + DESCRIPTOR + 1 > block_bytes:
                blocks.append(block)
                block = b""
            room = max(block_bytes - len(block) - DESCRIPTOR, 1)
            part, left = left[:room], left[room:]
            code = (0 if begins else 2) if not left else (1 if begins else 3)
            block += word(len(part), forms[:3], code) + part
            begins = False
    blocks.append(block)
    return b"".join(word(len(body), forms[3:]) + body for body in blocks if body)


def split_rows(path: Path, **named: Any) -> list[dict[str, Any]]:
    """Return the rows of a file of records, read in splits of ``split_bytes``."""
    options = CopybookOptions.of(named)
    batches = read_copybook_splits(options.splits(path), options, options.decoder())
    return [row for batch in batches for row in batch.to_pylist()]
