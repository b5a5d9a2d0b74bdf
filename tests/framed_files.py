"""Records as the bytes of a file: the way back of framing."""

from __future__ import annotations

from typing import Literal

from trailgate.cobol.records.framing import FrameKind, Framing

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
    if framing.kind in (FrameKind.RDW, FrameKind.BDW):
        body = b"".join(word(len(record), forms[:3]) + record for record in records)
        return (
            word(len(body), forms[3:]) + body if framing.kind is FrameKind.BDW and records else body
        )
    return b"".join(records)
