"""A growing trail as a stream: whole transactions, each once, whatever the writer does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from raw_trail import abend, definition, inserts, write_files
from trailgate.errors import OptionError, StorageError
from trailgate.storage.files.trail_files import find_begun_trail
from trailgate.storage.reading.message_stream import NO_LIMIT, BatchLimit
from trailgate.storage.reading.trail_stream import (
    StreamOffset,
    TrailStream,
    check_starting_position,
)
from trailgate.storage.reading.trails import read_split, read_trail

ONE, TWO, THREE = inserts([1], tx=1), inserts([2, 3, 4], tx=2), inserts([5, 6], tx=3)


class Reader:
    """Reads a stream batch by batch, as Spark does; ``restart`` forgets all but the offset."""

    def __init__(self, prefix: Path, position: str = "earliest") -> None:
        self._prefix = prefix
        self._stream = TrailStream(lambda: find_begun_trail(prefix))
        self.offset = self._stream.initial(position)

    def restart(self) -> None:
        self._stream = TrailStream(lambda: find_begun_trail(self._prefix))
        self.offset = StreamOffset.read(json.loads(json.dumps(self.offset.json())))

    def batch(self, limit: BatchLimit = NO_LIMIT, size: int = 1 << 20) -> list[str]:
        start, self.offset = self.offset, self._stream.latest(self.offset, limit)
        first = list(self._read(start, size))
        assert list(self._read(start, 200)) == first  # a batch can be asked for once more
        return first

    def _read(self, start: StreamOffset, size: int) -> Iterator[str]:
        planned = self._stream.splits(start, self.offset, size)
        if planned is not None:
            trail, splits = planned
            for split in splits:
                for batch in read_split(trail, split):
                    yield from (dict(row["after"])["ID"] for row in batch.to_pylist())


def test_a_transaction_waits_for_its_end(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO[:2]]])
    reader = Reader(prefix)

    assert reader.batch() == ["1"]
    assert reader.batch() == []
    write_files(prefix, [[*ONE, *TWO], THREE[:1]])
    assert reader.batch() == ["2", "3", "4"]
    write_files(prefix, [[*ONE, *TWO], THREE])
    assert reader.batch() == ["5", "6"]
    assert reader.batch() == []


def test_operations_undone_by_a_restart_are_never_returned(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO[:2]]])
    reader = Reader(prefix)

    assert reader.batch() == ["1"]
    write_files(prefix, [[*ONE, *TWO[:2]], [abend()]])
    assert reader.batch() == []
    write_files(prefix, [[*ONE, *TWO[:2]], [abend(), *TWO, *THREE]])
    assert reader.batch() == ["2", "3", "4", "5", "6"]


def test_a_trail_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "ot")

    assert reader.batch() == []
    write_files(tmp_path / "ot", [ONE])
    assert reader.batch() == ["1"]


def test_bytes_and_files_bound_a_batch_but_never_tear_a_transaction(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO, *THREE], ONE, TWO])
    small, one_file = BatchLimit(bytes=1), BatchLimit(files=1)
    reader, other = Reader(prefix), Reader(prefix)

    assert [reader.batch(small) for _ in range(6)] == [
        ["1"], ["2", "3", "4"], ["5", "6"], ["1"], ["2", "3", "4"], [],
    ]  # fmt: skip
    assert [other.batch(one_file) for _ in range(4)] == [
        ["1", "2", "3", "4", "5", "6"], ["1"], ["2", "3", "4"], [],
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [NO_LIMIT, BatchLimit(bytes=1)])
def test_a_stream_for_what_is_there_ends(tmp_path: Path, limit: BatchLimit) -> None:
    prefix = write_files(tmp_path / "ot", [ONE, [*TWO, *THREE[:1]]])
    reader = Reader(prefix)
    reader._stream.stop_at_present_end()
    write_files(prefix, [ONE, [*TWO, *THREE], ONE])

    batches = [reader.batch(limit) for _ in range(4)]

    assert [key for batch in batches for key in batch] == ["1", "2", "3", "4"]


def test_a_stream_begins_at_the_chosen_position(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO, *THREE[:1]]])
    positions = [row["position"] for b in read_trail(prefix) for row in b.to_pylist()]
    inside = Reader(prefix, positions[2])
    latest = Reader(prefix, "latest")
    write_files(prefix, [[*ONE, *TWO, *THREE], ONE])

    assert latest.batch() == ["5", "6", "1"]
    assert inside.batch() == ["2", "3", "4", "5", "6", "1"]
    with pytest.raises(OptionError, match="earliest, latest or a position"):
        check_starting_position("yesterday")


@pytest.mark.parametrize("position", ["7:1", "0:999999"])
def test_a_stream_cannot_begin_after_the_trails_end(tmp_path: Path, position: str) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO]])

    with pytest.raises(OptionError, match=f"{position} is after the trail's end, which is 0:"):
        Reader(prefix, position)


def test_a_stream_from_the_trails_end_does_not_repeat_the_last_transaction(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO]])
    end = Reader(prefix, "latest").offset.place
    reader = Reader(prefix, f"{end.number}:{end.offset}")
    write_files(prefix, [[*ONE, *TWO, *THREE]])

    assert reader.batch() == ["5", "6"]


def _cut_back(prefix: Path) -> None:
    write_files(prefix, [[*ONE, *TWO]])


def _written_anew(prefix: Path) -> None:
    write_files(prefix, [[*ONE, *TWO, *inserts([7, 8], tx=7)]])


def _removed(prefix: Path) -> None:
    Path(f"{prefix}000000000").rename(f"{prefix}000000001")


def _gone(prefix: Path) -> None:
    Path(f"{prefix}000000000").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_cut_back, "was shortened"),
        (_written_anew, "was rewritten"),
        (_removed, "was removed before it was read"),
        (_gone, "no longer exists"),
    ],
)
def test_a_trail_changed_behind_what_was_handed_on_is_an_error(
    tmp_path: Path, change: Any, said: str
) -> None:
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO, *THREE]])
    reader = Reader(prefix)
    reader.batch()
    change(prefix)
    reader.restart()

    with pytest.raises(StorageError, match=rf"{said}.*new checkpoint"):
        reader.batch()


def _other_transaction(prefix: Path) -> None:
    write_files(prefix, [[*ONE, *TWO, *inserts([5, 6], tx=4)]])


def test_another_trail_with_equal_last_records_is_recognized(tmp_path: Path) -> None:
    """The last record of both has the same bytes: the CSN of its transaction differs."""
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO, *THREE]])
    reader = Reader(prefix)
    reader.batch()
    _other_transaction(prefix)
    reader.restart()

    with pytest.raises(StorageError, match="was rewritten"):
        reader.batch()


def test_a_checkpoint_of_an_earlier_version_is_continued_and_checked(tmp_path: Path) -> None:
    """Its check sum has eight digits, of 32 bytes."""
    prefix = write_files(tmp_path / "ot", [[*ONE, *TWO]])
    size = Path(f"{prefix}000000000").stat().st_size
    data = Path(f"{prefix}000000000").read_bytes()
    old = {"file": 0, "offset": size, "check": f"{crc32(data[-32:]):08x}"}
    reader = Reader(prefix)
    write_files(prefix, [[*ONE, *TWO, *THREE]])

    reader.offset = StreamOffset.read(old)
    assert reader.batch() == ["5", "6"]
    reader.offset = StreamOffset.read({**old, "check": "01234567"})
    with pytest.raises(StorageError, match="was rewritten"):
        reader.batch()


def test_a_finished_file_may_be_removed_before_a_transaction_of_the_next_one_ends(
    tmp_path: Path,
) -> None:
    prefix = write_files(tmp_path / "ot", [ONE])
    reader = Reader(prefix)
    assert reader.batch() == ["1"]
    write_files(prefix, [ONE, TWO[:2]])
    assert reader.batch() == []
    Path(f"{prefix}000000000").unlink()
    assert reader.batch() == []
    Path(f"{prefix}000000001").write_bytes(
        Path(write_files(tmp_path / "o2", [TWO, TWO])).parent.joinpath("o2000000001").read_bytes()
    )
    assert reader.batch() == ["2", "3", "4"]


def test_a_file_read_to_its_end_may_be_removed(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [ONE, TWO])
    reader = Reader(prefix)

    assert reader.batch(BatchLimit(files=1)) == ["1"]
    Path(f"{prefix}000000000").unlink()
    assert reader.batch() == ["2", "3", "4"]


def test_indexed_tables_are_known_in_every_batch(tmp_path: Path) -> None:
    body = [definition(), *(r for tx in range(9) for r in inserts([tx, tx], tx=tx, index=1))]
    prefix = write_files(tmp_path / "ot", [body], level=5, definitions=False)
    reader = Reader(prefix)

    found = [reader.batch(BatchLimit(bytes=1)) for _ in range(9)]

    assert found == [[str(tx)] * 2 for tx in range(9)]


item = st.tuples(st.integers(1, 4), st.lists(st.integers(1, 4), max_size=2))


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(item, min_size=1, max_size=6),
    cuts=st.sets(st.integers(1, 30), max_size=3),
    grown=st.lists(st.integers(1, 3000), max_size=12),
    limit=st.sampled_from([NO_LIMIT, BatchLimit(bytes=300), BatchLimit(files=1)]),
    restarts=st.booleans(),
)
def test_however_it_grows_every_operation_is_handed_on_once(
    tmp_path: Path,
    items: list[tuple[int, list[int]]],
    cuts: set[int],
    grown: list[int],
    limit: BatchLimit,
    restarts: bool,
) -> None:
    records, expected = [], []
    for tx, (count, broken) in enumerate(items):
        rows = [100 * tx + i for i in range(count)]
        own = inserts(rows, tx=tx)
        for part in broken:
            records += [*own[: min(part, count - 1)], abend()]
        records += own
        expected += [str(row) for row in rows]
    for old in tmp_path.iterdir():
        old.unlink()
    places = sorted({0, *(cut for cut in cuts if cut < len(records)), len(records)})
    prefix = write_files(tmp_path / "ot", [records[i:j] for i, j in pairwise(places)])
    files = [Path(f"{prefix}{number:09}") for number in range(len(places) - 1)]
    whole = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()

    reader = Reader(prefix)
    found: list[str] = []
    for step in [*grown, sum(map(len, whole))]:
        _grow(files, whole, step)
        found += reader.batch(limit)
        assert found == expected[: len(found)]
        if restarts:
            reader.restart()
    for _ in range(len(items) + len(files)):
        found += reader.batch(limit)

    assert found == expected


def _grow(files: list[Path], whole: list[bytes], room: int) -> None:
    """Write so many further bytes of a trail."""
    for file, data in zip(files, whole, strict=True):
        have = file.stat().st_size if file.exists() else 0
        if have < len(data) and room:
            file.write_bytes(data[: have + room])
            room -= min(room, len(data) - have)
