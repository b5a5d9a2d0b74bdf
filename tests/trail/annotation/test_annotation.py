"""The analyzer shows what TrailAnalyzer's listings show, and all bytes of any file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from raw_trail import inserts, write_files
from trail.format.test_trail_header import case_bytes
from trailgate.arrays import octets
from trailgate.cli.main import run
from trailgate.model.tables import Column, Table
from trailgate.trail.annotation.elements import (
    DamagedSpan,
    ExplainedBytes,
    ExplainedToken,
    bytes_of_part,
    find_problems,
)
from trailgate.trail.annotation.output import format_listing, part_to_json
from trailgate.trail.annotation.trail_file import explain_trail
from trailgate.trail.format.file_header import DatabaseInfo, FileHeader, TrailInfo, encode_header
from trailgate.trail.format.tokens import ByteOrder, RecordToken
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.records.table_metadata import encode_table_definition

CASES = Path(__file__).parents[1] / "cases/analysis"
COLUMNS = "0000 0007 0000 0003 535953 0001 000E 0000 000A 4442415F5441424C4553"
COLUMNS += "0002 0008 0000 0004 37303730 0003 0004 FFFF 0000"
FIRST = (
    RecordToken(ord("R"), b"AAASf9AAEAAAAINAAA\0\1"),
    RecordToken(ord("L"), b"1145074"),
    RecordToken(ord("6"), b"3.11.848"),
)
DATA = bytes.fromhex(COLUMNS)
INSERT = TrailRecord(5, "US01.T8", DATA, FIRST, partition=4)
LATER = replace(INSERT, tokens=(RecordToken(ord("R"), b"AAASf9AAEAAAAINAAB\0\1"),))


def analyzed(data: bytes, start: int = 0) -> list[ExplainedToken | DamagedSpan]:
    view = octets(data)
    return list(explain_trail(lambda place, size: view[place : place + size], len(data), start))


def listing(data: bytes) -> list[str]:
    """Return the lines without comments on tags and offsets, and with single blanks."""
    shown = [line for found in analyzed(data) for line in format_listing(found)]
    strings = [
        line.content if line.content.strip().startswith("<") else str(line) for line in shown
    ]
    return [" ".join(text.split()) for text in strings if not text.startswith("# Offset")]


def printed(name: str) -> list[str]:
    return [" ".join(line.split()) for line in (CASES / f"{name}.txt").read_text().splitlines()]


def area(shown: list[str], tag: str) -> list[str]:
    return shown[shown.index(f"<{tag}>") + 1 : shown.index(f"</{tag}>")]


def test_the_printed_header_is_listed_line_by_line() -> None:
    shown = area(listing(case_bytes()), "46")

    last = printed("header").index("<46_34>")
    assert shown.pop(last) == "34 00 00 08 # Type=34 (4) Flag=0 Len=8"  # left out where printed
    assert shown == printed("header")


@pytest.mark.parametrize("order", ByteOrder)
def test_leaves_are_shown_with_name_and_value(order: ByteOrder) -> None:
    trail = TrailInfo(uri_history=("uri:a", "uri:b"), seqno=7, first_csn="1145074")
    header = replace(FileHeader(order=order), trail=trail, database=DatabaseInfo(vendor=7))

    (found,) = analyzed(encode_header(header))
    shown = [str(line).strip() for line in format_listing(found)]

    for said in (
        "<46_30_38>   # seqno = 7",
        "<46_30_39>   # file_size = not known yet",
        "<46_30_3A>   # first_csn = 1145074",
        "<46_32_30>   # vendor = 7 Oracle",
        "<46_34_30>   # recovery_mode = 1",
        "uri:b",
    ):
        assert said in shown
    assert covered([found], encode_header(header))


@pytest.mark.parametrize(("record", "name"), [(INSERT, "tokens-first"), (LATER, "tokens-later")])
def test_printed_tokens_are_listed_line_by_line(record: TrailRecord, name: str) -> None:
    assert area(listing(encode_record(record)), "47_54") == area(printed(name), "47_54")


def test_columns_are_listed_with_index_length_indicator_and_text() -> None:
    shown = area(listing(encode_record(INSERT)), "47_44")

    printed_ = printed("long-base")
    assert shown[0::2] == printed_[0::2]
    assert [line.split(" # ")[0] for line in shown] == [line.split(" # ")[0] for line in printed_]
    assert [line.split(" # ")[1] for line in shown[1::2]] == [
        "not null, 3 bytes: SYS",
        "not null, 10 bytes: DBA_TABLES",
        "not null, 4 bytes: 7070",
        "NULL",
    ]


def test_a_piece_of_a_large_object_is_listed_as_printed_but_for_the_column() -> None:
    text = b"select u.name, o.name,\n       decode(bitand(t.pr".ljust(1070)
    words = bytes.fromhex("00000003 00000004 00000001 00000000 0000042E")
    record = replace(INSERT, io_type=116, data=words + text)

    shown = area(listing(encode_record(record)), "47_44")

    # trail format §11: the word that the listing does not know is the column's index.
    assert shown[:8] == ["00 00 00 03 # Column 3", *printed("long-piece")[1:]]


@pytest.mark.parametrize("order", ByteOrder)
def test_the_header_of_a_record_is_shown_field_by_field(order: ByteOrder) -> None:
    record = replace(INSERT, io_time=1362655717000000, audit_pos=7, audit_rba=12010, order=order)

    shown = area(listing(encode_record(record)), "47_48")

    assert [line.split(" # ")[1] for line in shown] == [
        "Hdr-Ind: E",
        "Partition: x04: index, length, value",
        "UndoFlag: 0",
        "BeforeAfter: A after",
        "RecLength: 49",
        "IOType: 5 Insert",
        "OrigNode: 255 none",
        "IO Time: 2013-03-07T11:28:37.000000Z",
        "AuditPos: 7",
        "AuditRBA: 12010",
        "TransInd: 3 only record",
        "FormatType: R from the log",
        "SyskeyLen: 0",
        "Incomplete: 0",
        "Continued: 0 no",
        "RecCount: 1",
        "Name: US01.T8",
    ]


@pytest.mark.parametrize("order", ByteOrder)
def test_both_images_of_a_key_update_are_shown(order: ByteOrder) -> None:
    before = order.raw(0, 2) + order.raw(6, 2) + bytes(5) + b"\x0a"
    after = order.raw(0, 2) + order.raw(6, 2) + bytes(5) + b"\x09"
    data = order.raw(10, 2) + before + after
    record = replace(INSERT, io_type=115, data=data, order=order)

    shown = area(listing(encode_record(record)), "47_44")

    assert [line.split(" # ")[1] for line in shown] == [
        "Before image, Length 10",
        "Column 0, Length 6",
        "not null, perhaps the integer 10",
        "Column 0, Length 6",
        "not null, perhaps the integer 9",
    ]


def test_a_system_key_is_shown_before_the_columns() -> None:
    data = bytes.fromhex("00000007 0000 0006 0000 00000009")
    record = replace(INSERT, data=data, syskey_length=4)

    shown = area(listing(encode_record(record)), "47_44")

    assert [line.split(" # ")[1] for line in shown] == [
        "System key",
        "Column 0, Length 6",
        "not null, perhaps the integer 9",
    ]


@pytest.mark.parametrize("order", ByteOrder)
def test_a_table_definition_is_shown_attribute_by_attribute(order: ByteOrder) -> None:
    table = Table("test.t", (Column("c1", 132, 11, key=True), Column("c2", 64, 120)))
    data = encode_table_definition(table, order)
    record = TrailRecord(170, "test.t", data, node=2, audit_rba=0x00010001, order=order)

    shown = area(listing(encode_record(record)), "47_44")

    assert len(shown) == 3 + 2 * (1 + 23 + 1)
    assert [line.split(" # ")[1] for line in shown if "data_type" in line] == [
        "data_type 132",
        "data_type 64",
    ]


def test_a_file_without_header_begins_with_its_first_record() -> None:
    (found,) = analyzed(encode_record(INSERT))

    assert isinstance(found, ExplainedToken)
    assert (found.offset, found.name, found.value) == (0, "record", "Insert")


def test_a_problem_is_reported_at_its_offset() -> None:
    record = encode_record(replace(INSERT, data=bytes.fromhex("0000 0007 0000 00 03")))

    (found,) = analyzed(record)
    assert isinstance(found, ExplainedToken)
    (bad,) = find_problems(found)

    assert bad.problem == "column 0 of 7 bytes is longer than the data"
    assert bad.offset == record.index(bytes.fromhex("00000007000000"))


def test_reading_goes_on_at_the_next_good_record() -> None:
    one = encode_record(INSERT)
    data = case_bytes() + one + b"no record" + one + one

    header, first, damage, second, third = analyzed(data)

    assert isinstance(damage, DamagedSpan)
    assert (damage.offset, damage.length) == (1066 + len(one), 9)
    assert damage.before == one[-32:]
    assert damage.raw == b"no record"
    assert [found.offset for found in (header, first, second, third)] == [
        0,
        1066,
        1066 + len(one) + 9,
        1066 + 2 * len(one) + 9,
    ]
    text = "\n".join(map(str, format_listing(damage)))
    assert "a record must begin with 47 01" in text
    assert "6E 6F 20 72 65 63 6F 72 64" in text


def test_a_start_inside_a_record_goes_to_the_next_one() -> None:
    one = encode_record(INSERT)

    (found,) = analyzed(case_bytes() + one + one, 1070)

    assert found.offset == 1066 + len(one)


def test_a_rest_without_records_is_shown() -> None:
    one = encode_record(INSERT)

    (found,) = analyzed(case_bytes() + one + one[:20], 1066 + len(one))

    assert isinstance(found, DamagedSpan)
    assert (found.offset, found.length) == (1066 + len(one), 20)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        *(
            (case_bytes()[:size], "the file ends inside its header")
            for size in (1, 3, 4, 600, 1065)
        ),
        (b"no header", "begins neither with a file header"),
    ],
)
def test_a_cut_header_is_not_another_beginning(data: bytes, problem: str) -> None:
    (found,) = analyzed(data)

    assert isinstance(found, DamagedSpan)
    assert problem in found.problem
    assert found.length == len(data)


def test_a_length_that_the_header_contradicts_is_a_problem() -> None:
    record = bytearray(encode_record(INSERT))
    record[13] += 1

    (found,) = analyzed(bytes(record))

    assert isinstance(found, ExplainedToken)
    assert [bad.problem for bad in find_problems(found)] == ["49 bytes here, RecLength is 50"]


def covered(found: list[ExplainedToken | DamagedSpan], data: bytes) -> bool:
    """Tell whether the bytes of all that is found are the file, each byte once."""
    place = 0
    for one in found:
        if isinstance(one, DamagedSpan):
            assert one.length > 0
            shown, length = one.raw, one.length
        else:
            shown = bytes_of_part(one)
            length = len(shown)
        assert one.offset == place
        assert data[place : place + len(shown)] == shown
        for part in [] if isinstance(one, DamagedSpan) else leaves(one):
            assert data[part.offset : part.offset + len(part.raw)] == part.raw
        assert all(isinstance(line.content, str) for line in format_listing(one))
        part_to_json(one)
        place += length
    return place == len(data)


def leaves(part: ExplainedToken | ExplainedBytes) -> list[ExplainedBytes]:
    if isinstance(part, ExplainedBytes):
        return [part]
    return [leaf for inner in part.parts for leaf in leaves(inner)]


KEY_UPDATE = replace(INSERT, io_type=115, data=b"\0\x0b" + DATA[:11] + DATA)
SAMPLES = [
    encode_record(replace(record, order=order))
    for order in ByteOrder
    for record in (
        INSERT,
        KEY_UPDATE,
        replace(INSERT, io_type=134),
        replace(INSERT, io_type=116),
        TrailRecord(
            170, "t", encode_table_definition(Table("t", (Column("c", 64, 9),)), order), node=2
        ),
        TrailRecord(160, "", b",C5='1',,C1='create table t'", user=b"user"),
    )
]


@given(st.binary(max_size=400))
def test_any_bytes_are_shown_once(data: bytes) -> None:
    assert covered(analyzed(data), data)


@given(st.data())
def test_damaged_files_are_shown_once(choose: st.DataObject) -> None:
    chosen = choose.draw(st.lists(st.sampled_from(SAMPLES), max_size=4))
    data = bytearray(case_bytes() * choose.draw(st.integers(0, 1)) + b"".join(chosen))
    for _ in range(choose.draw(st.integers(0, 4))):
        if data:
            place = choose.draw(st.integers(0, len(data) - 1))
            data[place] = choose.draw(st.integers(0, 255))
    cut = choose.draw(st.integers(0, len(data)))
    data = data[:cut] if choose.draw(st.booleans()) else data

    assert covered(analyzed(bytes(data)), bytes(data))


@settings(max_examples=examples(40))
@given(st.data())
def test_from_any_offset_the_next_record_is_shown_or_the_damage_that_has_it(
    data: st.DataObject,
) -> None:
    """Also a good record before damage, and damage at its own place."""
    raw = bytearray(b"".join(map(encode_record, [INSERT, LATER, INSERT, LATER, INSERT])))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            del raw[at]
        else:
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
    whole = analyzed(bytes(raw))
    places = {one.offset + shift for one in whole for shift in (0, 1)} | data.draw(
        st.sets(st.integers(1, len(raw) - 1), max_size=10)
    )
    for start in sorted(places & set(range(1, len(raw)))):
        first = next(iter(analyzed(bytes(raw), start)), None)
        expected = next(
            (
                one
                for one in whole
                if one.offset >= start
                or (isinstance(one, DamagedSpan) and one.offset + one.length > start)
            ),
            None,
        )
        assert (first and first.offset) == (expected and expected.offset)
        assert isinstance(first, DamagedSpan) == isinstance(expected, DamagedSpan)


def test_a_good_record_before_damage_and_damage_are_shown_at_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = inserts(range(8), tx=1)
    path = Path(f"{write_files(tmp_path / 'ot', [records])}000000000")
    raw = bytearray(path.read_bytes())
    third = raw.index(records[3])
    del raw[third + 60]
    path.write_bytes(raw)

    assert run(["analyze", str(path), "--from-position", f"0:{third - len(records[2])}"]) == 1
    shown = capsys.readouterr().out
    assert shown.index("row 2") < shown.index("bytes make no sense") < shown.index("row 4")
    assert run(["analyze", str(path), "--from-position", f"0:{third}"]) == 1
    assert "bytes make no sense" in capsys.readouterr().out
