"""Parts in several threads: the results and errors of one thread, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_trail import Op, write_trail
from trailgate.errors import DecodeError, OptionError
from trailgate.storage.reading.threads import HELD, run_in_order, thread_count
from trailgate.storage.reading.trails import read_trail


def taken(parts: list[list[int]], bad: int, threads: int) -> tuple[list[int], str]:
    """Return the results of parts, and the error; a part raises where it has the number ``bad``."""

    def work(part: list[int]) -> Iterator[int]:
        for number in part:
            if number == bad:
                raise ValueError(f"bad {number}")
            yield number

    found: list[int] = []
    try:
        found.extend(run_in_order(work, parts, threads))
    except ValueError as error:
        return found, str(error)
    return found, ""


@given(
    st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=8),
    st.integers(0, 40),
    st.integers(2, 4),
)
def test_threads_give_the_results_and_the_error_of_one(
    parts: list[list[int]], bad: int, threads: int
) -> None:
    assert taken(parts, bad, threads) == taken(parts, bad, 1)


def test_parts_that_are_not_taken_yet_wait() -> None:
    done: list[int] = []

    def work(part: int) -> Iterator[int]:
        for number in range(100):
            done.append(part)
            yield number

    results = run_in_order(work, range(8), 3)
    for _ in range(5):
        next(results)
    results.close()

    assert len(done) <= 5 + 3 * (HELD + 1)
    assert set(done) <= {0, 1, 2}


def test_no_thread_is_left_when_nobody_takes_more() -> None:
    def work(part: int) -> Iterator[int]:
        yield from range(part, part + 1000)

    for result in run_in_order(work, range(50), 4):
        if result == 3:
            break

    assert [one for one in threading.enumerate() if one.name.startswith("trailgate")] == []


def test_the_number_of_threads_is_checked() -> None:
    assert thread_count(3) == 3
    assert thread_count(None) >= 1
    with pytest.raises(OptionError, match="at least 1"):
        thread_count(0)


FILES = [[[Op("I", 10 * file + i, "x" * 50)] for i in range(40)] for file in range(6)]


def test_a_trail_is_read_by_threads_as_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.storage.reading.trails.THREAD_BYTES", 700)
    prefix = write_trail(tmp_path / "ot", FILES)

    def rows(threads: int) -> list[object]:
        return [row for batch in read_trail(prefix, threads=threads) for row in batch.to_pylist()]

    assert rows(3) == rows(1)
    assert len(rows(2)) == 240


def test_a_damaged_trail_is_read_by_threads_up_to_the_same_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.storage.reading.trails.THREAD_BYTES", 700)
    prefix = write_trail(tmp_path / "ot", FILES)
    path = Path(f"{prefix}000000003")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    path.write_bytes(data)

    def rows(threads: int) -> list[str]:
        found: list[str] = []
        try:
            for batch in read_trail(prefix, threads=threads):
                found += batch["position"].to_pylist()
        except DecodeError as error:
            return [*found, str(error)]
        return found

    assert rows(3) == rows(1)
    assert "000000003" in rows(1)[-1]
