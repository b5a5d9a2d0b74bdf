"""Records as the bytes of a file: the way back of framing."""

from __future__ import annotations

from typing import Literal

from trailgate.cobol.records.framing import FrameKind, Framing

DESCRIPTOR = 4


def frame(records: list[bytes], framing: Framing) -> bytes:
    order: Literal["little", "big"] = "little" if framing.little else "big"

    def word(size: int) -> bytes:
        return (size + DESCRIPTOR - framing.adjustment).to_bytes(2, order) + b"\0\0"

    if framing.kind is FrameKind.LINE:
        return b"".join(record + framing.delimiter for record in records)
    if framing.kind in (FrameKind.RDW, FrameKind.BDW):
        body = b"".join(word(len(record)) + record for record in records)
        return word(len(body)) + body if framing.kind is FrameKind.BDW and records else body
    return b"".join(records)
