"""Trails of several levels with every kind of record, each in one file, to have single bytes of them flipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damaged_trails import sample, write_files
from trail.batches import batch_of
from trail.written_formats import LARGE
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.file_header import FileHeader, TrailInfo
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.writing.file_headers import encode_file_start
from trailgate.trail.writing.trail_format import TrailFormat, UpdateFormat
from trailgate.trail.writing.writer import encode

KINDS = Table(
    "S.KINDS",
    (
        Column("ID", 134, 8, key=True),
        Column("NAME", 64, 20),
        Column("CODE", 0, 4),
        Column("AT", 192, 19),
        Column("SMALL", 130, 2),
        Column("AMOUNT", 134, 8, scale=2),
        Column("RAW", 64, 20, sub_type=4),
    ),
)
DEFINITIONS = Definitions((KINDS, LARGE))
BIG, LITTLE = ByteOrder.BIG, ByteOrder.LITTLE
FORMATS = {
    "level 0": TrailFormat(0),
    "level 3": TrailFormat(3),
    "level 5": TrailFormat(5, LITTLE, UpdateFormat.FULL),
    "level 7": TrailFormat(7, BIG, UpdateFormat.COMPACT),
}
FULL = {"ID": 1, "NAME": "née", "CODE": "ab", "AT": "2024-01-02 03:04:05", "SMALL": -3, "RAW": "AF"}
OPERATIONS: list[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = [
    ("S.KINDS", "I", "W", {}, FULL),
    ("S.KINDS", "I", "B", {}, {"ID": 2, "NAME": None, "AT": None}),
    ("S.KINDS", "U", "M", {"ID": 2, "NAME": "x"}, {"ID": 2, "NAME": "yy"}),
    ("S.LARGE", "I", "M", {}, {"ID": 1, "DOC": "d" * 4500, "NAME": "n"}),
    ("S.KINDS", "K", "M", {"ID": 2}, {"ID": 3, "NAME": "z"}),
    ("S.KINDS", "D", "E", {"ID": 3}, {}),
    ("S.LARGE", "I", "B", {}, {"ID": 1, "WIDE": "w" * 60_000, "MORE": "m" * 10_000}),
    ("S.LARGE", "T", "M", {}, {}),
    ("S.LARGE", "U", "E", {}, {"ID": 1, "DOC": "e" * 4500}),
    ("S.KINDS", "I", "W", {}, {"ID": 9, "SMALL": None}),
]


def flipped_trails(folder: Path) -> dict[str, Path]:
    """Write the trails, each into a folder of its own; return the file of each."""
    found = {}
    for name, form in FORMATS.items():
        found[name] = _written(folder / name.replace(" ", "-"), form)
    for order in ByteOrder:
        own = folder / order.name
        own.mkdir()
        (found[f"every record, {order.label}"],) = write_files(own / "ot", [sample(order)[1][2:]])
    return found


def clean_trails(folder: Path) -> dict[str, Path]:
    """Write trails of every level without large objects and truncates; return the file of each."""
    operations = [one for one in OPERATIONS if one[0] == KINDS.name]
    return {
        name: _written(folder / f"clean-{name.replace(' ', '-')}", form, operations * 3)
        for name, form in FORMATS.items()
    }


def _written(
    folder: Path,
    form: TrailFormat,
    operations: Sequence[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = OPERATIONS,
) -> Path:
    folder.mkdir()
    rows = [
        {
            "table": table,
            "op_type": kind,
            "op_ts": 1_700_000_000_000_000 + i,
            "tx_ind": ind,
            "tx_id": f"tx{i}" if ind in "BW" else None,
            "csn": f"{100 + i}" if ind in "BW" else None,
            "before": before,
            "after": after,
            "tokens": {"TK-A": "b", "ORATAG": "00"} if i == 2 else {},
        }
        for i, (table, kind, ind, before, after) in enumerate(operations)
    ]
    encoded = encode(batch_of(DEFINITIONS, rows), form, DEFINITIONS)
    header = encode_file_start(FileHeader(TrailInfo()), form, DEFINITIONS)
    path = folder / "ot000000000"
    path.write_bytes(header + encoded.body.to_pybytes())
    (folder / "ot.def").write_bytes(write_sourcedefs(DEFINITIONS))
    return path
