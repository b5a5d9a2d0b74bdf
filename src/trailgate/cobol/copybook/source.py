"""Copybook text to tokens: words, literals, periods, and comments.

Text is cut into logical lines first: columns cut, comments and continuations marked. COPY members are put in place, with their words replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from trailgate.cobol.copybook.layouts import SourceFormat
from trailgate.errors import DefinitionError, Where

TAB: Final = 8
INDICATOR, TEXT, END = 6, 7, 72  # columns 7, 8 and 73, counted from 0
_SEQUENCE: Final = re.compile(r"( {6}|\S{1,6} {0,5})")
_INDICATORS: Final = frozenset(" */-Dd$")
_FREE_COMMENT: Final = re.compile(r"\s*\*")
_CONTINUED: Final = re.compile(r"-\s+[\"']")
# A comment inside a line begins at "*>" after a blank; literals may contain it.
_INLINE: Final = re.compile(r"""("[^"]*(?:"|$)|'[^']*(?:'|$))|(?:^|(?<=\s))\*>.*""")
_DIRECTIVE: Final = re.compile(r"(EJECT|SKIP[123]|TITLE|\*?CBL|\*CONTROL|PROCESS)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The text of one line: ``column`` is that of its first character, both counted from 1.

    ``continued``: the text continues that of the line before. ``cut`` is what follows the last column that is read.
    """

    number: int
    column: int
    text: str
    comment: bool = False
    continued: bool = False
    cut: str = ""


def read_lines(text: str, form: SourceFormat = SourceFormat.AUTO) -> list[SourceLine]:
    """Return a copybook's lines; directives that print or compile are left out."""
    lines = [line.expandtabs(TAB) for line in text.replace("\x1a", "").splitlines()]
    fixed = form is SourceFormat.FIXED or (form is SourceFormat.AUTO and looks_fixed(lines))
    made = _fixed_lines(lines) if fixed else _free_lines(lines)
    return [line for line in made if line.comment or not _DIRECTIVE.match(line.text.strip())]


def looks_fixed(lines: list[str]) -> bool:
    """Return whether every line can be fixed format.

    Columns 1 to 6 hold a sequence number or nothing, never the beginning of an entry, and column 7
    an indicator. A comment that begins in column 1 fits both.
    """
    return all(_can_be_fixed(line) for line in lines if line.strip() and line[0] != "*")


def _can_be_fixed(line: str) -> bool:
    head = line[:INDICATOR].ljust(INDICATOR)
    if not _SEQUENCE.fullmatch(head):
        return False
    indicator = line[INDICATOR : INDICATOR + 1] or " "
    # "01 HEADER." has a D in column 7; a real D is followed by a blank.
    entry = re.match(r"\d{1,2} ", head) and not head[2:].isdigit()
    return not entry and (indicator in _INDICATORS or (indicator.isdigit() and not head.strip()))


def _fixed_lines(lines: list[str]) -> Iterator[SourceLine]:
    for number, line in enumerate(lines, 1):
        text = _remove_comments(line[TEXT:END])
        cut = line[END:].strip() if text == line[TEXT:END] else ""
        mark = line[INDICATOR : INDICATOR + 1]
        if line[:1] == "*":
            yield SourceLine(number, 2, line[1:], comment=True)
        elif mark in ("*", "/", "$"):
            yield SourceLine(number, TEXT + 1, text, comment=True)
        elif mark in ("D", "d"):
            continue  # compiled with a debugging switch only
        elif mark == "-":
            yield SourceLine(number, TEXT + 1, text, continued=True, cut=cut)
        elif mark.isdigit():
            whole = (mark + text).ljust(END - INDICATOR)
            yield SourceLine(number, INDICATOR + 1, whole, cut=cut)
        elif text.lstrip()[:1] == "*":
            yield SourceLine(
                number, TEXT + 1, text.lstrip()[1:], comment=True
            )  # one column too far
        elif _CONTINUED.match(text):
            yield SourceLine(number, TEXT + 1, text[1:], continued=True, cut=cut)  # likewise
        elif text.strip():
            # A literal may continue on the next line: blanks up to the last column count then.
            yield SourceLine(number, TEXT + 1, text.ljust(END - TEXT), cut=cut)


def _remove_comments(text: str) -> str:
    """Return the text of a line without the comment at its end."""
    return _INLINE.sub(lambda found: found[1] or "", text)


def _free_lines(lines: list[str]) -> Iterator[SourceLine]:
    for number, line in enumerate(lines, 1):
        if _FREE_COMMENT.match(line):
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
        if self.cut and not _SEQUENCE_WORD.fullmatch(self.cut):
            hint = (
                f"What follows column 72 is not read: {self.cut!r} (a tab can be 8 columns). "
                "Is the source format free?"
            )
        return DefinitionError(problem, where=where, hint=hint)


_SEQUENCE_WORD: Final = re.compile(r"\d{1,8}")  # what columns 73 to 80 are for
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
    for line in _join(lines):
        if line.comment:
            found.append(
                Token(TokenKind.COMMENT, line.text.strip(), source, line.number, line.column)
            )
        else:
            found += _scan_line(line, source)
    return found


def _join(lines: list[SourceLine]) -> Iterator[SourceLine]:
    """Yield lines with their continuations appended."""
    held: SourceLine | None = None
    waiting: list[SourceLine] = []  # comments in between
    for line in lines:
        if line.comment and held is not None:
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


MAX_DEPTH: Final = 20  # members inside members: more is a member that copies itself
Members = Callable[[str], "list[Token] | None"]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Words and their replacement; ``part`` is the pattern of a part of words, None for whole ones."""

    old: tuple[str, ...]
    new: tuple[Token, ...]
    part: re.Pattern[str] | None = None

    def begins(self, tokens: Sequence[Token], place: int) -> bool:
        """Return whether the whole words that it replaces begin at a place."""
        found = tokens[place : place + len(self.old)]
        return bool(self.old) and tuple(t.text.upper() for t in found) == self.old

    def in_word(self, text: str) -> str:
        """Return a word with the part replaced."""
        new = self.new[0].text if self.new else ""
        return text if self.part is None else self.part.sub(lambda _: new, text)


def expand(tokens: Sequence[Token], members: Members) -> list[Token]:
    """Return the tokens with every COPY and REPLACE statement carried out.

    ``members`` gives the tokens of a member by name, or None. Raises DefinitionError where a
    member is missing, copies itself, or a statement is not understood.
    """
    found: list[Token] = []
    rules: list[Replacement] = []
    copied = _with_members(tokens, members, 0)
    begin = place = 0
    held: list[list[Replacement]] = []  # what REPLACE LAST OFF brings back
    while place < len(copied):
        if copied[place].upper == "REPLACE" and copied[place].first:
            found += _replace(copied[begin:place], rules)
            statement, place = _statement(copied, place)
            rules = _replace_rules(statement, rules, held)
            begin = place
        else:
            place += 1
    return found + _replace(copied[begin:], rules)


def _replace_rules(
    statement: list[Token], rules: list[Replacement], held: list[list[Replacement]]
) -> list[Replacement]:
    """Return the rules after a REPLACE statement: it ends those before it, with ALSO it holds them until LAST OFF."""
    words = [token for token in statement if token.kind is not TokenKind.COMMENT]
    named = [token.upper for token in words[1:]]
    if named == ["LAST", "OFF"]:
        return held.pop() if held else []
    also = named[:1] == ["ALSO"]
    if also:
        held.append(rules)
    else:
        held.clear()
    if named == ["OFF"]:
        return []
    own = words[1 + also :]
    first = own[1:] if own and own[0].upper in ("LEADING", "TRAILING") else own
    if not first or first[0].kind is not TokenKind.PSEUDO:
        hint = "REPLACE [ALSO] [LEADING] ==text== BY ==text== and REPLACE [LAST] OFF are read"
        raise words[-1].error("this form of REPLACE is not supported", hint)
    return [*_rules(own), *(rules if also else ())]


_INCLUDES: Final = frozenset({"++INCLUDE", "-INC"})  # COPY of Panvalet and of Librarian, one a line


def _with_members(tokens: Sequence[Token], members: Members, depth: int) -> list[Token]:
    """Return the tokens with the member of every COPY statement in its place."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        if tokens[place].upper == "COPY":
            statement, place = _statement(tokens, place)
            found += _copy(statement, members, depth)
        elif tokens[place].upper in _INCLUDES and tokens[place].first:
            end = _end_of_line(tokens, place)
            found += _copy(list(tokens[place:end]), members, depth)
            place = end + (end < len(tokens) and tokens[end].kind is TokenKind.PERIOD)
        elif [token.upper for token in tokens[place : place + 2]] == ["EXEC", "SQL"]:
            statement, place = _sql_statement(tokens, place)
            found += _include(statement, members, depth)
        else:
            found.append(tokens[place])
            place += 1
    return found


def _statement(tokens: Sequence[Token], place: int) -> tuple[list[Token], int]:
    """Return the tokens up to the period, which pseudo text may hold too."""
    inside = False
    for end in range(place, len(tokens)):
        if tokens[end].kind is TokenKind.PSEUDO:
            inside = not inside
        if tokens[end].kind is TokenKind.PERIOD and not inside:
            return list(tokens[place:end]), end + 1
    raise tokens[place].error(f"{tokens[place].upper} without the period at its end")


def _end_of_line(tokens: Sequence[Token], place: int) -> int:
    """Return the place after the last word of a line."""
    end = place
    while end < len(tokens) and tokens[end].line == tokens[place].line:
        if tokens[end].kind is TokenKind.PERIOD:
            break
        end += 1
    return end


def _sql_statement(tokens: Sequence[Token], place: int) -> tuple[list[Token], int]:
    """Return the tokens from EXEC SQL up to END-EXEC, and the place after it and its period."""
    for end in range(place, len(tokens)):
        if tokens[end].upper == "END-EXEC":
            after = end + 1
            has_period = after < len(tokens) and tokens[after].kind is TokenKind.PERIOD
            return list(tokens[place:end]), after + has_period
    raise tokens[place].error("EXEC SQL without END-EXEC")


def _include(statement: list[Token], members: Members, depth: int) -> list[Token]:
    """Return the tokens of the member that EXEC SQL INCLUDE names; other statements have no items (DECLARE TABLE)."""
    words = [token for token in statement if token.kind is not TokenKind.COMMENT]
    if [token.upper for token in words[2:3]] != ["INCLUDE"]:
        return []
    is_own = len(words) == 4 and words[3].upper in _SQL_AREAS and members(words[3].text) is None
    return [] if is_own else _copy(words[2:], members, depth)


_SQL_AREAS: Final = frozenset({"SQLCA", "SQLDA"})  # areas of the precompiler, no part of a record


def _copy(statement: list[Token], members: Members, depth: int) -> list[Token]:
    words = [token for token in statement if token.kind is not TokenKind.COMMENT]
    if len(words) < 2:
        raise words[0].error("COPY needs the name of a member")
    name = words[1].text.strip("\"'")
    if depth >= MAX_DEPTH:
        raise words[1].error(f"members inside members, {depth} deep: does {name} copy itself?")
    content = members(name)
    if content is None:
        hint = "Name the folder that holds it: --copy-path FOLDER"
        raise words[1].error(f"the member {name} was not found", hint)
    at = next((i for i, token in enumerate(words) if token.upper == "REPLACING"), len(words))
    return _with_members(_replace(content, _rules(words[at + 1 :])), members, depth + 1)


def _rules(words: list[Token]) -> list[Replacement]:
    rules = []
    place = 0
    while place < len(words):
        part = words[place].upper if words[place].upper in ("LEADING", "TRAILING") else ""
        old, place = _operand(words, place + bool(part))
        if place >= len(words) or words[place].upper != "BY":
            at = words[min(place, len(words) - 1)]
            raise at.error("REPLACING needs BY between what is replaced and by what")
        new, place = _operand(words, place + 1)
        whole = tuple(token.text.upper() for token in old)
        rules.append(Replacement(whole, new, _pattern(whole, part)))
    return rules


def _operand(words: list[Token], place: int) -> tuple[tuple[Token, ...], int]:
    if place >= len(words):
        raise words[-1].error("REPLACING ends before its last text")
    if words[place].kind is not TokenKind.PSEUDO:
        return (words[place],), place + 1
    for end in range(place + 1, len(words)):
        if words[end].kind is TokenKind.PSEUDO:
            return tuple(words[place + 1 : end]), end + 1
    raise words[place].error("pseudo text without its closing ==")


def _pattern(old: tuple[str, ...], part: str) -> re.Pattern[str] | None:
    """Return the pattern of a part of words; None where whole words are replaced."""
    if len(old) != 1:
        return None
    (text,) = old
    if not part and text[:1].isalnum() and text[-1:].isalnum():
        return None
    # A text such as :TAG: or (TAG) has borders of its own, so it is found inside words.
    begin, end = "^" if part == "LEADING" else "", "$" if part == "TRAILING" else ""
    return re.compile(begin + re.escape(text) + end, re.IGNORECASE)


def _replace(tokens: Sequence[Token], rules: list[Replacement]) -> list[Token]:
    """Return the tokens with all rules applied: what one has put there is not replaced again."""
    if not rules:
        return list(tokens)
    whole = [rule for rule in rules if rule.part is None]
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        here = tokens[place]
        rule = next((rule for rule in whole if rule.begins(tokens, place)), None)
        if rule is None:
            found += _with_parts(here, rules)
            place += 1
            continue
        for number, token in enumerate(rule.new):
            first = here.first and not number
            moved = replace(token, source=here.source, line=here.line, column=here.column)
            found.append(replace(moved, first=first))
        place += len(rule.old)
    return found


def _with_parts(token: Token, rules: list[Replacement]) -> list[Token]:
    """Return a word with its parts replaced; none where nothing is left of it."""
    if token.kind is not TokenKind.WORD:
        return [token]
    text = token.text
    for rule in rules:
        text = rule.in_word(text)
    return [replace(token, text=text)] if text else []
