"""Staged files become part of a trail; the place of the trail knows by what steps, the manifest comes last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.storage.files.manifest import Manifest
from trailgate.storage.writing.deciding import OvertakenError
from trailgate.storage.writing.publication import Publication, with_numbers
from trailgate.storage.writing.segments import Segment
from trailgate.storage.writing.target import Target


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
    place = target.place
    before = place.manifest() or Manifest()
    if before.unfinished:
        problem = f"the trail ends inside the transaction {before.unfinished['transaction']} of a streaming query"
        hint = "Let the query write its end first, or write another trail"
        raise StorageError(problem, where=Where(source=target.prefix), hint=hint)
    placed, published = [], []
    for number, segment in enumerate(staged.segments, before.next_number):
        file, entry = with_numbers(target.prefix, segment, number, target.header, target.options)
        placed.append(file)
        published.append(entry)
    names = tuple(file.name for file in published)
    quarantine = place.quarantine() if staged.quarantine else None
    manifest = Manifest(
        files=(*before.files, *published),
        quarantine=before.quarantine + place.staged_bytes(target.staging, staged.quarantine),
        last_run=target.run,
        summary={**staged.summary, "files": names, "quarantine": quarantine},
        sources=max(before.sources, staged.sources),
        captured=before.captured + len(staged.captured),
        last_id=max(before.last_id, staged.last_id),
        queries=before.queries,
        positions=before.positions,
    )
    publication = Publication(
        before,
        manifest,
        tuple(placed),
        write_sourcedefs(target.definitions),
        tuple(staged.quarantine),
        staged.captured,
    )
    try:
        place.apply(publication, target.staging)
    except OvertakenError:
        target.discard()
        raise
    return names, quarantine
