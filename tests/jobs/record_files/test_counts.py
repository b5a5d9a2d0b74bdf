"""Counters of OCCURS DEPENDING ON whose values stand for counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trailgate
from cobol.items import layout_of
from oracles.cobol_naive import Reading, VaryingReader
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import records_of_length
from trailgate.cobol.records.record_options import (
    DependingLength,
    RecordOptions,
    TrailingBytesPolicy,
)
from trailgate.errors import DecodeError, EncodeError, OptionError

COPYBOOK = """
01 R.
   05 SIZE-OF PIC X(2).
   05 N       PIC 9.
   05 PART    PIC X OCCURS 0 TO 3 DEPENDING ON SIZE-OF.
   05 MORE    PIC X OCCURS 0 TO 2 DEPENDING ON N.
   05 Z       PIC X.
"""
COUNTS = "SIZE-OF: S=1, XL=3, =0; N: 7=2, 0=0"
DATA = "S 7axyz\nXL0abcz\n  0z\n"
OPTIONS: Any = {"copybook_text": COPYBOOK, "record_format": "line", "code_page": "ascii"}


def rows(tmp_path: Path, data: str = DATA, **options: Any) -> list[dict[str, Any]]:
    (tmp_path / "data").write_text(data)
    given = OPTIONS | {"count_map": COUNTS} | options
    found: list[dict[str, Any]] = (
        trailgate.read_records(tmp_path / "data", **given).read_all().to_pylist()
    )
    return found


def test_values_of_a_counter_stand_for_counts(tmp_path: Path) -> None:
    expected = [
        {"SIZE-OF": "S", "N": 7, "PART": ["a"], "MORE": ["x", "y"], "Z": "z"},
        {"SIZE-OF": "XL", "N": 0, "PART": ["a", "b", "c"], "MORE": [], "Z": "z"},
        {"SIZE-OF": "", "N": 0, "PART": [], "MORE": [], "Z": "z"},
    ]
    assert rows(tmp_path) == expected
    mapping = {"size_of": {"S": 1, "XL": 3, "": 0}, "N": {"7": 2, "0": 0}}
    named = rows(tmp_path, count_map=mapping | {"SIZE-OF": mapping.pop("size_of")}, names="sql")
    assert [row["PART"] for row in named] == [row["PART"] for row in expected]


@given(st.sampled_from(["S ", "XL", "  ", "S\0", "??"]), st.sampled_from("0127?"))
def test_records_of_such_counters_are_what_the_oracle_reads(size: str, number: str) -> None:
    stated = {"SIZE-OF": {"S": 1, "XL": 3, "": 0}, "N": {"7": 2, "0": 0}}
    record = f"{size}{number}abcdef".encode("cp037")
    layout = layout_of(COPYBOOK)
    options = RecordOptions(
        depending=DependingLength.REAL, counts=stated, surplus=TrailingBytesPolicy.DROP
    )
    reader = VaryingReader(record, Reading(), real=True, stated=stated)
    known = stated["SIZE-OF"].get(size.strip()), stated["N"].get(number)

    try:
        found = RecordDecoder(layout, options).decode(records_of_length(record, len(record)))
    except DecodeError as error:
        assert (None in known, error.where.field in {"SIZE-OF", "N"}) == (True, True)  # noqa: PT017  one of two outcomes
        return

    assert None not in known
    assert list(found.to_pylist()[0].values()) == [item.value for item in reader.read(layout)]


def test_records_of_such_counters_are_written_as_they_were_read(tmp_path: Path) -> None:
    rows(tmp_path)
    options = OPTIONS | {"count_map": COUNTS}
    batches = trailgate.read_records(tmp_path / "data", **options)

    trailgate.write_records(batches, tmp_path / "new", **options)

    assert (tmp_path / "new").read_text() == DATA
    wrong = {"SIZE-OF": "M", "N": 0, "PART": [], "MORE": [], "Z": "z"}
    batch = pa.RecordBatch.from_pylist([wrong], batches.schema)
    with pytest.raises(EncodeError, match=r"countMap does not contain .*record 1, field SIZE-OF"):
        trailgate.write_records([batch], tmp_path / "wrong", **options)


def test_a_value_without_a_count_is_an_error_or_takes_what_depends_on_it(tmp_path: Path) -> None:
    data = "M 7xyz\n"
    with pytest.raises(DecodeError, match=r"countMap does not contain .*field SIZE-OF, .*M"):
        rows(tmp_path, data)
    (row,) = rows(tmp_path, data, errors="column", surplus="drop")
    assert (row["SIZE-OF"], row["PART"], row["Z"]) == ("M", None, None)
    assert row["_errors"][0]["field"] == "SIZE-OF"
    with pytest.raises(DecodeError, match="is 4, but the item occurs 0 to 3 times"):
        rows(tmp_path, count_map="SIZE-OF: S=4, XL=3, =0; N: 7=2, 0=0")


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("SIZE: S=1", "countMap: no OCCURS depends on an item SIZE.*SIZE-OF"),
        ("Z: S=1", "countMap: no OCCURS depends on an item Z"),
        ("S=1", "ITEM: VALUE=COUNT was expected, not 'S=1'"),
        ("SIZE-OF: S", "VALUE=COUNT was expected"),
        ("SIZE-OF: S=-1", "count_map"),
        ({"SIZE-OF": {"S": 1.5}}, "count_map"),
    ],
)
def test_counts_that_cannot_be_are_refused(tmp_path: Path, counts: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        rows(tmp_path, count_map=counts)


def test_records_as_long_as_their_layout_have_counters_of_numbers(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="countMap cannot be combined with recordFormat=layout"):
        rows(tmp_path, record_format="layout")
