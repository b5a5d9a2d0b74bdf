"""GoldenGate's parameter files cut into statements, and statements into clauses.

Lines come from ``parameter_macros``: without comments, with the lines of OBEY and INCLUDE and those that macros stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from trailgate.definitions.parameter_macros import Line, ReadFile, expanded_lines
from trailgate.errors import OptionError, Where

ENDED_BY_SEMICOLON: Final = frozenset({"TABLE", "MAP", "SEQUENCE"})
_QUOTED: Final = r""""[^"]*"|'[^']*'"""
_SEMICOLON: Final = re.compile(rf"{_QUOTED}|(;)")
_PARENTHESIS: Final = re.compile(rf"{_QUOTED}|([()])")
_COMMA: Final = re.compile(rf"{_QUOTED}|([(),])")
_FIRST: Final = re.compile(r"((?:\"(?:[^\"]|\"\")*\"|'[^']*'|[^\s,;\"'])+)[\s,;]*(.*)", re.DOTALL)
_CLAUSE: Final = re.compile(r"[\s,]*(\w+)\s*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One parameter, with the line it begins in; ``&`` and ``;`` are still in the text.

    ``source`` is the file of OBEY or INCLUDE, empty for the file itself. ``ansi_quotes``: literals are in single quotes, names in double quotes.
    """

    line: int
    text: str
    source: str = ""
    ansi_quotes: bool = True

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
        where = Where(source=self.source or None, line=self.line, field=self.keyword)
        return OptionError(problem, where=where, hint=hint)

    def place(self, error: OptionError, field: str | None = None) -> OptionError:
        """Return an error with the statement's place, where it has none of its own."""
        error.with_place(source=self.source or None, line=self.line, field=field or self.keyword)
        return error

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


def statements(text: str, read: ReadFile | None = None) -> Iterator[Statement]:
    """Yield the parameters: one a line, continued by ``&``, or for TABLE and MAP until ``;``.

    ``read`` returns the text of a file that OBEY or INCLUDE names. Raises OptionError.
    """
    ansi_quotes = True
    for one in _statements(expanded_lines(text, read)):
        if one.keyword in ("USEANSISQLQUOTES", "NOUSEANSISQLQUOTES"):
            ansi_quotes = one.keyword == "USEANSISQLQUOTES"
        yield replace(one, ansi_quotes=ansi_quotes)


def _statements(lines: Iterable[Line]) -> Iterator[Statement]:
    begun: Statement | None = None
    for source, number, line in lines:
        if not line or _is_comment(line, inside=begun is not None):
            continue
        begun = Statement(number, line, source) if begun is None else begun.join(line)
        while begun is not None and (end := begun.end) is not None:
            yield replace(begun, text=begun.text[:end])
            rest = begun.text[end:].strip()
            begun = None
            if rest and not _is_comment(rest):
                begun = Statement(number, rest, source)
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


def _is_comment(line: str, *, inside: bool = False) -> bool:
    """Return whether a line is a COMMENT; inside of a statement ``comment = note`` is a column of that name."""
    found = re.match(r"COMMENT\b\s*([=,)]?)", line, re.IGNORECASE)
    return found is not None and not (inside and found[1])


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
