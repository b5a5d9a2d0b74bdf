"""Find the operations of a batch whose rows a target rejects.

A target may name all rejected rows of a table at once (``FindingTarget``). A row results from all
operations with its key, and with other keys that key updates link to it. If there is only one such
operation, it is the rejected one. Otherwise a binary search finds the first operation with which
the row is rejected. Each step writes the batch without the later operations on the row, and rolls
it back. The searches for all such rows share their steps.

Example: I(a=1), U(a=-1), U(b=5) of one key, and CHECK (a >= 0). The first two operations are
rejected and the first one alone is not. So U(a=-1) is discarded, and the other two are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.collisions import NAMES
from trailgate.apply.effects.exclusions import number_dependent_rows
from trailgate.apply.effects.meta_columns import POSITION
from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.operation_errors import DUPLICATE
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.row_keys import encode_keys
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.split_operations import SplitOperations
from trailgate.apply.targets.target import (
    FindingTarget,
    RefusedRows,
    RowCheckingTarget,
    RowRefusedError,
    ValuesRefusedError,
)
from trailgate.arrays import Longs
from trailgate.columnar.rows import join_arrays
from trailgate.errors import TrailgateError
from trailgate.model.changes import DELETE, INSERT, TRUNCATE

Retry = Callable[[SplitOperations], RowRefusedError | None]
Written = Sequence[tuple[str, Sequence[TableChanges], object]]  # each table's name and changes


class RowsRefusedError(RowRefusedError):
    """Raised if a target rejects rows of a table, with all of these rows.

    ``table`` is the name of the table, and ``rows`` are the rows that are rejected because of their
    own values.
    """

    table: str = ""
    rows: RefusedRows | None = None


def build_rows_error(
    first: RowRefusedError, table: TargetTable, rows: RefusedRows, written: Written, at: int
) -> RowRefusedError:
    """Build the error that lists all rejected rows of a table, or return ``first`` if there are none to list.

    ``first`` is the error with which the target rejected the write, and ``rows`` are all rows that
    it rejects. ``written`` are the changes of all tables in this batch. The first ``at + 1`` of
    them, up to this table, have been written. A row that a foreign key rejects is not listed if the
    cause may be the other table of the foreign key: if its changes are not yet written, or remove
    rows.
    """
    own = str(table).casefold()
    explains = {name.casefold() for name, _, _ in written[at + 1 :]}
    explains |= {name.casefold() for name, steps, _ in written if any(map(_removes, steps))}
    chosen = [
        row
        for row, other in enumerate(rows.related)
        if not other or other.casefold() == own or other.casefold() not in explains
    ]
    if not chosen:
        return first
    joined = RowsRefusedError(first.problem, where=first.where, hint=first.hint)
    joined.table = str(table)
    joined.rows = RefusedRows(
        rows.keys.take(pa.array(chosen)), [rows.errors[row] for row in chosen], ()
    )
    return joined.with_numbers(first.numbers)


def refuse_unfit_rows(target: RowCheckingTarget, effects: Written) -> None:
    """Raise RowsRefusedError for the first table that cannot hold some of its changed rows, with all of these rows. Writes nothing."""
    for _, steps, _ in effects:
        for one in steps:
            rows = target.find_unfit_rows(one)
            if len(rows):
                raise build_rows_error(rows.errors[0], one.nets.table, rows, effects, len(effects))


def refuse_deferred_rows(target: FindingTarget, written: Written) -> None:
    """Check the target's deferred constraints before the commit, and find the rows of a batch that they refuse.

    Raises RowRefusedError if they reject rows that were written. The error lists all rejected rows
    of one table if the target can find them.
    """
    try:
        target.check_deferred()
    except RowRefusedError as error:
        for _, steps, _ in written:
            for table in {str(one.nets.table): one.nets.table for one in steps}.values():
                rows = target.find_deferred_rows(table)
                found = build_rows_error(error, table, rows, written, len(written))
                if found is not error:
                    raise found from None
        raise


def _removes(changes: TableChanges) -> bool:
    """Return whether changes remove rows of a target table."""
    return changes.emptied or bool((changes.nets.effect == RowEffect.DELETE).any())


def find_refused_operations(
    batch: SplitOperations, refusal: RowsRefusedError, retry: Retry
) -> dict[int, TrailgateError]:
    """Find the first rejected operation of each row that the target rejects, by binary search.

    Returns the errors by operation number, or {} if the operations cannot be found. ``retry``
    writes a batch, rolls it back, and returns the error if the batch is rejected.
    """
    every = next(
        (one for one in batch.operations.values() if str(one.table) == refusal.table), None
    )
    operations = None if every is None else _after_truncates(every)
    if every is None or operations is None or not len(operations):
        return {}
    number = number_dependent_rows(operations)
    refused = _refused_numbers(operations, number, refusal)
    # A unique value may be that of a row which gets another value, or goes, later in the batch. Only
    # if every operation inserts a row of its own, the second row with a value is the refused one.
    if not _only_inserts(operations, number):
        refused = {one: error for one, error in refused.items() if error.numbers != DUPLICATE}
    rows = np.flatnonzero(np.isin(number, list(refused)))
    rows = rows[np.lexsort((operations.order[rows], number[rows]))]
    starts = np.flatnonzero(np.diff(number[rows], prepend=-1))
    parts = np.split(rows, starts[1:]) if len(rows) else []
    # The row of ``part`` is accepted after its first ``accepted`` operations, and refused after
    # ``ends``. If the table was truncated, it may be refused without any of them (0, so -1 is the last
    # number that is known to be good): soft deletes also write the rows from before a TRUNCATE.
    groups = {int(number[part[0]]): part for part in parts}
    accepted = dict.fromkeys(groups, 0 if len(operations) == len(every) else -1)
    ends = {group: len(part) for group, part in groups.items()}
    while True:
        middles = {
            group: (accepted[group] + ends[group]) // 2
            for group in groups
            if ends[group] - accepted[group] > 1
        }
        if not middles:
            break
        left_out = np.concatenate(
            [groups[group][middle:] for group, middle in middles.items()]
            # Rows that are found already would be refused again.
            + [groups[group][max(0, accepted[group]) :] for group in groups if group not in middles]
        )
        numbers = set(operations.order[left_out].tolist())
        kept = {name: one.without(numbers) for name, one in batch.operations.items()}
        part = {name: one for name, one in kept.items() if len(one)}
        error = retry(replace(batch, operations=part)) if part else None
        again: Mapping[int, RowRefusedError] = {}
        if error is not None:
            if not isinstance(error, RowsRefusedError) or error.table != refusal.table:
                return {}
            again = _refused_numbers(operations, number, error)
        for group, middle in middles.items():
            if group in again:
                ends[group], refused[group] = middle, again[group]
            else:
                accepted[group] = middle
    return {
        int(operations.order[part[ends[group] - 1]]): refused[group]
        for group, part in groups.items()
        if ends[group]
    }


def _after_truncates(operations: TargetOperations) -> TargetOperations:
    """Return the operations after the last TRUNCATE of their table. The table's current rows result from these."""
    truncates = operations.order[operations.op_type == TRUNCATE]
    if not len(truncates):
        return operations
    return operations.take(np.flatnonzero(operations.order > truncates.max()))


def _only_inserts(operations: TargetOperations, number: Longs) -> bool:
    """Return whether every operation inserts a row, and no two of them have the same key."""
    return bool((operations.op_type == INSERT).all()) and len(np.unique(number)) == len(number)


def _refused_numbers(
    operations: TargetOperations, number: Longs, refusal: RowsRefusedError
) -> dict[int, RowRefusedError]:
    """Return the error of each rejected row, by the row's number in ``number``.

    ``number`` is the result of ``number_dependent_rows``: operations on the same row have the same
    number. Rows that no operation of the batch writes are skipped.
    """
    rows = refusal.rows
    assert rows is not None
    names = operations.table.key_names or (POSITION,)
    columns = operations.key or (operations.position,)
    both = [
        join_arrays([ours, rows.keys[name].combine_chunks().cast(ours.type)])
        for ours, name in zip(columns, names, strict=True)
    ]
    codes, count = encode_keys(both)
    number_of = np.full(count, -1)
    number_of[codes[: len(operations)]] = number
    errors: dict[int, RowRefusedError] = {}
    for found, error in zip(number_of[codes[len(operations) :]].tolist(), rows.errors, strict=True):
        if found >= 0:
            errors.setdefault(found, error)
    return errors


def find_refused_values(
    batch: SplitOperations, refusal: ValuesRefusedError
) -> dict[int, TrailgateError]:
    """Find the operations whose rows have a value that the target rejects, and return their errors by operation number."""
    errors: dict[int, TrailgateError] = {}
    refused = pa.array(list(refusal.errors), pa.string())
    table, field = (refusal.where.table or "").casefold(), (refusal.where.field or "").casefold()
    for name, operations in batch.operations.items():
        if table not in (name.casefold(), str(operations.table).casefold()):
            continue
        for at, column in enumerate(operations.table.columns):
            if column.name.casefold() != field:
                continue
            # A key column has its values in ``key`` and ``old_key``, other columns in ``values``.
            key_indexes = [index for index, key in enumerate(operations.table.key) if key == at]
            images = [
                one
                for index in key_indexes
                for one in (operations.key[index], operations.old_key[index])
            ]
            written = np.ones(len(operations), bool)
            if not key_indexes and operations.values[at].values is not None:
                # A delete writes no values, except in a table without a key (--mode append), where
                # every operation adds a row. Missing values are not written.
                images = [operations.values[at].values]
                written = (operations.op_type != DELETE) | (not operations.key)
                written &= ~operations.values[at].is_missing(len(operations))
            for values in images:
                if not pa.types.is_string(values.type):
                    continue
                bad = np.asarray(pc.fill_null(pc.is_in(values, refused), False)) & written
                for row in np.flatnonzero(bad).tolist():
                    errors[int(operations.order[row])] = refusal.errors[values[row].as_py()]
    return {number: one for number, one in errors.items() if number not in batch.errors}


def find_middle_transaction(batch: SplitOperations) -> int | None:
    """Return the number of the operation at which a refused batch can be halved between two transactions, or None if it has only one transaction."""
    pairs = [(one.order, one.transaction) for one in batch.operations.values()]
    order = np.concatenate([order for order, _ in pairs])
    sort = np.argsort(order)
    # Rows of all tables in the order of the trail: a new transaction begins where its number changes.
    order, transaction = order[sort], np.concatenate([numbers for _, numbers in pairs])[sort]
    begins = order[1:][np.diff(transaction) != 0]
    return int(begins[len(begins) // 2]) if len(begins) else None


def find_first_refused(
    batch: SplitOperations, refusal: RowRefusedError, retry: Retry
) -> dict[int, TrailgateError]:
    """Find the first operation of a batch with which the target rejects a row, by binary search.

    Returns its number and error. If the target accepts all operations (and rejected the batch only
    at the commit), returns all of them with the error ``refusal``.
    """
    batch_numbers = {number for one in batch.operations.values() for number in one.order.tolist()}
    numbers = sorted(batch_numbers - batch.errors.keys())
    # Binary search. The target accepts the first ``fits`` operations and refuses the first
    # ``fails``. len(numbers) + 1 stands for the commit after the last operation.
    fits, fails = 0, len(numbers) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        end = numbers[middle - 1] + 1
        part = batch.between(0, end)
        error = None if part is None else retry(part)
        if error is None:
            fits = middle
        else:
            fails, refusal = middle, error
    chosen = numbers if fails > len(numbers) else [numbers[fails - 1]]
    return dict.fromkeys(chosen, refusal)


def locate_refusal(batch: SplitOperations, number: int, error: TrailgateError) -> TrailgateError:
    """Add the position, table and key of the operation to the error of a row that the target rejects."""
    for operations in batch.operations.values():
        for row in np.flatnonzero(operations.order == number).tolist():
            key = (
                f"{NAMES.get(int(operations.op_type[row]), 'operation')} of {operations.shown_key(row)}: "
                if operations.key
                else ""
            )
            where = replace(
                error.where, source=operations.shown_position(row), table=str(operations.table)
            )
            hint, numbers = error.hint, error.numbers
            placed = type(error)(f"{key}{error.problem}", where=where, hint=hint)
            return placed.with_numbers(numbers)
    return error
