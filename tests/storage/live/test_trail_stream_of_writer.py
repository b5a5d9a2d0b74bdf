"""A stream behind our own writer of live trails, which is killed and goes on: each operation once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from failing_disk import FailingDisk, KilledError
from laws import sampled
from live_source import MODES, SMALL_SOURCE, write
from trailgate.storage.files.trail_files import find_begun_trail
from trailgate.storage.reading.trail_stream import TrailStream
from trailgate.storage.reading.trails import read_split, read_trail


def what(batches: Any) -> list[Any]:
    names = ("table", "op_type", "tx_id", "tx_ind", "before", "after")
    return [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]


class Tail:
    """Takes batch after batch of a trail."""

    def __init__(self, prefix: Path) -> None:
        self._stream = TrailStream(lambda: find_begun_trail(prefix))
        self._offset = self._stream.initial("earliest")
        self.found: list[Any] = []

    def take(self) -> None:
        start, self._offset = self._offset, self._stream.latest(self._offset)
        planned = self._stream.splits(start, self._offset, 1000)
        if planned is not None:
            trail, splits = planned
            self.found += [row for split in splits for row in what(read_split(trail, split))]


class WatchedDisk(FailingDisk):
    """Lets the stream take what is there at every step of the writer."""

    def __init__(self, tail: Tail, kill_at: int | None = None) -> None:
        super().__init__(kill_at, 0.4)
        self._tail = tail

    def step(self) -> bool:
        self._tail.take()
        return super().step()


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_stream_behind_a_writer_that_is_killed_gets_each_operation_once(
    tmp_path: Path, mode: str
) -> None:
    options = MODES[mode]
    write(tmp_path / "clean", SMALL_SOURCE, options)
    expected = what(read_trail(tmp_path / "clean"))
    for killed_at in sampled(range(1, 61), 8, mode):
        prefix = tmp_path / f"at{killed_at:02}x"
        tail = Tail(prefix)
        try:
            write(prefix, SMALL_SOURCE, options, disk=WatchedDisk(tail, killed_at))
        except KilledError:
            tail.take()
        write(prefix, SMALL_SOURCE, options, disk=WatchedDisk(tail))
        tail.take()

        assert tail.found == expected, f"killed at step {killed_at}"
        assert what(read_trail(prefix)) == expected
