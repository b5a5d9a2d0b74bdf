"""NULL is written by a policy of its type, and is an error without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trailgate
from trailgate.errors import EncodeError, OptionError

COPYBOOK = """
01 R.
   05 T PIC X(2).
   05 D PIC S9(2).
   05 P PIC S9(3) COMP-3.
   05 B PIC S9(4) COMP.
   05 F COMP-1.
"""
TYPES = {"T": pa.string(), "D": pa.int64(), "P": pa.int64(), "B": pa.int64(), "F": pa.float64()}
NONE = pa.record_batch({name: pa.nulls(1, kind) for name, kind in TYPES.items()})
HELD = pa.record_batch({"T": ["ab"], "D": [1], "P": [-2], "B": [3], "F": [0.0]})


@pytest.fixture
def copybook(tmp_path: Path) -> Path:
    path = tmp_path / "r.cpy"
    path.write_text(COPYBOOK)
    return path


@pytest.mark.parametrize(
    ("nulls", "bytes_"),
    [
        ("low", "0000 0000 0000 0000 00000000"),
        ("high", "ffff ffff ffff ffff ffffffff"),
        ({"*": "zero", "text": "blank"}, "4040 f0c0 000c 0000 00000000"),
        ("*=zero, text=low, display=blank, packed=blank", "0000 4040 4040 0000 00000000"),
    ],
    ids=str,
)
def test_null_is_written_by_the_policy_of_its_type(
    tmp_path: Path, copybook: Path, nulls: Any, bytes_: str
) -> None:
    trailgate.write_records([NONE, HELD], tmp_path / "data", copybook, nulls=nulls)

    found = (tmp_path / "data").read_bytes()
    assert found[:12] == bytes.fromhex(bytes_)
    assert found[12:] == bytes.fromhex("8182 f0c1 002d 0003 00000000")


def test_null_without_a_policy_is_an_error_with_its_place(tmp_path: Path, copybook: Path) -> None:
    with pytest.raises(EncodeError, match=r"NULL cannot be written .*data, record 2, field D"):
        trailgate.write_records(
            [pa.concat_batches([HELD, NONE])],
            tmp_path / "data",
            copybook,
            nulls="text=blank",
        )


@pytest.mark.parametrize(
    ("nulls", "problem"),
    [
        ("binary=blank", r"cannot be blank in binary fields.*error, low, high, zero"),
        ("text=nothing", "NULL can be written as error, blank, zero, low, high, not 'nothing'"),
        ("texts=blank", r"texts is not a type.*Did you mean text"),
    ],
)
def test_a_policy_that_a_type_cannot_have_is_refused(
    tmp_path: Path, copybook: Path, nulls: str, problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        trailgate.write_records([NONE], tmp_path / "data", copybook, nulls=nulls)


REDEFINED = "01 R. 05 A PIC X(2). 05 B REDEFINES A PIC 9(2). 05 C PIC X."


def test_of_two_definitions_of_the_same_bytes_the_one_with_a_value_is_written(
    tmp_path: Path,
) -> None:
    copybook = tmp_path / "r.cpy"
    copybook.write_text(REDEFINED)
    numbers = pa.array([None, 7, 8], pa.int64())
    batch = pa.record_batch({"A": ["xy", None, "zz"], "B": numbers, "C": ["c"] * 3})

    trailgate.write_records([batch], tmp_path / "data", copybook, code_page="ascii")

    assert (tmp_path / "data").read_bytes() == b"xyc07c08c"
    neither = pa.record_batch(
        {"A": pa.array(["a", None]), "B": numbers[:1].take([0, 0]), "C": ["c"] * 2}
    )
    with pytest.raises(EncodeError, match=r"no other item of the same bytes .*record 2, field A"):
        trailgate.write_records([neither], tmp_path / "new", copybook, code_page="ascii")
    with pytest.raises(EncodeError, match=r"no other item of the same bytes .*record 1, field A"):
        trailgate.write_records([neither.select(["C"])], tmp_path / "new", copybook)
