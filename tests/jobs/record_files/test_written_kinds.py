"""Records of several kinds are written as they were read, from structs and from the table of one kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trailgate
from laws import examples
from trailgate.errors import EncodeError, OptionError

COPYBOOK = """
       01  CLAIM.
           05  SEG      PIC X(2).
           05  ID       PIC 9(3).
           05  OWNER.
               10  NAME     PIC X(6).
               10  PLACE    PIC X(4).
           05  PART REDEFINES OWNER.
               10  N        PIC 9.
               10  LINE OCCURS 0 TO 3 DEPENDING ON N.
                   15  CODE PIC XX.
           05  SUM REDEFINES OWNER.
               10  AMOUNT   PIC S9(5)V99 COMP-3.
               10  ID       PIC X(3).
"""
OPTIONS: dict[str, Any] = {
    "copybook_text": COPYBOOK,
    "kinds": "SEG: O=OWNER, P1|P2=PART, S THRU T=SUM",
    "record_format": "rdw",
}


def ebcdic(text: str) -> bytes:
    return text.encode("cp037")


OWNER = ebcdic("O 001Smith Rome")
PARTS = [ebcdic(f"P2001{n}{'AABBCC'[: 2 * n]}") for n in range(4)]
SUM = ebcdic("T 001") + b"\x00\x12\x34\x5d" + ebcdic("xyz")
ALL = [OWNER, *PARTS, SUM]


def rdw(records: list[bytes]) -> bytes:
    return b"".join((len(r) + 4).to_bytes(2, "big") + b"\0\0" + r for r in records)


def read(path: Path, **more: Any) -> list[pa.RecordBatch]:
    return list(trailgate.read_records(path, **(OPTIONS | more)))


def write(batches: list[pa.RecordBatch], path: Path, **more: Any) -> bytes:
    trailgate.write_records(batches, path, **(OPTIONS | more))
    return path.read_bytes()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(rdw(ALL))
    return path


@pytest.mark.parametrize("more", [{}, {"shape": "flat"}, {"parents": {"PART": "OWNER"}}], ids=str)
def test_kinds_are_written_in_their_order_each_as_long_as_it_is(
    data: Path, tmp_path: Path, more: dict[str, Any]
) -> None:
    batches = read(data, **more)

    assert write(batches, tmp_path / "new", **more) == data.read_bytes()
    unnamed = [batch.drop_columns(["_record"]) for batch in batches]
    assert write(unnamed, tmp_path / "unnamed", **more) == data.read_bytes()


@given(numbers=st.lists(st.integers(0, len(ALL) - 1), min_size=1, max_size=12))
@settings(max_examples=examples(20))
def test_any_order_of_kinds_is_kept(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("order")
    (folder / "data").write_bytes(rdw([ALL[number] for number in numbers]))

    assert write(read(folder / "data"), folder / "new") == (folder / "data").read_bytes()


def test_the_table_of_one_kind_is_written(data: Path, tmp_path: Path) -> None:
    more = {"segment": "PART", "parents": {"PART": "OWNER"}}

    assert write(read(data, **more), tmp_path / "new", **more) == rdw(PARTS)
    with pytest.raises(OptionError, match="PRAT is not a kind of record"):
        write(read(data, **more), tmp_path / "other", segment="PRAT")


def test_segments_can_have_the_length_of_the_whole_record(data: Path, tmp_path: Path) -> None:
    found = write(read(data), tmp_path / "new", segment_length="record")
    fixed = write(read(data), tmp_path / "fixed", record_format="fixed", record_length=20)

    assert found == rdw([record.ljust(15, b"\x40") for record in ALL])
    assert fixed == b"".join(record.ljust(20, b"\x40") for record in ALL)
    assert read(tmp_path / "fixed", record_format="fixed", record_length=20) == read(data)


def test_kept_bytes_are_those_of_each_kind(data: Path, tmp_path: Path) -> None:
    odd = [OWNER + b"\x01\x02", SUM.replace(b"\x5d", b"\x5b"), PARTS[1]]
    data.write_bytes(rdw(odd))
    more = {"raw": True, "surplus": "drop"}

    assert write(read(data, **more), tmp_path / "new", **more) == rdw(odd)
    assert write([b.drop_columns(["_raw"]) for b in read(data, **more)], tmp_path / "x") == rdw(
        [OWNER, SUM, PARTS[1]]
    )


def structs(**kinds: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([kinds])


HELD = {"SEG": "O", "ID": 1, "NAME": "a", "PLACE": "b"}


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (
            structs(OWNER={**HELD, "SEG": "T"}),
            r"OWNER would be read as a record of SUM .*field SEG",
        ),
        (
            structs(OWNER={**HELD, "SEG": "?"}),
            r"'\?' is not a kind of record .*record 1, field SEG",
        ),
        (structs(OWNER=HELD, SUM={"SEG": "S"}), r"values of 2 kinds in one record: OWNER and SUM"),
        (structs(_record="PART", OWNER=HELD), r"record of PART has the values of OWNER"),
        (structs(_record="OWNER"), r"no values of any kind of record: OWNER, PART, SUM"),
        (structs(OWNRE=HELD), r"no kind of record for the column OWNRE.*Did you mean OWNER"),
        (structs(OWNER={**HELD, "ID": 1000}), r"more than 3 digits: 1000 \(.*record 1, field ID"),
        (structs(OWNER={**HELD, "PLAC": "b"}), r"no item for the column PLAC.*Did you mean PLACE"),
    ],
)
def test_rows_that_would_be_read_otherwise_are_refused(
    tmp_path: Path, batch: pa.RecordBatch, problem: str
) -> None:
    with pytest.raises(EncodeError, match=problem):
        write([batch], tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
