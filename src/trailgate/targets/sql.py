"""The statements that write effects to a table of a database, from a staging table beside it.

The staging table has the columns ``c0``, ``c1``, ... of the values, ``m1``, ... which mark those that keep what the table has, and ``e`` for the effect. Names are always quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from trailgate.apply.batch import Closing, Effects
from trailgate.apply.nets import Effect
from trailgate.apply.tables import TargetTable
from trailgate.errors import ApplyError, Where

CHECKPOINT = "trailgate_checkpoint"
POSITION_COLUMNS = ("trail", "position", "csn", "op_ts", "digest", "reached")  # of Position
ADDED_COLUMNS = ("digest", "reached")  # that a table of an earlier version lacks


def quoted(*parts: str) -> str:
    """Return a name of parts as SQL has it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def staging_rows(effects: Effects) -> pa.Table:
    """Return effects as the rows of a staging table: a row that is replaced is updated in all columns where it is there, and else inserted."""
    nets = effects.nets
    columns: dict[str, pa.Array] = {}
    rows = len(nets)
    patched = nets.effect == Effect.PATCH
    replaced = nets.effect == Effect.REPLACE
    there = nets.expected & (not effects.emptied)
    kinds = np.where(replaced, np.where(there, Effect.PATCH, Effect.INSERT), nets.effect)
    for at, (column, one) in enumerate(zip(nets.table.columns, nets.values, strict=True)):
        columns[f"c{at}"] = pa.nulls(rows, column.type) if one.values is None else one.values
        columns[f"m{at}"] = pa.array(one.is_missing(rows) & patched)
    for at, key in zip(nets.table.key, nets.key, strict=True):
        columns[f"c{at}"] = key
        columns[f"m{at}"] = pa.array(np.zeros(rows, bool))
    return pa.table({**columns, "e": pa.array(kinds.astype(np.int32))})


def statements(effects: Effects, rows: pa.Table, staging: str) -> list[tuple[str, int]]:
    """Return statements that write the rows of a staging table, each with the number of rows that it has to change, -1 for any."""
    table = effects.nets.table
    name, same = quoted(*table.name), match(table, "t", "s")
    kinds = np.bincount(rows["e"].to_numpy(), minlength=len(Effect))
    names = [quoted(column.name) for column in table.columns]
    values = ", ".join(
        f"{names[at]} = CASE WHEN s.m{at} THEN t.{names[at]} ELSE s.c{at} END"
        for at in range(len(names))
        if at not in table.key
    )
    own = ", ".join(f"s.c{at}" for at in range(len(names)))
    every = {
        Effect.DELETE: f"DELETE FROM {name} AS t USING {staging} AS s WHERE s.e = {Effect.DELETE:d} AND {same}",
        Effect.PATCH: f"UPDATE {name} AS t SET {values} FROM {staging} AS s WHERE s.e = {Effect.PATCH:d} AND {same}",
        Effect.INSERT: f"INSERT INTO {name} ({', '.join(names)}) SELECT {own} FROM {staging} AS s WHERE s.e = {Effect.INSERT:d}",
    }
    if not values:
        del every[Effect.PATCH]  # all columns are the key: an update changes nothing
    needed = [(text, int(kinds[effect])) for effect, text in every.items() if kinds[effect]]
    return [(f"DELETE FROM {name}", -1), *needed] if effects.emptied else needed


def replacing_statements(
    effects: Effects, rows: pa.Table, staging: str, whole: str
) -> list[tuple[str, int]]:
    """Return such statements for a database that deletes and inserts rows faster than it updates columns: rows are made ``whole`` in a temporary table first."""
    table = effects.nets.table
    name, same = quoted(*table.name), match(table, "t", "s") or "false"
    kinds = np.bincount(rows["e"].to_numpy(), minlength=len(Effect))
    deleted, patched, inserted = (
        int(kinds[one]) for one in (Effect.DELETE, Effect.PATCH, Effect.INSERT)
    )
    names = [quoted(column.name) for column in table.columns]
    values = ", ".join(
        f"s.c{at}" if at in table.key else f"CASE WHEN s.m{at} THEN t.{one} ELSE s.c{at} END"
        for at, one in enumerate(names)
    )
    joined = f"{staging} AS s LEFT JOIN {name} AS t ON s.e = {Effect.PATCH:d} AND {same}"
    every = [
        (
            f"CREATE OR REPLACE TEMP TABLE {whole} AS SELECT {values} FROM {joined} WHERE s.e <> {Effect.DELETE:d}",
            patched + inserted,
        ),
        (
            f"DELETE FROM {name} AS t USING {staging} AS s WHERE s.e <> {Effect.INSERT:d} AND {same}",
            deleted + patched,
        ),
        (f"INSERT INTO {name} ({', '.join(names)}) SELECT * FROM {whole}", patched + inserted),
    ]
    needed = [one for one in every if one[1]]
    return [(f"DELETE FROM {name}", -1), *needed] if effects.emptied else needed


def closing_statement(effects: Effects) -> str | None:
    """Return the statement that gives values to the rows that a step closes; None where it closes none."""
    closing = effects.closing
    if closing is None:
        return None
    values = ", ".join(f"{quoted(name)} = {literal(one)}" for name, one in closing.values.items())
    return f"UPDATE {quoted(*effects.nets.table.name)} SET {values} WHERE {is_open(closing)}"


def is_open(closing: Closing) -> str:
    """Return the condition of the rows that are closed."""
    return f"{quoted(closing.column)} IS {'TRUE' if closing.when else 'NOT TRUE'}"


def literal(value: pa.Scalar) -> str:
    """Return a boolean, a time or a text as SQL has it."""
    if pa.types.is_boolean(value.type):
        return str(value.as_py()).lower()
    text = str(value.as_py()).replace("'", "''")
    return f"TIMESTAMP '{text}'" if pa.types.is_timestamp(value.type) else f"'{text}'"


def changed_meanwhile(table: TargetTable, expected: int, changed: int) -> ApplyError:
    """Return the error of a statement that changed another number of rows than the effects have."""
    return ApplyError(
        f"{changed} rows changed where {expected} should have",
        where=Where(table=str(table)),
        hint="Somebody else changes the table, or its key's columns have equal values in several rows",
    )


def match(table: TargetTable, left: str, right: str, quote: Callable[[str], str] = quoted) -> str:
    """Return the condition that a row of the table and one of staging have the same key."""
    equal = "IS NOT DISTINCT FROM" if table.keyless else "="
    # DataFusion takes AND for the narrower one where there are no parentheses.
    return " AND ".join(
        f"({left}.{quote(table.columns[at].name)} {equal} {right}.c{at})" for at in table.key
    )


def selection(table: TargetTable, staging: str, *, keys_alone: bool) -> str:
    """Return the statement that gives the rows whose keys are in a staging table."""
    columns = [table.columns[at] for at in table.key] if keys_alone else table.columns
    names = ", ".join(f"t.{quoted(column.name)}" for column in columns)
    return f"SELECT {names} FROM {quoted(*table.name)} AS t JOIN {staging} AS s ON {match(table, 't', 's')}"


def key_columns(table: TargetTable, keys: pa.Table) -> pa.Table:
    """Return keys under the names that staging tables have."""
    return keys.rename_columns([f"c{at}" for at in table.key])


def comparison(
    expected: str, actual: str, names: Sequence[str], key: Sequence[str], most: int
) -> tuple[str, str]:
    """Return statements that compare two tables by key: one counts the rows of each kind, one gives the first rows that differ.

    The kinds are equal, missing, surplus and different. A row of the second has its kind and then each column twice, as expected and as it is.
    """
    same = {one: f"e.{quoted(one)} IS NOT DISTINCT FROM a.{quoted(one)}" for one in names}
    joined = (
        f"(SELECT *, true AS here FROM {expected}) AS e FULL OUTER JOIN (SELECT *, true AS here FROM {actual}) AS a "
        f"ON {' AND '.join(same[one] for one in key)}"
    )
    kind = (
        "CASE WHEN a.here IS NULL THEN 'missing' WHEN e.here IS NULL THEN 'surplus' "
        f"WHEN {' AND '.join(same.values())} THEN 'equal' ELSE 'different' END"
    )
    columns = ", ".join(f"e.{quoted(one)}, a.{quoted(one)}" for one in names)
    order = ", ".join(f"coalesce(e.{quoted(one)}, a.{quoted(one)})" for one in key)
    return (
        f"SELECT {kind}, count(*) FROM {joined} GROUP BY 1",
        f"SELECT {kind} AS kind, {columns} FROM {joined} WHERE {kind} <> 'equal' ORDER BY {order} LIMIT {most:d}",
    )
