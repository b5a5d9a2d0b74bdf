"""Folded operations, in chunks of any size and folded again, have the effect of those that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

from apply.naive_batches import Memory, operations_of
from apply.test_net_effects import cut, history
from laws import chance, examples
from oracles.apply_naive import COLUMNS, CollisionError, Operation, damaged, replayed
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.folding import fold_operations
from trailgate.apply.effects.operations import TargetOperations, join_operations
from trailgate.apply.effects.table_changes import compute_table_changes
from trailgate.errors import ApplyError

HISTORIES = 120


def folded(own: Random, log: Sequence[Operation]) -> TargetOperations:
    """Return a log folded in chunks, and some of these together once more."""
    whole = operations_of(log)
    cuts = sorted({0, len(log), *(own.randrange(len(log) + 1) for _ in range(3))})
    chunks = [fold_operations(whole.take(np.arange(start, end))) for start, end in pairwise(cuts)]
    if own.random() < 0.5:
        return fold_operations(join_operations(chunks))
    return join_operations(chunks)


@pytest.mark.parametrize("policy", ["stop", "insert-missing"])
def test_folded_operations_give_what_the_replay_gives(policy: str) -> None:
    fewer = 0
    for number in range(examples(HISTORIES)):
        own = chance(f"folded {policy} {number}")
        log = history(own).log
        if own.random() < 0.7:
            log = damaged(own, log)
        start = {
            key: {name: own.randrange(5) for name in COLUMNS}
            for key in range(6)
            if own.random() < 0.5
        }
        target, rows = Memory(start), start
        for batch in cut(own, log):
            operations = folded(own, batch)
            assert operations.weight.sum() == len(batch)
            fewer += len(batch) - len(operations)
            try:
                rows = replayed(rows, batch, policy)[0]
            except CollisionError:
                with pytest.raises(ApplyError):
                    compute_table_changes(operations, target.fetch, CollisionPolicy(policy))
                break
            target.write(compute_table_changes(operations, target.fetch, CollisionPolicy(policy)))
            assert target.rows == rows, (start, batch)
    assert fewer


def test_a_key_has_at_most_three_operations() -> None:
    log: list[Any] = [Operation("I", 1, 1, {"a": 1, "b": 2, "c": 3}, 0)]
    log += [Operation("U", 1, 1, {"a": number}, number) for number in range(1, 50)]
    (only,) = [fold_operations(operations_of(log))]
    assert (only.op_type.tolist(), only.weight.tolist()) == ([ord("I")], [50])
    log += [Operation("D", 1, 1, {}, 50), Operation("I", 1, 1, {"a": 7}, 51)]
    again = fold_operations(operations_of(log[1:]))
    assert bytes(again.op_type.tolist()) == b"UDI"
    assert again.weight.tolist() == [1, 49, 1]
