"""Operations and their values as pages show them: as text, cut to a length, with the state of each value.

``show_operations`` converts a block of changes, and ``show_cell`` one column's values before and
after. The limits here keep a page below 1 MB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from markupsafe import escape

from trailgate.browse.index import TrailIndex
from trailgate.model.changes import ChangeBlock, StateColumn
from trailgate.model.positions import parse_position
from trailgate.model.tables import Column
from trailgate.model.values import formatter_for
from trailgate.storage.files.trail_files import TrailPosition

LONGEST: Final = 300  # the most characters shown of a value
COLUMNS: Final = 200  # the most columns shown of an operation
LONGEST_KEY: Final = 1000  # characters of a key in an address
MARKUP: Final = 250  # characters of HTML around a value or a row, about


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A column value as a page shows it. ``state`` is "value", "empty", "null", "missing" or "unread".

    The text of an unread value is the problem.
    """

    state: str
    text: str = ""


MISSING: Final = ShownValue("missing")
NULL: Final = ShownValue("null")


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A column of an operation as a page shows it.

    If there is only one value to show, it is ``after``, even for a delete, and ``before`` is None.
    """

    name: str
    after: ShownValue
    before: ShownValue | None = None
    key: bool = False

    @property
    def changed(self) -> bool:
        """Whether an update changed the value of this column, so that a page shows both values."""
        return self.before is not None and self.after is not MISSING

    @property
    def logged(self) -> bool:
        """Whether the operation has a value of the column, before or after."""
        return self.before is not None or self.after is not MISSING


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """An operation as a page shows it. ``time`` is microseconds since 1970.

    ``kind`` is the letter of the operation's type and ``name`` the name of its transaction. With
    ``undone``, a restart of the writer abandoned the transaction.
    """

    place: TrailPosition
    table: str
    kind: str
    time: int
    tx_id: str
    csn: str
    indicator: str
    owner: str
    name: str
    tokens: tuple[tuple[str, str], ...]
    cells: tuple[ShownCell, ...]
    undone: bool = False

    @property
    def key(self) -> str:
        """The row's key after the operation as a JSON array of texts, or "" if it is unknown or too long."""
        cells = [one for one in self.cells if one.key]
        sides = [
            # An operation that does not log the key after it still has the key from before.
            one.before if one.after is MISSING and one.before is not None else one.after
            for one in cells
        ]
        if not sides or any(one.state not in ("value", "empty") for one in sides):
            return ""
        key = json.dumps([one.text for one in sides], ensure_ascii=False, separators=(",", ":"))
        return key if len(key) <= LONGEST_KEY else ""

    @property
    def size(self) -> int:
        """The approximate number of characters of the operation on a page."""
        shown = [cell for cell in self.cells if cell.logged][:COLUMNS]
        texts = [one.text for cell in shown for one in (cell.before, cell.after) if one is not None]
        # Each key column on the page has a link whose address contains the complete key.
        key = len(quote(self.key)) * sum(cell.key for cell in shown)
        names = sum(len(cell.name) for cell in self.cells[:COLUMNS])
        values = sum(len(escape(text[:LONGEST])) + MARKUP for text in texts)
        return 4 * MARKUP + len(self.tx_id) + names + key + values


def show_operations(index: TrailIndex, block: ChangeBlock) -> Iterator[ShownOperation]:
    """Convert a block's operations to rows of a page, with their values as text."""
    images = [
        (
            column,
            _sides(formatter_for(column), before, len(block)),
            _sides(formatter_for(column), after, len(block)),
        )
        for column, before, after in zip(
            block.table.columns, block.before, block.after, strict=True
        )
    ]
    strings = [
        # None instead of a column means that all its values are NULL.
        [None] * len(block) if one is None else one.to_pylist()
        for one in (
            block.position,
            block.tx_id,
            block.csn,
            block.tx_owner,
            block.tx_name,
            block.tokens,
        )
    ]
    kinds, indicators = bytes(block.op_type).decode(), bytes(block.tx_ind).decode()
    for row, (position, tx_id, csn, owner, name, tokens) in enumerate(zip(*strings, strict=True)):
        place = TrailPosition(*parse_position(position))
        yield ShownOperation(
            place=place,
            table=block.table.name,
            kind=kinds[row],
            time=int(block.op_ts[row]),
            tx_id=tx_id or "",
            csn=csn or "",
            indicator=indicators[row],
            owner=owner or "",
            name=name or "",
            tokens=tuple((str(key), str(value)) for key, value in tokens or ()),
            cells=tuple(
                show_cell(column, before[row], after[row], kinds[row])
                for column, before, after in images
            ),
            undone=any(begin <= place < end for begin, end in index.undone),
        )


def _sides(convert: object, state: StateColumn, rows: int) -> list[ShownValue]:
    assert callable(convert)
    if state.values is None:
        return [MISSING] * rows
    missing = state.is_missing(rows).tolist()
    problems = [None] * rows if state.problems is None else state.problems.to_pylist()
    return [
        MISSING
        if is_missing
        else show_value(text)
        if problem is None
        else ShownValue("unread", problem)
        for is_missing, text, problem in zip(
            missing, convert(state.values).to_pylist(), problems, strict=True
        )
    ]


def show_value(text: str | None) -> ShownValue:
    """Convert a logged value to a ``ShownValue``. None is NULL."""
    return NULL if text is None else ShownValue("value" if text else "empty", text)


def show_cell(column: Column, before: ShownValue, after: ShownValue, kind: str) -> ShownCell:
    """Build the ``ShownCell`` of a column from its values before and after."""
    name, key = column.name, column.key
    # A delete has only values from before, and a single value is shown as ``after``.
    if kind == "D":
        return ShownCell(name, before, key=key)
    if before is MISSING or before == after:
        return ShownCell(name, after, key=key)
    return ShownCell(name, after, before, key)
