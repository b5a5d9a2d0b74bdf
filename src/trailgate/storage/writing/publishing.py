"""Staged files become part of a trail, in steps that can all be done again; the manifest comes last."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from trailgate.definitions.defgen.sourcedefs import write_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import sync_folder, write_whole, writing
from trailgate.storage.files.manifest import (
    Manifest,
    Published,
    captured_path,
    read_manifest,
    write_manifest,
)
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.writing.growing_header import finishing_patches
from trailgate.storage.writing.segments import Segment
from trailgate.storage.writing.target import Target
from trailgate.trail.format.file_header import header_patches
from trailgate.trail.writing.file_beginning import header_of


@dataclass(frozen=True, slots=True)
class Staged:
    """What a run has staged: trail files and quarantine files in order.

    ``summary`` is the run's, for the manifest; ``sources`` counts message files with those of earlier runs. ``captured``
    are the run's lines of the list of captured files, ``last_id`` is its highest sequence id.
    """

    segments: Sequence[Segment]
    quarantine: Sequence[str] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    sources: int = 0
    captured: bytes = b""
    last_id: str = ""


def publish(target: Target, staged: Staged) -> tuple[tuple[str, ...], str | None]:
    """Make staged files part of the trail; return their names, and the quarantine's if it grew.

    Each step can be done again after a crash.
    """
    before = read_manifest(target.prefix) or Manifest()
    if before.unfinished:
        problem = f"the trail ends inside the transaction {before.unfinished['transaction']} of a streaming query"
        hint = "Let the query write its end first, or write another trail"
        raise StorageError(problem, where=Where(source=target.prefix), hint=hint)
    _finish_last(target.prefix, before)
    write_whole(Path(f"{target.prefix}.def"), write_sourcedefs(target.definitions))
    published = tuple(
        _place_file(target, segment, number)
        for number, segment in enumerate(staged.segments, before.next_number)
    )
    sync_folder(Path(target.prefix).parent)
    held, captured = before.quarantine, before.captured
    path = Path(f"{target.prefix}.quarantine.jsonl")
    if staged.quarantine:
        parts = (target.staging / name for name in staged.quarantine)
        held = append_lines(path, held, (part.open("rb") for part in parts))
    if staged.captured:
        lines = BytesIO(staged.captured)
        captured = append_lines(captured_path(target.prefix), captured, [lines])
    names = tuple(file.name for file in published)
    quarantine = str(path) if staged.quarantine else None
    manifest = Manifest(
        files=(*before.files, *published),
        quarantine=held,
        last_run=target.run,
        summary={**staged.summary, "files": names, "quarantine": quarantine},
        sources=max(before.sources, staged.sources),
        captured=captured,
        last_id=max(before.last_id, staged.last_id),
        queries=before.queries,
    )
    write_manifest(target.prefix, manifest)
    with suppress(OSError):  # what is published is done: the next run removes what is left
        target.discard()
    return names, quarantine


def _finish_last(prefix: str, before: Manifest) -> None:
    """Finish the file that a streaming query adds to, if there is one: others follow it now."""
    if before.growing is None:
        return
    path = Path(prefix).with_name(before.files[-1].name)
    patches = finishing_patches(path, before.files[-1].size, before.growing)
    with writing(path), path.open("r+b") as file:
        file.truncate(before.files[-1].size)
        for offset, data in patches:
            file.seek(offset)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _place_file(target: Target, segment: Segment, number: int) -> Published:
    """Fill in a file's header and give it its name."""
    digits, trail_format = target.options.seq_digits, target.options.trail_format
    name = f"{target.prefix}{number:0{digits}}"
    if number >= 10**digits:
        raise StorageError(f"file number {number} has more than {digits} digits")
    trail = replace(
        target.header.trail,
        filename=name,
        seqno=number,
        file_size=segment.size,
        first_csn=segment.first_csn,
        last_csn=segment.last_csn,
        first_io_time=segment.first_time,
        last_io_time=segment.last_time,
    )
    staged = target.staging / segment.name
    header = header_of(replace(target.header, trail=trail), trail_format)
    patches = header_patches(header) if trail_format.has_header else []
    with writing(name):
        with staged.open("r+b") as file:
            for offset, data in patches:
                file.seek(offset)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(name)
    return Published(Path(name).name, number, segment.size, segment.operations)
