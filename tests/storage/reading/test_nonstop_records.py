"""Records as NonStop systems write them: backouts, system keys, full images, compressed Enscribe images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trail.building import BIG, LITTLE, cell, record, split, text
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import DecodeError
from trailgate.jobs.trail_check import check_trail
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.findings import Severity
from trailgate.trail.format.tokens import ByteOrder

FIXED = Table(
    "NS.FIXED",
    (
        Column("NAME", 0, 10, nullable=False, key=True),
        Column("AGE", 132, 4, nullable=False),
        Column("AT", 192, 19, nullable=False),
    ),
)
VARYING = Table("S.T", (Column("ID", 64, 10, key=True), Column("V", 64, 10)))
DEFINITIONS = Definitions((FIXED, VARYING))
ROW = b"ALICE     " + (42).to_bytes(4, "big") + b"2024-01-02:03:04:05"
SHOWN = {"NAME": "ALICE", "AGE": "42", "AT": "2024-01-02 03:04:05"}


def read(
    folder: Path, *records: bytes, tables: Definitions | None = DEFINITIONS, **options: Any
) -> list[dict[str, Any]]:
    (folder / "ot000000000").write_bytes(b"".join(records))
    if tables is not None:
        (folder / "ot.def").write_bytes(write_sourcedefs(tables))
    rows = read_trail(folder / "ot", **options).read_all().to_pylist()
    maps = ("before", "after", "tokens")
    return [row | {name: dict(row[name] or ()) for name in maps} for row in rows]


def whole(folder: Path) -> bool:
    return all(check_trail(str(folder / "ot"), values=values).whole for values in (False, True))


def errors(folder: Path) -> list[str]:
    findings = check_trail(str(folder / "ot")).findings
    return [one.kind for one in findings if one.severity is Severity.ERROR]


KEYED = cell(0, text("k")) + cell(1, text("v"))


def test_a_system_key_is_not_part_of_the_columns(tmp_path: Path) -> None:
    for size in (4, 8):
        key = bytes(size - 1) + b"\x07"
        (found,) = read(tmp_path, record(5, key + KEYED, syskey_length=size))

        assert found["after"] == {"ID": "k", "V": "v"}
        assert found["tokens"]["SYSKEY"] == key.hex()
        assert whole(tmp_path)


def test_system_keys_are_read_wherever_in_a_file_they_are(tmp_path: Path) -> None:
    sizes = [4 if number % 3 else 8 for number in range(300)]
    keys = [number.to_bytes(size, "big") for number, size in enumerate(sizes)]
    records = [
        record(5, key + cell(0, text("k" * (number % 7 + 1))), syskey_length=len(key))
        for number, key in enumerate(keys)
    ]

    found = read(tmp_path, *records)

    assert [row["tokens"]["SYSKEY"] for row in found] == [key.hex().upper() for key in keys]
    assert [row["after"]["ID"] for row in found] == ["k" * (n % 7 + 1) for n in range(300)]
    assert whole(tmp_path)


def test_system_keys_of_all_records_are_tokens_wherever_they_begin(tmp_path: Path) -> None:
    for filling in range(8):  # keys begin at every remainder of 256 among some records
        first = record(5, KEYED + cell(2, text("f" * filling)), syskey_length=0)
        keyed = [
            record(
                5,
                bytes(7) + bytes((row,)) + KEYED,
                syskey_length=8,
                name=f"S.{'T' * (row % 7 + 1)}",
            )
            for row in range(60)
        ]
        found = read(tmp_path, first, *keyed, tables=None)

        expected = [(bytes(7) + bytes((row,))).hex().upper() for row in range(60)]
        assert [row["tokens"].get("SYSKEY") for row in found] == [None, *expected]
        assert whole(tmp_path)


def test_a_system_key_has_four_or_eight_bytes(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="a system key must have 4 or 8 bytes of the data"):
        read(tmp_path, record(5, KEYED, syskey_length=3))
    assert errors(tmp_path) == ["system key"]


def test_a_backout_is_marked_and_can_be_excluded(tmp_path: Path) -> None:
    records = (
        record(5, KEYED, trans_ind=0),
        record(3, KEYED, image=ord("B"), trans_ind=1, undo=1),
        record(5, KEYED, trans_ind=2),
    )

    shown = read(tmp_path, *records)
    excluded = read(tmp_path, *records, undo="exclude")

    assert [row["tokens"].get("UNDOFLAG") for row in shown] == [None, "1", None]
    assert [row["op_type"] for row in shown] == ["I", "D", "I"]
    assert [(row["op_type"], row["tx_ind"]) for row in excluded] == [("I", "B"), ("I", "E")]
    assert whole(tmp_path)


def test_a_transaction_that_begins_with_an_excluded_backout_still_begins(tmp_path: Path) -> None:
    records = (record(5, KEYED, trans_ind=0, undo=1), record(5, KEYED, trans_ind=2))

    (row,) = read(tmp_path, *records, undo="exclude")

    assert row["tx_ind"] == "W"


@pytest.mark.assumed
@pytest.mark.parametrize("order", [BIG, LITTLE])
def test_a_full_image_of_fixed_columns_is_read(tmp_path: Path, order: ByteOrder) -> None:
    own: dict[str, Any] = {"name": FIXED.name, "partition": 0, "order": order}
    found = read(
        tmp_path,
        record(5, ROW, **own),
        record(10, ROW, **own),
        record(3, ROW, image=ord("B"), **own),
        record(5, KEYED if order is BIG else None, name="S.T", order=order),
    )

    assert [row["op_type"] for row in found] == ["I", "U", "D", "I"]
    assert [row["after"] for row in found[:3]] == [SHOWN, SHOWN, {}]
    assert found[2]["before"] == SHOWN
    assert whole(tmp_path)


@pytest.mark.assumed
def test_a_compressed_enscribe_image_is_read_by_offset(tmp_path: Path) -> None:
    data = cell(0, b"ALICE     ") + cell(10, (43).to_bytes(4, "big"))

    (found,) = read(tmp_path, record(11, data, name=FIXED.name, partition=0))

    assert found["op_type"] == "U"
    assert found["after"] == {"NAME": "ALICE", "AGE": "43"}
    assert whole(tmp_path)


@pytest.mark.parametrize(
    ("io_type", "data", "name", "problem"),
    [
        (5, ROW[:-1], FIXED.name, "a full record image has 32 bytes, the table's columns 33"),
        (5, b"k   v   ", "S.T", "the widths of the table's columns are not known"),
        (5, ROW, "NS.OTHER", "the widths of the table's columns are not known"),
        (11, cell(3, b"IC"), FIXED.name, "no column begins at offset 3 with 2 bytes"),
        (11, cell(0, b"ALICE     ")[:-1], FIXED.name, "a field runs over its data area"),
    ],
)
def test_what_the_definitions_do_not_fit_is_an_error(
    tmp_path: Path, io_type: int, data: bytes, name: str, problem: str
) -> None:
    with pytest.raises(DecodeError, match=problem) as caught:
        read(tmp_path, record(io_type, data, name=name, partition=0))

    assert caught.value.where.table == name
    assert "encrypt" not in str(caught.value)
    assert not check_trail(str(tmp_path / "ot")).whole


NOTED = Table(
    "NS.NOTED",
    (
        Column("NAME", 0, 10, nullable=False, key=True),
        Column("AGE", 132, 4, nullable=False),
        Column("NOTE", 0, 6, nullable=False),
    ),
)


@pytest.mark.assumed
@pytest.mark.parametrize("cut", [100, 14])
@pytest.mark.parametrize(
    ("io_type", "data"),
    [
        (5, b"ALICE     " + bytes(4) + b"\xff\xffnote"),
        (11, cell(10, bytes(4)) + cell(14, b"\xff\xffnote")),
    ],
)
def test_an_error_in_a_value_states_its_offset_in_the_file(
    tmp_path: Path, io_type: int, data: bytes, cut: int
) -> None:
    named: dict[str, Any] = {"name": NOTED.name, "partition": 0}
    records = b"".join(record(**part, **named) for part in split(io_type, data, cut))

    with pytest.raises(DecodeError, match="text is not UTF-8") as caught:
        read(tmp_path, records, tables=Definitions((NOTED,)))

    assert caught.value.where.field == "NOTE"
    assert caught.value.where.offset == records.index(b"\xff\xff")


@pytest.mark.parametrize("io_type", [2, 6, 7, 8, 9, 17, 18, 201, 204, 249, 254])
def test_records_without_rows_are_skipped(tmp_path: Path, io_type: int) -> None:
    found = read(tmp_path, record(io_type, b"?", name=""), record(5, KEYED))

    assert len(found) == 1
    assert whole(tmp_path)


@pytest.mark.parametrize("io_type", [1, 4, 12, 13, 14, 16, 19, 90, 101, 200])
def test_records_that_may_change_or_undo_rows_are_refused(tmp_path: Path, io_type: int) -> None:
    with pytest.raises(DecodeError, match=f"a record of type {io_type} .* cannot|can be read"):
        read(tmp_path, record(io_type, b"?", name=""), record(5, KEYED))
    assert errors(tmp_path) == ["not read"]
