"""Scan copybook text into tokens: words, literals, periods, and comments.

The text is first cut into lines without sequence numbers; comments, continuations and directives
are marked. Continuation lines are then joined, and each logical line is scanned into text words,
the units that COPY REPLACING and REPLACE compare (module ``replacing``). ``9(2)`` is four text
words: 9, (, 2 and ). After replacing, ``join_adjacent_words`` joins text words without blanks between them,
so that the parser sees the picture ``9(2)`` as one token.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.layouts import SourceFormat, TextWordUnits
from trailgate.errors import DefinitionError, Where

_LOG: Final = logging.getLogger(__name__)
TAB: Final = 8
INDICATOR, TEXT, END = 6, 7, 72  # columns 7, 8 and 73, counted from 0
# Columns 1 to 6 of fixed format: blanks, 000100, or a mark such as CHG1 and two blanks
_SEQUENCE: Final = re.compile(r"( {6}|\S{1,6} {0,5})")
_INDICATORS: Final = frozenset(" */-Dd$")
_IGNORED: Final = dict.fromkeys(map(ord, "\x1a\x0b\x0c"))
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_NEXT_LINE: Final = re.compile("\x85")
_FREE_COMMENT: Final = re.compile(r"\s*\*")
# A literal that continues on this line: - "rest of the text"
_CONTINUED: Final = re.compile(r"-\s+[\"']")
# A comment inside a line begins at "*>" after a separator; literals may contain it.
_INLINE: Final = re.compile(r"""("[^"]*(?:"|$)|'[^']*(?:'|$))|(?:^|(?<=[\s.,;]))\*>.*""")
# Statements about the compiler's listing and options: they are skipped.
_LISTING: Final = re.compile(r"(EJECT|SKIP[123]|TITLE|\*?CBL|\*CONTROL|PROCESS)\b", re.IGNORECASE)
# Directives of the standard (>>), and those of Micro Focus ($) that choose what is compiled. Other
# lines with a $, such as $XFD, are comments.
_DIRECTIVE: Final = re.compile(
    r"\s*(?:>>|\$\s*(?:IF|ELSE|ELIF|ELSE-?IF|END|END-IF|SET)(?![\w-]))", re.IGNORECASE
)
# >>SOURCE FORMAT IS FREE, or $SET SOURCEFORMAT"FREE"
_FORMAT_DIRECTIVE: Final = re.compile(
    r"""\s*(?:>>\s*SOURCE\s+(?:FORMAT\s+)?(?:IS\s+)?|\$\s*SET\s+SOURCEFORMAT\s*\(?\s*)["']?(FREE|FIXED)\b""",
    re.IGNORECASE,
)
_SEQUENCE_WORD: Final = re.compile(r"\d{1,8}")  # the usual content of columns 73 to 80
# Words after column 72 that are rather a part of an entry than an identification.
_ENTRY_WORD: Final = re.compile(
    r"^\.|\.$|\b(?:PIC|PICTURE|USAGE|COMP(?:UTATIONAL)?(?:-\d)?|BINARY|PACKED-DECIMAL|OCCURS|DEPENDING|REDEFINES|VALUES?|REPLACING)\b",
    re.IGNORECASE,
)
_CUT_HINT: Final = "Columns 73 to 80 identify a line in fixed format. Move the text to columns 8 to 72, or set the source format to free"
# A literal may have a prefix: X"C1", N'..', G'..', Z'..', NX'..'.
_LITERAL: Final = re.compile(r"(?:[XNGZU]|NX|BX)?([\"'])", re.IGNORECASE)
# A period, comma or semicolon is a separator before a blank, and at the end of a line or of
# pseudo-text.
_AT_END: Final = r"(?=\s|==|$)"
# A period ends an entry if nothing that could belong to a picture or number follows it.
_PERIOD: Final = re.compile(rf"\.(?:{_AT_END}|(?![\w*+$(),:-]))")
_GAP: Final = re.compile(rf"(?:\s|[,;]{_AT_END})+")
_LEADING_GAP: Final = re.compile(r"[\s,;]+")
_SPECIAL: Final = r"():#@&%<>!?|~^{}\[\]\\`"
_WORD: Final = rf"(?:(?![.,;]{_AT_END})(?!==)[^\s\"'{_SPECIAL}])+"
# A text word is a parenthesis, a colon, another character that cannot be in names or pictures, or the
# text between these and separators. For GnuCOBOL the other characters of pictures are text words as
# well: $9(2) is $, 9, (, 2 and ).
_TEXT_WORDS: Final[Mapping[TextWordUnits, re.Pattern[str]]] = MappingProxyType(
    {
        TextWordUnits.SEPARATED: re.compile(rf"[{_SPECIAL}]|{_WORD}"),
        TextWordUnits.CHARACTERS: re.compile(
            rf"[+-]?(?:\d+|[.,]\d+)(?:[.,]\d+)*(?![\w-])|[\w-]+|(?![.,;]{_AT_END})[^\s\"']"
        ),
    }
)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The text of one copybook line. ``number`` and ``column`` (of its first character) count from 1.

    ``continued``: the text continues the previous line. ``cut`` is the text after the last column,
    which is not read. A ``directive``, such as ``>>IF``, is not part of the description: it selects the lines that are.
    """

    number: int
    column: int
    text: str
    comment: bool = False
    continued: bool = False
    cut: str = ""
    directive: bool = False


def read_lines(text: str, form: SourceFormat = SourceFormat.AUTO) -> list[SourceLine]:
    """Split a copybook into lines, and drop lines that only control listings, such as EJECT.

    AUTO is fixed format if all lines before the first format directive are valid in it, otherwise
    free format. A directive such as ``>>SOURCE FORMAT IS FREE`` changes the format of the lines
    after it.
    """
    lines = [line.expandtabs(TAB) for line in _split_lines(text)]
    parts = _format_parts(lines)
    fixed = form is SourceFormat.FIXED or (form is SourceFormat.AUTO and looks_fixed(parts[0][1]))
    lines_read: list[SourceLine] = []
    number = 1
    for stated, part in parts:
        fixed = fixed if stated is None else stated == "FIXED"
        lines_read += _fixed_lines(part, number) if fixed else _free_lines(part, number)
        number += len(part)
    return [line for line in lines_read if line.comment or not _LISTING.match(line.text.strip())]


def _split_lines(text: str) -> list[str]:
    r"""Split a copybook's text into lines, without page breaks and the end-of-file character of DOS.

    ``str.splitlines`` would also split at characters inside comments and literals: 0x85 is an
    ellipsis in Windows-1252. It is a line end only if the text has no other line ends, as after a
    transfer of EBCDIC text.
    """
    kept = text.translate(_IGNORED)
    ends = _LINE_END if _LINE_END.search(kept) else _NEXT_LINE
    lines = ends.split(kept)
    return lines if lines[-1] else lines[:-1]


def warn_of_cut_text(lines: Sequence[SourceLine], source: str) -> None:
    """Log a warning for each line whose text after column 72 looks like a part of its entry, such as a period."""
    for line in lines:
        if _ENTRY_WORD.search(line.cut):
            problem = f"text after column 72 is not read: {line.cut!r}"
            where = Where(source=source, line=line.number, column=END + 1)
            _LOG.warning("%s", DefinitionError(problem, where=where, hint=_CUT_HINT))


def _format_parts(lines: list[str]) -> list[tuple[str | None, list[str]]]:
    """Split the lines before each directive that changes the source format.

    Each part is the format that its first line states (None for the first part), and its lines.
    """
    parts: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in lines:
        match = _FORMAT_DIRECTIVE.match(line) or _FORMAT_DIRECTIVE.match(line[INDICATOR:])
        if match is not None:
            parts.append((match[1].upper(), []))
        parts[-1][1].append(line)
    return parts


def looks_fixed(lines: list[str]) -> bool:
    """Return True if every line of the copybook is valid in fixed format.

    In fixed format, columns 1 to 6 are blank or a sequence number, and column 7 is an indicator. A
    comment or directive that starts in column 1 is valid in both formats.
    """
    return all(
        _can_be_fixed(line)
        for line in lines
        if line.strip() and line[0] != "*" and not _DIRECTIVE.match(line)
    )


def _can_be_fixed(line: str) -> bool:
    """Return True if columns 1 to 7 of a line are valid in fixed format."""
    head = line[:INDICATOR].ljust(INDICATOR)
    if not _SEQUENCE.fullmatch(head):
        return False
    indicator = line[INDICATOR : INDICATOR + 1] or " "
    # "01 HEADER." has a D in column 7; a real D is followed by a blank.
    entry = re.match(r"\d{1,2} ", head) and not head[2:].isdigit()
    return not entry and (indicator in _INDICATORS or (indicator.isdigit() and not head.strip()))


def _directive_in(line: str, number: int) -> SourceLine | None:
    """Return the directive on a copybook line in fixed format, or None.

    A directive starts in column 1 or after column 6.
    """
    for begin in (INDICATOR, 0):
        if _DIRECTIVE.match(line, begin):
            text = _remove_comments(line[begin:END])
            return SourceLine(number, begin + 1, text, directive=True)
    return None


def _fixed_lines(lines: list[str], first: int) -> Iterator[SourceLine]:
    """Yield the lines of fixed-format text. ``first`` is the number of the first line."""
    for number, line in enumerate(lines, first):
        directive = _directive_in(line, number)
        if directive is None:
            yield from _fixed_line(line, number)
        else:
            yield directive


def _fixed_line(line: str, number: int) -> Iterator[SourceLine]:
    """Parse a copybook line in fixed format.

    The indicator in column 7 decides what the line is: text, comment, continuation or debugging
    line. A debugging line (D) yields nothing.
    """
    text = _remove_comments(line[TEXT:END])
    # If a comment starts before column 73, the text after it belongs to the comment.
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
        entry = (mark + text).ljust(END - INDICATOR)
        yield SourceLine(number, INDICATOR + 1, entry, cut=cut)
    elif text.lstrip()[:1] == "*":
        yield SourceLine(number, TEXT + 1, text.lstrip()[1:], comment=True)  # one column too far
    elif _CONTINUED.match(text):
        yield SourceLine(number, TEXT + 1, text[1:], continued=True, cut=cut)  # likewise
    elif text.strip():
        # A literal may continue on the next line: blanks up to the last column count then.
        yield SourceLine(number, TEXT + 1, text.ljust(END - TEXT), cut=cut)


def _remove_comments(text: str) -> str:
    """Remove an inline comment (``*>``) from the end of a copybook line."""
    return _INLINE.sub(lambda found: found[1] or "", text)


def _free_lines(lines: list[str], first: int) -> Iterator[SourceLine]:
    """Yield the lines of free-format text. ``first`` is the number of the first line."""
    for number, line in enumerate(lines, first):
        if _DIRECTIVE.match(line):
            yield SourceLine(number, 1, _remove_comments(line), directive=True)
        elif _FREE_COMMENT.match(line):
            text = line.strip().lstrip("*>")
            yield SourceLine(number, line.index("*") + 2, text, comment=True)
        elif line.strip():
            yield SourceLine(number, 1, _remove_comments(line))


class CopybookTokenType(Enum):
    """The type of a copybook token."""

    WORD = "word"
    LITERAL = "literal"
    PERIOD = "period"
    PSEUDO = "=="
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class CopybookToken:
    """A token of a copybook and its position. ``first`` marks the first token of a line.

    ``cut`` is the part of its line after column 72, which is not read. A ``glued`` token follows
    the previous one without a blank.
    """

    kind: CopybookTokenType
    text: str
    source: str
    line: int
    column: int
    first: bool = False
    cut: str = ""
    glued: bool = False

    @property
    def upper(self) -> str:
        """The token's text in upper case if it is a word, otherwise ""."""
        return self.text.upper() if self.kind is CopybookTokenType.WORD else ""

    def error(self, problem: str, hint: str = "") -> DefinitionError:
        """Build an error at this token. If its line extends beyond column 72, the hint shows what was cut."""
        where = Where(source=self.source, line=self.line, column=self.column)
        if self.cut and not _SEQUENCE_WORD.fullmatch(self.cut):
            hint = (
                f"Text after column 72 is not read: {self.cut!r} (a tab can be 8 columns). "
                "Is the source format free?"
            )
        return DefinitionError(problem, where=where, hint=hint)


def scan_line(line: SourceLine, source: str, words: TextWordUnits) -> Iterator[CopybookToken]:
    """Yield the text words of a copybook's logical line, or its comment."""
    if line.comment:
        yield CopybookToken(
            CopybookTokenType.COMMENT, line.text.strip(), source, line.number, line.column
        )
        return
    offset, text = 0, line.text
    first = True
    end = -1  # the end of the previous text word
    while offset < len(text):
        gap = (_GAP if offset == end else _LEADING_GAP).match(text, offset)
        if gap:
            offset = gap.end()
            continue
        kind, value, after = _text_word(text, offset, line, source, words)
        glued = offset == end
        yield CopybookToken(
            kind=kind,
            text=value,
            source=source,
            line=line.number,
            column=line.column + offset,
            first=first,
            cut=line.cut,
            glued=glued,
        )
        offset = end = after
        first = False


def _text_word(
    text: str, offset: int, line: SourceLine, source: str, words: TextWordUnits
) -> tuple[CopybookTokenType, str, int]:
    """Scan one text word at ``offset``. Returns its type, its text, and the offset after it."""
    if text.startswith("==", offset):
        return CopybookTokenType.PSEUDO, "==", offset + 2
    literal = _LITERAL.match(text, offset)
    if literal:
        end = _literal_end(text, literal.end(), literal[1])
        if end < 0:
            column = line.column + offset
            token = CopybookToken(
                CopybookTokenType.LITERAL, "", source, line.number, column, cut=line.cut
            )
            raise token.error("a literal has no closing quote")
        return CopybookTokenType.LITERAL, text[offset:end], end
    if _PERIOD.match(text, offset):
        return CopybookTokenType.PERIOD, ".", offset + 1
    word = _TEXT_WORDS[words].match(text, offset)
    assert word is not None
    return CopybookTokenType.WORD, word[0], word.end()


def join_adjacent_words(tokens: Sequence[CopybookToken]) -> list[CopybookToken]:
    """Join scanned text words that have no blanks between them in the copybook's source: ``9``, ``(``, ``2``, ``)`` become ``9(2)``."""
    joined: list[CopybookToken] = []
    parts: list[str] = []  # of the last token
    for token in tokens:
        if token.glued and token.kind is CopybookTokenType.WORD and parts:
            parts.append(token.text)
            continue
        if len(parts) > 1:
            joined[-1] = replace(joined[-1], text="".join(parts))
        parts = [token.text] if token.kind is CopybookTokenType.WORD else []
        joined.append(token)
    if len(parts) > 1:
        joined[-1] = replace(joined[-1], text="".join(parts))
    return joined


def join_lines(lines: Sequence[SourceLine]) -> Iterator[SourceLine]:
    """Yield the logical lines of a copybook: each line with its continuations appended.

    Comments between them come after the line.
    """
    pending: SourceLine | None = None
    waiting: list[SourceLine] = []  # comments in between
    for line in lines:
        # A comment between a line and its continuation waits until the line is complete.
        if line.comment and pending is not None and not pending.directive:
            waiting.append(line)
        elif line.continued and pending is not None:
            text, cut = _continue(pending.text, line.text), line.cut or pending.cut
            pending = SourceLine(pending.number, pending.column, text, cut=cut)
        else:
            yield from _flush(pending, waiting)
            pending, waiting = (None, []) if line.comment else (line, [])
            if line.comment:
                yield line
    yield from _flush(pending, waiting)


def _flush(pending: SourceLine | None, comments: list[SourceLine]) -> Iterator[SourceLine]:
    """Yield the pending copybook line, if any, then the comments that were read after it."""
    if pending is not None:
        yield pending
    yield from comments


def _continue(text: str, more: str) -> str:
    """Append the text of a continuation line. A literal continues after that line's first quote."""
    quote = _open_quote(text)
    if quote is None:
        return text.rstrip() + more.strip()
    rest = more.lstrip()
    return text + (rest[1:] if rest[:1] == quote else rest)


def _open_quote(text: str) -> str | None:
    """Return the quote of the literal that the text leaves open, or None."""
    quote = None
    for character in text:
        if quote is None and character in "\"'":
            quote = character
        elif character == quote:
            quote = None
    return quote


def _literal_end(text: str, offset: int, quote: str) -> int:
    """Return the end of a literal whose content starts at ``offset``, or -1 if it is not closed."""
    while True:
        offset = text.find(quote, offset) + 1
        if not offset:
            return -1
        if text[offset : offset + 1] != quote:
            return offset
        offset += 1  # a doubled quote stands for one quote in the text
