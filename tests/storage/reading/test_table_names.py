"""Names of tables: written by us or by others, with quotes or without, they name the same table to every reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from trail.batches import batch_of
from trail.building import BIG, cell, record, text
from trailgate.definitions.defgen import read_sourcedefs, write_sourcedefs
from trailgate.errors import EncodeError
from trailgate.jobs.trail_check import check_trail
from trailgate.model.table_names import normalize_table_name
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.writing.trail_format import TrailFormat

COLUMNS = (Column("ID", 64, 10, key=True), Column("A B", 64, 10))
# Each name in one form, and others in which it is written.
SPELLINGS = {
    "S.T": ["S.T", '"S"."T"', 'S."T"', '"S".T'],
    "S.A B": ["S.A B", 'S."A B"', '"S"."A B"'],
    "s.t": ["s.t", '"s"."t"'],
    'S."a.b"': ['S."a.b"', '"S"."a.b"'],
    'S."A""B"': ['S."A""B"'],
    "C.S.A B": ['C.S."A B"', '"C"."S"."A B"'],
    "Ä.ß ü": ["Ä.ß ü", '"Ä"."ß ü"'],
    "S.*T": ["S.*T", 'S."*T"'],
    "T": ["T", '"T"'],
    '"S.T"': ['"S.T"'],
}
EVERY = [(name, written) for name, forms in SPELLINGS.items() for written in forms]


@pytest.mark.parametrize(("name", "written"), EVERY)
def test_a_name_has_one_form(name: str, written: str) -> None:
    assert normalize_table_name(written) == normalize_table_name(name) == name
    assert Table(written, COLUMNS).name == name


@pytest.mark.parametrize(("name", "written"), EVERY)
def test_definitions_are_read_as_they_were_written(name: str, written: str) -> None:
    (found,) = read_sourcedefs(write_sourcedefs(Definitions((Table(written, COLUMNS),))))

    assert found.name == name
    assert Definitions((found,)).table(written) is found


@pytest.mark.parametrize("level", [0, 3, 5, 7])
@pytest.mark.parametrize(("name", "written"), EVERY)
def test_what_a_writer_wrote_every_reader_reads(
    tmp_path: Path, name: str, written: str, level: int
) -> None:
    definitions = Definitions((Table(written, COLUMNS),))
    row = {"ID": "1", "A B": "x"}
    inserted = {"table": name, "op_type": "I", "op_ts": 1_700_000_000_000_000, "tx_ind": "W",
        "tx_id": "1", "csn": "1", "before": {}, "after": row, "tokens": {}}  # fmt: skip
    batch = batch_of(definitions, [inserted])
    options = AppendOptions(trail_format=TrailFormat(level))
    with TrailAppender(tmp_path / "ot", definitions, options) as appender:
        appender.append(batch)
        appender.commit("1")

    (shown,) = read_trail(tmp_path / "ot").read_all().to_pylist()
    (typed,) = read_trail(tmp_path / "ot", table=written).read_all().to_pylist()
    assert (shown["table"], dict(shown["after"])) == (name, row)
    assert {column: typed[column] for column in row} == row
    report = check_trail(str(tmp_path / "ot"), values=True)
    assert report.whole, report.findings


@pytest.mark.parametrize("name", SPELLINGS)
def test_records_and_definitions_of_others_may_spell_names_differently(
    tmp_path: Path, name: str
) -> None:
    forms = SPELLINGS[name]
    data = cell(0, text("1"), BIG) + cell(1, text("x"), BIG)
    for number, (of_record, of_file) in enumerate((a, b) for a in forms for b in forms):
        prefix = tmp_path / f"t{number}"
        Path(f"{prefix}000000000").write_bytes(record(5, data, name=of_record))
        lines = write_sourcedefs(Definitions((Table(name, COLUMNS),))).decode().splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("Definition for table"))
        lines[at] = f"Definition for table {of_file}"
        Path(f"{prefix}.def").write_text("\n".join([*lines, ""]))

        (shown,) = read_trail(prefix).read_all().to_pylist()
        (typed,) = read_trail(prefix, table=of_file).read_all().to_pylist()

        assert (shown["table"], dict(shown["after"])) == (name, {"ID": "1", "A B": "x"})
        assert typed["A B"] == "x"
        assert check_trail(str(prefix)).whole


@pytest.mark.parametrize("name", ["", ".", "S.", ".T", 'S."T', 'S.""', 'S."A"B', "S.A\nB"])
def test_what_is_not_a_name_is_not_written(name: str) -> None:
    with pytest.raises(EncodeError):
        write_sourcedefs(Definitions((Table(name, COLUMNS),)))
