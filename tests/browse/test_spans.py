"""Parts of a span are read as if all of it were: from any position on, and before it, in every format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flipped_trails import FORMATS, flipped_trails
from sample_trail import Op, write_trail
from trailgate.browse import spans
from trailgate.browse.index import IndexSpan, TrailIndex
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.model.operations_table import to_operations
from trailgate.model.positions import parse_position
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.trail.reading.images import ReadSelection

PIECES = "images in pieces"
SELECTION = ReadSelection(lenient=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("spans")
    # records of several pieces each, before and after
    pieces = [Op("U", key, "y" * 150_000, "x" * 150_000) for key in range(4)]
    found = flipped_trails(folder)
    return found | {
        PIECES: Path(f"{write_trail(folder / 'pp', [[pieces[:3], pieces[3:]]])}000000000")
    }


def rows_of(index: TrailIndex, span: IndexSpan, *given: Any, **named: Any) -> Iterator[Any]:
    for part in read_span(index, span, SELECTION, *given, **named):
        if isinstance(part, UnreadOperations):
            yield part
        else:
            yield from to_operations(part).to_pylist()


def place_of(row: Any) -> TrailPosition:
    if isinstance(row, UnreadOperations):
        return row.place
    return TrailPosition(*parse_position(row["position"]))


@pytest.mark.parametrize("name", [*FORMATS, "every record, little", PIECES])
@pytest.mark.parametrize("first", [1, 3])
def test_a_part_of_a_span_is_that_part_of_all_its_operations(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, Path], name: str, first: int
) -> None:
    monkeypatch.setattr(spans, "FIRST", first)
    with TrailIndex(str(files[name])) as index:
        index.build()
        for span in index.spans:
            every = [*rows_of(index, span)]
            assert len(every) > 3
            starts = [place_of(one).offset for one in every]
            for at in {one + more for one in starts for more in (-1, 0, 1)}:
                place = TrailPosition(span.number, at)
                after = [one for one in rows_of(index, span, place) if place_of(one) >= place]
                before = [
                    one for one in rows_of(index, span, place, back=True) if place_of(one) < place
                ]
                assert after == [one for one in every if place_of(one) >= place]
                assert before == [one for one in every if place_of(one) < place]
