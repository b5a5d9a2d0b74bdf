"""Tables that nothing defines are read with numbered columns, and marked so."""

from __future__ import annotations

from typing import Any

import pytest

from trail.batches import operations_of
from trail.building import (
    BIG,
    INSERT,
    KEY_UPDATE,
    LARGE,
    METADATA,
    TRUNCATE,
    UNIFIED,
    cell,
    piece,
    prefixed,
    record,
    table_record,
    text,
)
from trailgate.errors import DecodeError, DefinitionError, TrailgateError
from trailgate.model.changes import ChangeBatch
from trailgate.model.operations_table import to_operations
from trailgate.model.shapes import to_typed
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.writing.writer import encode

NOTHING = Definitions(())
KEY = cell(0, text("k"))


def decoded(*records: bytes, charset: str = "utf-8") -> ChangeBatch:
    state = ReaderState(charset=charset)
    body = b"".join(records)
    return decode(body, NOTHING, file_number=1, base_offset=0, state=state, finish=True).batch


def values(*raw: bytes, charset: str = "utf-8") -> list[Any]:
    """Return how the values of one column look."""
    records = [record(INSERT, cell(0, one)) for one in raw]
    found = operations_of(decoded(*records, charset=charset))
    return [operation["after"]["#0"] for operation in found]


def test_columns_are_numbered_and_the_table_is_marked() -> None:
    batch = decoded(record(INSERT, KEY + cell(3, text("v"))), record(TRUNCATE))

    assert batch.blocks[0].table.guessed
    assert [column.name for column in batch.blocks[0].table.columns] == ["#0", "#1", "#2", "#3"]
    after = dict(to_operations(batch).to_pylist()[0]["after"])
    assert after == {"#0": "k", "#3": "v"}


def test_a_table_of_truncates_alone_has_no_columns() -> None:
    rows = to_operations(decoded(record(TRUNCATE))).to_pylist()

    assert (rows[0]["op_type"], rows[0]["after"]) == ("T", [])


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (text(""), ""),
        (text("née"), "née"),
        (text("a\tb\n"), "a\tb\n"),
        (text("a\0b"), "0x610062"),
        (text(b"\xff\xfe"), "0xFFFE"),
        (text("0xAB"), "0x30784142"),
        (b"\0\0" + b"abc  ", "abc"),
        (b"\0\0" + b"abcdefghi", "abcdefghi"),
        (b"\0\0" + b"abcdefgh", "0x6162636465666768"),  # a CHAR(8), or a number
        (b"\0\0" + (875770417).to_bytes(4, "big"), "0x34333231"),  # an int of MySQL, or a CHAR(4)
        (b"\0\0" + b"12", "0x3132"),
        (b"\0\0" + (300).to_bytes(8, "big"), "300"),
        (b"\0\0" + (-2).to_bytes(4, "big", signed=True), "-2"),
        (b"\0\0" + b"0x\1\2", "0x30780102"),
        (b"\0\0" + b"2024-02-03", "2024-02-03"),
        (b"\0\0" + b"2024-02-03:04:05:06.5", "2024-02-03 04:05:06.5"),
        (b"\0\0" + b"\1\2\3", "0x010203"),
        (b"\0\0", ""),
        (b"\xff\xff", None),
        (b"\xff\xff\0\0", None),
    ],
)
def test_a_value_is_shown_as_its_bytes_look(raw: bytes, shown: str | None) -> None:
    assert values(raw) == [shown]
    assert values(text("other"), raw, b"\xff\xff") == ["other", shown, None]


def test_a_text_is_in_the_character_set_of_the_source() -> None:
    assert values(text(b"\xe9"), charset="cp1252") == ["é"]
    assert values(text(b"\x93\xfa"), charset="cp932") == ["日"]


@pytest.mark.parametrize(("io_type", "width"), [(KEY_UPDATE, 2), (UNIFIED, 2), (UNIFIED, 4)])
def test_both_images_of_one_record_are_numbered(io_type: int, width: int) -> None:
    after = KEY + cell(1, text("new"))

    (found,) = operations_of(decoded(record(io_type, prefixed(width, KEY, after))))

    assert (found["before"], found["after"]) == ({"#0": "k"}, {"#0": "k", "#1": "new"})


def test_large_objects_are_numbered_too() -> None:
    pieces = [record(LARGE, piece(i, (1, 1, 0), raw)) for i, raw in ((5, b"text"), (2, b"\0\1"))]

    (found,) = operations_of(decoded(record(INSERT, KEY), *pieces))

    assert found["after"] == {"#0": "k", "#2": "0x0001", "#5": "text"}


def test_a_table_record_that_does_not_fit_leaves_its_table_numbered() -> None:
    rba = BIG.number(BIG.raw(1, 2) + BIG.raw(1, 2))
    unknown = record(
        METADATA, b"?" * 100, name="S.NEW", node=2, partition=0, tokens=None, audit_rba=rba
    )

    (found,) = operations_of(decoded(unknown, record(INSERT, KEY, table_index=1)))

    assert (found["table"], found["after"]) == ("S.NEW", {"#0": "k"})


def test_a_numbered_table_is_not_read_in_types_and_not_written() -> None:
    batch = decoded(record(INSERT, KEY))
    with pytest.raises(DefinitionError, match=r"table S.T are numbered.*definitions that name it"):
        to_typed(batch, Table("S.T", (Column("ID", 64, 10),)))
    with pytest.raises(TrailgateError, match="numbered"):
        encode(batch)


def test_an_index_beyond_any_table_is_an_error() -> None:
    with pytest.raises(DecodeError, match="column index 5000"):
        decoded(record(INSERT, KEY + cell(5000, text("v"))))


def test_damaged_data_of_a_numbered_table_are_an_error() -> None:
    for data in (KEY[:-1], KEY + b"\0", KEY + KEY, cell(0, b"\1\2\3\4")):
        with pytest.raises(DecodeError):
            decoded(record(INSERT, data))


@pytest.mark.assumed
def test_an_encrypted_trail_is_refused() -> None:
    """trail format §13: data areas alone are encrypted; framing and tokens are as ever."""
    noise = bytes((37 * i * i + 11) % 256 for i in range(64))
    records = [record(INSERT, noise[i : i + 40]) for i in range(5)]
    for definitions in (NOTHING, Definitions((Table("S.T", (Column("ID", 64, 10),)),))):
        with pytest.raises(DecodeError, match=r"may be encrypted \(ENCRYPTTRAIL\)"):
            decode(b"".join(records), definitions, file_number=1, base_offset=0)


def test_one_damaged_record_among_good_ones_is_not_taken_for_encryption() -> None:
    with pytest.raises(DecodeError) as caught:
        decoded(record(INSERT, KEY), record(INSERT, KEY[:-1]))
    assert "encrypted" not in str(caught.value)


def test_columns_without_a_public_layout_leave_the_others_readable() -> None:
    columns = (Column("ID", 64, 10, key=True), Column("PACKED", 189, 4))
    definitions = Definitions((Table("S.T", columns),))

    def read(value: bytes) -> Any:
        body = record(INSERT, KEY + cell(1, value))
        return decode(body, definitions, file_number=1, base_offset=0, finish=True).batch

    assert dict(to_operations(read(b"\xff\xff\0\0\0\0")).to_pylist()[0]["after"])["ID"] == "k"
    assert to_typed(read(b"\xff\xff"), definitions.table("S.T")).column("PACKED").null_count == 1
    with pytest.raises(DecodeError, match=r"PACKED \(189\) is not documented .*logdump"):
        read(b"\0\0\1\2\3\4")


def test_a_table_that_changed_is_not_read_in_the_types_of_its_older_definition() -> None:
    table = Table("S.T", (Column("ID", 64, 10), Column("NEW", 134, 8)))
    body = table_record(table, 1, BIG) + record(INSERT, KEY, table_index=1)
    batch = decode(body, NOTHING, file_number=1, base_offset=0, finish=True).batch

    assert to_typed(batch, table).column("ID").to_pylist() == ["k"]
    with pytest.raises(DefinitionError, match="other columns in the trail"):
        to_typed(batch, Table("S.T", (Column("ID", 64, 10),)))
