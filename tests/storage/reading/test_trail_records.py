"""The record level: every record with everything that stands in it, whatever it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from raw_trail import BIG, LITTLE, abend, definition, inserts, restart_ok, write_files
from trail.building import record
from trailgate.arrays import octets
from trailgate.errors import OptionError
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.options import ReadOptions
from trailgate.storage.reading.splits import plan_splits
from trailgate.storage.reading.trails import read_split, read_trail
from trailgate.trail.annotation.trail_file import explain_trail
from trailgate.trail.findings import KINDS as KINDS_OF_FINDINGS
from trailgate.trail.format.file_header import (
    ORACLE,
    DatabaseInfo,
    FileHeader,
    TrailInfo,
    encode_header,
)
from trailgate.trail.format.record_types import RECORD_TYPES, RecordRole
from trailgate.trail.format.tokens import ByteOrder, RecordToken
from trailgate.trail.reading.record_table import RECORDS_SCHEMA
from trailgate.trail.records.record import TrailRecord, decode_record, encode_record

DDL = b",C5='7',,B3='test',,B4='t',,B5='TABLE',,B6='CREATE',,C1='create table t (a int)'"
KINDS = [
    *inserts([1, 2]),
    abend(),
    restart_ok(),
    record(160, DDL, name="", partition=0),
    record(132, b"\x01\x02", trans_ind=1),
    record(77, b"unheard of", name="X.Y", partition=0),
    encode_record(
        TrailRecord(5, "A.B", b"", user=b"NAME\0value\0", others=(RecordToken(0x70, b"?"),))
    ),
    record(3, b"\0\0\0\4\0\0\0\0", image=0x42, audit_pos=2**64 - 1, audit_rba=2**32 - 1),
]


STATEMENTS = {kind.statement for kind in KINDS_OF_FINDINGS.values()}


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("level", [3, None])
def test_every_record_is_a_row_with_all_of_it(tmp_path: Path, level: int | None) -> None:
    prefix = write_files(tmp_path / "ot", [KINDS], level=level)

    batches = list(read_trail(prefix, records="all"))

    assert batches[0].schema == RECORDS_SCHEMA
    found = rows(batches)
    assert [row["io_type"] for row in found] == [5, 5, 150, 151, 160, 132, 77, 5, 3]
    assert found[0]["type_name"] == "Insert"
    assert found[6]["type_name"] == "unknown"
    assert found[6]["data"] == b"unheard of"
    assert found[0]["table"] == "MY.ORDERS"
    assert dict(found[0]["tokens"]) == {"LOGCSN": "1001", "TRANID": "tx1"}
    assert dict(found[4]["ddl"])["statement"] == "create table t (a int)"
    assert dict(found[7]["user_tokens"]) == {"NAME": "value"}
    assert int(found[8]["audit_pos"]) == 2**64 - 1
    assert found[8]["audit_rba"] == 2**32 - 1
    assert [row["image"] for row in found] == [*"AAAAAAAA", "B"]
    extra = "the record has a part with an unknown id, or the same part twice"
    assert [row["problem"] for row in found] == [*[None] * 7, extra, None]


def test_table_indexes_are_named_by_the_metadata_in_front(tmp_path: Path) -> None:
    later = [*inserts([3], index=2), definition(2), *inserts([4], index=2)]
    prefix = write_files(tmp_path / "ot", [[definition(), *inserts([1], index=1), *later]], level=5)

    found = rows(read_trail(prefix, records="all"))

    assert [row["table"] for row in found if row["io_type"] == 5] == [
        "MY.ORDERS",
        "MY.ORDERS",
        "MY.ORDERS",
    ]
    assert [row["table_index"] for row in found] == [None, 1, 2, None, 2]


def test_damage_inside_a_record_is_shown_in_its_row(tmp_path: Path) -> None:
    good = inserts([1])[0]
    no_header = bytearray(good)
    no_header[8] = 0x46
    over = bytearray(good)
    over[6:8] = b"\x7f\xff"
    short = bytes.fromhex("47 01 00 10 48 00 00 04 45 00 00 41 5A 01 00 10")
    bad_token = record(5, b"\0\0\0\4\0\0\0\0", tokens=((0x4C, b"\xff\xfe"),))
    prefix = write_files(tmp_path / "ot", [[good, bytes(no_header), bytes(over), short, bad_token]])

    found = rows(read_trail(prefix, records="all"))

    problems = [row["problem"] for row in found]
    assert problems[0] is None
    assert "does not begin with its header" in problems[1]
    assert "length does not fit" in problems[2]
    assert "too short" in problems[3]
    assert "an id is not text" in problems[4]
    assert dict(found[4]["tokens"]) == {"LOGCSN": "fffe"}


def test_damage_is_told_in_the_words_of_the_check(tmp_path: Path) -> None:
    # A row of zeros in place of two columns, in a record whose lengths are right.
    sound = record(5, b"\0\0\0\5\0\0\0\1A\0\1\0\5\0\0\0\1B")
    zeros = record(5, bytes(18))
    prefix = write_files(tmp_path / "ot", [[sound, zeros, sound]])

    found = rows(read_trail(prefix, records="all"))

    columns = "the columns do not fill the data, or one is too short"
    assert [row["problem"] for row in found] == [None, columns, None]
    kinds = {finding.kind for finding in check_trail(str(prefix)).findings}
    assert columns in {KINDS_OF_FINDINGS[kind].statement for kind in kinds}


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 60, 200, 1000])
def test_splits_hold_every_record_once(tmp_path: Path, size: int) -> None:
    trail = find_trail(write_files(tmp_path / "ot", [KINDS, [], KINDS]))
    options = ReadOptions.of({"records": "all"})

    parts = [
        row for split in plan_splits(trail, size) for row in rows(read_split(trail, split, options))
    ]

    assert parts == rows(read_trail(trail, records="all"))
    assert len(parts) == 2 * len(KINDS)


def test_records_are_chosen_by_table_and_position(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [KINDS])
    everything = rows(read_trail(prefix, records="all"))
    third = everything[2]["position"]

    chosen = rows(read_trail(prefix, records="all", tables="x.?,A.*"))
    behind = rows(read_trail(prefix, records="all", after=third))

    assert [row["table"] for row in chosen] == ["X.Y", "A.B"]
    assert behind == everything[3:]


def test_options_of_operations_are_refused_for_records(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [KINDS])

    with pytest.raises(OptionError, match="a range of CSNs applies to operations"):
        list(read_trail(prefix, records="all", to_csn="5"))


@pytest.mark.parametrize(("vendor", "shown"), [(ORACLE, "0x000006.000057b9.003c"), (6, None)])
def test_a_change_of_oracle_has_a_place_in_the_redo_log(
    tmp_path: Path, vendor: int, shown: str | None
) -> None:
    header = FileHeader(TrailInfo(), database=DatabaseInfo(vendor=vendor))
    change = record(5, name="A.B", audit_pos=11_498_044, audit_rba=6)
    path = tmp_path / "ot000000000"
    path.write_bytes(encode_header(header) + change + abend())

    found = rows(read_trail(path, records="all"))
    raw = path.read_bytes()
    analyzed = str(list(explain_trail(lambda at, size: octets(raw[at : at + size]), len(raw))))

    assert [row["redo_address"] for row in found] == [shown, None]
    assert ("AuditPos: 11498044, redo log 0x000006.000057b9.003c" in analyzed) == (vendor == ORACLE)


made = st.builds(
    TrailRecord,
    io_type=st.integers(0, 255),
    name=st.text("ABC.é", max_size=8),
    data=st.none() | st.binary(min_size=1, max_size=20),
    tokens=st.none()
    | st.lists(
        st.builds(
            RecordToken, st.sampled_from(b"L6Rtx"), st.text("019", max_size=4).map(str.encode)
        ),
        max_size=3,
    ).map(tuple),
    partition=st.sampled_from([0, 4, 0x40]),
    undo=st.integers(0, 255),
    node=st.integers(0, 255),
    io_time=st.integers(-(2**40), 2**40),
    audit_pos=st.integers(0, 2**64 - 1),
    audit_rba=st.integers(0, 2**32 - 1),
    trans_ind=st.integers(0, 3),
    continued=st.integers(0, 255),
    order=st.just(BIG),
)


def contradicts(record: TrailRecord) -> bool:
    """Return whether a record's partition byte says otherwise than its type whether it has columns."""
    kind = RECORD_TYPES.get(record.io_type)
    return kind is not None and kind.role >= RecordRole.METADATA and record.partition & 4 != 0


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(made, min_size=1, max_size=8), order=st.sampled_from(list(ByteOrder)))
def test_rows_agree_with_records_read_one_by_one(
    tmp_path: Path, records: list[TrailRecord], order: ByteOrder
) -> None:
    raw = [encode_record(replace(one, order=order)) for one in records]
    found = rows(read_trail(write_files(tmp_path / "ot", [raw], level=None), records="all"))

    for row, one in zip(found, raw, strict=True):
        record = decode_record(one, order=order)
        assert row["table"] == record.name
        assert row["data"] == record.data
        for name in ("io_type", "undo", "node", "audit_rba", "trans_ind", "continued", "length"):
            assert row[name] == getattr(record, name)
        assert int(row["audit_pos"]) == record.audit_pos
        # Damage of the data, which are random here, has the words of the check.
        is_told = row["problem"] is not None and row["problem"] not in STATEMENTS
        assert is_told == contradicts(record)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 400), value=st.integers(0, 255), order=st.sampled_from([BIG, LITTLE]))
def test_no_byte_inside_a_record_makes_it_refused(
    tmp_path: Path, place: int, value: int, order: ByteOrder
) -> None:
    records = [*inserts([1, 2], order=order), abend(order), definition(1, order)]
    raw = bytearray(b"".join(records))
    place %= len(raw)
    starts = [sum(map(len, records[:i])) for i in range(len(records) + 1)]
    frames = {start + i for start in starts for i in (-4, -3, -2, -1, 0, 1, 2, 3)}
    if place not in frames:
        raw[place] = value
    prefix = write_files(tmp_path / "ot", [[bytes(raw)]])

    assert len(rows(read_trail(prefix, records="all"))) == len(records)
