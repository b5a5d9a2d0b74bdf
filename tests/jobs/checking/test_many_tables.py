"""Checks of trails with many tables, whether all can be read or not: every finding, in few steps."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from counted_calls import counted
from trail.building import BIG, INSERT, cell, record, table_record, text
from trailgate.jobs import check_steps
from trailgate.jobs.trail_check import check_trail
from trailgate.model.tables import Column, Table
from trailgate.trail.records.record import TrailRecord
from trailgate.trail.records.table_metadata import TrailTables

BAD = b"\x7f\x7f\0\x01x"  # 7f7f is not an indicator
# Each metadata record is read at most so many times: by the reader, by the check, once more to
# isolate what is bad, and by each half that has its transaction.
MOST_READS = 12


def _write(path: Path, tables: int, bad: set[int]) -> list[int]:
    """Write one insert for each table right after its definition; return the offsets of the bad ones."""
    body = b""
    offsets = []
    for number in range(1, tables + 1):
        columns = (Column("ID", 64, 10, key=True), Column("NAME", 64, 10))
        body += table_record(Table(f"S.T{number}", columns), number, BIG)
        if number in bad:
            offsets.append(len(body))
        data = cell(0, text("1")) + cell(1, BAD if number in bad else text("x"))
        body += record(INSERT, data, table_index=number, trans_ind=3)
    path.write_bytes(body)
    return offsets


@pytest.mark.parametrize("tables", [30, 300])
def test_metadata_is_not_read_again_for_each_bad_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: int
) -> None:
    bad = set(range(5, tables + 1, tables // 6))
    offsets = _write(tmp_path / "ot000000000", tables, bad)
    counts = [0]
    with_record = TrailTables.with_record

    def counted(known: TrailTables, read: TrailRecord) -> TrailTables:
        counts[0] += 1
        return with_record(known, read)

    monkeypatch.setattr(TrailTables, "with_record", counted)
    findings = check_trail(str(tmp_path / "ot")).findings

    shown = [one.offset for one in findings if one.kind == "reading"]
    assert shown == offsets[: len(shown)]
    assert len(shown) >= 5
    assert counts[0] <= MOST_READS * tables


def test_tables_defined_between_bad_transactions_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever tables are bad, a check gives the findings that a look at each record alone gives."""
    monkeypatch.setattr(check_steps, "SOUGHT", 100)
    for bits in range(1, 64, 4):
        bad = {number + 1 for number in range(6) if bits >> number & 1}
        offsets = _write(tmp_path / "ot000000000", 6, bad)

        findings = check_trail(str(tmp_path / "ot")).findings

        shown = [one.offset for one in findings if one.kind == "reading" and one.offset is not None]
        assert shown == offsets[: len(shown)]
        assert len(shown) == min(len(offsets), 5)


@pytest.mark.parametrize("values", [False, True])
def test_eight_times_as_many_tables_take_eight_times_as_many_steps(
    tmp_path: Path, *, values: bool
) -> None:
    steps = {}
    for tables in (20, 80, 640):  # the first one loads what is loaded once
        prefix = tmp_path / f"t{tables}" / "ot"
        prefix.parent.mkdir()
        _write(Path(f"{prefix}000000000"), tables, set())
        steps[tables], report = counted(partial(check_trail, str(prefix), values=values))
        assert report.whole
        assert sum(file.operations for file in report.files) == tables

    assert steps[640] < 1.1 * 8 * steps[80]
