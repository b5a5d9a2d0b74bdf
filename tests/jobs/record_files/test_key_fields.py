"""Kinds of records that several fields choose, or a group of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate import (
    EncodeError,
    OptionError,
    TrailgateError,
    read_records,
    verify_records,
    write_records,
)
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.mainframe.jobs.editing import edit_records
from trailgate.mainframe.jobs.writing import WritingOptions

COPYBOOK = """
01  R.
    05  KEYS.
        10  TYPE-OF  PIC X.
        10  SUB      PIC 99.
    05  SPACER       PIC X.
    05  PART-OF      PIC S9(3) COMP-3.
    05  A.
        10  X        PIC XX.
    05  B REDEFINES A.
        10  Y        PIC 99.
    05  C REDEFINES A.
        10  Z        PIC X.
        10  FILLER   PIC X.
"""
# Ways to choose by: records of type D and part 1 are A, others of type D are B, of type E with part 1 or 2 C.
CHOICES: dict[str, Any] = {
    "fields": "TYPE-OF + SUB: D + 1=A, D + *=B, E + 1|E + 02=C",
    "a range": "TYPE-OF + SUB: D + 1=A, D + 2 THRU 99|D+0=B, E + 1 THRU 2=C",
    "a field apart": "TYPE-OF+PART-OF: D + 1 = A, D + * = B, 'E'+1|E+2=C",
    "a group": "KEYS: D01=A, D00|D02 THRU D99=B, E01|E02=C",
    "tuples": {("TYPE-OF", "SUB"): {("D", 1): "A", ("D", "*"): "B", ("E", 1): "C", ("E", 2): "C"}},
    "a mapping of texts": {"sub + type-of": {"1 + D": "A", "* + D": "B", "1 THRU 2 + E": "C"}},
}
HOW: dict[str, Any] = {"copybook_text": COPYBOOK, "code_page": "ascii"}


def record(type_of: str, part: int, content: str) -> bytes:
    return f"{type_of}{part:02d} ".encode() + bytes.fromhex(f"{part:03d}C") + content.encode()


def expected(type_of: str, part: int) -> str | None:
    if type_of == "D":
        return "A" if part == 1 else "B"
    return "C" if part in (1, 2) else None


@settings(max_examples=examples(30), deadline=None)
@given(
    st.sampled_from(sorted(CHOICES)),
    st.lists(st.tuples(st.sampled_from("DE"), st.integers(0, 4)), min_size=1, max_size=12),
)
def test_the_values_of_all_fields_choose(
    tmp_path_factory: pytest.TempPathFactory, choice: str, keys: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("kinds") / "data"
    records = [record(*key, "77") for key in keys]
    path.write_bytes(b"".join(records))
    kinds = [expected(*key) for key in keys]

    if None in kinds:
        with pytest.raises(TrailgateError, match="is not a kind of record") as error:
            read_records(path, kinds=CHOICES[choice], **HOW).read_all()
        assert error.value.where.record == kinds.index(None) + 1
        return
    found = read_records(path, kinds=CHOICES[choice], **HOW).read_all()
    assert found["_record"].to_pylist() == kinds
    again = path.with_name("again")
    write_records(found.to_batches(), again, kinds=CHOICES[choice], raw=False, **HOW)
    assert [again.read_bytes()[at : at + 7] for at in range(0, len(keys) * 8, 8)] == [
        r[:3] + b" " + r[4:6] + (b"7" if kind == "C" else b"77")[:1]
        for r, kind in zip(records, kinds, strict=True)
    ]


@pytest.mark.parametrize("choice", ["fields", "a field apart", "tuples"])
def test_records_of_their_own_lengths(choice: str, tmp_path: Path) -> None:
    records = [record("D", 1, "ab"), record("D", 4, "12"), record("E", 2, "z ")]
    (tmp_path / "data").write_bytes(b"".join(records))

    found = read_records(
        tmp_path / "data", kinds=CHOICES[choice], record_format="layout", raw=True, **HOW
    ).read_all()

    assert found["_record"].to_pylist() == ["A", "B", "C"]
    assert found["_raw"].to_pylist() == records


def test_blanks_choose_in_files_of_nothing_but_records(tmp_path: Path) -> None:
    text = "01 R. 05 T PIC X. 05 A. 10 X PIC X. 05 B REDEFINES A. 10 Y PIC XXX."
    (tmp_path / "data").write_bytes(b"Tx yyy\0zzzTw")
    found = read_records(
        tmp_path / "data",
        copybook_text=text,
        kinds="T: T=A, =B",
        record_format="layout",
        code_page="ascii",
    ).read_all()
    assert found["_record"].to_pylist() == ["A", "B", "B", "A"]


def test_a_record_that_would_be_of_another_kind_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(record("D", 1, "ab"))
    how = {**HOW, "kinds": CHOICES["fields"]}
    (row,) = read_records(tmp_path / "data", **how).read_all().to_pylist()
    table = read_records(tmp_path / "data", **how).read_all()
    wrong = table.from_pylist(
        [{**row, "A": {**row["A"], "KEYS": {"TYPE-OF": "D", "SUB": 2}}}], schema=table.schema
    )

    with pytest.raises(
        EncodeError, match=r"a record of A would be read as a record of B .*TYPE-OF \+ SUB"
    ):
        write_records(wrong.to_batches(), tmp_path / "again", **how)


def test_items_of_the_key_are_not_set(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(record("D", 1, "ab"))
    for choice in ("fields", "a group"):
        options = WritingOptions.of({**HOW, "kinds": CHOICES[choice]}, in_place=True)
        with pytest.raises(
            OptionError, match="SUB chooses the kinds of records, so it cannot be set"
        ):
            edit_records(tmp_path / "data", str(tmp_path / "new"), ["SUB=2"], options)


def test_records_of_no_kind_are_verified(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(record("D", 1, "ab") + record("E", 7, "ab"))
    report = verify_records(tmp_path / "data", kinds=CHOICES["fields"], **HOW)
    assert "kind of record" in str(report)


def _wrong() -> Iterator[tuple[str, str, str]]:
    yield "TYP-OF: D=A, E=B", COPYBOOK, "no field TYP-OF in the records .*TYPE-OF"
    yield "TYPE-OF + SUBB: D + 1=A", COPYBOOK, "no field SUBB in the records .*SUB"
    yield "TYPE-OF + SUB: D=A", COPYBOOK, "a value of each of 2 fields was expected, not 'D=A'"
    yield (
        "TYPE-OF: D + 1=A",
        COPYBOOK.replace("TYPE-OF  PIC X", "TYPE-OF PIC 9"),
        r"cannot have the value 'D \+ 1'",
    )
    yield "TYPE-OF + TYPE-OF: D + E=A", COPYBOOK, "a field is named twice"
    yield "Y: 1=A, 2=B", COPYBOOK, "the record A has no field Y .*at the same offset"
    packed = COPYBOOK.replace("SUB      PIC 99.", "SUB      PIC 99 COMP-3.")
    yield "KEYS: D01=A", packed, r"the group KEYS is not text: SUB is packed .*ITEM \+ ITEM"
    twice = "01 A. 05 G. 10 K PIC X. 05 H. 10 K PIC X."
    yield "K: D=A", twice, "the record A has 2 fields K"
    apart = "01 A. 05 K PIC X. 05 B PIC X.\n01 B. 05 C PIC X. 05 K PIC X."
    yield "K: D=A, E=B", apart, "K is at byte 0 of A with 1 bytes, and at byte 1 of B with 1"


def _without_effect() -> Iterator[tuple[str, str, str]]:
    yield "TYPE-OF: D=A, D=B", COPYBOOK, "'D'=B has no effect, since 'D'=A before it"
    yield "TYPE-OF: D|E=A, 'E '=B", COPYBOOK, "'E '=B has no effect"
    yield "SUB: 1 THRU 9=A, 07=B", COPYBOOK, "'07'=B has no effect, since '1' to '9'=A"
    yield "SUB: 1 THRU 9=A, 2 THRU 9|10=B", COPYBOOK, "'2' to '9'=B has no effect"
    yield "TYPE-OF: =A, ' '=B", COPYBOOK, "' '=B has no effect"
    yield "TYPE-OF + SUB: D + *=A, D + 1=B", COPYBOOK, r"'D' \+ '1'=B has no effect"
    yield "TYPE-OF + SUB: * + 1=A, * + 1=B", COPYBOOK, r"\* \+ '1'=B has no effect"
    yield "SUB: 9 THRU 1=A", COPYBOOK, "'9' to '1' has no values .*Write 1 THRU 9"
    yield "TYPE-OF: D=A, *=B, *=C", COPYBOOK, r"\* is stated twice"
    yield "TYPE-OF: D=A, *, *=C", COPYBOOK, r"\* is stated twice"


def test_rules_of_one_record_and_broader_rules_may_overlap(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"".join(record("D", part, "11") for part in (3, 1, 9, 12)))
    kinds = "SUB: 3=A, 3 THRU 4=A, 1 THRU 9=B, 9 THRU 12=C"
    rows = read_records(tmp_path / "data", kinds=kinds, **HOW).read_all()
    assert rows["_record"].to_pylist() == ["A", "B", "B", "C"]


@pytest.mark.parametrize(("kinds", "copybook", "message"), [*_wrong(), *_without_effect()])
def test_wrong_fields_are_named(kinds: str, copybook: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b" ")
    with pytest.raises(OptionError, match=message):
        read_records(tmp_path / "data", copybook_text=copybook, kinds=kinds, record_format="line")


def test_values_with_marks_are_quoted() -> None:
    kinds = RecordKinds.parse("A + B: '+' + \"|\"=X, 'a+b' + *|* + c=Y")
    assert [str(rule) for rule in kinds.rules] == ["'+' + '|'", "'a+b' + *", "* + 'c'"]
    assert RecordKinds.parse("A: '+'=X, +=Y, 1+1=Z").rules[2].values[0].low == "1+1"
