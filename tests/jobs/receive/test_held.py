"""What is held keeps its order, and takes no more memory than its limit."""

from __future__ import annotations

import gc
import os
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import WriteError
from trailgate.live.jobs.units import SpillingBuffer


@given(st.lists(st.binary(max_size=9)), st.integers(0, 60))
def test_values_come_in_their_order_and_again(values: list[bytes], limit: int) -> None:
    held: SpillingBuffer[bytes] = SpillingBuffer(Path(tempfile.gettempdir()), limit)
    for at, value in enumerate(values):
        held.add(value, len(value))
        if at == len(values) // 2:
            assert list(held) == values[: at + 1]
    assert list(held) == values
    held.clear()
    assert list(held) == []


@given(
    st.lists(st.binary(max_size=9)), st.lists(st.binary(max_size=9), min_size=1), st.integers(0, 60)
)
def test_a_cleared_buffer_is_as_good_as_new(
    before: list[bytes], after: list[bytes], limit: int
) -> None:
    held: SpillingBuffer[bytes] = SpillingBuffer(Path(tempfile.gettempdir()), limit)
    for value in before:
        held.add(value, len(value))
    held.clear()
    for value in after:
        next(iter(held), None)  # an iteration that ends early
        held.add(value, len(value))

    assert list(held) == after


def test_a_cleared_buffer_takes_its_limit_in_memory_again(tmp_path: Path) -> None:
    held: SpillingBuffer[bytes] = SpillingBuffer(tmp_path / "missing", 4)
    for value in (b"old", b"new"):
        held.add(value, 3)
        held.clear()


def test_a_cleared_buffer_frees_its_disk_space(tmp_path: Path) -> None:
    held: SpillingBuffer[bytes] = SpillingBuffer(tmp_path, 0)
    held.add(bytes(1 << 20), 1 << 20)
    held.clear()

    assert held._file is not None
    assert os.fstat(held._file.fileno()).st_size == 0


def test_rows_beyond_the_limit_are_not_in_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    held: SpillingBuffer[bytes] = SpillingBuffer(tmp_path, 1 << 20)
    for _ in range(100):
        held.add(os.urandom(1 << 17), 1 << 17)
    assert tracemalloc.get_traced_memory()[0] < 3 << 20
    tracemalloc.stop()
    assert sum(map(len, held)) == 100 << 17
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_closed_with_what_held_it(tmp_path: Path) -> None:
    opened = Path("/proc/self/fd")
    if not opened.exists():
        pytest.skip("this system does not list a process's files")
    held: SpillingBuffer[bytes] = SpillingBuffer(tmp_path, 0)
    held.add(b"x", 1)
    assert any(str(tmp_path) in str(one.readlink()) for one in opened.iterdir() if one.is_symlink())
    del held
    gc.collect()
    assert not any(
        str(tmp_path) in str(one.readlink()) for one in opened.iterdir() if one.is_symlink()
    )


def test_no_place_for_it_is_an_error(tmp_path: Path) -> None:
    held: SpillingBuffer[bytes] = SpillingBuffer(tmp_path / "missing", 0)
    with pytest.raises(WriteError, match="cannot write"):
        held.add(b"x", 1)
