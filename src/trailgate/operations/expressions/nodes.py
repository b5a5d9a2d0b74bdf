"""What an expression is made of; ``at`` is the character of the text at which a node begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """Text in single quotes; what it is compared with decides how it is read."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column of the operation: of its before or after image, or of the one that it has (None)."""

    name: str
    image: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    function: str
    arguments: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared by one of ``= <> < <= > >=``."""

    sign: str
    left: Node
    right: Node
    at: int


@dataclass(frozen=True, slots=True)
class StateTest:
    """A column compared with @NULL, @PRESENT or @ABSENT."""

    column: ColumnName
    state: str
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT of a condition."""

    part: Node
    at: int


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions joined by AND or by OR."""

    word: str
    parts: tuple[Node, ...]
    at: int


Node = Literal | Number | ColumnName | Call | Comparison | StateTest | Negation | Junction
CONDITIONS = (Comparison, StateTest, Negation, Junction)


@dataclass(frozen=True, slots=True)
class Expression:
    """A tree and the text that it was read from, which errors show."""

    text: str
    node: Node

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes of the tree."""
        waiting: list[Node] = [self.node]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += _parts(node)

    def calls(self) -> Iterator[Call]:
        """Yield all calls of functions."""
        return (node for node in self.nodes() if isinstance(node, Call))

    def columns(self) -> Iterator[ColumnName]:
        """Yield all columns that are named."""
        return (node for node in self.nodes() if isinstance(node, ColumnName))


def _parts(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Call):
        return node.arguments
    if isinstance(node, Comparison):
        return node.left, node.right
    if isinstance(node, Negation):
        return (node.part,)
    if isinstance(node, StateTest):
        return (node.column,)
    return node.parts if isinstance(node, Junction) else ()
