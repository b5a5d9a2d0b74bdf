"""A source column named like a column that a mode adds is refused, in every mode and target that needs no server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from apply.mode_places import Place, place
from apply.naive_batches import block_of_images
from apply.test_redefinition import table
from apply.test_redefinition import write as redefined
from trailgate import DefinitionError, TrailAppender, apply_trail, verify_tables
from trailgate.apply.effects.modes import MODES, WITH_META
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.options import GROUP, ApplyOptions
from trailgate.apply.targets.target import TARGETS
from trailgate.model.changes import INSERT, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

PLACES: Final = ("memory", "lake in memory", "duckdb", "delta", "parquet", "iceberg")
META: Final = "current with --meta"
ADDED: Final = {
    **{name: [one.name for one in mode.columns] for name, mode in MODES.items() if mode.columns},
    META: [one.name for one in WITH_META.columns],
}
LIMITED: Final = {name: one.modes for name, one in TARGETS.items() if one.modes}
CASES: Final = [
    (mode, name)
    for mode in ADDED
    for name in PLACES
    if mode.partition(" ")[0] in LIMITED.get(name, MODES)
]


def options_of(mode: str, **more: Any) -> ApplyOptions:
    own: Any = mode.partition(" ")[0]
    return ApplyOptions(mode=own, meta=mode == META, **more)


def opened(name: str, folder: Path, mode: str) -> Place:
    return place(name, folder, mode.partition(" ")[0])


def write(folder: Path, names: Sequence[str], key: int = 1) -> None:
    """Append an insert to a trail of the table HR.N, which has a key and these columns."""
    own = Table("HR.N", (Column("K", 134, 8, key=True), *(Column(one, 64, 20) for one in names)))
    block = block_of_images(own, [(INSERT, None, {"K": key, **dict.fromkeys(names, "x")})])
    with TrailAppender(str(folder / "ot"), Definitions((own,))) as trail:
        trail.append(ChangeBatch([block], len(block)))
        trail.commit("all")


def applied(folder: Path, where: Place, options: ApplyOptions, name: str = "HR.N") -> Sequence[Any]:
    """Apply the trail, and return the rows of a table."""
    with ApplyRun(folder / "ot", where.to, options, target=where.open(GROUP)) as run:
        run.to_end()
    return where.rows(name)


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_a_column_of_the_same_name_is_refused(mode: str, name: str, tmp_path: Path) -> None:
    for number, column in enumerate(ADDED[mode]):
        # In the case of the mode, in upper case as in Oracle, and in another one.
        for spelled in {column, column.upper(), column.title()}:
            folder = tmp_path / f"{number} {spelled}"
            folder.mkdir()
            write(folder, ["V", spelled])

            with pytest.raises(DefinitionError, match=f"adds the column {column},") as caught:
                applied(folder, opened(name, folder, mode), options_of(mode))

            text = str(caught.value)
            assert "table hr.n" in text
            assert ("--meta" if mode == META else f"--mode {mode}") in text
            assert "COLMAP" in text


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_a_later_column_of_the_same_name_is_refused(mode: str, name: str, tmp_path: Path) -> None:
    """The table exists, and the trail gets the column by a later definition."""
    where, options = opened(name, tmp_path, mode), options_of(mode)
    first = (table(Column("V", 64, 20)), [("I", {"ID": 1, "V": "x"})])
    added = Column(ADDED[mode][-1], 64, 20)
    later = (table(Column("V", 64, 20), added), [("I", {"ID": 2, "V": "x", added.name: "x"})])
    redefined(tmp_path / "ot", first)
    assert len(applied(tmp_path, where, options, "HR.T")) == 1
    redefined(tmp_path / "ot", first, later)

    with pytest.raises(DefinitionError, match="already has a column of this name"):
        applied(tmp_path, where, options)

    assert len(where.rows("HR.T")) == 1


@pytest.mark.parametrize(("mode", "name"), CASES)
def test_a_column_renamed_with_colmap_is_stored(mode: str, name: str, tmp_path: Path) -> None:
    column = ADDED[mode][0]
    write(tmp_path, ["V", column])
    parameters = tmp_path / "rep.prm"
    parameters.write_text(
        f'REPLICAT trailgate\nMAP HR.N, TARGET HR.N, COLMAP (K = K, V = V, OWN = "{column}");\n'
    )

    options = options_of(mode, params=str(parameters))
    (row,) = applied(tmp_path, opened(name, tmp_path, mode), options)

    assert (row["v"], row["own"]) == ("x", "x")
    assert row[column] != "x"


def test_the_other_names_of_versions_are_a_way_out(tmp_path: Path) -> None:
    write(tmp_path, ["V", "__START_AT"])
    to = f"duckdb:{tmp_path}/x.duckdb"

    with pytest.raises(DefinitionError, match="Or use --mode history"):
        apply_trail(tmp_path / "ot", to, mode="scd2")

    assert apply_trail(tmp_path / "ot", to, mode="history").operations == 1
    assert verify_tables(tmp_path / "ot", to, mode="history").is_equal


@pytest.mark.parametrize("name", [name for name in PLACES if name != "parquet"])
def test_columns_of_the_source_are_no_sign_of_a_mode(name: str, tmp_path: Path) -> None:
    """A table of current rows whose source has all the columns of another mode is applied again."""
    names = [one.name for one in MODES["history"].columns]
    where = opened(name, tmp_path, "current")
    for key in (1, 2):
        write(tmp_path, names, key=key)

        assert len(applied(tmp_path, where, ApplyOptions())) == key
