"""The limits of reading: very long transactions, very large and very small records, very many files."""

from __future__ import annotations

import pickle
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from raw_trail import abend, definition, inserts, write_files
from sample_trail import ORDERS
from trail.building import LARGE, cell, piece, record, text
from trailgate.errors import StorageError, TrailgateError
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition, find_trail
from trailgate.storage.reading import splits as trail_splits
from trailgate.storage.reading import transaction_spans as restarts
from trailgate.storage.reading.splits import plan_splits
from trailgate.storage.reading.trails import read_split, read_trail
from trailgate.storage.reading.transaction_spans import (
    find_first_end,
    find_last_begin,
    find_last_end,
    find_next_begin,
    is_abandoned,
)
from trailgate.trail.format.tokens import MAX_LENGTH


def keys(batches: Any) -> list[int]:
    return [int(dict(row["after"])["ID"]) for batch in batches for row in batch.to_pylist()]


def by_splits(trail: Any, size: int) -> list[int]:
    return [key for split in plan_splits(trail, size) for key in keys(read_split(trail, split))]


def test_a_long_transaction_over_files_is_read_in_flat_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail_splits, "CHUNK", 64 << 10)
    rows = inserts(range(40_000))
    files = [rows[i : i + 8_000] for i in range(0, 40_000, 8_000)]
    trail = find_trail(write_files(tmp_path / "ot", files))
    size = sum(file.size for file in trail.files)
    read_trail(trail).read_all()  # loads code and compiles loops
    tracemalloc.start()

    found = sum(batch.num_rows for batch in read_trail(trail))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == 40_000
    assert peak < size / 2


def test_a_long_transaction_is_looked_at_ahead_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail_splits, "CHUNK", 2_000)
    looked: list[TrailPosition] = []

    def counted(trail: TrailFiles, place: TrailPosition) -> bool:
        looked.append(place)
        return is_abandoned(trail, place)

    monkeypatch.setattr(restarts, "is_abandoned", counted)
    rows = inserts(range(500))

    found = keys(read_trail(write_files(tmp_path / "ot", [[*rows[:300], abend(), *rows]])))

    assert found == list(range(500))
    assert len(looked) <= 3


def _sized(length: int, key: int) -> bytes:
    """Return an insert of exactly this length."""
    number = cell(0, b"\0\0" + key.to_bytes(8, "big"))
    shortest = len(record(5, number + cell(1, text("")), name=ORDERS.name))
    return record(5, number + cell(1, text("x" * (length - shortest))), name=ORDERS.name)


@pytest.mark.parametrize("size", [1_000, 70_000, 200_000, 1 << 20])
def test_records_of_all_lengths(tmp_path: Path, size: int) -> None:
    lengths = [97, MAX_LENGTH, 98, 60_000, 40_000, MAX_LENGTH, MAX_LENGTH, 200, 16_384, MAX_LENGTH]
    records = [_sized(length, key) for key, length in enumerate(lengths)]
    assert [len(one) for one in records] == lengths
    trail = find_trail(write_files(tmp_path / "ot", [records[:5], records[5:]]))

    assert by_splits(trail, size) == list(range(len(lengths)))
    rows = [row for batch in read_trail(trail, records="all") for row in batch.to_pylist()]
    assert [row["length"] for row in rows] == lengths


def test_an_operation_longer_than_a_chunk_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail_splits, "CHUNK", 1_000)
    value = "".join(f"{n:04}" for n in range(2_500))
    raw = [value[i : i + 500].encode() for i in range(0, len(value), 500)]
    change = record(
        5,
        cell(0, b"\0\0" + bytes(8)) + cell(1, text(None)),
        name=ORDERS.name,
        trans_ind=0,
    )
    pieces = [
        record(
            LARGE,
            piece(1, (len(raw), i + 1, 500 * i), part),
            name=ORDERS.name,
            trans_ind=1,
            continued=int(i < len(raw) - 1),
        )
        for i, part in enumerate(raw)
    ]
    last = record(5, cell(0, b"\0\0" + bytes(7) + b"\1"), name=ORDERS.name, trans_ind=2)
    trail = find_trail(write_files(tmp_path / "ot", [[change, *pieces, last]]))

    rows = [row for batch in read_trail(trail) for row in batch.to_pylist()]

    assert dict(rows[0]["after"])["NAME"] == value
    assert by_splits(trail, 700) == [0, 1]


def test_a_task_finds_files_that_its_split_does_not_list(tmp_path: Path) -> None:
    rows = inserts(range(30))
    files = [[row] for row in rows]
    trail = find_trail(write_files(tmp_path / "ot", [*files, inserts([99])]))
    split = plan_splits(trail, 10_000)[0]

    window = pickle.loads(pickle.dumps(trail.window(0, 4)))

    assert keys(read_split(window, split)) == list(range(30))
    assert len(pickle.dumps(window)) < len(pickle.dumps(trail))


def test_many_files_share_splits_and_are_found_fast(tmp_path: Path) -> None:
    trail = find_trail(write_files(tmp_path / "ot", [inserts([n]) for n in range(600)]))

    splits = plan_splits(trail)

    assert len(splits) == 3
    assert [key for s in splits for key in keys(read_split(trail, s))] == list(range(600))


def test_places_are_found_around_a_long_transaction(tmp_path: Path) -> None:
    rows = inserts(range(9_000), tx=2)
    files = [[*inserts([1]), *rows[:3_000]], rows[3_000:6_000], [*rows[6_000:], *inserts([2])]]
    trail = find_trail(write_files(tmp_path / "ot", files))
    first = find_next_begin(trail, trail.begin, trail.end)
    assert first is not None
    begin = find_next_begin(trail, TrailPosition(0, first.offset + 1), trail.end)
    assert begin is not None
    end = find_first_end(trail, begin)
    assert end is not None

    inside = TrailPosition(1, trail.files[1].size // 2)
    assert find_last_begin(trail, inside) == begin
    assert find_first_end(trail, inside) == end
    assert find_last_end(trail, inside, trail.begin) == begin
    assert find_next_begin(trail, inside, trail.end) == end
    assert find_next_begin(trail, inside, TrailPosition(2, 100)) is None


def test_a_file_that_is_not_in_the_trail_is_reported(tmp_path: Path) -> None:
    trail = find_trail(write_files(tmp_path / "ot", [inserts([1])]))

    with pytest.raises(StorageError, match="file number 7 is not in the trail"):
        trail.file(7)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_any_byte_may_be_wrong(tmp_path: Path, bits: int) -> None:
    """Rows or an error of ours, from operations, splits, records and the ends of batches."""
    body = [definition(), *inserts([1, 2], index=1)[:1], abend(), *inserts([1, 2], index=1)]
    prefix = write_files(tmp_path / "ot", [body, inserts([3])], level=5, definitions=False)
    path = Path(f"{prefix}000000000")
    good = path.read_bytes()
    for place in range(0, len(good), 11):
        path.write_bytes(good[:place] + bytes((good[place] ^ bits,)) + good[place + 1 :])
        trail = find_trail(prefix)
        for read in (
            lambda trail: list(read_trail(trail)),
            lambda trail: [list(read_split(trail, one)) for one in plan_splits(trail, 300)],
            lambda trail: list(read_trail(trail, records="all")),
            lambda trail: (
                find_last_end(trail, trail.end, trail.begin),
                find_last_begin(trail, trail.end),
                find_first_end(trail, trail.begin),
            ),
        ):
            with suppress(TrailgateError):
                read(trail)
