"""Any frame that is made of a trail and written is read again as whole transactions, or refused: never torn."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from sample_trail import DEFINITIONS, NOTES, ORDERS, Op, write_trail
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import StorageError, TransactionError
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.writing.run_preparation import TableOptions, prepare_writing
from trailgate.storage.writing.table_writing import publish_parts, write_part

SIZES = (1, 3, 1, 2, 5, 1, 1, 4, 2, 3)  # of transactions
NUMBERS = itertools.count()
Parts = list[pa.Table]


def source(folder: Path, start: int = 0) -> pa.Table:
    """Return the operations of a trail, whose keys are unique; tables take turns."""
    keys = itertools.count(start)
    ops = [
        [Op("I", key, table=(ORDERS, NOTES)[key % 2]) for key in itertools.islice(keys, size)]
        for size in SIZES
    ]
    return pa.Table.from_batches(list(read_trail(write_trail(folder / f"in{start}", [ops]))))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    (folder / "x.def").write_bytes(write_sourcedefs(DEFINITIONS))
    return folder


def written(folder: Path, parts: Sequence[pa.Table], rows_a_batch: int = 100) -> Path:
    """Write the parts of a frame, as Spark's tasks and driver do, and return the trail."""
    target = prepare_writing(folder / f"ot{next(NUMBERS)}", TableOptions(folder / "x.def"))
    staged = []
    for number, part in enumerate(parts):
        batches = part.to_batches(max_chunksize=rows_a_batch)
        staged.append(write_part(target, f"{number}", batches))
    publish_parts(target, staged)
    return Path(target.prefix)


def facts(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return what identifies operations: transaction, CSN, table and values."""
    return [
        (row["tx_id"], row["csn"], row["table"], *row["after"])
        for row in table.select(["tx_id", "csn", "table", "after"]).to_pylist()
    ]


def check(frame: pa.Table, prefix: Path) -> None:
    """Check that a trail has the rows of a frame in whole transactions."""
    if not len(frame):
        return  # there is no file to read
    found = pa.Table.from_batches(list(read_trail(prefix)))
    assert facts(found) == facts(frame)
    names = [(row["tx_id"], row["csn"]) for row in found.select(["tx_id", "csn"]).to_pylist()]
    together = [(name, len(list(run))) for name, run in itertools.groupby(names)]
    assert len({name for name, _ in together}) == len(together)
    expected = ["W" if size == 1 else "B" + "M" * (size - 2) + "E" for _, size in together]
    assert "".join(found["tx_ind"].to_pylist()) == "".join(expected)
    assert check_trail(str(prefix)).whole


def filtered(frame: pa.Table, data: st.DataObject) -> pa.Table:
    """Return some of the rows: those of a table, from a position on, up to one, or any."""
    kind = data.draw(st.sampled_from(["table", "from", "to", "random"]))
    if kind == "table":
        return frame.filter(
            pc.equal(frame["table"], data.draw(st.sampled_from([ORDERS.name, NOTES.name])))
        )
    if kind == "random":
        return frame.filter(
            pa.array(
                data.draw(st.lists(st.booleans(), min_size=len(frame), max_size=len(frame))),
                pa.bool_(),
            )
        )
    at = data.draw(st.integers(0, len(frame)))
    return frame.slice(at) if kind == "from" else frame.slice(0, at)


def cut(frame: pa.Table, places: Sequence[int]) -> Parts:
    ends = [0, *sorted(places), len(frame)]
    return [frame.slice(one, other - one) for one, other in itertools.pairwise(ends)]


def between(frame: pa.Table) -> list[int]:
    """Return the places between two transactions."""
    ids = frame["tx_id"].to_pylist()
    return [at for at in range(1, len(ids)) if ids[at] != ids[at - 1]]


def dealt(parts: Parts, data: st.DataObject) -> Parts:
    """Return the rows dealt to partitions: in turn, by a column, or at random."""
    whole = pa.concat_tables(parts)
    count = data.draw(st.integers(1, 3))
    kind = data.draw(st.sampled_from(["in turn", "tx_id", "table", "random"]))
    if kind == "in turn":
        number = np.arange(len(whole)) % count
    elif kind == "random":
        number = np.array(
            data.draw(
                st.lists(st.integers(0, count - 1), min_size=len(whole), max_size=len(whole))
            ),
            int,
        )
    else:
        number = np.array([sum(text.encode()) % count for text in whole[kind].to_pylist()], int)
    return [whole.filter(pa.array(number == one)) for one in range(count)]


def changed(parts: Parts, rows: pa.Table, data: st.DataObject) -> Parts:  # noqa: PLR0911  one row a step
    """Return a frame made of another one by one of Spark's operations."""
    step = data.draw(
        st.sampled_from(
            ["filter", "deal", "sort", "order", "shuffle", "union", "swap", "twice", "coalesce"]
        )
    )
    if step == "filter":
        return [filtered(part, data) for part in parts]
    if step == "deal":
        return dealt(parts, data)
    if step == "sort":
        return [part.sort_by("position") for part in parts]
    if step == "order":
        whole = pa.concat_tables(parts).sort_by("position")
        return cut(whole, data.draw(st.lists(st.integers(0, len(whole)), max_size=2)))
    if step == "shuffle":
        return [
            part.take(pa.array(data.draw(st.permutations(range(len(part)))), pa.int64()))
            for part in parts
        ]
    if step == "union":
        return [*parts, filtered(rows, data)]
    if step == "swap":
        return parts[::-1]
    return parts * 2 if step == "twice" else [pa.concat_tables(parts)]


@settings(max_examples=examples(80))
@given(data=st.data())
def test_any_frame_of_a_trail_is_written_whole_or_refused(
    rows: pa.Table, folder: Path, data: st.DataObject
) -> None:
    parts = [rows]
    for _ in range(data.draw(st.integers(1, 4))):
        parts = changed(parts, rows, data)

    with suppress(TransactionError):
        prefix = written(folder, parts, data.draw(st.integers(1, 8)))
        check(pa.concat_tables(parts), prefix)


@settings(max_examples=examples(25))
@given(data=st.data())
def test_the_remaining_operations_of_transactions_are_written(
    rows: pa.Table, folder: Path, data: st.DataObject
) -> None:
    frame = filtered(filtered(rows, data), data)
    parts = cut(frame, data.draw(st.lists(st.sampled_from(between(frame) or [0]), max_size=3)))

    prefix = written(folder, parts, data.draw(st.integers(1, 8)))

    check(frame, prefix)


@settings(max_examples=examples(25))
@given(data=st.data())
def test_two_trails_in_one_frame_are_written_whole_or_refused(
    rows: pa.Table, folder: Path, data: st.DataObject
) -> None:
    """Positions of two trails may ascend together, though their transactions are mixed."""
    other = rows.set_column(3, "tx_id", pc.binary_join_element_wise(rows["tx_id"], "b", ""))
    shifted = pc.binary_join_element_wise(rows["position"], "5", "")  # between two of the others
    parts = dealt(
        [rows, other.set_column(rows.column_names.index("position"), "position", shifted)], data
    )
    parts = [filtered(part, data).sort_by("position") for part in parts]

    with suppress(TransactionError):
        prefix = written(folder, parts)
        check(pa.concat_tables(parts), prefix)


def test_an_id_that_is_used_again_is_two_transactions(rows: pa.Table, folder: Path) -> None:
    same = rows.set_column(3, "tx_id", pa.array(["5"] * len(rows)))
    left = same.filter(pc.equal(same["table"], NOTES.name))

    check(left, written(folder, [left]))


def test_rows_without_positions_are_written_where_they_are_whole(
    rows: pa.Table, folder: Path
) -> None:
    bare = rows.drop_columns(["position"])
    torn = bare.filter(pc.equal(bare["table"], NOTES.name))

    check(rows, written(folder, [bare]))
    with pytest.raises(
        TransactionError,
        match="rows of the transaction tx3 of CSN 1003 are missing, and without positions",
    ):
        written(folder, [torn])


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.8])
def test_no_remedy_for_filtered_rows_drops_their_positions(
    rows: pa.Table, folder: Path, kept: float
) -> None:
    """Without positions these rows would be refused for the same reason again."""
    bare = rows.drop_columns(["position"])
    chosen = np.random.default_rng(1).random(len(bare)) < kept

    with pytest.raises(TransactionError) as caught:
        written(folder, [bare.filter(pa.array(chosen))])

    assert "drop(" not in str(caught.value)
    assert "Keep the column position" in str(caught.value)


def test_transactions_without_ids_are_written_where_they_are_whole(
    rows: pa.Table, folder: Path
) -> None:
    nothing = pa.nulls(len(rows), pa.string())
    bare = rows.set_column(3, "tx_id", nothing).set_column(
        rows.column_names.index("csn"), "csn", nothing
    )
    torn = bare.filter(pc.equal(bare["table"], NOTES.name))

    found = pa.Table.from_batches(list(read_trail(written(folder, [bare]))))
    assert found["tx_ind"].to_pylist() == rows["tx_ind"].to_pylist()
    with pytest.raises(TransactionError):
        written(folder, [torn])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"table": "MY.ORDERS"},
        {"tables": "MY.*"},
        {"records": "all"},
        {"from_csn": "5", "to_csn": "7"},
        {"after": "0:5"},
        {"to_position": "0:7"},
        {"limit": 3},
        {"threads": 1},
    ],
    ids=str,
)
def test_a_trail_of_a_frame_without_rows_has_no_rows(
    folder: Path, options: dict[str, Any], rows: pa.Table
) -> None:
    prefix = written(folder, [rows.slice(0, 0)])

    found = read_trail(prefix, definitions=folder / "x.def", **options)

    assert found.read_all().num_rows == 0
    assert not list(folder.glob(f"{prefix.name}0*"))


def test_only_a_manifest_makes_a_trail_without_files(folder: Path) -> None:
    with pytest.raises(StorageError, match="no trail files here"):
        read_trail(folder / "none")


def test_what_needs_operations_says_that_there_are_none(rows: pa.Table, folder: Path) -> None:
    prefix = written(folder, [rows.slice(0, 0)])

    with pytest.raises(StorageError, match="the trail has no operations yet"):
        find_trail(prefix)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            lambda rows: [rows.slice(0, 3), rows.slice(3)],
            "the transaction tx1 is in two partitions",
        ),
        (lambda rows: [rows, rows], "position, 0000000000.*is lower than that of the previous row"),
        (lambda rows: [rows.slice(0, 1), rows.slice(0, 1)], "two rows have the position"),
        (lambda rows: [rows.slice(4), rows.slice(0, 4)], "is lower than that of the previous row"),
        (lambda rows: [rows.take([0, 1, 3, 2])], "is lower than that of the previous row"),
        (
            lambda rows: [rows.drop_columns(["position"]).take([0, 1, 3, 2])],
            "the transaction tx1 continues after its end",
        ),
    ],
)
def test_the_error_states_what_to_write_instead(
    rows: pa.Table, folder: Path, made: Any, problem: str
) -> None:
    with pytest.raises(TransactionError, match=problem) as caught:
        written(folder, made(rows))

    assert 'sortWithinPartitions("position")' in str(caught.value)


def test_an_appender_takes_no_operation_of_another_transaction(
    rows: pa.Table, tmp_path: Path
) -> None:
    """The end of one and the begin of the next were left out, so that the indicators fit."""
    torn = rows.filter(pa.array([row not in {3, 4, 5} for row in range(len(rows))]))
    assert torn["tx_ind"].to_pylist()[1:4] == ["B", "M", "E"]

    with (
        TrailAppender(tmp_path / "lt", DEFINITIONS) as appender,
        pytest.raises(
            TransactionError, match=r"operation of the transaction tx3 is inside tx1 \(record 3\)"
        ),
    ):
        appender.append_operations(torn.combine_chunks().to_batches()[0])
