"""Trails to be damaged in tests: of both byte orders, with metadata, restarts, pieces and pairs, and closed headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sample_trail import DEFINITIONS, NOTES, START
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.format.tokens import ByteOrder, RecordToken
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.records.table_metadata import encode_table_definition

FIRST, MIDDLE, LAST, ONLY = range(4)


def value(order: ByteOrder, index: int, raw: bytes) -> bytes:
    """Return a column that is not null."""
    return order.raw(index, 2) + order.raw(len(raw) + 2, 2) + b"\0\0" + raw


def row(order: ByteOrder, key: int, text: str = "text") -> bytes:
    """Return the data of both columns of the sample's tables."""
    raw = text.encode()
    counted = order.raw(len(raw), 2) + raw
    return value(order, 0, key.to_bytes(8, "big")) + value(order, 1, counted)


def ids(number: int) -> tuple[RecordToken, ...]:
    """Return the tokens of a transaction's first record."""
    return (RecordToken(ord("L"), b"%d" % (1000 + number)), RecordToken(ord("6"), b"tx%d" % number))


def change(
    number: int, ind: int, *, order: ByteOrder = ByteOrder.BIG, table: str = "MY.ORDERS"
) -> TrailRecord:
    """Return an insert of transaction ``number``."""
    tokens = ids(number) if ind in (FIRST, ONLY) else ()
    data = row(order, number)
    time = START + number
    return TrailRecord(
        5, table, data, tokens, partition=4, trans_ind=ind, io_time=time, order=order
    )


def transaction(number: int, size: int, order: ByteOrder = ByteOrder.BIG) -> list[TrailRecord]:
    """Return the inserts of one transaction."""
    if size == 1:
        return [change(number, ONLY, order=order)]
    inds = [FIRST, *[MIDDLE] * (size - 2), LAST]
    return [change(number, ind, order=order) for ind in inds]


def update(number: int, order: ByteOrder = ByteOrder.BIG) -> list[TrailRecord]:
    """Return an update of two records, and a piece of a large object behind it."""
    before, after = change(number, FIRST, order=order), change(number, MIDDLE, order=order)
    words = b"".join(order.raw(word, 4) for word in (1, 1, 1, 0, 5))
    piece = replace(after, io_type=116, data=words + b"piece", trans_ind=LAST)
    return [
        replace(before, io_type=15, image=ord("B")),
        replace(after, io_type=15),
        piece,
    ]


def metadata(index: int, order: ByteOrder = ByteOrder.BIG, *, of: int | None = None) -> TrailRecord:
    """Return a definition of MY.NOTES as a table index, or a reference to an earlier one."""
    first, second = order.raw(1, 2), order.raw(index if of is None else of, 2)
    return TrailRecord(
        170,
        NOTES.name,
        encode_table_definition(NOTES, order) if of is None else None,
        node=2 if of is None else 3,
        audit_rba=order.number(first + second),
        order=order,
    )


def by_index(record: TrailRecord, index: int) -> TrailRecord:
    """Return a record that names its table by index."""
    return replace(record, name=None, table_index=index, partition=0x0C)


def restart(order: ByteOrder = ByteOrder.BIG, io_type: int = 150) -> TrailRecord:
    """Return a restart record."""
    return TrailRecord(io_type, "", node=0, record_count=0, order=order)


def sample(order: ByteOrder = ByteOrder.BIG) -> list[list[TrailRecord]]:
    """Return the records of three files: one transaction goes over a border, one is abandoned."""
    long = transaction(3, 5, order)
    return [
        [
            *transaction(0, 1, order),
            *update(1, order),
            *transaction(2, 3, order),
            *long[:3],
        ],
        [
            *long[3:],
            metadata(1, order),
            by_index(change(4, ONLY, order=order), 1),
            by_index(change(5, FIRST, order=order), 1),
            metadata(2, order, of=1),
            by_index(change(5, LAST, order=order), 2),
            *transaction(6, 4, order)[:2],
            restart(order),
            *transaction(6, 4, order),
            *transaction(7, 2, order),
        ],
        [*transaction(8, 1, order), *transaction(9, 3, order)],
    ]


def write_files(
    prefix: Path,
    files: Sequence[Sequence[TrailRecord]],
    *,
    headers: bool = True,
    closed: bool = True,
) -> list[Path]:
    """Write files with their headers, or without (level 0), and definitions; return their paths."""
    paths = []
    for number, records in enumerate(files):
        path = Path(f"{prefix}{number:09}")
        body = b"".join(encode_record(record) for record in records)
        order = records[0].order if records else ByteOrder.BIG
        head = _header(path, number, order, body if closed else None) if headers else b""
        path.write_bytes(head + body)
        paths.append(path)
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
    return paths


def _header(path: Path, number: int, order: ByteOrder, body: bytes | None) -> bytes:
    trail = TrailInfo(seqno=number, filename=str(path), file_size=0)
    header = FileHeader(trail, order=order)
    size = None if body is None else len(encode_header(header)) + len(body)
    return encode_header(replace(header, trail=replace(trail, file_size=size)))
