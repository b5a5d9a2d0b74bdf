"""Records that are no operations are passed over and leave transactions as they are."""

from __future__ import annotations

from typing import Any

import pytest

from trail.batches import operations_of
from trail.building import (
    ABEND,
    BIG,
    DDL_RECORD,
    INSERT,
    LITTLE,
    METADATA,
    RESTART_OK,
    SEQUENCE,
    cell,
    record,
    table_record,
    text,
)
from trailgate.errors import DecodeError
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.reading.reader import ReaderState, decode

TABLE = Table("S.T", (Column("ID", 64, 10, key=True),))
DEFINITIONS = Definitions((TABLE,))
KEY = cell(0, text("k"))
IDS = [(ord("L"), b"77"), (ord("6"), b"1.2.3")]
OTHER_IDS = [(ord("6"), b"9.9.9"), (ord("L"), b"99")]
BEGIN = record(INSERT, KEY, trans_ind=0, tokens=IDS)
MIDDLE, END = (record(INSERT, KEY, trans_ind=ind) for ind in (1, 2))
DDL = record(DDL_RECORD, b",C5='1',", name="", partition=0, node=0, tokens=OTHER_IDS)
RESTART = record(RESTART_OK, name="", partition=0, node=0, record_count=0)
DATABASE = record(METADATA, b"x" * 81, name="", partition=0, node=1, tokens=None, audit_rba=1 << 16)


def read(*records: bytes, **options: Any) -> list[dict[str, Any]]:
    body = b"".join(records)
    state = options.pop("state", ReaderState())
    whole = {"file_number": 1, "base_offset": 0, "finish": True} | options
    return operations_of(decode(body, DEFINITIONS, state=state, **whole).batch)


def shown(operations: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(op["tx_ind"], op["tx_id"], op["csn"]) for op in operations]


@pytest.mark.parametrize("note", [DDL, RESTART, DATABASE])
def test_a_note_of_its_own_leaves_the_transaction_around_it_alone(note: bytes) -> None:
    found = read(note, BEGIN, note, MIDDLE, note, note, END, note)

    assert shown(found) == [("B", "1.2.3", "77"), ("M", "1.2.3", "77"), ("E", "1.2.3", "77")]


def test_a_sequence_may_begin_and_end_a_transaction() -> None:
    begin = record(SEQUENCE, b"?", trans_ind=0, tokens=IDS)
    end = record(SEQUENCE, b"?", trans_ind=2)

    found = read(begin, MIDDLE, MIDDLE, end, BEGIN, END)

    assert [op["tx_ind"] for op in found] == ["B", "E", "B", "E"]
    assert [op["tx_id"] for op in found] == ["1.2.3"] * 4


def test_a_sequence_that_begins_a_transaction_waits_for_what_follows() -> None:
    begin = record(SEQUENCE, b"?", trans_ind=0, tokens=IDS)

    part = decode(begin, DEFINITIONS, file_number=1, base_offset=0)

    assert part.consumed == 0
    assert [op["tx_ind"] for op in read(begin, END)] == ["W"]


def test_an_abend_between_transactions_is_passed_over() -> None:
    abend = record(ABEND, name="", partition=0, node=0, record_count=0)

    assert len(read(BEGIN, END, abend, RESTART, BEGIN, END)) == 4
    for inside in ([BEGIN, abend, BEGIN, END], [BEGIN, DDL, abend, BEGIN, END]):
        with pytest.raises(DecodeError, match="a restart record inside a transaction"):
            read(*inside)


@pytest.mark.assumed
@pytest.mark.parametrize("order", [BIG, LITTLE])
def test_a_partition_index_stands_behind_the_table_index(order: Any) -> None:
    """trail format §5.1 and §5.4: partition bit 0x80, and a partition name record in front."""
    rba = order.number(order.raw(1, 2) + order.raw(4, 2))
    data = cell(0, text("k", order), order)
    records = [
        table_record(TABLE, 1, order),
        record(
            METADATA,
            name="P1",
            partition=0x80,
            node=4,
            tokens=None,
            audit_rba=rba,
            order=order,
            after_name=bytes(12),
        ),
        record(INSERT, data, partition=0x8C, table_index=1, partition_index=4, order=order),
    ]

    state = ReaderState(order=order)
    found = decode(
        b"".join(records), Definitions(()), file_number=1, base_offset=0, state=state, finish=True
    )

    assert operations_of(found.batch)[0]["after"] == {"ID": "k"}
    assert found.state.tables.partitions == {(1, 4): "P1"}


def test_the_anomaly_of_one_printed_header_is_read() -> None:
    """trail format §5: byte 28 above 3 and byte 24 at most 3 are AuditRBA and TransInd swapped."""
    swapped = record(INSERT, KEY, trans_ind=6, audit_rba=0, tokens=IDS)

    assert shown(read(swapped, END)) == [("B", "1.2.3", "77"), ("E", "1.2.3", "77")]
    with pytest.raises(DecodeError, match="indicator must be 0 to 3"):
        read(record(INSERT, KEY, trans_ind=6, audit_rba=4 << 24))


def test_a_record_of_2005_has_no_file_header_and_is_little_endian() -> None:
    data = cell(0, text("k", LITTLE), LITTLE)
    old = record(INSERT, data, order=LITTLE, info=0, audit_pos=0x028F18F8, audit_rba=16)

    assert read(old, state=ReaderState(order=LITTLE))[0]["after"] == {"ID": "k"}
