"""Parse expressions: conditions as in FILTER and WHERE, and values as in TOKENS and COLMAP.

A recursive-descent parser turns the tokens of ``syntax`` into a tree of nodes. From weakest to
strongest the operators are OR, AND, NOT, comparisons, sums, products. For example, ``A > 1 AND B =
'X'`` is a Junction of two Comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError, did_you_mean
from trailgate.expressions.functions import FUNCTIONS, REFUSED_FUNCTIONS
from trailgate.expressions.syntax import (
    CONDITIONS,
    EITHER,
    ColumnName,
    Comparison,
    Computation,
    Expression,
    ExpressionToken,
    ExpressionTokenType,
    FunctionCall,
    Junction,
    Negation,
    Node,
    NumberLiteral,
    StateTest,
    TextLiteral,
    expression_error,
    scan_expression,
)

DEEPEST: Final = 60  # the maximum nesting of parentheses, arguments and NOTs
STATES: Final = frozenset({"NULL", "PRESENT", "ABSENT"})
SIGNS: Final = ("=", "<>", "<", "<=", ">", ">=")
SUMS: Final = ("+", "-")
PRODUCTS: Final = ("*", "/", "\\")
# Words that stand for a GGHEADER item of @GETENV (manual H.5.2), and the item.
HEADER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GGS_TRANS_TIMESTAMP": "COMMITTIMESTAMP",
        "GGS_TRANS_RBA": "LOGRBA",
        "GGS_OP_TYPE": "OPTYPE",
        "GGS_BEFORE_AFTER_IND": "BEFOREAFTERINDICATOR",
    }
)
_IMAGES: Final = ("BEFORE", "AFTER")


def parse_condition(text: str, *, ansi_quotes: bool = True) -> Expression:
    """Parse a condition as in FILTER.

    Raises OptionError with a caret. A value is also a condition: it is true unless it is 0.
    """
    return _Parser(text, ansi_quotes).parse_all(_Parser.condition)


def parse_value(text: str, *, ansi_quotes: bool = True) -> Expression:
    """Parse a value as in TOKENS: a literal, number, column, function or computation. Raises OptionError.

    Without ``ansi_quotes``, text in double quotes is a literal and not a column name.
    """
    return _Parser(text, ansi_quotes).parse_all(_Parser.number)


class _Parser:
    """The parser of one expression. Each method parses one rule of the grammar."""

    def __init__(self, text: str, ansi_quotes: bool) -> None:
        self.text, self.index, self.depth = text, 0, 0
        self.tokens = list(scan_expression(text, ansi_quotes=ansi_quotes))

    def parse_all(self, rule: Callable[[_Parser], Node]) -> Expression:
        """Parse the complete expression by a rule. Raises OptionError if text is left over."""
        node, left = rule(self), self.next
        if left.kind is not ExpressionTokenType.END:
            raise self.syntax_error("the end", left)
        return Expression(self.text, node)

    @property
    def next(self) -> ExpressionToken:
        return self.tokens[self.index]

    def take(self) -> ExpressionToken:
        self.index += 1
        return self.tokens[self.index - 1]

    def error(self, problem: str, token: ExpressionToken, hint: str = "") -> OptionError:
        return expression_error(problem, self.text, token.at, hint)

    def expect(self, sign: str) -> ExpressionToken:
        token = self.take()
        if not token.is_sign(sign):
            raise self.syntax_error(f"'{sign}'", token)
        return token

    def syntax_error(self, expected: str, token: ExpressionToken) -> OptionError:
        return self.error(f"expected {expected}, found {token.shown}", token)

    def deeper(self, rule: Callable[[], Node]) -> Node:
        """Parse a nested part of an expression. Raises OptionError if it is nested too deep."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"nested deeper than {DEEPEST}", self.next)
        node = rule()
        self.depth -= 1
        return node

    def condition(self) -> Node:
        return self.join("OR", lambda: self.join("AND", self.negation))

    def join(self, word: str, part: Callable[[], Node]) -> Node:
        at, parts = self.next.at, [part()]
        while self.next.is_word(word):
            self.take()
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts), at)

    def negation(self) -> Node:
        if not self.next.is_word("NOT"):
            return self.comparison()
        at = self.take().at
        return Negation(self.deeper(self.negation), at)

    def comparison(self) -> Node:
        left = self.number()
        if not self.next.is_sign(*SIGNS):
            return left
        sign = self.take()
        state = self.next
        if state.kind is ExpressionTokenType.FUNCTION and state.text.upper() in STATES:
            return self.state_test(left, sign)
        right = self.number()
        for side in (left, right):
            if isinstance(side, CONDITIONS):
                raise expression_error("a condition cannot be compared", self.text, side.at)
        return Comparison(sign.text, left, right, sign.at)

    def state_test(self, left: Node, sign: ExpressionToken) -> Node:
        state = self.take()
        if not isinstance(left, ColumnName):
            raise self.error(f"@{state.text.upper()} can only be compared with a column", state)
        if sign.text not in ("=", "<>"):
            raise self.error(f"@{state.text.upper()} can only be compared by = or <>", sign)
        return StateTest(left, state.text.upper(), sign.text == "<>", left.at)

    def number(self) -> Node:
        """Parse a value, or sums and products of values."""
        return self.parse_chain(SUMS, lambda: self.parse_chain(PRODUCTS, self.operand))

    def parse_chain(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        """Parse operands joined by the given operator signs, such as + and -, from left to right."""
        left = part()
        while self.next.is_sign(*signs):
            sign = self.take()
            right = part()
            # A comparison in parentheses is a condition, with which one cannot compute.
            for side in (left, right):
                if isinstance(side, CONDITIONS):
                    problem = "a condition is not a number"
                    raise expression_error(problem, self.text, side.at)
            if sign.text == "/":
                hint = "The number of digits of a quotient is not documented"
                raise self.error("division is not supported", sign, hint)
            left = Computation(sign.text, left, right, sign.at)
        return left

    def operand(self) -> Node:
        if not self.next.is_sign("("):
            return self.value()
        self.take()
        node = self.deeper(self.condition)
        self.expect(")")
        return node

    def value(self) -> Node:
        token = self.take()
        rule = _VALUES.get(token.kind)
        if rule is not None:
            return rule(self, token)
        # A sign before a number belongs to it. Between two values it would have been taken as an
        # operator.
        if token.is_sign("-", "+") and self.next.kind is ExpressionTokenType.NUMBER:
            return NumberLiteral(token.text + self.take().text, token.at)
        raise self.error(f"expected a column, a literal or a function, found {token.shown}", token)

    def name(self, token: ExpressionToken) -> Node:
        word = token.text.upper()
        # Only BEFORE.COLUMN and AFTER.COLUMN are qualified names here.
        if self.next.is_sign("."):
            self.take()
            named = self.take()
            if word not in _IMAGES or token.kind is not ExpressionTokenType.NAME:
                hint = "Write COLUMN, or BEFORE.COLUMN"
                raise self.error("a column must be named without its table", token, hint)
            if named.kind not in (ExpressionTokenType.NAME, ExpressionTokenType.IDENTIFIER):
                raise self.error(f"expected a column, found {named.shown}", named)
            return ColumnName(named.text, word, token.at)
        if token.kind is ExpressionTokenType.NAME and word in HEADER_WORDS:
            item = TextLiteral(HEADER_WORDS[word], token.at)
            return FunctionCall("GETENV", (TextLiteral("GGHEADER", token.at), item), token.at)
        if token.is_word("AND", "OR", "NOT"):
            raise self.error(f"expected a value, found {word}", token)
        return ColumnName(token.text, None, token.at)

    def call(self, token: ExpressionToken) -> Node:
        name = token.text.upper()
        if name in STATES:
            hint = f"As in COLUMN = @{name}"
            raise self.error(f"@{name} can only be compared with a column", token, hint)
        if name in (*_IMAGES, EITHER):
            return self.of_image(name, token)
        row = FUNCTIONS.get(name)
        if row is None and name in REFUSED_FUNCTIONS:
            raise self.error(f"@{name} is not supported: {REFUSED_FUNCTIONS[name]}", token)
        if row is None:
            near = did_you_mean(name, FUNCTIONS)
            known = ", ".join(f"@{one}" for one in sorted(FUNCTIONS))
            raise self.error(f"unknown function @{name}", token, near or f"Known: {known}")
        given = self.arguments()
        if not row.least <= len(given) <= row.most:
            raise self.error(f"@{name} takes {row.taken}, not {len(given)}", token)
        for at, argument in enumerate(given):
            if isinstance(argument, CONDITIONS) and not row.takes_condition(at):
                raise self.error(f"@{name} does not accept a condition there", token)
        call = FunctionCall(name, given, token.at)
        row.check(call, self.text)
        return call

    def of_image(self, image: str, token: ExpressionToken) -> Node:
        """Parse @BEFORE (column), @AFTER (column) or @BEFOREAFTER (column)."""
        given = self.arguments()
        if len(given) != 1 or not isinstance(given[0], ColumnName) or given[0].image:
            raise self.error(f"@{image} takes one column", token)
        return ColumnName(given[0].name, image, token.at)

    def arguments(self) -> tuple[Node, ...]:
        self.expect("(")
        if self.next.is_sign(")"):
            self.take()
            return ()
        given = [self.deeper(self.condition)]
        while self.next.is_sign(","):
            self.take()
            given.append(self.deeper(self.condition))
        self.expect(")")
        return tuple(given)


# By the type of the token that begins a value.
_VALUES: Final[Mapping[ExpressionTokenType, Callable[[_Parser, ExpressionToken], Node]]] = (
    MappingProxyType(
        {
            ExpressionTokenType.LITERAL: lambda _, token: TextLiteral(token.text, token.at),
            ExpressionTokenType.NUMBER: lambda _, token: NumberLiteral(token.text, token.at),
            ExpressionTokenType.NAME: _Parser.name,
            ExpressionTokenType.IDENTIFIER: _Parser.name,
            ExpressionTokenType.FUNCTION: _Parser.call,
        }
    )
)
