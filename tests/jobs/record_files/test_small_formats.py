"""Blocks that are filled, all names of RECFM, and segments that are a single item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trailgate import read_records, write_records

COPYBOOK = "01 R. 05 N PIC 9(4). 05 T PIC X(OF)."


def blocks_of(data: bytes) -> list[int]:
    """Return the lengths that the words of blocks state."""
    found, at = [], 0
    while at < len(data):
        found.append(int.from_bytes(data[at : at + 2], "big"))
        at += found[-1]
    return found


@pytest.mark.parametrize("form", ["VB", "VBS"])
@pytest.mark.parametrize(
    ("size", "count", "blocks"),
    [
        (96, 700, [4 + 104 * 314] * 2 + [4 + 104 * 72]),
        (32_755, 3, [32_767] * 3),
        (32_748, 2, [32_760] * 2),
        (32_749, 2, [32_761] * 2),
    ],
)
def test_blocks_are_filled(
    form: Any, size: int, count: int, blocks: list[int], tmp_path: Path
) -> None:
    text = COPYBOOK.replace("OF", str(size))
    table = pa.table({"N": pa.array(range(count)), "T": ["x"] * count})
    batches = table.to_batches(max_chunksize=37)

    write_records(batches, tmp_path / "data", copybook_text=text, record_format=form)

    assert blocks_of((tmp_path / "data").read_bytes()) == blocks
    found = read_records(tmp_path / "data", copybook_text=text, record_format=form).read_all()
    assert found["N"].to_pylist() == list(range(count))


def test_blocks_of_one_record_are_an_option(tmp_path: Path) -> None:
    table = pa.table({"N": [1, 2], "T": ["x", "y"]})
    how: dict[str, Any] = {"copybook_text": COPYBOOK.replace("OF", "1"), "record_format": "VB"}
    write_records(table, tmp_path / "data", block_records=1, **how)
    assert blocks_of((tmp_path / "data").read_bytes()) == [13, 13]


@pytest.mark.parametrize(
    ("names", "record_format"),
    [
        ("F FA FM FB FBA FBM FS FBS FBSA", "fixed"),
        ("V VA VM", "rdw"),
        ("VB VBA VBM", "bdw"),
        ("VS VBS VBSA VBSM", "spanned"),
    ],
)
def test_each_name_of_recfm_is_a_record_format(
    names: str, record_format: Any, tmp_path: Path
) -> None:
    table = pa.table({"N": [1, 2], "T": ["x", "y"]})
    text = COPYBOOK.replace("OF", "1")
    write_records(table, tmp_path / "data", copybook_text=text, record_format=record_format)
    name: Any
    for name in names.split():
        found = read_records(tmp_path / "data", copybook_text=text, record_format=name)
        assert found.read_all().to_pydict() == table.to_pydict()


@pytest.mark.parametrize("record_format", ["fixed", "rdw", "layout"])
def test_a_segment_can_be_one_item(record_format: Any, tmp_path: Path) -> None:
    how: dict[str, Any] = {
        "copybook_text": "01 R. 05 K PIC X. 05 A PIC X(4). 05 B REDEFINES A PIC 9(3). 05 C REDEFINES A. 10 D PIC X.",
        "kinds": "K: A=A, B=B, C=C",
        "record_format": record_format,
        "code_page": "ascii",
    }
    rows = [
        {"_record": "A", "A": {"K": "A", "A": "text"}, "B": None, "C": None},
        {"_record": "B", "A": None, "B": {"K": "B", "B": 123}, "C": None},
        {"_record": "C", "A": None, "B": None, "C": {"K": "C", "D": "z"}},
    ]
    (tmp_path / "empty").write_bytes(b"")
    schema = read_records(tmp_path / "empty", **how).schema

    write_records(pa.Table.from_pylist(rows, schema=schema), tmp_path / "data", **how)

    assert read_records(tmp_path / "data", **how).read_all().to_pylist() == rows
    if record_format == "layout":
        assert (tmp_path / "data").read_bytes() == b"AtextB123Cz"
