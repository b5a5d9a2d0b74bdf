"""What is typed, cut into commands and words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from trailgate.errors import OptionError

QUOTES: Final = "\"'"
# A quoted text, one between slashes after a blank, a comma, or the text between those.
WORD: Final = re.compile(r"\"[^\"]*\"|'[^']*'|(?<![^\s])/[^/]*/(?=[\s,]|$)|,|[^\s,]+")
NUMBER: Final = re.compile(r"[+-]?(?:(0[xX])[0-9A-Fa-f]{1,16}|[0-9]{1,20})", re.ASCII)

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Words:
    """The words after a command's name, and the text they were cut from."""

    words: tuple[str, ...]
    text: str = ""

    def __len__(self) -> int:
        return len(self.words)

    @property
    def plain(self) -> list[str]:
        """Return the words without commas, quotes taken off."""
        return [unquoted(word) for word in self.words if word != ","]

    def phrases(self) -> list[list[str]]:
        """Return the words between commas."""
        found: list[list[str]] = [[]]
        for word in self.words:
            if word == ",":
                found.append([])
            else:
                found[-1].append(unquoted(word))
        return [phrase for phrase in found if phrase]

    def only(self, default: str | None = None) -> str:
        """Return the one word there may be; raises OptionError for none or more."""
        plain = self.plain
        if len(plain) == 1:
            return plain[0]
        if not plain and default is not None:
            return default
        raise OptionError("one word was expected" if plain else "something is missing")

    def number(self, default: int | None = None) -> int:
        """Return the one number there may be."""
        return read_number(self.only(None if default is None else str(default)))


def split_commands(line: str) -> list[str]:
    """Return the commands of a line, which semicolons part."""
    pieces: list[str] = [""]
    quote = ""
    for letter in line:
        if letter == ";" and not quote:
            pieces.append("")
            continue
        if letter in QUOTES and quote in ("", letter):
            quote = "" if quote else letter
        pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip()]


def split_words(text: str) -> Words:
    """Return the words of a text."""
    return Words(tuple(WORD.findall(text)), text.strip())


def unquoted(word: str) -> str:
    """Return a word without the quotes or slashes around it."""
    if len(word) >= 2 and word[0] == word[-1] and word[0] in QUOTES:
        return word[1:-1]
    return word


def read_number(text: str, least: int = 0, greatest: int = 2**63 - 1) -> int:
    """Return a number in decimal, or in hex after 0x; raises OptionError."""
    matched = NUMBER.fullmatch(text)
    number = int(text, 16 if matched[1] else 10) if matched else least - 1
    if not least <= number <= greatest:
        raise OptionError(f"{text[:40]!r} is not a number from {least} to {greatest}")
    return number


def one_of(text: str, choices: Mapping[str, Kind]) -> Kind:
    """Return what a word means; an unambiguous begin is enough. Raises OptionError."""
    asked = text.upper()
    if asked in choices:
        return choices[asked]
    found = [choices[name] for name in choices if asked and name.startswith(asked)]
    if len(set(map(id, found))) != 1:
        raise OptionError(f"{text[:40]!r} is none of {listed(choices)}")
    return found[0]


def listed(names: Iterable[str]) -> str:
    """Return names as a list for people."""
    return ", ".join(names)
