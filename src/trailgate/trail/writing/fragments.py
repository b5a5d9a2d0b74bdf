"""Records that are too long: their data are cut into fragments. They are rare, so they are written one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.views import octets
from trailgate.errors import EncodeError, Where
from trailgate.trail.format.record_types import (
    IO_FRAGMENT,
    IO_KEY_UPDATE,
    IO_LONG_KEY_UPDATE,
    Prefix,
)
from trailgate.trail.format.tokens import FRAME, GGS_TOKENS, MAX_LENGTH, USER_TOKENS
from trailgate.trail.records.record import Token, TrailRecord, encode_record
from trailgate.trail.writing.record_groups import (
    MIDDLE,
    RecordGroup,
    without_begin,
    without_end,
)
from trailgate.trail.writing.record_writer import (
    AUDIT_POS,
    AUDIT_RBA,
    ImageWriter,
    before_writer,
    image_writer,
)
from trailgate.trail.writing.token_areas import TokenAreas

STEP: Final = 64  # rows whose data are joined at once
YES: Final = 1


class FragmentWriter:
    """Writes a group's records with the fragments that follow each; ``sizes`` are their bytes."""

    def __init__(self, group: RecordGroup) -> None:
        self.records: list[bytes] = []
        for start in range(0, len(group.rows), STEP):
            part = group.take(np.arange(start, min(start + STEP, len(group.rows))))
            self.records += _records(part)
        self.sizes = np.array([len(record) for record in self.records], np.int64)

    def write(self, body: Octets, places: Longs) -> None:
        """Write the records; each place becomes the end of the last fragment."""
        for place, record in zip(places.tolist(), self.records, strict=True):
            body[place : place + len(record)] = octets(record)
        places += self.sizes


def _records(group: RecordGroup) -> Iterator[bytes]:
    """Yield each record and its fragments."""
    before, image, tokens = before_writer(group), image_writer(group), TokenAreas(group)
    befores = [None] * len(group.rows) if before is None else _written(before)
    areas = zip(_written(tokens), tokens.ggs_sizes.tolist(), strict=True)
    for record, (first, last, (area, ggs_size)) in enumerate(
        zip(befores, _written(image), areas, strict=True)
    ):
        whole = _whole(group, record, first, last)
        user_at = FRAME + ggs_size if ggs_size else 0
        others = [Token(GGS_TOKENS, area[FRAME:user_at])] if ggs_size else []
        others += [Token(USER_TOKENS, area[user_at + FRAME :])] if area[user_at:] else []
        cut = [*_cut(replace(whole, others=tuple(others)))]
        yield b"".join(map(encode_record, _bounded(cut, group.trans_ind[record : record + 1])))


def _written(part: ImageWriter | TokenAreas) -> list[bytes]:
    """Return what is written of each record."""
    ends = np.cumsum(part.sizes)
    body, places = np.zeros(int(ends[-1]) + SPARE, np.uint8), ends - part.sizes
    part.write(body, places.copy())
    return [body[start:end].tobytes() for start, end in zip(places, ends, strict=True)]


def _whole(group: RecordGroup, record: int, before: bytes | None, image: bytes) -> TrailRecord:
    """Return a record without tokens, as long as it is."""
    reference, io_type = group.reference, int(group.io_type[record])
    if before is not None:
        width = Prefix.SHORT if len(before) <= MAX_LENGTH else Prefix.LONG
        image = reference.order.raw(len(before), width) + before + image
        if io_type == IO_KEY_UPDATE and width is Prefix.LONG:
            io_type = IO_LONG_KEY_UPDATE
    return TrailRecord(
        io_type,
        name=reference.table if reference.index is None else None,
        table_index=reference.index,
        data=image or None,
        partition=group.partition,
        image=group.image_letter,
        io_time=int(group.block.op_ts[group.rows[record]]),
        audit_pos=AUDIT_POS,
        audit_rba=AUDIT_RBA,
        trans_ind=MIDDLE,
        order=reference.order,
    )


def _cut(record: TrailRecord) -> Iterator[TrailRecord]:
    """Yield a record, or the beginning of one that is too long and the fragments that follow it.

    Assumed (trail format §11): a fragment's data are what comes next of the row's, Continued is Y in all but the last.
    """
    data = record.data or b""
    bare = _room(replace(record, data=None))
    if bare <= 0:
        problem = "the tokens of a record leave no room for its data"
        raise EncodeError(problem, where=Where(table=record.name))
    more = replace(record, io_type=IO_FRAGMENT, data=None, others=())
    room, place = bare, 0
    while place + room < len(data):
        yield replace(record, data=data[place : place + room], continued=YES)
        place, room, record = place + room, _room(more), more
    yield replace(record, data=data[place:] or None)


def _room(record: TrailRecord) -> int:
    """Return how many bytes of data fit into a record that has none so far."""
    return MAX_LENGTH - len(encode_record(record)) - FRAME


def _bounded(records: list[TrailRecord], trans_ind: Octets) -> list[TrailRecord]:
    """Return an operation's records, all middle ones so far, with the place of each in the transaction."""
    if len(records) == 1:
        return [replace(records[0], trans_ind=int(trans_ind[0]))]
    first = replace(records[0], trans_ind=int(without_end(trans_ind)[0]))
    last = replace(records[-1], trans_ind=int(without_begin(trans_ind)[0]))
    return [first, *records[1:-1], last]
