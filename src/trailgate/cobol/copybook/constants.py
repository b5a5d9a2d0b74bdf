"""Values of constants (level 78, and level 01 with CONSTANT): literals, other constants, lengths and offsets of items, and arithmetic of these.

Compilers differ in which operator comes first, so an expression that depends on it is an error (copybooks §2.8). A length or an offset is that of the items before the constant.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.cobol.copybook.layouts import Field, Layout
from trailgate.cobol.copybook.source import Token, TokenKind

Constants = Mapping[str, int | None]
_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = MappingProxyType(
    {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
)
_FIRST: Final = "*/"
_PART: Final = re.compile(r"[()]|[^()]+")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
MOST: Final = 10**18  # that a constant can be
PARTS: Final = 200  # of one expression
_FORM: Final = "A literal, or + - * / of whole numbers, other constants, LENGTH OF and START OF items, and NEXT"


class ItemsBefore(NamedTuple):
    """The items before a constant: what gives their layouts, and the level of the item after it, in whose groups that item is."""

    layouts: Callable[[], list[Layout]]
    next_level: int


class _Part(NamedTuple):
    """A word, or a parenthesis, of an expression."""

    text: str
    token: Token


def constant_value(words: Sequence[Token], constants: Constants, before: ItemsBefore) -> int | None:
    """Return the number that a constant stands for, None for a literal, which has no meaning in a layout; raises DefinitionError."""
    if len(words) == 1 and (
        words[0].kind is TokenKind.LITERAL or constants.get(words[0].upper, 0) is None
    ):
        return None
    parts = [_Part(text, word) for word in words for text in _PART.findall(word.text)]
    if len(parts) > PARTS:
        raise words[0].error(f"a constant of {len(parts)} words")
    found = _Expression(parts, constants, before)
    value = found.sum()
    found.check_end()
    return value


class _Expression:
    def __init__(self, parts: list[_Part], constants: Constants, before: ItemsBefore) -> None:
        self._parts, self._constants, self._before = parts, constants, before
        self._place = 0

    def sum(self) -> int:
        """Return the value of operands and the operators between them."""
        operands, operators = [self._operand()], list[_Part]()
        while (part := self._peek()) is not None and part.text in _OPERATORS:
            self._place += 1
            operators.append(part)
            operands.append(self._operand())
        value = _computed(operands, operators)
        if value != _computed(*_with_first(operands, operators)):
            hint = "Compilers differ in which operator comes first: put ( ) around what is computed first"
            raise operators[0].token.error("the value depends on the order of operators", hint)
        return value

    def check_end(self) -> None:
        """Raise DefinitionError for what follows the expression."""
        if (part := self._peek()) is not None:
            raise part.token.error(f"an operator was expected, not {part.text}", _FORM)

    def _peek(self) -> _Part | None:
        return self._parts[self._place] if self._place < len(self._parts) else None

    def _next(self, what: str) -> _Part:
        part = self._peek()
        if part is None:
            raise self._parts[-1].token.error(f"{what} was expected after {self._parts[-1].text}")
        self._place += 1
        return part

    def _operand(self) -> int:
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
        """Return the length of an item, or its offset in its record."""
        if (of := self._peek()) is not None and of.text.upper() == "OF":
            self._place += 1
        item = self._next("an item")
        names = [item.text.upper()]
        while (word := self._peek()) is not None and word.text.upper() in ("OF", "IN"):
            self._place += 1
            names.append(self._next("a group").text.upper())
        paths = [p for layout in self._before.layouts() for p in _paths(layout.root, ())]
        found = [path[-1] for path in paths if _is_named(path, names)]
        if len(found) != 1:
            problem = f"{len(found) or 'no'} items {item.text} before the constant"
            hint = (
                "OF names its group" if found else "The copybook must have it before the constant"
            )
            raise item.token.error(problem, hint)
        if what == "START":
            return found[0].offset
        if found[0].occurs is not None:
            hint = "Compilers take one element or all of them: write the number"
            raise item.token.error(f"LENGTH OF {item.text}, which occurs", hint)
        if self._before.next_level > found[0].level:
            problem = f"LENGTH OF {item.text}, which has items after the constant too"
            raise item.token.error(problem, "Move the constant after them")
        return found[0].size


def _computed(operands: Sequence[int], operators: Sequence[_Part]) -> int:
    """Return the value from left to right."""
    value = operands[0]
    for part, operand in zip(operators, operands[1:], strict=True):
        if part.text == "/" and (not operand or value % operand):
            raise part.token.error(f"{value} / {operand} is not a whole number")
        value = _OPERATORS[part.text](value, operand)
        if abs(value) > MOST:
            raise part.token.error("a constant of more than 18 digits")
    return value


def _with_first(
    operands: Sequence[int], operators: Sequence[_Part]
) -> tuple[list[int], list[_Part]]:
    """Return operands and operators with products and quotients computed."""
    terms, left = [operands[0]], list[_Part]()
    for part, operand in zip(operators, operands[1:], strict=True):
        if part.text in _FIRST:
            terms[-1] = _computed([terms[-1], operand], [part])
        else:
            terms.append(operand)
            left.append(part)
    return terms, left


def _paths(field: Field, around: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    yield (*around, field)
    for child in field.children:
        yield from _paths(child, (*around, field))


def _is_named(path: Sequence[Field], names: Sequence[str]) -> bool:
    """Return whether an item has a name, and is in groups of the other names, the inner ones first."""
    groups = iter([field.name.upper() for field in reversed(path[:-1])])
    return path[-1].name.upper() == names[0] and all(name in groups for name in names[1:])


def _end_of_last(layouts: Sequence[Layout]) -> int:
    """Return the offset after the last item, in its first element where it occurs."""
    last = list(layouts[-1].root.walk())[-1] if layouts else None
    return 0 if last is None else last.offset + last.size
