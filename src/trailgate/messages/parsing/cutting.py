"""Messages that are too long for memory: each is cut into many that are captured apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from trailgate.messages.parsing.messages import MessageBatch

Chunks = Callable[[], Iterable[bytes]]


class MessageCutter(Protocol):
    """What cuts messages; it travels to workers."""

    def why_not(self) -> str:
        """Return why messages cannot be cut, empty where they can."""
        ...

    def cut(self, chunks: Chunks, file: int, longest: int) -> Iterator[MessageBatch]:
        """Yield the parts of the message of a file as messages, in order; ``chunks`` gives its bytes at each call.

        Parts have no more than ``longest`` bytes. Raises DecodeError for a message that is not well-formed, or with a longer part:
        then none of it is to be captured.
        """
        ...
