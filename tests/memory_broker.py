"""A sender to a broker in memory, which fails at drawn steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from trailgate.errors import BrokerError, BrokerFullError
from trailgate.publish.senders.sender import EXACTLY_ONCE, OutgoingMessages

# The steps of a batch at which a broker may fail; after the last one the batch has arrived.
STEPS = ("open", "check", "before sending", "while sending", "after sending")


class FaultyBroker:
    """A sender and the broker that it sends to; it fails at drawn steps, never twice in a row at the same one."""

    guarantee = EXACTLY_ONCE
    tables: Sequence[str] = ()

    def __init__(self, own: Random, share: float) -> None:
        self._own, self._share, self._failed = own, share, ""
        self.stored: str | None = None
        self.messages: list[bytes] = []
        self.faults: set[str] = set()
        self._is_open = False

    def _reach(self, step: str) -> None:
        if step != self._failed and self._own.random() < self._share:
            self._failed = step
            self.faults.add(step)
            self.close()
            raise BrokerError(f"the broker fails: {step}")
        self._failed = ""

    def open(self) -> str | None:
        self._reach("open")
        self._is_open = True
        return self.stored

    def read(self) -> str | None:
        return self.stored

    def remember(self, tables: Iterable[str]) -> None:
        del tables

    def check(self, parts: Iterable[OutgoingMessages]) -> None:
        del parts
        self._reach("check")

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        if not self._is_open:
            raise BrokerError("there is no connection")
        self._reach("before sending")
        sent = [body for part in parts for body in part.messages.bodies.to_pylist()]
        self._reach("while sending")
        self.messages += sent
        self.stored = state
        self._reach("after sending")

    def close(self) -> None:
        self._is_open = False


class FullBroker(FaultyBroker):
    """A broker in memory that fails too, and has room for a drawn number of messages, which consumers take between two batches."""

    def __init__(self, own: Random, share: float, least: int, most: int) -> None:
        super().__init__(own, share)
        self._least, self._most, self.refused = least, most, 0

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        if sum(len(part.messages) for part in parts) > self._own.randint(self._least, self._most):
            self.refused += 1
            self.close()
            raise BrokerFullError("the broker has no room")
        super().send(parts, state)
