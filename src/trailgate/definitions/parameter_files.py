"""Split GoldenGate parameter files into statements, and statements into clauses.

``handle_statements`` calls a handler for each statement of an Extract or Replicat file. The values of
a statement that both have, SETENV and table patterns, are parsed here.

The lines come from ``parameter_macros``: comments are removed, OBEY and INCLUDE are replaced by the
lines of their files, and macros are expanded. For example, ``MAP a.t, TARGET b.t;`` is one
statement with the keyword MAP.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from trailgate.definitions.parameter_macros import ParameterLine, ReadFile, expand_macros
from trailgate.errors import OptionError, Where
from trailgate.model.table_names import NAME_PART

ENDED_BY_SEMICOLON: Final = frozenset({"TABLE", "MAP", "SEQUENCE"})
_QUOTED: Final = r""""[^"]*"|'[^']*'"""
# Texts in quotes match as a whole, without a group. So group 1 is only set at a sign outside quotes.
_SEMICOLON: Final = re.compile(rf"{_QUOTED}|(;)")
_PARENTHESIS: Final = re.compile(rf"{_QUOTED}|([()])")
_COMMA: Final = re.compile(rf"{_QUOTED}|([(),])")
# The first word of a statement's rest, in quotes or not, and everything after it: HR."My Table", TARGET ...
_FIRST: Final = re.compile(r"((?:\"(?:[^\"]|\"\")*\"|'[^']*'|[^\s,;\"'])+)[\s,;]*(.*)", re.DOTALL)
_CLAUSE: Final = re.compile(r"[\s,]*(\w+)\s*")


# The variable and value of SETENV (NLS_LANG = "AMERICAN_AMERICA.AL32UTF8"), for example.
_SETENV: Final = re.compile(r"\(\s*(\w+)\s*=\s*(.*?)\s*\)", re.DOTALL)


Draft = TypeVar("Draft")


@dataclass(frozen=True, slots=True)
class ParameterStatement:
    """One statement of a parameter file, and the line on which it starts.

    ``text`` has the keyword and the ``;`` at the end; the ``&`` at the end of a continued line is
    removed. ``source`` is the file of an OBEY or INCLUDE, or "" for the parameter file itself. With
    ``ansi_quotes`` (USEANSISQLQUOTES, the default), literals are in single quotes and names in
    double quotes.
    """

    line: int
    text: str
    source: str = ""
    ansi_quotes: bool = True

    @property
    def keyword(self) -> str:
        """The first word of the parameter statement in upper case, such as MAP."""
        return re.split(r"[\s,;(]", self.text, maxsplit=1)[0].upper()

    @property
    def rest(self) -> str:
        """The text after the keyword of the parameter statement, without the ``;`` at the end."""
        return self.text[len(self.keyword) :].rstrip("; \t").lstrip(", \t")

    @property
    def end(self) -> int | None:
        """The offset in ``text`` at which the parameter statement ends.

        It is None if the statement continues on the next line.
        """
        if self.keyword in ENDED_BY_SEMICOLON:
            mark = _first_mark(_SEMICOLON, self.text)
            return None if mark is None else mark + 1
        return None if self.text.endswith("&") else len(self.text)

    def join(self, line: str) -> ParameterStatement:
        """Return the statement with another line of the parameter file appended."""
        return replace(self, text=f"{self.text.removesuffix('&').rstrip()} {line}")

    def error(self, problem: str, hint: str = "") -> OptionError:
        """Build an error at this statement of a parameter file."""
        where = Where(source=self.source or None, line=self.line, field=self.keyword)
        return OptionError(problem, where=where, hint=hint)

    def place(self, error: OptionError, field: str | None = None) -> OptionError:
        """Add the file, line and keyword of this parameter statement to an error, and return the error.

        What the error already states is kept. ``field`` replaces the keyword.
        """
        error.with_place(source=self.source or None, line=self.line, field=field or self.keyword)
        return error

    def first_word(self, what: str, text: str | None = None) -> tuple[str, str]:
        """Return the first word of a parameter statement's text (with its quotes), and the text after it.

        ``text`` is a part of the statement, or by default the text after its keyword. If it is empty,
        raises OptionError, which states that ``what`` was expected.
        """
        match = _FIRST.match(self.rest if text is None else text)
        if match is None:
            raise self.error(f"expected {what} after {self.keyword}")
        return match.group(1), match.group(2).strip()

    def clauses(self, text: str) -> Iterator[StatementClause]:
        """Yield the clauses in a part of the parameter statement, such as ``COLMAP (...)``.

        A clause is a word, which may have parentheses. Raises OptionError for anything else.
        """
        at = 0
        while text[at:].strip(" \t,"):
            match = _CLAUSE.match(text, at)
            if match is None:
                raise self.error(f"expected an option, found {text[at:].strip()!r}")
            # A clause with parentheses ends at the closing one, any other at the next comma.
            begin, at, argument = match.start(1), match.end(), None
            if text[at : at + 1] == "(":
                close = _closing(text, at)
                if close is None:
                    raise self.error(f"no closing parenthesis after {match[1]}")
                argument, at = text[at + 1 : close].strip(), close + 1
            else:
                at = len(text) - len(text[at:].partition(",")[2])
            yield StatementClause(match[1].upper(), argument, text[begin:at].strip(" \t,"))


class StatementClause(NamedTuple):
    """An option of a parameter: its word, the text in its parentheses (None without parentheses), and its complete text."""

    name: str
    argument: str | None
    text: str


def read_statements(text: str, read: ReadFile | None = None) -> Iterator[ParameterStatement]:
    """Yield the statements of a parameter file. Raises OptionError.

    A parameter is one line, or several if they end with ``&``; TABLE, MAP and SEQUENCE end with
    ``;``. ``read`` returns the text of a file that OBEY or INCLUDE names.
    """
    ansi_quotes = True
    for statement in _statements(expand_macros(text, read)):
        if statement.keyword in ("USEANSISQLQUOTES", "NOUSEANSISQLQUOTES"):
            ansi_quotes = statement.keyword == "USEANSISQLQUOTES"
        yield replace(statement, ansi_quotes=ansi_quotes)


def _statements(lines: Iterable[ParameterLine]) -> Iterator[ParameterStatement]:
    current: ParameterStatement | None = None
    for source, number, line in lines:
        if not line or _is_comment(line, inside=current is not None):
            continue
        current = (
            ParameterStatement(number, line, source) if current is None else current.join(line)
        )
        # A line may contain the end of a statement and the start of the next.
        while current is not None and (end := current.end) is not None:
            yield replace(current, text=current.text[:end])
            rest = current.text[end:].strip()
            current = None
            if rest and not _is_comment(rest):
                current = ParameterStatement(number, rest, source)
    if current is not None:
        expected = "';'" if current.keyword in ENDED_BY_SEMICOLON else "a line after '&'"
        raise current.error(f"expected {expected}, found the end of the file")


def split_list(text: str) -> Iterator[str]:
    """Split a parameter's list at its commas, except commas in quotes or parentheses."""
    begin = depth = 0
    for match in _COMMA.finditer(text):
        sign = match.group(1)
        if sign == "," and depth == 0:
            yield text[begin : match.start()].strip()
            begin = match.end()
        elif sign:
            depth += {"(": 1, ")": -1}.get(sign, 0)
    yield text[begin:].strip()


def unquote(word: str) -> str:
    """Remove the quotes around a word of a parameter file."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _is_comment(line: str, *, inside: bool = False) -> bool:
    """Return True if a line of a parameter file is a COMMENT.

    Inside a statement, ``comment = note`` is a column instead.
    """
    match = re.match(r"COMMENT\b\s*([=,)]?)", line, re.IGNORECASE)
    return match is not None and not (inside and match[1])


def _first_mark(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the offset of a pattern's first match outside quotes in a parameter file's text, or None."""
    return next((match.start(1) for match in pattern.finditer(text) if match.group(1)), None)


def _closing(text: str, at: int) -> int | None:
    """Return where the parenthesis at ``at`` of a parameter statement is closed, or None."""
    depth = 0
    for match in _PARENTHESIS.finditer(text, at):
        if match.group(1):
            depth += 1 if match.group(1) == "(" else -1
            if not depth:
                return match.start()
    return None


def read_table_pattern(statement: ParameterStatement) -> tuple[str, str]:
    """Parse the table pattern at the start of a statement TABLE or MAP of a parameter file. Also returns the text after it."""
    pattern, rest = statement.first_word("a table name")
    parts = NAME_PART.findall(pattern)
    if ".".join(parts) != pattern or (len(parts) < 2 and pattern != "*"):
        raise statement.error(f"expected SCHEMA.TABLE after {statement.keyword}, found {pattern}")
    return pattern, rest


def read_environment_variable(statement: ParameterStatement) -> tuple[str, str]:
    """Parse SETENV of a parameter file. Returns the name and value of the variable."""
    match = _SETENV.search(statement.rest)
    if match is None:
        raise statement.error("expected (NAME = value) after SETENV")
    return match[1], unquote(match[2])


def handle_statements(
    text: str,
    read: ReadFile | None,
    draft: Draft,
    handlers: Mapping[str, Callable[[Draft, ParameterStatement], None]],
    otherwise: Callable[[Draft, ParameterStatement], None],
) -> None:
    """Split a parameter file into statements, and call the handler of each one's keyword.

    ``otherwise`` is called if a keyword has no handler. ``read`` returns the text of an included
    file. Handlers store the parameters in ``draft``. Raises OptionError with the line.
    """
    for statement in read_statements(text, read):
        try:
            handlers.get(statement.keyword, otherwise)(draft, statement)
        except OptionError as error:
            raise statement.place(error) from None
