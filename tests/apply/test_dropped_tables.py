"""Tables and columns that others drop from a lake are not created again, empty; those that the group never wrote are created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from apply.lakes import CHECKPOINT, LAKES, Lake, open_catalog
from apply.memory_target import KilledError, KilledTarget
from apply.naive_batches import block_of_images
from apply.test_redefinition import Part, write
from trailgate import DefinitionError, TrailAppender, apply_trail, verify_tables
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.targets.target import open_target
from trailgate.model.changes import INSERT, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

K: Final = Column("K", 134, 8, key=True)
V, W = Column("V", 64, 40), Column("W", 64, 40)
T, OTHER = Table("HR.T", (K, V, W)), Table("HR.OTHER", (K, V))
WITHOUT_W: Final = Table("HR.T", (K, V))
NO_COLUMN: Final = r"somebody has dropped this column.*hr\.t, field w.*COLMAP"
NO_TABLE: Final = r"table no longer exists.*table hr\.t\).*create it yourself.*--group"
# By the modes that both lakes have.
MODES: Final = ("current", "history", "append")


def insert(prefix: Path, key: int, *tables: Table, csn: int | None = None) -> None:
    """Append a row with a key to each of some tables, as one transaction, whose CSN is the key if none is given."""
    blocks = [
        block_of_images(
            one, [(INSERT, None, {column.name: f"{key}" for column in one.columns} | {"K": key})]
        )
        for one in tables
    ]
    stated = pa.array([f"{key if csn is None else csn}"])
    blocks = [replace(block, csn=stated) for block in blocks]
    with TrailAppender(str(prefix), Definitions(tables)) as trail:
        for block in blocks:
            trail.append(ChangeBatch([block], 1))
            trail.commit(f"{key} {block.table.name}")


def values(lake: Lake, table: str, name: str) -> dict[int, Any]:
    """Return a column of a table by its keys."""
    return {row["k"]: row[name] for row in lake.rows(table)}


# What others do to the table HR.T, what the error says, and what they do then so that apply goes on.
DROPS: Final[Mapping[str, tuple[Callable[[Lake], object], str, Callable[[Lake], object]]]] = {
    "a column": (
        lambda lake: lake.drop_column("hr/t", "w"),
        NO_COLUMN,
        lambda lake: lake.add_column("hr/t", "w"),
    ),
    "a table": (
        lambda lake: lake.drop("hr/t"),
        NO_TABLE,
        lambda lake: lake.create(
            "hr/t", pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.string())])
        ),
    ),
}


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("name", LAKES)
def test_what_was_dropped_is_refused_until_somebody_adds_it(
    name: str, drop: str, tmp_path: Path
) -> None:
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    act, problem, mend = DROPS[drop]
    for key in (1, 2):
        insert(prefix, key, T, OTHER)
        apply_trail(prefix, lake.address)
    # A batch that does not change the table keeps what is known about it.
    insert(prefix, 3, OTHER)
    apply_trail(prefix, lake.address)
    act(lake)
    insert(prefix, 4, T, OTHER)

    for _ in range(2):
        with pytest.raises(DefinitionError, match=problem):
            apply_trail(prefix, lake.address)
    assert list(values(lake, "hr/other", "v")) == [1, 2, 3]
    mend(lake)
    apply_trail(prefix, lake.address)
    assert values(lake, "hr/t", "w").items() >= {4: "4"}.items()
    assert list(values(lake, "hr/other", "v")) == [1, 2, 3, 4]
    assert not verify_tables(prefix, lake.address).is_equal


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LAKES)
def test_so_is_what_is_dropped_while_a_trail_is_followed(
    name: str, mode: Any, drop: str, tmp_path: Path
) -> None:
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    act, problem, _ = DROPS[drop]
    insert(prefix, 1, T)
    with ApplyRun(str(prefix), lake.address, ApplyOptions(mode=mode)) as run:
        run.to_end()
        run.release()
        act(lake)
        insert(prefix, 2, T)

        with pytest.raises(DefinitionError, match=problem):
            run.to_end()


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("name", LAKES)
def test_so_is_what_a_killed_run_has_written(name: str, drop: str, tmp_path: Path) -> None:
    """The run after it has no operations to write to the table, but knows its columns."""
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    act, problem, _ = DROPS[drop]
    insert(prefix, 1, OTHER)
    apply_trail(prefix, lake.address)
    insert(prefix, 2, T)
    killed = KilledTarget(open_target(lake.address, "trailgate"), 1)
    with (
        pytest.raises(KilledError),
        ApplyRun(str(prefix), lake.address, ApplyOptions(), target=killed) as run,
    ):
        run.to_end()
    insert(prefix, 3, OTHER)
    apply_trail(prefix, lake.address)
    assert list(values(lake, "hr/t", "w")) == [2]

    act(lake)
    insert(prefix, 4, T)
    with pytest.raises(DefinitionError, match=problem):
        apply_trail(prefix, lake.address)


@pytest.mark.parametrize("name", LAKES)
def test_a_dropped_table_is_applied_whole_by_another_group(name: str, tmp_path: Path) -> None:
    """As docs/howto/apply.md says."""
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    insert(prefix, 1, T, OTHER)
    apply_trail(prefix, lake.address)
    lake.drop("hr/t")
    insert(prefix, 2, T, OTHER)
    first: Any = {"tables": ["HR.OTHER"]}
    second: Any = {"tables": ["HR.T"], "group": "second"}

    for one in (first, second):
        apply_trail(prefix, lake.address, **one)
        assert verify_tables(prefix, lake.address, **one).is_equal
    assert values(lake, "hr/t", "w") == {1: "1", 2: "2"}


@pytest.mark.parametrize("name", LAKES)
def test_without_its_checkpoint_a_group_creates_a_dropped_table_with_all_rows(
    name: str, tmp_path: Path
) -> None:
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    for key in (1, 2):
        insert(prefix, key, T, OTHER)
        apply_trail(prefix, lake.address)
    lake.drop("hr/t")
    lake.drop(CHECKPOINT)

    apply_trail(prefix, lake.address)
    assert verify_tables(prefix, lake.address).is_equal


# Definitions of HR.T in a trail, with an insert each.
PARTS: Final[tuple[Part, ...]] = (
    (T, [("I", {"k": 1, "v": "a", "w": "a"})]),
    (WITHOUT_W, [("I", {"k": 2, "v": "b"})]),
    (T, [("I", {"k": 3, "v": "c", "w": "c"})]),
)


def _by_another_group(lake: Lake, apply: Callable[..., object], prefix: Path) -> None:
    insert(prefix, 1, T, OTHER)
    apply(tables=["HR.OTHER"])
    apply(tables=["HR.T"], group="second")
    lake.drop("hr/t")
    apply(tables=["HR.OTHER", "HR.T"], changed_maps="catch-up")


def _later_in_the_trail(_: Lake, apply: Callable[..., object], prefix: Path) -> None:
    for key, table in enumerate((OTHER, T)):
        insert(prefix, key, table)
        apply()


def _in_a_new_definition(_: Lake, apply: Callable[..., object], prefix: Path) -> None:
    for end in (1, 2):
        write(prefix, *PARTS[1:][:end])
        apply()


def _after_an_old_definition(lake: Lake, apply: Callable[..., object], prefix: Path) -> None:
    for end in (1, 2, 3):
        write(prefix, *PARTS[:end])
        apply()
        if end == 2:
            lake.drop_column("hr/t", "w")


# What a group has not written, or what the trail itself has dropped: how it comes, and the values of the column W.
CREATED: Final[Mapping[str, tuple[Callable[..., None], dict[int, Any]]]] = {
    "a table that another group wrote": (_by_another_group, {1: "1"}),
    "a table that comes later in the trail": (_later_in_the_trail, {1: "1"}),
    "a column that the trail adds": (_in_a_new_definition, {2: None, 3: "c"}),
    "a column that the trail had dropped": (_after_an_old_definition, {1: None, 2: None, 3: "c"}),
}


@pytest.mark.parametrize("case", CREATED)
@pytest.mark.parametrize("name", LAKES)
def test_what_is_new_to_a_group_is_created(name: str, case: str, tmp_path: Path) -> None:
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    act, expected = CREATED[case]
    act(lake, partial(apply_trail, prefix, lake.address), prefix)
    assert values(lake, "hr/t", "w") == expected


def _rename(folder: Path, *names: tuple[str, str]) -> None:
    with open_catalog(folder / "lake") as own:
        for old, new in names:
            with own.load_table("hr.t").update_schema() as update:
                update.rename_column(old, new)


SWAP: Final = (("v", "x"), ("w", "v"), ("x", "w"))


@pytest.mark.parametrize("mode", MODES)
def test_columns_whose_names_were_exchanged_are_not_written(mode: Any, tmp_path: Path) -> None:
    lake, prefix = LAKES["iceberg"](tmp_path), tmp_path / "ot"
    insert(prefix, 1, T, OTHER)
    apply_trail(prefix, lake.address, mode=mode)
    before = lake.rows("hr/t")
    _rename(tmp_path, *SWAP)
    for key in (2, 3):
        insert(prefix, key, T, OTHER)
        with pytest.raises(
            DefinitionError, match=r"the column that was v is w now.*hr\.t.*--after 0:\d+"
        ):
            apply_trail(prefix, lake.address, mode=mode)
    _rename(tmp_path, *SWAP)
    assert lake.rows("hr/t") == before
    apply_trail(prefix, lake.address, mode=mode)
    assert values(lake, "hr/t", "w") == {1: "1", 2: "2", 3: "3"}


def test_names_that_are_exchanged_while_a_trail_is_followed_are_noticed(tmp_path: Path) -> None:
    lake, prefix = LAKES["iceberg"](tmp_path), tmp_path / "ot"
    insert(prefix, 1, T)
    with ApplyRun(str(prefix), lake.address, ApplyOptions()) as run:
        run.to_end()
        run.release()
        _rename(tmp_path, *SWAP)
        insert(prefix, 2, T)
        with pytest.raises(DefinitionError, match="the column that was v is w now"):
            run.to_end()


def test_a_column_that_was_added_again_and_a_new_table_may_have_other_ids(tmp_path: Path) -> None:
    lake, prefix = LAKES["iceberg"](tmp_path), tmp_path / "ot"
    insert(prefix, 1, T)
    apply_trail(prefix, lake.address)
    lake.drop_column("hr/t", "v")
    lake.add_column("hr/t", "v")
    for key in (2, 3):
        insert(prefix, key, T)
        apply_trail(prefix, lake.address)
    assert values(lake, "hr/t", "v") == {1: None, 2: "2", 3: "3"}

    lake.drop("hr/t")
    lake.create("hr/t", pa.schema([("w", pa.string()), ("v", pa.string()), ("k", pa.int64())]))
    for key in (4, 5):
        insert(prefix, key, T)
        apply_trail(prefix, lake.address)
    assert values(lake, "hr/t", "v") == {4: "4", 5: "5"}
