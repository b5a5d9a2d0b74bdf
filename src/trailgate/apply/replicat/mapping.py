"""Apply MAP statements: convert operations on source tables to operations on target tables.

Each statement is bound to each source table that its pattern matches. Every target column is then
either a source column, by its index, or an expression (COLMAP). A block of operations is first
filtered by the statement's conditions; then its columns are reordered, and its expressions are
evaluated on whole columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.tables import make_target_name, make_target_table
from trailgate.apply.replicat.replicat_files import MapStatement, ReplicatParameters
from trailgate.arrays import Longs, Octets
from trailgate.errors import ApplyError, OptionError, Where
from trailgate.expressions.capture_rules import MISSING_HINT, TableSelection, column_index
from trailgate.expressions.evaluation import evaluate_with_missing, make_empty_block
from trailgate.expressions.syntax import ColumnName, Expression, double_quotes_hint
from trailgate.expressions.values import GetenvValues
from trailgate.model.changes import DELETE, KEY_UPDATE, UPDATE, ChangeBlock, Image, select_images
from trailgate.model.positions import short_position
from trailgate.model.table_names import NAME_PART, TablePatterns, join_table_name, unquote
from trailgate.model.tables import Column, Table

VARCHAR = 64  # GoldenGate's type code of VARCHAR, for columns that an expression computes
# Bytes of the longest VARCHAR2 in an Oracle database without extended strings.
LONGEST = 4000


@dataclass(frozen=True, slots=True)
class _TableMap:
    """A MAP statement bound to one source table.

    ``selection`` tests the statement's conditions, ``table`` is the target table, and ``columns``
    has for each of its columns the index of a source column, or an expression.
    """

    statement: MapStatement
    selection: TableSelection
    table: Table
    columns: tuple[int | Expression, ...]


class ReplicatMapping:
    """The MAP statements of a Replicat parameter file, as a mapping of operations to target tables.

    All statements that match a source table are applied. If several of them have the same target,
    an operation is mapped by the first of them that selects it.
    """

    def __init__(
        self, parameters: ReplicatParameters, environment: GetenvValues | None = None
    ) -> None:
        self._parameters = parameters
        self._environment = environment or parameters.environment
        self._known: dict[Table, list[_TableMap]] = {}

    @property
    def sources(self) -> TablePatterns:
        """The patterns of the MAP statements' source tables."""
        return TablePatterns(tuple(one.rule.pattern for one in self._parameters.maps))

    @property
    def responses(self) -> MappingOf[int, str]:
        """The responses of REPERROR, by Oracle error number."""
        return self._parameters.responses

    @property
    def name(self) -> str:
        """The MAP statements as part of the source that a position is stored with, such as ``hr.t>copy.t,hr.u>copy.u``."""
        # If all statements have the same mode, it is not repeated for each.
        common_mode = self._parameters.mode
        mapped = {
            f"{one.rule.pattern}>{one.target}"
            + (f":{one.mode}" if one.mode and not common_mode else "")
            for one in self._parameters.maps
        }
        excluded = {f"!{pattern}" for pattern in self._parameters.excluded}
        return ",".join(sorted(mapped) + sorted(excluded))

    def collisions(self, target: str) -> CollisionPolicy | None:
        """Return the collision policy of a target table, or None if its MAP statements do not set one.

        Statements that name the table take precedence over those with wildcards. Raises OptionError
        if statements of the same rank set different policies.
        """
        statements = self._statements_for(target)
        for one in statements[1:]:
            if one.collisions is not statements[0].collisions:
                problem = f"it handles collisions differently from line {statements[0].rule.line}, and both write {target}"
                error = one.rule.error(problem, "MAP", "Write the same collision option in both")
                raise error.with_place(source=self._parameters.source or None)
        return statements[0].collisions if statements else None

    def mode(self, target: str) -> str | None:
        """Return the apply mode of a target table, or None if its MAP statements do not set one.

        Raises OptionError if its statements set different modes.
        """
        statements = self._statements_for(target)
        for one in statements[1:]:
            if one.mode != statements[0].mode:
                problem = f"INSERTALLRECORDS differs from line {statements[0].rule.line}, and both write {target}"
                error = one.rule.error(problem, "MAP", "Give one of them another target")
                raise error.with_place(source=self._parameters.source or None)
        return statements[0].mode if statements else None

    @property
    def modes(self) -> frozenset[str]:
        """The apply modes that appear in MAP statements."""
        return frozenset(one.mode for one in self._parameters.maps if one.mode)

    def names_target(self, target: str) -> bool:
        """Return whether a MAP statement names a target table, without wildcards."""
        return any("*" not in one.target for one in self._statements_for(target))

    def _statements_for(self, target: str) -> list[MapStatement]:
        """Return the MAP statements whose TARGET matches this table.

        Statements with wildcards count only if no other statement names the table.
        """
        fitting = [
            one for one in self._parameters.maps if TablePatterns((one.target,)).fits_end(target)
        ]
        return [one for one in fitting if "*" not in one.target] or fitting

    @property
    def patterns(self) -> Sequence[tuple[str, str]]:
        """The source pattern of each MAP statement, with its file and line: ``("rshop.prm line 4, MAP", "HR.*")``."""
        rules = (one.rule for one in self._parameters.maps)
        return [(f"{rule.source} line {rule.line}, MAP".strip(), rule.pattern) for rule in rules]

    def tables(self, table: Table) -> Sequence[Table]:
        """Return the target tables of a source table, one for each MAP statement that matches it.

        Raises OptionError if a statement does not fit the source table.
        """
        return [one.table for one in self._of_table(table)]

    def map_block(
        self, block: ChangeBlock, faults: OperationErrors, now: str | None = None
    ) -> Sequence[ChangeBlock]:
        """Convert a block of operations on a source table to blocks on its target tables.

        ``now`` is the value of @DATENOW.

        If a condition depends on a column that an operation does not log, an ApplyError is added to
        ``faults``. Raises OptionError if a statement does not fit the table.
        """
        mapped = []
        environment = replace(self._environment, now=now)
        taken: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}
        for one in self._of_table(block.table):
            is_taken = taken.setdefault(one.table.name, np.zeros(len(block), bool))
            # Of several statements with one target, a row is mapped by the first that selects it.
            # ``taken`` has, for each target, the rows that an earlier statement selected.
            rows = self._rows(one, block, np.flatnonzero(~is_taken), faults)
            is_taken[rows] = True
            if len(rows):
                mapped.append(_map_block(one, block.take(rows), environment))
        return mapped

    def time_columns(self, target: str) -> frozenset[str]:
        """Return the names of the target table's columns that a MAP statement sets to the time at which a batch is applied (``@DATENOW``).

        The names are in lower case. Only source tables that were mapped before are considered.
        """
        return frozenset(
            column.name.casefold()
            for maps in self._known.values()
            for one in maps
            if str(make_target_table(one.table)) == target
            for column, value in zip(one.table.columns, one.columns, strict=True)
            if uses_apply_time(value)
        )

    @property
    def has_times(self) -> bool:
        """Whether a MAP statement sets any column to the time at which a batch is applied (``@DATENOW``)."""
        return any(
            uses_apply_time(value) for one in self._parameters.maps for _, value in one.columns
        )

    def _rows(
        self, one: _TableMap, block: ChangeBlock, rows: Longs, faults: OperationErrors
    ) -> Longs:
        """Return the rows of a block, among ``rows``, whose operations a MAP statement selects."""
        # The empty part keeps concatenate from failing if there are no rows.
        chosen = [rows[:0]]
        op_types = block.op_type[rows]
        for op_type in np.unique(op_types):
            typed = rows[op_types == op_type]
            part = block.take(typed)
            selection = one.selection.select(part)
            chosen.append(typed[selection.selected])
            for row in np.flatnonzero(selection.undecided).tolist():
                problem = one.selection.undecided_problem(part, row)
                problem = problem.replace("the message", "the operation")
                position = f"position {short_position(part.position[row].as_py())}"
                where = Where(source=position, table=block.table.name)
                error = ApplyError(problem, where=where, hint=MISSING_HINT)
                faults.add(int(part.order[row]), error)
        # Types were selected one after another: restore the order of the block.
        return np.sort(np.concatenate(chosen))

    def _of_table(self, table: Table) -> list[_TableMap]:
        if table not in self._known:
            excluded = TablePatterns(self._parameters.excluded).fits_end(table.name)
            fitting = [
                one
                for one in self._parameters.maps
                if not excluded and TablePatterns((one.rule.pattern,)).fits_end(table.name)
            ]
            try:
                maps = [_table_map(one, table, self._environment) for one in fitting]
            except OptionError as error:
                raise error.with_place(source=self._parameters.source or None) from None
            self._known[table] = maps
        return self._known[table]


def _table_map(statement: MapStatement, table: Table, environment: GetenvValues) -> _TableMap:
    """Bind a MAP statement to a source table. Raises OptionError if it does not fit the table."""
    rule = statement.rule
    selection = TableSelection(table, (rule,), environment)
    selection.check()
    values: dict[str, int | Expression] = {}
    if statement.defaults:
        values = {column.name: at for at, column in enumerate(table.columns)}
    spelled = {name.casefold(): name for name in values}
    for name, value in statement.columns:
        values[spelled.get(name.casefold(), name)] = _source_column(value, table, statement)
    for source in values.values():
        if not isinstance(source, int):
            # Evaluate on no rows, so that a wrong expression is an error before anything is applied.
            try:
                evaluate_with_missing(source, make_empty_block(table), replace(environment, now=""))
            except OptionError as error:
                raise rule.place(error, "COLMAP") from None
    columns = tuple(
        replace(table.columns[value], name=name)
        if isinstance(value, int)
        else Column(name, VARCHAR, LONGEST)
        for name, value in values.items()
    )
    target = Table(_target_name(statement, table), columns)
    keyed = _with_key(statement, table, target, list(values.values()))
    return _TableMap(statement, selection, keyed, tuple(values.values()))


def uses_apply_time(value: int | Expression) -> bool:
    """Return whether an expression of a MAP statement depends on the time at which a batch is applied (@DATENOW)."""
    return isinstance(value, Expression) and any(
        call.function == "DATENOW" for call in value.calls()
    )


def _source_column(value: Expression, table: Table, statement: MapStatement) -> int | Expression:
    node = value.node
    if isinstance(node, ColumnName) and node.image is None:
        try:
            return column_index(table, node.name, statement.rule, "COLMAP")
        except OptionError as error:
            error.hint = error.hint or double_quotes_hint(value.text, node.at)
            raise
    return value


def _with_key(
    statement: MapStatement, source: Table, target: Table, values: Sequence[int | Expression]
) -> Table:
    """Return the target table of a MAP statement with its key: KEYCOLS, or else the columns mapped from the source's key."""
    if statement.rule.key:
        key = {column_index(target, name, statement.rule, "KEYCOLS") for name in statement.rule.key}
    else:
        unmapped = set(source.marked_keys) - set(values)
        if unmapped:
            name = source.columns[min(unmapped)].name
            problem = f"COLMAP does not map the key column {name} of {source.name}"
            raise statement.rule.error(
                problem, "COLMAP", "Map it too, or name another key with KEYCOLS"
            )
        key = {
            _key_index(source, target, values, source_index) for source_index in source.marked_keys
        }
    key_columns = sorted(key) or range(
        len(target.columns)
    )  # a table without a key is matched by all its columns
    timed = [target.columns[at].name for at in key_columns if uses_apply_time(values[at])]
    if timed:
        problem = f"the key column {timed[0]} would have a different value in each batch"
        raise statement.rule.error(problem, "COLMAP", "Name a key without @DATENOW with KEYCOLS")
    columns = tuple(replace(column, key=at in key) for at, column in enumerate(target.columns))
    return replace(target, columns=columns)


def _key_index(
    source: Table, target: Table, values: Sequence[int | Expression], source_index: int
) -> int:
    """Return the index of the target column that corresponds to a source key column.

    It is the column with the same name, or else the first column mapped from it.
    """
    name = source.columns[source_index].name.casefold()
    candidates = [at for at, value in enumerate(values) if value == source_index]
    named = (at for at in candidates if target.columns[at].name.casefold() == name)
    return next(named, candidates[0])


def _target_name(statement: MapStatement, source: Table) -> str:
    """Return the name of the table to which a MAP statement maps a source table.

    ``*`` alone as a part of TARGET is replaced by the same part of the source's name. A ``*`` next
    to other characters is replaced by the text that the star in the MAP pattern matches (assumed;
    the documentation does not specify this). A source name in upper case becomes lower case, and so
    do upper-case characters next to the star: for ORDERS, both ``stg_*`` and ``STG_*`` give
    ``stg_orders``.
    """
    if "*" not in statement.target:
        return statement.target
    pattern_parts, names = NAME_PART.findall(statement.rule.pattern), NAME_PART.findall(source.name)
    names = names[len(names) - len(pattern_parts) :] if len(pattern_parts) <= len(names) else names
    parts = []
    targets = NAME_PART.findall(statement.target)
    for at, part in enumerate(targets):
        if "*" not in part:
            parts.append(unquote(part))
            continue
        # Names are aligned at their last part: TARGET T.* of MAP S.* takes part -1 of the source.
        back = at - len(targets)
        if -back > len(names):
            raise statement.rule.error(
                f"the target {statement.target} has more parts than {source.name}", "TARGET"
            )
        pattern = (
            unquote(pattern_parts[back]) if -back <= len(pattern_parts) and part != "*" else "*"
        )
        name = unquote(names[back])
        match = re.fullmatch(
            "(.*)".join(map(re.escape, pattern.split("*", 1))), name, re.IGNORECASE | re.DOTALL
        )
        # MAP HR.ORD*, TARGET STG.X*: for HR.ORDERS the star is ERS, and this part becomes xers.
        star = match[1] if match and match.groups() else name
        star = star.lower() if name.isupper() else star
        parts.append(make_target_name(unquote(part)).replace("*", star))
    return join_table_name(parts)


def _map_block(one: _TableMap, block: ChangeBlock, environment: GetenvValues) -> ChangeBlock:
    """Convert operations that a MAP statement has selected to operations on its target table.

    Expressions are evaluated on the record as it is in the trail, because an audit table describes
    what happened at the source. With INSERTDELETES, a delete becomes an insert, but @GETENV
    ('GGHEADER', 'OPTYPE') is still DELETE.
    """
    # An expression reads the after image. For the before image, it reads the before values there.
    earlier = replace(block, after=block.before)
    op_type = _op_types(block, one.statement.types)
    converted = (block.op_type == DELETE) & (op_type != DELETE)

    def mapped_image(source: Image, of: ChangeBlock) -> Image:
        return tuple(
            source[value]
            if isinstance(value, int)
            else evaluate_with_missing(value, of, environment)
            for value in one.columns
        )

    after = block.after
    if converted.any():  # the row of a converted delete is the row before it
        pairs = zip(block.before, block.after, strict=True)
        after = tuple(select_images(before, own, converted) for before, own in pairs)
    return replace(
        block,
        table=one.table,
        op_type=op_type,
        before=mapped_image(block.before, earlier),
        after=mapped_image(after, block),
    )


def _op_types(block: ChangeBlock, types: Sequence[tuple[str, str]]) -> Octets:
    """Return a block's operation types after INSERTUPDATES, INSERTDELETES and UPDATEDELETES.

    ``types`` contains pairs of letters, such as ("D", "I") for INSERTDELETES.
    """
    op_type: Octets = block.op_type.copy()
    for old, new in types:
        chosen = block.op_type == ord(old)
        if ord(old) == UPDATE:
            chosen |= block.op_type == KEY_UPDATE
        op_type[chosen] = ord(new)
    return op_type


def map_to_same_table(block: ChangeBlock, faults: OperationErrors) -> Sequence[ChangeBlock]:
    """Map the operations of a block to the target table of the same name, for runs without MAP statements."""
    del faults
    return (block,)
