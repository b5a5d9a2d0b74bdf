"""Fields of records are set by expressions, in files whose other bytes stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate.cli.main import run
from trailgate.errors import DecodeError, EncodeError, OptionError, TrailgateError
from trailgate.mainframe.jobs.editing import edit_records
from trailgate.mainframe.jobs.writing import WritingOptions

COPYBOOK = """
01 R.
   05 SEG PIC X.
   05 CUST-NAME PIC X(6).
   05 NUM PIC S9(3)V9.
   05 FILLER PIC X(2).
   05 N PIC 9.
   05 T PIC X(2) OCCURS 0 TO 3 DEPENDING ON N.
"""
NAMED = "cafe"  # bytes of FILLER


def ebcdic(text: str) -> bytes:
    return text.encode("cp037")


def record(seg: str, name: str, number: str, *tags: str) -> bytes:
    head = ebcdic(f"{seg}{name:6}{number}") + bytes.fromhex(NAMED)
    return head + ebcdic(f"{len(tags)}{''.join(tags)}")


def rdw(records: list[bytes]) -> bytes:
    return b"".join((len(r) + 4).to_bytes(2, "big") + bytes(2) + r for r in records)


def edit(data: Path, to: Path, *assignments: str, **more: Any) -> bytes:
    named = {"copybook_text": COPYBOOK, "record_format": "rdw"} | more
    edit_records(str(data), str(to), assignments, WritingOptions.of(named, in_place=True))
    return to.read_bytes() if to.is_file() else b""


# A zone of A is plus as well as C is, so that it shows whether bytes stay.
RECORDS = [record("A", "Anna", "0012"), record("B", "Bob", "012M", "aa", "bb")]
RECORDS[0] = RECORDS[0].replace(b"\xf0\xf0\xf1\xf2", b"\xf0\xf0\xf1\xa2")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(rdw(RECORDS))
    return path


def test_only_the_bytes_of_the_field_are_others(data: Path, tmp_path: Path) -> None:
    found = edit(data, tmp_path / "new", "\"CUST-NAME\"=@STRCAT('X', @STREXT(SEG, 1, 1))")

    assert found == data.read_bytes().replace(ebcdic("Anna  "), ebcdic("XA    ")).replace(
        ebcdic("Bob   "), ebcdic("XB    ")
    )


def test_an_item_of_occurs_is_set_in_the_elements_that_are_there(
    data: Path, tmp_path: Path
) -> None:
    found = edit(data, tmp_path / "new", "T=@STRUP(T)", "NUM=@IF(SEG = 'B', 1.5, NUM)")

    assert found == rdw([RECORDS[0], record("B", "Bob", "001E", "AA", "BB")])
    one = edit(data, tmp_path / "one", "T_2='zz'")
    assert one == data.read_bytes().replace(ebcdic("bb"), ebcdic("zz"))


@given(
    names=st.lists(st.text("ABC ", max_size=6), min_size=1, max_size=5),
    rest=st.binary(min_size=2, max_size=2),
)
@settings(max_examples=examples(15))
def test_setting_a_field_to_itself_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], rest: bytes
) -> None:
    folder = tmp_path_factory.mktemp("same")
    content = rdw([record("A", name, "0012").replace(b"\xca\xfe", rest) for name in names])
    (folder / "data").write_bytes(content)

    assert edit(folder / "data", folder / "new", 'CUST-NAME="CUST-NAME"') == content


def test_headers_trailers_and_the_records_of_other_kinds_stay(tmp_path: Path) -> None:
    copybook = "01 A. 05 K PIC X. 05 V PIC X(3). 01 B. 05 K PIC X. 05 W PIC X(3)."
    data = tmp_path / "data"
    data.write_bytes(b"HEAD\nA123\nBxyz\n?...\nA4\nTAIL")
    more: dict[str, Any] = {
        "copybook_text": copybook,
        "code_page": "ascii",
        "record_format": "line",
        "kinds": "K: A=A, B=B, *",
    }

    more |= {"skip_first": 1, "skip_last": 1}
    with pytest.raises(EncodeError, match=r"ends before the end of a field .*record 5"):
        edit(data, tmp_path / "new", "V='***'", **more)
    data.write_bytes(data.read_bytes().replace(b"A4", b"A456"))
    found = edit(data, tmp_path / "new", "V='***'", **more)
    assert found == b"HEAD\nA***\nBxyz\n?...\nA***\nTAIL"


@pytest.mark.parametrize(
    "more",
    [
        {"header_bytes": 5, "trailer_bytes": 4},
        {"header_bytes": 5},
        {"trailer_bytes": 4},
        {"skip_first": 1, "trailer_bytes": 4},
    ],
)
def test_records_between_bytes_of_headers_and_trailers_are_set(
    tmp_path: Path, more: dict[str, int]
) -> None:
    head = b"HEAD\n" if "header_bytes" in more or "skip_first" in more else b""
    tail = b"TAIL" if "trailer_bytes" in more else b""
    for folder in ("one", "many"):
        (tmp_path / folder).mkdir()
    for name in ("one/a", "many/a", "many/b"):
        (tmp_path / name).write_bytes(head + b"A123\nB456\n" + tail)
    how: dict[str, Any] = {
        "copybook_text": "01 A. 05 K PIC X. 05 V PIC X(3).",
        "code_page": "ascii",
        "record_format": "line",
        **more,
    }

    assert edit(tmp_path / "one" / "a", tmp_path / "new", "V='***'", **how) == (
        head + b"A***\nB***\n" + tail
    )
    edit(tmp_path / "many", tmp_path / "news", "V='***'", **how)
    changed = {path.name: path.read_bytes() for path in (tmp_path / "news").glob("[ab]")}
    assert changed == dict.fromkeys("ab", head + b"A***\nB***\n" + tail)


def test_a_folder_becomes_a_folder_with_the_same_names(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_bytes(rdw(RECORDS))

    edit(folder, tmp_path / "new", "CUST-NAME='x'")

    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["_SUCCESS", "one", "two"]
    assert (tmp_path / "new" / "one").read_bytes() == (tmp_path / "new" / "two").read_bytes()
    (folder / "two").write_bytes(rdw([RECORDS[0][:5]]))
    with pytest.raises(DecodeError, match=r"two, record 1"):
        edit(folder, tmp_path / "other", "CUST-NAME='x'")
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize(
    ("assignment", "kind", "problem"),
    [
        ("CUST-NAME='1234567'", EncodeError, r"7 bytes .*'1234567' \(.*data, record 1, field CUST"),
        ("NUM='x'", EncodeError, r"not a number that fits the field: 'x' \(.*record 1, field NUM"),
        ("NUM=1.25", EncodeError, r"not a number that fits the field: '1.25'"),
        (f"NUM='{2**128 + 1}'", EncodeError, rf"not a number that fits the field: '{2**128 + 1}'"),
        (f"NUM={2**128 * 10 + 1}", EncodeError, "not a number that fits the field: '340282"),
        ("NUM=@STRCAT(SEG)", EncodeError, r"not a number that fits the field: 'A'"),
        ("N=1", OptionError, "N is the counter of an OCCURS"),
        ("NUMB=1", OptionError, r"no field NUMB .*Did you mean NUM"),
        ("NUM=1 2", OptionError, r"expected the end"),
        ("NUM=NUMM", OptionError, r"no column NUMM"),
        ("NUM", OptionError, r"FIELD=expression was expected"),
        ("NUM=@GETENV('GGHEADER','OPTYPE')", OptionError, "@GETENV needs operations"),
        ("NUM=@BEFORE(NUM)", OptionError, "BEFORE needs operations"),
    ],
)
def test_what_does_not_fit_is_named_and_there_is_no_file(
    data: Path, tmp_path: Path, assignment: str, kind: type[TrailgateError], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        edit(data, tmp_path / "new", assignment)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_value_that_would_end_its_record_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"ab\ncd\n")
    more = {"copybook_text": "01 R. 05 A PIC X. 05 B PIC X.", "code_page": "ascii"}

    for value in ("'\n'", "@IF(A = 'c', '\r', B)"):
        with pytest.raises(EncodeError, match="not be read as it was written"):
            edit(data, tmp_path / "new", f"B={value}", record_format="line", **more)
    with pytest.raises(OptionError, match="A chooses the kinds"):
        edit(data, tmp_path / "new", "A='x'", record_format="line", kinds="A: a=R", **more)


def test_the_command_sets_fields(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.cpy").write_text(COPYBOOK)
    common = ["records", "data", "--copybook", "r.cpy", "-o", "recordFormat=rdw"]

    assert run([*common, "--set", "CUST-NAME='x'", "--set", "NUM=0", "--to", "new"]) == 0
    assert capsys.readouterr().out == "2 records in 1 file: new\n"
    assert run([*common, "--set", "NUM=0"]) == 2
    assert run([*common, "--set", "NUM=0", "--write", "--to", "other"]) == 2
    assert run([*common, "--set", "NUM=0", "--limit", "1", "--to", "other"]) == 2
