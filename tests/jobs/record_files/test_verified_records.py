"""Files of records verified: what is bad by field and reason, where, and that nothing is missed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trailgate
from framed_files import frame
from laws import examples
from trailgate.cli.main import run
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.errors import OptionError
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_records
from trailgate.mainframe.jobs.verifying import (
    RecordsReport,
    join_findings,
    prepare_verify,
    verify_records,
    verify_splits,
)

COPYBOOK = """
01 R.
   05 K PIC X.
   05 N PIC 9(4).
   05 S PIC S9(3).
   05 E PIC S9(2) SIGN LEADING SEPARATE.
   05 Q PIC S9(3) COMP-3.
   05 U PIC 9(4) COMP-6.
   05 Z PIC ZZ9.
"""
GOOD = "A0012123+12".encode("cp037") + b"\x12\x3c\x12\x34" + "  7".encode("cp037")
BAD = [
    ("N", "digit", "00?2"),
    ("N", "padding", "12  "),
    ("N", "sign", "001K"),
    ("N", "digit", "001?"),
    ("N", "blank", "    "),
    ("N", "low-values", "\0\0\0\0"),
    ("S", "digit", "A23"),
    ("S", "padding", "12 "),
    ("E", "sign", "?12"),
    ("E", "sign", "112"),
    ("E", "digit", "+A2"),
    ("Q", "sign", b"\x12\x34"),
    ("Q", "digit", b"\x1a\x3c"),
    ("Q", "blank", b"\x40\x40"),
    ("U", "digit", b"\x1a\x34"),
    ("Z", "picture", "7 7"),
    ("Z", "low-values", "\0\0\0"),
]
PLACES = {"K": 0, "N": 1, "S": 5, "E": 8, "Q": 11, "U": 13, "Z": 15}


def with_bytes(field: str, value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode("cp037")
    at = PLACES[field]
    return GOOD[:at] + raw + GOOD[at + len(raw) :]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "r.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(GOOD)
    return [str(tmp_path / "data"), str(tmp_path / "r.cpy")]


def counts(report: RecordsReport) -> dict[tuple[str, str], int]:
    return {(one.field, one.reason): one.count for one in report.fields}


@pytest.mark.parametrize(("field", "reason", "value"), BAD)
def test_bytes_have_one_reason_with_their_place(
    files: list[str], field: str, reason: str, value: str | bytes
) -> None:
    bad = with_bytes(field, value)
    Path(files[0]).write_bytes(GOOD + bad + GOOD)

    report = verify_records(*files)

    assert counts(report) == {(field, reason): 1}
    ((place,), raw) = report.fields[0].examples, with_bytes(field, value)
    assert (place.file, place.record) == (files[0], 2)
    assert place.offset == len(GOOD) + PLACES[field]
    assert raw[PLACES[field] :].startswith(place.raw)
    assert (report.records, report.bad_records, report.is_good) == (3, 1, False)


def test_what_the_picture_has_no_room_for_has_a_reason_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "r.cpy").write_text("01 R. 05 Q PIC S9(4) COMP-3. 05 B PIC S9(2) COMP.")
    rows = [b"\x11\x23\x4c\0\1", b"\x01\x23\x4a\0\1", b"\x01\x23\x4c\0\x64"]
    (tmp_path / "data").write_bytes(b"".join(rows))
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]

    report = verify_records(*files, signs="strict")

    expected = {("Q", "too many digits"): 1, ("Q", "sign"): 1, ("B", "too many digits"): 1}
    assert counts(report) == expected
    assert counts(verify_records(*files)) == {("Q", "too many digits"): 1}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.builds(
            lambda *parts: b"".join(parts),
            st.sampled_from([b"\xc1", b"\xc2"]),
            st.binary(min_size=0, max_size=20) | st.just(GOOD[1:]),
        ),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from([{}, {"blank": "null"}, {"short": "pad"}, {"padding": "trim"}]),
)
def test_as_much_is_bad_as_the_column_of_errors_has(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], more: dict[str, Any]
) -> None:
    """Of any bytes, with and without kinds: by field, and the records."""
    folder = tmp_path_factory.mktemp("verified")
    copybook, data = folder / "r.cpy", folder / "data"
    copybook.write_text(
        COPYBOOK + "01 T. 05 K PIC X. 05 C PIC 9. 05 L PIC 99 OCCURS 0 TO 3 DEPENDING ON C."
    )
    data.write_bytes(frame(records, Framing(FrameKind.RDW)))
    for chosen in ({"record": "R"}, {"record": "T"}, {"kinds": "K: A=R, B=T"}):
        options: dict[str, Any] = {"record_format": "rdw", **chosen, **more}
        rows = read_records(data, copybook, errors="column", **options).read_all().to_pylist()

        report = verify_records(data, copybook, examples=1000, **options)

        expected = Counter(error["field"] for row in rows for error in row["_errors"])
        found: Counter[str] = Counter()
        for one in report.fields:
            found[one.field] += one.count
            assert one.count == len(one.examples)
        assert found == expected
        assert report.bad_records == sum(bool(row["_errors"]) for row in rows)
        assert report.records == len(records)
        whole = data.read_bytes()
        for place in (place for one in report.fields for place in one.examples):
            if place.offset is not None:
                assert whole[place.offset :].startswith(place.raw)


def test_kinds_that_are_not_known_are_counted_too(tmp_path: Path) -> None:
    (tmp_path / "r.cpy").write_text("01 A. 05 K PIC 9. 05 N PIC 9.\n01 B. 05 K PIC 9. 05 M PIC 9.")
    (tmp_path / "data").write_bytes("112?7122?1??".encode("cp037"))
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]

    report = verify_records(*files, kinds="K: 1=A, 2=B")
    some = verify_records(*files, kinds="K: 1=A, 2=B, *", segment="B")

    named = {(one.record, one.field, one.reason): one for one in report.fields}
    assert {key: one.count for key, one in named.items()} == {
        ("", "K", "kind of record"): 3,
        ("B", "M", "digit"): 1,
    }
    assert [place.record for place in named["", "K", "kind of record"].examples] == [3, 5, 6]
    assert named["B", "M", "digit"].examples[0].record == 2
    assert named["", "K", "kind of record"].problem.endswith("Known: '1', '2'")
    assert counts(some) == {("K", "kind of record"): 2, ("M", "digit"): 1}
    assert some.counts == {("kinds, *", "skipped", ""): 1}


def test_a_file_that_cannot_be_cut_is_named_and_the_next_one_read(tmp_path: Path) -> None:
    (tmp_path / "r.cpy").write_text("01 R. 05 N PIC 99.")
    (tmp_path / "in").mkdir()
    good = frame([b"\xf1\xf2", b"\xf1?"], Framing(FrameKind.RDW))
    (tmp_path / "in" / "a").write_bytes(good + b"\0\0\0\0")
    (tmp_path / "in" / "b").write_bytes(good)
    seen: list[tuple[int, int]] = []

    report = trailgate.verify_records(
        tmp_path / "in",
        tmp_path / "r.cpy",
        record_format="rdw",
        progress=lambda *sizes: seen.append(sizes),
    )

    assert (report.files, report.records) == (2, 4)
    assert counts(report) == {("N", "digit"): 2}
    assert len(report.unread) == 1
    assert "in/a" in report.unread[0]
    assert seen[-1] == (28, 28)


def test_records_before_a_broken_end_are_verified(files: list[str]) -> None:
    Path(files[0]).write_bytes(GOOD + with_bytes("N", "00?2") + GOOD[:5])

    report = verify_records(*files)
    short = verify_records(*files, trailer_bytes=5)

    assert (report.records, counts(report)) == (2, {("N", "digit"): 1})
    assert "not a multiple of the record length 18" in report.unread[0]
    assert (short.records, counts(short), short.unread) == (2, {("N", "digit"): 1}, ())
    Path(files[0]).write_bytes(GOOD[:5])
    assert verify_records(*files).unread
    assert verify_records(*files, header_bytes=9).unread


FORMATS: dict[FrameKind, dict[str, Any]] = {
    FrameKind.FIXED: {"record_length": 5, "skip_first": 1},
    FrameKind.LINE: {"delimiter": "\n", "short": "pad"},
    FrameKind.RDW: {"maximum_length": 8, "minimum_length": 2, "other_lengths": "skip"},
    FrameKind.SPANNED: {},
}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.text("AB01? ", min_size=1, max_size=9), min_size=1, max_size=40),
    st.sampled_from(list(FORMATS)),
    st.integers(20, 200),
    st.integers(0, 3),
)
def test_splits_together_are_as_bad_as_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[str],
    kind: FrameKind,
    split_bytes: int,
    damaged: int,
) -> None:
    """Of two files, whose last bytes may lack: the same counts, examples with their numbers, and errors."""
    folder = tmp_path_factory.mktemp("split")
    (folder / "r.cpy").write_text(
        "01 A. 05 K PIC X. 05 N PIC 9(4).\n01 B. 05 K PIC X. 05 M PIC 99."
    )
    if kind is FrameKind.FIXED:
        records = [record[:5].ljust(5) for record in records]
    data = frame([record.encode("cp037") for record in records], Framing(kind))
    (folder / "a").write_bytes(data[: len(data) - damaged])
    (folder / "b").write_bytes(data)
    chosen = {"copybook": folder / "r.cpy", "record_format": kind.value, **FORMATS[kind]}
    options = CopybookOptions.of({**chosen, "kinds": "K: A=A, B=B"})
    paths = [str(folder / "a"), str(folder / "b")]

    job = prepare_verify(paths, options, 7, split_bytes)
    found = join_findings(job, verify_splits(job, job.splits))

    whole = prepare_verify(paths, options, 7, len(data) + 1)
    assert found == join_findings(whole, verify_splits(whole, whole.splits))
    assert len(whole.splits) <= 2
    assert found.files == 2


def test_the_command_prints_a_table_or_json_and_ends_with_1(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["records", files[0], "--copybook", files[1], "--verify"]
    assert run(command) == 0
    assert capsys.readouterr().out == "1 record in 1 file: all fields are values\n"
    bad = with_bytes("N", "  ?2") + with_bytes("Q", b"\x12\x34")
    Path(files[0]).write_bytes(GOOD + bad + with_bytes("N", "  12"))

    assert run(command) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["field", "reason", "count", "first", "examples"],
        ["N", "digit", "1", "record", "2", "byte", "19:", "40", "40", "6f", "f2"],
        ["Q", "sign", "1", "record", "3", "byte", "47:", "12", "34"],
    ]
    assert lines[3].startswith("N: not a zoned number")
    assert lines[-2:] == ["padding=left: 1 value (N 1)", "2 of 4 records in 1 file bad"]

    assert run([*command, "--json", "--limit", "0"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(one["field"], one["examples"]) for one in report["fields"]] == [("N", []), ("Q", [])]
    assert (report["good"], report["records"], report["bad_records"]) == (False, 4, 2)
    assert run([*command, "-o", "columns=K"]) == 0
    for wrong in (["--to", "x"], ["--format", "csv"], ["--write"]):
        assert run([*command, *wrong]) == 2


def test_options_are_those_of_reading(files: list[str]) -> None:
    with pytest.raises(OptionError, match="paddin"):
        verify_records(*files, paddin="trim")  # type: ignore[call-arg]
