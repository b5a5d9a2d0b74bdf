"""Names of columns for SQL, FILLER that is kept, and several copybooks in one read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trailgate
from trailgate.errors import OptionError

COPYBOOK = """
01 CUST-REC.
   05 CUST-ID PIC X(2).
   05 FILLER PIC X(2).
   05 PHONE-NO PIC X(2) OCCURS 2.
   05 HOME-ADDRESS.
      10 FILLER PIC 9.
      10 CITY-NAME PIC X.
   05 ITEM-COUNT PIC 9.
   05 ITEM-CODE PIC X OCCURS 0 TO 2 DEPENDING ON ITEM-COUNT.
"""
DATA = b"AB\x00\x01p1p21C2xy"


def row(tmp_path: Path, **options: Any) -> dict[str, Any]:
    (tmp_path / "data").write_bytes(DATA)
    given = {"copybook_text": COPYBOOK, "code_page": "ascii"} | options
    (found,) = trailgate.read_records(tmp_path / "data", **given).read_all().to_pylist()
    return dict(found)


def test_names_for_sql_have_underscores_in_every_shape(tmp_path: Path) -> None:
    assert row(tmp_path, names="sql") == {
        "CUST_ID": "AB",
        "PHONE_NO": ["p1", "p2"],
        "HOME_ADDRESS": {"CITY_NAME": "C"},
        "ITEM_COUNT": 2,
        "ITEM_CODE": ["x", "y"],
    }
    flat = row(tmp_path, names="sql", shape="flat")
    assert [*flat][:3] == ["CUST_ID", "PHONE_NO_1", "PHONE_NO_2"]
    for name in ("PHONE-NO", "PHONE_NO"):
        assert row(tmp_path, names="sql", columns=[name]) == {"PHONE_NO": ["p1", "p2"]}


def test_filler_is_kept_by_its_picture_or_as_bytes(tmp_path: Path) -> None:
    kept = row(tmp_path, filler="keep", shape="flat")
    raw = row(tmp_path, filler="bytes", names="sql")

    assert (kept["FILLER_1"], kept["FILLER_2"]) == ("\x00\x01", 1)
    assert raw["FILLER_1"] == b"\x00\x01"
    assert raw["HOME_ADDRESS"] == {"FILLER_2": b"1", "CITY_NAME": "C"}


@pytest.mark.parametrize("shape", ["tree", "flat"])
def test_kept_filler_and_other_names_are_written_byte_for_byte(tmp_path: Path, shape: Any) -> None:
    (tmp_path / "data").write_bytes(DATA)
    options: Any = {"copybook_text": COPYBOOK, "code_page": "ascii", "names": "sql"}
    options |= {"filler": "bytes", "shape": shape, "rename": {"CITY-NAME": "TOWN"}}
    batches = trailgate.read_records(tmp_path / "data", **options)

    trailgate.write_records(batches, tmp_path / "new", **options)

    assert (tmp_path / "new").read_bytes() == DATA


def test_items_and_elements_are_renamed_by_a_map(tmp_path: Path) -> None:
    rename = "PHONE-NO_1=HOME_PHONE, PHONE-NO_2=WORK_PHONE, CITY-NAME=TOWN, CUST-ID=KEY"
    flat = row(tmp_path, rename=rename, shape="flat")
    tree = row(tmp_path, rename={"phone-no": "PHONES", "ITEM-COUNT": "N"})

    assert [*flat][:4] == ["KEY", "HOME_PHONE", "WORK_PHONE", "TOWN"]
    assert (tree["PHONES"], tree["N"], tree["ITEM-CODE"]) == (["p1", "p2"], 2, ["x", "y"])
    swapped = row(tmp_path, rename="CUST-ID=CITY-NAME, CITY-NAME=CUST-ID", shape="flat")
    assert (swapped["CITY-NAME"], swapped["CUST-ID"]) == ("AB", "C")
    some = row(tmp_path, rename=rename, shape="flat", columns="PHONE-NO_2,KEY")
    assert some == {"KEY": "AB", "WORK_PHONE": "p2"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rename": "CITY=TOWN"}, r"no item or column CITY in the copybook"),
        ({"rename": "PHONE-NO_1=P"}, r"PHONE-NO_1 is a column only with shape=flat"),
        ({"rename": "CUST-ID=CITY-NAME"}, r"both become CITY-NAME"),
        ({"rename": "PHONE-NO_1=CUST-ID", "shape": "flat"}, r"two columns .* have the same name"),
        ({"names": "sql", "copybook_text": "01 R. 05 A-B PIC X. 05 A_B PIC X."}, "both become A_B"),
    ],
)
def test_names_that_are_not_distinct_are_refused(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        row(tmp_path, **options)


HEAD, BODY = (
    "01 HEAD-REC. 05 K PIC X. 05 A-1 PIC X(2).",
    "01 BODY-REC. 05 K PIC X. 05 B-1 PIC 9(2).",
)


def test_several_copybooks_are_the_kinds_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "head.cpy").write_text(HEAD)
    (tmp_path / "body.cpy").write_text(BODY)
    (tmp_path / "data").write_bytes(b"Habb12")
    paths = [tmp_path / "head.cpy", tmp_path / "body.cpy"]
    options: Any = {"kinds": "K: H=HEAD-REC, b=BODY-REC", "code_page": "ascii", "names": "sql"}

    found = trailgate.read_records(tmp_path / "data", paths, **options).read_all()
    text = ",".join(map(str, paths))

    assert found.to_pylist() == [
        {"_record": "HEAD_REC", "HEAD_REC": {"K": "H", "A_1": "ab"}, "BODY_REC": None},
        {"_record": "BODY_REC", "HEAD_REC": None, "BODY_REC": {"K": "b", "B_1": 12}},
    ]
    assert trailgate.read_records(tmp_path / "data", text, **options).read_all() == found
    (tmp_path / "body.cpy").write_text(HEAD)
    with pytest.raises(
        OptionError, match=r"another copybook has a record HEAD-REC too \(.*body.cpy"
    ):
        trailgate.read_records(tmp_path / "data", paths, **options)


@pytest.mark.parametrize("shape", ["tree", "flat"])
def test_fields_state_what_they_are_in_the_copybook(tmp_path: Path, shape: Any) -> None:
    (tmp_path / "data").write_bytes(DATA)
    options: Any = {"copybook_text": COPYBOOK, "code_page": "ascii", "shape": shape}

    reader = trailgate.read_records(tmp_path / "data", **options)
    schema = reader.schema

    assert schema.field("CUST-ID").metadata == {
        b"item": b"CUST-ID",
        b"level": b"05",
        b"picture": b"X(2)",
        b"usage": b"text",
        b"offset": b"0",
        b"length": b"2",
        b"comment": b"PIC X(2) text, offset 0, length 2",
    }
    if shape == "flat":
        assert schema.field("PHONE-NO_2").metadata[b"offset"] == b"6"
    else:
        occurs = schema.field("ITEM-CODE").metadata
        city = schema.field("HOME-ADDRESS").type.field("CITY-NAME")
        assert occurs[b"occurs"] == b"0 to 2 by ITEM-COUNT"
        assert city.metadata[b"offset"] == b"9"
        assert schema.field("HOME-ADDRESS").metadata[b"usage"] == b"group"
    assert reader.read_all().schema.field("CUST-ID").metadata[b"length"] == b"2"


def test_fields_of_kinds_and_of_some_columns_are_described(tmp_path: Path) -> None:
    copybook = "01 A. 05 K PIC X. 05 G. 10 N PIC 9. 10 N PIC 99. 01 B. 05 K PIC X. 05 M PIC 999."
    (tmp_path / "data").write_bytes(b"A123")
    options: Any = {"copybook_text": copybook, "code_page": "ascii"}

    kinds = trailgate.read_records(tmp_path / "data", kinds="K: A=A, B=B", **options).schema
    some = trailgate.read_records(tmp_path / "data", record="A", columns="N_2", **options).schema

    assert kinds.field("B").type.field("M").metadata[b"digits"] == b"3"
    assert kinds.field("A").type.field("G").type.field("N_2").metadata[b"offset"] == b"2"
    assert [field.metadata[b"offset"] for field in some.field("G").type] == [b"2"]


SALES = """
01 SHOP.
   05 SALES OCCURS 3.
      10 AMOUNT PIC 9.
      10 TAG-OF PIC X OCCURS 2.
   05 PHONE PIC X OCCURS 2.
"""
MONTHS = "SALES=JAN|FEB|MAR, TAG-OF=A|B, PHONE=HOME|WORK"


def shop(tmp_path: Path, **options: Any) -> dict[str, Any]:
    (tmp_path / "shop").write_bytes(b"1ab2cd3efxy")
    given = {"copybook_text": SALES, "code_page": "ascii", "shape": "flat"} | options
    (found,) = trailgate.read_records(tmp_path / "shop", **given).read_all().to_pylist()
    return dict(found)


def test_elements_of_an_occurs_have_names(tmp_path: Path) -> None:
    found = shop(tmp_path, element_names=MONTHS)
    assert [*found] == [
        *("AMOUNT_JAN", "TAG-OF_JAN_A", "TAG-OF_JAN_B"),
        *("AMOUNT_FEB", "TAG-OF_FEB_A", "TAG-OF_FEB_B"),
        *("AMOUNT_MAR", "TAG-OF_MAR_A", "TAG-OF_MAR_B"),
        *("PHONE_HOME", "PHONE_WORK"),
    ]
    assert [*found.values()] == [1, "a", "b", 2, "c", "d", 3, "e", "f", "x", "y"]
    mapping = {"sales": ["JAN", "FEB", "MAR"], "phone": ["HOME", "WORK"]}
    more = shop(tmp_path, element_names=mapping, names="sql", columns="TAG_OF_FEB_2, PHONE_WORK")
    assert more == {"TAG_OF_FEB_2": "d", "PHONE_WORK": "y"}
    renamed = shop(tmp_path, element_names=MONTHS, rename="PHONE_WORK=OFFICE", columns="OFFICE")
    assert renamed == {"OFFICE": "y"}


def test_named_elements_are_written_byte_for_byte(tmp_path: Path) -> None:
    shop(tmp_path)
    options: Any = {"copybook_text": SALES, "code_page": "ascii", "shape": "flat"}
    options["element_names"] = MONTHS
    found = trailgate.read_records(tmp_path / "shop", **options)

    trailgate.write_records(found, tmp_path / "new", **options)

    assert (tmp_path / "new").read_bytes() == (tmp_path / "shop").read_bytes()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("SALE=A|B", "elementNames: no item SALE in the copybook.*SALES"),
        ("PHONE=A|B|C", "3 names for PHONE, which has 2"),
        ("PHONE=A", "1 names for PHONE, which has 2"),
        ("AMOUNT=A", "1 names for AMOUNT, which has 1"),
        ("PHONE=A|a", "two elements of PHONE have the same name, or a name"),
        ("PHONE=A|", "two elements of PHONE have the same name, or a name"),
        ("PHONE", "ITEM=NAME.NAME was expected"),
    ],
)
def test_names_of_elements_that_are_not_there_are_refused(
    tmp_path: Path, names: str, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        shop(tmp_path, element_names=names)


def test_elements_of_a_tree_have_no_names(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match="elementNames: elements are columns only with shape=flat"
    ):
        shop(tmp_path, element_names=MONTHS, shape="tree")
