"""COPY members put in place, with their words replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from trailgate.cobol.copybook.scanner import Token, TokenKind

MAX_DEPTH: Final = 20  # members inside members: more is a member that copies itself
Members = Callable[[str], "list[Token] | None"]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Words and their replacement; ``part`` is "" for whole words, else "LEADING" or "TRAILING"."""

    old: tuple[Token, ...]
    new: tuple[Token, ...]
    part: str = ""


def expand(tokens: Sequence[Token], members: Members, depth: int = 0) -> list[Token]:
    """Return the tokens with every COPY and REPLACE statement carried out.

    ``members`` gives the tokens of a member by name, or None. Raises DefinitionError where a
    member is missing, copies itself, or a statement is not understood.
    """
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.upper == "COPY":
            statement, place = _statement(tokens, place)
            found += _copied(statement, members, depth)
        elif token.upper == "REPLACE" and token.first:
            _, place = _statement(tokens, place)  # a directive for the whole program: skipped
        else:
            found.append(token)
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
    replaced = content
    for rule in _rules(words[at + 1 :]):
        replaced = _replaced(replaced, rule)
    return expand(replaced, members, depth + 1)


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
        rules.append(Replacement(old, new, part))
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


def _replaced(tokens: list[Token], rule: Replacement) -> list[Token]:
    partial = _partial(rule)
    if partial is not None:
        return [_with_part(token, partial) for token in tokens]
    old = [token.text.upper() for token in rule.old]
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        if old and [t.text.upper() for t in tokens[place : place + len(old)]] == old:
            here = tokens[place]
            found += [
                replace(t, source=here.source, line=here.line, column=here.column, first=here.first)
                for t in rule.new
            ]
            place += len(old)
        else:
            found.append(tokens[place])
            place += 1
    return found


class _WordPart(NamedTuple):
    """A part of words, and what replaces it."""

    pattern: re.Pattern[str]
    new: str


def _partial(rule: Replacement) -> _WordPart | None:
    """Return the part of words that a rule replaces; None where it replaces whole words."""
    if len(rule.old) != 1:
        return None
    old = rule.old[0].text
    new = rule.new[0].text if rule.new else ""
    pattern = re.escape(old)
    if rule.part == "LEADING":
        pattern = "^" + pattern
    elif rule.part == "TRAILING":
        pattern += "$"
    elif old[:1].isalnum() and old[-1:].isalnum():
        return None
    # A text such as :TAG: or (TAG) has borders of its own, so it is found inside words.
    return _WordPart(re.compile(pattern, re.IGNORECASE), new)


def _with_part(token: Token, part: _WordPart) -> Token:
    if token.kind is not TokenKind.WORD:
        return token
    return replace(token, text=part.pattern.sub(lambda _: part.new, token.text))
