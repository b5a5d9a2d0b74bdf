"""Copybook text to tokens: words, literals, periods, and comments.

Text is cut into logical lines first: columns are cut, comments, continuations and directives are marked. A line is then scanned into text words, the units
that COPY REPLACING and REPLACE compare (``replacing``). Text words without blanks between them are joined at the end, since ``9(2)`` is four text words
and one picture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.layouts import SourceFormat, TextWords
from trailgate.errors import DefinitionError, Where

TAB: Final = 8
INDICATOR, TEXT, END = 6, 7, 72  # columns 7, 8 and 73, counted from 0
_SEQUENCE: Final = re.compile(r"( {6}|\S{1,6} {0,5})")
_INDICATORS: Final = frozenset(" */-Dd$")
_FREE_COMMENT: Final = re.compile(r"\s*\*")
_CONTINUED: Final = re.compile(r"-\s+[\"']")
# A comment inside a line begins at "*>" after a separator; literals may contain it.
_INLINE: Final = re.compile(r"""("[^"]*(?:"|$)|'[^']*(?:'|$))|(?:^|(?<=[\s.,;]))\*>.*""")
_LISTING: Final = re.compile(r"(EJECT|SKIP[123]|TITLE|\*?CBL|\*CONTROL|PROCESS)\b", re.IGNORECASE)
# A line of the standard's directives, or of Micro Focus' that concern what is compiled. Other lines with a $ are comments, such as $XFD.
_DIRECTIVE: Final = re.compile(
    r"\s*(?:>>|\$\s*(?:IF|ELSE|ELIF|ELSE-?IF|END|END-IF|SET)(?![\w-]))", re.IGNORECASE
)
_FORMAT_DIRECTIVE: Final = re.compile(
    r"""\s*(?:>>\s*SOURCE\s+(?:FORMAT\s+)?(?:IS\s+)?|\$\s*SET\s+SOURCEFORMAT\s*\(?\s*)["']?(FREE|FIXED)\b""",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The text of one line: ``column`` is that of its first character, both counted from 1.

    ``continued``: the text continues that of the line before. ``cut`` is what follows the last column that is read. A ``directive`` is not part of the
    description: it states which lines are.
    """

    number: int
    column: int
    text: str
    comment: bool = False
    continued: bool = False
    cut: str = ""
    directive: bool = False


def read_lines(text: str, form: SourceFormat = SourceFormat.AUTO) -> list[SourceLine]:
    """Return a copybook's lines, without those that only concern listings.

    A directive such as ``>>SOURCE FORMAT IS FREE`` changes the format of the lines after it.
    """
    lines = [line.expandtabs(TAB) for line in text.replace("\x1a", "").splitlines()]
    parts = _format_parts(lines)
    fixed = form is SourceFormat.FIXED or (form is SourceFormat.AUTO and looks_fixed(parts[0][1]))
    found: list[SourceLine] = []
    number = 1
    for stated, part in parts:
        fixed = fixed if stated is None else stated == "FIXED"
        found += _fixed_lines(part, number) if fixed else _free_lines(part, number)
        number += len(part)
    return [line for line in found if line.comment or not _LISTING.match(line.text.strip())]


def _format_parts(lines: list[str]) -> list[tuple[str | None, list[str]]]:
    """Split lines before each directive that states their format."""
    parts: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in lines:
        found = _FORMAT_DIRECTIVE.match(line) or _FORMAT_DIRECTIVE.match(line[INDICATOR:])
        if found is not None:
            parts.append((found[1].upper(), []))
        parts[-1][1].append(line)
    return parts


def looks_fixed(lines: list[str]) -> bool:
    """Return whether every line can be fixed format.

    Columns 1 to 6 hold a sequence number or nothing, never the beginning of an entry, and column 7
    an indicator. A comment or a directive that begins in column 1 fits both.
    """
    return all(
        _can_be_fixed(line)
        for line in lines
        if line.strip() and line[0] != "*" and not _DIRECTIVE.match(line)
    )


def _can_be_fixed(line: str) -> bool:
    head = line[:INDICATOR].ljust(INDICATOR)
    if not _SEQUENCE.fullmatch(head):
        return False
    indicator = line[INDICATOR : INDICATOR + 1] or " "
    # "01 HEADER." has a D in column 7; a real D is followed by a blank.
    entry = re.match(r"\d{1,2} ", head) and not head[2:].isdigit()
    return not entry and (indicator in _INDICATORS or (indicator.isdigit() and not head.strip()))


def _directive_in(line: str, number: int) -> SourceLine | None:
    """Return the directive on a line of fixed format, which may begin in any column from 7, or in the first one."""
    for begin in (INDICATOR, 0):
        if _DIRECTIVE.match(line, begin):
            text = _remove_comments(line[begin:END])
            return SourceLine(number, begin + 1, text, directive=True)
    return None


def _fixed_lines(lines: list[str], first: int) -> Iterator[SourceLine]:
    for number, line in enumerate(lines, first):
        directive = _directive_in(line, number)
        if directive is None:
            yield from _fixed_line(line, number)
        else:
            yield directive


def _fixed_line(line: str, number: int) -> Iterator[SourceLine]:
    """Yield what a line is, nothing for one that is not compiled."""
    text = _remove_comments(line[TEXT:END])
    cut = line[END:].strip() if text == line[TEXT:END] else ""
    mark = line[INDICATOR : INDICATOR + 1]
    if line[:1] == "*":
        yield SourceLine(number, 2, line[1:], comment=True)
    elif mark in ("*", "/", "$"):
        yield SourceLine(number, TEXT + 1, text, comment=True)
    elif mark in ("D", "d"):
        return  # compiled with a debugging switch only
    elif mark == "-":
        yield SourceLine(number, TEXT + 1, text, continued=True, cut=cut)
    elif mark.isdigit():
        whole = (mark + text).ljust(END - INDICATOR)
        yield SourceLine(number, INDICATOR + 1, whole, cut=cut)
    elif text.lstrip()[:1] == "*":
        yield SourceLine(number, TEXT + 1, text.lstrip()[1:], comment=True)  # one column too far
    elif _CONTINUED.match(text):
        yield SourceLine(number, TEXT + 1, text[1:], continued=True, cut=cut)  # likewise
    elif text.strip():
        # A literal may continue on the next line: blanks up to the last column count then.
        yield SourceLine(number, TEXT + 1, text.ljust(END - TEXT), cut=cut)


def _remove_comments(text: str) -> str:
    """Return the text of a line without the comment at its end."""
    return _INLINE.sub(lambda found: found[1] or "", text)


def _free_lines(lines: list[str], first: int) -> Iterator[SourceLine]:
    for number, line in enumerate(lines, first):
        if _DIRECTIVE.match(line):
            yield SourceLine(number, 1, _remove_comments(line), directive=True)
        elif _FREE_COMMENT.match(line):
            text = line.strip().lstrip("*>")
            yield SourceLine(number, line.index("*") + 2, text, comment=True)
        elif line.strip():
            yield SourceLine(number, 1, _remove_comments(line))


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

    ``cut`` is the text of that line that is not read because it is after column 72. A ``glued`` token follows the one before it without a blank.
    """

    kind: TokenKind
    text: str
    source: str
    line: int
    column: int
    first: bool = False
    cut: str = ""
    glued: bool = False

    @property
    def upper(self) -> str:
        """Return a word in upper case; the empty text for anything else."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    def error(self, problem: str, hint: str = "") -> DefinitionError:
        """Return an error about this place; of a line that column 72 cuts, the hint names what is cut."""
        where = Where(source=self.source, line=self.line, column=self.column)
        if self.cut and not _SEQUENCE_WORD.fullmatch(self.cut):
            hint = (
                f"What follows column 72 is not read: {self.cut!r} (a tab can be 8 columns). "
                "Is the source format free?"
            )
        return DefinitionError(problem, where=where, hint=hint)


_SEQUENCE_WORD: Final = re.compile(r"\d{1,8}")  # what columns 73 to 80 are for
# A literal may have a prefix: X"C1", N'..', G'..', Z'..', NX'..'.
_LITERAL: Final = re.compile(r"(?:[XNGZU]|NX|BX)?([\"'])", re.IGNORECASE)
# A period, comma or semicolon is a separator before a blank and at each end: of a line, and of pseudo-text.
_AT_END: Final = r"(?=\s|==|$)"
_PERIOD: Final = re.compile(rf"\.(?:{_AT_END}|(?![\w*+$(),:-]))")
_GAP: Final = re.compile(rf"(?:\s|[,;]{_AT_END})+")
_LEADING_GAP: Final = re.compile(r"[\s,;]+")
_SPECIAL: Final = r"():#@&%<>!?|~^{}\[\]\\`"
_WORD: Final = rf"(?:(?![.,;]{_AT_END})(?!==)[^\s\"'{_SPECIAL}])+"
# Text words: a parenthesis, a colon, a character that no name and no picture has, else what is between these and separators. With GnuCOBOL the other
# characters of pictures are text words too: $9(2) is $, 9, (, 2 and ).
_TEXT_WORDS: Final[Mapping[TextWords, re.Pattern[str]]] = MappingProxyType(
    {
        TextWords.SEPARATED: re.compile(rf"[{_SPECIAL}]|{_WORD}"),
        TextWords.CHARACTERS: re.compile(
            rf"[+-]?(?:\d+|[.,]\d+)(?:[.,]\d+)*(?![\w-])|[\w-]+|(?![.,;]{_AT_END})[^\s\"']"
        ),
    }
)


def scan(
    lines: Sequence[SourceLine], source: str, words: TextWords = TextWords.SEPARATED
) -> list[Token]:
    """Return the text words of lines; raises DefinitionError for a literal without an end."""
    found: list[Token] = []
    for line in join_lines(lines):
        found += scan_line(line, source, words)
    return found


def scan_line(line: SourceLine, source: str, words: TextWords) -> Iterator[Token]:
    """Yield the text words of a logical line, or its comment."""
    if line.comment:
        yield Token(TokenKind.COMMENT, line.text.strip(), source, line.number, line.column)
        return
    place, text = 0, line.text
    first = True
    end = -1  # where the text word before ends
    while place < len(text):
        gap = (_GAP if place == end else _LEADING_GAP).match(text, place)
        if gap:
            place = gap.end()
            continue
        kind, value, after = _text_word(text, place, line, source, words)
        glued = place == end
        yield Token(kind, value, source, line.number, line.column + place, first, line.cut, glued)
        place = end = after
        first = False


def _text_word(
    text: str, place: int, line: SourceLine, source: str, words: TextWords
) -> tuple[TokenKind, str, int]:
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
    if _PERIOD.match(text, place):
        return TokenKind.PERIOD, ".", place + 1
    word = _TEXT_WORDS[words].match(text, place)
    assert word is not None
    return TokenKind.WORD, word[0], word.end()


def join_words(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens with text words joined that have no blank between them: ``9``, ``(``, ``2``, ``)`` are the picture ``9(2)``."""
    found: list[Token] = []
    parts: list[str] = []  # of the last token
    for token in tokens:
        if token.glued and token.kind is TokenKind.WORD and parts:
            parts.append(token.text)
            continue
        if len(parts) > 1:
            found[-1] = replace(found[-1], text="".join(parts))
        parts = [token.text] if token.kind is TokenKind.WORD else []
        found.append(token)
    if len(parts) > 1:
        found[-1] = replace(found[-1], text="".join(parts))
    return found


def join_lines(lines: Sequence[SourceLine]) -> Iterator[SourceLine]:
    """Yield lines with their continuations appended."""
    held: SourceLine | None = None
    waiting: list[SourceLine] = []  # comments in between
    for line in lines:
        if line.comment and held is not None and not held.directive:
            waiting.append(line)
        elif line.continued and held is not None:
            text, cut = _continue(held.text, line.text), line.cut or held.cut
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


def _continue(text: str, more: str) -> str:
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


def _literal_end(text: str, place: int, quote: str) -> int:
    """Return where a literal ends whose content begins at ``place``; -1 if it does not."""
    while True:
        place = text.find(quote, place) + 1
        if not place:
            return -1
        if text[place : place + 1] != quote:
            return place
        place += 1  # doubled: a quote in the text
