"""The options of reading a trail: one value, made of text at one place; what they choose."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from raw_trail import inserts, write_files
from sample_trail import NOTES, Op, write_trail
from trailgate.errors import OptionError
from trailgate.model.table_names import TablePatterns
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.options import OPTIONS, ReadOptions, select_rows_by_position
from trailgate.storage.reading.trails import plan_reading, read_split, read_trail
from trailgate.trail.reading.record_table import RECORDS_SCHEMA

PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_every_option_is_a_field_and_stands_in_the_documentation() -> None:
    assert [row.name for row in OPTIONS] == [field.name for field in fields(ReadOptions)]
    for row in OPTIONS:
        assert f"`{row.spelling}`" in PAGE
    for name in RECORDS_SCHEMA.names:
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", ["fromPosition", "from_position", "from-position", "FROMPOSITION"])
def test_an_option_has_one_name_in_all_spellings(name: str) -> None:
    assert ReadOptions.of({name: "0" * 20}).from_position == "0" * 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fromPositon": "1"}, r"no option fromPositon.*fromPosition\?"),
        ({"zzz": "1"}, "Known: table, tables, records"),
        ({"after": "12"}, "'12' is not a position"),
        ({"records": "some"}, "operations or all"),
        ({"table": "A.B", "tables": "C.*"}, "cannot be combined"),
        ({"tables": ""}, "not a list of tables"),
        ({"records": "all", "table": "A.B"}, "a table in its types applies to operations"),
        ({"fromCsn": ""}, "empty"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        ReadOptions.of(options)


def test_options_survive_the_way_to_a_worker() -> None:
    options = ReadOptions.of({"tables": "A.*", "charset": "windows-1252"})

    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("patterns", "name", "fits"),
    [
        ("HR.*", "HR.JOBS", True),
        ("hr.*", "HR.JOBS", True),
        ("HR.*", "HRX.JOBS", False),
        ("HR.*", "PDB.HR.JOBS", False),
        ("*.HR.*", "PDB.HR.JOBS", True),
        ("HR.*", "HR.A.B", False),
        ("SALES.ORD?", "SALES.ORDS", True),
        ("SALES.ORD?", "SALES.ORD", False),
        ("A.B, SALES.O*R", "SALES.ODER", True),
        ("A.(B|C)+", "A.B", False),
        ("A.$B_#", "A.$B_#", True),
        ("*", "A.B.C", True),
    ],
)
def test_wildcards_stay_within_one_part_of_a_name(patterns: str, name: str, fits: bool) -> None:
    assert TablePatterns.read(patterns).fits(name) is fits


def test_only_wanted_tables_are_read(tmp_path: Path) -> None:
    transaction = [Op("I", 1), Op("I", 2, table=NOTES), Op("I", 3), Op("D", 4, table=NOTES)]
    prefix = write_trail(tmp_path / "ot", [[transaction, [Op("I", 5, table=NOTES)]]])
    everything = rows(read_trail(prefix))

    found = rows(read_trail(prefix, tables="MY.N?TES"))

    assert found == [row for row in everything if row["table"] == "MY.NOTES"]
    assert rows(read_trail(prefix, tables="X.*")) == []


def test_a_table_that_cannot_be_read_harms_nobody_who_does_not_want_it(tmp_path: Path) -> None:
    bad = bytearray(inserts([7])[0])
    at = bad.index(b"MY.ORDERS") + len(b"MY.ORDERS") + 5
    bad[at + 1] = 99  # a column that the table does not have
    prefix = write_trail(tmp_path / "ot", [[[Op("I", 2, table=NOTES)]]])
    with Path(f"{prefix}000000000").open("ab") as file:
        file.write(bytes(bad))

    assert len(rows(read_trail(prefix, tables="MY.NOTES"))) == 1
    assert len(rows(read_trail(prefix, table="MY.NOTES"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_positions_bound_what_is_read(tmp_path: Path, size: int) -> None:
    files = [[*inserts([1], tx=1), *inserts([2, 3, 4], tx=2)], inserts([5, 6], tx=3)]
    trail = find_trail(write_files(tmp_path / "ot", files))
    everything = rows(read_trail(trail))
    for i, first in enumerate(everything):
        for j, last in enumerate(everything[i:], i):
            named = {"from_position": first["position"], "to_position": last["position"]}
            options = ReadOptions.of(named)
            splits = plan_reading(trail, options, size)
            expected = everything[i : j + 1]

            assert rows(read_trail(trail, **named)) == expected
            assert [r for s in splits for r in rows(read_split(trail, s, options))] == expected


def test_positions_outside_the_trail_are_no_error(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([1, 2])])

    assert rows(read_trail(prefix, from_position="9" * 20)) == []
    assert rows(read_trail(prefix, to_position="0" * 20)) == []
    assert len(rows(read_trail(prefix, from_position="0" * 20, to_position="9" * 20))) == 2


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({"from_csn": "99"}, ["99", "100", "0100", "184467440737095516150", "x9"]),
        ({"to_csn": "100"}, ["9", "99", "100", "0100"]),
        ({"from_csn": "100", "to_csn": "100"}, ["100", "0100"]),
        ({"from_csn": "184467440737095516149"}, ["184467440737095516150", "x9"]),
        ({"from_csn": "000:5"}, ["9", "99", "100", "0100", "184467440737095516150", "x9"]),
        ({"to_csn": "0"}, []),
    ],
)
def test_csns_are_numbers_where_both_are_digits_and_text_else(
    bounds: dict[str, str], kept: list[str]
) -> None:
    csns = ["9", "99", "100", "0100", "184467440737095516150", "x9", None]
    batch = pa.RecordBatch.from_pydict({"position": ["0" * 20] * len(csns), "csn": csns})

    found = select_rows_by_position(batch, ReadOptions.of(bounds))

    assert found["csn"].to_pylist() == kept
