"""Files of segments: one record whose REDEFINES a field chooses, as structs, as tables, and with ids."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from oracles import cobol_naive as naive
from trailgate.cli.main import run
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.copybook.segment_layouts import find_layout_or_segment
from trailgate.errors import DecodeError, OptionError
from trailgate.mainframe.jobs import parquet
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_records

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
KINDS = "SEG: O=OWNER, P1|P2=PART, S THRU T=SUM"


def ebcdic(text: str) -> bytes:
    return text.encode("cp037")


OWNER = ebcdic("O 001Smith Rome")
PART = ebcdic("P20012AABB")
SUM = ebcdic("T 001") + b"\x00\x12\x34\x5d" + ebcdic("xyz")


@pytest.fixture
def copybook(tmp_path: Path) -> Path:
    path = tmp_path / "claim.cpy"
    path.write_text(COPYBOOK)
    return path


def rows(path: Path, copybook: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read_records(path, copybook, **options) for row in batch.to_pylist()]


def rdw(records: list[bytes]) -> bytes:
    return b"".join((len(r) + 4).to_bytes(2, "big") + b"\0\0" + r for r in records)


def test_a_segment_has_the_common_items_and_its_own(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(rdw([OWNER, PART, SUM]))

    found = rows(data, copybook, record_format="rdw", kinds=KINDS)

    assert [row["_record"] for row in found] == ["OWNER", "PART", "SUM"]
    assert found[0]["OWNER"] == {"SEG": "O", "ID": 1, "NAME": "Smith", "PLACE": "Rome"}
    assert found[1]["PART"] == {
        "SEG": "P2",
        "ID": 1,
        "N": 2,
        "LINE": [{"CODE": "AA"}, {"CODE": "BB"}],
    }
    assert found[2]["SUM"] == {"SEG": "T", "ID": 1, "AMOUNT": Decimal("-123.45"), "ID_2": "xyz"}
    assert found[0]["PART"] is found[0]["SUM"] is found[2]["OWNER"] is None


def test_one_segment_is_a_table(tmp_path: Path, copybook: Path) -> None:
    """Of the other kinds nothing is decoded, so what is wrong in them is not met."""
    data = tmp_path / "data"
    data.write_bytes(rdw([OWNER, SUM[:5] + b"\xff" * 4 + SUM[9:], PART]))
    options = {"record_format": "rdw", "kinds": KINDS}

    found = rows(data, copybook, segment="owner", shape="flat", **options)
    some = rows(data, copybook, segment="PART", columns="LINE", raw=True, **options)

    assert found == [{"SEG": "O", "ID": 1, "NAME": "Smith", "PLACE": "Rome"}]
    assert some == [{"LINE": [{"CODE": "AA"}, {"CODE": "BB"}], "_raw": PART}]
    with pytest.raises(DecodeError, match=r"record 2, byte 28, field AMOUNT"):
        rows(data, copybook, segment="SUM", **options)
    with pytest.raises(OptionError, match=r"segment: PRAT is not a kind of record.*PART"):
        rows(data, copybook, segment="PRAT", **options)


@pytest.mark.parametrize(
    ("picture", "kinds", "values", "expected"),
    [
        ("PIC 99", "K: 1=A, 02 THRU 9|12=B", ["01", "02", "09", "12"], "ABBB"),
        ("PIC 99", "K: 1=A, *=B", ["01", "77", "  ", "\0\0"], "ABBB"),
        ("PIC 99", "K: 1=A, ''=B", ["01", "  ", "\0\0"], "ABB"),
        ("PIC XX", "K: A=A, =B", ["A ", "A\0", "\0\0", "  "], "AABB"),
        ("PIC XX", "K: 'A,B=''|x'=A, \"B\"=A, *=B", ["B ", "C "], "AB"),
        ("PIC XX", "K: a THRU zz=A, A1 THRU A9=B, *", ["b ", "A5", "zb", "z9"], "ABA"),
        ("PIC S99 COMP-3", "K: -1=A, 0 THRU 99=B", [b"\x00\x1d", b"\x00\x0c"], "AB"),
        ("PIC S9(4) COMP", "K: -1=A\n258=B\n*", [b"\xff\xff", b"\x01\x02", b"\0\0"], "AB"),
    ],
)
def test_values_are_compared_as_the_field_has_them(
    tmp_path: Path, picture: str, kinds: str, values: list[Any], expected: str
) -> None:
    data, copybook = tmp_path / "data", tmp_path / "r.cpy"
    copybook.write_text(f"01 R. 05 K {picture}. 05 A. 10 X PIC X. 05 B REDEFINES A. 10 Y PIC X.")
    raws = [value if isinstance(value, bytes) else ebcdic(value) for value in values]
    data.write_bytes(b"".join(raw + b"\xc1" for raw in raws))

    found = rows(data, copybook, kinds=kinds, columns="X,Y")
    from_file = tmp_path / "kinds.txt"
    from_file.write_text(kinds)

    assert "".join(row["_record"] for row in found) == expected
    assert rows(data, copybook, kinds=f"@{from_file}", columns="X,Y") == found


def test_kinds_are_a_mapping_too(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(rdw([OWNER, PART, SUM]))

    mapping = {"SEG": {"O": "OWNER", "P1|P2": "PART", "*": None}}
    found = rows(data, copybook, record_format="rdw", kinds=mapping)

    assert [row["_record"] for row in found] == ["OWNER", "PART"]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("SEG: O=OWNER, P=NAME", "NAME is an item of the record CLAIM, not a record"),
        (
            "SEG: O=OWNER, P=PARD",
            r"kinds: 'P'=PARD: no record PARD in the copybook \(field SEG\)\. Did you mean PART\? Known: .*OWNER",
        ),
        ("SEG: O=OWNER, P", "VALUE=RECORD was expected, not 'P'"),
        ("SEG: O=OWNER, 'P=PART", "a quote is not closed"),
        ("SEG: O|=OWNER", "VALUE=RECORD was expected"),
        ("ID: O=OWNER, 2=PART", "does not distinguish|cannot have the value 'O'"),
        (
            "SEG O=OWNER",
            "kinds: 'SEG O=OWNER' has no colon after the field .*They are written FIELD",
        ),
        ("@nowhere.txt", "nowhere.txt"),
        ({"A": {}, "B": {}}, "with one key"),
        ({"SEG": ["O"]}, "the kinds by SEG"),
    ],
)
def test_wrong_kinds_are_named(copybook: Path, kinds: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        read_records(copybook, copybook, record_format="rdw", kinds=kinds)


@pytest.mark.parametrize("value", ["1?", "1"])
def test_a_value_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path, value: str) -> None:
    data, copybook = tmp_path / "data", tmp_path / "r.cpy"
    copybook.write_text("01 R. 05 K PIC 99. 05 A. 10 X PIC X. 05 B REDEFINES A. 10 Y PIC X.")
    data.write_bytes(b"01x\n" + value.encode() + b"\n")
    options = {"record_format": "line", "code_page": "ascii", "kinds": "K: 1=A, *=B"}

    with pytest.raises(DecodeError, match=r"record 2, byte 4, field K"):
        rows(data, copybook, **options)


def test_ids_are_those_of_the_records_above(tmp_path: Path, copybook: Path) -> None:
    """Whatever is read together; a record without one above it has NULL there."""
    data = tmp_path / "data"
    records = [SUM, OWNER, PART, SUM, SUM, PART, OWNER, SUM, PART]
    data.write_bytes(b"".join(r.ljust(15, b"\x40") for r in records))
    options = {"kinds": KINDS, "parents": "PART=OWNER, sum=part", "split_bytes": 30}

    found = rows(data, copybook, **options)
    of_sums = rows(data, copybook, segment="SUM", **options)

    at = {row: 15 * row for row in range(9)}
    assert [(r["_record_id"], r["_id_0"], r["_id_1"], r["_id_2"]) for r in found] == [
        (at[0], None, None, at[0]),
        (at[1], at[1], None, None),
        (at[2], at[1], at[2], None),
        (at[3], at[1], at[2], at[3]),
        (at[4], at[1], at[2], at[4]),
        (at[5], at[1], at[5], None),
        (at[6], at[6], None, None),
        (at[7], at[6], None, at[7]),
        (at[8], at[6], at[8], None),
    ]
    assert {row["_file"] for row in found} == {str(data)}
    assert [r["_record_id"] for r in of_sums] == [at[0], at[3], at[4], at[7]]
    assert of_sums[1]["_id_1"] == at[2]
    for parents, message in (
        ("PART=OWNR", "parents: PART=OWNR: OWNR is not a kind.*OWNER"),
        ("PART=SUM, SUM=PART", "is below itself"),
        ("PART", "CHILD=PARENT was expected"),
    ):
        with pytest.raises(OptionError, match=message):
            rows(data, copybook, kinds=KINDS, parents=parents)
    with pytest.raises(OptionError, match="parents is an option of files of several kinds"):
        rows(data, copybook, parents="A=B")


def test_a_segment_inside_a_group_leaves_other_redefinitions_alone() -> None:
    text = """01 R. 05 K PIC X. 05 D PIC 9(4). 05 E REDEFINES D PIC X(4).
      05 G. 10 A. 15 X PIC X(3). 10 B REDEFINES A. 15 Y PIC X(5). 10 C REDEFINES A.
        15 Z PIC X. 15 H. 20 W PIC X. 05 L PIC X."""
    layouts = read_copybook(text)

    listing = {
        name: [f"{f.name}{f.offset}" for f in find_layout_or_segment(layouts, name).root.walk()][1:]
        for name in ("A", "C", "H")
    }

    assert listing["A"] == ["K0", "D1", "E1", "G5", "A5", "X5", "L10"]
    assert listing["C"] == ["K0", "D1", "E1", "G5", "A5", "C5", "Z5", "H6", "W6", "L10"]
    assert listing["H"] == listing["C"]


RECORD = st.tuples(
    st.sampled_from(["O", "P1", "P2", "S", "T"]), st.binary(min_size=13, max_size=13)
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(RECORD, min_size=1, max_size=12))
def test_segments_are_what_each_record_alone_is(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, bytes]]
) -> None:
    """The oracle reads the record's own segment, item by item; what has no value is NULL."""
    folder = tmp_path_factory.mktemp("segments")
    data, copybook = folder / "data", folder / "claim.cpy"
    copybook.write_text(COPYBOOK)
    records = [ebcdic(segment.ljust(2)) + rest for segment, rest in made]
    data.write_bytes(b"".join(records))
    options = {"kinds": KINDS, "shape": "flat", "errors": "column", "depending": "most"}

    found = rows(data, copybook, **options)

    segments = naive.segments_of(read_copybook(COPYBOOK)[0], 2)
    chosen = {"O": "OWNER", "P1": "PART", "P2": "PART", "S": "SUM", "T": "SUM"}
    for (segment, _), record, row in zip(made, records, found, strict=True):
        name = chosen[segment]
        reader = naive.VaryingReader(record, naive.Reading(padding="left"), real=False)
        expected = [item.value for item in reader.read(segments[name])]
        assert row["_record"] == name
        assert list(row[name].values()) == expected


def test_each_segment_becomes_a_folder_of_parquet(
    tmp_path: Path, copybook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, target = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    (data / "a").write_bytes(rdw([OWNER, PART, PART]))
    (data / "b").write_bytes(rdw([OWNER] * 2))
    options = {"recordFormat": "rdw", "kinds": KINDS, "parents": "PART=OWNER, SUM=OWNER"}
    named = [word for option in options.items() for word in ("-o", "=".join(option))]
    command = ["records", str(data), "--copybook", str(copybook), *named]

    assert run([*command, "--to", str(target)]) == 0

    shown = capsys.readouterr().out
    assert "5 records in 2 parts" in shown
    assert "written: 5 records (OWNER 3, PART 2)" in shown
    tables = {name: pq.read_table(target / name) for name in ("OWNER", "PART", "SUM")}
    assert sorted(path.name for path in target.iterdir()) == ["OWNER", "PART", "SUM", "_SUCCESS"]
    assert [len(list((target / name).iterdir())) for name in tables] == [2, 1, 1]
    for name, table in tables.items():
        read = read_records(data, copybook, record_format="rdw", kinds=KINDS, segment=name)
        assert table.drop_columns(["_file", "_record_id", "_id_0", "_id_1"]) == read.read_all()
    assert tables["PART"].column("_id_0").to_pylist() == [4, 4]
    assert tables["PART"].column("_file").to_pylist() == [str(data / "a")] * 2
    assert run([*command, "--to", str(target)]) == 1
    assert "not empty" in capsys.readouterr().err


def test_tables_are_written_as_they_grow(
    tmp_path: Path, copybook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest one goes first, and no row is lost."""
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 2000)
    data = tmp_path / "data"
    data.write_bytes(
        b"".join([OWNER.ljust(15), PART.ljust(15, b"\x40"), PART.ljust(15, b"\x40")] * 50)
    )
    options = CopybookOptions.of({"copybook": copybook, "kinds": KINDS, "split_bytes": 450})

    assert parquet.run_local(parquet.prepare_parquet(data, str(tmp_path / "out"), options)) == 150

    found = pq.read_table(tmp_path / "out" / "PART")
    assert found.column("N").to_pylist() == [2] * 100
    assert pq.read_table(tmp_path / "out" / "OWNER").num_rows == 50
