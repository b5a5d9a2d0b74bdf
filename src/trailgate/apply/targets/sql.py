"""Build the SQL statements that write changes from a staging table to a table of a database.

The staging table has the new values in the columns ``c0``, ``c1``, ..., the flags ``m0``, ``m1``,
... which are true if the row keeps the table's current value, and the effect in ``e``: delete,
patch, insert or replace. For example, an update that logged only SALARY of (ID, NAME, SALARY):

    c0  c1    c2    m0     m1    m2     e
    7   NULL  4200  false  true  false  PATCH

becomes ``UPDATE ... SET name = CASE WHEN s.m1 THEN t.name ELSE s.c1 END, ...``. In all statements
``t`` is the table and ``s`` the staging table. Names are always quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.known_keys import EXISTS_FLAG, known_flag_name
from trailgate.apply.effects.nets import NetChanges, RowEffect
from trailgate.apply.effects.stored_types import StorageRule
from trailgate.apply.effects.table_changes import ClosingUpdate, TableChanges
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.arrays import Longs, Mask

CHECKPOINT = "trailgate_checkpoint"
MOST_REFUSED: Final = 10_000  # refused values that one statement returns
MOST_PATTERN: Final = 1 << 61  # a greater number might overflow when it is doubled
KNOWN_COLUMNS: Final = f"SELECT known_columns FROM {CHECKPOINT} WHERE grp = {{}} AND target = {{}}"
# The fields of ``AppliedPosition``, and the columns that a checkpoint table of an earlier version lacks.
POSITION_COLUMNS = ("trail", "position", "csn", "op_ts", "digest", "reached")
ADDED_COLUMNS = ("digest", "reached", "known_columns")


def quote_sql_name(*parts: str) -> str:
    """Quote the parts of a table's or column's name for SQL, as in ``"hr"."jobs"``."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def build_staging_rows(effects: TableChanges, *, defaults: bool = False) -> pa.Table:
    """Convert net changes to the rows of a SQL staging table (columns ``c0``, ``m0``, ..., ``e``).

    A replaced row becomes a patch of all its columns if it exists, and otherwise an insert. The
    patch sets columns that the source does not have to NULL, because nothing of the old row
    remains. With ``defaults`` a replaced row keeps its effect instead, so that these columns can be
    reset to their defaults. Rows that lack values in the same ones of these columns then have the
    same number in the column ``x``.
    """
    nets = effects.nets
    columns: dict[str, pa.Array] = {}
    rows = len(nets)
    patched = nets.effect == RowEffect.PATCH
    replaced = nets.effect == RowEffect.REPLACE
    exists = nets.expected & (not effects.emptied)
    extra = nets.table.extra_columns if defaults else []
    # A replaced row that exists becomes an update; otherwise it is inserted.
    kinds = np.where(
        replaced,
        np.where(exists, RowEffect.REPLACE if extra else RowEffect.PATCH, RowEffect.INSERT),
        nets.effect,
    )
    # All values before all flags: PostgreSQL would pad each flag before a number to eight bytes, and
    # a row has room for 8160.
    for at, (column, one) in enumerate(zip(nets.table.columns, nets.values, strict=True)):
        columns[f"c{at}"] = pa.nulls(rows, column.type) if one.values is None else one.values
    for at, (column, one) in enumerate(zip(nets.table.columns, nets.values, strict=True)):
        # A missing value keeps the current one if the row is patched. Otherwise it is written as
        # NULL; but with ``defaults``, a column of the target alone gets its default later.
        kept = patched | (column.extra and defaults)
        columns[f"m{at}"] = pa.array(one.is_missing(rows) & kept)
    for at, key in zip(nets.table.key, nets.key, strict=True):
        columns[f"c{at}"] = key
        columns[f"m{at}"] = pa.array(np.zeros(rows, bool))
    if extra:
        # A patched row keeps the values that it lacks, so it counts as lacking none.
        missing = [nets.values[at].is_missing(rows) & ~patched for at in extra]
        columns["x"] = pa.array(_number_patterns(missing))
    return pa.table({**columns, "e": pa.array(kinds.astype(np.int32))})


def _number_patterns(masks: Sequence[Mask]) -> Longs:
    """Return a number for each row, equal for rows that are equal in all masks.

    The masks [T, T, F] and [F, F, T] give [2, 2, 1].
    """
    numbers = np.zeros(len(masks[0]), np.int64)
    for mask in masks:
        if numbers.max(initial=0) > MOST_PATTERN:
            # Number the distinct ones anew, so that any number of masks fits 64 bits.
            numbers = np.unique(numbers, return_inverse=True)[1]
        numbers = 2 * numbers + mask
    return numbers


@dataclass(frozen=True, slots=True)
class StagingDialect:
    """How a database stages, prints and casts values of types that Arrow does not have.

    Columns with a rule in ``staged`` are text in the staging table and are cast to their type.
    Columns with a rule in ``read`` are read as text, with the expression ``printed``. ``override``
    is inserted before the values of an INSERT. ``cast`` casts values that are only checked; if it
    returns NULL instead of failing (``TRY_CAST``), one statement finds all values that the database
    refuses.
    """

    staged: frozenset[StorageRule]
    read: frozenset[StorageRule]
    printed: str
    override: str = ""
    cast: str = "CAST"

    def value(self, table: TargetTable, at: int, cast: str = "CAST") -> str:
        """Return the SQL expression for a column's staged value in the type of the database table."""
        stored = table.columns[at].stored
        # The result is c3 of ``s`` as it is, or cast, such as CAST(s.c3 AS numeric(10, 2)).
        if stored is None or stored.rule not in self.staged:
            return f"s.c{at}"
        return f"{cast}(s.c{at} AS {stored.name})"

    def select_list(self, columns: Sequence[TargetColumn]) -> str:
        """Return the SELECT list for columns of the target table, which the query calls ``t``.

        Columns of types that Arrow does not have are read as text.
        """
        selected = []
        for column in columns:
            name = quote_sql_name(column.name)
            is_read = column.stored is not None and column.stored.rule in self.read
            expression = self.printed.format(f"t.{name}") if is_read else f"t.{name}"
            selected.append(f"{expression} AS {name}")
        return ", ".join(selected)

    def match(self, table: TargetTable) -> str:
        """Return the SQL condition that a row ``t`` of the table and a staged row ``s`` have the same key."""
        return build_key_match(table, staged=lambda at: self.value(table, at))

    def selection(self, table: TargetTable, staging: str, *, keys_alone: bool) -> str:
        """Build the SELECT of the rows of a target table whose keys are in a staging table."""
        columns = [table.columns[at] for at in table.key] if keys_alone else table.columns
        names, same = self.select_list(columns), self.match(table)
        return (
            f"SELECT {names} FROM {quote_sql_name(*table.name)} AS t JOIN {staging} AS s ON {same}"
        )

    def printed_values(
        self, table: TargetTable, staging: str, columns: Iterable[int]
    ) -> Iterator[tuple[TargetColumn, str]]:
        """Yield an SQL statement for each column whose values the database may print differently from the trail.

        The statement returns the staged values whose printed text differs, each with that text.
        """
        for at in columns:
            stored = table.columns[at].stored
            if stored is not None and stored.is_printed:
                # The text 1.50 in a column of numeric(5, 1) is printed as 1.5, which is a different text.
                back = self.printed.format(self.value(table, at, self.cast))
                differs = f"s.c{at} IS DISTINCT FROM {back}"
                yield (
                    table.columns[at],
                    f"SELECT DISTINCT s.c{at}, {back} FROM {staging} AS s WHERE {differs} LIMIT {MOST_REFUSED}",
                )

    def computed_values(
        self, table: TargetTable, staging: str
    ) -> Iterator[tuple[TargetColumn, str]]:
        """Yield an SQL statement for each column that the database computes and that the trail has too.

        The statement returns the trail's and the computed value of a row in which they differ.
        """
        name, same = quote_sql_name(*table.name), self.match(table)
        for at, column in enumerate(table.columns):
            if at in table.key or column.extra or not (column.computed or column.on_insert):
                continue
            sent, stored = self.value(table, at), f"t.{quote_sql_name(column.name)}"
            rows = f"{name} AS t JOIN {staging} AS s ON {same}"
            differs = (
                f"s.e <> {RowEffect.DELETE:d} AND NOT s.m{at} AND {stored} IS DISTINCT FROM {sent}"
            )
            yield column, f"SELECT {sent}, {stored} FROM {rows} WHERE {differs} LIMIT 1"

    def stored_values(self, table: TargetTable, staging: str) -> tuple[list[TargetColumn], str]:
        """Build an SQL statement that finds a row whose stored values differ from the staged values.

        Returns the compared columns and the statement. Its result is empty or one row: the staged
        and the stored value of the first column, those of the second one and so on, and last
        whether the row exists. If it does not exist, all stored values are NULL.
        """
        columns, pairs, differs = [], [], []
        for at, column in enumerate(table.columns):
            if at in table.key or column.extra:
                continue
            sent = self.printed.format(self.value(table, at))
            stored = self.printed.format(f"t.{quote_sql_name(column.name)}")
            # s.mN is true if the operation does not log column N. Then the stored value is compared with
            # itself, and never differs.
            sent = f"CASE WHEN s.m{at} THEN {stored} ELSE {sent} END"
            columns.append(column)
            pairs += [sent, stored]
            differs.append(f"{sent} IS DISTINCT FROM {stored}")
        # The left join returns NULL for all columns of ``t`` if it has no such row.
        exists = f"t.{quote_sql_name(table.columns[table.key[0]].name)} IS NOT NULL"
        if table.keyless:
            exists = "true"
        rows = f"{staging} AS s LEFT JOIN {quote_sql_name(*table.name)} AS t ON {self.match(table)}"
        wrong = " OR ".join([f"NOT ({exists})", *differs])
        selected = ", ".join([*pairs, exists])
        return (
            columns,
            f"SELECT {selected} FROM {rows} WHERE s.e <> {RowEffect.DELETE:d} AND ({wrong}) LIMIT 1",
        )


def build_write_statements(
    effects: TableChanges, rows: pa.Table, staging: str, dialect: StagingDialect
) -> list[tuple[str, int]]:
    """Build the SQL statements that write staged changes: DELETE, then UPDATE, then INSERT.

    Each is returned with the number of rows that it must change, or -1 for any number.
    """
    table = effects.nets.table
    name, same = quote_sql_name(*table.name), dialect.match(table)
    # Counted here, because the database reports how many rows each statement changed: another
    # number means that somebody else has changed the table.
    effect = rows["e"].to_numpy()
    deleted = int((effect == RowEffect.DELETE).sum())
    updated = int(np.isin(effect, (RowEffect.PATCH, RowEffect.REPLACE)).sum())
    # Deletes come first, so that a key or a unique value can move from a deleted row to another one.
    texts = [(f"DELETE FROM {name}", -1)] if effects.emptied else []
    if deleted:
        is_one = f"s.e = {RowEffect.DELETE:d} AND {same}"
        texts.append((f"DELETE FROM {name} AS t USING {staging} AS s WHERE {is_one}", deleted))
    values = _updated_values(effects, dialect)
    is_one = f"s.e IN ({RowEffect.PATCH:d}, {RowEffect.REPLACE:d}) AND {same}"
    if updated and values:
        text = f"UPDATE {name} AS t SET {values} FROM {staging} AS s WHERE {is_one}"
        texts.append((text, updated))
    # DEFAULT cannot be part of a CASE, so rows that lack the same columns get a statement together.
    for one in _patterns(effects, rows, effect == RowEffect.REPLACE):
        if one.lacking:
            values = ", ".join(
                f"{quote_sql_name(table.columns[at].name)} = DEFAULT" for at in one.lacking
            )
            is_one = f"s.e = {RowEffect.REPLACE:d} AND s.x = {one.number:d} AND {same}"
            text = f"UPDATE {name} AS t SET {values} FROM {staging} AS s WHERE {is_one}"
            texts.append((text, one.size))
    for one in _patterns(effects, rows, effect == RowEffect.INSERT):
        columns = _columns_to_insert(table, one.lacking)
        values = ", ".join(dialect.value(table, at) for at in columns)
        is_one = f"s.e = {RowEffect.INSERT:d}" + (
            f" AND s.x = {one.number:d}" if "x" in rows.column_names else ""
        )
        texts.append(
            (
                _insertion(table, columns, f"{values} FROM {staging} AS s WHERE {is_one}", dialect),
                one.size,
            )
        )
    return texts


def _updated_values(effects: TableChanges, dialect: StagingDialect) -> str:
    """Build the SET list of the UPDATE of staged rows.

    Omits columns that the source does not have if no row has a value for them.
    """
    table = effects.nets.table
    clauses = build_merge_clauses(effects, staged=lambda at: dialect.value(table, at))
    assignments = [f"{name} = {value}" for name, value in clauses.updated.items()]
    if not assignments:
        # All columns are the key, so nothing changes. But the statement counts the rows, which finds
        # a key that the table has in several rows.
        names = [
            quote_sql_name(one.name) for one in table.columns if not (one.computed or one.on_insert)
        ]
        assignments = [f"{name} = t.{name}" for name in names[:1]]
    return ", ".join(assignments)


class _Pattern(NamedTuple):
    """Staged rows that lack values in the same extra columns.

    ``number`` is their value in the column ``x`` (0 if there is no such column), ``size`` the
    number of the rows, and ``lacking`` the indexes of the columns.
    """

    number: int
    size: int
    lacking: Sequence[int]


def _patterns(effects: TableChanges, rows: pa.Table, chosen: Mask) -> list[_Pattern]:
    """Return the distinct patterns of missing values among the selected staged rows of the changes."""
    if not chosen.any():
        return []
    if "x" not in rows.column_names:
        return [_Pattern(0, int(chosen.sum()), ())]
    at = np.flatnonzero(chosen)
    numbers, first, counts = np.unique(
        rows["x"].to_numpy()[at], return_index=True, return_counts=True
    )
    # Any row of a pattern shows which columns all of them lack.
    return [
        _Pattern(number, count, _find_lacking(effects.nets, row))
        for number, count, row in zip(
            numbers.tolist(), counts.tolist(), at[first].tolist(), strict=True
        )
    ]


def _find_lacking(nets: NetChanges, row: int) -> list[int]:
    """Return the indexes of the extra columns for which a change has no value. A patched row keeps its own, so it lacks none."""
    if nets.effect[row] == RowEffect.PATCH:
        return []
    values = [(at, nets.values[at]) for at in nets.table.extra_columns]
    return [
        at
        for at, one in values
        if one.values is None or (one.missing is not None and one.missing[row])
    ]


def _columns_to_insert(table: TargetTable, lacking: Sequence[int]) -> list[int]:
    """Return the indexes of the columns that an INSERT sets for rows that lack some columns, which get their defaults."""
    return [at for at, one in enumerate(table.columns) if not one.computed and at not in lacking]


def _insertion(
    table: TargetTable, columns: Sequence[int], selected: str, dialect: StagingDialect
) -> str:
    names = ", ".join(quote_sql_name(table.columns[at].name) for at in columns)
    return (
        f"INSERT INTO {quote_sql_name(*table.name)} ({names}){dialect.override} SELECT {selected}"
    )


def build_replacing_statements(
    effects: TableChanges, rows: pa.Table, staging: str, whole: str, dialect: StagingDialect
) -> list[tuple[str, int]]:
    """Build the SQL statements that write staged changes by DELETE and INSERT only (faster in DuckDB than an UPDATE).

    The complete new rows are first computed in the temporary table ``whole``. Then the old rows are
    deleted and the new ones inserted. Each statement is returned with the number of rows that it
    must change, or -1 for any number.
    """
    table = effects.nets.table
    # A table without key columns has no join condition, and only gets inserts: then nothing may
    # match.
    name, same = quote_sql_name(*table.name), dialect.match(table) or "false"
    effect = rows["e"].to_numpy()
    deleted, inserted = (int((effect == one).sum()) for one in (RowEffect.DELETE, RowEffect.INSERT))
    updated = len(effect) - deleted - inserted
    marked = "x" in rows.column_names
    values = ", ".join(
        f"{dialect.value(table, at)} AS v{at}"
        if at in table.key
        else f"CASE WHEN s.m{at} THEN t.{quote_sql_name(one.name)} ELSE {dialect.value(table, at)} END AS v{at}"
        for at, one in enumerate(table.columns)
    )
    values += ", s.x AS x" if marked else ""
    # Only patched rows need their current values. For all others the join finds nothing.
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
    for one in _patterns(effects, rows, effect != RowEffect.DELETE):
        columns = _columns_to_insert(table, one.lacking)
        selected = ", ".join(f"v{at}" for at in columns) + f" FROM {whole}"
        selected += f" WHERE x = {one.number:d}" if marked else ""
        every.append((_insertion(table, columns, selected, dialect), one.size))
    needed = [one for one in every if one[1]]
    return [(f"DELETE FROM {name}", -1), *needed] if effects.emptied else needed


def build_closing_statement(effects: TableChanges) -> str | None:
    """Build the UPDATE for the ``closing`` of changes, for example to end row versions after a truncate.

    Returns None if there is no ``closing``.
    """
    closing = effects.closing
    if closing is None:
        return None
    values = ", ".join(
        f"{quote_sql_name(name)} = {format_sql_literal(one)}"
        for name, one in closing.values.items()
    )
    return f"UPDATE {quote_sql_name(*effects.nets.table.name)} SET {values} WHERE {build_open_condition(closing)}"


def build_open_condition(closing: ClosingUpdate) -> str:
    """Build the SQL condition that a ``ClosingUpdate`` selects a row, such as a row version without an end."""
    return f"{quote_sql_name(closing.column)} IS {'TRUE' if closing.when else 'NOT TRUE'}"


def format_sql_literal(value: pa.Scalar) -> str:
    """Format a boolean, timestamp or string as an SQL literal."""
    if pa.types.is_boolean(value.type):
        return str(value.as_py()).lower()
    text = str(value.as_py()).replace("'", "''")
    return f"TIMESTAMP '{text}'" if pa.types.is_timestamp(value.type) else f"'{text}'"


def build_key_match(
    table: TargetTable,
    *,
    quote: Callable[[str], str] = quote_sql_name,
    staged: Callable[[int], str] = "s.c{}".format,
    compared: Callable[[TargetColumn, str], str] = lambda _, value: value,
) -> str:
    """Build the SQL condition that a row ``t`` of the target table and a staged row ``s`` have the same key.

    ``staged`` returns the staged value of a column by its index, and ``compared`` the form in which
    values of a column are compared, for example ``CAST(t.x AS VARCHAR)``.
    """
    equal = "IS NOT DISTINCT FROM" if table.keyless else "="
    pairs = []
    for at in table.key:
        column = table.columns[at]
        left, right = compared(column, f"t.{quote(column.name)}"), compared(column, staged(at))
        pairs.append(f"({left} {equal} {right})")
    # Without parentheses DataFusion binds AND more tightly than IS NOT DISTINCT FROM.
    return " AND ".join(pairs)


class MergeClauses(NamedTuple):
    """The values that are written from a staged row ``s`` into the table ``t``, as expressions by quoted column name.

    Each clause applies to the staged rows with one effect, see ``staged_effect``.
    """

    inserted: Mapping[str, str]
    updated: Mapping[str, str]


def build_merge_clauses(
    effects: TableChanges,
    quote: Callable[[str], str] = quote_sql_name,
    staged: Callable[[int], str] = "s.c{}".format,
    *,
    resets: bool = False,
) -> MergeClauses:
    """Build the values that a MERGE, or an UPDATE and an INSERT, write.

    ``staged`` returns the staged value of a column by its index. Computed columns are skipped.
    Columns that the source does not have are also skipped if no row has a value for them, so that
    they get their defaults. A value that was not logged keeps the table's value. With ``resets``
    the update clause sets the skipped columns of replaced rows to NULL.
    """
    table = effects.nets.table
    replaces = resets and bool((effects.nets.effect == RowEffect.REPLACE).any())
    inserted, updated = {}, {}
    for at, (column, one) in enumerate(zip(table.columns, effects.nets.values, strict=True)):
        if column.computed:
            continue
        name = quote(column.name)
        is_skipped = column.extra and one.values is None
        if not is_skipped:
            inserted[name] = staged(at)
        if at not in table.key and not column.on_insert and (replaces or not is_skipped):
            updated[name] = f"CASE WHEN s.m{at} THEN t.{name} ELSE {staged(at)} END"
    return MergeClauses(inserted, updated)


def staged_effect(effect: RowEffect) -> str:
    """Build the SQL condition that a staged row ``s`` has this effect."""
    return f"s.e = {effect:d}"


def rename_key_columns(table: TargetTable, keys: pa.Table) -> pa.Table:
    """Rename the key columns of an Arrow table to the names in SQL staging tables, such as ``c0`` for the first column."""
    return keys.rename_columns([f"c{at}" for at in table.key])


class ComparisonScope(NamedTuple):
    """Which expected rows and values are known when ``--verify`` compares a table.

    ``key`` has the names of the key columns. With ``determined``, the expected table is a table of
    known keys (``apply/effects/known_keys.py``): only some keys and values are known. ``is_whole``
    is true if it is known that no row exists for any other key.
    """

    key: Sequence[str]
    determined: bool = False
    is_whole: bool = True

    def exists_condition(self) -> str:
        """Return the SQL condition that an expected row exists."""
        return f"e.{quote_sql_name(EXISTS_FLAG)}" if self.determined else "true"

    def unknown_condition(self, name: str) -> str:
        """Return the SQL condition that the expected value of a column is unknown."""
        if not self.determined or name in self.key:
            return "false"
        return f"e.{quote_sql_name(known_flag_name(name))} IS NOT TRUE"


def build_comparison_statements(
    expected: str, actual: str, names: Sequence[str], known: ComparisonScope, most: int
) -> tuple[str, str]:
    """Build two SQL statements that compare an expected table with the target's by key: one counts the rows of each kind, the other returns the first ``most`` differing rows.

    ``expected`` and ``actual`` name the tables, and ``names`` the compared columns.

    The kinds are "equal", "different", "missing" (only expected), "extra" (only in the target),
    "untouched" (nothing is known about the row), and "absent" (correctly not in the target). A
    differing row has its kind, and then the expected and the actual value of each column.
    """
    same = {
        one: f"e.{quote_sql_name(one)} IS NOT DISTINCT FROM a.{quote_sql_name(one)}"
        for one in names
    }
    fits = " AND ".join(f"({known.unknown_condition(one)} OR {same[one]})" for one in names)
    joined = (
        f"(SELECT *, true AS here FROM {expected}) AS e FULL OUTER JOIN (SELECT *, true AS here FROM {actual}) AS a "
        f"ON {' AND '.join(same[one] for one in known.key)}"
    )
    # ``here`` is NULL on the side of the outer join that has no row.
    kind = (
        f"CASE WHEN e.here IS NULL THEN '{'extra' if known.is_whole else 'untouched'}' "
        f"WHEN {known.exists_condition()} IS NOT TRUE AND a.here IS NULL THEN 'absent' "
        f"WHEN {known.exists_condition()} IS NULL THEN 'untouched' WHEN NOT {known.exists_condition()} THEN 'extra' "
        f"WHEN a.here IS NULL THEN 'missing' WHEN {fits} THEN 'equal' ELSE 'different' END"
    )
    # An unknown value is shown as the target's own, so that it does not look like a difference.
    columns = ", ".join(
        f"CASE WHEN {known.unknown_condition(one)} THEN a.{quote_sql_name(one)} ELSE e.{quote_sql_name(one)} END, a.{quote_sql_name(one)}"
        for one in names
    )
    order = ", ".join(
        f"coalesce(e.{quote_sql_name(one)}, a.{quote_sql_name(one)})" for one in known.key
    )
    return (
        f"SELECT {kind}, count(*) FROM {joined} GROUP BY 1",
        f"SELECT {kind} AS kind, {columns} FROM {joined} WHERE {kind} IN ('missing', 'extra', 'different') ORDER BY {order} LIMIT {most:d}",
    )
