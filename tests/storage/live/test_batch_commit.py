"""Batches of a streaming query: each is in the trail once and whole, wherever a commit is interrupted."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failing_disk import FailingDisk, KilledError
from laws import FAST, sampled
from sample_trail import DEFINITIONS, NOTES, Op, changes
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import StorageError, TransactionError
from trailgate.jobs.trail_check import check_trail
from trailgate.model.operations_table import to_operations
from trailgate.storage.files.manifest import QueryPosition, read_manifest
from trailgate.storage.files.trail_files import list_trail
from trailgate.storage.live.batch_commit import BatchPart, QueryBatch, commit_batch
from trailgate.storage.live.growing_file import Disk
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.writing.run_preparation import TableOptions, plan_target, prepare_writing
from trailgate.storage.writing.table_writing import publish_parts, write_part
from trailgate.storage.writing.transaction_chain import TransactionChain
from trailgate.trail.writing.trail_format import TrailFormat

SOURCE = [
    [Op("I", 1)],
    [Op("I", 2), Op("U", 2, "new", "old"), Op("D", 2), Op("I", 3, None, table=NOTES)],
    [Op("I", 4), Op("I", 5)],
    [Op("I", 6)],
    [Op("I", 7), Op("I", 8), Op("I", 9)],
]
ROWS = to_operations(changes(SOURCE))
STEPS = itertools.count()


class Query:
    """A streaming query whose batches are cut at any rows, and whose tasks are cut at any rows of those."""

    def __init__(self, folder: Path, name: str = "q", **options: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.prefix, self.name = folder / "ot", name
        self.max_age: int | None = options.pop("max_age", None)
        (folder / "x.def").write_bytes(write_sourcedefs(DEFINITIONS))
        self.options = TableOptions(folder / "x.def", **options)

    def commit(self, number: int, parts: list[pa.RecordBatch], disk: Disk | None = None) -> bool:
        target = plan_target(self.prefix, self.options)
        target = replace(target, staging=target.staging.with_name(f".ot.stream-{self.name}"))
        target.staging.mkdir(parents=True, exist_ok=True)
        staged = []
        for part, rows in enumerate(parts):
            chain = TransactionChain()
            stem = f"{part}-{next(STEPS)}"
            done = write_part(target, stem, [rows], chain)
            begin = len(target.file_start())
            staged.append(BatchPart(done.segments, begin, chain.ends))
        return commit_batch(target, QueryBatch(self.name, number, self.max_age), staged, disk)

    def ids(self) -> list[str]:
        rows = [row for batch in read_trail(self.prefix) for row in batch.to_pylist()]
        return [identity(row) for row in rows]

    def names(self) -> list[str]:
        path = Path(f"{self.prefix}.manifest.json")
        manifest = json.loads(path.read_bytes()) if path.exists() else {"files": []}
        return [file["name"] for file in manifest["files"]]


def identity(row: dict[str, Any]) -> str:
    return f"{row['op_type']} {row['table']} {row['tx_id']} {row['tx_ind']} {row['before']} {row['after']}"


ALL = [identity(row) for row in ROWS.to_pylist()]


def cut(rows: pa.RecordBatch, *places: int) -> list[pa.RecordBatch]:
    """Return the rows cut at places."""
    ends = [0, *sorted(places), rows.num_rows]
    return [rows.slice(one, other - one) for one, other in itertools.pairwise(ends)]


@settings(max_examples=FAST)
@given(data=st.data())
def test_any_cutting_gives_the_same_operations(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = st.integers(0, ROWS.num_rows)
    level = data.draw(st.sampled_from([TrailFormat(), TrailFormat(0), TrailFormat(5)]))
    size = data.draw(st.sampled_from([1, 1500, 1 << 20]))
    query = Query(tmp_path_factory.mktemp("q"), trail_format=level, max_bytes=size)

    for number, rows in enumerate(cut(ROWS, *data.draw(st.lists(place, max_size=5)))):
        inner = st.integers(0, rows.num_rows)
        assert query.commit(number, cut(rows, *data.draw(st.lists(inner, max_size=2))))

    assert query.ids() == ALL
    report = check_trail(str(query.prefix))
    assert report.whole, list(report.findings)


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        ({1}, "continues that did not begin"),
        ({4}, "a transaction begins inside another one"),
        ({4, 5}, "an operation of the transaction tx2 is inside tx1"),
        ({10}, None),  # the next batch will begin another transaction
        ({2}, None),
        ({2, 3, 9}, None),
        ({0}, None),
        ({1, 2, 3, 4, 7}, None),
    ],
)
def test_missing_rows_are_noticed_as_the_documentation_says(
    tmp_path: Path, missing: set[int], problem: str | None
) -> None:
    """docs/spark.md, "A stream without some of its rows"."""
    query = Query(tmp_path)
    left = [row for row in range(ROWS.num_rows) if row not in missing]
    rows = ROWS.take(left)

    if problem is not None:
        with pytest.raises(TransactionError, match=problem):
            query.commit(0, [rows])
        return
    assert query.commit(0, [rows])

    manifest = read_manifest(str(query.prefix))
    assert manifest is not None
    assert bool(manifest.unfinished) == (10 in missing)
    if 10 not in missing:
        assert query.ids() == [ALL[row] for row in left]


def test_the_manifest_has_where_each_query_is(tmp_path: Path) -> None:
    query, other = Query(tmp_path), Query(tmp_path, "other")
    first, second = cut(ROWS, 1)
    query.commit(0, [first])
    (before,) = read_manifest(str(query.prefix)).positions.values()  # type: ignore[union-attr]
    other.commit(0, [second, ROWS.slice(0, 0)])
    query.commit(1, [ROWS.slice(0, 0)])

    manifest = read_manifest(str(query.prefix))
    assert manifest is not None
    last = ROWS["seq_id"][-1].as_py() or ROWS["csn"][-1].as_py()
    size = (tmp_path / "ot000000000").stat().st_size
    assert manifest.positions["q"] == before
    assert manifest.positions["other"] == QueryPosition(last, 0, size)
    assert manifest.queries == {"q": 1, "other": 0}


def test_no_batch_is_added_to_a_file_that_was_cut(tmp_path: Path) -> None:
    query = Query(tmp_path)
    first, second = cut(ROWS, 1)
    query.commit(0, [first])
    path = tmp_path / "ot000000000"
    content = path.read_bytes()
    path.write_bytes(content[:-2])

    with pytest.raises(StorageError, match=f"{len(content) - 2} bytes, but the manifest states"):
        query.commit(1, [second])
    path.write_bytes(content)
    query.commit(1, [second])
    assert query.ids() == ALL


def test_a_batch_that_is_added_during_the_listing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path)
    first, second = cut(ROWS, 1)
    query.commit(0, [first])
    listed = []

    def list_before_the_batch(path: Any) -> Any:
        listed.append(list_trail(path))
        if len(listed) == 1:
            query.commit(1, [second])
        return listed[0]

    monkeypatch.setattr("trailgate.storage.files.trail_files.list_trail", list_before_the_batch)
    assert query.ids() == ALL


def test_small_batches_are_gathered_in_one_file(tmp_path: Path) -> None:
    query = Query(tmp_path)

    for number, rows in enumerate(cut(ROWS, *range(1, ROWS.num_rows))):
        query.commit(number, [rows])

    assert query.names() == ["ot000000000"]
    assert query.ids() == ALL


def test_a_file_that_is_old_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path, max_age=60)
    clock = itertools.count(1_800_000_000, 25)
    monkeypatch.setattr("time.time_ns", lambda: next(clock) * 1_000_000_000)

    for number, rows in enumerate(cut(ROWS, *range(1, ROWS.num_rows))):
        query.commit(number, [rows])

    assert 1 < len(query.names()) < ROWS.num_rows
    assert query.ids() == ALL
    assert check_trail(str(query.prefix)).whole


def test_a_batch_that_is_committed_again_adds_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path)
    first, second = cut(ROWS, 3)

    assert query.commit(0, [first])
    assert not query.commit(0, [first])
    assert query.commit(1, [second])
    assert not query.commit(0, [first])

    assert query.ids() == ALL


@pytest.mark.parametrize(("size", "part"), [(900, 0.0), (1 << 20, 0.5), (1200, 1.0)])
def test_a_commit_that_is_killed_at_any_step_is_repeated(
    tmp_path: Path, size: int, part: float
) -> None:
    batches = [cut(rows, rows.num_rows // 2) for rows in cut(ROWS, 3, 7)]
    sizes = list(itertools.accumulate((sum(p.num_rows for p in b) for b in batches), initial=0))

    # Names have one length: the headers of files have them, and with these the number of steps changes.
    query, whole = Query(tmp_path / f"{0:05}", max_bytes=size), FailingDisk()
    for number, parts in enumerate(batches):
        query.commit(number, parts, whole)
    assert whole.steps > 15

    for step in sampled(range(1, whole.steps + 1), 20, f"commit {size}"):
        query = Query(tmp_path / f"{step:05}", max_bytes=size)
        number, disk = 0, FailingDisk(step, part)
        try:
            for number, parts in enumerate(batches):
                query.commit(number, parts, disk)
        except KilledError:
            seen = query.ids() if query.names() else []
            assert len(seen) in _whole(sizes[number : number + 2]), f"killed at step {step}"
            assert seen == ALL[: len(seen)]
        else:
            assert step == whole.steps
        for again, parts in enumerate(batches[number:], number):
            query.commit(again, parts, FailingDisk())

        assert query.ids() == ALL, f"killed at step {step}"
        if step % 4 == 0:
            assert check_trail(str(query.prefix)).whole, f"killed at step {step}"


def _whole(sizes: list[int]) -> list[int]:
    """Return how many operations readers may see: an open transaction's last one waits for the next."""
    return [size - held for size in sizes for held in (0, 1)]


def test_a_repeated_batch_may_be_cut_otherwise(tmp_path: Path) -> None:
    """What an interrupted commit left is overwritten, though the files are other ones then."""
    for step in range(1, 12):
        query = Query(tmp_path / str(step))
        first, second = cut(ROWS, 4)
        query.commit(0, [first])
        with suppress(KilledError):
            query.commit(1, cut(second, 1, 2, 3), FailingDisk(step, 0.5))

        query.commit(1, [second])

        assert query.ids() == ALL
        assert check_trail(str(query.prefix)).whole


def test_batches_that_do_not_continue_a_transaction_are_refused(tmp_path: Path) -> None:
    query = Query(tmp_path)
    first, missing, rest = cut(ROWS, 2, 5)
    query.commit(0, [first])

    with pytest.raises(TransactionError, match="begins inside"):
        query.commit(1, [rest])
    with pytest.raises(TransactionError, match="continues, but did not begin"):
        Query(tmp_path / "new").commit(0, [missing])
    query.commit(1, [missing, rest])

    assert query.ids() == ALL


def test_nobody_else_writes_while_a_transaction_is_open(tmp_path: Path) -> None:
    query, other = Query(tmp_path), Query(tmp_path, "other")
    first, second = cut(ROWS, 3)
    query.commit(0, [first])

    with pytest.raises(StorageError, match=r"transaction .* of another query"):
        other.commit(0, [second])
    target = prepare_writing(query.prefix, query.options)
    with pytest.raises(StorageError, match="of a streaming query"):
        publish_parts(target, [write_part(target, "0", [ROWS])])


def test_a_batch_write_follows_the_file_of_a_stream(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.commit(0, [ROWS])
    target = prepare_writing(query.prefix, query.options)

    before = read_manifest(target.prefix)
    publish_parts(target, [write_part(target, "0", [ROWS])])
    after = read_manifest(target.prefix)
    assert before is not None
    assert after is not None
    assert before.positions
    assert (after.queries, after.positions) == (before.queries, before.positions)
    query.commit(0, [ROWS])
    query.commit(1, [ROWS])

    assert query.ids() == ALL * 3
    assert len(query.names()) == 3
    assert check_trail(str(query.prefix)).whole
