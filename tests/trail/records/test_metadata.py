"""Table indexes: what they mean at each place of a file, however many there are."""

from __future__ import annotations

import pickle
import time

from damaged_trails import metadata
from trailgate.trail.records.table_metadata import NO_TABLES, PersistentMap

MANY = 20_000


def test_a_longer_mapping_leaves_the_one_it_came_from_as_it_is() -> None:
    none: PersistentMap[int, str] = PersistentMap()
    one = none.with_item(1, "a")
    two = one.with_item(2, "b")
    other = one.with_item(2, "c")
    changed = two.with_item(1, "z")

    assert [dict(found) for found in (none, one, two, other, changed)] == [
        {},
        {1: "a"},
        {1: "a", 2: "b"},
        {1: "a", 2: "c"},
        {1: "z", 2: "b"},
    ]
    assert 2 not in one
    assert dict(pickle.loads(pickle.dumps(one))) == {1: "a"}


def test_references_cost_the_same_however_many_come_before() -> None:
    tables = NO_TABLES.with_record(metadata(1))
    reference = metadata(2, of=1)
    start = time.process_time()
    for _ in range(MANY):
        tables = tables.with_record(reference)

    assert tables.highest == MANY + 1
    assert tables.tables[MANY + 1].table is not None
    # Copying the tables for each one takes nine seconds.
    assert time.process_time() - start < 6
