"""GoldenGate's parameter files cut into statements, and statements into clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from trailgate.errors import OptionError, Where

ENDED_BY_SEMICOLON: Final = frozenset({"TABLE", "MAP", "SEQUENCE"})
_QUOTED: Final = r""""[^"]*"|'[^']*'"""
_COMMENT: Final = re.compile(rf"{_QUOTED}|((?:(?<=\s)|^)--)")
_SEMICOLON: Final = re.compile(rf"{_QUOTED}|(;)")
_PARENTHESIS: Final = re.compile(rf"{_QUOTED}|([()])")
_COMMA: Final = re.compile(rf"{_QUOTED}|([(),])")
_FIRST: Final = re.compile(r"((?:\"(?:[^\"]|\"\")*\"|'[^']*'|[^\s,;\"'])+)[\s,;]*(.*)", re.DOTALL)
_CLAUSE: Final = re.compile(r"[\s,]*(\w+)\s*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One parameter, with the line it begins in; ``&`` and ``;`` are still in the text."""

    line: int
    text: str

    @property
    def keyword(self) -> str:
        """Return the parameter's name in upper case."""
        return re.split(r"[\s,;(]", self.text, maxsplit=1)[0].upper()

    @property
    def rest(self) -> str:
        """Return what follows the name."""
        return self.text[len(self.keyword) :].rstrip("; \t").lstrip(", \t")

    @property
    def end(self) -> int | None:
        """Return where the parameter's text ends, or None if it continues in the next line."""
        if self.keyword in ENDED_BY_SEMICOLON:
            found = _first_mark(_SEMICOLON, self.text)
            return None if found is None else found + 1
        return None if self.text.endswith("&") else len(self.text)

    def join(self, line: str) -> Statement:
        """Return the statement with a further line."""
        return replace(self, text=f"{self.text.removesuffix('&').rstrip()} {line}")

    def error(self, problem: str, hint: str = "") -> OptionError:
        """Return an error placed at the statement."""
        return OptionError(problem, where=Where(line=self.line, field=self.keyword), hint=hint)

    def first(self, what: str, text: str | None = None) -> tuple[str, str]:
        """Return the first word of the parameter, or of a part of it, quotes kept, and what follows."""
        found = _FIRST.match(self.rest if text is None else text)
        if found is None:
            raise self.error(f"expected {what} after {self.keyword}")
        return found.group(1), found.group(2).strip()

    def clauses(self, text: str) -> Iterator[Clause]:
        """Yield the clauses of a part of the statement: words, some with parentheses."""
        at = 0
        while text[at:].strip(" \t,"):
            found = _CLAUSE.match(text, at)
            if found is None:
                raise self.error(f"expected an option, found {text[at:].strip()!r}")
            begin, at, argument = found.start(1), found.end(), None
            if text[at : at + 1] == "(":
                close = _closing(text, at)
                if close is None:
                    raise self.error(f"no closing parenthesis after {found[1]}")
                argument, at = text[at + 1 : close].strip(), close + 1
            else:
                at = len(text) - len(text[at:].partition(",")[2])
            yield Clause(found[1].upper(), argument, text[begin:at].strip(" \t,"))


class Clause(NamedTuple):
    """An option's word, what is in its parentheses (None where it has none), and the whole as it is written."""

    name: str
    argument: str | None
    text: str


def statements(text: str) -> Iterator[Statement]:
    """Yield the parameters: one a line, continued by ``&``, or for TABLE until ``;``."""
    begun: Statement | None = None
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = _remove_comments(raw).strip()
        if not line or re.match(r"COMMENT\b", line, re.IGNORECASE):
            continue
        begun = Statement(number, line) if begun is None else begun.join(line)
        while begun is not None and (end := begun.end) is not None:
            yield replace(begun, text=begun.text[:end])
            rest = begun.text[end:].strip()
            begun = Statement(number, rest) if rest else None
    if begun is not None:
        due = "';'" if begun.keyword in ENDED_BY_SEMICOLON else "a line after '&'"
        raise begun.error(f"expected {due}, found the end of the file")


def parts(text: str) -> Iterator[str]:
    """Yield the parts of a list with commas; those in quotes or parentheses do not count."""
    begin = depth = 0
    for found in _COMMA.finditer(text):
        sign = found.group(1)
        if sign == "," and depth == 0:
            yield text[begin : found.start()].strip()
            begin = found.end()
        elif sign:
            depth += {"(": 1, ")": -1}.get(sign, 0)
    yield text[begin:].strip()


def unquote(word: str) -> str:
    """Return a word without the quotes around it."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _remove_comments(line: str) -> str:
    at = _first_mark(_COMMENT, line)
    return line if at is None else line[:at]


def _first_mark(pattern: re.Pattern[str], text: str) -> int | None:
    """Return where the pattern's group first occurs outside quotes."""
    return next((found.start(1) for found in pattern.finditer(text) if found.group(1)), None)


def _closing(text: str, at: int) -> int | None:
    """Return where the parenthesis that opens at a place is closed."""
    depth = 0
    for found in _PARENTHESIS.finditer(text, at):
        if found.group(1):
            depth += 1 if found.group(1) == "(" else -1
            if not depth:
                return found.start()
    return None
