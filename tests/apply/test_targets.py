"""A trail applied to each target is the source's table, however it is cut into batches and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.sources import TARGETS, tries, write_log
from apply.test_net_effects import history
from laws import chance, examples
from trailgate import StorageError, apply_trail
from trailgate.apply.jobs.apply import ApplyRun, ThreadReading
from trailgate.apply.jobs.options import ApplyOptions


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_has_the_sources_rows(name: str, tmp_path: Path) -> None:
    address, rows = TARGETS[name]
    for number in range(tries(name, 20)):
        own = chance(f"{name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 6)
        write_log(folder / "ot", source.log)
        batch_bytes = own.choice((1, 300, 1 << 20))
        apply_trail(folder / "ot", address.format(folder), batch_bytes=batch_bytes)
        assert rows(folder) == source.rows, source.log
        again = apply_trail(folder / "ot", address.format(folder))
        assert (again.operations, again.position) == (0, None)
        done = len(source.log)
        for _ in range(3):
            source.transaction()
        if len(source.log) > done:
            write_log(folder / "ot", source.log[done:])
            report = apply_trail(folder / "ot", address.format(folder))
            assert report.operations == len(source.log) - done
            assert rows(folder) == source.rows, source.log


@pytest.mark.parametrize("name", TARGETS)
def test_a_position_is_that_of_a_trail_and_of_the_tables_taken_of_it(
    name: str, tmp_path: Path
) -> None:
    address = TARGETS[name][0].format(tmp_path)
    write_log(tmp_path / "ot", history(chance(name), 2).log)
    apply_trail(tmp_path / "ot", address, tables=["HR.T"])

    with pytest.raises(StorageError, match=r"all tables would lack.*--changed-maps catch-up"):
        apply_trail(tmp_path / "ot", address)


def test_operations_folded_while_they_are_read_give_the_sources_rows(tmp_path: Path) -> None:
    address, rows = TARGETS["duckdb"]
    for number in range(examples(20)):
        own = chance(f"folded {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 6)
        write_log(folder / "ot", source.log)
        reading = ThreadReading(
            1, split_bytes=own.choice((300, 1 << 20)), fold_rows=own.choice((0, 3))
        )
        with ApplyRun(
            folder / "ot", address.format(folder), ApplyOptions(), reading=reading
        ) as run:
            assert sum(report.operations for report in run.batches()) == len(source.log)
        assert rows(folder) == source.rows, source.log
