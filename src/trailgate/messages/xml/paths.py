"""Paths into XML: the part of XPath that rules may use (capture properties §7.3).

    /Orders/Order[@kind = 'new'][2]/Note/text()

A path has steps from the document (``/``), from the current element (``./``) or from an element around it (``../``).
A step is a name or ``*``, below the element before it or, after ``//``, anywhere below it. Predicates in brackets
choose among the elements that a step finds. A path to a value may end with an accessor: ``@name``, ``text()``,
``content()``, ``name()`` or ``position()``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from trailgate.errors import OptionError, caret_below, did_you_mean


class Part(Enum):
    """What of an element is compared, or is its value."""

    ATTRIBUTE = "@"
    TEXT = "text()"
    EXACT_TEXT = "exact text"  # with its blanks, empty where there is none: of built-in rules alone
    CONTENT = "content()"
    NAME = "name()"
    POSITION = "position()"


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a path: ``*`` for any; ``prefix`` is empty where namespaces do not matter."""

    local: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.prefix}:{self.local}" if self.prefix else self.local


ANY: Final = Name("*")


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on an element: its position, or a part of it that equals a text."""

    part: Part
    value: str
    attribute: Name = ANY

    def __str__(self) -> str:
        if self.part is Part.POSITION:
            return f"[{self.value}]"
        part = f"@{self.attribute}" if self.part is Part.ATTRIBUTE else self.part.value
        return f"[{part}='{self.value}']"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: elements of a name below the element before, or ``anywhere`` below it."""

    name: Name
    anywhere: bool = False
    predicates: tuple[Predicate, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}{''.join(map(str, self.predicates))}"


@dataclass(frozen=True, slots=True)
class Accessor:
    """What is taken of the element that a path leads to."""

    part: Part
    attribute: Name = ANY

    def __str__(self) -> str:
        return f"@{self.attribute}" if self.part is Part.ATTRIBUTE else self.part.value


@dataclass(frozen=True, slots=True)
class Path:
    """A path: from the document (``absolute``), or from so many elements ``up``."""

    absolute: bool = False
    up: int = 0
    steps: tuple[Step, ...] = ()
    accessor: Accessor | None = None

    def prefixes(self) -> Iterator[str]:
        """Yield the prefixes of all names in the path."""
        for step in self.steps:
            yield from (step.name.prefix, *(p.attribute.prefix for p in step.predicates))
        if self.accessor is not None:
            yield self.accessor.attribute.prefix

    def __str__(self) -> str:
        text = "/".join([".."] * self.up) if self.up else "" if self.absolute else "."
        for step in self.steps:
            text += ("//" if step.anywhere else "/") + str(step)
        return text or "/" if self.accessor is None else f"{text}/{self.accessor}"


_NAME: Final = r"[^\W\d][\w.\-]*"
_QNAME: Final = rf"(?:{_NAME}:)?{_NAME}(?!:)"
_TOKEN: Final = re.compile(
    rf"""\s*(?:
    (?P<slash>//?) | (?P<up>\.\.) | (?P<here>\.) |
    @\s*(?P<attribute>{_QNAME}) |
    (?P<function>[\w-]+)\s*\(\s*\) |
    (?P<axis>{_NAME})\s*:: |
    (?P<name>{_QNAME}|\*)(?![\w.\-:*]|\s*\() |
    (?P<open>\[)
    )""",
    re.VERBOSE,
)
_PREDICATE: Final = re.compile(
    rf"""\[\s*(?:
    (?P<number>\d+) |
    (?:@\s*(?P<attribute>{_QNAME}) | (?P<function>[\w-]+)\s*\(\s*\))
    \s*=\s*(?:'(?P<single>[^']*)' | "(?P<double>[^"]*)" | (?P<digits>\d+))
    )\s*\]""",
    re.VERBOSE,
)
_FUNCTIONS: Final = {part.value[:-2]: part for part in Part if part.value.endswith("()")}
_COMPARED: Final = (Part.TEXT, Part.NAME, Part.POSITION)
_SUPPORTED: Final = "A path has names, *, /, //, ../, [n], [@a='v'], [text()='v'] and [name()='v']"


def parse_path(text: str, *, value: bool) -> Path:
    """Return a path as it is written; only a path to a ``value`` may have an accessor.

    Raises OptionError, with the path and a caret under the place, for what is not supported.
    """
    return _Parser(text, value=value).path()


def pointed(text: str, at: int, problem: str, hint: str = "") -> OptionError:
    """Return the error of a text, with a caret below the character at fault."""
    return OptionError(problem, hint=f"{hint}:{caret_below(text, at)}")


class _Parser:
    """Reads one path from left to right."""

    def __init__(self, text: str, *, value: bool) -> None:
        self.text, self.value = text, value
        self.at = 0
        self.found = Path()
        self.pending = ""  # the slash that waits for its step

    def path(self) -> Path:
        """Return the path."""
        if not self.text.strip():
            raise pointed(self.text, 0, "the path is empty", _SUPPORTED)
        first = True
        while self.text[self.at :].strip():
            self._token(first=first)
            first = False
        if self.pending and self.text.strip() != "/":
            raise self._error(len(self.text), "a name is expected here")
        return self.found

    def _token(self, *, first: bool) -> None:
        matched = _TOKEN.match(self.text, self.at)
        start = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        if matched is None:
            raise self._error(start, "this is not understood")
        if self.found.accessor is not None:
            raise self._error(start, f"nothing may follow {self.found.accessor}")
        kind, word = next((k, v) for k, v in matched.groupdict().items() if v is not None)
        if kind == "axis":
            raise self._error(start, f"the axis {word}:: is not supported")
        if kind not in {"slash", "open"} and not first and not self.pending:
            raise self._error(start, "a / is expected here")
        self.at = matched.end()
        handlers = {
            "slash": self._slash, "up": self._up, "here": self._here, "attribute": self._attribute,
            "function": self._function, "name": self._name, "open": self._predicate,
        }  # fmt: skip
        handlers[kind](word, start)

    def _slash(self, word: str, start: int) -> None:
        if self.pending:
            raise self._error(start, "a name is expected here")
        if not self.text[:start].strip():
            self.found = replace(self.found, absolute=True)
        self.pending = word

    def _up(self, _: str, start: int) -> None:
        if self.found.steps or self.found.absolute or self.pending == "//":
            raise self._error(start, ".. is supported at the beginning of a path only")
        self.found = replace(self.found, up=self.found.up + 1)
        self.pending = ""

    def _here(self, _: str, start: int) -> None:
        if self.pending or self.found.up:
            raise self._error(start, ". is supported at the beginning of a path only")

    def _attribute(self, word: str, start: int) -> None:
        self._access(Accessor(Part.ATTRIBUTE, _name(word)), start)

    def _function(self, word: str, start: int) -> None:
        if word not in _FUNCTIONS:
            hint = did_you_mean(word, _FUNCTIONS) or f"There are {_list(_FUNCTIONS)}"
            raise self._error(start, f"the function {word}() is not supported", hint)
        self._access(Accessor(_FUNCTIONS[word]), start)

    def _access(self, accessor: Accessor, start: int) -> None:
        if not self.value:
            hint = "A match names elements; values are taken by the rule's other properties"
            raise self._error(start, f"{accessor} is a value, and no element", hint)
        if self.pending == "//":
            raise self._error(start, f"// before {accessor} is not supported", "Write //*/ for //")
        self.found, self.pending = replace(self.found, accessor=accessor), ""

    def _name(self, word: str, _: int) -> None:
        step = Step(_name(word), anywhere=self.pending == "//")
        self.found, self.pending = replace(self.found, steps=(*self.found.steps, step)), ""

    def _predicate(self, _: str, start: int) -> None:
        matched = _PREDICATE.match(self.text, start)
        if not self.found.steps or self.pending:
            raise self._error(start, "a predicate follows a name or *")
        if matched is None:
            hint = "A predicate is [n], [@a='v'], [text()='v'], [name()='v'] or [position()=n]"
            raise self._error(start, "this predicate is not supported", hint)
        step = self.found.steps[-1]
        added = replace(step, predicates=(*step.predicates, self._condition(matched, start)))
        self.found = replace(self.found, steps=(*self.found.steps[:-1], added))
        self.at = matched.end()

    def _condition(self, matched: re.Match[str], start: int) -> Predicate:
        number, attribute = matched["number"], matched["attribute"]
        if number is not None:
            return self._position(number, start)
        given = (matched["single"], matched["double"], matched["digits"])
        value = next(text for text in given if text is not None)
        if attribute is not None:
            return Predicate(Part.ATTRIBUTE, value, _name(attribute))
        part = _FUNCTIONS.get(matched["function"])
        if part not in _COMPARED:
            names = _list(p.value[:-2] for p in _COMPARED)
            raise self._error(
                start, f"{matched['function']}() is not compared", f"There are {names}"
            )
        if part is Part.POSITION:
            return self._position(value, start)
        return Predicate(part, value)

    def _position(self, digits: str, start: int) -> Predicate:
        if not digits.isdecimal() or not 0 < int(digits) < 1 << 31:
            raise self._error(start, "a position counts from 1")
        return Predicate(Part.POSITION, str(int(digits)))

    def _error(self, at: int, problem: str, hint: str = _SUPPORTED) -> OptionError:
        return pointed(self.text, at, problem, hint)


def _name(word: str) -> Name:
    prefix, colon, local = word.partition(":")
    return Name(local, prefix) if colon else Name(word)


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"{name}()" for name in names)
