"""Which bytes of a damaged trail are kept, and which are left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes [start, end) of a source file.

    Records that are ``apart`` (metadata, DDL) are kept whatever becomes of the transaction around them.
    """

    number: int
    start: int
    end: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Bytes that are not part of the new trail, and why."""

    number: int
    offset: int
    length: int
    reason: str
    transaction: str | None = None
