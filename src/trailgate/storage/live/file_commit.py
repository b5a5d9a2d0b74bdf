"""A batch of a streaming query as files of its own, where the files of a trail cannot be added to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trailgate.definitions.defgen.sourcedefs import write_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.storage.files.manifest import Manifest
from trailgate.storage.live.batch import Batch, BatchPart, left_unfinished, moved_positions
from trailgate.storage.writing.places.deciding import OvertakenError
from trailgate.storage.writing.places.publication import Publication, numbered
from trailgate.storage.writing.target import Target, check_trail

TRIED: Final = 10  # times, where others publish to the trail too


def commit_files(target: Target, batch: Batch, parts: Sequence[BatchPart]) -> bool:
    """Add a batch's staged files to a trail; return False where the trail has the batch already.

    It is committed over whatever others have published. Raises TransactionError and StorageError as ``commit_batch``.
    """
    for _ in range(TRIED):
        place, manifest = target.place.opened()
        check_trail(place, manifest, target.options)
        before = manifest or Manifest()
        if before.queries.get(batch.query, -1) >= batch.number:
            return False
        own = replace(target, place=place)
        publication = _planned(own, before, batch, parts)
        try:
            place.carry_out(publication, target.staging)
        except OvertakenError:
            continue
        return True
    problem = "others publish to this trail all the time"
    raise StorageError(problem, where=Where(source=target.prefix))


def _planned(
    target: Target, before: Manifest, batch: Batch, parts: Sequence[BatchPart]
) -> Publication:
    unfinished = left_unfinished(target.prefix, before, batch, parts)
    segments = [segment for part in parts for segment in part.segments]
    placed, published = [], []
    for number, segment in enumerate(segments, before.next_number):
        file, entry = numbered(target.prefix, segment, number, target.header, target.options)
        placed.append(file)
        published.append(entry)
    known = target.place.definitions()
    tables = target.definitions if known is None else known.merged(target.definitions)
    files = (*before.files, *published)
    after = replace(
        before,
        files=files,
        last_run=f"{batch.query}-{batch.number}",
        queries={**before.queries, batch.query: batch.number},
        positions=moved_positions(before, batch, files, parts),
        unfinished=unfinished,
        growing=None,
    )
    return Publication(before, after, tuple(placed), write_sourcedefs(tables))
