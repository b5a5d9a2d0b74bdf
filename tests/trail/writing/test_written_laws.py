"""What is written in any format is read again: every level, order, form of updates, size and token."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from oracles import trail_writing_naive as oracle
from trail.batches import COMPARED, batch_of
from trail.written_formats import (
    DEFINITIONS,
    Operations,
    all_runs,
    expected,
    formats,
    read_again,
    records_of,
    written,
)
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.record_types import ROLE_OF, RecordRole
from trailgate.trail.writing.trail_format import TrailFormat
from trailgate.trail.writing.writer import encode

MODEST = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@MODEST
@given(all_runs(), formats())
def test_what_is_written_in_any_format_is_read_again(ops: Operations, form: TrailFormat) -> None:
    data, _ = written(ops, form, DEFINITIONS)

    found = read_again(data, form, DEFINITIONS)

    names = (*COMPARED, "tokens")
    wanted = expected(ops, form, DEFINITIONS)
    assert [{n: op[n] for n in names} for op in found] == [
        {n: op[n] for n in names} for op in wanted
    ]


@MODEST
@given(all_runs(), formats())
def test_operations_begin_at_the_offsets_of_the_encoder(ops: Operations, form: TrailFormat) -> None:
    data, encoded = written(ops, form, DEFINITIONS)
    begin = len(data) - encoded.body.size

    positions = [op["position"] for op in read_again(data, form, DEFINITIONS)]

    assert positions == [f"{1:010d}{begin + start:010d}" for start in encoded.starts[:-1].tolist()]


@MODEST
@given(all_runs(), formats(), st.data())
def test_the_records_of_a_transaction_count_from_its_first_to_its_last(
    ops: Operations, form: TrailFormat, data: st.DataObject
) -> None:
    """TransInd is 0, 1 ... 1, 2 over all records of a transaction, or 3; Continued ends before others begin."""
    body, encoded = written(ops, form, DEFINITIONS)
    records = records_of(body, form.order)[len(DEFINITIONS) + 1 if form.by_index else 0 :]
    inside = continues = False

    for record in records:
        assert record.trans_ind in ((1, 2) if inside else (0, 3))
        inside = record.trans_ind < 2
        assert not continues or ROLE_OF[record.io_type] in (
            RecordRole.FRAGMENT,
            RecordRole.LARGE_OBJECT,
        )
        continues = bool(record.continued)
        assert (record.name is None) == form.by_index
    assert not inside
    assert not continues
    assert sum(record.length for record in records) == encoded.body.size


@MODEST
@given(all_runs(), formats())
def test_columns_write_in_any_format_what_the_oracle_writes(
    ops: Operations, form: TrailFormat
) -> None:
    _, encoded = written(ops, form, DEFINITIONS)
    naive = oracle.Form(form.order.value, form.by_index, form.updates.value)

    wanted = [oracle.write_operation(op, DEFINITIONS, naive) for op in ops]

    body = encoded.body.to_pybytes()
    assert [body[a:b] for a, b in pairwise(encoded.starts.tolist())] == wanted


LAST = {
    "varying": (Column("LAST", 64, 40), "text of {} bytes"),
    "padded": (Column("LAST", 0, 33), "{}"),
    "a time": (Column("LAST", 192, 26), "2026-01-02 03:04:05.{:06}"),
}


@pytest.mark.parametrize("kind", LAST)
def test_a_value_at_the_end_of_a_record_leaves_its_neighbours_as_they_are(kind: str) -> None:
    """Copies in words write over what comes after a value: only where that is written later."""
    last, text = LAST[kind]
    columns = (Column("ID", 134, 8, key=True), Column("NAME", 64, 50), last)
    tables = Definitions((Table("S.T", columns),))
    common = {"table": "S.T", "op_type": "I", "op_ts": 5, "tx_id": "7", "csn": "9", "before": {}}
    ops = [
        common
        | {"tx_ind": "B" if number == 0 else "E" if number == 99 else "M"}
        | {"after": {"ID": number, "NAME": "n" * (number % 40), "LAST": text.format(number)}}
        for number in range(100)
    ]

    encoded = encode(batch_of(tables, ops))

    wanted = [oracle.write_operation(op, tables, oracle.Form(">", False, "separate")) for op in ops]
    assert encoded.body.to_pybytes() == b"".join(wanted)
