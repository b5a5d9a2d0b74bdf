"""Messages that wait for those of a later batch: what they hold is not whole without them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.transactions.bounds import Problem, TransactionState
from trailgate.messages.transactions.by_id import NOTHING_LATER, Later


@dataclass(frozen=True, slots=True)
class Complete:
    """How many messages, from the first on, wait for no later one; ``later`` is what is known of those after them."""

    count: int
    later: Later = NOTHING_LATER


@runtime_checkable
class Holding(Protocol):
    """A format of whose messages some wait for later ones."""

    def complete(self, messages: MessageBatch) -> Complete:
        """Return which of the messages wait."""
        ...

    def continues(self, messages: MessageBatch) -> bool:
        """Return whether what waits before these messages waits after them too, whatever it is."""
        ...


@dataclass(frozen=True, slots=True)
class WaitingState(TransactionState):
    """What is open after a batch, and the messages that wait; they belong to the unit that is open.

    ``unreadable`` are those that are known to be bad, by their numbers among all that wait.
    """

    waiting: tuple[MessageBatch, ...] = ()
    unreadable: tuple[Problem, ...] = ()

    @property
    def is_open(self) -> bool:
        """Return True: the unit of the messages that wait goes on."""
        return True


def waiting_in(state: TransactionState) -> tuple[MessageBatch, ...]:
    """Return the messages that wait."""
    return state.waiting if isinstance(state, WaitingState) else ()


def unreadable_in(state: TransactionState) -> tuple[Problem, ...]:
    """Return what is wrong with messages that wait."""
    return state.unreadable if isinstance(state, WaitingState) else ()


def with_waiting(
    state: TransactionState,
    waiting: tuple[MessageBatch, ...],
    unreadable: tuple[Problem, ...] = (),
) -> TransactionState:
    """Return a state with messages that wait."""
    plain = {field.name: getattr(state, field.name) for field in fields(TransactionState)}
    if not waiting:
        return TransactionState(**plain)
    return WaitingState(**plain, waiting=waiting, unreadable=unreadable)
