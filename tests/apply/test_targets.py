"""A trail applied to each target is the source's table, however it is cut into batches and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.sources import TARGETS, write_log
from apply.test_net_effects import history
from laws import chance, examples
from trailgate import apply_trail


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_has_the_sources_rows(name: str, tmp_path: Path) -> None:
    address, rows = TARGETS[name]
    for number in range(examples(20)):
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
