"""Select what a capture uses of its messages: tables, operations, rows, columns and user tokens.

``CaptureRules`` are the choices in a parameter file or on the command line. For each table, its
TABLE statements are bound to the table's columns once (``TableSelection``), and then applied to
blocks of operations. A row is captured by the first statement that selects it. If the decision
about a row depends on a missing column, the row is undecided, which is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.columnar.maps import merge_maps
from trailgate.errors import DefinitionError, OptionError, Where
from trailgate.expressions.environment_items import items_of
from trailgate.expressions.evaluation import (
    RowSelection,
    evaluate_as_text,
    evaluate_condition,
    make_empty_block,
)
from trailgate.expressions.syntax import Expression, FunctionCall
from trailgate.expressions.values import GetenvValues
from trailgate.model.changes import ABSENT, DELETE, KEY_UPDATE, UPDATE, ChangeBlock, Image
from trailgate.model.table_names import TablePatterns, describe_no_match
from trailgate.model.tables import Definitions, Table
from trailgate.options import check_calls, check_items

ALL: Final = "*.*"
# The flags of ``find_excluded``: the operation's user, and its transaction's name, are excluded.
OF_USER: Final = 1
OF_TRANSACTION: Final = 4
EXCLUDED: Final = OF_USER | OF_TRANSACTION
MISSING_HINT: Final = (
    "Test for the column first, as in COLUMN = @PRESENT AND ..., or add it to all messages"
)


@dataclass(frozen=True, slots=True)
class SelectCondition:
    """A FILTER or WHERE clause. ``operations`` are the letters of the operations to which it applies."""

    clause: str
    expression: Expression
    operations: str = "IUD"


class UserToken(NamedTuple):
    """A user token of a TABLE statement: its name and the expression of its value."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class TableRule:
    """A TABLE statement, or a MAP statement of a Replicat file. A plain table pattern is one with no options.

    It applies to the tables that match ``pattern``. Operations whose letter is in ``ignored`` are
    not selected; others are selected if all conditions are true. ``key``, ``columns`` and
    ``without`` are the columns that KEYCOLS, COLS and COLSEXCEPT name.
    """

    pattern: str
    ignored: str = ""
    conditions: tuple[SelectCondition, ...] = ()
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    tokens: tuple[UserToken, ...] = ()
    line: int = field(default=0, compare=False)
    source: str = field(default="", compare=False)  # the file of OBEY or INCLUDE, or ""

    @property
    def takes_all(self) -> bool:
        """True if the TABLE statement selects every operation of its tables."""
        return not self.ignored and not self.conditions

    @property
    def record(self) -> tuple[object, ...]:
        """The options of a TABLE statement that determine what the tables' records contain."""
        return self.key, self.columns, self.without, self.tokens

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of the TABLE statement's conditions and tokens."""
        return (
            *(condition.expression for condition in self.conditions),
            *(token.value for token in self.tokens),
        )

    def error(self, problem: str, option: str = "TABLE", hint: str = "") -> OptionError:
        """Build an error located at an option of this TABLE statement."""
        where = Where(source=self.source or None, line=self.line or None, field=option)
        return OptionError(problem, where=where, hint=hint)

    def place(self, error: OptionError, option: str) -> OptionError:
        """Add the TABLE statement's position to an error that has no position yet."""
        return error.with_place(source=self.source or None, line=self.line or None, field=option)


@check_calls
@dataclass(frozen=True, slots=True)
class CaptureRules:
    """Which operations to capture, and what their records contain (capture properties §4).

    ``tables`` are patterns of names, or TABLE statements; tables that match a pattern in
    ``excluded`` are not captured. ``users`` and ``transactions`` are names: all transactions of
    these users, and all transactions with these names, are excluded. ``compress_updates``,
    ``update_befores`` and ``compress_deletes`` are the Extract parameters COMPRESSUPDATES,
    GETUPDATEBEFORES and COMPRESSDELETES.
    """

    compress_updates: bool = True
    update_befores: bool = False
    compress_deletes: bool = True
    tables: tuple[str | TableRule, ...] = (ALL,)
    excluded: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    environment: GetenvValues = field(default_factory=GetenvValues)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", check_items("tables", self.tables, str | TableRule))
        for name in ("excluded", "users", "transactions"):
            object.__setattr__(self, name, check_items(name, getattr(self, name), str))

    @property
    def statements(self) -> tuple[TableRule, ...]:
        """The tables to capture as TABLE statements, also those that are only patterns."""
        return tuple(TableRule(table) if isinstance(table, str) else table for table in self.tables)

    def environment_items(self) -> set[tuple[str, str]]:
        """Return the groups and items of @GETENV that the expressions of the rules use."""
        return _items(self.statements)

    @property
    def takes_all(self) -> bool:
        """True if every operation of every table is captured."""
        statements = self.statements
        return (
            [rule.pattern for rule in statements] == [ALL]
            and statements[0].takes_all
            and not (self.excluded or self.users or self.transactions)
        )

    def wants(self, table_name: str) -> bool:
        """Return True if the rules capture a table. Patterns are case-insensitive."""
        return bool(self.of_table(table_name))

    def of_table(self, table_name: str) -> tuple[TableRule, ...]:
        """Return the TABLE statements that match a table, in the order in which they are tried.

        Raises OptionError if they state different keys, columns or tokens for the table.
        """
        if TablePatterns(self.excluded).fits_end(table_name):
            return ()
        statements = self.statements
        # A fixed-width record has no schema, so its name has one part, which *.* does not match.
        only_all = [rule.pattern for rule in statements] == [ALL]
        matching: list[TableRule] = []
        for rule in statements:
            if only_all or TablePatterns((rule.pattern,)).fits_end(table_name):
                matching.append(rule)
                if rule.takes_all:
                    break
        for other in matching[1:]:
            if other.record != matching[0].record:
                problem = f"the key, columns or tokens of {table_name} differ from those in line {matching[0].line}"
                hint = (
                    "All records of a table must be alike: repeat KEYCOLS, COLS and TOKENS in both"
                )
                raise other.error(problem, hint=hint)
        return tuple(matching)

    def unmatched_warnings(self, known: Sequence[str]) -> list[str]:
        """Return a warning for each TABLE statement that matches none of the messages' tables."""
        return [
            describe_no_match(
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
        """Return the definitions with the keys that KEYCOLS defines."""
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
    """Return the index of the table's column ``name``, which an option of a TABLE or MAP rule, such as KEYCOLS, names.

    Raises OptionError, located at the option, if the column does not exist.
    """
    try:
        return table.index(name)
    except DefinitionError as missing:
        raise rule.error(missing.problem, option, missing.hint) from None


@dataclass(frozen=True, slots=True)
class TableSelection:
    """The TABLE statements of one table, bound to its columns, to apply them to operations.

    ``dropped`` are the indexes of the columns that records must not contain.
    """

    table: Table
    statements: tuple[TableRule, ...]
    environment: GetenvValues
    dropped: frozenset[int] = frozenset()
    asks_types: bool = False  # True if an expression asks for OPTYPE, which shows key updates

    @classmethod
    def of(cls, table: Table, rules: CaptureRules) -> Self | None:
        """Bind the TABLE statements of a table to its columns, or return None if the table is not captured.

        Raises OptionError if a statement does not fit the table.
        """
        statements = rules.of_table(table.name)
        if not statements:
            return None
        asks = any(item == "OPTYPE" for _, item in _items(statements))
        selection = cls(
            table, statements, rules.environment, _find_dropped(table, statements[0]), asks
        )
        selection.check()
        return selection

    @property
    def takes_all(self) -> bool:
        """True if every operation of the table is captured."""
        return self.statements[0].takes_all

    def check(self) -> None:
        """Raise OptionError if an expression of a TABLE statement does not fit the table."""
        nothing = make_empty_block(self.table)
        for rule in self.statements:
            for condition in rule.conditions:
                self._select(nothing, rule, condition)
            for token in rule.tokens:
                try:
                    self._token_values(token, nothing)
                except OptionError as error:
                    raise rule.place(error, "TOKENS") from None

    def select(self, block: ChangeBlock) -> RowSelection:
        """Return the rows of a block that the TABLE statements select, and the undecided ones.

        All rows must have the operation type of the block's first row.
        """
        rows = len(block)
        taken, undecided = np.zeros(rows, bool), np.zeros(rows, bool)
        for rule in self.statements:
            selection = self._of_rule(block, rule)
            # Rows about which no earlier statement has decided.
            free = ~(taken | undecided)
            taken |= free & selection.selected
            undecided |= free & selection.undecided
        return RowSelection(taken, undecided)

    def _of_rule(self, block: ChangeBlock, rule: TableRule) -> RowSelection:
        rows = len(block)
        letter = _letter(block)
        every = RowSelection(np.ones(rows, bool), np.zeros(rows, bool))
        if letter in rule.ignored:
            # No row is selected, and none is undecided: ``every.undecided`` is all False.
            return RowSelection(every.undecided, every.undecided)
        selections = (
            self._select(block, rule, condition)
            for condition in rule.conditions
            if letter in condition.operations
        )
        return reduce(_both, selections, every)

    def _select(
        self, block: ChangeBlock, rule: TableRule, condition: SelectCondition
    ) -> RowSelection:
        # Messages are selected before their transactions are known. A trail's records include theirs.
        is_known = self.environment.group_type != "EXTRACT"
        around = replace(self.environment, has_transactions=is_known)
        try:
            return evaluate_condition(condition.expression, block, around)
        except OptionError as error:
            raise rule.place(error, condition.clause) from None

    def undecided_problem(self, block: ChangeBlock, row: int) -> str:
        """Build the text of the error for an undecided row. It names the missing columns."""
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
        """Add the table's user tokens to a block. The transactions of the block must be known."""
        tokens = self.statements[0].tokens
        if not tokens:
            return block
        values = [self._token_values(token, block) for token in tokens]
        # All statements of a table have the same tokens (``of_table`` checks it), so the first
        # one's are enough.
        token_maps = _maps([token.name for token in tokens], values)
        return replace(
            block,
            tokens=token_maps if block.tokens is None else merge_maps(block.tokens, token_maps),
        )

    def _token_values(self, token: UserToken, block: ChangeBlock) -> pa.Array:
        node = token.value.node
        is_item = isinstance(node, FunctionCall) and node.function == "GETENV"
        return evaluate_as_text(
            token.value, block, replace(self.environment, is_whole_token=is_item)
        )

    def without_columns(self, block: ChangeBlock) -> ChangeBlock:
        """Return a block without the values of the columns that COLS or COLSEXCEPT excludes."""
        if not self.dropped:
            return block

        def kept(image: Image) -> Image:
            return tuple(ABSENT if i in self.dropped else column for i, column in enumerate(image))

        return replace(block, before=kept(block.before), after=kept(block.after))


def _letter(block: ChangeBlock) -> str:
    """Return the letter of a block's operation type: I, U (also for key updates), D or T."""
    kind = int(block.op_type[0]) if len(block) else UPDATE
    return "U" if kind == KEY_UPDATE else chr(kind)


def _both(left: RowSelection, right: RowSelection) -> RowSelection:
    """Combine the selections of two conditions: a row must be selected by both."""
    # Three-valued AND: a row is out if one side is certainly false, selected if both are certainly
    # true, and undecided otherwise.
    maybe = (left.selected | left.undecided) & (right.selected | right.undecided)
    both = left.selected & right.selected
    return RowSelection(both, maybe & ~both)


def _find_dropped(table: Table, rule: TableRule) -> frozenset[int]:
    """Return the indexes of the columns that COLS does not name, or that COLSEXCEPT names.

    Raises OptionError if one of them is a key column, or if the table has no key.
    """
    option, names = ("COLS", rule.columns) if rule.columns else ("COLSEXCEPT", rule.without)
    if not names:
        return frozenset()
    named = {column_index(table, name, rule, option) for name in names}
    every = frozenset(range(len(table.columns)))
    dropped = every - named if rule.columns else frozenset(named)
    marked = table.marked_keys
    for key in marked:
        if key in dropped:
            problem = f"the key column {table.columns[key].name} of {table.name} would be dropped"
            raise rule.error(problem, option, "Capture it too, or name another key by KEYCOLS")
    if not marked:
        problem = f"{table.name} has no key column, so all its columns identify a row"
        raise rule.error(problem, option, "Name a key by KEYCOLS")
    return dropped


def _maps(names: list[str], values: Iterable[pa.Array]) -> pa.MapArray:
    """Build the user tokens of each row, as an Arrow map from ``names`` to values.

    ``values`` has a column for each name. NULL values have no entry.
    """
    columns = list(values)
    rows, count = len(columns[0]), len(columns)
    # The values come column by column; the entries of a map must be adjacent: slot row * count + i.
    # For 2 names and 2 rows the columns a0 a1, b0 b1 become a0 b0, a1 b1.
    slots = np.arange(rows * count).reshape(count, rows, order="F")
    source_slots = np.empty(rows * count, np.int64)
    source_slots[slots.ravel()] = np.arange(rows * count)
    items = pa.concat_arrays(columns).take(pa.array(source_slots))
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(count), rows)))
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(count)
    if items.null_count:
        valid: Mask = np.asarray(items.is_valid())
        # Removing NULL entries moves the offsets down by the number of removed entries before them.
        ends = np.concatenate([[0], np.cumsum(valid)])
        offsets = ends[offsets].astype(np.int32)
        keys, items = keys.filter(pa.array(valid)), items.drop_null()
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


class TableSelections:
    """The TABLE statements of all tables, each bound to its table when it is first used."""

    def __init__(self, rules: CaptureRules) -> None:
        self._rules = rules
        self._known: dict[str, TableSelection | None] = {}

    def of(self, table: Table) -> TableSelection | None:
        """Return the bound TABLE statements of a table, or None if the table is not captured."""
        if table.name not in self._known:
            self._known[table.name] = TableSelection.of(table, self._rules)
        return self._known[table.name]


def _items(statements: Iterable[TableRule]) -> set[tuple[str, str]]:
    """Return the groups and items of @GETENV that the expressions of TABLE statements use."""
    return items_of(one for rule in statements for one in rule.expressions)


def find_excluded(
    rules: CaptureRules, owners: pa.Array | None, names: pa.Array | None
) -> Octets | None:
    """Find the operations whose user or transaction the capture rules exclude: flags for each operation.

    ``owners`` are the names of the operations' users, and ``names`` the names of their
    transactions. ``EXCLUDED`` has a bit for each of the two, and one bit higher is that of an
    operation without this name, for which the first operation of its transaction decides
    (``inherit_excluded``). Returns None if nothing is excluded.
    """
    flags: Octets | None = None
    for bit, names_excluded, values in (
        (OF_USER, rules.users, owners),
        (OF_TRANSACTION, rules.transactions, names),
    ):
        if names_excluded and values is not None:
            known = pa.array([one.lower() for one in names_excluded], pa.string())
            found = np.asarray(pc.is_in(pc.utf8_lower(values), value_set=known))
            # An empty or NULL name is unknown.
            unknown = np.asarray(pc.equal(pc.binary_length(values), 0).fill_null(True))
            own = np.where(unknown, bit << 1, found * np.uint8(bit)).astype(np.uint8)
            flags = own if flags is None else flags | own
    return flags


def inherit_excluded(flags: Octets, first: Octets) -> Mask:
    """Return a mask of the operations that the capture rules exclude, from the flags of each one and of its transaction's first one."""
    # The flag of a missing name, moved by one bit, meets that of the first operation's same name.
    excluded: Mask = (flags & EXCLUDED) | (flags >> 1 & first & EXCLUDED) != 0
    return excluded
