"""Discarded operations that were repaired: applied as their oracle applies them, or refused, once, wherever a run is killed."""

from __future__ import annotations

import copy
import json
import math
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from apply.histories import KEYS, Shape
from apply.memory_target import KilledError, KilledTarget
from apply.mode_places import SHARES
from apply.naive_batches import block_of_images
from apply.postgresql_server import running
from apply.test_modes import Case, Tried, check
from laws import LONG, WHOLE, chance, examples, histories
from oracles.apply_naive import CollisionError, Operation
from oracles.modes_naive import LAST, carry_out
from trailgate import (
    ApplyError,
    DecodeError,
    OptionError,
    TrailAppender,
    apply_repaired,
    apply_trail,
)
from trailgate.apply.jobs import tables as apply_tables
from trailgate.apply.targets.target import ApplyTarget
from trailgate.model.changes import INSERT, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

CASES: Final = (
    Case("current", "stop", "discard", 4),
    Case("current", "stop", "discard", 1, narrow=True),
    Case("meta", "stop", "discard", 4),
    Case("meta", "overlay", "discard", 2, narrow=True),
    Case("soft-delete", "stop", "discard", 2, narrow=True),
)
Numbered = tuple[int, Operation]


def text_of(shape: Shape, key: int, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return an image as the line of an operation has it."""
    image = shape.image(key, values).items()
    return {name: None if value is None else str(value) for name, value in image}


def line_of(tried: Tried, line: Mapping[str, Any], one: Operation) -> dict[str, Any]:
    """Return the line of an operation that was repaired."""
    shape = tried.made.shapes[one.table]
    before = {} if one.kind == "I" else {"before": text_of(shape, one.old, one.earlier)}
    after = {} if one.kind == "D" else {"after": text_of(shape, one.key, one.logged)}
    return {**line, **before, **after}


def repaired(own: random.Random, tried: Tried) -> list[Numbered]:
    """Return some of the operations that were discarded, some of them changed."""
    found = []
    for number in sorted(tried.dropped):
        one = tried.made.log[number]
        if own.random() < 0.3:
            continue
        if own.random() < 0.3:
            key = own.randrange(KEYS)
            one = one._replace(key=key, old=one.old if one.kind == "K" and key != one.old else key)
            if one.kind == "K" and one.key == one.old:
                one = one._replace(kind="U")
        if one.logged.get("a") in (3, 4) and own.random() < 0.8:
            one = one._replace(logged={**one.logged, "a": own.choice((0, 1, None))})
        found.append((number, one))
    return found


def changed_since(tried: Tried, operations: Sequence[Numbered]) -> bool:
    """Return whether a later operation wrote a row of one of the operations."""
    for number, one in operations:
        rows = tried.tables[one.table].rows
        for key in (one.old, one.key):
            if key in rows and rows[key][LAST] > number:
                return True
    return False


def apply(own: random.Random, tried: Tried, folder: Path, case: Case, force: bool) -> bool:
    """Apply the file in runs of which some are killed; return whether it was taken."""
    options = case.options(folder, 1)

    def opened(_: str, group: str, __: str = "") -> ApplyTarget:
        target = tried.where.open(group)
        return KilledTarget(target, own.randrange(4)) if own.random() < 0.4 else target

    while True:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apply_tables, "open_target", opened)
            try:
                apply_repaired(
                    folder / "ot",
                    tried.where.to,
                    folder / "fixed.jsonl",
                    force=force,
                    mode=options.mode,
                    meta=options.meta,
                    column=options.column,
                    on_collision=options.on_collision,
                )
            except KilledError:
                continue
            except (ApplyError, DecodeError):
                return False
            return True


def try_repairs(
    case: Case, kind: str | None, count: int, folder: Path, needed: Any = None
) -> tuple[int, int]:
    """Try histories whose discarded operations are repaired, on a target of a kind or of any quick one. Return how many repairs were taken and refused."""
    taken = refused = 0
    for number in range(count):
        own = chance(f"repaired {kind or ''} {case} {number}")
        inner = folder / str(number)
        inner.mkdir()
        tried = check(own, inner, case, case.place(kind or own.choice(SHARES), inner, needed))
        operations = repaired(own, tried)
        if operations:
            force = case.mode != "meta" or own.random() < 0.3
            if repair(own, tried, operations, inner, (case, force)):
                taken += 1
            else:
                refused += 1
        shutil.rmtree(inner)
    return taken, refused


@LONG
@pytest.mark.parametrize("case", CASES, ids=str)
def test_repaired_operations_are_applied_once_or_refused(case: Case, tmp_path: Path) -> None:
    count = histories(examples(10), tests=case.among(CASES))
    taken, refused = try_repairs(case, None, count, tmp_path)
    assert (taken and refused) or not WHOLE


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


@LONG
@pytest.mark.servers
@pytest.mark.parametrize("case", CASES, ids=str)
def test_so_are_they_in_postgresql(case: Case, server: str, tmp_path: Path) -> None:
    try_repairs(case, "postgresql", histories(2, tests=4, full=1000), tmp_path, server)


def repair(
    own: random.Random,
    tried: Tried,
    operations: Sequence[Numbered],
    folder: Path,
    how: tuple[Case, bool],
) -> bool:
    """Apply repaired operations, and compare with the oracle; return whether they were taken."""
    case, force = how
    texts = (folder / "discards.jsonl").read_text().splitlines()
    lines = {tried.numbers[line["position"]]: line for line in map(json.loads, texts)}
    content = [json.dumps(line_of(tried, lines[number], one)) for number, one in operations]
    (folder / "fixed.jsonl").write_text("\n".join(content))
    tables, fits = copy.deepcopy(tried.tables), force or not changed_since(tried, operations)
    try:
        carry_out(operations, tables, case.misfits)
    except CollisionError:
        fits = False

    assert apply(own, tried, folder, case, force) == fits, (operations, tried.made)

    after = Tried(tried.made, tried.where, tables if fits else tried.tables, (), tried.numbers)
    after.check(case)
    if fits:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                apply_tables, "open_target", lambda _, group, __="": tried.where.open(group)
            )
            with pytest.raises(OptionError, match="this file was already applied"):
                apply_repaired(
                    folder / "ot",
                    tried.where.to,
                    folder / "fixed.jsonl",
                    force=True,
                    mode=case.options(folder, 1).mode,
                )
    return fits


def test_an_operation_on_a_row_with_nan_as_its_key_is_refused_if_the_row_was_changed(
    tmp_path: Path,
) -> None:
    table = Table("HR.N", (Column("K", 143, 8, key=True), Column("A", 134, 8)))
    images: list[dict[str, Any]] = [{"K": math.nan, "A": number} for number in range(3)]
    block = block_of_images(
        table,
        [
            (INSERT, None, images[0]),
            (INSERT, None, images[1]),
            (UPDATE, {"K": math.nan}, images[2]),
        ],
    )
    with TrailAppender(str(tmp_path / "ot"), Definitions((table,))) as trail:
        trail.append(ChangeBatch([block], 3))
        trail.commit("all")
    to, file = f"duckdb:{tmp_path}/x.duckdb", tmp_path / "d.jsonl"
    apply_trail(tmp_path / "ot", to, meta=True, on_error="discard", discards=str(file))

    with pytest.raises(ApplyError, match=r"row of k=nan may have been changed"):
        apply_repaired(tmp_path / "ot", to, file, meta=True, on_collision="overlay")
