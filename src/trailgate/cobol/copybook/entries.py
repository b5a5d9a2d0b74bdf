"""The entries of a copybook as a tree by level number, and the comments that concern them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trailgate.cobol.copybook.layouts import Condition, Occurs, Sign
from trailgate.cobol.copybook.picture import Picture
from trailgate.cobol.copybook.scanner import Token

RECORD, RENAMES, STAND_ALONE, CONDITION = 1, 66, 77, 88
_LOG: Final = logging.getLogger(__name__)
_DATE_LETTERS: Final = frozenset("YMDHSFIT")


@dataclass(slots=True)
class Entry:
    """One entry as it is written; ``layout_passes`` computes the rest."""

    level: int
    name: str
    token: Token
    picture: Picture | None = None
    usage: str | None = None
    sign: Sign | None = None
    occurs: Occurs | None = None
    redefines: str | None = None
    byte_length: int | None = None
    sync: bool = False
    justified: bool = False
    blank_when_zero: bool = False
    filler: bool = False
    key: bool = False
    date_format: str | None = None
    conditions: list[Condition] = field(default_factory=list)
    children: list[Entry] = field(default_factory=list)

    def walk(self) -> Iterator[Entry]:
        """Yield this entry and all below it, in their order."""
        yield self
        for child in self.children:
            yield from child.walk()


def apply_comments(comments: list[Token], entry: Entry) -> None:
    """Apply the adapter's comments: ``KEY``, ``DATEFORMAT fmt``, or a format alone.

    Only the comments between an entry and the one before it count (capture properties §5.1).
    """
    for comment in comments:
        words = comment.text.lstrip("*").split()
        if words and words[0].upper() == "KEY" and len(words) == 1:
            entry.key = True
        elif len(words) > 1 and words[0].upper() == "DATEFORMAT":
            entry.date_format = " ".join(words[1:])
        elif len(words) == 1 and _is_format(words[0]):
            entry.date_format = words[0]


def _is_format(word: str) -> bool:
    letters = {letter for letter in word if letter.isalpha()}
    return word.isupper() and letters <= _DATE_LETTERS and ("YY" in word or "HH" in word)


def tree(entries: list[Entry]) -> list[Entry]:
    """Return the entries of the outermost level with the others below them, by level number."""
    roots: list[Entry] = []
    open_: list[Entry] = []
    item: Entry | None = None  # the last one that takes storage
    for entry in entries:
        if entry.level == CONDITION:
            if item is None:
                raise entry.token.error(f"the condition {entry.name} has no item before it")
            item.conditions += entry.conditions
            continue
        if entry.level == RENAMES:
            continue  # an alias: no storage
        level = 1 if entry.level == STAND_ALONE else entry.level
        while open_ and (open_[-1].level >= level or open_[-1].level == STAND_ALONE):
            open_.pop()
        (open_[-1].children if open_ else roots).append(entry)
        open_.append(entry)
        item = entry
    for root in roots:
        for entry in root.walk():
            _check(entry)
    return roots


def _check(entry: Entry) -> None:
    name = entry.name
    if entry.children and entry.picture is not None:
        child = entry.children[0]
        problem = f"{name} has a picture, so {child.name} cannot be in it"
        raise child.token.error(problem, "Is a level number wrong?")
    if entry.sign and entry.sign.separate and entry.picture and not entry.picture.signed:
        problem = f"{name} has a SEPARATE sign, but its picture {entry.picture.text} has no S"
        hint = "It is read as a number without a sign, and without a byte for one"
        _LOG.warning("%s", entry.token.error(problem, hint))
    if entry.occurs and entry.level == 1 and entry.redefines:
        raise entry.token.error(f"the record {name} cannot occur and redefine")
