"""Messages in a journal: an operation each, in transactions that span messages."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from trailgate.live.files.journal_writer import Journal
from trailgate.messages.message_batch import RECEIVED
from trailgate.model.changes import ChangeBatch
from trailgate.model.operations_table import to_operations


def stored(journal: Journal, first: int, bodies: list[str]) -> None:
    """Append messages to a journal, with ids by their numbers."""
    rows: list[dict[str, object]] = [
        {"id": f"ID:{at}", "received": at, "headers": [], "body": body.encode(), "fault": None}
        for at, body in enumerate(bodies, first)
    ]
    journal.append(pa.RecordBatch.from_pylist(rows, RECEIVED))


def storing(journal: Journal, bodies: list[str], windows: list[int]) -> Iterator[None]:
    """Append messages in windows of so many, the rest in a last one, and yield after each."""
    at = 0
    for window in [*windows, len(bodies)]:
        if at < len(bodies):
            stored(journal, at, bodies[at : at + window])
            at = min(len(bodies), at + window)
        yield


def letters_of(sizes: list[int]) -> list[str]:
    """Return the indicators of transactions of so many operations, one an operation."""
    return [
        letter
        for size in sizes
        for letter in (["W"] if size == 1 else ["B", *"M" * (size - 2), "E"])
    ]


def line(number: int, letter: str) -> str:
    """Return a message of one operation."""
    return f"I,MY.ORDERS,2026-01-01,{letter},{number},{number}"


def names_of(batch: ChangeBatch) -> list[str]:
    """Return the values of NAME."""
    return [dict(after)["NAME"] for after in to_operations(batch)["after"].to_pylist()]
