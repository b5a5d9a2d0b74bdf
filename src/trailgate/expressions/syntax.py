"""What an expression is made of; ``at`` is the character of the text at which a node begins.

Expressions cut into tokens, and errors with a caret below the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from trailgate.errors import OptionError, caret_below


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


EITHER: Final = "BEFOREAFTER"  # the image before where it has the column, else the one after


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column of the operation: of its before or after image, of either (``EITHER``), or of the one that it has (None)."""

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
class Computation:
    """Two numbers, and the sign between them by which another one is computed."""

    sign: str
    left: Node
    right: Node
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


Node = (
    Literal
    | Number
    | ColumnName
    | Call
    | Computation
    | Comparison
    | StateTest
    | Negation
    | Junction
)
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
    if isinstance(node, Comparison | Computation):
        return node.left, node.right
    if isinstance(node, Negation):
        return (node.part,)
    if isinstance(node, StateTest):
        return (node.column,)
    return node.parts if isinstance(node, Junction) else ()


class TokenKind(Enum):
    """What a token is."""

    LITERAL = auto()  # in single quotes
    IDENTIFIER = auto()  # in double quotes
    NUMBER = auto()
    FUNCTION = auto()
    NAME = auto()
    OPERATOR = auto()
    END = auto()


class Token(NamedTuple):
    """A token's kind, its text without quotes, and the character it begins at."""

    kind: TokenKind
    text: str
    at: int

    def is_word(self, *words: str) -> bool:
        """Return whether this is one of the words, without regard to case."""
        return self.kind is TokenKind.NAME and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Return whether this is one of the signs."""
        return self.kind is TokenKind.OPERATOR and self.text in signs

    @property
    def shown(self) -> str:
        """Return the token as an error names it."""
        return "the end" if self.kind is TokenKind.END else repr(self.text)


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


def tokens(text: str, *, ansi_quotes: bool = True) -> Iterator[Token]:
    """Yield the tokens of an expression, at last one of the kind END; raises OptionError.

    Without ``ansi_quotes`` text in double quotes is a literal too.
    """
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            problem = _UNCLOSED.get(text[at], f"{text[at]!r} is not expected here")
            raise expression_error(problem, text, at)
        if found.lastgroup is not None:
            quote = {"LITERAL": "'", "IDENTIFIER": '"'}.get(found.lastgroup, "")
            word = found[found.lastgroup]
            plain = word.replace(quote * 2, quote) if quote else word
            kind = TokenKind[found.lastgroup]
            if kind is TokenKind.IDENTIFIER and not ansi_quotes:
                kind = TokenKind.LITERAL
            yield Token(kind, plain, at)
        at = found.end()
    yield Token(TokenKind.END, "", len(text))


def expression_error(problem: str, text: str, at: int, hint: str = "") -> OptionError:
    """Return an error whose hint shows the expression with a caret below a character."""
    return OptionError(problem, hint=f"{hint or 'Here'}:{caret_below(text, at)}")


def double_quotes_hint(text: str, at: int) -> str:
    """Return a hint if a name is in double quotes: before 12.1 GoldenGate wrote literals so."""
    if not text.startswith('"', at):
        return ""
    end = text.find('"', at + 1)
    literal = text[at + 1 : end] if end > 0 else text[at + 1 :]
    return f"A literal is in single quotes, '{literal}', unless NOUSEANSISQLQUOTES precedes"
