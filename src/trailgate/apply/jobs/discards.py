"""Write operations that could not be applied to a discard file, one JSON object per line.

A line has the reason, the position, and the complete operation with its before and after images:

    {"reason": "the row does not exist", "table": "HR.JOBS", "op_type": "U", "position": ...}

Users may repair these lines and apply them again (``repaired.py``).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.exclusions import OTHERS
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.errors import OptionError, TrailgateError, Where, mask_logins
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.operations_table import to_operations
from trailgate.storage.files.durable import convert_write_errors

REASON: Final = "reason"
BEGIN: Final = b'{"reason": '  # the beginning of each line
IMAGES: Final = ("before", "after", "tokens")


def get_discard_path(options: ApplyOptions) -> str:
    """Return the path of the discard file, by default ``GROUP.discards.jsonl``."""
    return options.discards or f"{options.group}.discards.jsonl"


def hash_discard_file(content: bytes) -> str:
    """Hash the content of a discard file.

    The target stores the hash in place of a CSN, to detect that a repaired file was already
    applied.
    """
    return hashlib.sha256(content).hexdigest()


class DiscardFile:
    """A discard file, to which operations are appended.

    An operation that is already in the file is not added again.

    Lines are written and synced before the tables or the batch are committed, so no discarded
    operation is ever lost. If a killed run's batch is applied again, its lines are recognized.
    Blank lines and a missing newline at the end are accepted, because people edit these files.
    Raises OptionError if a line is not a JSON object; nothing is then appended.
    """

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        """Read the file, if it exists. Unless ``read_only``, remove an incomplete last line, which a killed run leaves."""
        self._path, self._read_only = Path(path), read_only
        self._lines: list[str] = []
        self._known: set[bytes] = set()
        self._positions: set[str] = set()
        with convert_write_errors(self._path):
            if self._path.exists():
                self._read(self._path.read_bytes())

    def _read(self, content: bytes) -> None:
        """Parse the lines of the discard file. A last line without a newline is removed if incomplete, otherwise completed."""
        ended, _, last = content.rpartition(b"\n")
        end = len(content) - len(last)
        for number, line in enumerate(ended.splitlines(), 1):
            if line.strip():
                self._remember(self._parse_line(line, number))
        if not last.strip():
            return
        # A line without a newline: a killed run did not finish it, or an editor saved it so.
        if _is_torn(last):
            if not self._read_only:
                os.truncate(self._path, end)
            return
        self._remember(self._parse_line(last, content.count(b"\n") + 1))
        self._lines.append("")  # the missing newline, written before other lines are appended

    def _remember(self, line: Mapping[str, Any]) -> None:
        self._known.add(_digest(line))
        self._positions.add(str(line.get("position")))

    def _parse_line(self, line: bytes, number: int) -> dict[str, Any]:
        """Parse a line of the discard file. Raises OptionError if it is not a JSON object."""
        try:
            parsed = json.loads(line)
        except ValueError:
            parsed = None
        if isinstance(parsed, dict):
            return parsed
        problem = "the line is not a JSON object, so this is not a discard file"
        where = Where(source=str(self._path), line=number)
        raise OptionError(problem, where=where, hint="Name another file with --discards")

    def add(self, block: ChangeBlock, errors: Mapping[int, TrailgateError]) -> None:
        """Buffer a line for each operation of a block, until ``flush`` writes them to the discard file.

        ``errors`` contains the reasons by operation number in the batch. An operation without a
        reason was discarded because of its transaction.
        """
        for number, row in _numbered_rows(block):
            error = errors.get(number)
            line = _to_line(row, OTHERS if error is None else mask_logins(error.problem))
            digest = _digest(line)
            if digest not in self._known:
                self._remember(line)
                self._lines.append(json.dumps(line, ensure_ascii=False))

    def find_listed(self, block: ChangeBlock) -> list[int]:
        """Return the numbers of the block's operations that are already in the discard file."""
        positions = pa.array(list(self._positions), pa.string())
        # Comparing positions is fast and excludes nearly all rows. The digests then find the lines
        # that are unchanged.
        rows = np.flatnonzero(np.asarray(pc.is_in(block.position, positions)))
        if not len(rows):
            return []
        return [
            number
            for number, row in _numbered_rows(block.take(rows))
            if _digest(_to_line(row)) in self._known
        ]

    def flush(self) -> None:
        """Append the buffered lines to the discard file, and sync it to the disk."""
        if not any(self._lines):
            return
        with convert_write_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self._lines)
            file.flush()
            os.fsync(file.fileno())
        self._lines.clear()


def _numbered_rows(block: ChangeBlock) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each operation of a block as its number in the batch and a row of the operations table."""
    # ``to_operations`` sorts rows by their order, so the sorted numbers belong to them in turn.
    rows = to_operations(ChangeBatch([block], len(block))).to_pylist()
    yield from zip(sorted(block.order.tolist()), rows, strict=True)


def _is_torn(line: bytes) -> bool:
    """Return whether a line is the incomplete beginning of a line of a discard file."""
    if not (line.startswith(BEGIN) or BEGIN.startswith(line)):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _digest(line: Mapping[str, Any]) -> bytes:
    """Hash a line of a discard file without its reason, to find out whether the operation is in the file already."""
    values = {name: value for name, value in line.items() if name != REASON}
    text = json.dumps(values, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).digest()


def _to_line(row: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Convert a row of the operations table to the JSON object of a line in a discard file.

    The reason is first, and NULL values are omitted.
    """
    values = {name: value for name, value in row.items() if value is not None}
    for name in IMAGES:
        if name in values:
            values[name] = dict(values[name])
    if "op_ts" in values:
        values["op_ts"] = values["op_ts"].isoformat()
    return {REASON: reason, **values}
