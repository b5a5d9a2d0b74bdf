"""Write operations that could not be applied to a discard file, one JSON object per line.

A line has the reason, the position, and the complete operation with its before and after images:

    {"reason": "the row does not exist", "table": "HR.JOBS", "op_type": "U", "position": ...}

Users may repair these lines and apply them again (``repaired.py``).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
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
POSITION: Final = re.compile(rb'"position"\s*:\s*"(\d{20})"')
OBJECT: Final = re.compile(rb"\s*\{.*\}\s*", re.DOTALL)


def get_discard_path(options: ApplyOptions) -> str:
    """Return the path of the discard file, by default ``GROUP.discards.jsonl``."""
    return options.discards or f"{options.group}.discards.jsonl"


def hash_discard_file(content: bytes) -> str:
    """Hash the content of a discard file.

    The target stores the hash in place of a CSN, to detect which lines were already applied.
    """
    return hashlib.sha256(content).hexdigest()


def find_applied(content: bytes, digest: str | None) -> int:
    """Return the length of the part of a discard file that was already applied: its beginning, which had the hash ``digest``.

    Lines may have been added to the file since. Returns 0 if it does not begin with the applied
    file.
    """
    # Hash the file line by line, and compare both before and after the end of each line: the
    # applied file may have had no newline at its end.
    hashed, end = hashlib.sha256(), 0
    for line in content.splitlines(keepends=True) if digest else ():
        bare = line.rstrip(b"\r\n")
        for part in (bare, line[len(bare) :]):
            hashed.update(part)
            end += len(part)
            if hashed.hexdigest() == digest:
                return end
    return 0


class DiscardFile:
    """A discard file, to which operations are appended.

    An operation that is already in the file is not added again.

    Lines are written and synced before the tables or the batch are committed, so no discarded
    operation is ever lost. If a killed run's batch is applied again, its lines are recognized
    (decision 0173). Blank lines and a missing newline at the end are accepted, because people edit
    these files. Raises OptionError if a line is not a JSON object; nothing is then appended.
    """

    def __init__(
        self, path: str, *, after: str = "", start: int = 0, read_only: bool = False
    ) -> None:
        """Read the lines of the file that begin at the byte ``start``, if the file exists.

        Only lines with positions later than ``after`` (20 digits) are parsed and kept in memory. No
        earlier operation is sought or added. Unless ``read_only``, an incomplete last line, which a
        killed run leaves, is removed before other lines are appended.
        """
        self._path, self._read_only, self._after = Path(path), read_only, after
        self._lines: list[str] = []
        self._known: set[bytes] = set()
        self._positions: set[str] = set()
        self.skipped_lines = 0  # the number of lines before ``start``
        self._torn: tuple[int, int] | None = None  # the offsets of an incomplete last line
        # Not Path.exists(), which raises an error if the name is longer than a file's can be.
        if os.path.exists(path):  # noqa: PTH110
            with convert_write_errors(self._path), self._path.open("rb") as file:
                before = file.read(start).splitlines()
                self.skipped_lines = sum(1 for line in before if line.strip())
                self._read(file, start, len(before))

    def _read(self, lines: Iterable[bytes], start: int, before: int) -> None:
        """Read the lines of the discard file from the offset ``start``, before which are ``before`` lines."""
        for number, line in enumerate(lines, before + 1):
            end = start + len(line)
            is_complete = line.endswith(b"\n")
            if not is_complete and _is_torn(line):
                self._torn = start, end
            elif line.strip():
                self._read_line(line, number)
                # A last line that an editor saved without a newline: it is written before other lines.
                if not is_complete:
                    self._lines.append("")
            start = end

    def _read_line(self, line: bytes, number: int) -> None:
        """Parse and remember a line of the discard file, unless its position is not later than ``after``."""
        positions = POSITION.findall(line)
        if positions and max(positions) <= self._after.encode() and OBJECT.fullmatch(line):
            return
        self._remember(self._parse_line(line, number))

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
        if not self._positions:
            return []
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
        assert not self._read_only
        with convert_write_errors(self._path):
            self._remove_torn()
            if not any(self._lines):
                return
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in self._lines)
                file.flush()
                os.fsync(file.fileno())
        self._lines.clear()

    def _remove_torn(self) -> None:
        """Remove the incomplete last line, unless another run was just writing it and has continued."""
        torn, self._torn = self._torn, None
        if torn is not None and self._path.stat().st_size == torn[1]:
            os.truncate(self._path, torn[0])


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
