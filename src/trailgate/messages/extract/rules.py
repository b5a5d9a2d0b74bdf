"""What a capture takes of its messages: tables, operations, rows, columns, and the tokens it adds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from trailgate.errors import DefinitionError, OptionError, Where
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Definitions, Table
from trailgate.operations.expressions.nodes import Expression
from trailgate.operations.expressions.values import Surroundings

ALL: Final = "*.*"
C = TypeVar("C")


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

    @property
    def takes_all(self) -> bool:
        """Return whether every operation of its tables is taken."""
        return not self.ignored and not self.conditions

    @property
    def record(self) -> tuple[object, ...]:
        """Return what decides how records of its tables look."""
        return self.key, self.columns, self.without, self.tokens

    def error(self, problem: str, option: str = "TABLE", hint: str = "") -> OptionError:
        """Return an error placed at the statement."""
        return OptionError(problem, where=Where(line=self.line or None, field=option), hint=hint)


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
    surroundings: Surroundings = field(default_factory=Surroundings)

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

    def defined(self, definitions: Definitions) -> Definitions:
        """Return the definitions with the keys that KEYCOLS name."""
        return Definitions(tuple(self._keyed(table) for table in definitions), definitions.database)

    def _keyed(self, table: Table) -> Table:
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
