"""Numbers, hex digits, byte ranges and choices, as they are typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from trailgate.errors import OptionError, did_you_mean

NUMBER: Final = re.compile(r"[+-]?(?:(0[xX])[0-9A-Fa-f]{1,16}|[0-9]{1,20})", re.ASCII)

Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of a record's data bytes, both ends included; without a last byte it is open."""

    first: int = 0
    last: int | None = None


def read_number(text: str, least: int = 0, greatest: int = 2**63 - 1) -> int:
    """Return a decimal number, or a hexadecimal one after 0x; raises OptionError."""
    matched = NUMBER.fullmatch(text)
    number = int(text, 16 if matched[1] else 10) if matched else least - 1
    if not least <= number <= greatest:
        raise OptionError(f"{text[:40]!r} is not a number from {least} to {greatest}")
    return number


def read_byte_range(words: Sequence[str]) -> ByteRange:
    """Return the range ``start:end``, or all bytes where no word is given; raises OptionError."""
    if not words:
        return ByteRange()
    first, _, last = words[0].partition(":")
    if len(words) > 1 or not first:
        raise OptionError("a range is start:end, as 0:231")
    return ByteRange(read_number(first), read_number(last) if last else None)


def one_of(text: str, choices: Mapping[str, Choice]) -> Choice:
    """Return the choice of this name, which may be abbreviated; raises OptionError."""
    asked = text.upper()
    if asked in choices:
        return choices[asked]
    found = [choices[name] for name in choices if asked and name.startswith(asked)]
    if len(set(map(id, found))) != 1:
        problem = f"{text[:40]!r} is none of {listed(choices)}"
        raise OptionError(problem, hint=did_you_mean(text[:40], choices))
    return found[0]


def listed(names: Iterable[str]) -> str:
    """Return names as a list with commas."""
    return ", ".join(names)
