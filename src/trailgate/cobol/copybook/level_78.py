"""Evaluate the constants of a copybook (level 78, and level 01 with CONSTANT).

A constant's value is a literal, or arithmetic with whole numbers, other constants, and the lengths
and offsets of items: ``78 BUF-LEN VALUE LENGTH OF HEADER + 4.`` Compilers disagree on operator
precedence, so an expression whose value depends on it is an error (copybooks §2.8). Only items
before the constant can be used.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout
from trailgate.cobol.copybook.source import CopybookToken, CopybookTokenType

Constants = Mapping[str, int | None]
_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = MappingProxyType(
    {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
)
_FIRST: Final = "*/"
# (2*N)+1 has the parts ( 2*N ) +1
_PART: Final = re.compile(r"[()]|[^()]+")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
MOST: Final = 10**18  # the largest absolute value of a constant
PARTS: Final = 200  # the most words in one expression
_FORM: Final = "A literal, or + - * / of whole numbers, other constants, LENGTH OF and START OF items, and NEXT"


class ItemsBefore(NamedTuple):
    """What a constant's expression may refer to: the items before it.

    ``layouts`` returns their layouts. ``next_level`` is the level of the next item: it shows
    whether the next item is still inside the groups that precede the constant.
    """

    layouts: Callable[[], list[CopybookLayout]]
    next_level: int


class _Part(NamedTuple):
    """One symbol of a constant's expression, such as ``LENGTH``, ``12`` or ``+``, and its token."""

    text: str
    token: CopybookToken


def evaluate_constant(
    words: Sequence[CopybookToken], constants: Constants, before: ItemsBefore
) -> int | None:
    """Evaluate a constant of level 78 or 01: return its number, or None if it is text, which layouts do not use.

    Raises DefinitionError if the expression is wrong.
    """
    if len(words) == 1 and (
        words[0].kind is CopybookTokenType.LITERAL or constants.get(words[0].upper, 0) is None
    ):
        return None
    parts = [_Part(text, word) for word in words for text in _PART.findall(word.text)]
    if len(parts) > PARTS:
        raise words[0].error(f"the constant has {len(parts)} words, at most {PARTS} are allowed")
    expression = _Expression(parts, constants, before)
    value = expression.sum()
    expression.check_end()
    return value


class _Expression:
    """A recursive-descent evaluator of the expression of one level-78 constant."""

    def __init__(self, parts: list[_Part], constants: Constants, before: ItemsBefore) -> None:
        self._parts, self._constants, self._before = parts, constants, before
        self._position = 0

    def sum(self) -> int:
        """Evaluate a constant's operands and operators, up to a closing parenthesis or the end.

        The value is computed both left to right and with precedence. Raises DefinitionError if they
        differ.
        """
        operands, operators = [self._operand()], list[_Part]()
        while (part := self._peek()) is not None and part.text in _OPERATORS:
            self._position += 1
            operators.append(part)
            operands.append(self._operand())
        value = _compute(operands, operators)
        if value != _compute(*_with_first(operands, operators)):
            hint = "Compilers differ in the order of operators: put ( ) around the part to compute first"
            raise operators[0].token.error("the value depends on the order of operators", hint)
        return value

    def check_end(self) -> None:
        """Raise DefinitionError if anything follows the constant's expression."""
        if (part := self._peek()) is not None:
            raise part.token.error(f"an operator was expected, not {part.text}", _FORM)

    def _peek(self) -> _Part | None:
        return self._parts[self._position] if self._position < len(self._parts) else None

    def _next(self, what: str) -> _Part:
        part = self._peek()
        if part is None:
            raise self._parts[-1].token.error(f"{what} was expected after {self._parts[-1].text}")
        self._position += 1
        return part

    def _operand(self) -> int:
        """Evaluate a number, constant, parenthesized expression, NEXT, LENGTH OF or START OF."""
        part = self._next("a number")
        word = part.text.upper()
        if part.text == "(":
            value = self.sum()
            if (end := self._next("a closing parenthesis")).text != ")":
                raise end.token.error(f"a closing parenthesis was expected, not {end.text}")
            return value
        if _INTEGER.fullmatch(part.text):
            return int(part.text)
        constant = self._constants.get(word)
        if constant is not None:
            return constant
        if word == "NEXT":
            return _end_of_last(self._before.layouts())
        if word in ("LENGTH", "START"):
            return self._of_item(word)
        problem = f"{part.text} is not a whole number or a constant before this one"
        raise part.token.error(problem, _FORM)

    def _of_item(self, what: str) -> int:
        """Return the length of an item in bytes, or its offset in the record if ``what`` is START."""
        if (of := self._peek()) is not None and of.text.upper() == "OF":
            self._position += 1
        item = self._next("an item")
        names = [item.text.upper()]
        while (word := self._peek()) is not None and word.text.upper() in ("OF", "IN"):
            self._position += 1
            names.append(self._next("a group").text.upper())
        paths = [p for layout in self._before.layouts() for p in _paths(layout.root, ())]
        matches = [path[-1] for path in paths if _is_named(path, names)]
        if len(matches) != 1:
            problem = f"{len(matches) or 'no'} items {item.text} before the constant"
            hint = (
                "OF names its group" if matches else "The copybook must have it before the constant"
            )
            raise item.token.error(problem, hint)
        if what == "START":
            return matches[0].offset
        if matches[0].occurs is not None:
            hint = "Some compilers count one element, others all of them: write the number"
            raise item.token.error(f"LENGTH OF {item.text}, which occurs", hint)
        if self._before.next_level > matches[0].level:
            problem = f"LENGTH OF {item.text}, which has items after the constant too"
            raise item.token.error(problem, "Move the constant after them")
        return matches[0].size


def _compute(operands: Sequence[int], operators: Sequence[_Part]) -> int:
    """Compute a constant's value strictly from left to right.

    Raises DefinitionError for a quotient with a remainder, and for more than 18 digits.
    """
    value = operands[0]
    for part, operand in zip(operators, operands[1:], strict=True):
        # A quotient with a remainder is refused instead of cut off.
        if part.text == "/" and (not operand or value % operand):
            raise part.token.error(f"{value} / {operand} is not a whole number")
        value = _OPERATORS[part.text](value, operand)
        if abs(value) > MOST:
            raise part.token.error("the constant has more than 18 digits")
    return value


def _with_first(
    operands: Sequence[int], operators: Sequence[_Part]
) -> tuple[list[int], list[_Part]]:
    """Compute a constant's products and quotients; return the remaining operands and operators.

    For example, ``2 + 3 * 4`` becomes the operands 2 and 12, and the operator ``+``.
    """
    terms, left = [operands[0]], list[_Part]()
    for part, operand in zip(operators, operands[1:], strict=True):
        if part.text in _FIRST:
            terms[-1] = _compute([terms[-1], operand], [part])
        else:
            terms.append(operand)
            left.append(part)
    return terms, left


def _paths(
    field: CopybookField, around: tuple[CopybookField, ...]
) -> Iterator[tuple[CopybookField, ...]]:
    yield (*around, field)
    for child in field.children:
        yield from _paths(child, (*around, field))


def _is_named(path: Sequence[CopybookField], names: Sequence[str]) -> bool:
    """Return True if the path ends in ``names[0]`` and has the other names as groups, innermost first."""
    groups = iter([field.name.upper() for field in reversed(path[:-1])])
    # ``in`` consumes the iterator up to the match, so the names must occur in this order, with
    # others between them.
    return path[-1].name.upper() == names[0] and all(name in groups for name in names[1:])


def _end_of_last(layouts: Sequence[CopybookLayout]) -> int:
    """Return the offset after the last item, which is the value of NEXT; 0 without items.

    Of a repeated item, only the first element is counted.
    """
    last = list(layouts[-1].root.walk())[-1] if layouts else None
    return 0 if last is None else last.offset + last.size
