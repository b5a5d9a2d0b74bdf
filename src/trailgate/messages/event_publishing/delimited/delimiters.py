"""The four delimiters of delimited publications, as bytes of the code page of the messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from trailgate.columnar.code_pages.page_text import CodePage
from trailgate.columnar.code_pages.single_byte import SingleBytePage
from trailgate.columnar.views import octets
from trailgate.errors import EncodeError, OptionError

# Names of the properties and options, and the characters of each by default.
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {"fielddelim": ",", "recorddelim": "LF", "quote": '"', "decimalpoint": "."}
)
# NEL: what records of z/OS may end with where another tool has converted them.
_WORDS: Final[Mapping[str, str]] = MappingProxyType({"LF": "\n", "NEL": "\x85"})
_HEX: Final = re.compile(r"(?:\\x([0-9a-f]{2})|x'([0-9a-f]{2})')", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The bytes between columns, after records, around texts, and the decimal point of numbers.

    Each is one byte, except for NEL in UTF-8.
    """

    fielddelim: bytes = b","
    recorddelim: bytes = b"\n"
    quote: bytes = b'"'
    decimalpoint: bytes = b"."

    @staticmethod
    def of(given: Mapping[str, str], page: CodePage) -> Delimiters:
        """Return the delimiters by their names; raises OptionError, with the name as its field.

        IBM's text: "each of the four delimiter types (column, record, string, and decimal) must be different, and no
        alphanumeric characters (0 to 9 or Aa to Zz) or double-byte characters are allowed".
        """
        found: dict[str, bytes] = {}
        for name in DEFAULTS:
            try:
                value = delimiter(given.get(name, DEFAULTS[name]), page)
            except OptionError as error:
                raise error.located(field=name) from None
            for other, known in found.items():
                if known == value:
                    raise OptionError(f"{name} and {other} are the same").located(field=name)
            found[name] = value
        return Delimiters(**found)


def delimiter(text: str, page: CodePage) -> bytes:
    """Return a delimiter that is given as a character, or as its byte in the code page; raises OptionError."""
    byte = _HEX.fullmatch(text)
    if byte is not None:
        raw = bytes.fromhex(byte[1] or byte[2])
        character = _character(raw, page)
    else:
        character = _WORDS.get(text.upper(), text)
        if len(character) != 1:
            problem = f"expected one character, or one byte as \\xHH, found {text!r}"
            raise OptionError(problem)
        raw = _bytes(character, page)
        if len(raw) != 1 and character != _WORDS["NEL"]:
            problem = f"{text!r} has {len(raw)} bytes in the code page {page.name}"
            raise OptionError(problem, hint="A delimiter has one byte")
    if character is not None and character.isascii() and character.isalnum():
        problem = f"{text} is the letter or digit {character}, which cannot be a delimiter"
        raise OptionError(problem)
    # Messages of other pages are converted to UTF-8 before delimiters are sought.
    return raw if of_bytes(page) or character is None else character.encode()


def of_bytes(page: CodePage) -> bool:
    """Return whether a delimiter of a page is never part of another character: it has one byte each, or is UTF-8."""
    return page.name == "utf-8" or isinstance(page, SingleBytePage)


def _character(raw: bytes, page: CodePage) -> str | None:
    """Return the character of a byte; None where it is not one by itself."""
    found = page.decode(octets(raw).reshape(1, 1))
    text: str | None = found.values[0].as_py()
    return text


def _bytes(character: str, page: CodePage) -> bytes:
    try:
        raw: bytes = page.encode(pa.array([character]))[0].as_py()
    except EncodeError as error:
        raise OptionError(error.problem) from None
    return raw
