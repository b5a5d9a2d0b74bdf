"""Assumptions about trails that no printed bytes show as a whole; each is a row of ``reference/assumptions.toml``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from damaged_trails import change, row
from sample_trail import DEFINITIONS
from trail.batches import operations_of
from trail.format.test_trail_header import case_bytes
from trailgate.trail.format.file_header import FileHeader, decode_header, encode_header
from trailgate.trail.format.record_header import format_redo_address
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.records.framing import find_records, wrap_trail_bytes
from trailgate.trail.records.record import TrailRecord, decode_record, encode_record
from trailgate.trail.records.record_view import view_records

pytestmark = pytest.mark.assumed
TRANS_INDS = "BMEW"


def operation(record: TrailRecord) -> dict[str, object]:
    """Return the operation of a record."""
    data = encode_record(record)
    found = decode(
        data,
        DEFINITIONS,
        file_number=0,
        base_offset=0,
        state=ReaderState(order=record.order),
        finish=True,
    )
    (one,) = operations_of(found.batch)
    return one


def test_the_character_set_of_all_dumps_is_ours_and_is_utf_8() -> None:
    printed, _ = decode_header(case_bytes())
    ours, _ = decode_header(encode_header(FileHeader()))

    assert printed.trail.charset == ours.trail.charset == ours.database.charset == 0x20000000
    text = "\u00e4\u20ac\U0001f600"
    data = row(ByteOrder.BIG, 1, text)
    assert operation(replace(change(1, 3), data=data))["after"] == {"ID": 1, "NAME": text}


def test_data_source_and_recovery_mode_are_those_of_the_printed_header() -> None:
    """The printed header is of log-based capture in append mode: 3 and 1."""
    printed, _ = decode_header(case_bytes())
    ours, _ = decode_header(encode_header(FileHeader()))

    assert printed.producer.data_source == ours.producer.data_source == 3
    assert printed.continuity.recovery_mode == ours.continuity.recovery_mode == 1


@pytest.mark.parametrize("order", ByteOrder)
@pytest.mark.parametrize("ind", range(4))
def test_a_trans_ind_above_3_is_found_four_bytes_earlier(order: ByteOrder, ind: int) -> None:
    """trail format §5: a printed record has TransInd at byte 24 and a u32, 6, at 25 to 28."""
    moved = bytes((ind,)) + (6).to_bytes(4, "big")
    record = replace(
        change(1, 3, order=order), audit_rba=order.number(moved[:4]), trans_ind=moved[4]
    )

    assert operation(record)["tx_ind"] == TRANS_INDS[ind]


@pytest.mark.assumed
@pytest.mark.parametrize("order", ByteOrder)
def test_the_printed_sequence_number_is_audit_rba_everywhere(order: ByteOrder) -> None:
    """The record printed by S1 has 6, the sequence of the redo log, after TransInd."""
    moved = (6).to_bytes(5, "big")
    raw = encode_record(
        replace(change(1, 3, order=order), audit_rba=order.number(moved[:4]), trans_ind=moved[4])
    )
    source = wrap_trail_bytes(raw, 0, order)
    view = view_records(source, find_records(source.data, order=order))

    record = decode_record(raw, order=order)
    head = view.headers(source.data, order)[0]

    assert (record.trans_ind, record.audit_rba, record.moved) == (0, 6, True)
    assert (head["trans_ind"], head["audit_rba"], view.indicator[0]) == (0, 6, 0)
    assert encode_record(record) == raw


def test_a_place_in_the_redo_log_is_spelled_as_printed() -> None:
    assert format_redo_address(6, 11_498_044) == "0x000006.000057b9.003c"
