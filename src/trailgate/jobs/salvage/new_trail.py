"""The files of a salvaged trail while they are written, in a staging folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import Final

from trailgate.jobs.checking.file_totals import FileTotals
from trailgate.jobs.checking.file_walk import FileBegun, FileEnded, Step
from trailgate.jobs.salvage.left_out import ByteRange, LeftOut
from trailgate.jobs.salvage.selection import Selection
from trailgate.model.tables import Table
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.listing import number_digits
from trailgate.storage.files.trail_files import TrailFile
from trailgate.storage.reading.trail.trail_file import TrailFileReader
from trailgate.storage.writing.target import file_header
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.file_header import decode_header, encode_header
from trailgate.trail.writing.header_patching import HeaderFacts, patched_header

COPIED: Final = 4 << 20  # bytes copied at once


class NewTrail:
    """The files of the new trail: bodies are appended as they come, headers are filled in at the end."""

    def __init__(self, folder: Path, prefix: str, files: tuple[TrailFile, ...]) -> None:
        self.digits = (number_digits(files[0].path) if files else 0) or 9
        self.first = files[0].number if files else 0
        self.folder, self.prefix, self.files = folder, prefix, files
        self.now = time_ns() // 1000
        self.headers: list[tuple[bytes, ByteOrder]] = []
        self.tables: dict[str, Table] = {}
        self.left_out = self.left_out_bytes = 0
        self.list = (folder / "left-out").open("w")
        self.selection = Selection(self.write, self.copy, self.leave)

    def name(self, number: int) -> str:
        """Return the name of a new file, without its folder."""
        return f"{Path(self.prefix).name}{self.first + number:0{self.digits}}"

    def take(self, step: Step) -> None:
        """Take one step of the check."""
        if isinstance(step, FileBegun):
            self._begin(step)
        elif isinstance(step, FileEnded):
            for known in step.tables.tables.values():
                if known.table is not None:
                    self.tables.setdefault(known.name.casefold(), known.table)
        self.selection.take(step)

    def _begin(self, step: FileBegun) -> None:
        """Begin a file with its own header, or with one that is made where that is damaged or missing."""
        if step.problem and step.raw:
            self.leave(LeftOut(step.number, 0, len(step.raw), step.problem))
        facts = HeaderFacts("", self.first + step.number)
        if step.header is not None:
            self.headers.append((step.raw, step.header.order))
            patched = self._patched(step.number, facts)
            if decode_header(patched)[0].trail.seqno == facts.seqno:
                (self.folder / self.name(step.number)).write_bytes(patched)
                return
            self.headers.pop()  # it has no place for what a header must say
        made = file_header(self.prefix, self.digits, self.now)
        self.headers.append((encode_header(made), made.order))
        patched = self._patched(step.number, facts)
        (self.folder / self.name(step.number)).write_bytes(patched)

    def _patched(self, number: int, facts: HeaderFacts) -> bytes:
        raw, order = self.headers[number]
        filename = str(Path(self.prefix).with_name(self.name(number)))
        return patched_header(raw, order, replace(facts, filename=filename))

    def write(self, number: int, pieces: Sequence[memoryview]) -> None:
        """Add bytes to a new file."""
        with (self.folder / self.name(number)).open("ab") as file:
            file.writelines(pieces)

    def copy(self, part: ByteRange) -> None:
        """Add bytes of a source file to the new file of the same number."""
        with TrailFileReader(self.files[part.number]) as reader:
            for place in range(part.start, part.end, COPIED):
                data = reader.read(place, min(COPIED, part.end - place))
                self.write(part.number, [data.data])

    def leave(self, left: LeftOut) -> None:
        """List what is left out."""
        self.left_out += 1
        self.left_out_bytes += left.length
        line = {
            "file": name_of(self.files[left.number].path),
            "offset": left.offset,
            "length": left.length,
            "reason": left.reason,
            "transaction": left.transaction,
        }
        self.list.write(json.dumps(line, ensure_ascii=False) + "\n")

    def staged(self) -> tuple[TrailFile, ...]:
        """Return the new files as they are in the staging folder."""
        paths = [self.folder / self.name(number) for number in range(len(self.files))]
        return tuple(
            TrailFile(str(path), self.first + number, path.stat().st_size)
            for number, path in enumerate(paths)
        )

    def fill_in(self, number: int, totals: FileTotals) -> None:
        """Write what a new file's records say into its header."""
        own = totals.facts
        facts = HeaderFacts(
            "",
            self.first + number,
            totals.file.size,
            first_csn=own.first_csn,
            last_csn=own.last_csn,
            first_io_time=own.first_time,
            last_io_time=own.last_time,
        )
        with Path(totals.file.path).open("r+b") as file:
            file.write(self._patched(number, facts))
            file.flush()
            os.fsync(file.fileno())
