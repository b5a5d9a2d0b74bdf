"""Promises about the cost of reading records with many columns: it is linear in the columns and in the batches, and rows of a batch add no steps.

Steps are calls of Python functions, which are the same on any machine.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from counted_calls import counted
from trailgate import read_records
from trailgate.cobol.records import decoding

FEW, MANY = 400, 4000
ROWS = 8  # of a batch


def copybook(columns: int) -> str:
    return "\n".join(["01 R.", *(f"   05 F-{number} PIC 9(2)." for number in range(columns))])


def steps(path: Path, columns: int, rows: int) -> int:
    """Return the calls that reading a file of so many columns and rows takes."""
    path.write_bytes(b"\xf1\xf2" * columns * rows)
    calls, table = counted(lambda: read_records(path, copybook_text=copybook(columns)).read_all())
    assert (table.num_columns, table.num_rows) == (columns, rows)
    assert table.column(columns - 1).to_pylist() == [12] * rows
    return calls


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> partial[int]:
    monkeypatch.setattr(decoding, "CHUNK_ROWS", (ROWS, ROWS))
    taken = partial(steps, tmp_path / "data")
    taken(10, 3 * ROWS)  # whatever is loaded or compiled once
    return taken


def test_ten_times_as_many_columns_take_ten_times_as_many_steps(measure: partial[int]) -> None:
    assert measure(MANY, ROWS) < 1.1 * MANY / FEW * measure(FEW, ROWS)


@pytest.mark.parametrize("columns", [FEW, MANY])
def test_each_batch_takes_the_same_few_steps_for_a_column(
    measure: partial[int], columns: int
) -> None:
    one, two, five = (measure(columns, batches * ROWS) for batches in (1, 2, 5))

    assert five - two == pytest.approx(3 * (two - one), rel=0.05)
    assert two - one < 20 * columns


def test_more_rows_in_a_batch_take_no_step(
    measure: partial[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "CHUNK_ROWS", (100 * ROWS, 100 * ROWS))

    assert measure(FEW, 100 * ROWS) - measure(FEW, 2) < FEW
