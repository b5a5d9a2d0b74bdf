"""Deletion vectors, which mark rows of a Delta table's files as deleted, as Databricks writes them: delta-rs reads them, and writes none.

The form is that of the Delta protocol (PROTOCOL.md, "Deletion Vector Format"): a file with a version byte, and a bitmap of row numbers between its size and its checksum, both
big-endian.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

MAGIC: Final = 1681511377  # "a RoaringBitmapArray in the portable format"
NO_RUNS: Final = 12346  # the cookie of a roaring bitmap whose containers are arrays or bitmaps
DIGITS: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"  # Z85
)


def delete_by_vector(table: Path, rows: dict[str, list[int]]) -> None:
    """Delete rows of files, by their numbers there, in one commit that writes deletion vectors."""
    log = table / "_delta_log"
    version = DeltaTable(table).version() + 1
    features = DeltaTable(table).protocol()
    actions: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": sorted({"deletionVectors", *(features.reader_features or ())}),
                "writerFeatures": sorted({"deletionVectors", *(features.writer_features or ())}),
            }
        }
    ]
    for file, numbers in rows.items():
        added = _added(log, file)
        removed = {
            name: added[name] for name in ("path", "partitionValues", "size") if name in added
        }
        vector = _vector_file(table, numbers)
        actions += [
            {"remove": {**removed, "deletionTimestamp": 1, "dataChange": True}},
            {"add": {**added, "deletionVector": vector, "dataChange": True}},
        ]
    text = "\n".join(map(json.dumps, actions))
    (log / f"{version:020}.json").write_text(text + "\n")


def vectors(table: Path) -> int:
    """Return the number of files of a table that have a deletion vector."""
    return int(pa.table(DeltaTable(table).deletion_vectors()).num_rows)


def _added(log: Path, file: str) -> dict[str, Any]:
    """Return the last action that added a file."""
    found: dict[str, Any] = {}
    for commit in sorted(log.glob("*.json")):
        for line in filter(None, commit.read_text().split("\n")):
            action = json.loads(line).get("add")
            if action is not None and action["path"] == file:
                found = action
    return found


def _vector_file(table: Path, numbers: list[int]) -> dict[str, Any]:
    """Write a file of one deletion vector; return how a commit names it."""
    bitmap = struct.pack("<iqi", MAGIC, 1, 0) + _roaring(numbers)
    name = uuid.uuid4()
    content = (
        b"\x01" + struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    )
    (table / f"deletion_vector_{name}.bin").write_bytes(content)
    return {
        "storageType": "u",
        "pathOrInlineDv": _z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(bitmap),
        "cardinality": len(numbers),
    }


def _roaring(numbers: list[int]) -> bytes:
    """Return a roaring bitmap of numbers below 65,536, as one container that is an array."""
    head = struct.pack("<II", NO_RUNS, 1) + struct.pack("<HH", 0, len(numbers) - 1)
    offset = struct.pack("<I", len(head) + 4)
    return head + offset + np.array(sorted(numbers), "<u2").tobytes()


def _z85(data: bytes) -> str:
    found = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4])
        found += "".join(DIGITS[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return found
