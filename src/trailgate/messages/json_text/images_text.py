"""Images as the members of JSON objects: one piece a column, its value in three states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.errors import EncodeError
from trailgate.messages.json_text.objects import BARE, NUMBER, PLAIN, STRING, Piece, literal
from trailgate.model.changes import ChangeBlock, Image
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.operations.values import formatter_for

# What values of a family need: whole numbers are JSON's; other numbers may be written otherwise; date times have no escapes.
KINDS: Final = {
    Family.INTEGER: BARE,
    Family.UNSIGNED: BARE,
    Family.NUMBER_TEXT: NUMBER,
    Family.FLOAT: NUMBER,
    Family.BYTES: PLAIN,
}


class WrittenColumn(NamedTuple):
    """A column as a member: the literal before its value, how that becomes text, and what kind of value it is."""

    literal: bytes
    format: Callable[[pa.Array], pa.Array]
    kind: int


def written_column(column: Column, *, strings: bool = False) -> WrittenColumn:
    """Return how a column's values are written; with ``strings`` numbers are in quotes."""
    kind = KINDS.get(column.family, STRING)
    if strings and kind in (BARE, NUMBER):
        kind = PLAIN
    return WrittenColumn(b"," + literal(column.name) + b":", formatter_for(column), kind)


def members(image: Image, columns: tuple[WrittenColumn, ...], rows: int) -> Iterator[Piece]:
    """Yield the pieces of an image's columns; those that are missing in every row have none."""
    for state, column in zip(image, columns, strict=True):
        if state.values is not None and rows:
            yield Piece(column.literal, column.format(state.values), column.kind, state.missing)


def is_there(image: Image) -> bool:
    """Return whether an image has any column."""
    return any(state.values is not None for state in image)


def refuse_image(block: ChangeBlock, image: Image, name: str) -> None:
    """Raise EncodeError where an image that such operations have not has a value."""
    for state, column in zip(image, block.table.columns, strict=True):
        present: Mask = ~state.is_missing(len(block))
        if present.any():
            row = int(np.argmax(present))
            letter = chr(int(block.op_type[row]))
            problem = f"an operation {letter} has a value in its {name} image, which such messages do not have"
            raise operation_error(block, row, problem).located(field=column.name)


def operation_error(block: ChangeBlock, row: int, problem: str, hint: str = "") -> EncodeError:
    """Return an error placed at an operation."""
    place = block.position[row].as_py()
    return EncodeError(f"{problem} (operation at {place})", hint=hint).located(
        table=block.table.name
    )


def check_sizes(block: ChangeBlock, sizes: Longs, most: int) -> None:
    """Raise EncodeError for a message with more bytes than one may have."""
    row = int(np.argmax(sizes))
    if sizes[row] > most:
        problem = f"the message has {int(sizes[row])} bytes, and {most} at most"
        raise operation_error(block, row, problem, "Set max-message-bytes")
