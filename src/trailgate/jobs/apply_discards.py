"""Operations that could not be applied, as JSON lines: each whole, with its position and the reason."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trailgate.errors import TrailgateError, mask_logins
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.operations_table import to_operations
from trailgate.storage.files.durable import writing

POSITION: Final = "position"
OTHERS: Final = "another operation of its transaction cannot be applied"
OF_ROW: Final = re.compile(r"(?:insert|update|key update|delete) of .*: ")
IMAGES: Final = ("before", "after", "tokens")


class DiscardFile:
    """A file of discards: lines are added, and one for an operation that it has already is not added again.

    It is written before the batch is committed, so that nothing is lost; a batch that is applied again finds its lines there.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lines: list[str] = []
        self._known: set[tuple[str, str]] = set()
        with writing(self._path):
            if self._path.exists():
                whole, _, torn = self._path.read_bytes().rpartition(b"\n")
                if torn:  # a run was killed while it wrote a line
                    os.truncate(self._path, len(whole) + bool(whole))
                self._known.update(map(_place, map(json.loads, whole.splitlines())))

    def add(self, block: ChangeBlock, errors: Mapping[int, TrailgateError]) -> None:
        """Add the operations of a block, with their errors by their numbers in the batch."""
        rows = to_operations(ChangeBatch([block], len(block))).to_pylist()
        numbers = sorted(block.order.tolist())
        for number, row in zip(numbers, rows, strict=True):
            error = errors.get(number)
            line = _as_values(row, OTHERS if error is None else mask_logins(error.problem))
            if _place(line) not in self._known:
                self._known.add(_place(line))
                self._lines.append(json.dumps(line, ensure_ascii=False))

    def flush(self) -> None:
        """Write what was added, so that it lasts."""
        if not self._lines:
            return
        with writing(self._path), self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self._lines)
            file.flush()
            os.fsync(file.fileno())
        self._lines.clear()


def reason_of(error: TrailgateError) -> str:
    """Return the reason of an operation that cannot be applied, without its key and values: as many have it, it is counted."""
    found = OF_ROW.match(error.problem)
    return error.problem[found.end() :] if found else error.problem.partition(": ")[0]


def _place(line: Mapping[str, Any]) -> tuple[str, str]:
    return str(line.get("table")), str(line.get(POSITION))


def _as_values(row: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return an operation as the operations table has it, without what is null, and the reason."""
    values = {name: value for name, value in row.items() if value is not None}
    for name in IMAGES:
        if name in values:
            values[name] = dict(values[name])
    if "op_ts" in values:
        values["op_ts"] = values["op_ts"].isoformat()
    return {"reason": reason, **values}
