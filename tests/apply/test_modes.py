"""A history applied in each mode is what a row-by-row reading of that mode makes of it: for tables of several types, however batches and runs are cut, wherever runs are killed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from apply.histories import SHAPES, History, Shape, history, positions, time_of, write
from apply.memory_target import KilledError, KilledTarget
from apply.mode_places import SHARES, Place, Rows, place
from apply.postgresql_server import running
from laws import LONG, WHOLE, chance, histories
from oracles.apply_naive import CollisionError, Operation
from oracles.modes_naive import KEPT, LAST, CurrentRows, kept
from trailgate import ApplyError
from trailgate.apply.effects.tables import make_target_table
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.options import GROUP, ApplyOptions

EPOCH: Final = datetime.fromtimestamp(time_of(0) // 1_000_000, UTC).replace(tzinfo=None)
WIDE: Final = (3, 4)  # values of column a that do not fit a narrow one


def read_state(
    mode: str, shape: Shape, rows: Rows, numbers: Mapping[Any, Any], log: Sequence[Operation]
) -> Any:
    """Return what a target has, as the oracle of the mode states it."""

    def at(value: Any) -> int | None:
        return None if value is None else int((value - EPOCH).total_seconds())

    found = [(*shape.read_row(row), row) for row in rows]
    if mode == "append":
        listed = []
        for key, values, row in found:
            number = numbers[row["_position"]]
            one = log[number]
            assert (row["_tx_id"], row["_csn"]) == (str(one.transaction), str(one.transaction))
            assert at(row["_op_ts"]) == one.transaction
            missing = [] if row["_missing"] is None else json.loads(row["_missing"])
            assert (row["_missing"] is None) == (one.kind == "T")
            assert not {name.name.lower() for name in shape.key} & set(missing)
            logged = (
                {}
                if one.kind == "T"
                else {
                    name: values[name]
                    for name, (column, _) in zip(shape.names, shape.columns, strict=True)
                    if column.name.lower() not in missing
                }
            )
            listed.append((number, row["_op_type"], None if one.kind == "T" else key, logged))
        return sorted(listed)
    if mode == "history":
        versions = []
        for key, values, row in found:
            begin, end = numbers[row["_from_position"]], numbers[row["_to_position"]]
            assert at(row["_valid_from"]) == log[begin].transaction
            assert at(row["_valid_to"]) == (None if end is None else log[end].transaction)
            assert row["_is_current"] is (end is None)
            versions.append((key, values, begin, end))
        return sorted(versions, key=lambda one: (one[0], one[2]))
    state: dict[Any, Any] = {}
    for key, values, row in found:
        if mode == "meta":
            number = numbers[row["_position"]]
            assert at(row["_op_ts"]) == log[number].transaction
            state[key] = {**values, LAST: number}
        elif mode == "soft-delete":
            assert row["_deleted"] is (row["_deleted_at"] is not None)
            state[key] = values, at(row["_deleted_at"])
        else:
            state[key] = values
    assert len(state) == len(found)
    return state


def expected_state(mode: str, state: Any, log: Sequence[Operation]) -> Any:
    """Return the oracle's state as a target has it: a deleted row has the time of its transaction."""
    if mode != "soft-delete":
        return state
    return {
        key: (row, None if at is None else log[at].transaction) for key, (row, at) in state.items()
    }


@dataclass(frozen=True)
class Case:
    """A class of histories: the mode, what is done about operations that do not fit, and how often a log is damaged at most.

    ``narrow``: there are values that a column does not hold. ``tangled``: transactions on several tables, many of which do not fit.
    """

    mode: str
    policy: str = "stop"
    on_error: str = "stop"
    damage: int = 0
    narrow: bool = False
    tangled: bool = False

    def misfits(self, one: Operation) -> bool:
        """Return whether an operation has a value that its column does not hold."""
        stored = one.earlier if one.kind == "D" and self.mode == "append" else one.logged
        return self.narrow and stored.get("a") in WIDE

    def among(self, cases: Sequence[Case]) -> int:
        """Return how many of some cases are of this one's mode, and so of its class."""
        return sum(one.mode == self.mode for one in cases)

    def place(self, kind: str, folder: Path, needed: Any = None) -> Place:
        """Return a new target of a kind."""
        return place(kind, folder, self.options(folder, 1).mode, needed)

    def options(self, folder: Path, batch_bytes: int) -> ApplyOptions:
        """Return the options of a run."""
        return ApplyOptions(
            column=[f"HR.T{at}.A=decimal(5,0)" for at in range(3)] if self.narrow else None,
            mode="current" if self.mode == "meta" else self.mode,  # type: ignore[arg-type]
            meta=self.mode == "meta",
            on_collision=self.policy,  # type: ignore[arg-type]
            on_error=self.on_error,  # type: ignore[arg-type]
            discards=str(folder / "discards.jsonl"),
            batch_bytes=batch_bytes,
        )


POLICIES: Final = (
    ("stop", "stop", 0),
    ("stop", "stop", 2),
    ("overlay", "stop", 4),
    ("insert-missing", "stop", 2),
    ("stop", "discard", 4),
    ("overlay", "discard", 4),
    ("insert-missing", "discard-transaction", 4),
    ("stop", "discard-transaction", 4),
    ("stop", "ignore", 4),
    ("stop", "discard", 1, True),
    ("overlay", "discard-transaction", 1, True),
)
CASES: Final = (
    *(Case(mode, *policy) for mode in ("current", "meta", "soft-delete") for policy in POLICIES),
    Case("history"),
    Case("history", damage=2),
    Case("append", damage=3),
    Case("append", on_error="discard", narrow=True),
)

TANGLED: Final = (
    Case("current", on_error="discard-transaction", tangled=True),
    Case("current", "insert-missing", "discard-transaction", tangled=True),
    Case("current", "overlay", "discard-transaction", narrow=True, tangled=True),
    Case("soft-delete", on_error="discard-transaction", narrow=True, tangled=True),
)


def cuts(own: random.Random, log: Sequence[Operation]) -> list[Sequence[Operation]]:
    """Return a log in one to three parts of whole transactions."""
    ends = {at for at in range(1, len(log)) if log[at].transaction != log[at - 1].transaction}
    chosen = [
        0,
        *sorted(own.sample(sorted(ends), min(own.choice((0, 0, 1, 2)), len(ends)))),
        len(log),
    ]
    return [log[begin:end] for begin, end in pairwise(chosen)]


Apply = Callable[[random.Random, Path, "Case", Place], ApplyError | None]


def applied(own: random.Random, folder: Path, case: Case, where: Place) -> ApplyError | None:
    """Apply what the trail has in runs of which some are killed; return the error of an operation that stopped the last one."""
    while True:
        options = case.options(folder, own.choice((1, 300, 1 << 20)))
        reading = where.reading(split_bytes=own.choice((300, 1 << 20)))
        target = where.open(GROUP)
        if own.random() < 0.4:
            target = KilledTarget(target, own.randrange(5))
        try:
            with ApplyRun(folder / "ot", where.to, options, reading=reading, target=target) as run:
                run.to_end()
        except KilledError:
            continue
        except ApplyError as error:
            return error
        return None


@dataclass(frozen=True)
class Tried:
    """A history that was applied: where, its tables by the oracle, the operations that were discarded, and the numbers of positions."""

    made: History
    where: Place
    tables: Mapping[str, CurrentRows]
    dropped: Collection[int]
    numbers: Mapping[str | None, int | None]

    def check(self, case: Case) -> None:
        """Compare the target with the oracle."""
        log = self.made.log
        for name, shape in self.made.shapes.items():
            found = read_state(case.mode, shape, self.where.rows(name), self.numbers, log)
            wanted = expected_state(case.mode, self.tables[name].state(), log)
            assert found == wanted, (name, found, wanted)


def check(
    own: random.Random,
    folder: Path,
    case: Case,
    where: Place,
    apply: Apply = applied,
    made: History | None = None,
) -> Tried:
    """Try one history, by default a random one, which ``apply`` applies to a target part by part."""
    if made is None:
        size = 20 if case.tangled else 8
        made = history(own, size, damage=case.damage, tangled=case.tangled)
    make = {
        name: partial(KEPT[case.mode], case.policy, shape.names)
        for name, shape in made.shapes.items()
    }
    tables: dict[str, CurrentRows] = {}
    dropped: set[int] = set()
    fits = True
    try:
        tables, dropped = kept(made.log, make, case.on_error, case.misfits)
    except CollisionError:
        fits = False

    errors = []
    for part in cuts(own, made.log):
        write(folder / "ot", made, part)
        errors.append(apply(own, folder, case, where))

    assert (errors[-1] is None) == fits, (errors, made.log)
    numbers = positions(folder / "ot")
    target = where.open(GROUP)
    if not fits:  # each table has what was applied before the operation
        done = target.position(None)
        for name, shape in made.shapes.items():
            alone = target.position(make_target_table(shape.table(name)))
            at = max("" if one is None else one.position for one in (done, alone))
            end = (numbers[at] or 0) + 1 if at else 0
            tables[name] = kept(made.log[:end], make)[0][name]
    applied_to = {one.table.upper() for one in target.positions()}
    target.close()
    assert applied_to >= {name for name, one in tables.items() if one.state()} or not fits
    tried = Tried(made, where, tables, dropped, numbers)
    tried.check(case)
    file = folder / "discards.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    listed = [numbers[line["position"]] or 0 for line in lines]
    assert sorted(listed) == (sorted(dropped) if "discard" in case.on_error else [])
    return tried


def at_once(own: random.Random, folder: Path, case: Case, where: Place) -> ApplyError | None:
    """Apply what the trail has in one batch."""
    del own
    options = case.options(folder, 1 << 20)
    with ApplyRun(folder / "ot", where.to, options, target=where.open(GROUP)) as run:
        run.to_end()
    return None


def followed(own: random.Random, folder: Path, case: Case, where: Place) -> ApplyError | None:
    """Apply the trail by one run while its bytes come, as ``--follow`` does; return the error that stopped it."""
    options = case.options(folder, own.choice((1, 300, 1 << 20)))
    file = folder / "ot000000000"
    content, begun = file.read_bytes(), folder / "begun"
    before = begun.stat().st_size if begun.exists() else 0
    cuts = sorted(own.randint(before, len(content)) for _ in range(4))
    begun.write_bytes(content)  # how much of it is there when the next part comes
    file.write_bytes(content[: cuts[0]])
    try:
        target, reading = where.open(GROUP), where.reading()
        with ApplyRun(folder / "ot", where.to, options, reading=reading, target=target) as run:
            for end in (*cuts, len(content)):
                file.write_bytes(content[:end])
                for _ in run.batches():
                    pass
    except ApplyError as error:
        return error
    finally:
        file.write_bytes(content)
    return None


@LONG
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mode_keeps_what_its_oracle_keeps(case: Case, tmp_path: Path) -> None:
    for number in range(histories(2, tests=case.among(CASES))):
        own = chance(f"modes {case} {number}")
        kind = own.choice(SHARES)
        folder = tmp_path / str(number)
        folder.mkdir()
        check(own, folder, case, case.place(kind, folder))
        shutil.rmtree(folder)


def try_mode(
    kind: str,
    mode: str,
    count: int,
    folder: Path,
    needed: Any = None,
    *,
    apply: Apply | None = None,
) -> None:
    """Try histories of a mode on a target of a kind, by default in runs of which some are killed."""
    cases = [one for one in CASES if one.mode == mode]
    for number in range(count):
        own = chance(f"{kind} {mode} {number}")
        case, inner = own.choice(cases), folder / f"{mode}{number}"
        inner.mkdir()
        check(own, inner, case, case.place(kind, inner, needed), apply or applied)
        shutil.rmtree(inner)


@LONG
@pytest.mark.parametrize("mode", ["current", "history", "append"])
def test_so_does_iceberg(mode: str, tmp_path: Path) -> None:
    try_mode("iceberg", mode, histories(2), tmp_path)


@LONG
def test_so_does_a_target_of_appended_rows(tmp_path: Path) -> None:
    try_mode("parquet", "append", histories(2), tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


@LONG
@pytest.mark.servers
@pytest.mark.parametrize("mode", KEPT)
def test_so_does_postgresql(mode: str, server: str, tmp_path: Path) -> None:
    try_mode("postgresql", mode, histories(12, full=1000), tmp_path, server)


@LONG
@pytest.mark.servers
@pytest.mark.parametrize("mode", KEPT)
def test_so_does_a_run_that_follows_into_postgresql(mode: str, server: str, tmp_path: Path) -> None:
    try_mode("postgresql", mode, histories(3, full=250), tmp_path, server, apply=followed)


@LONG
@pytest.mark.parametrize("case", CASES[:: 1 if WHOLE else 4], ids=str)
def test_so_does_a_run_that_follows(case: Case, tmp_path: Path) -> None:
    for number in range(histories(2, tests=case.among(CASES))):
        own = chance(f"followed {case} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        check(own, folder, case, case.place(own.choice(SHARES), folder), followed)
        shutil.rmtree(folder)


@LONG
@pytest.mark.parametrize("case", TANGLED, ids=str)
def test_a_discarded_transaction_has_never_been_in_any_table(case: Case, tmp_path: Path) -> None:
    for number in range(histories(4, tests=case.among(TANGLED))):
        folder = tmp_path / str(number)
        folder.mkdir()
        own = chance(f"tangled {case} {number}")
        check(own, folder, case, case.place("memory", folder), at_once)
        shutil.rmtree(folder)


def operation(
    transaction: int, kind: str, table: int, key: int, old: int | None = None
) -> Operation:
    """Return an operation that logs all columns."""
    logged = {} if kind == "D" else dict.fromkeys("abc", transaction % 5)
    return Operation(
        kind=kind,
        old=key if old is None else old,
        key=key,
        logged=logged,
        transaction=transaction,
        table=f"HR.T{table}",
    )


# Each has three transactions or more: without an earlier one, a later one does not fit or fits, and the last insert fits only then.
CHAINS: Final = {
    "an error that may go": [
        operation(1, "D", 0, 3),
        operation(2, "I", 0, 0),
        operation(2, "I", 0, 0),
        operation(2, "I", 1, 2),
        operation(3, "K", 0, 0, old=3),
        operation(4, "I", 1, 2),
    ],
    "an error that is not there yet": [
        operation(1, "I", 0, 0),
        operation(1, "D", 0, 5),
        operation(2, "U", 0, 0),
        operation(2, "I", 1, 2),
        operation(3, "I", 1, 2),
    ],
    "three tables": [
        operation(1, "I", 0, 0),
        operation(1, "D", 0, 5),
        operation(2, "D", 0, 0),
        operation(2, "I", 1, 2),
        operation(3, "U", 1, 2),
        operation(3, "I", 2, 4),
        operation(4, "I", 2, 4),
    ],
    "a transaction that only updates": [
        operation(1, "I", 0, 0),
        operation(2, "U", 0, 0),
        operation(2, "D", 1, 5),
        operation(3, "U", 0, 0),
        operation(3, "I", 1, 2),
        operation(4, "I", 1, 2),
    ],
    "an insert that fits then": [
        operation(1, "I", 0, 0),
        operation(1, "D", 1, 5),
        operation(2, "I", 0, 0),
        operation(2, "I", 1, 2),
        operation(3, "D", 1, 2),
        operation(3, "I", 2, 4),
        operation(4, "U", 2, 4),
    ],
}


@pytest.mark.parametrize("mode", ["current", "meta", "soft-delete"])
@pytest.mark.parametrize("log", CHAINS.values(), ids=CHAINS)
def test_without_a_discarded_transaction_others_fit_or_fail(
    log: list[Operation], mode: str, tmp_path: Path
) -> None:
    case = Case(mode, on_error="discard-transaction")
    made = History(log, {f"HR.T{at}": SHAPES["integer"] for at in range(3)})
    for kind, apply in (("memory", at_once), ("lake in memory", applied)):
        folder = tmp_path / kind
        folder.mkdir()
        check(random.Random(4), folder, case, case.place(kind, folder), apply, made)
