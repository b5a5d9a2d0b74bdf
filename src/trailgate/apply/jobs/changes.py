"""Compute the changes that a batch of operations makes to the tables of a target.

Each table's operations are reduced to changes by the mode of the table (``effects``). An operation
that cannot be applied may exclude its whole transaction, which can change whether later operations
succeed. So `compute` repeats until the errors are final.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.exclusions import find_final_errors
from trailgate.apply.effects.modes import ComputeChanges
from trailgate.apply.effects.nets import RowEffect, compute_net_changes
from trailgate.apply.effects.operation_errors import (
    DISCARD_TRANSACTION,
    ErrorResponses,
    OperationErrors,
)
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.reports import TableReport, count_changes
from trailgate.apply.jobs.schemas import TableModes
from trailgate.apply.jobs.split_operations import SplitOperations
from trailgate.apply.replicat.mapping import ReplicatMapping as MapStatements
from trailgate.apply.targets.target import ApplyTarget
from trailgate.errors import TrailgateError

TableEffects = tuple[str, Sequence[TableChanges], TableReport]  # a table's name, changes and counts


@dataclass(frozen=True, slots=True)
class ChangeComputation:
    """Computes the changes that batches make to target tables, and which operations cannot be applied.

    ``responses`` states what to do with an operation that has an error. If ``effects`` is set, it
    is used instead of the function of each table's mode (``BoundedTarget``).
    """

    target: ApplyTarget
    modes: TableModes
    responses: ErrorResponses
    mapping: MapStatements | None
    effects: ComputeChanges | None
    dry_run: bool

    def compute(
        self, batch: SplitOperations, policy: CollisionPolicy
    ) -> tuple[list[TableEffects], OperationErrors, frozenset[int]]:
        """Compute the changes to each table, the operations that cannot be applied, and the transactions that they exclude.

        Repeats until the errors are final, because an excluded transaction can change whether later
        operations succeed.
        """
        reasons = dict(batch.errors)
        for number in sorted(reasons):
            if self.responses.stops(reasons[number]):
                raise reasons[number]
        excluded = self.excluded_transactions(batch, reasons)
        while True:
            faults = OperationErrors(stop=self.responses.always_stop, stops=self.responses.stops)
            written: list[TableEffects] = []
            tried: list[TargetOperations] = []
            updates_insert = False
            for name, operations in batch.operations.items():
                remaining = operations.without(reasons).without_transactions(excluded)
                if len(remaining):
                    mapped = None if self.mapping is None else self.mapping.collisions(name)
                    chosen = mapped or policy
                    written.append(self._compute_table(remaining, chosen, faults))
                    tried.append(remaining)
                    updates_insert |= chosen.inserts
            final, again = find_final_errors(
                faults.errors, tried, self.responses, updates_insert=updates_insert
            )
            if not again:
                faults.errors = faults.errors | reasons
                return written, faults, excluded
            reasons |= final
            excluded = self.excluded_transactions(batch, reasons)

    def without_excluded(self, batch: SplitOperations) -> SplitOperations:
        """Return a batch without the excluded operations: those with errors, and if necessary their transactions."""
        excluded = self.excluded_transactions(batch, batch.errors)
        operations = {
            name: one.without(batch.errors).without_transactions(excluded)
            for name, one in batch.operations.items()
        }
        return replace(
            batch, operations={name: one for name, one in operations.items() if len(one)}
        )

    def excluded_transactions(
        self, batch: SplitOperations, errors: Mapping[int, TrailgateError]
    ) -> frozenset[int]:
        """Return the numbers of the transactions that are excluded because one of their operations cannot be applied."""
        wanted = self.with_response(errors, DISCARD_TRANSACTION)
        return frozenset(
            number
            for block, transactions in batch.blocks
            for number in transactions[np.isin(block.order, wanted)].tolist()
        )

    def with_response(self, errors: Mapping[int, TrailgateError], response: str) -> list[int]:
        """Return the numbers of the operations whose errors get this REPERROR response."""
        return [
            number for number, one in errors.items() if self.responses.response_to(one) == response
        ]

    def _compute_table(
        self, operations: TargetOperations, policy: CollisionPolicy, faults: OperationErrors
    ) -> TableEffects:
        """Compute the changes that a batch makes to one target table, and count them."""
        steps: Sequence[TableChanges]
        if self.dry_run and operations.table.key:
            steps = (_dry_run_changes(operations),)
        else:
            fetch = partial(_fetch, self.target, operations.table)
            mode = self.modes.mode_of(str(operations.table))
            effects_of = self.effects or mode.effects
            steps = effects_of(mode.logged(operations), fetch, policy, faults)
        failed = int(np.isin(operations.order, list(faults.errors)).sum())
        return str(operations.table), steps, count_changes(operations, steps, failed)


def _fetch(target: ApplyTarget, table: TargetTable, keys: pa.Table, keys_alone: bool) -> pa.Table:
    return target.rows(table, keys, keys_alone=keys_alone)


def _dry_run_changes(operations: TargetOperations) -> TableChanges:
    """Compute the changes that a dry run of apply reports for one table, without reading the table.

    The target's rows are assumed to be as the operations expect. Operations that would be replayed
    are only counted.
    """
    # Only what follows the last truncate remains. ``number`` is negative for keys that need a replay.
    parts = [part for part, _ in operations.between_truncates()]
    nets, number = compute_net_changes(parts[-1])
    nets = nets.where(nets.expected | (nets.effect != RowEffect.DELETE))
    return TableChanges(nets, len(parts) > 1, replayed=int((number < 0).sum()))
