"""Logical lines to tokens: words, literals, periods, and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from trailgate.cobol.copybook.source_lines import SourceLine
from trailgate.errors import DefinitionError, Where


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    LITERAL = "literal"
    PERIOD = "period"
    PSEUDO = "=="
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place; ``first`` marks the first one of its line.

    ``cut`` is the text of that line that is not read because it is after column 72.
    """

    kind: TokenKind
    text: str
    source: str
    line: int
    column: int
    first: bool = False
    cut: str = ""

    @property
    def upper(self) -> str:
        """Return a word in upper case; the empty text for anything else."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    def error(self, problem: str, hint: str = "") -> DefinitionError:
        """Return an error about this place; of a line that column 72 cuts, the hint names what is cut."""
        where = Where(source=self.source, line=self.line, column=self.column)
        if self.cut and not _SEQUENCE.fullmatch(self.cut):
            hint = (
                f"What follows column 72 is not read: {self.cut!r} (a tab can be 8 columns). "
                "Is the source format free?"
            )
        return DefinitionError(problem, where=where, hint=hint)


_SEQUENCE: Final = re.compile(r"\d{1,8}")  # what columns 73 to 80 are for
# A literal may have a prefix: X"C1", N'..', G'..', Z'..', NX'..'.
_LITERAL: Final = re.compile(r"(?:[XNGZU]|NX|BX)?([\"'])", re.IGNORECASE)
# A word ends before a blank, a quote, "==", or a period, comma or semicolon before a blank.
_WORD: Final = re.compile(r"(?:(?![.,;](?:\s|$))(?!==)[^\s\"'])+")
# A point that begins a number or a picture: .25, .99
_POINT: Final = re.compile(r"(?<!\S)\.(?=[\w*+$-])")
_SEPARATOR: Final = re.compile(r"[\s,;]+")


def scan(lines: list[SourceLine], source: str) -> list[Token]:
    """Return the tokens of a copybook; raises DefinitionError for a literal without an end."""
    found: list[Token] = []
    for line in _joined(lines):
        if line.comment:
            found.append(
                Token(TokenKind.COMMENT, line.text.strip(), source, line.number, line.column)
            )
        else:
            found += _scan_line(line, source)
    return found


def _joined(lines: list[SourceLine]) -> Iterator[SourceLine]:
    """Yield lines with their continuations appended."""
    held: SourceLine | None = None
    waiting: list[SourceLine] = []  # comments in between
    for line in lines:
        if line.comment and held is not None:
            waiting.append(line)
        elif line.continued and held is not None:
            text, cut = _continued(held.text, line.text), line.cut or held.cut
            held = SourceLine(held.number, held.column, text, cut=cut)
        else:
            yield from _flush(held, waiting)
            held, waiting = (None, []) if line.comment else (line, [])
            if line.comment:
                yield line
    yield from _flush(held, waiting)


def _flush(held: SourceLine | None, waiting: list[SourceLine]) -> Iterator[SourceLine]:
    if held is not None:
        yield held
    yield from waiting


def _continued(text: str, more: str) -> str:
    """Return a text with its continuation: a literal continues after the first quote."""
    quote = _open_quote(text)
    if quote is None:
        return text.rstrip() + more.strip()
    rest = more.lstrip()
    return text + (rest[1:] if rest[:1] == quote else rest)


def _open_quote(text: str) -> str | None:
    quote = None
    for character in text:
        if quote is None and character in "\"'":
            quote = character
        elif character == quote:
            quote = None
    return quote


def _scan_line(line: SourceLine, source: str) -> Iterator[Token]:
    place, first = 0, True
    text = line.text
    while place < len(text):
        gap = _SEPARATOR.match(text, place)
        if gap:
            place = gap.end()
            continue
        kind, value, end = _token(text, place, line, source)
        yield Token(kind, value, source, line.number, line.column + place, first, line.cut)
        place, first = end, False


def _token(text: str, place: int, line: SourceLine, source: str) -> tuple[TokenKind, str, int]:
    if text.startswith("==", place):
        return TokenKind.PSEUDO, "==", place + 2
    literal = _LITERAL.match(text, place)
    if literal:
        end = _literal_end(text, literal.end(), literal[1])
        if end < 0:
            column = line.column + place
            token = Token(TokenKind.LITERAL, "", source, line.number, column, cut=line.cut)
            raise token.error("a literal without its closing quote")
        return TokenKind.LITERAL, text[place:end], end
    if text[place] == "." and not _POINT.match(text, place):
        return TokenKind.PERIOD, ".", place + 1
    word = _WORD.match(text, place)
    assert word is not None
    return TokenKind.WORD, word[0], word.end()


def _literal_end(text: str, place: int, quote: str) -> int:
    """Return where a literal ends whose content begins at ``place``; -1 if it does not."""
    while True:
        place = text.find(quote, place) + 1
        if not place:
            return -1
        if text[place : place + 1] != quote:
            return place
        place += 1  # doubled: a quote in the text
