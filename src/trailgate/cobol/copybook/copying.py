"""COPY members put in place, with their words replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trailgate.cobol.copybook.scanner import Token, TokenKind

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
    while place < len(copied):
        if _is_replace(copied[place]):
            found += _replaced(copied[begin:place], rules)
            statement, place = _statement(copied, place)
            rules = _replace_rules(statement)
            begin = place
        else:
            place += 1
    return found + _replaced(copied[begin:], rules)


def _is_replace(token: Token) -> bool:
    return token.upper == "REPLACE" and token.first


def _replace_rules(statement: list[Token]) -> list[Replacement]:
    """Return the rules of a REPLACE statement, which end those of the one before."""
    words = [token for token in statement if token.kind is not TokenKind.COMMENT]
    if [token.upper for token in words[1:]] == ["OFF"]:
        return []
    if len(words) < 2 or words[1].kind is not TokenKind.PSEUDO:
        hint = "REPLACE ==text== BY ==text== and REPLACE OFF are read"
        raise words[-1].error("this form of REPLACE is not supported", hint)
    return _rules(words[1:])


def _with_members(tokens: Sequence[Token], members: Members, depth: int) -> list[Token]:
    """Return the tokens with the member of every COPY statement in its place."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        if tokens[place].upper == "COPY":
            statement, place = _statement(tokens, place)
            found += _copied(statement, members, depth)
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


def _copied(statement: list[Token], members: Members, depth: int) -> list[Token]:
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
    return _with_members(_replaced(content, _rules(words[at + 1 :])), members, depth + 1)


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


def _replaced(tokens: Sequence[Token], rules: list[Replacement]) -> list[Token]:
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
