"""Copybook text to logical lines: columns cut, comments and continuations marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trailgate.cobol.copybook.dialect import SourceFormat

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
    made = _fixed(lines) if fixed else _free(lines)
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


def _fixed(lines: list[str]) -> Iterator[SourceLine]:
    for number, line in enumerate(lines, 1):
        text = _uncommented(line[TEXT:END])
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


def _uncommented(text: str) -> str:
    """Return the text of a line without the comment at its end."""
    return _INLINE.sub(lambda found: found[1] or "", text)


def _free(lines: list[str]) -> Iterator[SourceLine]:
    for number, line in enumerate(lines, 1):
        if _FREE_COMMENT.match(line):
            text = line.strip().lstrip("*>")
            yield SourceLine(number, line.index("*") + 2, text, comment=True)
        elif line.strip():
            yield SourceLine(number, 1, _uncommented(line))
