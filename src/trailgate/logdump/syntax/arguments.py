"""Cut a line into commands, and the rest of a command into arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.syntax.values import read_number

QUOTES: Final = "\"'"
# A quoted text; a text between slashes that follows a blank; a comma; any other run of characters.
ARGUMENT: Final = re.compile(r"\"[^\"]*\"|'[^']*'|(?<![^\s])/[^/]*/(?=[\s,]|$)|,|[^\s,]+")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The words after a command's name, commas among them, and the text that holds them."""

    words: tuple[str, ...]
    text: str = ""

    @property
    def plain(self) -> list[str]:
        """Return the words without commas and quotes."""
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
        """Return the only word; raises OptionError for several, or for none without a default."""
        plain = self.plain
        if len(plain) == 1:
            return plain[0]
        if not plain and default is not None:
            return default
        raise OptionError("one word was expected" if plain else "something is missing")

    def number(self, default: int | None = None) -> int:
        """Return the only word as a number."""
        return read_number(self.only(None if default is None else str(default)))


def split_commands(line: str) -> list[str]:
    """Return the commands of a line, which are separated by semicolons."""
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


def read_arguments(text: str) -> Arguments:
    """Return the arguments that a text holds."""
    return Arguments(tuple(ARGUMENT.findall(text)), text.strip())


def unquoted(word: str) -> str:
    """Return a word without the quotes around it."""
    if len(word) >= 2 and word[0] == word[-1] and word[0] in QUOTES:
        return word[1:-1]
    return word
