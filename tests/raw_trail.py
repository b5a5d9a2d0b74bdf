"""Trails for tests made record by record: transactions, parts of them, restart records, metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sample_trail import DEFINITIONS, ORDERS, Op, changes
from trail.building import ABEND, RESTART_OK, cell, record, table_record, text
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.format.tokens import LOGCSN, TRANID, ByteOrder
from trailgate.trail.writing.writer import encode

BIG, LITTLE = ByteOrder.BIG, ByteOrder.LITTLE
RESTART: dict[str, Any] = {"name": "", "tokens": None, "partition": 0, "node": 0, "record_count": 0}


def transaction(operations: Sequence[Op], number: int = 0) -> list[bytes]:
    """Return one transaction of level 3, the bytes of each operation."""
    empty: list[Sequence[Op]] = [[Op("I", 0)]] * number
    encoded = encode(changes([*empty, operations]))
    body, starts = bytes(encoded.body), encoded.starts.tolist()[number:]
    return [body[starts[i] : starts[i + 1]] for i in range(len(operations))]


def inserts(
    keys: Sequence[int], *, order: ByteOrder = BIG, tx: int = 1, index: int = 0
) -> list[bytes]:
    """Return a transaction of inserts into MY.ORDERS, by name or by a table's index."""
    found = []
    last = len(keys) - 1
    for i, key in enumerate(keys):
        number = b"\0\0" + key.to_bytes(8, "big", signed=True)
        data = cell(0, number, order) + cell(1, text(f"row {key}", order), order)
        indicator = 3 if not last else 0 if i == 0 else 2 if i == last else 1
        tokens = ((LOGCSN, b"%d" % (1000 + tx)), (TRANID, b"tx%d" % tx)) if i == 0 else ()
        naming: dict[str, Any] = {"table_index": index} if index else {"name": ORDERS.name}
        found.append(record(5, data, trans_ind=indicator, tokens=tokens, order=order, **naming))
    return found


def abend(order: ByteOrder = BIG) -> bytes:
    return record(ABEND, order=order, **RESTART)


def restart_ok(order: ByteOrder = BIG) -> bytes:
    return record(RESTART_OK, order=order, **RESTART)


def definition(index: int = 1, order: ByteOrder = BIG) -> bytes:
    """Return the metadata record of MY.ORDERS."""
    return table_record(ORDERS, index, order)


def write_files(
    prefix: Path,
    files: Sequence[Sequence[bytes]],
    *,
    level: int | None = 3,
    definitions: bool = True,
) -> Path:
    """Write each list of records as a file; level None is one without a header."""
    for number, records in enumerate(files):
        info = TrailInfo(seqno=number, compatibility=level or 0)
        header = b"" if level is None else encode_header(FileHeader(trail=info))
        Path(f"{prefix}{number:09}").write_bytes(header + b"".join(records))
    if definitions:
        Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
    return prefix
