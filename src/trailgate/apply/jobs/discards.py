"""Operations that could not be applied, as JSON lines: each whole, with its position and the reason."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.jobs.options import ApplyOptions
from trailgate.errors import OptionError, TrailgateError, Where, mask_logins
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.operations_table import to_operations
from trailgate.storage.files.durable import convert_write_errors

REASON: Final = "reason"
BEGIN: Final = b'{"reason": '  # of each line
OTHERS: Final = "another operation of its transaction cannot be applied"
OF_ROW: Final = re.compile(r"(?:insert|update|key update|delete) of .*: ")
IMAGES: Final = ("before", "after", "tokens")


def discard_path(options: ApplyOptions) -> str:
    """Return the path of the discard file that options name."""
    return options.discards or f"{options.group}.discards.jsonl"


def content_digest(content: bytes) -> str:
    """Return the digest by which a target knows a file of discards that was applied to it."""
    return hashlib.sha256(content).hexdigest()


class DiscardFile:
    """A file of discards: lines are added, and an operation that has a line already gets no second one.

    It is written before tables or batches are committed, so that nothing is lost. A batch that is applied again after a kill finds its lines. Whoever repairs lines may leave blank lines, or
    no line end after the last one. Raises OptionError for a file with lines of something else, which nothing is added to.
    """

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        """Read the file. A line that a killed run did not write to its end is cut off, unless the file is ``read_only``."""
        self._path, self._read_only = Path(path), read_only
        self._lines: list[str] = []
        self._known: set[bytes] = set()
        self._positions: set[str] = set()
        with convert_write_errors(self._path):
            if self._path.exists():
                self._read(self._path.read_bytes())

    def _read(self, content: bytes) -> None:
        ended, _, last = content.rpartition(b"\n")
        end = len(content) - len(last)
        for number, line in enumerate(ended.splitlines(), 1):
            if line.strip():
                self._note(self._parsed(line, number))
        if not last.strip():
            return
        if _is_torn(last):  # a run was killed while it wrote the line
            if not self._read_only:
                os.truncate(self._path, end)
            return
        self._note(self._parsed(last, ended.count(b"\n") + 2))
        self._lines.append("")  # ends the line, before others follow

    def _note(self, line: Mapping[str, Any]) -> None:
        self._known.add(_digest(line))
        self._positions.add(str(line.get("position")))

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        problem = "the line is not an object of JSON, so the file is one of something else"
        where = Where(source=str(self._path), line=number)
        raise OptionError(problem, where=where, hint="--discards names another file")

    def add(self, block: ChangeBlock, errors: Mapping[int, TrailgateError]) -> None:
        """Add the operations of a block, with their errors by their numbers in the batch."""
        for number, row in _numbered(block):
            error = errors.get(number)
            line = _as_values(row, OTHERS if error is None else mask_logins(error.problem))
            digest = _digest(line)
            if digest not in self._known:
                self._note(line)
                self._lines.append(json.dumps(line, ensure_ascii=False))

    def listed(self, block: ChangeBlock) -> list[int]:
        """Return the numbers of a block's operations that have lines."""
        places = pa.array(list(self._positions), pa.string())
        rows = np.flatnonzero(np.asarray(pc.is_in(block.position, places)))
        if not len(rows):
            return []
        return [
            number
            for number, row in _numbered(block.take(rows))
            if _digest(_as_values(row)) in self._known
        ]

    def flush(self) -> None:
        """Write what was added, so that it lasts."""
        if not any(self._lines):
            return
        with convert_write_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self._lines)
            file.flush()
            os.fsync(file.fileno())
        self._lines.clear()


def _numbered(block: ChangeBlock) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the operations of a block by their numbers in the batch."""
    rows = to_operations(ChangeBatch([block], len(block))).to_pylist()
    yield from zip(sorted(block.order.tolist()), rows, strict=True)


def _is_torn(line: bytes) -> bool:
    """Return whether a line is the beginning of one that this module writes."""
    if not (line.startswith(BEGIN) or BEGIN.startswith(line)):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def reason_of(error: TrailgateError) -> str:
    """Return the reason of an operation that cannot be applied, without its key and values: as many have it, it is counted."""
    found = OF_ROW.match(error.problem)
    return error.problem[found.end() :] if found else error.problem.partition(": ")[0]


def _digest(line: Mapping[str, Any]) -> bytes:
    """Return a digest of an operation, whatever its reason."""
    values = {name: value for name, value in line.items() if name != REASON}
    text = json.dumps(values, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).digest()


def _as_values(row: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Return an operation as the operations table has it, without what is null, and the reason."""
    values = {name: value for name, value in row.items() if value is not None}
    for name in IMAGES:
        if name in values:
            values[name] = dict(values[name])
    if "op_ts" in values:
        values["op_ts"] = values["op_ts"].isoformat()
    return {REASON: reason, **values}
