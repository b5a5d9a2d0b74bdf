"""The statements that write effects to a table of a database, from a staging table beside it.

The staging table has the columns ``c0``, ``c1``, ... of the values, ``m1``, ... which mark those that keep what the table has, and ``e`` for the effect. Names are always quoted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.batch import ClosingUpdate, TableChanges
from trailgate.apply.effects.determined import EXISTS_FLAG, known_flag_name
from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.stored_types import StorageRule, spell_stored_values
from trailgate.apply.effects.tables import KEYLESS_HINT, TargetColumn, TargetTable
from trailgate.apply.targets.target import RowRefusedError, ValuesRefusedError
from trailgate.arrays import Mask
from trailgate.errors import ApplyError, DefinitionError, Where

CHECKPOINT = "trailgate_checkpoint"
MOST_REFUSED: Final = 10_000  # values that one statement finds
MOST_EXTRA: Final = 62  # bits of a number, without the sign
KNOWN_COLUMNS: Final = f"SELECT known_columns FROM {CHECKPOINT} WHERE grp = {{}} AND target = {{}}"
DROPPED_HINT: Final = "Restore the column with its values, or add it yourself if they may be NULL; COLMAP of a parameter file leaves it out"
KEY_HINT: Final = "Make it a column of another type, or name other columns as the key: KEYCOLS of a parameter file"
POSITION_COLUMNS = ("trail", "position", "csn", "op_ts", "digest", "reached")  # of Position
ADDED_COLUMNS = ("digest", "reached", "known_columns")  # that a table of an earlier version lacks


def quoted(*parts: str) -> str:
    """Return a name of parts as SQL has it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def staging_rows(effects: TableChanges, *, defaults: bool = False) -> pa.Table:
    """Return effects as the rows of a staging table: a row that is replaced is updated in all columns if it exists, and else inserted.

    The update leaves the columns alone that the source lacks. With ``defaults`` such a row keeps its effect, so that these columns can get their defaults, and the column ``x`` has a
    bit for each of them that has no value: bit 0 for the first of ``extra_columns``, and so on.
    """
    nets = effects.nets
    columns: dict[str, pa.Array] = {}
    rows = len(nets)
    patched = nets.effect == RowEffect.PATCH
    replaced = nets.effect == RowEffect.REPLACE
    there = nets.expected & (not effects.emptied)
    extra = extra_columns(nets.table) if defaults else []
    kinds = np.where(
        replaced,
        np.where(there, RowEffect.REPLACE if extra else RowEffect.PATCH, RowEffect.INSERT),
        nets.effect,
    )
    for at, (column, one) in enumerate(zip(nets.table.columns, nets.values, strict=True)):
        columns[f"c{at}"] = pa.nulls(rows, column.type) if one.values is None else one.values
        columns[f"m{at}"] = pa.array(one.is_missing(rows) & (patched | column.extra))
    for at, key in zip(nets.table.key, nets.key, strict=True):
        columns[f"c{at}"] = key
        columns[f"m{at}"] = pa.array(np.zeros(rows, bool))
    if extra:
        bits = np.zeros(rows, np.int64)
        for bit, at in enumerate(extra):
            bits |= nets.values[at].is_missing(rows).astype(np.int64) << bit
        columns["x"] = pa.array(np.where(patched, 0, bits))
    return pa.table({**columns, "e": pa.array(kinds.astype(np.int32))})


def extra_columns(table: TargetTable) -> list[int]:
    """Return the indexes of the columns that the source lacks and the target takes values for; as many as a number has bits."""
    found = [at for at, one in enumerate(table.columns) if one.extra and not one.computed]
    return found[:MOST_EXTRA]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database takes and gives values of types that Arrow lacks.

    Columns of ``staged`` rules are text in a staging table and cast from there; those of ``read`` rules are read as text, by the expression ``printed``. ``override`` is what INSERT has before
    its values. ``cast`` is the function that casts a value that is only checked: where the database has one that gives NULL and no error, one statement finds all values that it refuses.
    """

    staged: frozenset[StorageRule]
    read: frozenset[StorageRule]
    printed: str
    override: str = ""
    cast: str = "CAST"

    def value(self, table: TargetTable, at: int, cast: str = "CAST") -> str:
        """Return a column's value in the staging table ``s``, in the type that the table has."""
        stored = table.columns[at].stored
        if stored is None or stored.rule not in self.staged:
            return f"s.c{at}"
        return f"{cast}(s.c{at} AS {stored.name})"

    def select_list(self, columns: Sequence[TargetColumn]) -> str:
        """Return the columns of the table ``t`` in their Arrow types."""
        found = []
        for column in columns:
            name = quoted(column.name)
            is_read = column.stored is not None and column.stored.rule in self.read
            own = self.printed.format(f"t.{name}") if is_read else f"t.{name}"
            found.append(f"{own} AS {name}")
        return ", ".join(found)

    def match(self, table: TargetTable) -> str:
        """Return the condition that a row of the table ``t`` and one of the staging table ``s`` have the same key."""
        equal = "IS NOT DISTINCT FROM" if table.keyless else "="
        return " AND ".join(
            f"(t.{quoted(table.columns[at].name)} {equal} {self.value(table, at)})"
            for at in table.key
        )

    def selection(self, table: TargetTable, staging: str, *, keys_alone: bool) -> str:
        """Return the statement that gives the rows whose keys are in a staging table."""
        columns = [table.columns[at] for at in table.key] if keys_alone else table.columns
        names, same = self.select_list(columns), self.match(table)
        return f"SELECT {names} FROM {quoted(*table.name)} AS t JOIN {staging} AS s ON {same}"

    def printed_values(
        self, table: TargetTable, staging: str, columns: Iterable[int]
    ) -> Iterator[tuple[TargetColumn, str]]:
        """Yield statements that find staged values which the database prints in another way, and the column of each."""
        for at in columns:
            stored = table.columns[at].stored
            if stored is not None and stored.is_printed:
                back = self.printed.format(self.value(table, at, self.cast))
                differs = f"s.c{at} IS DISTINCT FROM {back}"
                yield (
                    table.columns[at],
                    f"SELECT DISTINCT s.c{at}, {back} FROM {staging} AS s WHERE {differs} LIMIT {MOST_REFUSED}",
                )

    def computed_values(
        self, table: TargetTable, staging: str
    ) -> Iterator[tuple[TargetColumn, str]]:
        """Yield statements that find a row in which the database computed another value than the trail has, and the column of each."""
        name, same = quoted(*table.name), self.match(table)
        for at, column in enumerate(table.columns):
            if at in table.key or column.extra or not (column.computed or column.on_insert):
                continue
            own, theirs = self.value(table, at), f"t.{quoted(column.name)}"
            rows = f"{name} AS t JOIN {staging} AS s ON {same}"
            differs = (
                f"s.e <> {RowEffect.DELETE:d} AND NOT s.m{at} AND {theirs} IS DISTINCT FROM {own}"
            )
            yield column, f"SELECT {own}, {theirs} FROM {rows} WHERE {differs} LIMIT 1"

    def stored_values(self, table: TargetTable, staging: str) -> tuple[list[TargetColumn], str]:
        """Return some columns, and the statement that gives their values in the first row whose stored values are not the staged ones, each as staged and as stored.

        If the row has no staged key any more, all values that are stored are NULL, and the last one of the row is false.
        """
        columns, pairs, differs = [], [], []
        for at, column in enumerate(table.columns):
            if at in table.key or column.extra:
                continue
            own = self.printed.format(self.value(table, at))
            theirs = self.printed.format(f"t.{quoted(column.name)}")
            own = f"CASE WHEN s.m{at} THEN {theirs} ELSE {own} END"
            columns.append(column)
            pairs += [own, theirs]
            differs.append(f"{own} IS DISTINCT FROM {theirs}")
        there = f"t.{quoted(table.columns[table.key[0]].name)} IS NOT NULL"
        if table.keyless:
            there = "true"
        rows = f"{staging} AS s LEFT JOIN {quoted(*table.name)} AS t ON {self.match(table)}"
        wrong = " OR ".join([f"NOT ({there})", *differs])
        selected = ", ".join([*pairs, there])
        return (
            columns,
            f"SELECT {selected} FROM {rows} WHERE s.e <> {RowEffect.DELETE:d} AND ({wrong}) LIMIT 1",
        )


def statements(
    effects: TableChanges, rows: pa.Table, staging: str, dialect: Dialect
) -> list[tuple[str, int]]:
    """Return statements that write the rows of a staging table, each with the number of rows that it has to change, -1 for any."""
    table = effects.nets.table
    name, same = quoted(*table.name), dialect.match(table)
    effect = rows["e"].to_numpy()
    deleted = int((effect == RowEffect.DELETE).sum())
    updated = int(np.isin(effect, (RowEffect.PATCH, RowEffect.REPLACE)).sum())
    found = [(f"DELETE FROM {name}", -1)] if effects.emptied else []
    if deleted:
        is_one = f"s.e = {RowEffect.DELETE:d} AND {same}"
        found.append((f"DELETE FROM {name} AS t USING {staging} AS s WHERE {is_one}", deleted))
    values = _updated_values(effects, dialect)
    is_one = f"s.e IN ({RowEffect.PATCH:d}, {RowEffect.REPLACE:d}) AND {same}"
    if updated and values:
        text = f"UPDATE {name} AS t SET {values} FROM {staging} AS s WHERE {is_one}"
        found.append((text, updated))
    for bits, count in _patterns(rows, effect == RowEffect.REPLACE):
        lacking = _lacking(table, bits)
        if lacking:
            values = ", ".join(f"{quoted(table.columns[at].name)} = DEFAULT" for at in lacking)
            is_one = f"s.e = {RowEffect.REPLACE:d} AND s.x = {bits:d} AND {same}"
            text = f"UPDATE {name} AS t SET {values} FROM {staging} AS s WHERE {is_one}"
            found.append((text, count))
    for bits, count in _patterns(rows, effect == RowEffect.INSERT):
        own = _inserted(table, bits)
        values = ", ".join(dialect.value(table, at) for at in own)
        is_one = f"s.e = {RowEffect.INSERT:d}" + (
            f" AND s.x = {bits:d}" if "x" in rows.column_names else ""
        )
        found.append(
            (_insertion(table, own, f"{values} FROM {staging} AS s WHERE {is_one}", dialect), count)
        )
    return found


def _updated_values(effects: TableChanges, dialect: Dialect) -> str:
    """Return the assignments of an update: columns of which no row has a value are left alone if the source lacks them."""
    table, found = effects.nets.table, []
    for at, (column, one) in enumerate(zip(table.columns, effects.nets.values, strict=True)):
        if at in table.key or column.computed or column.on_insert:
            continue
        if column.extra and one.values is None:
            continue
        name = quoted(column.name)
        found.append(
            f"{name} = CASE WHEN s.m{at} THEN t.{name} ELSE {dialect.value(table, at)} END"
        )
    if not found:
        # All columns are the key. The rows are counted nevertheless: two of them may be equal.
        names = [quoted(one.name) for one in table.columns if not (one.computed or one.on_insert)]
        found = [f"{name} = t.{name}" for name in names[:1]]
    return ", ".join(found)


def _patterns(rows: pa.Table, chosen: Mask) -> list[tuple[int, int]]:
    """Return the different values of ``x`` in chosen rows, each with the number of rows that have it."""
    if not chosen.any():
        return []
    if "x" not in rows.column_names:
        return [(0, int(chosen.sum()))]
    bits, counts = np.unique(rows["x"].to_numpy()[chosen], return_counts=True)
    return list(zip(bits.tolist(), counts.tolist(), strict=True))


def _lacking(table: TargetTable, bits: int) -> list[int]:
    """Return the indexes of the columns that have no value in rows with these bits."""
    return [at for bit, at in enumerate(extra_columns(table)) if bits >> bit & 1]


def _inserted(table: TargetTable, bits: int) -> list[int]:
    """Return the indexes of the columns that rows with these bits are inserted with; the others get their defaults."""
    lacking = _lacking(table, bits)
    return [at for at, one in enumerate(table.columns) if not one.computed and at not in lacking]


def _insertion(table: TargetTable, columns: Sequence[int], selected: str, dialect: Dialect) -> str:
    names = ", ".join(quoted(table.columns[at].name) for at in columns)
    return f"INSERT INTO {quoted(*table.name)} ({names}){dialect.override} SELECT {selected}"


def replacing_statements(
    effects: TableChanges, rows: pa.Table, staging: str, whole: str, dialect: Dialect
) -> list[tuple[str, int]]:
    """Return such statements for a database that deletes and inserts rows faster than it updates columns: rows are made ``whole`` in a temporary table first."""
    table = effects.nets.table
    name, same = quoted(*table.name), dialect.match(table) or "false"
    effect = rows["e"].to_numpy()
    deleted, inserted = (int((effect == one).sum()) for one in (RowEffect.DELETE, RowEffect.INSERT))
    updated = len(effect) - deleted - inserted
    marked = "x" in rows.column_names
    values = ", ".join(
        f"{dialect.value(table, at)} AS v{at}"
        if at in table.key
        else f"CASE WHEN s.m{at} THEN t.{quoted(one.name)} ELSE {dialect.value(table, at)} END AS v{at}"
        for at, one in enumerate(table.columns)
    )
    values += ", s.x AS x" if marked else ""
    joined = f"{staging} AS s LEFT JOIN {name} AS t ON s.e = {RowEffect.PATCH:d} AND {same}"
    every = [
        (
            f"CREATE OR REPLACE TEMP TABLE {whole} AS SELECT {values} FROM {joined} WHERE s.e <> {RowEffect.DELETE:d}",
            updated + inserted,
        ),
        (
            f"DELETE FROM {name} AS t USING {staging} AS s WHERE s.e <> {RowEffect.INSERT:d} AND {same}",
            deleted + updated,
        ),
    ]
    for bits, count in _patterns(rows, effect != RowEffect.DELETE):
        own = _inserted(table, bits)
        selected = ", ".join(f"v{at}" for at in own) + f" FROM {whole}"
        selected += f" WHERE x = {bits:d}" if marked else ""
        every.append((_insertion(table, own, selected, dialect), count))
    needed = [one for one in every if one[1]]
    return [(f"DELETE FROM {name}", -1), *needed] if effects.emptied else needed


def closing_statement(effects: TableChanges) -> str | None:
    """Return the statement that gives values to the rows that a step closes; None where it closes none."""
    closing = effects.closing
    if closing is None:
        return None
    values = ", ".join(f"{quoted(name)} = {literal(one)}" for name, one in closing.values.items())
    return f"UPDATE {quoted(*effects.nets.table.name)} SET {values} WHERE {is_open(closing)}"


def is_open(closing: ClosingUpdate) -> str:
    """Return the condition of the rows that are closed."""
    return f"{quoted(closing.column)} IS {'TRUE' if closing.when else 'NOT TRUE'}"


def literal(value: pa.Scalar) -> str:
    """Return a boolean, a time or a text as SQL has it."""
    if pa.types.is_boolean(value.type):
        return str(value.as_py()).lower()
    text = str(value.as_py()).replace("'", "''")
    return f"TIMESTAMP '{text}'" if pa.types.is_timestamp(value.type) else f"'{text}'"


def not_a_table(what: str, name: str) -> DefinitionError:
    """Return the error of a view, or something else with rows, that has a table's name."""
    problem = f"the target has {what} of this name, and changes are applied to tables"
    return DefinitionError(problem, where=Where(table=name), hint="MAP the table to another name")


def known_columns(table: TargetTable | None) -> str | None:
    """Return the names of the columns that are applied to a table, as the checkpoint keeps them."""
    if table is None:
        return None
    return json.dumps([one.name for one in table.columns if not one.extra])


def check_known_columns(wanted: TargetTable, held: TargetTable, known: str | None) -> TargetTable:
    """Return a table of the target. Raises DefinitionError if it lacks a column that was applied to it before: added again it would be NULL in all rows."""
    own = {one.name.casefold() for one in held.columns}
    asked = {one.name.casefold() for one in wanted.columns}
    gone = [
        name
        for name in json.loads(known or "[]")
        if name.casefold() in asked and name.casefold() not in own
    ]
    if gone:
        problem = "the target's table had this column when it was applied to last, and somebody has dropped it"
        raise DefinitionError(
            problem, where=Where(table=str(held), field=gone[0]), hint=DROPPED_HINT
        )
    return held


def check_key_types(table: TargetTable) -> TargetTable:
    """Return a table; raises DefinitionError if different values of a key's column can be equal in the database."""
    for at in table.key:
        stored = table.columns[at].stored
        if stored is not None and not stored.is_key:
            problem = f"a column of {stored.name} cannot be part of a key: values that differ in the trail can be equal in it"
            where = Where(table=str(table), field=table.columns[at].name)
            raise DefinitionError(problem, where=where, hint=KEY_HINT)
    return table


def spelled_keys(table: TargetTable, rows: pa.Table) -> pa.Table:
    """Return rows whose key columns have the spelling in which keys are compared."""
    for at in table.key:
        column = table.columns[at]
        if column.stored is not None:
            place = rows.column_names.index(column.name)
            own = spell_stored_values(rows[column.name].combine_chunks(), column.stored)
            rows = rows.set_column(place, column.name, own)
    return rows


@contextmanager
def refusing_values(column: TargetColumn) -> Iterator[None]:
    """Raise RowRefusedError for any error of a statement that casts staged values alone: databases have more classes for them than one."""
    try:
        yield
    except ApplyError as error:
        made = RowRefusedError(error.problem, where=error.where, hint=error.hint)
        raise made.with_place(field=column.name).numbered(error.numbers) from None


def refused_values(
    table: TargetTable, column: TargetColumn, rows: Iterable[tuple[Any, Any]]
) -> ValuesRefusedError:
    """Return the error of values that the database makes other ones, or, where these are None, does not take."""
    assert column.stored is not None
    errors: dict[str, RowRefusedError] = {}
    for own, theirs in rows:
        one = changed_value(table, column, own, theirs)
        if theirs is None:
            one.problem = f"the trail has {own!r}, which is not a value of the target's column of {column.stored.name}"
        errors[own] = RowRefusedError(one.problem, where=one.where)
    first = next(iter(errors.values()))
    found = ValuesRefusedError(first.problem, where=first.where)
    found.errors = errors
    return found


def changed_value(
    table: TargetTable, column: TargetColumn, own: Any, theirs: Any
) -> RowRefusedError:
    """Return the error of a value that the database makes another one."""
    kind = "computes" if column.stored is None else f"of {column.stored.name} has"
    problem = f"the trail has {own!r}, for which the target's column {kind} {theirs!r}"
    return RowRefusedError(problem, where=Where(table=str(table), field=column.name))


def changed_meanwhile(table: TargetTable, expected: int, changed: int) -> ApplyError:
    """Return the error of a statement that changed another number of rows than the effects have."""
    hint = "Somebody else changes the table, or its key's columns have equal values in several rows"
    if table.keyless:
        hint = f"The table has no key, and no statement can change one of several rows that are equal in all columns: {KEYLESS_HINT}"
    return ApplyError(
        f"{changed} rows changed where {expected} should have",
        where=Where(table=str(table)),
        hint=hint,
    )


def match(table: TargetTable, left: str, right: str, quote: Callable[[str], str] = quoted) -> str:
    """Return the condition that a row of the table and one of staging have the same key."""
    equal = "IS NOT DISTINCT FROM" if table.keyless else "="
    # DataFusion takes AND for the narrower one where there are no parentheses.
    return " AND ".join(
        f"({left}.{quote(table.columns[at].name)} {equal} {right}.c{at})" for at in table.key
    )


def key_columns(table: TargetTable, keys: pa.Table) -> pa.Table:
    """Return keys under the names that staging tables have."""
    return keys.rename_columns([f"c{at}" for at in table.key])


class Known(NamedTuple):
    """What is known of the rows that are expected: the names of their ``key``, and whether the table is one of known keys (``apply/effects/determined.py``), and has all of them."""

    key: Sequence[str]
    determined: bool = False
    is_whole: bool = True

    def there(self) -> str:
        """Return the condition that a row is expected to be there."""
        return f"e.{quoted(EXISTS_FLAG)}" if self.determined else "true"

    def unknown(self, name: str) -> str:
        """Return the condition that a column's value is not known."""
        if not self.determined or name in self.key:
            return "false"
        return f"e.{quoted(known_flag_name(name))} IS NOT TRUE"


def comparison(
    expected: str, actual: str, names: Sequence[str], known: Known, most: int
) -> tuple[str, str]:
    """Return statements that compare two tables by key: one counts the rows of each kind, one gives the first rows that differ.

    The kinds are equal, missing, surplus and different; untouched, of which nothing is known; and absent, which are rightly not there. A row of the second statement has its kind and then each column twice,
    as expected and as it is.
    """
    same = {one: f"e.{quoted(one)} IS NOT DISTINCT FROM a.{quoted(one)}" for one in names}
    fits = " AND ".join(f"({known.unknown(one)} OR {same[one]})" for one in names)
    joined = (
        f"(SELECT *, true AS here FROM {expected}) AS e FULL OUTER JOIN (SELECT *, true AS here FROM {actual}) AS a "
        f"ON {' AND '.join(same[one] for one in known.key)}"
    )
    kind = (
        f"CASE WHEN e.here IS NULL THEN '{'surplus' if known.is_whole else 'untouched'}' "
        f"WHEN {known.there()} IS NOT TRUE AND a.here IS NULL THEN 'absent' "
        f"WHEN {known.there()} IS NULL THEN 'untouched' WHEN NOT {known.there()} THEN 'surplus' "
        f"WHEN a.here IS NULL THEN 'missing' WHEN {fits} THEN 'equal' ELSE 'different' END"
    )
    columns = ", ".join(
        f"CASE WHEN {known.unknown(one)} THEN a.{quoted(one)} ELSE e.{quoted(one)} END, a.{quoted(one)}"
        for one in names
    )
    order = ", ".join(f"coalesce(e.{quoted(one)}, a.{quoted(one)})" for one in known.key)
    return (
        f"SELECT {kind}, count(*) FROM {joined} GROUP BY 1",
        f"SELECT {kind} AS kind, {columns} FROM {joined} WHERE {kind} IN ('missing', 'surplus', 'different') ORDER BY {order} LIMIT {most:d}",
    )
