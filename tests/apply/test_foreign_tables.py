"""Tables that others created: a value is stored as the trail has it, or its operation is refused; ``--verify`` says the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from apply.foreign_databases import DATABASES, NAMES, Database
from apply.foreign_types import COLUMN_TYPES, ENTIRE, is_same
from apply.naive_batches import block_of_images
from apply.postgresql_server import running
from apply.value_table import VALUES, Values
from laws import LONG, WHOLE, chance, examples
from trailgate import DefinitionError, TrailAppender, apply_trail, verify_tables
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

KEY: Final = Column("K", 134, 8, key=True)
AS_TEXT: Final = ("[]", "interval", "INTERVAL", "range", "STRUCT")  # no driver has their text
MOST: Final = 5  # values of a pair, beside those that are drawn


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


Change = tuple[int, dict[str, Any] | None, dict[str, Any] | None]


@dataclass
class Pair:
    """A table whose column V is of one type in the trail and of another one in the target, and the last value of each key."""

    number: int
    type: Values
    kind: str
    values: list[Any]
    last: dict[int, Any] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        return Table(f"HR.P{self.number}", (KEY, self.type.as_column("V")))

    @property
    def is_entire(self) -> bool:
        return self.kind in ENTIRE.get(self.type.column.family, ())

    def changes(self, own: random.Random, step: int) -> list[Change]:
        """Return inserts of all values, then updates, then updates and deletes."""
        if step == 0:
            keyed = enumerate(self.values)
            return [(ord("I"), None, {"K": key, "V": value}) for key, value in keyed]
        found: list[Change] = []
        for key in sorted(self.last):
            if step == 2 and own.random() < 0.4:
                found.append((ord("D"), {"K": key}, None))
            else:
                found.append((ord("U"), {"K": key}, {"K": key, "V": own.choice(self.values)}))
        return found

    def take(self, changes: Sequence[Change], refused: set[tuple[int, str]]) -> None:
        """Note what became of each operation."""
        for kind, before, after in changes:
            key, letter = (after or before or {})["K"], chr(kind)
            if (key, letter) in refused:
                assert letter != "D"
                assert not self.is_entire or _has_nul(after), (self, after)
            elif after is None:
                del self.last[key]
            else:
                self.last[key] = after["V"]


def _has_nul(after: dict[str, Any] | None) -> bool:
    value = (after or {})["V"]
    return isinstance(value, str) and "\0" in value


def drawn_pairs(own: random.Random, database: str, count: int) -> list[Pair]:
    """Draw pairs of types, or all of them if every place is tried."""
    every = [(one, kind) for one in VALUES for kind in COLUMN_TYPES[database]]
    chosen = every if WHOLE else own.sample(every, count)
    found = []
    for number, (one, kind) in enumerate(chosen):
        values = list(one.values) if WHOLE else own.sample(one.values, min(MOST, len(one.values)))
        values += [one.more(own) for _ in range(3)] + [None]
        found.append(Pair(number, one, kind, values))
    return found


def append(prefix: Path, table: Table, changes: Sequence[Change]) -> None:
    """Append operations to a trail, each a transaction."""
    with TrailAppender(str(prefix), Definitions((table,))) as trail:
        for number, change in enumerate(changes):
            trail.append(ChangeBatch([block_of_images(table, [change])], 1))
            trail.commit(str(number))


def discarded(path: Path) -> set[tuple[int, str]]:
    """Return the key and operation type of each discarded operation."""
    if not path.exists():
        return set()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return {(int((one.get("after") or one["before"])["K"]), one["op_type"]) for one in lines}


@LONG
@pytest.mark.parametrize("name", NAMES)
def test_a_value_is_stored_as_it_is_or_refused(name: str, tmp_path: Path, request: Any) -> None:
    database = DATABASES[name](request, tmp_path)
    own = chance(f"foreign {name}")
    for pair in drawn_pairs(own, name, examples(40) // 4):
        check_pair(own, pair, database, tmp_path / str(pair.number))


def check_pair(own: random.Random, pair: Pair, database: Database, folder: Path) -> None:
    """Apply three batches or more to a table of others, and compare its rows and what ``--verify`` says after each."""
    folder.mkdir()
    table = f"hr.p{pair.number}"
    database.run(f"CREATE TABLE {table} (k bigint PRIMARY KEY, v {pair.kind})")
    discards = folder / "d.jsonl"
    options: Any = {"on_error": "discard", "group": folder.name}
    for step in range(3):
        changes = pair.changes(own, step)
        append(folder / "ot", pair.table, changes)
        discards.unlink(missing_ok=True)
        try:
            apply_trail(
                folder / "ot",
                database.address,
                discards=str(discards),
                batch_bytes=own.choice((600, 1 << 20)),
                **options,
            )
        except DefinitionError:  # no value of the type fits
            assert not pair.is_entire, pair
            assert database.rows(f"SELECT k FROM {table}") == []
            return
        pair.take(changes, discarded(discards))
        read = "v::varchar" if any(one in pair.kind for one in AS_TEXT) else "v"
        rows = dict(database.rows(f"SELECT k, {read} FROM {table}"))
        assert rows.keys() == pair.last.keys(), pair
        for key, stored in rows.items():
            value = pair.last[key]
            same = is_same(pair.type.column, value, pair.kind, stored)
            assert same, (pair.type.name, pair.kind, value, stored)
    report = verify_tables(folder / "ot", database.address, **options)
    assert report.is_equal, (pair.type.name, pair.kind, pair.values, report.tables)
