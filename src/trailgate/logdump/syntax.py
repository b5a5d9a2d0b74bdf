"""Parse Logdump's command lines: split a line into commands, and commands into arguments.

Arguments are numbers, hex digits, ranges of bytes (``0:231``), and the names of codes such as
record types. ``times`` parses times, and ``filter_options`` comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

from trailgate.errors import OptionError, did_you_mean
from trailgate.trail.format.record_types import ROWS
from trailgate.trail.records.table_metadata import MetadataType

# 1024, -3, or 0x1F
NUMBER: Final = re.compile(r"[+-]?(?:(0[xX])[0-9A-Fa-f]{1,16}|[0-9]{1,20})", re.ASCII)
QUOTES: Final = "\"'"

# A quoted text; a text between slashes after a blank; a comma; or another run of characters.
ARGUMENT: Final = re.compile(r"\"[^\"]*\"|'[^']*'|(?<![^\s])/[^/]*/(?=[\s,]|$)|,|[^\s,]+")
RECORD_TYPES: Final[Mapping[str, int]] = MappingProxyType(
    {name.upper(): row.code for row in ROWS for name in (row.name, *row.also)}
)
INDICATORS: Final[Mapping[str, int]] = MappingProxyType(
    {"FIRST": 0, "BEGIN": 0, "MIDDLE": 1, "LAST": 2, "END": 2, "ONLY": 3, "WHOLE": 3}
)
METADATA_KINDS: Final[Mapping[str, MetadataType]] = MappingProxyType(
    {
        "DDR": MetadataType.DATABASE,
        "TDR": MetadataType.TABLE,
        "TDRREF": MetadataType.TABLE_REFERENCE,
        "PNR": MetadataType.PARTITION,
    }
)


Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class DataByteRange:
    """A range of a record's data bytes, such as ``0:231`` in a FILTER. It includes both ends.

    ``last`` is None for an open range.
    """

    first: int = 0
    last: int | None = None


def read_number(text: str, least: int = 0, greatest: int = 2**63 - 1) -> int:
    """Parse a number in a Logdump command: decimal, or hexadecimal after 0x. Raises OptionError."""
    matched = NUMBER.fullmatch(text)
    number = int(text, 16 if matched[1] else 10) if matched else least - 1
    if not least <= number <= greatest:
        raise OptionError(f"{text[:40]!r} is not a number from {least} to {greatest}")
    return number


def read_byte_range(words: Sequence[str]) -> DataByteRange:
    """Parse a byte range ``start:end`` of a Logdump command.

    If the word is missing, return the range of all bytes. Raises OptionError.
    """
    if not words:
        return DataByteRange()
    first, _, last = words[0].partition(":")
    if len(words) > 1 or not first:
        raise OptionError("a range is start:end, such as 0:231")
    return DataByteRange(read_number(first), read_number(last) if last else None)


def read_choice(text: str, choices: Mapping[str, Choice]) -> Choice:
    """Find the choice that a word of a Logdump command names. The word may be abbreviated.

    Raises OptionError unless exactly one choice matches.
    """
    folded = text.upper()
    if folded in choices:
        return choices[folded]
    matches = [choices[name] for name in choices if folded and name.startswith(folded)]
    # several names of one choice are the same object, and count once
    if len(set(map(id, matches))) != 1:
        problem = f"{text[:40]!r} is none of {list_names(choices)}"
        raise OptionError(problem, hint=did_you_mean(text[:40], choices))
    return matches[0]


def list_names(names: Iterable[str]) -> str:
    """Join the names of a Logdump command's choices with commas."""
    return ", ".join(names)


@dataclass(frozen=True, slots=True)
class CommandArguments:
    """The words after a Logdump command's name, including commas, and the complete text.

    Words keep their quotes; ``plain`` and ``phrases`` remove them.
    """

    words: tuple[str, ...]
    text: str = ""

    @property
    def plain(self) -> list[str]:
        """The words of the command without commas and quotes."""
        return [unquote(word) for word in self.words if word != ","]

    def phrases(self) -> list[list[str]]:
        """Split the words of the command at commas."""
        groups: list[list[str]] = [[]]
        for word in self.words:
            if word == ",":
                groups.append([])
            else:
                groups[-1].append(unquote(word))
        return [phrase for phrase in groups if phrase]

    def only(self, default: str | None = None) -> str:
        """Return the command's only word, or the default if there is none.

        Raises OptionError if there are several words, or neither a word nor a default.
        """
        plain = self.plain
        if len(plain) == 1:
            return plain[0]
        if not plain and default is not None:
            return default
        if plain:
            raise OptionError(f"one word was expected, not {' '.join(plain)[:40]!r}")
        raise OptionError("a word is missing at the end")

    def number(self, default: int | None = None) -> int:
        """Return the command's only word as a number, or the default if there is no word.

        Raises OptionError.
        """
        return read_number(self.only(None if default is None else str(default)))


def split_commands(line: str) -> list[str]:
    """Split a line into Logdump commands at semicolons outside of quotes."""
    pieces: list[str] = [""]
    # the quote character that is open, or ""
    quote = ""
    for letter in line:
        if letter == ";" and not quote:
            pieces.append("")
            continue
        if letter in QUOTES and quote in ("", letter):
            quote = "" if quote else letter
        pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip()]


def read_arguments(text: str) -> CommandArguments:
    """Split the text after a Logdump command into arguments."""
    return CommandArguments(tuple(ARGUMENT.findall(text)), text.strip())


class QuotedWord(str):
    """A word of a Logdump command that was quoted: a sign such as < in it is not a comparison."""

    __slots__ = ()


def unquote(word: str) -> str:
    """Remove the quotes around a word of a Logdump command.

    Returns a ``QuotedWord``; a word without quotes is returned unchanged.
    """
    if len(word) >= 2 and word[0] == word[-1] and word[0] in QUOTES:
        return QuotedWord(word[1:-1])
    return word


def type_codes(words: Sequence[str]) -> list[int]:
    """Return the codes of record types that are typed in a Logdump command, by name or number.

    Raises OptionError.
    """
    codes = []
    for word in words:
        if word.upper() in RECORD_TYPES:
            codes.append(RECORD_TYPES[word.upper()])
        elif word.isascii() and word[:1].isdigit():
            codes.append(read_number(word, 0, 255))
        else:
            raise OptionError(f"{word[:40]!r} is not a record type", hint="SHOW RECTYPE lists them")
    return codes


def indicator_code(word: str, greatest: int = 255) -> int:
    """Parse the transaction indicator (TransInd) in the arguments of FILTER or SAVE, a name or a number.

    Raises OptionError.
    """
    return read_number(word, 0, greatest) if word.isdigit() else read_choice(word, INDICATORS)
