"""ASCII records that are read with a code page of EBCDIC are warned of, and others are not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from trailgate import read_records, verify_records
from trailgate.mainframe.jobs.editing import edit_records
from trailgate.mainframe.jobs.writing import WritingOptions

COPYBOOK = "01 R. 05 NAME PIC X(10). 05 FLAG PIC X. 05 AMOUNT PIC S9(7)V99 COMP-3."
NAMES = ("ALICE", "Bob", "Carol-Ann", "D42")
# Texts in EBCDIC that are also characters of ASCII: blanks are @, stars are a backslash.
ODD = ("", "*", "-----", "....", "/", "@@@@@@@@@@", "\0" * 10)


def warnings(
    folder: Path,
    names: tuple[str, ...],
    page: str,
    caplog: pytest.LogCaptureFixture,
    **options: Any,
) -> list[str]:
    """Return what reading records of names logs; the records are written with a code page."""
    amount = bytes.fromhex("001234567C")
    path = folder / "data"
    path.write_bytes(b"".join(f"{name:10}Y".encode(page) + amount for name in names))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        read_records(path, copybook_text=COPYBOOK, **options).read_all()
    return [record.getMessage() for record in caplog.records]


def test_ascii_read_as_ebcdic_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (warning,) = warnings(tmp_path, NAMES, "ascii", caplog)
    assert "data looks like ASCII, but is read as cp037 (codePage=ascii" in warning
    (warning,) = warnings(tmp_path, NAMES, "ascii", caplog, code_page="cp1140")
    assert "read as cp1140" in warning


@pytest.mark.parametrize("names", [*((name,) for name in ODD), NAMES])
def test_ebcdic_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: tuple[str, ...]
) -> None:
    assert warnings(tmp_path, names, "cp037", caplog) == []


def test_neither_are_stated_pages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(tmp_path, NAMES, "ascii", caplog, code_page="ascii") == []
    assert warnings(tmp_path, NAMES, "ascii", caplog, code_pages="R=latin-1") == []


def test_verifying_and_setting_warn_once_for_many_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    for number in range(3):
        (tmp_path / "data" / str(number)).write_bytes(b"ALICE     YBOB       N")
    copybook = "01 R. 05 NAME PIC X(10). 05 FLAG PIC X."
    with caplog.at_level(logging.WARNING):
        verify_records(tmp_path / "data", copybook_text=copybook)
        options = WritingOptions.of({"copybook_text": copybook}, in_place=True)
        edit_records(tmp_path / "data", str(tmp_path / "new"), ["FLAG='X'"], options)
    assert len(caplog.messages) == 2
    assert all("looks like ASCII, but is read as cp037" in text for text in caplog.messages)
