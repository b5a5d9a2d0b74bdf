"""Source definitions files: each case reads, writes and reads back the same; each law holds."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trailgate.definitions.defgen import read_sourcedefs, write_sourcedefs
from trailgate.definitions.defgen_layout import complete_table, find_layout_fault, lay_out_columns
from trailgate.errors import DefinitionError, EncodeError, TrailgateError
from trailgate.model.tables import Column, DatabaseLines, Definitions, Table
from trailgate.model.types import TYPES

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("*.def"))
RIGHT = (CASES / "fixed-width-customers.def").read_bytes()
WRONG = tomllib.loads((CASES / "wrong.toml").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_reads_and_writes_back_the_same(path: Path) -> None:
    definitions = read_sourcedefs(path.read_bytes(), path.name)

    again = read_sourcedefs(write_sourcedefs(definitions))

    assert again.tables == definitions.tables
    written = definitions.database.version or "2.0"
    assert again.database == replace(definitions.database, version=written)


def test_columns_lie_where_the_fixed_width_example_has_them() -> None:
    table = read_sourcedefs(RIGHT).table("gg.jmscap_tcustmer")

    assert [c.fetch_offset for c in table.columns] == [0, 10, 46, 72]
    assert [c.name for c in table.columns if c.key] == ["CUST_CODE"]
    assert table.record_length == 78


def test_database_lines_are_kept() -> None:
    database = read_sourcedefs((CASES / "version-5.0.def").read_bytes()).database

    assert database.version == "5.0"
    assert (database.database_type, database.time_zone) == ("ORACLE", "GMT")
    assert database.national_character_set == "UTF-16"


def test_attributes_20_to_24_are_kept() -> None:
    table = read_sourcedefs((CASES / "version-4.0.def").read_bytes()).table("HR.JOBS")

    assert [c.native_type for c in table.columns] == [1, 2, 187]


def test_quoted_names_lose_their_quotes_but_a_part_with_a_dot_keeps_them() -> None:
    definitions = read_sourcedefs((CASES / "quoted-names.def").read_bytes())

    assert [t.name for t in definitions] == ["My Shop.Order Lines", 'S."a.b"']
    assert [c.name for c in definitions.tables[0].columns] == ["Line No", 'Say "Hi"', "*"]


def test_the_encoding_of_line_one_is_followed() -> None:
    table = read_sourcedefs((CASES / "windows-1252.def").read_bytes()).tables[0]

    assert (table.name, table.columns[0].name) == ("S.STRAßE", "GRÖSSE")


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp037"])
def test_files_that_are_no_superset_of_ascii_are_read(codec: str) -> None:
    text = RIGHT.decode().replace("UTF-8", "UTF-8" if codec == "utf-8-sig" else codec)

    assert read_sourcedefs(text.encode(codec)).tables == read_sourcedefs(RIGHT).tables


@pytest.mark.parametrize(
    "encoding",
    ["UTF-16", "UTF-16LE", "UTF-16BE", "windows-1252", "Cp1252", "ISO8859_1", "ibm-37", "GB18030"],
)
def test_any_encoding_that_is_written_is_read_again(encoding: str) -> None:
    database = DatabaseLines(version="2.0", encoding=encoding, locale="neutral")
    definitions = Definitions(read_sourcedefs(RIGHT).tables, database)

    assert read_sourcedefs(write_sourcedefs(definitions)) == definitions


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_bad_definitions_file_is_reported_with_its_line(case: dict[str, Any]) -> None:
    text = RIGHT.decode()
    assert case["replace"] in text
    wrong = text.replace(case["replace"], case["by"], 1).encode()

    with pytest.raises(DefinitionError) as caught:
        read_sourcedefs(wrong, "x.def")

    where = caught.value.where
    assert case["says"] in str(caught.value)
    assert (where.source, where.line) == ("x.def", case["line"])
    assert where.column == case.get("column", where.column)
    assert where.column is not None
    assert where.raw == case.get("raw", "").encode() or "raw" not in case


def test_a_table_defined_twice_is_an_error_at_the_second() -> None:
    body = RIGHT[RIGHT.index(b"Definition for") :]

    with pytest.raises(DefinitionError, match="defined twice") as caught:
        read_sourcedefs(RIGHT + body)

    assert caught.value.where.line == 14


def test_bytes_that_do_not_fit_the_encoding_are_placed() -> None:
    with pytest.raises(DefinitionError, match="expected text in utf-8") as caught:
        read_sourcedefs(RIGHT.replace(b"CITY", b"C\xffTY"))

    assert (caught.value.where.line, caught.value.where.column) == (11, 2)


@pytest.mark.parametrize(
    ("stated", "instead", "fault"),
    [("length: 30", "length: 32", (None, 32, 30)), ("18        7", "18        9", (1, 9, 8))],
)
def test_offsets_are_those_that_the_file_states(
    stated: str, instead: str, fault: tuple[object, ...]
) -> None:
    text = (CASES / "mysql-unrounded.def").read_text()
    assert stated in text
    definitions = read_sourcedefs(text.replace(stated, instead).encode())

    assert [find_layout_fault(table) for table in definitions] == [fault]
    assert read_sourcedefs(write_sourcedefs(definitions)).tables == definitions.tables


def test_a_table_built_in_code_gets_lengths_offsets_and_ranges() -> None:
    columns = (
        Column("ID", 134, 18, key=True),
        Column("N", 64, 50, sub_type=2),
        Column("D", 192, 10),
        Column("T", 192, 26),
    )

    table = complete_table(Table("S.T", columns))

    assert [c.internal_length for c in table.columns] == [8, 50, 10, 26]
    assert [c.table_length for c in table.columns] == [8, 50, 10, 26]
    assert [c.least_significant for c in table.columns] == [0, 0, 2, 6]
    assert [c.fetch_offset for c in table.columns] == [0, 12, 68, 82]
    assert table.record_length == 112
    assert complete_table(table) == table


def test_layout_without_rounding() -> None:
    columns, length = lay_out_columns((Column("A", 132, 11), Column("B", 64, 18)), rounded=False)

    assert [c.fetch_offset for c in columns] == [0, 7]
    assert length == 30


def test_definitions_without_a_version_are_written_as_2_0() -> None:
    data = write_sourcedefs(Definitions((Table("S.T", (Column("A", 64, 4),)),)))

    assert data.startswith(b"*+- Defgen version 2.0, Encoding UTF-8\n")
    assert len(data.split(b"\nA ", 1)[1].split(b"\n")[0].split()) == 18


def test_late_attributes_raise_the_version_rather_than_being_lost() -> None:
    table = Table("S.T", (Column("A", 64, 4, native_type=12),))

    data = write_sourcedefs(Definitions((table,), DatabaseLines(version="2.0")))

    assert read_sourcedefs(data).tables[0].columns[0].native_type == 12
    assert read_sourcedefs(data).database.version == "5.0"


@pytest.mark.parametrize(
    ("table", "database"),
    [
        (Table("S.T", ()), DatabaseLines()),
        (Table("S.T\n", (Column("A", 64, 4),)), DatabaseLines()),
        (Table("S..T", (Column("A", 64, 4),)), DatabaseLines()),
        (Table("S.T", (Column("", 64, 4),)), DatabaseLines()),
        (Table("S.Ж", (Column("A", 64, 4),)), DatabaseLines(encoding="ISO-8859-1")),
        (Table("S.T", (Column("A", 64, 4),)), DatabaseLines(encoding="nonsense")),
        (Table("S.T", (Column("A", 64, 4),)), DatabaseLines(version="9")),
        (Table("S.T", (Column("A", 64, 4),)), DatabaseLines(locale="a\nb")),
        (Table("S.T", (Column("A", 64, 4, scale=5000),)), DatabaseLines()),
    ],
)
def test_what_does_not_fit_a_file_is_not_written(table: Table, database: DatabaseLines) -> None:
    with pytest.raises(EncodeError):
        write_sourcedefs(Definitions((table,), database))


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=8)
PARTS = NAMES.filter(lambda name: "." not in name and '"' not in name and name.strip() == name)
SMALL = st.integers(0, 99)
COLUMNS = st.builds(
    Column,
    NAMES,
    st.sampled_from(sorted(TYPES)),
    st.integers(1, 4000),
    scale=st.integers(-10, 10),
    nullable=st.booleans(),
    key=st.booleans(),
    occurs=SMALL,
    sub_type=SMALL,
    native_type=st.integers(-20, 400),
    character_set=st.integers(-1, 40),
)
TABLES = st.builds(
    Table,
    st.builds("{}.{}".format, PARTS, PARTS),
    st.lists(COLUMNS, min_size=1, max_size=5, unique_by=lambda c: c.name).map(tuple),
    syskey=SMALL,
).map(complete_table)


@given(
    st.lists(TABLES, max_size=3, unique_by=lambda t: t.name.casefold()).map(tuple),
    st.builds(
        DatabaseLines,
        version=st.sampled_from(["4.0", "5.0"]),
        database_type=st.sampled_from(["", "ORACLE"]),
        case_sensitivity=st.sampled_from(["", "14 14 11"]),
        time_zone=st.sampled_from(["", "GMT"]),
    ),
)
def test_written_definitions_read_back_the_same(
    tables: tuple[Table, ...], database: DatabaseLines
) -> None:
    definitions = Definitions(tables, database)

    assert read_sourcedefs(write_sourcedefs(definitions)) == definitions


@given(st.binary(max_size=300))
def test_any_bytes_are_definitions_or_our_error(data: bytes) -> None:
    _is_read(data)


@example(path=FILES[0], at=0, cut=0, put=b"")
@given(st.sampled_from(FILES), st.integers(0, 1200), st.integers(0, 40), st.binary(max_size=8))
def test_any_damage_gives_definitions_or_our_error(
    path: Path, at: int, cut: int, put: bytes
) -> None:
    data = path.read_bytes()

    damaged = data[:at] + put + data[at + cut :]

    assert _is_read(damaged) or damaged != data


def _is_read(data: bytes) -> bool:
    """Return whether bytes are definitions, which must be written the same. A refusal must name the line."""
    try:
        definitions = read_sourcedefs(data, "any.def")
    except TrailgateError as error:
        refusal = error
    else:
        again = read_sourcedefs(write_sourcedefs(definitions))
        assert again.tables == definitions.tables
        return True

    assert refusal.where.source == "any.def"
    assert refusal.where.line is not None
    return False
