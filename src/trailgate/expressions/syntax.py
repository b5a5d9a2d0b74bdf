"""The syntax of expressions: nodes of the tree, tokens, and errors with a caret below a character.

In each node, ``at`` is the offset in the text at which errors show the caret: the offset of the sign
of a Computation or Comparison, and the beginning of all other nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from trailgate.errors import OptionError, caret_below

EITHER: Final = "BEFOREAFTER"  # the before image if it has the column, else the after image

# 'it''s', "My Column", 1.5E3, @STRCAT, BEFORE, >=. A number is not followed by a letter: 1A is an error.
_TOKEN: Final = re.compile(
    r"""
    \s+
    | '(?P<LITERAL>(?:[^']|'')*)'
    | "(?P<IDENTIFIER>(?:[^"]|"")*)"
    | (?P<NUMBER>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w$\#])
    | @(?P<FUNCTION>[A-Za-z]\w*)
    | (?P<NAME>[^\W\d][\w$\#]*)
    | (?P<OPERATOR><>|<=|>=|[-=<>(),.+*/\\])
    """,
    re.VERBOSE,
)
_UNCLOSED: Final = {"'": "a literal is not closed", '"': "a name in quotes is not closed"}


@dataclass(frozen=True, slots=True)
class TextLiteral:
    """Text in single quotes in an expression.

    Its interpretation depends on the value that it is compared with.
    """

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number in an expression, as written."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column of an operation, named in an expression.

    ``image`` is BEFORE, AFTER or BEFOREAFTER (``EITHER``). None means before for a delete,
    otherwise after.
    """

    name: str
    image: str | None
    at: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call in an expression, with its arguments."""

    function: str
    arguments: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Computation:
    """Two numbers of an expression joined by an arithmetic sign, such as ``+``."""

    sign: str
    left: Node
    right: Node
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values of an expression compared by one of ``= <> < <= > >=``."""

    sign: str
    left: Node
    right: Node
    at: int


@dataclass(frozen=True, slots=True)
class StateTest:
    """A test of a column's state in an expression: compared with @NULL, @PRESENT or @ABSENT.

    ``negated`` is set for ``<>``.
    """

    column: ColumnName
    state: str
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Negation:
    """A condition after NOT in an expression."""

    part: Node
    at: int


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions of an expression joined by AND or by OR (``word``)."""

    word: str
    parts: tuple[Node, ...]
    at: int


Node = (
    TextLiteral
    | NumberLiteral
    | ColumnName
    | FunctionCall
    | Computation
    | Comparison
    | StateTest
    | Negation
    | Junction
)
CONDITIONS = (Comparison, StateTest, Negation, Junction)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: its tree, and the text from which it was parsed, which errors show."""

    text: str
    node: Node

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes of the expression's tree."""
        waiting: list[Node] = [self.node]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += _parts(node)

    def calls(self) -> Iterator[FunctionCall]:
        """Yield all function calls of the expression."""
        return (node for node in self.nodes() if isinstance(node, FunctionCall))

    def columns(self) -> Iterator[ColumnName]:
        """Yield all column names of the expression."""
        return (node for node in self.nodes() if isinstance(node, ColumnName))


def _parts(node: Node) -> tuple[Node, ...]:
    if isinstance(node, FunctionCall):
        return node.arguments
    if isinstance(node, Comparison | Computation):
        return node.left, node.right
    if isinstance(node, Negation):
        return (node.part,)
    if isinstance(node, StateTest):
        return (node.column,)
    return node.parts if isinstance(node, Junction) else ()


class ExpressionTokenType(Enum):
    """The type of an expression's token."""

    LITERAL = auto()  # in single quotes
    IDENTIFIER = auto()  # in double quotes
    NUMBER = auto()
    FUNCTION = auto()
    NAME = auto()
    OPERATOR = auto()
    END = auto()


class ExpressionToken(NamedTuple):
    """A token of an expression: its type, its text without quotes, and the offset at which it starts."""

    kind: ExpressionTokenType
    text: str
    at: int

    def is_word(self, *words: str) -> bool:
        """Return True if the token is one of ``words``, ignoring case."""
        return self.kind is ExpressionTokenType.NAME and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Return True if the token is one of ``signs``."""
        return self.kind is ExpressionTokenType.OPERATOR and self.text in signs

    @property
    def shown(self) -> str:
        """The token as shown in errors."""
        return "the end" if self.kind is ExpressionTokenType.END else repr(self.text)


def scan_expression(text: str, *, ansi_quotes: bool = True) -> Iterator[ExpressionToken]:
    """Yield the tokens of an expression, the last one of type END. Raises OptionError.

    Without ``ansi_quotes``, text in double quotes is a literal too.
    """
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            problem = _UNCLOSED.get(text[at], f"{text[at]!r} is not expected here")
            raise expression_error(problem, text, at)
        if match.lastgroup is not None:
            quote = {"LITERAL": "'", "IDENTIFIER": '"'}.get(match.lastgroup, "")
            word = match[match.lastgroup]
            plain = word.replace(quote * 2, quote) if quote else word
            kind = ExpressionTokenType[match.lastgroup]
            if kind is ExpressionTokenType.IDENTIFIER and not ansi_quotes:
                kind = ExpressionTokenType.LITERAL
            yield ExpressionToken(kind, plain, at)
        at = match.end()
    yield ExpressionToken(ExpressionTokenType.END, "", len(text))


def expression_error(problem: str, text: str, at: int, hint: str = "") -> OptionError:
    """Build an error whose hint shows the expression with a caret below the character ``at``."""
    return OptionError(problem, hint=f"{hint or 'Here'}:{caret_below(text, at)}")


def double_quotes_hint(text: str, at: int) -> str:
    """Return a hint on the syntax of quotes if the name at the offset ``at`` of an expression is in double quotes, else "".

    Before GoldenGate 12.1 they enclosed literals.
    """
    if not text.startswith('"', at):
        return ""
    end = text.find('"', at + 1)
    literal = text[at + 1 : end] if end > 0 else text[at + 1 :]
    return f"Write a literal in single quotes, '{literal}', or NOUSEANSISQLQUOTES before it"
