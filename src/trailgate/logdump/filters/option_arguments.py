"""The arguments of a filter's option, read as numbers, times, names and values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from trailgate.errors import OptionError
from trailgate.logdump.syntax.comparisons import Comparison, read_comparison
from trailgate.logdump.syntax.times import TimeOffset, read_time
from trailgate.logdump.syntax.values import read_number


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A name, and the value that it is compared with; without a comparison any value will do."""

    name: str
    compare: Comparison | None = None
    value: str = ""


@dataclass(frozen=True, slots=True)
class OptionArguments:
    """The words after an option, cut at commas; ``offset`` and ``now`` are for times among them."""

    phrases: tuple[tuple[str, ...], ...]
    offset: TimeOffset
    now: datetime

    @property
    def words(self) -> list[str]:
        """Return the words without commas; raises OptionError if there are none."""
        found = [word for phrase in self.phrases for word in phrase]
        if not found:
            raise OptionError("something to compare with is missing")
        return found

    def each(self, missing: str) -> Iterator[tuple[str, ...]]:
        """Yield the words between commas; raises OptionError, with this text, for none."""
        for phrase in self.phrases or ((),):
            if not phrase:
                raise OptionError(missing)
            yield phrase

    def text(self) -> tuple[Comparison, str]:
        """Return a comparison and the text to compare with."""
        compare, rest = read_comparison(self.words)
        return compare, " ".join(rest)

    def number(self, greatest: int = 2**64 - 1) -> tuple[Comparison, int]:
        """Return a comparison and the number to compare with."""
        compare, rest = read_comparison(self.words)
        if len(rest) != 1:
            raise OptionError("one number was expected")
        return compare, read_number(rest[0], 0, greatest)

    def name_and_value(self) -> NamedValue:
        """Return a name and, if one is given, the value to compare with."""
        compare, rest = read_comparison(self.words)
        name = rest[0] if rest else self.words[0]
        return NamedValue(name, compare if rest[1:] else None, " ".join(rest[1:]))

    def time(self) -> int:
        """Return a time, microseconds since 1970 UTC."""
        return read_time(" ".join(self.words), self.offset, self.now)
