"""Whatever the types of its keys and values, a table has the rows of its source after each of several runs, in every target."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.value_histories import FORMS, History, run_histories
from apply.value_table import TARGETS, VALUES
from laws import chance, examples
from trailgate import apply_trail
from trailgate.model.types import TYPES, Family

TABLES = 12  # of a trail
EMBEDDED = ("delta", "duckdb")


def test_every_type_has_values() -> None:
    readable = {code for code, row in TYPES.items() if row.family is not Family.UNSUPPORTED}
    known = {one.column.data_type for one in VALUES}
    assert readable - known == {c for c in readable if TYPES[c].name.startswith("INTERVAL")} - known


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", EMBEDDED)
def test_a_target_has_the_sources_rows(name: str, form: str, tmp_path: Path) -> None:
    """Each history has a key of one type, of a pair of types, or none; one in six has more than a hundred keys."""
    target = TARGETS[name]
    own = chance(f"values {name} {form}")
    for number in range(examples(24) // 12):
        folder = tmp_path / str(number)
        folder.mkdir()
        types = own.sample(VALUES, TABLES)
        histories = [
            History.drawn(own, f"T{at}", form, target, key, many=at % 6 == 0)
            for at, key in enumerate(types)
        ]
        run_histories(folder, histories, target, _apply, own)


def _apply(trail: Path, address: str, batch_bytes: int) -> None:
    apply_trail(trail, address, batch_bytes=batch_bytes)
