"""Names of tables in one form: what any writer writes any reader finds, with and without quotes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sample_trail import ORDERS, Op, changes
from trail.building import cell, record, text
from trailgate.definitions.defgen import read_sourcedefs, write_sourcedefs
from trailgate.jobs.trail_check import check_trail
from trailgate.model.changes import ChangeBatch
from trailgate.model.table_names import normalize_table_name
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.writing.trail_format import TrailFormat

COLUMNS = (Column("ID", 64, 10, key=True), Column("V", 64, 10))
# Each name as it may be written, and as it is held.
NAMES = {
    "S.T": "S.T",
    'S."A B"': "S.A B",
    '"S"."T"': "S.T",
    '"s"."t"': "s.t",
    'C.S."T"': "C.S.T",
    'S."A.B"': 'S."A.B"',
    'S."A""B"': 'S."A""B"',
    'S."ÄÖ€"': "S.ÄÖ€",
    'S."*"': "S.*",
    'S." "': "S. ",
    "S.a b": "S.a b",
}


@pytest.mark.parametrize("written", NAMES)
def test_a_name_is_held_in_one_form(written: str) -> None:
    held = NAMES[written]
    definitions = Definitions((Table(written, COLUMNS),))

    assert normalize_table_name(written) == normalize_table_name(held) == held
    assert definitions.tables[0].name == held
    assert definitions.get(written) is definitions.get(held) is definitions.tables[0]
    assert [table.name for table in read_sourcedefs(write_sourcedefs(definitions))] == [held]


@pytest.mark.parametrize("release", ["11.2", "12.2"])
@pytest.mark.parametrize("written", NAMES)
def test_what_is_written_by_a_name_is_read_by_it(
    written: str, release: str, tmp_path: Path
) -> None:
    table, (block,) = Table(written, ORDERS.columns), changes([[Op("I", 1)]]).blocks
    options = AppendOptions(trail_format=TrailFormat.from_options(release))
    with TrailAppender(tmp_path / "ot", Definitions((table,)), options) as appender:
        appender.append(ChangeBatch([replace(block, table=table)], 1))

    (row,) = read_trail(tmp_path / "ot", table=written).read_all().to_pylist()
    assert (row["ID"], row["NAME"]) == (1, "text")
    assert check_trail(str(tmp_path / "ot"), values=True).whole


@pytest.mark.parametrize("written", NAMES)
def test_records_and_definitions_of_others_may_have_quotes_or_not(
    written: str, tmp_path: Path
) -> None:
    held = NAMES[written]
    data = cell(0, text("k")) + cell(1, text("v"))
    own = write_sourcedefs(Definitions((Table(held, COLUMNS),)))
    line = f"Definition for table {written}\n".encode()
    start = own.index(b"Definition for table")
    foreign = own[:start] + line + own[own.index(b"\n", start) + 1 :]
    (tmp_path / "ot000000000").write_bytes(
        record(5, data, name=written) + record(5, data, name=held)
    )
    for definitions in (own, foreign):
        (tmp_path / "ot.def").write_bytes(definitions)
        for asked in (held, written):
            rows = read_trail(tmp_path / "ot", table=asked).read_all().to_pylist()
            assert [(row["ID"], row["V"]) for row in rows] == [("k", "v")] * 2
        assert check_trail(str(tmp_path / "ot"), values=True).whole
