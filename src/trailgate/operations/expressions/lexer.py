"""Expressions cut into tokens, and errors with a caret below the place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from trailgate.errors import OptionError, caret_below


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


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression, at last one of the kind END; raises OptionError."""
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
            yield Token(TokenKind[found.lastgroup], plain, at)
        at = found.end()
    yield Token(TokenKind.END, "", len(text))


def expression_error(problem: str, text: str, at: int, hint: str = "") -> OptionError:
    """Return an error whose hint shows the expression with a caret below a character."""
    return OptionError(problem, hint=f"{hint or 'Here'}:{caret_below(text, at)}")
