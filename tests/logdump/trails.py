"""Small trails for Logdump's tests, one function each: bytes of a whole file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from trailgate.model.tables import Column, Table
from trailgate.trail.format.file_header import FileHeader, ProducerInfo, TrailInfo, encode_header
from trailgate.trail.format.tokens import LOGCSN, ORAROWID, TRANID, ByteOrder, RecordToken
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.records.table_metadata import encode_table_definition

START: Final = 1_767_225_600_000_000  # 2026-01-01 UTC
B, A = ord("B"), ord("A")
BEGIN, MIDDLE, END, WHOLE = range(4)


def columns(*values: tuple[int, bytes], order: ByteOrder = ByteOrder.BIG) -> bytes:
    """Return a list of columns: index, length, bytes."""
    return b"".join(order.raw(i, 2) + order.raw(len(v), 2) + v for i, v in values)


def text(value: str, order: ByteOrder = ByteOrder.BIG) -> bytes:
    return b"\0\0" + order.raw(len(value), 2) + value.encode()


def number(value: int) -> bytes:
    return b"\0\0" + value.to_bytes(8, "big", signed=True)


def ids(csn: str, transaction: str, *more: RecordToken) -> tuple[RecordToken, ...]:
    return (*more, RecordToken(LOGCSN, csn.encode()), RecordToken(TRANID, transaction.encode()))


def dml(io_type: int, data: bytes, second: int, **values: Any) -> TrailRecord:
    given = {"name": "MY.ORDERS", "partition": 4, "tokens": (), "audit_rba": 86, **values}
    return TrailRecord(io_type, data=data, io_time=START + second * 1_000_000, **given)


def order_records() -> list[TrailRecord]:
    """Return one record or two of each kind that Logdump shows in its own way."""
    rowid = RecordToken(ORAROWID, b"AAASf9AAEAAAAINAAA\x00\x01")
    row = columns((0, number(1)), (1, text("two cups")))
    key = columns((0, number(1)))
    new_key = columns((0, number(2)))
    piece = b"".join(n.to_bytes(4, "big") for n in (2, 2, 1, 0, 5)) + b"large"
    ddl = b",C5='1',,B5='TABLE',,B6='CREATE',,C1='create table t (id int)'"
    return [
        TrailRecord(151, node=0, record_count=0, io_time=START),
        dml(
            5, row, 1, trans_ind=BEGIN, tokens=ids("100", "1.2.3", rowid), user=b"TKN-HOST\0syshq\0"
        ),
        dml(15, columns((0, number(1)), (1, text("cups"))), 2, trans_ind=MIDDLE, image=B),
        dml(15, columns((0, number(1)), (1, b"\xff\xff\0\0")), 2, trans_ind=MIDDLE),
        dml(5, columns((0, number(9))), 3, trans_ind=END, name="MY.NOTES"),
        dml(115, len(key).to_bytes(2, "big") + key + new_key, 60, tokens=ids("200", "1.2.4")),
        dml(134, len(key).to_bytes(4, "big") + key + new_key, 120, tokens=ids("201", "1.2.5")),
        dml(3, new_key, 180, image=B, tokens=ids("202", "1.2.6")),
        dml(5, columns((0, number(3))), 240, trans_ind=BEGIN, tokens=ids("300", "1.2.7")),
        dml(116, piece, 240, trans_ind=END, continued=1, record_count=2),
        TrailRecord(
            100,
            name="MY.NOTES",
            partition=4,
            io_time=START + 300_000_000,
            tokens=ids("301", "1.2.8"),
        ),
        TrailRecord(160, data=ddl, node=0, io_time=START + 360_000_000, tokens=ids("302", "1.2.9")),
        TrailRecord(99, data=b"not public", name="MY.ORDERS", io_time=START + 420_000_000),
    ]


def orders() -> bytes:
    return encode_header(FileHeader(trail=TrailInfo(creation_time=START))) + joined(order_records())


def level_0() -> bytes:
    """Return a file from before release 10: no header."""
    return joined(order_records())


def damaged() -> bytes:
    """Return records, bytes that are none, and records again."""
    records = [encode_record(record) for record in order_records()]
    header = encode_header(FileHeader(trail=TrailInfo(creation_time=START)))
    return header + b"".join(records[:5]) + b"\x00damage G\x47\x01" + b"".join(records[5:])


def zeros() -> bytes:
    """Return records of which one has zeros in place of its columns, and sound lengths."""
    records = order_records()
    records[4] = dml(5, bytes(18), 3, trans_ind=END, name="MY.NOTES")
    return encode_header(FileHeader(trail=TrailInfo(creation_time=START))) + joined(records[:6])


LITTLE: Final = ByteOrder.LITTLE
T1: Final = Table("TKGGU1.T1", (Column("ID", 64, 10, key=True), Column("KIND", 64, 10, 16)), 32)


def little(io_type: int, **values: Any) -> TrailRecord:
    return TrailRecord(io_type, order=LITTLE, **values)


def partitioned() -> bytes:
    """Return a little-endian trail with the two records that Oracle's appendix on trails prints.

    They stand at the RBAs printed there: 3425 and 3486.
    """
    one = LITTLE.number(b"\x01\x00\x01\x00")
    definition = little(
        170,
        name="TKGGU1.T1",
        node=2,
        data=encode_table_definition(T1, LITTLE),
        audit_rba=one,
        io_time=PNR_TIME,
    )
    partition = little(
        170,
        name="P1",
        after_name=LITTLE.raw(75234, 8) + LITTLE.raw(1, 4),
        partition=0x80,
        node=4,
        audit_rba=LITTLE.number(b"\x01\x00\x02\x00"),
        audit_pos=13287580,
        io_time=PNR_TIME,
    )
    row = columns((0, text("1", LITTLE)), (1, text("1", LITTLE)), order=LITTLE)
    insert = little(
        5,
        name=None,
        table_index=1,
        partition_index=2,
        partition=0x8C,
        data=row,
        trans_ind=BEGIN,
        audit_rba=15,
        audit_pos=13287580,
        io_time=INSERT_TIME,
        tokens=ids("1145074", "3.11.848"),
    )
    front = encode_record(definition)
    missing = 3425 - len(front) - len(encode_header(FileHeader(trail=TrailInfo(uri=""))))
    header = encode_header(FileHeader(trail=TrailInfo(uri="u" * missing)))
    return header + front + encode_record(partition) + encode_record(insert)


PNR_TIME: Final = 1_547_743_681_129_045  # 2019-01-17 16:48:01.129045
INSERT_TIME: Final = 1_547_743_678_000_000


def mysql() -> bytes:
    """Return the record of trail format §15.1, whose Logdump form is public, after its definition."""
    table = Table(
        "test.ogg_test",
        (Column("c1", 132, 11, key=True, native_type=3), Column("c2", 64, 120, 7, native_type=253)),
        132,
    )
    definition = little(
        170,
        name=table.name,
        node=2,
        data=encode_table_definition(table, LITTLE),
        audit_rba=LITTLE.number(b"\x01\x00\x01\x00"),
        audit_pos=7,
        io_time=1_672_034_625_978_221,
    )
    insert = bytes.fromhex(
        "4701A200 48002400 450C0041180005FF 00A08D5AE816F302 0700000000000000 EA2E0000"
        "035200000001 0100 44001800 00000600 0000 00000001 01000A00 0000 0600 696E73657274"
        "54005200 4C002500"
        + b"000000000000000000007:000000000012041".hex()
        + "36002500"
        + b"000000000000000000007:000000000011887".hex()
        + "5A01A200"
    )
    return encode_header(FileHeader()) + encode_record(definition) + insert


def release_21() -> bytes:
    """Return a reference to a table's definition, an insert and a key update, in a trail of release 21.3."""
    producer = ProducerInfo(major_version=21, minor_version=3)
    header = FileHeader(TrailInfo(creation_time=START), producer=producer)
    table = Table("test.test_c", (Column("c1", 132, 11, key=True, native_type=3),), 11)
    one = LITTLE.number(b"\x01\x00\x01\x00")
    own: dict[str, Any] = {"partition": 0x0C, "name": None, "table_index": 2, "io_time": START}
    key, changed = (columns((0, b"\0\0" + bytes((0, 0, 0, n))), order=LITTLE) for n in (10, 9))
    records = [
        little(
            170, name=table.name, node=2, data=encode_table_definition(table, LITTLE), audit_rba=one
        ),
        little(170, name="test.test_d", node=3, audit_rba=one, io_time=START),
        little(5, data=key, **own),
        little(115, data=LITTLE.raw(len(key), 2) + key + changed, **own),
    ]
    return encode_header(header) + joined(records)


def interrupted() -> bytes:
    """Return a transaction with metadata and DDL inside, in a trail that is little-endian throughout."""
    key = columns((0, number(1)), order=LITTLE)
    own = {"name": "MY.ORDERS", "partition": 4, "data": key}
    one = LITTLE.number(b"\x01\x00\x01\x00")
    records = [
        little(5, trans_ind=BEGIN, io_time=START, tokens=ids("100", "t1"), **own),
        little(170, name="MY.NEW", node=2, data=b"not public", audit_rba=one, io_time=START),
        little(15, trans_ind=MIDDLE, io_time=START, **own),
        little(160, node=0, data=b",C1='create'", io_time=START, tokens=ids("90", "d1")),
        little(3, trans_ind=END, image=B, io_time=START, **own),
        little(5, trans_ind=MIDDLE, io_time=START, tokens=ids("666", "orphan"), **own),
        little(5, trans_ind=WHOLE, io_time=START, tokens=ids("101", "t2"), **own),
    ]
    return encode_header(FileHeader(order=LITTLE)) + joined(records)


def joined(records: list[TrailRecord]) -> bytes:
    return b"".join(encode_record(record) for record in records)


TRAILS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "orders": orders,
        "level-0": level_0,
        "damaged": damaged,
        "zeros": zeros,
        "partitioned": partitioned,
        "mysql": mysql,
        "release-21": release_21,
        "interrupted": interrupted,
    }
)
