"""Replicat files modelled on those of production (replicat_files/*.toml): each is taken with the rows that it states, or refused for the true reason."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from apply.bank import DEFINITIONS, HISTORY, rows_of, write_bank
from trail.building import DDL_RECORD, record
from trailgate import OptionError, apply_trail, verify_tables
from trailgate.apply.replicat.replicat_files import parse_replicat
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.included_files import include_reader

FOLDER = Path(__file__).parent / "replicat_files"
CASES = sorted(FOLDER.glob("*.toml"))
CUT = 6  # transactions of the first run; the second one has the others


def rows(file: Path, table: dict[str, Any]) -> list[list[Any]]:
    found = rows_of(file, table["name"], table["columns"])
    return [["NULL" if value is None else value for value in row] for row in found]


@pytest.mark.parametrize("case", [pytest.param(path, id=path.stem) for path in CASES])
def test_a_file_is_applied_or_refused_as_its_comment_states(case: Path, tmp_path: Path) -> None:
    stated = tomllib.loads(case.read_text())
    for name, text in stated.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    params = tmp_path / "dirprm/rep.prm"
    params.parent.mkdir(exist_ok=True)
    params.write_text(stated["file"])
    if "SOURCEDEFS" in stated["file"]:
        (tmp_path / "dirdef").mkdir()
        (tmp_path / "dirdef/bank.def").write_bytes(write_sourcedefs(DEFINITIONS))
    discards = (
        {}
        if "DISCARDFILE" in stated["file"] + str(stated.get("files"))
        else {"discards": str(tmp_path / "d.jsonl")}
    )
    options = {"params": str(params), **discards, **stated.get("options", {})}
    trail, to = tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb"
    write_bank(trail, HISTORY[:CUT])
    if "refused" in stated:
        with pytest.raises(OptionError) as caught:
            apply_trail(trail, to, **options)
        assert re.search(stated["refused"], str(caught.value), re.DOTALL), str(caught.value)
        return

    apply_trail(trail, to, **options)
    write_bank(trail, HISTORY[CUT:], CUT)
    report = apply_trail(trail, to, **options)

    for table in stated.get("table", ()):
        assert rows(tmp_path / "x.duckdb", table) == table["rows"], table["name"]
    own = parse_replicat(
        stated["file"],
        read=include_reader(str(params)),
        ignore_unsupported=options.get("ignore_unsupported", False),
    )
    told = [*(one.text for one in own.unused), *report.notices]
    for note in stated.get("notes", ()):
        assert any(note in one for one in told), (note, told)
    if stated.get("table"):
        assert verify_tables(trail, to, **options).is_equal


def test_there_are_enough_files_and_each_states_why() -> None:
    assert len(CASES) >= 24
    for case in CASES:
        stated = tomllib.loads(case.read_text())
        assert stated["why"]
        assert ("refused" in stated) != (bool(stated.get("table")) or bool(stated.get("notes")))


def test_ddl_that_the_trail_has_is_an_error_where_the_file_asks_for_it(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot", HISTORY[:CUT])
    params = tmp_path / "rep.prm"
    params.write_text("REPLICAT r\nDDL INCLUDE MAPPED\nMAP bank.cust, TARGET b.cust;")
    to = f"duckdb:{tmp_path}/x.duckdb"
    options: dict[str, Any] = {"params": str(params)}
    apply_trail(tmp_path / "ot", to, **options)
    (file,) = tmp_path.glob("ot0*")
    statement = b"C1='ALTER TABLE bank.cust DROP COLUMN city',"
    one = record(DDL_RECORD, data=statement, name="BANK.CUST", trans_ind=3)
    file.write_bytes(file.read_bytes() + one)
    write_bank(tmp_path / "ot", HISTORY[CUT:], CUT)

    with pytest.raises(
        OptionError,
        match=r"DDL INCLUDE MAPPED is not supported: position 0:\d+ has DDL, 'ALTER TABLE bank.cust DROP COLUMN city'.*line 2",
    ):
        apply_trail(tmp_path / "ot", to, **options)
    apply_trail(tmp_path / "ot", to, ignore_unsupported=True, **options)
    params.write_text("REPLICAT r\nMAP bank.cust, TARGET b.cust;")
    assert apply_trail(tmp_path / "ot", to, **options).notices == ()
    assert rows_of(tmp_path / "x.duckdb", "b.cust", "cust_code") == [("ANN",), ("CAT",)]
