"""Folders ``NAME=VALUE`` become columns."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from trailgate.errors import OptionError, StorageError
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_records

COPYBOOK = "01 R. 05 A PIC X(2)."


def rows(path: Any, **options: Any) -> list[dict[str, Any]]:
    found = read_records(path, copybook_text=COPYBOOK, code_page="ascii", **options)
    return [row for batch in found for row in batch.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in (
        ("dt=2026-01-05/region=eu/a", b"AABB"),
        ("dt=2026-01-05/region=a%2Fb/a", b"CC"),
        ("dt=__HIVE_DEFAULT_PARTITION__/region=us/b", b"DD"),
        ("dt=2026-01-06/region=us/_SUCCESS", b""),
    ):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    return tmp_path / "data"


def test_the_folders_of_a_file_are_columns_of_its_records(folder: Path) -> None:
    found = rows(folder, partitions="dt, region")

    assert [(row["A"], row["dt"], row["region"]) for row in found] == [
        ("CC", "2026-01-05", "a/b"),
        ("AA", "2026-01-05", "eu"),
        ("BB", "2026-01-05", "eu"),
        ("DD", None, "us"),
    ]
    single = folder / "dt=2026-01-05" / "region=eu" / "a"
    assert rows(single, partitions=["region"]) == [
        {"A": "AA", "region": "eu"},
        {"A": "BB", "region": "eu"},
    ]


def test_folders_without_a_file_have_no_rows_and_say_so(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert rows(folder / "dt=2026-01-06", partitions="region") == []
    assert "there are no files of records in its folders" in caplog.text
    with pytest.raises(StorageError, match="no such file or folder"):
        rows(folder / "none", partitions="region")


def test_what_does_not_fit_is_named(folder: Path) -> None:
    with pytest.raises(StorageError, match=r"not in a folder day=VALUE .*region="):
        rows(folder, partitions="day")
    with pytest.raises(OptionError, match="another column is called A too"):
        rows(folder, partitions="A")


def test_only_the_folders_asked_for_are_columns(folder: Path) -> None:
    named = {"copybook_text": COPYBOOK, "partitions": "dt,region"}
    options = CopybookOptions.of(named).only(["A", "region"])

    assert options.decoder().schema.names == ["A", "region"]
    assert len(options.splits(folder)) == 3
