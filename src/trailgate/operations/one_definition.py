"""One table's changes in the columns of one definition, where a trail defines it more than once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trailgate.errors import DefinitionError, Where
from trailgate.model.changes import ABSENT, ChangeBatch, ChangeBlock, Image
from trailgate.model.tables import Column, Table
from trailgate.operations.values import typed_for

HINT: Final = "Read the general shape, or from this position on by fromPosition"


def in_columns_of(batch: ChangeBatch, table: Table) -> ChangeBatch:
    """Return a table's changes in the columns of a definition; one that it lacks is missing.

    Raises DefinitionError where a change has a column that the definition does not have, or has
    of another type: the rows of a typed shape have one schema.
    """
    blocks = [
        block if block.table.columns == table.columns else _moved(block, table)
        for block in batch.blocks
        if block.table.name.casefold() == table.name.casefold()
    ]
    return ChangeBatch(blocks, batch.rows)


def _moved(block: ChangeBlock, table: Table) -> ChangeBlock:
    known = {column.name.casefold(): i for i, column in enumerate(table.columns)}
    places = []
    for column in block.table.columns:
        place = known.get(column.name.casefold())
        if place is None or typed_for(column)[0] != typed_for(table.columns[place])[0]:
            raise _changed(block, column, is_new=place is None)
        places.append(place)
    before, after = (_ordered(image, places, table) for image in (block.before, block.after))
    return replace(block, table=table, before=before, after=after)


def _ordered(image: Image, places: Sequence[int], table: Table) -> Image:
    columns = [ABSENT] * len(table.columns)
    for place, column in zip(places, image, strict=True):
        columns[place] = column
    return tuple(columns)


def _changed(block: ChangeBlock, column: Column, *, is_new: bool) -> DefinitionError:
    what = "is new" if is_new else "has another type"
    position = block.position[0].as_py()
    problem = f"the trail defines the table anew: column {column.name} {what} at {position}"
    return DefinitionError(problem, where=Where(table=block.table.name), hint=HINT)
