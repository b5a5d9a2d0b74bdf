"""``trailgate records``: fixed-width records as a table, JSON, CSV and Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from trailgate.cli.main import run

COPYBOOK = """
       01  ACCOUNT.
           05  NUM      PIC 9(4).
           05  HELD.
               10  SUM  PIC S9(3)V99 COMP-3.
"""
RECORDS = [b"\xf0\xf0\xf0\xf7\x12\x34\x5c", b"\xf0\xf0\xf0\xf8\x00\x00\x1d"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "account.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(b"".join(RECORDS))
    return [str(tmp_path / "data"), "--copybook", str(tmp_path / "account.cpy")]


def test_records_are_a_table(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", *files, "--limit", "1"]) == 0

    printed = capsys.readouterr()
    assert [line.split() for line in printed.out.splitlines()] == [["NUM", "SUM"], ["7", "123.45"]]
    assert "more after this one" in printed.err


def test_records_are_json_trees_and_csv(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["records", *files, "--format", "json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"NUM": 7, "HELD": {"SUM": "123.45"}},
        {"NUM": 8, "HELD": {"SUM": "-0.01"}},
    ]

    assert run(["records", *files, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["NUM,SUM", "7,123.45", "8,-0.01"]


FRAMES = {
    "fixed": lambda record: record,
    "rdw": lambda record: (len(record) + 4).to_bytes(2, "big") + bytes(2) + record,
}


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("frame", FRAMES)
def test_a_limit_does_not_fail_for_what_it_does_not_show(
    files: list[str], capsys: pytest.CaptureFixture[str], frame: str, form: str
) -> None:
    """Neither for a field of a later record, nor where the framing is wrong after it."""
    whole = [FRAMES[frame](record) for record in RECORDS * 2]
    damaged = {"field": FRAMES[frame](b"?" * 7)} | ({"length": bytes(7)} if frame == "rdw" else {})
    for wrong in damaged.values():
        Path(files[0]).write_bytes(b"".join([*whole[:3], wrong, *whole]))
        for limit in range(5):
            given = ["--format", form, "--limit", str(limit), "-o", f"recordFormat={frame}"]
            assert run(["records", *files, *given]) == int(limit > 3)
            shown = capsys.readouterr().out.splitlines()
            if limit <= 3:
                assert "".join(shown).count("123.45") == (0, 1, 1, 2)[limit]


def test_a_limit_of_kinds_counts_records_that_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copybook, data = tmp_path / "k.cpy", tmp_path / "k"
    copybook.write_text("01 A. 05 K PIC X. 05 N PIC 9.\n01 B. 05 K PIC X. 05 M PIC 9.")
    data.write_bytes("".join(["A1", *["C?"] * 50, "B2", "A?"]).encode("cp037"))
    command = ["records", str(data), "--copybook", str(copybook), "-o", "kinds=K: A=A, B=B, *"]

    assert run([*command, "--format", "json", "--limit", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run([*command, "--format", "json", "--limit", "3"]) == 1
    assert "record 53" in capsys.readouterr().err


def test_records_of_several_kinds_show_their_own_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copybook, data = tmp_path / "k.cpy", tmp_path / "k"
    copybook.write_text("01 A. 05 K PIC X. 05 N PIC 9.\n01 B. 05 K PIC X. 05 M PIC X OCCURS 2.")
    data.write_bytes("A1B78A2".encode("cp037"))
    command = ["records", str(data), "--copybook", str(copybook), "-o", "kinds=K: A=A, B=B"]
    command += [
        "-o",
        "recordFormat=length-field",
        "-o",
        "lengthField=K",
        "-o",
        "lengthMap=A=2, B=3",
    ]

    assert run(command) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["_record", "fields"],
        ["A", "K=A", "N=1"],
        ["B", "K=B", 'M=["7",', '"8"]'],
        ["A", "K=A", "N=2"],
    ]


def test_bytes_after_the_rows_of_a_table_are_not_decoded(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """But for those of one record, by which the table states that there are more."""
    blank = RECORDS[0].replace(b"\xf0", b"\x40")
    Path(files[0]).write_bytes(blank * 50)

    assert run(["records", *files, "--limit", "3"]) == 0

    assert "padding=left: 4 values" in capsys.readouterr().err


def test_records_become_parquet_once(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert run(["records", *files, "--to", str(target), "-o", "splitBytes=7"]) == 0
    assert "2 records in 2 parts" in capsys.readouterr().out

    assert pq.read_table(target).column("NUM").to_pylist() == [7, 8]
    assert run(["records", *files, "--to", str(target)]) == 1
    assert "not empty" in capsys.readouterr().err


def test_relative_paths_are_from_the_base(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "num.cpy").write_text("       05  NUM PIC 9(4).\n")
    (tmp_path / "copied.cpy").write_text("       01  A.\n           COPY NUM.\n")
    (tmp_path / "numbers").write_bytes(RECORDS[0][:4])
    based = ["--base", str(tmp_path), "-o", "copyPath=parts"]
    (tmp_path / "kinds.txt").write_text("NUM: 7=A")
    based += ["-o", "kinds=@kinds.txt", "-o", "segment=A"]

    assert run(["records", "numbers", "--copybook", "copied.cpy", "--to", "out", *based]) == 0
    based = based[:-4]
    assert run(["records", "data", "--copybook", "account.cpy", *based, "--format", "csv"]) == 0

    assert pq.read_table(tmp_path / "out").column("NUM").to_pylist() == [7]
    assert "7,123.45" in capsys.readouterr().out


def test_a_bad_record_leaves_nothing_behind(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_bytes(RECORDS[0] + b"\xf0\x40\xf0\xf8\x00\x00\x1d")
    target = tmp_path / "out"

    assert run(["records", *files, "--to", str(target)]) == 1
    assert "byte 7, field NUM" in capsys.readouterr().err
    assert list(target.iterdir()) == []


def test_wrong_use_ends_with_2(files: list[str]) -> None:
    assert run(["records", *files, "-o", "shape"]) == 2
    assert run(["records", *files, "-o", "shap=flat"]) == 2
    assert run(["records", *files, "--master", "local[2]"]) == 2


@pytest.mark.parametrize("format_", ["table", "csv"])
def test_items_of_one_name_are_columns_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    (tmp_path / "r.cpy").write_text("       01 R.\n         05 A PIC X.\n         05 A PIC X.\n")
    (tmp_path / "data").write_bytes(b"\xc1\xc2")
    files = [str(tmp_path / "data"), "--copybook", str(tmp_path / "r.cpy")]

    assert run(["records", *files, "--format", format_]) == 0
    lines = capsys.readouterr().out.replace(",", " ").splitlines()
    assert [line.split() for line in lines] == [["A", "A_2"], ["A", "B"]]

    assert run(["records", *files, "--to", str(tmp_path / "out"), "-o", "shape=flat"]) == 0
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"A": "A", "A_2": "B"}]


def test_a_folder_of_folders_is_an_error(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "days" / "dt=2026-01-05").mkdir(parents=True)

    assert run(["records", str(tmp_path / "days"), *files[1:]]) == 1
    assert "only folders: dt=2026-01-05" in capsys.readouterr().err
