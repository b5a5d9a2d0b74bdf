"""Conditional text: decide which lines of a copybook are compiled.

Two notations mean the same: the standard's directives (``>>DEFINE``, ``>>IF``, ``>>EVALUATE``) and
those of Micro Focus (``$IF``, ``$SET CONSTANT``). Constants come from an option or from the text
itself. Whether a constant is defined is never guessed: a constant that neither states is an error.
``select_compiled_text`` yields the text words of the lines that are compiled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from trailgate.cobol.copybook.layouts import TextWordUnits
from trailgate.cobol.copybook.source import (
    CopybookToken,
    CopybookTokenType,
    SourceLine,
    join_lines,
    scan_line,
)
from trailgate.errors import OptionError, Where, did_you_mean
from trailgate.options import instance

_LOG: Final = logging.getLogger(__name__)
# One word of a condition: X"41", 'it''s', 3.14, MY-NAME, >=
_WORD: Final = re.compile(
    r"""(?P<literal>[XNB]?(?:"(?:[^"]|"")*"|'(?:[^']|'')*'))|(?P<number>\d+(?:\.\d+)?(?![\w-]))|(?P<word>\w(?:[\w-]*\w)?)|(?P<mark><>|<=|>=|[-=<>()+*/])""",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"\w(?:[\w-]*\w)?")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d+)?")
# >>IF, or Micro Focus's $IF
_DIRECTIVE: Final = re.compile(r"\s*(>>|\$)\s*([A-Za-z0-9-]+)\s*")
# Directives that do not affect the items.
_OTHERS: Final = frozenset(
    {
        "CALLINTERFACE",
        "CALL-CONVENTION",
        "COBOL-WORDS",
        "D",
        "DATA",
        "DISPLAY",
        "FLAG-02",
        "FLAG-14",
        "FLAG-85",
        "FLAG-NATIVE-ARITHMETIC",
        "IMP",
        "INLINE",
        "JAVA-CALLABLE",
        "JAVA-SHAREABLE",
        "LEAP-SECOND",
        "LISTING",
        "NOLIST",
        "LIST",
        "OPTION",
        "PAGE",
        "POP",
        "PROPAGATE",
        "PUSH",
        "REF-MOD-ZERO-LENGTH",
        "REPOSITORY",
        "SOURCE",
        "TURN",
        "XML",
    }
)
# Settings of $SET that change sizes or signs. They are not supported, but warned of.
_LAYOUT_SETTINGS: Final = re.compile(
    r"\b(?:NO)?(IBMCOMP|SIGN|ODOSLIDE|ALIGN|CHARSET)\b", re.IGNORECASE
)
# By the sign: whether it holds if the left side is less (-1), equal (0) or greater (1).
_RELATIONS: Final[Mapping[str, Callable[[int], bool]]] = MappingProxyType(
    {
        "=": lambda order: order == 0,
        "<>": lambda order: order != 0,
        "<": lambda order: order < 0,
        ">": lambda order: order > 0,
        "<=": lambda order: order <= 0,
        ">=": lambda order: order >= 0,
    }
)

_ENDS_IF: Final = frozenset({"END-IF", "END"})
_ENDS_EVALUATE: Final = frozenset({"END-EVALUATE"})

_FORM: Final = "Conditions are NAME IS [NOT] DEFINED, VALUE = VALUE and the like, with AND, OR, NOT and parentheses"


class ConstantState(Enum):
    """The state of a conditional-text constant without a value."""

    OFF = "OFF"  # not defined
    DEFINED = "DEFINED"


Value = Decimal | str | bool | ConstantState
OFF: Final = ConstantState.OFF
DEFINED: Final = ConstantState.DEFINED


@dataclass(slots=True)
class _Branches:
    """The state of an open IF or EVALUATE directive, such as ``>>IF``.

    ``active``: the current branch is compiled. ``taken``: the current or an earlier branch was
    compiled. ``inside``: the text around the IF or EVALUATE is compiled. ``begin`` is the directive
    itself, and ``end`` has the names of the directives that may end it. ``subject`` is the
    expression after EVALUATE.
    """

    begin: CopybookToken
    end: frozenset[str]
    inside: bool
    active: bool = False
    taken: bool = False
    last: bool = False  # after ELSE or WHEN OTHER
    subject: _Expression | None = None

    def take(self, condition: Callable[[], bool]) -> None:
        """Start the next branch. ``condition`` is called only if the branch can be compiled."""
        self.active = self.inside and not self.taken and condition()
        self.taken = self.taken or self.active


@dataclass(slots=True)
class CompileConstants:
    """The constants of conditional text: those ``given`` as options, and those that the text has defined so far.

    ``named`` are the constants set by ``$SET CONSTANT``, which PICTURE and OCCURS clauses can use;
    the value is None if it is not an integer. ``mentioned`` are all words, in capitals, that may be
    names of constants: the words of directives, and of lines that are not compiled.
    """

    given: Mapping[str, Value]
    mentioned: set[str] = field(default_factory=set)  # words that may be names of constants
    defined: dict[str, Value] = field(default_factory=dict)
    named: dict[str, int | None] = field(default_factory=dict)

    def known(self, name: str) -> Value | None:
        """Return the value of a compile-time constant, or None if neither the text nor the option states it."""
        self.mentioned.add(name.upper())
        defined_value = self.defined.get(name.upper())
        return self.given.get(name.upper()) if defined_value is None else defined_value

    def define(self, name: CopybookToken, value: Value, *, override: bool) -> None:
        """Define a compile-time constant, or undefine it (OFF).

        Raises DefinitionError if it already has a different value.
        """
        before = self.known(name.text)
        # A constant may be defined again with the same value.
        is_new = before is None or before is OFF or before == value
        if not (override or value is OFF or is_new):
            problem = (
                f"{name.text} is already {_shown(before)}, but is defined as {_shown(value)} here"
            )
            raise name.error(
                problem, "Add OVERRIDE, or give another value with the option constants"
            )
        self.defined[name.upper] = value


def read_constants(text: str) -> tuple[tuple[str, str], ...]:
    """Parse the option ``constants`` of conditional text: ``NAME=3``, ``NAME='text'``, ``NAME=OFF``, or only ``NAME``.

    ``NAME`` without a value is defined, but has no value. Raises ValueError if a name is invalid or
    repeated, or if nothing follows an equals sign.
    """
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    names = {name.strip().upper() for name, _, _ in pairs}
    if len(names) < len(pairs) or any(mark and not value.strip() for _, mark, value in pairs):
        raise ValueError
    return normalize_constants({name: value if mark else True for name, mark, value in pairs})


def normalize_constants(constants: Any) -> tuple[tuple[str, str], ...]:
    """Normalize a mapping of compile-time constants to pairs of names (in capitals) and text.

    None and False become OFF, True becomes DEFINED. Raises ValueError if the argument is not a
    mapping, or if a name is invalid or repeated.
    """
    constants_by_name: dict[str, str] = {}
    if isinstance(constants, tuple):
        constants = dict(constants)  # constants that were read already
    for key, value in instance(Mapping)(constants).items():
        name = str(key).strip().upper()
        if not _NAME.fullmatch(name) or name in constants_by_name:
            raise ValueError
        is_stated = value is None or isinstance(value, bool)
        constants_by_name[name] = (
            ("DEFINED" if value else "OFF") if is_stated else str(value).strip()
        )
    return tuple(constants_by_name.items())


def parse_constants(pairs: Sequence[tuple[str, str]]) -> CompileConstants:
    """Parse the compile-time constants that were given as an option."""
    return CompileConstants({name: _value_of(text) for name, text in pairs})


def warn_of_unused_constants(
    given: Sequence[tuple[str, str]], mentioned: Collection[str], source: str
) -> None:
    """Log a warning for each constant in the option that no directive uses."""
    for name, _ in given:
        if name not in mentioned:
            hint = did_you_mean(name, mentioned) or "Omit it, or correct its name"
            problem = f"no directive names the constant {name}"
            _LOG.warning("%s", OptionError(problem, where=Where(source=source), hint=hint))


def _shown(value: Value | None) -> str:
    return value.value.lower() if isinstance(value, ConstantState) else str(value)


def _value_of(text: str) -> Value:
    if text.upper() == "OFF":
        return OFF
    if not text or text.upper() == "DEFINED":
        return DEFINED
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def select_compiled_text(
    lines: Sequence[SourceLine], source: str, words: TextWordUnits, constants: CompileConstants
) -> Iterator[list[CopybookToken]]:
    """Yield the text words of a copybook's compiled lines, in pieces between directives.

    The caller processes each piece before the next directive is evaluated, so that a COPY member in
    the piece can define constants for that directive. Raises DefinitionError.
    """
    reader = _Directives(source, constants)
    piece: list[CopybookToken] = []
    for line in join_lines(lines):
        if line.directive or not reader.active:
            constants.mentioned.update(_NAME.findall(line.text.upper()))
        if line.directive:
            if piece:
                yield piece
                piece = []
            reader.obey(line)
        elif reader.active:
            piece += reader.with_constants(list(scan_line(line, source, words)))
    reader.check_end()
    if piece:
        yield piece


class _Directives:
    """Executes the conditional-text directives of one copybook file."""

    def __init__(self, source: str, constants: CompileConstants) -> None:
        self._source, self._constants = source, constants
        self._open: list[_Branches] = []

    @property
    def active(self) -> bool:
        """True if the current line of the copybook is compiled."""
        return not self._open or self._open[-1].active

    def check_end(self) -> None:
        """Raise DefinitionError if an IF or EVALUATE directive is still open at the file's end."""
        if self._open:
            begin = self._open[-1].begin
            ends = " or ".join(sorted(self._open[-1].end))
            raise begin.error(f"{begin.text} without its end", f"Its end is {ends}")

    def obey(self, line: SourceLine) -> None:
        """Execute one conditional-text directive. Raises DefinitionError with its line."""
        match = _DIRECTIVE.match(line.text)
        mark, name, rest = (match[1], match[2].upper(), match.end()) if match else (">>", "", 0)
        column = line.column + (match.start(1) if match else 0)
        token = CopybookToken(
            CopybookTokenType.WORD, mark + name, self._source, line.number, column
        )
        name = {"ELSEIF": "ELIF", "ELSE-IF": "ELIF"}.get(name, name)
        obeys = _OBEYED.get(name)
        if obeys is not None:
            obeys(self, _Expression(token, line, rest, self._constants))
        # A `$` may begin an ordinary word of another dialect, so only an unknown `>>` is an error.
        # In text that is not compiled, a directive of another compiler is none either.
        elif mark == ">>" and name not in _OTHERS and self.active:
            problem = f"{token.text} is not a known directive"
            raise token.error(
                problem, "Known: >>DEFINE, >>IF, >>ELIF, >>ELSE, >>END-IF, >>EVALUATE, ..."
            )

    def with_constants(self, words: list[CopybookToken]) -> list[CopybookToken]:
        """Replace ``CONSTANT FROM name`` by the constant's value, for example ``CONSTANT AS 5``."""
        for at in range(2, len(words) - 1):
            if words[at].upper == "FROM" and words[at - 1].upper in ("CONSTANT", "IS", "GLOBAL"):
                name = words[at + 1]
                value = self._constants.known(name.text)
                if not isinstance(value, Decimal | str):
                    raise name.error(f"the constant {name.text} has no value", _hint(name.text))
                text = str(value) if isinstance(value, Decimal) else f"'{value}'"
                kind = (
                    CopybookTokenType.WORD
                    if isinstance(value, Decimal)
                    else CopybookTokenType.LITERAL
                )
                # ``CONSTANT FROM X`` becomes ``CONSTANT AS value``.
                words[at] = replace(words[at], text="AS")
                words[at + 1] = replace(name, text=text, kind=kind)
        return words

    # The directives. Each is called with its words.

    def begin_if(self, words: _Expression) -> None:
        branches = _Branches(words.token, _ENDS_IF, self.active)
        self._open.append(branches)
        branches.take(words.condition)

    def else_if(self, words: _Expression) -> None:
        self._branches(words, "IF").take(words.condition)

    def otherwise(self, words: _Expression) -> None:
        branches = self._branches(words, "IF")
        branches.take(lambda: True)
        branches.last = True

    def end(self, words: _Expression) -> None:
        if not self._open or words.token.text[1:].lstrip(">") not in self._open[-1].end:
            raise words.token.error(f"{words.token.text} without an IF or EVALUATE before it")
        self._open.pop()

    def evaluate(self, words: _Expression) -> None:
        self._open.append(_Branches(words.token, _ENDS_EVALUATE, self.active, subject=words))

    def when(self, words: _Expression) -> None:
        branches = self._branches(words, "EVALUATE")
        subject = branches.subject
        assert subject is not None
        if words.next_is("OTHER"):
            branches.take(lambda: True)
            branches.last = True
        else:
            branches.take(lambda: words.is_value_of(subject))

    def _branches(self, words: _Expression, begin: str) -> _Branches:
        """Return the open IF or EVALUATE to which a directive such as ``>>ELSE`` belongs.

        Raises DefinitionError if none is open.
        """
        ends = _ENDS_IF if begin == "IF" else _ENDS_EVALUATE
        if not self._open or self._open[-1].end != ends or self._open[-1].last:
            raise words.token.error(f"{words.token.text} without {begin} before it")
        return self._open[-1]

    def define(self, words: _Expression) -> None:
        if not self.active:
            return
        is_named = words.skip("CONSTANT")
        name = words.name()
        words.skip("AS")
        if words.skip("PARAMETER"):
            return  # its value comes from the option, or is unknown
        value = OFF if words.skip("OFF") else DEFINED if words.at_end else words.sum()
        override = words.skip("OVERRIDE")
        words.check_end()
        self._constants.define(name, value, override=override)
        if is_named:
            integer = int(value) if isinstance(value, Decimal) else None
            self._constants.named[name.upper] = integer if integer == value else None

    def set(self, words: _Expression) -> None:
        if not self.active:
            return
        if words.next_is("CONSTANT"):
            self.define(words)
        elif _LAYOUT_SETTINGS.search(words.text):
            problem = f"{words.text.strip()} is not supported"
            hint = "Use the options compiler, binarySizes, signs, depending or codePage instead"
            _LOG.warning("%s", words.token.error(problem, hint))


class _Expression:
    """A recursive-descent evaluator of the words after a directive's name, such as ``>>IF``."""

    def __init__(
        self, token: CopybookToken, line: SourceLine, rest: int, constants: CompileConstants
    ) -> None:
        self.token, self.text, self._constants = token, line.text, constants
        self._words: list[CopybookToken] = []
        self._kinds: list[str] = []
        text = line.text.rstrip()
        end = len(text) - text.endswith(".")
        offset = rest
        while offset < end:
            if text[offset] in " ,;":
                offset += 1
                continue
            match = _WORD.match(text, offset, end)
            if match is None:
                self._kinds.append("bad")
                self._words.append(replace(token, text=text[offset], column=line.column + offset))
                offset += 1
                continue
            self._kinds.append(str(match.lastgroup))
            self._words.append(replace(token, text=match[0], column=line.column + offset))
            offset = match.end()
        self._position = 0

    @property
    def at_end(self) -> bool:
        """True if no words of the directive are left, except OVERRIDE."""
        return self._position >= len(self._words) or self.next_is("OVERRIDE")

    def next_is(self, *texts: str) -> bool:
        """Return True if the directive's next word is one of ``texts``."""
        return self._position < len(self._words) and self._words[self._position].upper in texts

    def skip(self, *texts: str) -> bool:
        """Skip the directive's next word if it is one of ``texts``. Return True if it was."""
        if skipped := self.next_is(*texts):
            self._position += 1
        return skipped

    def _next(self, what: str) -> tuple[str, CopybookToken]:
        if self._position >= len(self._words):
            raise self.token.error(f"{what} was expected after {self.text.strip()}")
        self._position += 1
        return self._kinds[self._position - 1], self._words[self._position - 1]

    def name(self) -> CopybookToken:
        """Consume and return the name of a compile-time constant."""
        kind, word = self._next("a name")
        if kind != "word":
            raise word.error(f"a name was expected, not {word.text}")
        return word

    def check_end(self) -> None:
        """Raise DefinitionError if words of the directive are left over."""
        if self._position < len(self._words):
            word = self._words[self._position]
            raise word.error(f"{word.text} is not part of a condition", _FORM)

    def condition(self) -> bool:
        """Evaluate the remaining words of a directive such as ``>>IF`` as its condition."""
        result = self._any()
        self.check_end()
        return result

    def _any(self) -> bool:
        result = self._all()
        while self.skip("OR"):
            result = self._all() or result  # always evaluated, so that its words are consumed
        return result

    def _all(self) -> bool:
        result = self._not()
        while self.skip("AND"):
            result = self._not() and result
        return result

    def _not(self) -> bool:
        if self.skip("NOT"):
            return not self._not()
        if self.next_is("(") and self._encloses_condition():
            self._position += 1
            result = self._any()
            if not self.skip(")"):
                raise self.token.error(f"a parenthesis is not closed: {self.text.strip()}")
            return result
        return self._relation()

    def _encloses_condition(self) -> bool:
        """Return True if the next word, a parenthesis of a directive, encloses a condition.

        In ``(A + 1) * 2 = 6`` it does not: an operator follows the closing parenthesis.
        """
        depth = 0
        for index in range(self._position, len(self._words)):
            text = self._words[index].text
            depth += (text == "(") - (text == ")")
            if not depth:
                after = self._words[index + 1 : index + 2]
                return not after or after[0].upper in ("AND", "OR", ")")
        return True

    def _relation(self) -> bool:
        """Evaluate ``NAME IS [NOT] DEFINED``, a comparison, or a constant that is a condition itself."""
        begin = self._position
        if begin < len(self._words) and self._kinds[begin] == "word":
            # Try ``NAME IS DEFINED`` first, and go back if it is something else.
            name = self.name()
            self.skip("IS")
            negated = self.skip("NOT")
            if self.skip("DEFINED", "SET"):
                return (self._known(name) is not OFF) is not negated
            self._position = begin
        left = self.sum()
        stated = self.skip("IS")
        negated = self.skip("NOT")
        relation = self._operator()
        if relation is None:
            if stated or negated or not isinstance(left, bool | ConstantState):
                raise self.token.error(f"not a condition: {self.text.strip()}", _FORM)
            return left is DEFINED or left is True
        return self._compare(left, relation, self.sum()) is not negated

    def _operator(self) -> str | None:
        """Consume a comparison operator of a directive, such as ``<=`` or ``GREATER THAN``.

        Return None if there is none.
        """
        for mark in _RELATIONS:
            if self.skip(mark):
                return mark
        if self.skip("EQUAL", "EQUALS"):
            self.skip("TO")
            return "="
        if self.next_is("GREATER", "LESS"):
            mark = ">" if self.skip("GREATER") else "<"
            self._position += mark == "<"
            self.skip("THAN")
            if self.skip("OR"):
                self.skip("EQUAL")
                self.skip("TO")
                return mark + "="
            return mark
        return None

    def _compare(self, left: Value, relation: str, right: Value) -> bool:
        """Compare two values of a directive. A constant without a value makes the result False."""
        if isinstance(left, ConstantState) or isinstance(right, ConstantState):
            if DEFINED in (left, right):
                problem = f"a constant without a value equals nothing: {self.text.strip()}"
                _LOG.warning("%s", self.token.error(problem, "Give its value: NAME=VALUE"))
            return False
        if isinstance(left, bool) and isinstance(right, bool):
            return _RELATIONS[relation](left - right)
        if isinstance(left, Decimal) and isinstance(right, Decimal):
            return _RELATIONS[relation](int(left.compare(right)))
        if isinstance(left, str) and isinstance(right, str):
            width = max(len(left), len(right))
            one, other = left.ljust(width), right.ljust(width)
            return _RELATIONS[relation]((one > other) - (one < other))
        problem = f"a number and a text cannot be compared: {self.text.strip()}"
        raise self.token.error(problem, "Put text in quotes, in the option constants too")

    def is_value_of(self, subject: _Expression) -> bool:
        """Return True if this WHEN matches the subject of its EVALUATE."""
        subject._position = 0  # it is read again for each WHEN
        if subject.next_is("TRUE", "FALSE"):
            return self.condition() is subject.next_is("TRUE")
        wanted = subject.sum()
        subject.check_end()
        low = self.sum()
        if self.skip("THRU", "THROUGH"):
            matched = self._compare(wanted, ">=", low) and self._compare(wanted, "<=", self.sum())
        else:
            matched = self._compare(wanted, "=", low)
        self.check_end()
        return matched

    def sum(self) -> Value:
        """Evaluate a literal, a compile-time constant, or arithmetic with them."""
        value = self._product()
        while self.next_is("+", "-"):
            _, mark = self._next("an operator")
            left, right = self._numbers(mark, value, self._product())
            value = left + right if mark.text == "+" else left - right
        return value

    def _product(self) -> Value:
        value = self._operand()
        while self.next_is("*", "/"):
            _, mark = self._next("an operator")
            left, right = self._numbers(mark, value, self._operand())
            if mark.text == "/" and not right:
                raise mark.error("a division by zero")
            value = left * right if mark.text == "*" else Decimal(int(left / right))
        return value

    def _numbers(self, mark: CopybookToken, left: Value, right: Value) -> tuple[Decimal, Decimal]:
        """Return the two operands if both are numbers.

        Otherwise raises DefinitionError at the operator ``mark``.
        """
        if isinstance(left, Decimal) and isinstance(right, Decimal):
            return left, right
        raise mark.error(f"{mark.text} needs two numbers")

    def _operand(self) -> Value:
        kind, word = self._next("a value")
        if kind == "number":
            return Decimal(word.text)
        if word.text in ("-", "+"):
            _, number = self._numbers(word, Decimal(0), self._operand())
            return -number if word.text == "-" else number
        if word.text == "(":
            value = self.sum()
            if not self.skip(")"):
                raise word.error("a parenthesis is not closed")
            return value
        if kind == "literal":
            return _literal(word)
        if kind != "word":
            raise word.error(f"a value was expected, not {word.text}", _FORM)
        return self._known(word)

    def _known(self, name: CopybookToken) -> Value:
        value = self._constants.known(name.text)
        if value is None:
            raise name.error(f"the constant {name.text} is not known", _hint(name.text))
        return value


def _literal(word: CopybookToken) -> Value:
    """Return the value of a directive's literal. A bit literal, ``B'1'``, is True or False."""
    prefix, text = (
        (word.text[0].upper(), word.text[1:]) if word.text[0].isalpha() else ("", word.text)
    )
    content = text[1:-1].replace(2 * text[0], text[0])
    if prefix == "B":
        return content.strip("0") != ""
    if prefix:
        raise word.error(
            f"the literal {word.text} is not supported in a directive",
            "Supported: text, numbers and B'1'",
        )
    return content


def _hint(name: str) -> str:
    return f"Set it with the option constants: {name}=VALUE, or {name}=OFF if it is not defined"


# By the name of a directive after >> or $.
_OBEYED: Final[Mapping[str, Callable[[_Directives, _Expression], None]]] = MappingProxyType(
    {
        "IF": _Directives.begin_if,
        "ELIF": _Directives.else_if,
        "ELSE": _Directives.otherwise,
        "END-IF": _Directives.end,
        "END": _Directives.end,
        "EVALUATE": _Directives.evaluate,
        "WHEN": _Directives.when,
        "END-EVALUATE": _Directives.end,
        "DEFINE": _Directives.define,
        "SET": _Directives.set,
    }
)
