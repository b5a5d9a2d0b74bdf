"""Files of records verified by Spark's tasks: the report is that of one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import trailgate
from framed_files import frame
from trailgate.cli.main import run
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.errors import OptionError
from trailgate.spark import verify_records

OPTIONS: dict[str, Any] = {"record_format": "rdw", "kinds": "K: A=A, B=B"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a copybook, a file of two kinds with bad fields, and one that ends inside a record."""
    (tmp_path / "r.cpy").write_text(
        "01 A. 05 K PIC X. 05 N PIC 9(4).\n01 B. 05 K PIC X. 05 M PIC 9."
    )
    data = tmp_path / "data"
    data.mkdir()
    records = ["A0012", "B7", "A00?2", "C", "B", "A  12"] * 40
    good = frame([one.encode("cp037") for one in records], Framing(FrameKind.RDW))
    (data / "a").write_bytes(good[:-3])
    (data / "b").write_bytes(good)
    return tmp_path


def test_tasks_find_what_one_process_finds(spark: SparkSession, folder: Path) -> None:
    files = [str(folder / "data"), str(folder / "r.cpy")]
    local = trailgate.verify_records(*files, **OPTIONS)

    report = verify_records(spark, *files, **OPTIONS, split_bytes=400)
    (folder / "kinds.txt").write_text(OPTIONS["kinds"])
    chosen = OPTIONS | {"kinds": "@kinds.txt"}
    based = verify_records(spark, "data", "r.cpy", base=str(folder), examples=1, **chosen)

    assert report == local
    assert {(one.field, one.reason): one.count for one in report.fields} == {
        ("N", "digit"): 80,
        ("K", "kind of record"): 80,
        ("M", "record too short"): 80,
    }
    assert [place.record for place in report.fields[0].examples] == [4, 10, 16]
    assert "data/a" in report.unread[0]
    assert [len(one.examples) for one in based.fields] == [1, 1, 1]
    with pytest.raises(OptionError, match="paddin"):
        verify_records(spark, *files, paddin="trim")  # type: ignore[call-arg]


def test_the_command_verifies_on_spark(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark  # runs
    command = ["records", str(folder / "data"), "--copybook", str(folder / "r.cpy"), "--verify"]
    command += ["-o", "recordFormat=rdw", "-o", "kinds=K: A=A, B=B", "--format", "json"]
    assert run(command) == 1
    local = json.loads(capsys.readouterr().out)

    assert run([*command, "--master", "local[2]", "-o", "splitBytes=400"]) == 1

    assert json.loads(capsys.readouterr().out) == local
