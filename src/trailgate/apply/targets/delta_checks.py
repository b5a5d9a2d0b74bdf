"""Find the rows of changes that a Delta table cannot hold, before any table of the batch is written.

Four kinds of rules can refuse a row: NOT NULL, partitions (the log stores their values as text),
CHECK constraints and invariants. The first two are masks over the changed columns. The others are
SQL, which delta-rs evaluates. So it writes the rows to a temporary table that has the same columns
without the rules, and computes generated columns there. Then it reads the rows that break a rule::

    row  id  v      a rule: v <> 'bad'
    0    1   'ok'
    1    2   'bad'  SELECT row WHERE (v <> 'bad') IS NOT TRUE

Only tables with such rules need this, and only for them the rows to be patched are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema, write_deltalake

from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.operation_errors import CHECK, NULL
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.targets.delta_errors import APPEND_HINT, CHANGES_REFUSED, call_delta
from trailgate.apply.targets.delta_properties import COMPUTED, find_computed_columns
from trailgate.apply.targets.lake_rows import (
    NOT_NULL,
    NULL_HINT,
    PARTITIONS,
    UnfitRows,
    get_written_column,
)
from trailgate.apply.targets.target import RowRefusedError
from trailgate.arrays import Longs
from trailgate.columnar.rows import BadRowIsolation
from trailgate.errors import ApplyError, Where

# Partition values that Delta's readers take for NULL.
READ_AS_NULL: Final = {
    "": "an empty string",
    "__HIVE_DEFAULT_PARTITION__": "the text __HIVE_DEFAULT_PARTITION__",
}
WOULD_BECOME_NULL: Final = "column {} is a partition column, in which {} would become NULL"
CONSTRAINT: Final = "delta.constraints."
INVARIANT: Final = "delta.invariants"
APPEND_ONLY: Final = "delta.appendOnly"
RULE_HINT: Final = "Change the constraint, exclude the table with --tables, or discard such operations with --on-error discard"
ROW: Final = "_trailgate_row"  # of the temporary table: the number of a row


class RowRule(NamedTuple):
    """A SQL condition that must be true for each row of a Delta table, and the error of a row for which it is not."""

    condition: str
    error: RowRefusedError


def check_append_only(path: str, table: DeltaTable, effects: TableChanges) -> None:
    """Raise ApplyError if changes update or delete rows of a Delta table that is append-only."""
    nets = effects.nets
    removes = (nets.effect != RowEffect.INSERT) & (nets.expected | (nets.effect == RowEffect.PATCH))
    changes = bool(removes.any()) or effects.emptied or effects.closing is not None
    if changes and table.metadata().configuration.get(APPEND_ONLY) == "true":
        raise ApplyError(CHANGES_REFUSED, where=Where(source=path), hint=APPEND_HINT)


def add_nulls(unfit: UnfitRows, table: DeltaTable, effects: TableChanges) -> None:
    """Add the rows in which changes write NULL to a NOT NULL column of a Delta table."""
    required = {field.name for field in table.schema().fields if not field.nullable}
    for at, column in enumerate(effects.nets.table.columns):
        if column.name in required and not column.computed:
            unfit.add_nulls(at)


def add_partitions(unfit: UnfitRows, path: str, table: DeltaTable, effects: TableChanges) -> None:
    """Add the rows whose partition values delta-rs cannot write, or readers take for NULL.

    Raises ApplyError for a partition column of a type that delta-rs writes incorrectly.
    """
    nets = effects.nets
    names = set(table.metadata().partition_columns)
    for at, column in enumerate(nets.table.columns):
        if column.name not in names or column.computed or not len(nets):
            continue
        kind, where = column.type, Where(field=column.name)
        if pa.types.is_binary(kind) or pa.types.is_floating(kind) or _has_fraction(kind):
            problem = (
                f"delta-rs cannot write partitions of {kind}, the type of column {column.name}"
            )
            raise ApplyError(problem, where=where, hint=PARTITIONS).with_place(source=path)
        if not pa.types.is_string(kind):
            continue
        values, written = get_written_column(nets, at)
        for text, shown in READ_AS_NULL.items():
            is_bad = np.asarray(pc.fill_null(pc.equal(values, text), False))
            problem = WOULD_BECOME_NULL.format(column.name, shown)
            error = RowRefusedError(problem, where=where, hint=PARTITIONS)
            unfit.add(np.flatnonzero(is_bad & written), error)
        if "://" not in path:
            unfit.add_long_partitions(at, column.name, values)


def _has_fraction(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(data_type) and data_type.scale)


def list_row_rules(table: DeltaTable) -> list[RowRule]:
    """Return the rules of a Delta table that are SQL: CHECK constraints, invariants, and what its generated columns must satisfy."""
    rules = []
    for name, condition in table.metadata().configuration.items():
        if name.startswith(CONSTRAINT):
            shown = name.removeprefix(CONSTRAINT)
            problem = f"the table's CHECK constraint {shown} refuses the row: {condition}"
            rules.append(_build_rule(condition, problem))
    fields = json.loads(table.schema().to_json())["fields"]
    for name, condition in _list_invariants(fields):
        problem = f"the invariant of the table's column {name} refuses the row: {condition}"
        rules.append(_build_rule(condition, problem))
    computed, parts = find_computed_columns(table), set(table.metadata().partition_columns)
    for field in fields:
        name = field["name"]
        quoted = "`" + name.replace("`", "``") + "`"
        if name in computed and not field["nullable"]:
            error = RowRefusedError(NOT_NULL.format(name), hint=NULL_HINT).with_numbers(NULL)
            rules.append(RowRule(f"{quoted} IS NOT NULL", error))
        if name in computed and name in parts and field["type"] == "string":
            for text, shown in READ_AS_NULL.items():
                error = RowRefusedError(WOULD_BECOME_NULL.format(name, shown), hint=PARTITIONS)
                rules.append(RowRule(f"{quoted} IS NULL OR {quoted} <> '{text}'", error))
    return rules


def _build_rule(condition: str, problem: str) -> RowRule:
    return RowRule(condition, RowRefusedError(problem, hint=RULE_HINT).with_numbers(CHECK))


def _list_invariants(fields: Sequence[Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the condition of each column with an invariant, also within structs."""
    for field in fields:
        name = above + field["name"]
        stored = field["metadata"].get(INVARIANT)
        if stored is not None:
            yield name, json.loads(stored)["expression"]["expression"]
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _list_invariants(field["type"]["fields"], f"{name}.")


def find_rule_breaks(
    path: str, table: DeltaTable, rows: pa.Table, rules: Sequence[RowRule]
) -> Iterator[tuple[Longs, RowRefusedError]]:
    """Yield the indexes of the rows that break a rule of a Delta table, with the error, for each rule.

    A row for which delta-rs cannot evaluate a rule, such as a cast of 'x' to a number, breaks it.
    Raises ApplyError if a rule cannot be evaluated at all: delta-rs cannot write the table then.
    """
    fields = json.loads(table.schema().to_json())["fields"]
    number = _find_free_name(fields)
    schema = _without_rules(fields, number)
    isolation = BadRowIsolation(rows.num_rows)
    for part in isolation:
        with isolation:
            # Complete before the first one is yielded: if it fails, the part is tried in halves.
            slice_ = rows.slice(part.start, len(part))
            breaks = list(_evaluate_rules(path, schema, slice_, rules, number))
            yield from ((found + part.start, error) for found, error in breaks)
    if not isolation.errors:
        return
    for _ in _evaluate_rules(path, schema, rows[:0], rules, number):
        pass
    for row, error in isolation.errors.items():
        if not isinstance(error, ApplyError):
            raise error
        yield np.array([row]), RowRefusedError(error.problem, hint=RULE_HINT).with_numbers(CHECK)


def _evaluate_rules(
    path: str, schema: Schema, rows: pa.Table, rules: Sequence[RowRule], number: str
) -> Iterator[tuple[Longs, RowRefusedError]]:
    """Yield the indexes of the rows that break a rule. ``number`` is the column of the schema for these indexes."""
    with TemporaryDirectory(prefix="trailgate") as folder:
        numbered = rows.append_column(number, pa.array(np.arange(rows.num_rows)))

        def write() -> DeltaTable:
            scratch = DeltaTable.create(folder, schema)
            write_deltalake(scratch, numbered, mode="append")
            return DeltaTable(folder)

        scratch = call_delta(path, write)
        for rule in rules:
            # The newline ends a comment in the condition.
            broken = f"({rule.condition}\n) IS NOT TRUE"
            found = call_delta(path, partial(_read_numbers, scratch, number, broken))
            yield np.sort(found), rule.error


def _read_numbers(scratch: DeltaTable, name: str, condition: str) -> Longs:
    numbers: Longs = pa.table(scratch.scan([name], condition))[name].to_numpy()
    return numbers


def _find_free_name(fields: Sequence[Any]) -> str:
    """Return ``ROW``, or a longer name if a column has that one in any case."""
    names, free = {one["name"].casefold() for one in fields}, ROW
    while free in names:
        free += "_"
    return free


def _without_rules(fields: Sequence[Any], number: str) -> Schema:
    """Return the schema of a Delta table with these columns, without rules, but with generated columns, and with a column for the numbers of rows."""
    added = {"name": number, "type": "long", "nullable": True, "metadata": {}}
    plain = [*map(_allow_all, fields), added]
    return Schema.from_json(json.dumps({"type": "struct", "fields": plain}))


def _allow_all(kind: Any) -> Any:
    """Return a type or a column of a schema in JSON without what refuses values, in all its parts."""
    if isinstance(kind, list):
        return [_allow_all(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    changed: dict[str, Any] = {name: _allow_all(one) for name, one in kind.items()}
    for name in ("nullable", "containsNull", "valueContainsNull"):
        if name in kind:
            changed[name] = True
    if "metadata" in kind:
        stored = kind["metadata"].items()
        changed["metadata"] = {name: one for name, one in stored if name.startswith(COMPUTED)}
    return changed
