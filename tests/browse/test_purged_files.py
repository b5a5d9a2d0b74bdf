"""If files of a trail are purged or replaced while it is shown, the remaining ones are shown, with a notice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from browse.test_operation_pages import asking, plain
from sample_trail import NOTES, Op, write_trail
from trailgate.browse.growth import GrowingIndex
from trailgate.browse.index import TrailIndex

pytest.importorskip("starlette.testclient")
FILES = [
    [
        [Op("I", 10 * file + number, f"file {file}") for number in range(3)],
        [Op("I", 7, table=NOTES)],
    ]
    for file in range(4)
]
PAGES = ("", "operations", "table?name=MY.ORDERS", "quarantine", "sql")
GONE = [[0], [0, 1], [2], [3], [1, 3]]


def path_of(index: TrailIndex, number: int) -> Path:
    return Path(f"{index.found.prefix}{number:09}")


def check_what_remains(ask: Any, gone: list[int]) -> None:
    """Assert that pages have what is left, and name what is gone."""
    notice = "file is gone since it was" if len(gone) == 1 else "files are gone since they were"
    for page in PAGES:
        text = plain(ask(page))
        assert f"{len(gone)} {notice} read: {', '.join(f'aa{n:09}' for n in gone)}." in text, page
    rows = ask("operations")
    for number in range(len(FILES)):
        assert (f"file {number}<" in rows) == (number not in gone)
        position = f"{number}:583"
        for page in ("bytes", "transaction"):
            text = plain(ask(f"{page}?at={position}", 422 if number in gone else 200))
            assert (f"file {number} no longer exists: it was purged" in text) == (number in gone)
    assert len(re.findall(r'<td class="op op-', ask("operations?text=file"))) == 3 * (4 - len(gone))
    counted = plain(ask("sql?sql=" + quote("SELECT count(*) AS n FROM operations")))
    if {0, 3} & {*gone} and gone != [1, 3]:
        assert f" n {4 * (4 - len(gone))} " in f"{counted} "
    else:  # a query refuses a trail with a gap
        assert "between aa" in counted


@pytest.mark.parametrize("gone", GONE, ids=str)
@pytest.mark.parametrize("looks", [False, True], ids=["at once", "after a look"])
def test_the_files_that_remain_are_shown(tmp_path: Path, gone: list[int], *, looks: bool) -> None:
    with GrowingIndex(str(write_trail(tmp_path / "aa", FILES))) as index:
        index.build()
        ask = asking(index)
        ask("operations")
        for number in gone:
            path_of(index, number).unlink()
        if looks:
            index.read_on()
        else:
            ask("operations")  # whoever asks first notices it
        check_what_remains(ask, gone)
        assert index.operations == 16


def test_a_trail_that_grows_at_its_end_while_its_begin_is_purged(tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "aa", FILES)
    last = Path(f"{prefix}000000003")
    raw = last.read_bytes()
    last.unlink()
    with GrowingIndex(str(prefix)) as index:
        index.build()
        path_of(index, 0).unlink()
        index.read_on()
        last.write_bytes(raw)
        index.read_on()
        check_what_remains(asking(index), [0])
        assert not index.problem


def test_a_trail_without_remaining_files_is_reported(tmp_path: Path) -> None:
    with GrowingIndex(str(write_trail(tmp_path / "aa", FILES))) as index:
        index.build()
        ask = asking(index)
        for number in range(4):
            path_of(index, number).unlink()
        for page in PAGES[:-1]:
            ask(page)

        text = plain(ask("operations"))
        assert "4 files are gone since they were read" in text
        assert "There are none" in text


@pytest.mark.parametrize("gone", [[0], [0, 1]], ids=str)
def test_files_that_are_purged_before_they_are_read_are_skipped(
    tmp_path: Path, gone: list[int]
) -> None:
    prefix = write_trail(tmp_path / "aa", FILES)
    with GrowingIndex(str(prefix)) as index:
        for number in gone:  # listed, and not read yet
            path_of(index, number).unlink()
        index.build()

        assert not index.problem
        assert index.operations == 4 * (4 - len(gone))
        assert asking(index)("operations").count('<td class="op op-') == index.operations


def test_a_file_that_is_replaced_by_a_shorter_one_is_read_again(tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "aa", FILES)
    with GrowingIndex(str(prefix)) as index:
        index.build()
        write_trail(tmp_path / "aa", [[[Op("I", 1, "another trail")]]])
        for number in (1, 2, 3):
            path_of(index, number).unlink()
        page = plain(asking(index)("operations"))
        assert "4 files are gone" in page
        index.read_on()
        page = plain(asking(index)("operations"))

    assert "another trail" in page
    assert "gone" not in page
