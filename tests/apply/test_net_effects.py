"""Batches in columns make of a table what its source holds, and what a row by row replay makes, however the log is cut, and stop where that stops."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from apply.naive_batches import Memory
from laws import chance, examples
from oracles.apply_naive import COLUMNS, CollisionError, Operation, Source, damaged, replayed
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.errors import ApplyError

HISTORIES = 120
FULL = {"a": 1, "b": 2, "c": 3}


def history(own: random.Random, transactions: int = 8) -> Source:
    source = Source(own)
    while source.log == [] or len({one.transaction for one in source.log}) < transactions:
        source.transaction()
    return source


def cut(own: random.Random, log: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yield batches of whole transactions."""
    batch: list[Operation] = []
    for at, one in enumerate(log):
        batch.append(one)
        ends = at + 1 == len(log) or log[at + 1].transaction != one.transaction
        if ends and own.random() < 0.4:
            yield batch
            batch = []
    if batch:
        yield batch


def test_the_naive_replay_is_the_source() -> None:
    for number in range(examples(HISTORIES)):
        source = history(chance(f"naive {number}"))
        assert replayed({}, source.log)[0] == source.rows


def test_batches_cut_anywhere_give_the_sources_rows() -> None:
    for number in range(examples(HISTORIES)):
        own = chance(f"batches {number}")
        source, target = history(own), Memory()
        for batch in cut(own, source.log):
            target.apply(batch)
        assert target.rows == source.rows, source.log


def test_a_damaged_log_stops_where_the_replay_stops() -> None:
    stops = 0
    for number in range(examples(HISTORIES)):
        own = chance(f"damaged {number}")
        log = damaged(own, history(own).log)
        target, rows = Memory(), dict[int, dict[str, Any]]()
        for batch in cut(own, log):
            try:
                rows = replayed(rows, batch)[0]
            except CollisionError:
                stops += 1
                with pytest.raises(ApplyError, match=r"position 0:\d"):
                    target.apply(batch)
                break
            target.apply(batch)
        assert target.rows == rows
    assert stops


@pytest.mark.parametrize("policy", ["overlay", "insert-missing"])
def test_a_policy_gives_what_the_replay_gives(policy: str) -> None:
    for number in range(examples(HISTORIES)):
        own = chance(f"{policy} {number}")
        log = damaged(own, history(own).log)
        start = {
            key: {name: own.randrange(5) for name in COLUMNS}
            for key in range(6)
            if own.random() < 0.5
        }
        target, rows = Memory(start), start
        for batch in cut(own, log):
            try:
                rows, ignored = replayed(rows, batch, policy)
            except CollisionError:
                with pytest.raises(ApplyError):
                    target.apply(batch, policy)
                break
            assert target.apply(batch, policy).ignored == ignored
            assert target.rows == rows, (start, batch)


@pytest.mark.parametrize("policy", ["stop", "overlay", "insert-missing"])
def test_excluded_operations_have_no_effect(policy: str) -> None:
    """The operations that do not fit, and only these, are what a log without them applies without any."""
    left_out = 0
    for number in range(examples(HISTORIES)):
        own = chance(f"left out {policy} {number}")
        log = damaged(own, history(own).log)
        target, other = Memory(), Memory()
        for batch in cut(own, log):
            faults = OperationErrors(stop=False)
            target.apply(batch, policy, faults)
            left_out += len(faults.errors)
            rest = [one for at, one in enumerate(batch) if at not in faults.errors]
            if rest:
                other.apply(rest, policy)
            assert target.rows == other.rows, (batch, faults.errors)
    assert left_out or examples(HISTORIES) < 50  # rare where collisions are overlaid
