"""Publications as tests make them, and what a capture of them gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from held_captures import held_setup
from trailgate.capture.capture import Capture, Parsed
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.messages.message_batch import messages_from
from trailgate.messages.units import TransactionState
from trailgate.model.changes import ChangeBatch
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Column, Definitions, Table

FULL = CaptureRules(compress_updates=False, update_befores=True, compress_deletes=False)
STRINGS = Definitions(
    (Table("S.T", (Column("K", 64, 40, key=True, nullable=False), Column("V", 64, 400))),)
)


def capture_of(
    definitions: Definitions = STRINGS, properties: str = "", *, full: bool = False
) -> Capture:
    """Return a capture of publications, ``full``: of whole images; properties are without their prefix."""
    lines = [f"event_publishing.{line}" for line in properties.splitlines()]
    text = "\n".join(["parser.type=event_publishing", *lines])
    options, _ = held_setup(text, {})
    return Capture(options, definitions, FULL if full else CaptureRules())


def record(
    values: str,
    *,
    word: str = "ISRT",
    tx: str = "0001",
    lsn: str = "0001",
    table: str = "T",
    segment: int = 0,
    flag: str = "IBM",
) -> bytes:
    """Return a record of S.T, its values as they are written."""
    return (
        f'10,"{flag}","2006030","182318000005","S","{table}","{word}","{tx}","{lsn}",'
        f'"2006-06-30-18.00.52","PLAN",{segment:04},{values}\n'
    ).encode()


def rows_of(batch: ChangeBatch) -> list[dict[str, object]]:
    """Return operations as rows of the operations table."""
    rows: list[dict[str, object]] = to_operations(batch).to_pylist(maps_as_pydicts="strict")
    return rows


def parse_all(
    capture: Capture, batches: Iterable[Sequence[bytes]]
) -> tuple[list[dict[str, object]], list[Parsed]]:
    """Return the rows of all batches of messages, the held one included, and what each batch gave."""
    state, rows, found = TransactionState(), [], []
    for bodies in batches:
        parsed = capture.parse(messages_from(bodies), state)
        rows += rows_of(parsed.batch)
        found.append(parsed)
        state = parsed.state
    return [*rows, *rows_of(capture.at_end(state).batch)], found
