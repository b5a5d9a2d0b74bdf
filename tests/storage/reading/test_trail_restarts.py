"""What a restart record undid is left out, however it lies and however the trail is read."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from raw_trail import LITTLE, abend, definition, inserts, restart_ok, write_files
from trailgate.errors import DecodeError, TruncatedError
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading import splits as trail_splits
from trailgate.storage.reading.splits import plan_splits
from trailgate.storage.reading.trails import read_split, read_trail
from trailgate.storage.reading.transaction_spans import AbandonedRecords

ONE, TWO, THREE = inserts([1], tx=1), inserts([2, 3, 4], tx=2), inserts([5, 6], tx=3)


def keys(batches: Any) -> list[str]:
    return [dict(row["after"])["ID"] for batch in batches for row in batch.to_pylist()]


def whole(batches: Any) -> list[tuple[str, str, str]]:
    return [
        (row["tx_id"], row["tx_ind"], dict(row["after"])["ID"])
        for batch in batches
        for row in batch.to_pylist()
    ]


@pytest.mark.assumed
@pytest.mark.parametrize(
    "files",
    [
        [[*ONE, *TWO[:2], abend(), *TWO, *THREE]],
        [[*ONE, *TWO[:1], abend(), *TWO[:2], abend(), *TWO, *THREE]],
        [[*ONE, *TWO[:2]], [abend(), *TWO, *THREE]],
        [[*ONE, *TWO[:2]], [abend(), abend(), *TWO], [*THREE]],
        [[*ONE, *TWO[:1]], [TWO[1]], [abend(), *TWO, *THREE]],
        [[*ONE, *TWO[:1]], [], [TWO[1], abend(), *TWO, *THREE]],
        [[*ONE, *TWO[:2], abend()], [*TWO, *THREE]],
        [[*ONE, *TWO[:2], definition(), abend(), *TWO, *THREE]],
        [[abend(), *ONE, abend(), *TWO, restart_ok(), abend(), *THREE, abend()]],
        [[*ONE, *TWO, *THREE, *inserts([7, 8], tx=4)[:1], abend()]],
    ],
)
def test_redelivered_messages_are_read_once(tmp_path: Path, files: list[list[bytes]]) -> None:
    trail = find_trail(write_files(tmp_path / "ot", files))

    assert keys(read_trail(trail)) == ["1", "2", "3", "4", "5", "6"]
    for size in (11, 100, 300, 1000):
        splits = plan_splits(trail, size)
        assert [key for split in splits for key in keys(read_split(trail, split))] == [
            "1", "2", "3", "4", "5", "6",
        ]  # fmt: skip


def test_a_restart_after_an_orderly_end_drops_nothing(tmp_path: Path) -> None:
    files = [[restart_ok(), *ONE, *TWO[:2], restart_ok(), TWO[2], restart_ok(), *THREE]]

    found = whole(read_trail(write_files(tmp_path / "ot", files)))

    assert [f"{tx}{mark}{key}" for tx, mark, key in found] == [
        "tx1W1", "tx2B2", "tx2M3", "tx2E4", "tx3B5", "tx3E6",
    ]  # fmt: skip


def test_skipped_records_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = [[*ONE, *TWO[:2]], [abend(), *TWO, *THREE[:1], abend(), *THREE]]
    trail = find_trail(write_files(tmp_path / "ot", files))

    with caplog.at_level(logging.WARNING):
        list(read_trail(trail))

    left_out: list[Any] = [
        record.args[0] for record in caplog.records if isinstance(record.args, tuple)
    ]
    assert all(isinstance(one, AbandonedRecords) for one in left_out)
    assert [(Path(one.path).name, one.records) for one in left_out] == [
        ("ot000000000", 2),
        ("ot000000001", 1),
    ]
    assert "ot000000000, byte" in caplog.text
    assert "2 records of an unfinished transaction" in caplog.text


def test_what_does_not_come_again_is_not_dropped_in_silence(tmp_path: Path) -> None:
    files = [[*ONE, *TWO[:2], abend(), TWO[2], *THREE]]

    with pytest.raises(DecodeError, match=r"ot000000000, byte \d+.*would be lost"):
        list(read_trail(write_files(tmp_path / "ot", files)))


@pytest.mark.parametrize("chunk", [100, 300, 1 << 20])
def test_a_transaction_that_ended_stays_where_records_without_begin_are_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(trail_splits, "CHUNK", chunk)
    files = [[*ONE, *TWO[1:2], abend(), *TWO], [*THREE]]

    assert keys(read_trail(write_files(tmp_path / "ot", files))) == ["1", "2", "3", "4", "5", "6"]


def test_what_was_open_when_the_trail_ends_stays(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO[:2]], [*TWO[2:], *THREE[:1]]])

    assert keys(read_trail(prefix))[:4] == ["1", "2", "3", "4"]


item = st.tuples(st.integers(1, 5), st.lists(st.integers(1, 5), max_size=2))


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(item, min_size=1, max_size=8),
    cuts=st.sets(st.integers(0, 40), max_size=4),
    chunk=st.sampled_from([100, 400, 1 << 20]),
    size=st.integers(40, 2000),
    little=st.booleans(),
)
def test_how_it_lies_and_is_read_changes_nothing(
    tmp_path: Path,
    items: list[tuple[int, list[int]]],
    cuts: set[int],
    chunk: int,
    size: int,
    little: bool,
) -> None:
    fields: Any = {"order": LITTLE} if little else {}
    records, expected = [], []
    for tx, (count, broken) in enumerate(items):
        rows = [100 * tx + i for i in range(count)]
        own = inserts(rows, tx=tx, **fields)
        for part in broken:
            records += [*own[: min(part, count - 1)], abend(**fields)]
        records += own
        expected += [str(row) for row in rows]
    places = sorted({0, *(cut for cut in cuts if cut < len(records)), len(records)})
    for old in tmp_path.iterdir():
        old.unlink()
    files = [records[i:j] for i, j in pairwise(places)]
    trail = find_trail(write_files(tmp_path / "ot", files))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trail_splits, "CHUNK", chunk)
        assert keys(read_trail(trail)) == expected
        splits = plan_splits(trail, size)
        assert [key for split in splits for key in keys(read_split(trail, split))] == expected


def test_a_last_record_that_is_continued_by_nothing_is_an_error(tmp_path: Path) -> None:
    files: list[list[Any]] = [[*ONE, *TWO[:-1], bytearray(TWO[-1])]]
    files[0][-1][40] = 1  # Continued
    trail = find_trail(write_files(tmp_path / "ot", files))

    with pytest.raises(
        TruncatedError, match="the last record should be continued, but nothing follows it"
    ):
        keys(read_trail(trail))
