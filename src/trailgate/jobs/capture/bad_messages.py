"""The bad messages of a capture: counted by their reasons, and listed where nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from trailgate.errors import DecodeError, TrailgateError, Where

RANKED: Final = 20  # reasons that a summary has
NAMED: Final = 3  # reasons that an error has
WITH_OTHERS: Final = "another message of its transaction is bad"
OTHER_REASONS: Final = "other reasons"


@dataclass(frozen=True, slots=True)
class BadMessages:
    """How many messages are bad for which reason; ``errors`` are listed in a dry run only."""

    reasons: Mapping[str, int]
    errors: tuple[TrailgateError, ...] = ()

    @classmethod
    def of(cls, errors: Iterable[TrailgateError], quarantined: int, *, listed: bool) -> BadMessages:
        """Return the bad messages of these errors; of the quarantined ones the rest are their transactions'."""
        errors = tuple(errors)
        reasons = Counter(map(reason_of, errors))
        if quarantined > len(errors):
            reasons[WITH_OTHERS] += quarantined - len(errors)
        return cls(dict(reasons), errors if listed else ())


def together(parts: Iterable[BadMessages]) -> BadMessages:
    """Return the bad messages of all ranges, reasons with many messages first."""
    counts: Counter[str] = Counter()
    errors: list[TrailgateError] = []
    for part in parts:
        counts.update(part.reasons)
        errors += part.errors
    return BadMessages(dict(counts.most_common()), tuple(errors))


def ranked(bad: BadMessages) -> dict[str, int]:
    """Return the reasons that most messages have, and the sum of the others."""
    pairs = list(bad.reasons.items())
    rest = sum(count for _, count in pairs[RANKED:])
    return dict(pairs[:RANKED]) | ({OTHER_REASONS: rest} if rest else {})


def reason_of(error: TrailgateError) -> str:
    """Return what is wrong, with the table and the field, but without the place and the value."""
    place = Where(table=error.where.table, field=error.where.field)
    return error.problem if place == Where() else f"{error.problem} ({place})"


def as_values(error: TrailgateError) -> dict[str, Any]:
    """Return an error as plain values: its problem, its hint, and what is known of its place."""
    place = {field.name: getattr(error.where, field.name) for field in fields(Where)}
    raw = place.pop("raw")
    if raw is not None:
        text = place["text"] or raw.decode("utf-8", "backslashreplace")
        place |= {"text": text, "bytes": raw.hex()}
    known = {name: value for name, value in place.items() if value is not None}
    return {"problem": error.problem, **known, **({"hint": error.hint} if error.hint else {})}


def too_many(bad: BadMessages, count: int, most: int) -> DecodeError:
    """Return the error of a run with more bad messages than it may have."""
    named = "; ".join(f"{number:,} x {reason}" for reason, number in [*bad.reasons.items()][:NAMED])
    return DecodeError(
        f"{count:,} messages are bad, and at most {most:,} may be: {named}",
        hint="Nothing was published; --dry-run lists all of them",
    )
