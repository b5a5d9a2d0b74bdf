"""What a capture takes of its messages: tables, operations, rows, columns, and the tokens that it adds.

``CaptureRules`` are what parameter files and the command line ask for. Its TABLE statements are bound to a table's columns once (``TableSelection``); then they take
whole columns of operations: the first statement that takes a row decides, and a row that a missing column would decide is undecided, which is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.maps import joined_maps
from trailgate.errors import DefinitionError, OptionError, Where
from trailgate.expressions.environment_items import environment_item
from trailgate.expressions.evaluation import Selection, no_rows, select_rows, strings
from trailgate.expressions.syntax import Call, Expression
from trailgate.expressions.values import Environment
from trailgate.model.changes import ABSENT, DELETE, KEY_UPDATE, UPDATE, ChangeBlock, Image
from trailgate.model.table_patterns import TablePatterns, no_table
from trailgate.model.tables import Definitions, Table

ALL: Final = "*.*"


@dataclass(frozen=True, slots=True)
class Condition:
    """A FILTER or WHERE clause; ``operations`` are the letters of those that it is applied to."""

    clause: str
    expression: Expression
    operations: str = "IUD"


class Token(NamedTuple):
    """A user token: its name and its value."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class TableRule:
    """One TABLE statement; ``ignored`` are the letters of operations that it does not take.

    An operation is taken if all conditions hold for it.
    """

    pattern: str
    ignored: str = ""
    conditions: tuple[Condition, ...] = ()
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()
    line: int = field(default=0, compare=False)
    source: str = field(default="", compare=False)  # the file of OBEY or INCLUDE, else empty

    @property
    def takes_all(self) -> bool:
        """Return whether every operation of its tables is taken."""
        return not self.ignored and not self.conditions

    @property
    def record(self) -> tuple[object, ...]:
        """Return what decides how records of its tables look."""
        return self.key, self.columns, self.without, self.tokens

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Return the expressions of its conditions and tokens."""
        return (
            *(condition.expression for condition in self.conditions),
            *(token.value for token in self.tokens),
        )

    def error(self, problem: str, option: str = "TABLE", hint: str = "") -> OptionError:
        """Return an error placed at the statement."""
        where = Where(source=self.source or None, line=self.line or None, field=option)
        return OptionError(problem, where=where, hint=hint)

    def place(self, error: OptionError, option: str) -> OptionError:
        """Return an error with the statement's place, where it has none of its own."""
        return error.with_place(source=self.source or None, line=self.line or None, field=option)


@dataclass(frozen=True, slots=True)
class CaptureRules:
    """Which operations are captured, and what they carry (capture properties §4).

    ``tables`` are patterns of names, or statements. ``users`` and ``transactions`` are those whose transactions are left out.
    """

    compress_updates: bool = True
    update_befores: bool = False
    compress_deletes: bool = True
    tables: tuple[str | TableRule, ...] = (ALL,)
    excluded: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    environment: Environment = field(default_factory=Environment)

    @property
    def statements(self) -> tuple[TableRule, ...]:
        """Return the tables as statements."""
        return tuple(TableRule(table) if isinstance(table, str) else table for table in self.tables)

    @property
    def takes_all(self) -> bool:
        """Return whether every operation of every table is captured."""
        statements = self.statements
        return (
            [rule.pattern for rule in statements] == [ALL]
            and statements[0].takes_all
            and not (self.excluded or self.users or self.transactions)
        )

    def wants(self, table_name: str) -> bool:
        """Return whether a table is captured; patterns are compared without case."""
        return bool(self.of_table(table_name))

    def of_table(self, table_name: str) -> tuple[TableRule, ...]:
        """Return the statements that are tried, in order, for an operation of a table.

        Raises OptionError where they would give its records different keys, columns or tokens.
        """
        if TablePatterns(self.excluded).fits_end(table_name):
            return ()
        statements = self.statements
        # A fixed-width record without a schema has a name of one part, which *.* would not match.
        every = [rule.pattern for rule in statements] == [ALL]
        found: list[TableRule] = []
        for rule in statements:
            if every or TablePatterns((rule.pattern,)).fits_end(table_name):
                found.append(rule)
                if rule.takes_all:
                    break
        for other in found[1:]:
            if other.record != found[0].record:
                problem = f"it gives {table_name} another key, columns or tokens than line {found[0].line}"
                hint = "Records of a table are alike: repeat KEYCOLS, COLS and TOKENS in both"
                raise other.error(problem, hint=hint)
        return tuple(found)

    def unmatched(self, known: Sequence[str]) -> list[str]:
        """Return a sentence for each statement that no table fits, by the names of the tables of messages."""
        return [
            no_table(
                f"line {rule.line}, TABLE" if rule.line else "TABLE",
                rule.pattern,
                known,
                "the messages",
            )
            for rule in self.statements
            if rule.pattern != ALL
            and not any(TablePatterns((rule.pattern,)).fits_end(name) for name in known)
        ]

    def with_keys(self, definitions: Definitions) -> Definitions:
        """Return the definitions with the keys that KEYCOLS name."""
        return Definitions(
            tuple(self._table_with_keys(table) for table in definitions), definitions.database
        )

    def _table_with_keys(self, table: Table) -> Table:
        rules = self.of_table(table.name)
        if not rules or not rules[0].key:
            return table
        key = {column_index(table, name, rules[0], "KEYCOLS") for name in rules[0].key}
        columns = (replace(column, key=i in key) for i, column in enumerate(table.columns))
        return replace(table, columns=tuple(columns))


def column_index(table: Table, name: str, rule: TableRule, option: str) -> int:
    """Return a column's index; raises OptionError placed at the statement that names it."""
    try:
        return table.index(name)
    except DefinitionError as missing:
        raise rule.error(missing.problem, option, missing.hint) from None


MISSING_HINT: Final = (
    "Test that first, as in COLUMN = @PRESENT AND ..., or have all columns in the messages"
)


@dataclass(frozen=True, slots=True)
class TableSelection:
    """The statements of one table, bound to its columns; ``dropped`` are the columns that records do not get."""

    table: Table
    statements: tuple[TableRule, ...]
    environment: Environment
    dropped: frozenset[int] = frozenset()
    asks_types: bool = False  # an expression needs to know which updates are key updates

    @classmethod
    def of(cls, table: Table, rules: CaptureRules) -> Self | None:
        """Return how operations of a table are selected, None where it is not captured.

        Raises OptionError where a statement does not fit the table.
        """
        statements = rules.of_table(table.name)
        if not statements:
            return None
        asks = any(item == "OPTYPE" for _, item in _items(statements))
        found = cls(table, statements, rules.environment, _find_dropped(table, statements[0]), asks)
        found.check()
        return found

    @property
    def takes_all(self) -> bool:
        """Return whether every operation is captured."""
        return self.statements[0].takes_all

    def check(self) -> None:
        """Raise OptionError where an expression does not fit the table."""
        nothing = no_rows(self.table)
        for rule in self.statements:
            for condition in rule.conditions:
                self._select(nothing, rule, condition)
            for token in rule.tokens:
                try:
                    self._token_values(token, nothing)
                except OptionError as error:
                    raise rule.place(error, "TOKENS") from None

    def select(self, block: ChangeBlock) -> Selection:
        """Return the rows that are captured, and those of which a missing column would decide that.

        All rows have the block's first operation type.
        """
        rows = len(block)
        taken, undecided = np.zeros(rows, bool), np.zeros(rows, bool)
        for rule in self.statements:
            found = self._of_rule(block, rule)
            free = ~(taken | undecided)
            taken |= free & found.selected
            undecided |= free & found.undecided
        return Selection(taken, undecided)

    def _of_rule(self, block: ChangeBlock, rule: TableRule) -> Selection:
        rows = len(block)
        letter = _letter(block)
        every = Selection(np.ones(rows, bool), np.zeros(rows, bool))
        if letter in rule.ignored:
            return Selection(every.undecided, every.undecided)
        found = (
            self._select(block, rule, condition)
            for condition in rule.conditions
            if letter in condition.operations
        )
        return reduce(_both, found, every)

    def _select(self, block: ChangeBlock, rule: TableRule, condition: Condition) -> Selection:
        # Messages are selected before their transactions are known; a trail states these in each record.
        is_known = self.environment.group_type != "EXTRACT"
        around = replace(self.environment, has_transactions=is_known)
        try:
            return select_rows(condition.expression, block, around)
        except OptionError as error:
            raise rule.place(error, condition.clause) from None

    def missing(self, block: ChangeBlock, row: int) -> str:
        """Return what an undecided row lacks, as an error states it."""
        names: dict[str, None] = {}
        deletes = block.op_type[row] == DELETE
        for rule in self.statements:
            for condition in rule.conditions:
                for node in condition.expression.columns():
                    image = node.image or ("BEFORE" if deletes else "AFTER")
                    columns: Image = block.before if image == "BEFORE" else block.after
                    if columns[self.table.index(node.name)].is_missing(len(block))[row]:
                        names["BEFORE." * (node.image == "BEFORE") + node.name] = None
        clause = (
            self.statements[0].conditions[0].clause if self.statements[0].conditions else "FILTER"
        )
        return f"{clause} cannot be decided: the message does not have {', '.join(names)}"

    def with_tokens(self, block: ChangeBlock) -> ChangeBlock:
        """Return the block with the user tokens of its table; its transactions must be known."""
        tokens = self.statements[0].tokens
        if not tokens:
            return block
        values = [self._token_values(token, block) for token in tokens]
        own = _maps([token.name for token in tokens], values)
        return replace(
            block, tokens=own if block.tokens is None else joined_maps(block.tokens, own)
        )

    def _token_values(self, token: Token, block: ChangeBlock) -> pa.Array:
        node = token.value.node
        is_item = isinstance(node, Call) and node.function == "GETENV"
        return strings(token.value, block, replace(self.environment, is_whole_token=is_item))

    def without_columns(self, block: ChangeBlock) -> ChangeBlock:
        """Return the block with the columns alone that records get (COLS, COLSEXCEPT)."""
        if not self.dropped:
            return block

        def kept(image: Image) -> Image:
            return tuple(ABSENT if i in self.dropped else column for i, column in enumerate(image))

        return replace(block, before=kept(block.before), after=kept(block.after))


def _letter(block: ChangeBlock) -> str:
    kind = int(block.op_type[0]) if len(block) else UPDATE
    return "U" if kind == KEY_UPDATE else chr(kind)


def _both(one: Selection, other: Selection) -> Selection:
    """Return the rows that two selections share; a row that either drops is dropped."""
    maybe = (one.selected | one.undecided) & (other.selected | other.undecided)
    both = one.selected & other.selected
    return Selection(both, maybe & ~both)


def _find_dropped(table: Table, rule: TableRule) -> frozenset[int]:
    """Return the columns that COLS does not name, or that COLSEXCEPT does; keys are always kept."""
    option, names = ("COLS", rule.columns) if rule.columns else ("COLSEXCEPT", rule.without)
    if not names:
        return frozenset()
    named = {column_index(table, name, rule, option) for name in names}
    every = frozenset(range(len(table.columns)))
    dropped = every - named if rule.columns else frozenset(named)
    marked = table.marked_keys
    for key in marked:
        if key in dropped:
            problem = f"the key column {table.columns[key].name} of {table.name} would be left out"
            raise rule.error(problem, option, "Capture it too, or name another key by KEYCOLS")
    if not marked:
        problem = f"{table.name} has no key column, so all its columns identify a row"
        raise rule.error(problem, option, "Name a key by KEYCOLS")
    return dropped


def _maps(names: list[str], values: Iterable[pa.Array]) -> pa.MapArray:
    """Return a map for each row; a value that is null has no entry."""
    columns = list(values)
    rows, count = len(columns[0]), len(columns)
    # The entries of a row follow each other: slot row * count + i.
    slots = np.arange(rows * count).reshape(count, rows, order="F")
    place = np.empty(rows * count, np.int64)
    place[slots.ravel()] = np.arange(rows * count)
    items = pa.concat_arrays(columns).take(pa.array(place))
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(count), rows)))
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(count)
    if items.null_count:
        valid: Mask = np.asarray(items.is_valid())
        ends = np.concatenate([[0], np.cumsum(valid)])
        offsets = ends[offsets].astype(np.int32)
        keys, items = keys.filter(pa.array(valid)), items.drop_null()
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


class TableSelections:
    """The selections of tables, each bound when it is first asked for."""

    def __init__(self, rules: CaptureRules) -> None:
        self._rules = rules
        self._known: dict[str, TableSelection | None] = {}

    def of(self, table: Table) -> TableSelection | None:
        """Return how operations of a table are selected, None where it is not captured."""
        if table.name not in self._known:
            self._known[table.name] = TableSelection.of(table, self._rules)
        return self._known[table.name]


def environment_of(rules: CaptureRules) -> set[tuple[str, str]]:
    """Return the groups and items that the expressions of the rules ask @GETENV for."""
    return _items(rules.statements)


def _items(statements: Iterable[TableRule]) -> set[tuple[str, str]]:
    return items_of(one for rule in statements for one in rule.expressions)


def items_of(expressions: Iterable[Expression]) -> set[tuple[str, str]]:
    """Return the groups and items that expressions ask @GETENV for."""
    calls = (call for one in expressions for call in one.calls())
    return {environment_item(call) for call in calls if call.function == "GETENV"}


def find_excluded(
    rules: CaptureRules, owners: pa.Array | None, names: pa.Array | None
) -> Longs | None:
    """Return for each operation whether its user or transaction name is left out: 1 or 0.

    -1 is an operation without a name, for which that of its transaction counts. None: nothing is left out.
    """
    found: Longs | None = None
    for left_out, values in ((rules.users, owners), (rules.transactions, names)):
        if left_out and values is not None:
            known = pa.array([one.lower() for one in left_out], pa.string())
            mine = np.asarray(pc.is_in(pc.utf8_lower(values), value_set=known)).astype(np.int64)
            mine[np.asarray(pc.equal(pc.binary_length(values), 0).fill_null(True))] = -1
            found = mine if found is None else np.where(found == 0, mine, np.maximum(found, mine))
    return found
