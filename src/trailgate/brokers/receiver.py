"""What every receiver does: it yields windows of messages, and acknowledges them when that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Window:
    """Messages that arrived together (``messages/received.py``), and what acknowledging them needs."""

    messages: pa.RecordBatch
    token: Any = None


class Receiver(Protocol):
    """A connection to one queue or topic; it is made when it is first used, and again after it is lost."""

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection: only then does nothing coming mean that there is nothing."""
        ...

    @property
    def connections(self) -> int:
        """Return how many connections were made."""
        ...

    def receive(self, seconds: float) -> Window | None:
        """Return what has arrived, after waiting so long for a first message at most; None where nothing came.

        A connection that is lost is made again meanwhile. Raises BrokerRefusedError where that is in vain, and
        BrokerError where nothing was ever reached, or, unless the receiver is lasting, nothing for as long as the address states.
        """
        ...

    def acknowledge(self, window: Window) -> None:
        """Ask the broker to forget a window and all before it; ``settle`` returns when it has.

        A window of a connection that is lost is not acknowledged: the broker gives its messages again.
        """
        ...

    def settle(self, seconds: float) -> bool:
        """Return whether the broker has confirmed every acknowledgement, waiting so long at most."""
        ...

    def close(self) -> None:
        """Let go of the broker; what was not acknowledged it gives to somebody again."""
        ...
