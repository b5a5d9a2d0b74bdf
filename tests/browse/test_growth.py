"""A trail that grows while it is looked at is known as if it had been read at once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from browse.trails import plain_trail
from sample_trail import Op, write_trail
from trailgate.browse.filters import OperationFilters
from trailgate.browse.growth import GrowingIndex
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_search import OperationSearch


def known(index: TrailIndex) -> dict[str, Any]:
    """Return what an index knows, as values that compare."""
    return {
        "operations": index.operations,
        "rows": OperationSearch(index, OperationFilters(), rows=1000).run().rows,
        "tables": {
            name: (one.kinds.tolist(), one.bytes, len(one.versions))
            for name, one in index.tables.items()
        },
        "transactions": (index.transactions.count, index.transactions.sizes.tolist()),
        "open": index.transactions.open,
        "findings": [
            (one.kind, one.file, one.offset) for one in index.findings if one.kind != "open"
        ],
        "records": [one.report.records for one in index.files if one.report is not None],
        "times": index.over_time.filled_bins()[1].sum(axis=1).tolist(),
    }


def whole(folder: Path) -> list[tuple[str, bytes]]:
    """Return the files of a trail by name, in order."""
    folder.mkdir()
    plain_trail(folder)
    more = [[Op("I", number, "x" * number)] for number in range(20)]
    write_trail(folder / "bb", [[*more, [Op("I", 1, "a"), Op("U", 1, "b", "a"), Op("D", 1)]]])
    files = [(path.name, path.read_bytes()) for path in sorted(folder.glob("aa0*"))]
    return [*files, ("aa000000002", (folder / "bb000000000").read_bytes())]


@given(st.data())
def test_a_trail_that_grew_is_known_as_one_that_was_there(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = whole(folder / "whole")
        size = sum(len(raw) for _, raw in files)
        first = len(files[0][1])
        cuts = sorted(data.draw(st.lists(st.integers(first // 2, size), max_size=4)))
        live = folder / "live"
        live.mkdir()
        shutil.copy(folder / "whole/aa.def", live)

        def write(until: int) -> None:
            for name, raw in files:
                (live / name).write_bytes(raw[: max(0, until)])
                until -= len(raw)
                if until <= 0:
                    break

        write(cuts[0] if cuts else size)
        with GrowingIndex(str(live / "aa")) as grown:
            grown.build()
            for cut in [*cuts[1:], size]:
                write(cut)
                grown.read_on()
            assert not grown.problem
            with TrailIndex(str(live / "aa")) as fresh:
                fresh.build()
                assert known(grown) == known(fresh)


def test_the_rate_is_of_the_last_looks(tmp_path: Path) -> None:
    files = whole(tmp_path / "whole")
    name, raw = files[0]
    (tmp_path / name).write_bytes(raw)
    with GrowingIndex(str(tmp_path / "aa")) as index:
        index.build()
        index.read_on()
        assert index.rate == 0
        for name, raw in files[1:]:
            (tmp_path / name).write_bytes(raw)
        index.read_on()
        assert index.rate > 0
        assert index.latest is not None
