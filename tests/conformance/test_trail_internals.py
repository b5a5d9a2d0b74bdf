"""Statements of Trail Internals that the tests of the rooms do not show one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raw_trail import write_files
from trail.building import cell, text
from trail.format.test_trail_header import case_bytes
from trail.written_formats import read_again, records_of, written
from trailgate.arrays import octets
from trailgate.jobs.trail_check import check_trail
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.annotation.output import format_listing
from trailgate.trail.annotation.trail_file import explain_trail
from trailgate.trail.format.file_header import (
    DatabaseInfo,
    FileHeader,
    decode_header,
    encode_header,
)
from trailgate.trail.format.header_fields import JULIAN_EPOCH
from trailgate.trail.records.record import TrailRecord, decode_record, encode_record
from trailgate.trail.writing.file_headers import make_metadata_records
from trailgate.trail.writing.trail_format import LEVEL_3
from trailgate.trail.writing.writer import encode_restart_record

PRINTED: dict[str, dict[str, object]] = {
    "trail": {
        "signature": b"GG\r\nTL\n\r",
        "compatibility": 3,
        "charset": 0x20000000,
        "creation_time": 1362655699224356,
        "uri": "uri:vm4:juliandyke:com::home:oracle:goldengate",
        "filename": "/home/oracle/goldengate/dirdat/ex000016",
        "multi_part": 1,
        "seqno": 0x10,
        "file_size": None,
        "first_csn": "1145074",
        "last_csn": None,
        "first_io_time": 1362655717000000,
        "last_io_time": None,
    },
    "machine": {
        "sysname": "Linux",
        "nodename": "vm4.juliandyke.com",
        "release": "2.6.32-100.26.2.el5",
        "version": "#1 SMP Tue Jan 18 20:11:49 EST 2011",
        "hardware": "x86_64",
    },
    "database": {
        "vendor": 7,
        "name": "NORTH",
        "instance": "NORTH",
        "charset": 1003,
        "major_version": 11,
        "minor_version": 2,
        "client_charset": 0x40000000,
        "client_version_text": "11.2.0.3.0",
        "client_ncharset": 1,
        "locale": 0,
        "ncharset": 1,
        "object_metadata": bytes.fromhex("14" * 12 + "11141414"),
    },
    "producer": {
        "name": "EX1",
        "data_source": 3,
        "major_version": 11,
        "minor_version": 2,
        "maintenance_level": 1,
        "bug_fix_level": 0,
        "build_number": 1,
        "version_text": "Version 11.2.1.0.1 OGGCORE_11.2.1.0.1_PLATFORMS_120423.0230_FBO",
    },
    "continuity": {"recovery_mode": 1},
}
FIELDS = [
    pytest.param(group, name, value, id=f"{group} {name}")
    for group, fields in PRINTED.items()
    for name, value in fields.items()
]
# The numbers of databases from 1.
DATABASES = [
    "DB2 UDB",
    "DB2 ZOS",
    "CTREE",
    "INGRES",
    "MSSQL",
    "MYSQL",
    "ORACLE",
    "SQLMX",
    "SYBASE",
    "TERADATA",
    "TIMESTEN",
    "INFORMIX",
    "NONSTOP",
    "ENSCRIBE",
    "MSACCESS",
    "ODBC",
    "VSAM",
    "DB2400",
    "GENERIC",
    "DB2400 REMOTE",
    "POSTGRESQL",
]
HEADER_AREA = bytes.fromhex(
    "45 04 00 41 00 15 73 FF 02 F1 FD 87 76 B3 53 40"
    "00 00 00 00 00 AF 72 3C 00 00 00 00 06 52 00 00"
    "00 01 55 53 30 31 2E 54 38 00"
)
KEY_CHANGE = bytes.fromhex("0009 0000 0005 0000000139 0000 0006 000000023130")
PRINTED_RECORD = TrailRecord(
    115,
    "US01.T8",
    KEY_CHANGE,
    partition=4,
    io_time=1362655717000000,
    audit_pos=0xAF723C,
)

PRINTED_FIELDS = {
    "partition": 4,
    "undo": 0,
    "image": ord("A"),
    "data": KEY_CHANGE,
    "io_type": 115,
    "node": 255,
    "io_time": 1362655717000000,
    "audit_pos": 0xAF723C,
    "format": ord("R"),
    "record_count": 1,
    "name": "US01.T8",
}


def printed_record() -> TrailRecord:
    """Return the record whose header is printed; its time, position and name are the printed ones."""
    raw = encode_record(PRINTED_RECORD)
    start = raw.index(b"H") + 4
    return decode_record(raw[:start] + HEADER_AREA + raw[start + len(HEADER_AREA) :])


def letters(name: str) -> str:
    return "".join(one for one in name.upper() if one.isalnum())


@pytest.mark.parametrize(("group", "name", "value"), FIELDS)
def test_a_field_of_the_printed_header_has_its_value(group: str, name: str, value: object) -> None:
    header, _ = decode_header(case_bytes())

    assert getattr(getattr(header, group), name) == value


def test_the_printed_banner_is_read() -> None:
    banner = decode_header(case_bytes())[0].database.version_text

    assert banner.startswith("Oracle Database 11g Enterprise Edition Release 11.2.0.3.0 - 64bit")
    assert len(banner) == 229


@pytest.mark.parametrize(("code", "name"), list(enumerate(DATABASES, 1)), ids=DATABASES)
def test_a_database_is_named_by_its_number(code: int, name: str) -> None:
    data = encode_header(replace(FileHeader(), database=DatabaseInfo(vendor=code)))
    (found,) = explain_trail(lambda place, size: octets(data)[place : place + size], len(data), 0)

    (shown,) = [line.comment for line in format_listing(found) if "vendor" in line.comment]

    assert letters(shown) == letters(f"vendor {code} {name}")


def test_a_header_and_a_record_are_framed_by_their_length_twice() -> None:
    header, body = case_bytes(), encode_record(PRINTED_RECORD)

    assert (header[:4], header[-4:]) == (b"F\0\x04\x2a", b"Z\0\x04\x2a")
    assert (body[:2], body[-4:-2]) == (b"G\x01", b"Z\x01")
    assert body[2:4] == body[-2:] == len(body).to_bytes(2, "big")


def test_a_trail_without_records_is_read_as_one_without_operations(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[]])

    assert list(read_trail(prefix)) == []
    assert check_trail(str(prefix)).whole


@pytest.mark.parametrize("field", PRINTED_FIELDS)
def test_a_byte_of_the_printed_record_header_has_its_meaning(field: str) -> None:
    assert getattr(printed_record(), field) == PRINTED_FIELDS[field]


def test_the_node_is_ff_in_records_of_data_alone() -> None:
    tables = Definitions((Table("US01.T8", (Column("ID", 64, 10, key=True),)),))
    restart = decode_record(encode_restart_record("ABC", 0, abandoned=False))

    assert decode_record(encode_record(PRINTED_RECORD)).node == 0xFF
    assert restart.node == 0
    assert [record.node for record in make_metadata_records(tables, LEVEL_3, 0)] == [1, 2]


def test_the_time_of_the_last_record_is_zeros_until_the_file_is_closed() -> None:
    closed, _ = decode_header(case_bytes())
    closed = replace(closed, trail=replace(closed.trail, last_io_time=1362655718000000))
    opened = replace(closed, trail=replace(closed.trail, last_io_time=None))

    fields = [encode_header(header) for header in (opened, closed)]

    start = fields[1].index((1362655718000000 + JULIAN_EPOCH).to_bytes(8, "big"))
    assert fields[1][start - 4] == 0x3D
    assert fields[0][start - 4 : start + 8] == bytes.fromhex("3DFF0008 0000000000000000")


def test_a_key_is_preceded_by_its_length() -> None:
    table = Table("US01.T8", (Column("ID", 64, 10, key=True),))

    (row,) = read_again(encode_record(PRINTED_RECORD), LEVEL_3, Definitions((table,)))

    assert (row["op_type"], row["before"], row["after"]) == ("K", {"ID": "9"}, {"ID": "10"})


def test_a_long_of_513_bytes_is_in_its_row() -> None:
    value = "select OWNER, TABLE_NAME".ljust(513, ".")
    columns = (Column("OWNER", 64, 30, key=True), Column("TEXT", 64, 8000, lob_type=1))
    tables = Definitions((Table("US01.T13", columns),))
    insert = {"table": "US01.T13", "op_type": "I", "op_ts": 0, "tx_ind": "W", "tx_id": "1"}
    row = insert | {
        "csn": "1",
        "before": {},
        "after": {"OWNER": "SYS", "TEXT": value},
        "tokens": {},
    }

    data, _ = written([row], LEVEL_3, tables)

    (one,) = records_of(data)
    assert one.data == cell(0, text("SYS")) + cell(1, text(value))
    assert one.data[11:19] == bytes.fromhex("0001 0205 0000 0201")
    (again,) = read_again(data, LEVEL_3, tables)
    assert again["after"] == row["after"]
