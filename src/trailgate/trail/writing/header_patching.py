"""Change what a file header states about its file; every other byte stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from trailgate.columnar.views import octets
from trailgate.errors import EncodeError
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.file_header import TRAIL_FIELDS, HeaderField
from trailgate.trail.format.tokens import FILE_HEADER, FRAME, NORMAL, UNSET, outer_object, token
from trailgate.trail.records.record import Token, tokens_between

TRAIL_GROUP: Final = 0x30


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """What a header states about its own file; the names are those of ``TrailInfo``, None is not known."""

    filename: str
    seqno: int
    file_size: int | None = None
    first_csn: str | None = None
    last_csn: str | None = None
    first_io_time: int | None = None
    last_io_time: int | None = None


_FACTS: Final = {field.name for field in fields(HeaderFacts)}
_FIELDS: Final = {field.code: field for field in TRAIL_FIELDS if field.name in _FACTS}


def patched_header(raw: bytes, order: ByteOrder, facts: HeaderFacts) -> bytes:
    """Return a header with other facts; its length depends on the file name alone."""
    data = octets(raw)
    inner = b""
    for group, start in tokens_between(data, (FRAME, len(raw) - FRAME), order):
        payload = group.payload
        if group.code == TRAIL_GROUP:
            span = (start, start + len(payload))
            fields = tokens_between(data, span, order)
            payload = b"".join(_field(field, order, facts) for field, _ in fields)
        inner += token(group.code, payload, group.info, order)
    return outer_object(FILE_HEADER, inner, raw[1], order)


def _field(found: Token, order: ByteOrder, facts: HeaderFacts) -> bytes:
    field = _FIELDS.get(found.code)
    if field is None:
        return token(found.code, found.payload, found.info, order)
    payload = _encoded(field, order, facts)
    if payload is None:
        return token(found.code, field.codec.unset or found.payload, UNSET, order)
    return token(found.code, payload, NORMAL, order)


def _encoded(field: HeaderField, order: ByteOrder, facts: HeaderFacts) -> bytes | None:
    """Return a fact as bytes; None where it is not known, or damaged so that it cannot be written."""
    value = getattr(facts, field.name)
    try:
        return None if value is None else field.codec.encode(value, order)
    except EncodeError:
        return None
