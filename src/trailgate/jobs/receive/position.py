"""Where a broker's capture continues, as the trail's commit holds it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from trailgate.errors import StorageError, Where


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The number of the next message, in the journal or partition named ``source``, and the bytes of the quarantine that count.

    ``reason`` is what is wrong with a unit that the next message may belong to, ``transaction`` the id that its last message has, where
    that is known. ``last_id`` is the highest message id before
    the next message, where these are compared. ``repaired`` are the bytes of the list of repaired messages that count, and ``pending``
    are those, by a digest, that are being added to the trail.
    """

    source: str
    number: int
    quarantine: int = 0
    reason: str | None = None
    last_id: str | None = None
    repaired: int = 0
    pending: str | None = None
    transaction: str | None = None

    def encoded(self) -> str:
        """Return the text that a commit holds."""
        return json.dumps(asdict(self), ensure_ascii=False)


def read_position(text: str | None, source: str | None, prefix: str) -> SourcePosition | None:
    """Return a commit's position, None where nothing was committed; raises StorageError for that of another source, if one is given."""
    if text is None:
        return None
    where = Where(source=prefix)
    try:
        fields = json.loads(text)
        position = SourcePosition(**fields)
        if not isinstance(position.number, int) or not isinstance(position.quarantine, int):
            raise TypeError("not numbers")  # noqa: TRY301  reported below
    except (ValueError, TypeError, RecursionError):
        problem = f"the trail was not written from a broker: its source's position is {text!r}"
        raise StorageError(problem, where=where, hint="Receive into a new trail") from None
    if source is not None and position.source != source:
        problem = f"the trail was received from {position.source}, not from {source}"
        raise StorageError(problem, where=where, hint="Receive each into a trail of its own")
    return position
