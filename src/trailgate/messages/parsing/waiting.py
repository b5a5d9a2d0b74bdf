"""Messages that wait for those of a later batch: what they hold is not whole without them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.transactions.bounds import TransactionState


@runtime_checkable
class Holding(Protocol):
    """A format of whose messages some wait for later ones."""

    def complete(self, messages: MessageBatch) -> tuple[int, str | None]:
        """Return how many of the messages, from the first on, wait for no later one, and the transaction of the first that does.

        That is None where it is not known.
        """
        ...

    def continues(self, messages: MessageBatch) -> bool:
        """Return whether what waits before these messages waits after them too, whatever it is."""
        ...


@dataclass(frozen=True, slots=True)
class WaitingState(TransactionState):
    """What is open after a batch, and the messages that wait; they belong to the unit that is open."""

    waiting: tuple[MessageBatch, ...] = ()


def waiting_in(state: TransactionState) -> tuple[MessageBatch, ...]:
    """Return the messages that wait."""
    return state.waiting if isinstance(state, WaitingState) else ()


def with_waiting(state: TransactionState, waiting: tuple[MessageBatch, ...]) -> TransactionState:
    """Return a state with messages that wait."""
    plain = {field.name: getattr(state, field.name) for field in fields(TransactionState)}
    return WaitingState(**plain, waiting=waiting) if waiting else TransactionState(**plain)
