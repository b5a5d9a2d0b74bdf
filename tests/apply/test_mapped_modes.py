"""MAP statements with conditions and COLMAP are what a row-by-row reading of them makes of a log, however batches and runs are cut."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from apply.memory_target import KilledError, KilledTarget
from apply.mode_places import SHARES, Place, place
from apply.sources import write_log
from laws import LONG, chance, examples, histories
from oracles.apply_naive import COLUMNS, Operation, Source
from oracles.modes_naive import CurrentRows, carry_out
from trailgate.apply.jobs.apply import ApplyRun, ThreadReading
from trailgate.apply.jobs.options import GROUP, ApplyOptions

Row = Mapping[str, Any]


class FullImages(Source):
    """A table without NULLs, which logs all columns before and after each operation."""

    def _value(self) -> Any:
        return self.chance.randrange(5)

    def _changes(self, values: dict[str, Any]) -> dict[str, Any]:
        return values | super()._changes(values)

    def _truncate(self) -> None:
        """Keep the rows: a truncate has no columns that a condition could name."""

    def _log(
        self,
        kind: str,
        old: int,
        key: int,
        logged: dict[str, Any],
        before: dict[str, Any] | None = None,
    ) -> None:
        del before
        earlier = self.seen.pop(old, {}) if kind != "I" else {}
        if kind == "K":
            logged = earlier | logged
        if kind != "D":
            self.coming[key] = dict(logged)
        self.log.append(
            Operation(
                kind=kind,
                old=old,
                key=key,
                logged=logged,
                transaction=self._transaction,
                table="",
                earlier=earlier,
            )
        )

    seen: dict[int, dict[str, Any]]
    coming: dict[int, dict[str, Any]]

    def act(self, transaction: int) -> None:
        """Do one statement, whose images before are of the rows at its beginning."""
        self.seen, self.coming = {key: dict(row) for key, row in self.rows.items()}, {}
        super().act(transaction)


class Form(NamedTuple):
    """What follows the target of a MAP statement, which operations it takes, and what it makes of an image."""

    text: str
    takes: Callable[[str, Row], bool] = lambda _, __: True
    columns: Mapping[str, str] = dict(zip(COLUMNS, COLUMNS, strict=True))


FORMS: Final = (
    Form(""),
    Form(", WHERE (a >= 2)", lambda _, row: row["a"] >= 2),
    Form(", WHERE (a = 1 OR b <> 3)", lambda _, row: row["a"] == 1 or row["b"] != 3),
    Form(", FILTER (a + b > 4)", lambda _, row: row["a"] + row["b"] > 4),
    Form(", FILTER (id > 2)", lambda _, row: row["id"] > 2),
    Form(", FILTER (ON INSERT, a > 1)", lambda kind, row: kind != "I" or row["a"] > 1),
    Form(", FILTER (ON UPDATE, a <> c)", lambda kind, row: kind not in "UK" or row["a"] != row["c"]),
    Form(", COLMAP (id = id, a = b, b = a)", columns={"a": "b", "b": "a"}),
    Form(", COLMAP (USEDEFAULTS, a = c), WHERE (b < 3)", lambda _, row: row["b"] < 3, {"a": "c", "b": "b", "c": "c"}),
)  # fmt: skip
POLICIES: Final = {"overlay": "HANDLECOLLISIONS", "insert-missing": "INSERTMISSINGUPDATES"}
Statement = tuple[str, Form]


def mapped(log: list[Operation], statements: list[Statement]) -> list[tuple[int, Operation]]:
    """Return the operations on target tables, each by the first statement of its target that takes it."""
    found = []
    for number, one in enumerate(log):
        taken: set[str] = set()
        row = {"id": one.key, **(one.earlier if one.kind == "D" else one.logged)}
        for target, form in statements:
            if target in taken or not form.takes(one.kind, row):
                continue
            taken.add(target)
            logged = {to: one.logged[of] for to, of in form.columns.items() if of in one.logged}
            found.append((number, one._replace(table=target, logged=logged)))
    return found


def statements_of(own: random.Random) -> list[Statement]:
    """Return one to three statements; those with one target have the same columns."""
    found: list[Statement] = []
    for _ in range(own.randint(1, 3)):
        form = own.choice(FORMS)
        target = own.choice(("t1", "t2"))
        if all(one.columns.keys() == form.columns.keys() for name, one in found if name == target):
            found.append((target, form))
    return found


def applied(own: random.Random, folder: Path, where: Place) -> None:
    while True:
        size = own.choice((1, 300, 1 << 20))
        options = ApplyOptions(params=str(folder / "rep.prm"), batch_bytes=size)
        target = where.open(GROUP)
        if own.random() < 0.4:
            target = KilledTarget(target, own.randrange(5))
        try:
            with ApplyRun(
                folder / "ot", where.to, options, reading=ThreadReading(1), target=target
            ) as run:
                run.to_end()
        except KilledError:
            continue
        return


@LONG
def test_statements_take_the_operations_that_they_name(tmp_path: Path) -> None:
    for number in range(histories(examples(20))):
        own = chance(f"mapped {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = FullImages(own)
        while len(source.log) < 12:
            source.transaction()
        policy = "overlay"
        statements = statements_of(own)
        lines = [f"MAP hr.t, TARGET x.{target}{form.text};" for target, form in statements]
        text = "\n".join(["REPLICAT trailgate", POLICIES[policy], *lines])
        (folder / "rep.prm").write_text(text)
        write_log(folder / "ot", source.log)
        names = {target: sorted(form.columns) for target, form in statements}
        tables = {target: CurrentRows(policy, columns) for target, columns in names.items()}
        carry_out(mapped(source.log, statements), tables)
        where = place(own.choice(SHARES), folder, "current")

        applied(own, folder, where)

        for target, columns in names.items():
            rows = where.rows(f"X.{target.upper()}")
            found = {row["id"]: {name: row[name] for name in columns} for row in rows}
            assert found == tables[target].state(), (text, source.log)
        shutil.rmtree(folder)
