"""A record that is missing inside a transaction is an error or a notice in every reader, and a legitimate trail gives neither."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damaged_trails import FIRST, LAST, MIDDLE, ONLY
from laws import examples
from raw_trail import abend, definition, inserts, restart_ok, write_files
from trail.building import cell, record, text
from trailgate.errors import DecodeError
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition, find_trail
from trailgate.storage.reading import splits as trail_splits
from trailgate.storage.reading.splits import (
    SplitOptions,
    SplitReader,
    TrailSplit,
    files_for_split,
    plan_splits,
)
from trailgate.storage.reading.trails import read_trail

ONE, TWO, THREE, FOUR = (
    inserts(keys, tx=tx) for tx, keys in enumerate([[1], [2, 3, 4], [5, 6], [7, 8, 9, 10]], 1)
)
HEADLESS = "records are missing: this record continues a transaction that does not begin"
UNENDED = "records are missing: the transaction before this record has not ended"


def refusal(trail: TrailFiles, size: int) -> str:
    """Return the error with which reading in splits fails, as a task of Spark reads them, or ""."""
    try:
        for split in plan_splits(trail, size):
            for _ in SplitReader(files_for_split(trail, split), split).batches():
                pass
    except DecodeError as error:
        return str(error)
    return ""


def noticed(
    path: Path, caplog: pytest.LogCaptureFixture, threads: int = 1
) -> tuple[int, list[str]]:
    """Return the number of operations that read_trail gives, and what it logs."""
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        rows = read_trail(path, threads=threads).read_all().num_rows
    return rows, caplog.messages


@pytest.mark.parametrize(
    ("files", "problem", "file", "row"),
    [
        pytest.param([[*ONE, *TWO[1:], *THREE]], HEADLESS, 0, 1, id="the first is lost"),
        pytest.param([[*ONE, *TWO[:2], *THREE]], UNENDED, 0, 3, id="the last is lost"),
        pytest.param([[*ONE, TWO[0], *TWO, *THREE]], UNENDED, 0, 2, id="it begins twice"),
        pytest.param([[*ONE, *TWO, TWO[2], *THREE]], HEADLESS, 0, 4, id="it ends twice"),
        pytest.param([[*ONE, *TWO, TWO[1], *THREE]], HEADLESS, 0, 4, id="a middle follows the end"),
        pytest.param([[*TWO[1:], *THREE]], HEADLESS, 0, 0, id="the trail's first is lost"),
        pytest.param([[*ONE, *TWO], [*THREE[1:], *ONE]], HEADLESS, 1, 0, id="a file's first"),
        pytest.param([[*ONE, *TWO[:2]], [*THREE]], UNENDED, 1, 0, id="a file's last"),
        pytest.param([[*ONE, *TWO[:2], restart_ok(), *THREE]], UNENDED, 0, 4, id="after a restart"),
        pytest.param([[*ONE, *TWO[:2]], [definition(), *THREE]], UNENDED, 1, 1, id="metadata"),
    ],
)
def test_missing_records_are_refused_or_noticed_where_they_are(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    files: list[list[bytes]],
    problem: str,
    file: int,
    row: int,
) -> None:
    prefix = write_files(tmp_path / "ot", files)
    path = Path(f"{prefix}{file:09}")
    begin = path.stat().st_size - sum(map(len, files[file]))
    place = f"{path}, byte {begin + sum(map(len, files[file][:row]))})"
    changes = sum(len(one) > 100 or b"row" in one for one in chain(*files))

    for size in (11, 100, 300, 1 << 20):
        error = refusal(find_trail(prefix), size)
        assert problem in error
        assert place in error
        assert f"trailgate check {prefix} lists" in error
        assert "--salvage OUT" in error
    for threads in (1, 2):
        rows, messages = noticed(prefix, caplog, threads)
        assert rows == changes - sum(one == definition() for one in chain(*files))
        (message,) = messages
        assert problem in message
        assert place in message
    assert not check_trail(str(prefix)).whole


@pytest.mark.parametrize("lost", [TWO[:2], [*TWO, THREE[1]]])
def test_the_transaction_is_named(tmp_path: Path, lost: list[bytes]) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *lost, *FOUR]])
    begin = find_trail(prefix).end.offset - sum(map(len, [*lost, *FOUR]))

    error = refusal(find_trail(prefix), 1 << 20)

    assert f"The transaction before it, tx2, begins at position 0:{begin} (" in error


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([[*ONE, *TWO, *THREE[:1]]], id="open at the end"),
        pytest.param([[*ONE, *TWO[:1]], [*TWO[1:], *THREE]], id="over two files"),
        pytest.param([[*ONE, *TWO[:1]], [], [definition(), *TWO[1:]]], id="over metadata"),
        pytest.param([[*ONE, *TWO[:2], abend(), *TWO, *THREE]], id="repeated after a restart"),
        pytest.param([[*ONE, *TWO[:2], restart_ok(), *TWO[2:]]], id="an orderly restart inside"),
        pytest.param([[*ONE, *TWO, *THREE[:1], abend()]], id="undone at the end"),
    ],
)
def test_trails_without_missing_records_are_read_as_before(
    tmp_path: Path, files: list[list[bytes]]
) -> None:
    prefix = write_files(tmp_path / "ot", files)

    for size in (11, 100, 300, 1 << 20):
        assert refusal(find_trail(prefix), size) == ""


def test_a_trail_whose_first_files_are_purged_may_begin_inside_a_transaction(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO[:1]], [*TWO[1:], *THREE]])
    Path(f"{prefix}000000000").unlink()

    assert refusal(find_trail(prefix), 1 << 20) == ""
    assert noticed(prefix, caplog) == (4, [])


def test_reading_may_begin_inside_a_transaction_but_not_after_a_lost_first_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO, *THREE[1:], *FOUR]])
    begin = find_trail(prefix).end.offset - sum(map(len, [*ONE, *TWO, *THREE[1:], *FOUR]))
    starts = [begin + sum(map(len, [*ONE, *TWO, *THREE[1:]][:row])) for row in range(5)]

    for row, start in enumerate(starts):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            read_trail(prefix, from_position=f"0:{start}", threads=1).read_all()
        assert len(caplog.messages) == 1, row
        assert HEADLESS in caplog.messages[0]
        assert f"byte {starts[4]})" in caplog.messages[0]
    caplog.clear()
    after = starts[4] + len(THREE[1])
    assert read_trail(prefix, from_position=f"0:{after}").read_all().num_rows == len(FOUR)
    assert read_trail(prefix, to_position=f"0:{starts[0]}").read_all().num_rows == len(ONE)
    assert not caplog.messages


def insert(key: int, indicator: int) -> bytes:
    data = cell(0, b"\0\0" + key.to_bytes(8, "big")) + cell(1, text("t" * (key % 90)))
    return record(5, data, trans_ind=indicator, name="MY.ORDERS")


def missing_at(indicators: Sequence[int]) -> Iterator[int]:
    """Yield the rows before which records are missing: the sequence is read one by one."""
    is_open = False
    for row, indicator in enumerate(indicators):
        if is_open == (indicator in (FIRST, ONLY)):
            yield row
        is_open = indicator in (FIRST, MIDDLE)


SMALL: Final = 200  # bytes of a chunk: one or two records


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from([[ONLY], [FIRST, LAST], [FIRST, MIDDLE, MIDDLE, LAST]]),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["lost", "twice"])), max_size=2),
    st.integers(1, 3),
    st.sampled_from([SMALL, 1 << 20]),
)
def test_any_loss_is_found_at_the_first_place_that_shows_it(
    tmp_path: Path,
    transactions: list[list[int]],
    changes: list[tuple[int, str]],
    count: int,
    chunk: int,
) -> None:
    indicators = list(chain(*transactions))
    for row, change in changes:
        with suppress(IndexError):
            kept = indicators[row]
            indicators[row : row + 1] = [] if change == "lost" else [kept, kept]
    records = [insert(key, indicator) for key, indicator in enumerate(indicators)]
    per_file = max(1, -(-len(records) // count))
    files = [records[at : at + per_file] for at in range(0, len(records), per_file)] or [[]]
    for path in tmp_path.glob("ot*"):
        path.unlink()
    prefix = write_files(tmp_path / "ot", files)
    trail = find_trail(prefix)
    first = next(missing_at(indicators), None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trail_splits, "CHUNK", chunk)
        errors = [refusal(trail, size) for size in (150, 1 << 20)]
        complete = TrailSplit(trail.begin, trail.end, whole=True)
        checked = SplitReader(trail, complete, SplitOptions(allow_torn=True))
        found = sum(batch.rows for batch in checked.batches())

    held = bool(indicators) and indicators[-1] in (FIRST, MIDDLE)
    assert found == len(indicators) - held
    if first is None:
        assert errors == ["", ""]
        return
    number, row = divmod(first, per_file)
    size = trail.file(number).size
    place = TrailPosition(number, size - sum(map(len, files[number][row:])))
    if held and first == len(indicators) - 1:
        # The last operation is held back, as its transaction may go on: it is not read yet.
        assert all(f"byte {place.offset})" in error for error in errors if error)
        return
    for error in errors:
        assert f"ot{number:09}, byte {place.offset})" in error
