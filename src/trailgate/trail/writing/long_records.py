"""Operations that take several records of one image: large objects in pieces, rows in fragments.

They are rare, so they are written record by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import EncodeError, Where
from trailgate.trail.format.record import Token, TrailRecord, encode_record
from trailgate.trail.format.record_types import (
    IO_FRAGMENT,
    IO_KEY_UPDATE,
    IO_LARGE_OBJECT,
    IO_LONG_KEY_UPDATE,
    Prefix,
)
from trailgate.trail.format.tokens import FRAME, GGS_TOKENS, MAX_LENGTH, USER_TOKENS
from trailgate.trail.writing.large_objects import LargeValues, piece_data
from trailgate.trail.writing.records import AUDIT_POS, AUDIT_RBA, Group, image_pieces
from trailgate.trail.writing.token_areas import token_payloads

STEP: Final = 64  # rows whose data are joined at once
MAX_INT32: Final = 2**31 - 1
YES: Final = 1
FIRST, MIDDLE, LAST, ONLY = range(4)  # TransInd
# RecCount has one byte. Assumed: it stays at its greatest number for a value of more pieces, whose own words tell.
MAX_COUNT: Final = 255
# Assumed: pieces and fragments have an empty T, as records without tokens have.
NO_TOKENS: Final = (Token(GGS_TOKENS, b""),)


def long_records(group: Group, values: LargeValues) -> pa.Array:
    """Return the group's records, each with the fragments and pieces behind it in its slot."""
    slots: list[bytes] = []
    for start in range(0, len(group.order), STEP):
        slots += _slots(group.take(np.arange(start, min(start + STEP, len(group.order)))), values)
    size = sum(map(len, slots))
    return pa.array(slots, pa.binary() if size <= MAX_INT32 else pa.large_binary())


def _slots(group: Group, values: LargeValues) -> Iterator[bytes]:
    front, data = image_pieces(group)
    fronts = None if front is None else front.joined().to_pylist()
    datas = data.joined().to_pylist()
    ggs, user = token_payloads(group.block, group.first, group.naming.order)
    users = [b""] * len(ggs) if user is None else user.to_pylist()
    for row, tokens in enumerate(zip(ggs.to_pylist(), users, strict=True)):
        image = None if fronts is None else fronts[row]
        base = _base(group, row, (image, datas[row]), tokens)
        records = [*_cut(base)]
        key = (int(group.order[row]) >> 1, group.image == "before")
        for column, value in values.get(key, ()):
            records += _pieces(base, column, value)
        yield b"".join(map(encode_record, _bounded(records, int(group.trans_ind[row]))))


def _base(
    group: Group, row: int, images: tuple[bytes | None, bytes], tokens: tuple[bytes, bytes]
) -> TrailRecord:
    """Return the record of an image, as long as it may be."""
    front, data = images
    ggs, user = tokens
    order, io_type = group.naming.order, int(group.io_type[row])
    if front is not None:
        width = Prefix.SHORT if len(front) <= MAX_LENGTH else Prefix.LONG
        data = order.raw(len(front), width) + front + data
        if io_type == IO_KEY_UPDATE and width is Prefix.LONG:
            io_type = IO_LONG_KEY_UPDATE
    by_name = group.naming.index is None
    return TrailRecord(
        io_type,
        name=group.naming.table if by_name else None,
        table_index=group.naming.index,
        data=data or None,
        others=(Token(GGS_TOKENS, ggs), *((Token(USER_TOKENS, user),) if user else ())),
        partition=group.partition,
        image=group.letter,
        io_time=int(group.block.op_ts[row]),
        audit_pos=AUDIT_POS,
        audit_rba=AUDIT_RBA,
        trans_ind=MIDDLE,
        order=order,
    )


def _cut(record: TrailRecord) -> Iterator[TrailRecord]:
    """Yield a record, or the begin of one that is too long and the fragments behind it.

    Assumed (trail format §11): a fragment's data are what comes next of the row's, Continued is Y in all but the last.
    """
    data = record.data or b""
    bare = _room(replace(record, data=None))
    if bare <= 0:
        problem = "the tokens of a record leave no room for its data"
        raise EncodeError(problem, where=Where(table=record.name))
    more = replace(record, io_type=IO_FRAGMENT, data=None, others=NO_TOKENS)
    room, place = bare, 0
    while place + room < len(data):
        yield replace(record, data=data[place : place + room], continued=YES)
        place, room, record = place + room, _room(more), more
    yield replace(record, data=data[place:] or None)


def _room(record: TrailRecord) -> int:
    """Return how many bytes of data fit into a record that has none so far."""
    return MAX_LENGTH - len(encode_record(record)) - FRAME


def _pieces(base: TrailRecord, column: int, value: bytes) -> list[TrailRecord]:
    found = list(piece_data(column, value, base.order))
    count = min(len(found), MAX_COUNT)
    piece = replace(base, io_type=IO_LARGE_OBJECT, others=NO_TOKENS, record_count=count)
    pieces = [replace(piece, data=data, continued=YES) for data in found]
    return [*pieces[:-1], replace(pieces[-1], continued=0)]


def _bounded(records: list[TrailRecord], trans_ind: int) -> list[TrailRecord]:
    """Return an operation's records, all middle ones so far, with the place of each in the transaction."""
    begins, ends = trans_ind in (FIRST, ONLY), trans_ind in (LAST, ONLY)
    if len(records) == 1:
        return [replace(records[0], trans_ind=trans_ind)]
    first = replace(records[0], trans_ind=FIRST if begins else MIDDLE)
    return [first, *records[1:-1], replace(records[-1], trans_ind=LAST if ends else MIDDLE)]
