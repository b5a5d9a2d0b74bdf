"""What all writers of publications are given; each format adds its own options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from trailgate.errors import OptionError

TRANSACTION: Final = "transaction"
ROW: Final = "row"
MAX_MESSAGE_BYTES: Final = 1 << 20  # the limit that brokers have by default: Kafka's


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """How operations become messages.

    ``content`` is ``transaction``, one transaction a message, or ``row``, one operation a message. A message has
    ``max_message_bytes`` at most: a longer transaction becomes several messages. ``now`` is the time of sending in microseconds since
    1970 UTC, for formats that state it; 0 is the commit time, so that the same operations give the same bytes.
    """

    content: str = TRANSACTION
    max_message_bytes: int = MAX_MESSAGE_BYTES
    now: int = 0

    contents: ClassVar[tuple[str, ...]] = (TRANSACTION, ROW)

    def __post_init__(self) -> None:
        """Raise OptionError for a value that is not allowed."""
        if self.content not in self.contents:
            problem = f"content is {self.content!r}, expected {' or '.join(self.contents)}"
            raise OptionError(problem)
        if self.max_message_bytes < 1:
            raise OptionError(f"max_message_bytes is {self.max_message_bytes}, expected 1 or more")
