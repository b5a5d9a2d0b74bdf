"""Conditions over one row at a time: three states, three truth values, read off the tree."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import product
from typing import Any

from trailgate.expressions.syntax import (
    ColumnName,
    Comparison,
    Junction,
    Negation,
    Node,
    NumberLiteral,
    StateTest,
    TextLiteral,
)

Row = Mapping[str, Any]  # a column that is not there is missing, None is NULL
Outcomes = frozenset[bool | None]
ANY: Outcomes = frozenset({True, False, None})
SIGNS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def outcomes(node: Node, row: Row) -> Outcomes:
    """Return what a condition may be, over all values that missing columns might have."""
    if isinstance(node, Negation):
        return frozenset(None if one is None else not one for one in outcomes(node.part, row))
    if isinstance(node, Junction):
        found = outcomes(node.parts[0], row)
        for part in node.parts[1:]:
            pairs = product(found, outcomes(part, row))
            found = frozenset(_joined(node.word, a, b) for a, b in pairs)
        return found
    if isinstance(node, StateTest):
        return _tested(node, row)
    assert isinstance(node, Comparison)
    sides = [_value(side, row) for side in (node.left, node.right)]
    if "missing" in sides:
        return ANY
    if None in sides:
        return frozenset({None})
    left, right = (_typed(side, sides) for side in sides)
    return frozenset({SIGNS[node.sign](left, right)})


def _joined(word: str, a: bool | None, b: bool | None) -> bool | None:
    stops = word == "OR"
    if stops in (a, b):
        return stops
    return None if None in (a, b) else not stops


def _tested(node: StateTest, row: Row) -> Outcomes:
    there = node.column.name in row
    if node.state == "NULL":
        if not there:
            return ANY
        found = row[node.column.name] is None
    else:
        found = there == (node.state == "PRESENT")
    return frozenset({found is not node.negated})


def _value(node: Node, row: Row) -> Any:
    if isinstance(node, ColumnName):
        return row.get(node.name, "missing")
    if isinstance(node, NumberLiteral):
        return Decimal(node.text)
    assert isinstance(node, TextLiteral)
    return node.text


def _typed(side: Any, sides: list[Any]) -> Any:
    numbers = any(not isinstance(one, str) for one in sides)
    return Decimal(side) if numbers else side
