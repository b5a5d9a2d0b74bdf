"""Evaluate expressions over a block of changes: find the rows that a condition selects, and compute values as text.

Each node is evaluated once for all rows. Values are Arrow columns or constants with a mask of the
rows in which a column is missing. Conditions are three-valued (``Verdicts``), so that a missing
column makes a row undecided only if the result depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Mask
from trailgate.columnar.rows import nullify_rows
from trailgate.errors import DefinitionError, OptionError, TrailgateError
from trailgate.expressions.comparing import compare_values
from trailgate.expressions.functions import FUNCTIONS
from trailgate.expressions.syntax import (
    EITHER,
    ColumnName,
    Comparison,
    Computation,
    Expression,
    FunctionCall,
    Junction,
    Negation,
    Node,
    NumberLiteral,
    StateTest,
    TextLiteral,
    double_quotes_hint,
    expression_error,
)
from trailgate.expressions.values import (
    JUNCTIONS,
    KINDS,
    ExpressionValueType,
    GetenvValues,
    Value,
    Verdicts,
    missing_of,
)
from trailgate.model.changes import ABSENT, DELETE, ChangeBlock, StateColumn, select_images
from trailgate.model.tables import Table

NOTHING: Final = GetenvValues()
ZERO: Final = Value(pa.scalar("0", pa.string()), ExpressionValueType.NUMBER)


class RowSelection(NamedTuple):
    """The rows that a condition selects, as two masks.

    ``selected`` are the rows for which it is true, and ``undecided`` the rows for which a missing
    column decides.
    """

    selected: Mask
    undecided: Mask


def evaluate_condition(
    condition: Expression, block: ChangeBlock, environment: GetenvValues = NOTHING
) -> RowSelection:
    """Evaluate a condition over a block, and return the rows for which it is true.

    Raises OptionError with a caret if the condition does not fit the table, and DecodeError if a
    number is too long to compare.
    """
    verdicts = _Scope(block, environment, condition.text).verdicts(condition.node)
    return RowSelection(verdicts.true_rows, verdicts.undecided_rows)


def evaluate_as_text(
    value: Expression, block: ChangeBlock, environment: GetenvValues = NOTHING
) -> pa.Array:
    """Evaluate an expression as text for each row of a block, for example for a user token.

    The text is NULL if the value is, or if a column that it needs is missing.
    """
    return evaluate_with_missing(value, block, environment).values


def evaluate_with_missing(
    value: Expression, block: ChangeBlock, environment: GetenvValues = NOTHING
) -> StateColumn:
    """Evaluate an expression as text for each row of a block, for example for a COLMAP.

    The text is missing, and NULL, if a column that it needs is missing.
    """
    result = _Scope(block, environment, value.text).value(value.node)
    text = result.text()
    column = pa.repeat(text, len(block)) if isinstance(text, pa.Scalar) else text
    # A function such as @IF or @RANGE has some value in these rows too.
    if result.missing is not None and result.missing.any():
        column = nullify_rows(column, result.missing)
    return StateColumn(column, result.missing)


def make_empty_block(table: Table) -> ChangeBlock:
    """Build an empty block of a table, to check that an expression fits the table."""
    none, text = np.zeros(0, np.int64), pa.array([], pa.string())
    letters = np.zeros(0, np.uint8)
    absent = (ABSENT,) * len(table.columns)
    return ChangeBlock(
        table=table,
        order=none,
        op_type=letters,
        op_ts=none,
        tx_ind=letters,
        tx_id=text,
        csn=text,
        seq_id=text,
        position=text,
        before=absent,
        after=absent,
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    """Evaluates an expression over a block of changes, by a method for each class of node.

    ``text`` is the expression, for errors.
    """

    block: ChangeBlock
    environment: GetenvValues
    text: str

    def error(self, problem: str, node: Node, hint: str = "") -> OptionError:
        return expression_error(problem, self.text, node.at, hint).with_place(
            table=self.block.table.name
        )

    def value(self, node: Node) -> Value:
        return _VALUES[type(node)](self, node)

    def verdicts(self, node: Node) -> Verdicts:
        return _CONDITIONS.get(type(node), _Scope.not_zero)(self, node)

    def literal(self, node: TextLiteral) -> Value:
        return Value(pa.scalar(node.text, pa.string()), ExpressionValueType.LITERAL)

    def number(self, node: NumberLiteral) -> Value:
        return Value(pa.scalar(node.text, pa.string()), ExpressionValueType.NUMBER)

    def call(self, node: FunctionCall) -> Value:
        try:
            return FUNCTIONS[node.function].apply(self, node)
        except OptionError as error:
            raise self.with_caret(error, node) from None

    def computation(self, node: Computation) -> Value:
        from trailgate.expressions.arithmetic import compute  # noqa: PLC0415  rarely needed

        try:
            sides = self.value(node.left), self.value(node.right)
            return compute(node.sign, *sides, len(self.block))
        except OptionError as error:
            raise self.with_caret(error, node) from None

    def column(self, node: ColumnName) -> Value:
        table = self.block.table
        try:
            index = table.index(node.name)
        except DefinitionError as missing:
            hint = missing.hint or double_quotes_hint(self.text, node.at)
            raise self.error(f"no column {node.name}", node, hint) from None
        column = table.columns[index]
        # Dates with time zones cannot be compared by their text.
        kind = (
            ExpressionValueType.OTHER
            if column.zoned
            else KINDS.get(column.family, ExpressionValueType.OTHER)
        )
        state = self.state(node, index)
        rows = len(self.block)
        if state.values is None:
            return Value(pa.nulls(rows, column.arrow_type), kind, np.ones(rows, bool), column)
        return Value(state.values, kind, state.missing, column)

    def state(self, node: ColumnName, index: int) -> StateColumn:
        before, after = self.block.before[index], self.block.after[index]
        if node.image == EITHER:
            return select_images(before, after, ~before.is_missing(len(self.block)))
        if node.image is not None:
            return before if node.image == "BEFORE" else after
        # A delete has only a before image, all others have an after image.
        return select_images(before, after, self.block.op_type == DELETE)

    def not_zero(self, node: Node) -> Verdicts:
        """Evaluate a value as a condition: true if it is not 0."""
        return self.compare(node, "<>", self.value(node), ZERO)

    def comparison(self, node: Comparison) -> Verdicts:
        return self.compare(node, node.sign, self.value(node.left), self.value(node.right))

    def compare(self, node: Node, sign: str, left: Value, right: Value) -> Verdicts:
        try:
            result = compare_values(sign, left, right)
        except OptionError as error:
            raise self.with_caret(error, node) from None
        return Verdicts.of(result, missing_of((left, right)), len(self.block))

    def with_caret(self, error: TrailgateError, node: Node) -> TrailgateError:
        """Add the expression with a caret below ``node`` to an error that has no caret yet."""
        if "^" in error.hint:
            return error
        return self.error(error.problem, node, error.hint)

    def state_test(self, node: StateTest) -> Verdicts:
        rows, value = len(self.block), self.value(node.column)
        missing = np.zeros(rows, bool) if value.missing is None else value.missing
        if node.state == "NULL":
            result = Verdicts.of(value.data.is_null(), value.missing, rows)
        else:
            result = Verdicts.known(missing if node.state == "ABSENT" else ~missing)
        return ~result if node.negated else result

    def negation(self, node: Negation) -> Verdicts:
        return ~self.verdicts(node.part)

    def junction(self, node: Junction) -> Verdicts:
        return reduce(JUNCTIONS[node.word], (self.verdicts(part) for part in node.parts))


# By the class of a node: the method that evaluates it to values.
_VALUES: Final[Mapping[type[Any], Callable[[Any, Any], Value]]] = MappingProxyType(
    {
        TextLiteral: _Scope.literal,
        NumberLiteral: _Scope.number,
        ColumnName: _Scope.column,
        FunctionCall: _Scope.call,
        Computation: _Scope.computation,
    }
)
# By the class of a node: the method that evaluates it to verdicts.
_CONDITIONS: Final[Mapping[type[Any], Callable[[Any, Any], Verdicts]]] = MappingProxyType(
    {
        Comparison: _Scope.comparison,
        StateTest: _Scope.state_test,
        Negation: _Scope.negation,
        Junction: _Scope.junction,
    }
)
