"""What a journal holds, as tables; nothing is locked, and a journal that is being written can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from trailgate.errors import StorageError, Where
from trailgate.storage.files.journal.frames import read_frames
from trailgate.storage.files.journal.segments import SEGMENT, journal_files
from trailgate.storage.files.quarantine import write_line

RECEIPT = pa.timestamp("us", "UTC")
SEGMENTS = pa.schema(
    [
        ("file", pa.string()),
        ("kind", pa.string()),
        ("first", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("received", RECEIPT),
    ]
)


def find_journal(path: str) -> Path:
    """Return the folder of a journal, which its path or its trail's prefix names; raises StorageError."""
    for folder in (Path(path), Path(f"{path}.journal")):
        if folder.is_dir() and journal_files(folder):
            return folder
    hint = "Name the folder, or the prefix of the trail: dirdat/ot for dirdat/ot.journal"
    raise StorageError("there is no journal here", where=Where(source=path), hint=hint)


def segments_of(folder: Path) -> pa.RecordBatch:
    """Return a row for each file: its first message's number and, of a segment, the time at which its last one was received."""
    rows: list[dict[str, object]] = []
    for file in journal_files(folder):
        frames = [(frame.number, len(frame.batch), frame.batch) for frame in read_frames(file.path)]
        last = None
        if frames and file.kind == SEGMENT:
            last = frames[-1][2]["received"][-1].as_py()
        rows.append(
            {
                "file": file.path.name,
                "kind": file.kind,
                "first": frames[0][0] if frames else None,
                "messages": sum(count for _, count, _ in frames),
                "bytes": file.path.stat().st_size,
                "received": last,
            }
        )
    return pa.RecordBatch.from_pylist(rows, SEGMENTS)


def messages_of(folder: Path, number: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the messages from a number on: number, id, time of receipt, headers, body as text, and why it has none."""
    for file in journal_files(folder):
        if file.kind != SEGMENT:
            continue
        for frame in read_frames(file.path):
            left_out = max(0, number - frame.number)
            batch = frame.batch.slice(left_out)
            if not len(batch):
                continue
            first = frame.number + left_out
            bodies = [
                body.decode("utf-8", "backslashreplace") for body in batch["body"].to_pylist()
            ]
            columns = {
                "number": np.arange(first, first + len(batch)),
                "id": batch["id"],
                "received": batch["received"].cast(RECEIPT),
                "headers": batch["headers"],
                "body": pa.array(bodies, pa.string()),
                "fault": batch["fault"],
            }
            yield pa.RecordBatch.from_pydict(columns)


def lines_of(folder: Path, number: int = 0) -> Iterator[bytes]:
    """Yield the messages from a number on as the JSON lines that a capture reads."""
    for file in journal_files(folder):
        if file.kind != SEGMENT:
            continue
        for frame in read_frames(file.path):
            for at, row in enumerate(frame.batch.to_pylist(), frame.number):
                if at >= number:
                    place = (file.path.name, file.number, at - frame.number)
                    yield write_line(row["body"], dict(row["headers"]), place, row["fault"] or "")
