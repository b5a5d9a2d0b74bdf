"""The shapes in which changes are returned: the operations table, or the typed columns of one table.

The typed shape of a table has its columns in their types, followed by ``_op_type``, ``_op_ts`` and
others. `to_typed` converts to it, and a `Projection` selects columns of either shape. If a trail
defines a table more than once, its changes are converted to the columns of one definition, because
all rows need the same schema: a column that a change does not have is missing, and a column of
another type is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from trailgate.columnar.strings import codes_to_letters
from trailgate.errors import DecodeError, DefinitionError, OptionError, Where, did_you_mean
from trailgate.model.changes import (
    ABSENT,
    DELETE,
    OPERATIONS_SCHEMA,
    TYPED_FIELDS,
    ChangeBatch,
    ChangeBlock,
    Image,
    select_images,
)
from trailgate.model.operations_table import commit_times, merge_in_order, to_operations
from trailgate.model.positions import short_position
from trailgate.model.tables import TABLES, Column, Table, describe_column_type
from trailgate.model.types import TypeFamily
from trailgate.model.values import Convert, parser_for, typed_for

MICROSECONDS: Final = 26  # characters of a date time with six digits of fraction
TEXT_TYPE: Final = 64  # text of varying length
HINT: Final = "Read operations instead of types, or read from this position on"

_NAMES: Final = pa.list_(pa.string())
_NO_NAME: Final = pa.array([], pa.string())


def convert_to_definition(batch: ChangeBatch, table: Table) -> ChangeBatch:
    """Return the changes of one table, with the columns of the definition ``table``.

    Changes of other tables are removed. If the trail's own definition lacks a column, the column is
    missing in its changes.

    Raises DefinitionError if a change has a column that is not in the definition, or a column of
    another type, because the rows of a typed shape have one schema.
    """
    of_table = np.zeros(batch.rows, np.bool_)
    for block in batch.blocks:
        if block.table.name.casefold() == table.name.casefold():
            of_table[block.order] = True
    chosen = batch.where(of_table)
    blocks = [
        block if block.table.columns == table.columns else _move(block, table)
        for block in chosen.blocks
        if len(block)
    ]
    return ChangeBatch(blocks, chosen.rows)


def _move(block: ChangeBlock, table: Table) -> ChangeBlock:
    known = table.column_indexes()
    indexes = []
    for column in block.table.columns:
        index = known.get(column.name.casefold())
        target = None if index is None else table.columns[index]
        if index is None or target is None or typed_for(column)[0] != typed_for(target)[0]:
            raise _change_error(block, column, target)
        indexes.append(index)
    before, after = (_order(image, indexes, table) for image in (block.before, block.after))
    return replace(block, table=table, before=before, after=after)


def _order(image: Image, indexes: Sequence[int], table: Table) -> Image:
    columns = [ABSENT] * len(table.columns)
    for index, column in zip(indexes, image, strict=True):
        columns[index] = column
    return tuple(columns)


def _change_error(block: ChangeBlock, column: Column, target: Column | None) -> DefinitionError:
    what = "is new"
    if target is not None:
        what = f"is {describe_column_type(column)} instead of {describe_column_type(target)}"
    position = block.position[0].as_py()
    problem = f"the trail redefines the table: column {column.name} {what} at {position}"
    return DefinitionError(problem, where=Where(table=block.table.name), hint=HINT)


class _TypedTable(NamedTuple):
    """The typed shape of a table, and the type and converter of each column."""

    schema: pa.Schema
    columns: tuple[tuple[pa.DataType, Convert], ...]


@lru_cache(TABLES)
def _convert_type(table: Table) -> _TypedTable:
    columns = tuple(map(typed_for, table.columns))
    table_fields = [
        pa.field(column.name, kind)
        for column, (kind, _) in zip(table.columns, columns, strict=True)
    ]
    return _TypedTable(pa.schema([*table_fields, *TYPED_FIELDS]), columns)


def typed_schema(table: Table) -> pa.Schema:
    """Return the typed shape of a table: its columns, then ``_op_type`` and the other columns about the operation."""
    return _convert_type(table).schema


def to_typed(batch: ChangeBatch, table: Table) -> pa.RecordBatch:
    """Return the operations of one table in its typed shape, in the order of the batch.

    Values come from the after image, or for deletes from the before image. Raises DecodeError for a
    value that does not fit its type.
    """
    schema = typed_schema(table)
    wanted = [
        block
        for block in batch.blocks
        if len(block) and block.table.name.casefold() == table.name.casefold()
    ]
    if any(block.table.guessed for block in wanted):
        raise DefinitionError(
            f"the columns of table {table.name} are numbered, since nothing in the trail defines them",
            hint="Read it without its types, or give definitions that name it",
        )
    for block in wanted:
        if block.table is not table and typed_schema(block.table) != schema:
            raise DefinitionError(
                f"table {table.name} has other columns in the trail than in the definitions",
                hint="Read it with the trail's own definition, or read operations instead of types",
            )
    parts = [_typed_of(block, schema) for block in wanted]
    return merge_in_order(parts, [block.order for block in wanted], schema)


def check_typed_values(block: ChangeBlock) -> None:
    """Raise DecodeError if a value of a change block does not fit its column's type in the typed shape.

    Tables without a definition are not checked. A time may have more fraction digits than the six
    of the typed shape.
    """
    if block.table.guessed:
        return
    for number, column in enumerate(block.table.columns):
        convert = (
            # A typed time has microseconds and would refuse further digits, which are not an error
            # of the data. Parsing the text only checks that it is a time.
            parser_for(column) if column.family is TypeFamily.DATETIME else typed_for(column)[1]
        )
        for image in (block.before, block.after):
            _convert(block, number, image, convert)


def find_fine_times(block: ChangeBlock) -> Iterator[tuple[str, DecodeError]]:
    """Yield each column with a time that does not fit a typed timestamp, and the error of its first one.

    Only columns that are long enough for more than six fraction digits are examined.
    """
    if block.table.guessed:
        return
    for number, column in enumerate(block.table.columns):
        if column.family is not TypeFamily.DATETIME or column.external_length <= MICROSECONDS:
            continue
        for image in (block.before, block.after):
            try:
                _typed_column(block, number, image)
            except DecodeError as error:
                yield column.name, error
                break


def _typed_column(block: ChangeBlock, number: int, image: Image) -> pa.Array:
    """Return the column ``number`` of an image in its type in the typed shape."""
    kind, convert = _convert_type(block.table).columns[number]
    values = _convert(block, number, image, convert)
    return pa.nulls(len(block), kind) if values is None else values


def _convert(block: ChangeBlock, number: int, image: Image, convert: Convert) -> pa.Array | None:
    """Convert the column ``number`` of a block's image, or return None if it is missing in every row.

    Raises DecodeError with the field and the operation's position in the trail.
    """
    values = image[number].values
    if values is None:
        return None
    try:
        return convert(values)
    except DecodeError as error:
        row, error.where = error.where.record, replace(error.where, record=None)
        position = None if row is None else block.position[row].as_py()
        if position:
            error.with_place(source=f"position {short_position(position)}")
        column = block.table.columns[number]
        raise error.with_place(table=block.table.name, field=column.name) from None


def _typed_of(block: ChangeBlock, schema: pa.Schema) -> pa.RecordBatch:
    rows = len(block)
    images = _chosen_images(block)
    values = [_typed_column(block, number, images) for number in range(len(images))]
    arrays = [
        *values,
        codes_to_letters(block.op_type),
        commit_times(block.op_ts),
        block.tx_id,
        block.csn,
        block.position,
        _missing_names(block.table, images, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chosen_images(block: ChangeBlock) -> Image:
    """Return the images that the typed shape shows: before images of deletes, after images of others."""
    deletes = block.op_type == DELETE
    if not deletes.any():
        return block.after
    if deletes.all():
        return block.before
    both = zip(block.before, block.after, strict=True)
    return tuple(select_images(before, after, deletes) for before, after in both)


def _missing_names(table: Table, images: Image, rows: int) -> pa.ListArray:
    if all(image.values is not None and image.missing is None for image in images):
        none = pa.py_buffer(np.zeros(rows + 1, np.int32))
        return pa.Array.from_buffers(_NAMES, rows, [None, none], children=[_NO_NAME])
    missing = np.stack([image.is_missing(rows) for image in images], axis=1)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(missing.sum(axis=1), out=offsets[1:])
    # np.nonzero is in row order, so the column indexes of each row are next to each other.
    which = np.nonzero(missing)[1]
    names = pa.array([column.name for column in table.columns], pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(which)))


def resolve_columns(schema: pa.Schema, columns: Iterable[str] | None) -> tuple[str, ...]:
    """Find the columns of an operations or rows schema that a caller names, ignoring case, and return their names as the schema spells them; None selects all.

    Raises OptionError for an unknown column, with the nearest name, and for a column that is named
    twice.
    """
    if columns is None:
        return tuple(schema.names)
    known = {name.casefold(): name for name in schema.names}
    for name in (wanted := tuple(columns)):
        if name.casefold() not in known:
            hint = did_you_mean(name, schema.names) or f"Known: {', '.join(schema.names)}"
            raise OptionError(f"there is no column {name}", hint=hint)
    names = tuple(known[name.casefold()] for name in wanted)
    for at, name in enumerate(names):
        if name in names[:at]:
            hint = "Upper and lower case do not count in names of columns. Name it once"
            raise OptionError(f"the column {name} is named twice", hint=hint)
    return names


@lru_cache(TABLES)
def with_text_times(table: Table) -> Table:
    """Return a table definition whose typed shape has date times as text, such as ``2020-01-02 03:04:05.123456789``.

    Blocks always represent date times as text.
    """
    columns = (
        replace(column, data_type=TEXT_TYPE, sub_type=0)
        if column.family is TypeFamily.DATETIME
        else column
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


@dataclass(frozen=True, slots=True)
class Projection:
    """The selected columns of a shape: of the operations table, or of one table in its typed shape.

    ``schema`` is that of the selected columns. ``needed`` are the table columns that must be
    decoded, in lower case, or None for all of them. ``table`` is the requested table with only the
    needed columns, and ``whole`` is the table with all columns; both are None for the operations
    table. With ``text_times``, date times are text.
    """

    schema: pa.Schema
    needed: frozenset[str] | None = None
    table: Table | None = None
    whole: Table | None = None
    text_times: bool = False

    @classmethod
    def of(
        cls,
        table: Table | None,
        columns: Iterable[str] | None = None,
        *,
        text_times: bool = False,
    ) -> Self:
        """Return the projection to some columns, or to all columns if None.

        Raises OptionError for an unknown column.
        """
        own = None if columns is None else tuple(columns)
        return cls._known(table, own, text_times=text_times)

    @classmethod
    @lru_cache(TABLES)
    def _known(
        cls, table: Table | None, columns: tuple[str, ...] | None, *, text_times: bool
    ) -> Self:
        if table is not None and text_times:
            table = with_text_times(table)
        everything = OPERATIONS_SCHEMA if table is None else typed_schema(table)
        names = resolve_columns(everything, columns)
        schema = pa.schema([everything.field(name) for name in names])
        if table is None:
            return cls(schema, None if {"before", "after"} & set(names) else frozenset())
        if "_missing" in names:
            return cls(schema, None, table, table, text_times)
        selected = [column for column in table.columns if column.name in names] or table.columns[:1]
        needed = frozenset(column.name.casefold() for column in selected)
        return cls(schema, needed, replace(table, columns=tuple(selected)), table, text_times)

    def rows(self, changes: ChangeBatch, also: Iterable[str] = ()) -> pa.RecordBatch:
        """Return changes as rows with the projection's columns, and the columns named in ``also``.

        Callers use the additional columns to filter rows.
        """
        names = [*self.schema.names, *(name for name in also if name not in self.schema.names)]
        if self.table is None or self.whole is None:
            return _select(to_operations(self._narrow(changes)), names)
        if self.text_times:
            blocks = [replace(one, table=with_text_times(one.table)) for one in changes.blocks]
            changes = replace(changes, blocks=blocks)
        changes = convert_to_definition(changes, self.whole)
        return _select(to_typed(self._narrow(changes), self.table), names)

    def _narrow(self, changes: ChangeBatch) -> ChangeBatch:
        """Return changes with only the columns that the projection needs."""
        if self.needed is None:
            return changes
        blocks = [_narrow(block, self.needed, self.table) for block in changes.blocks]
        return ChangeBatch(blocks, changes.rows)


def _select(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    return batch if batch.schema.names == names else batch.select(names)


def _narrow(block: ChangeBlock, needed: frozenset[str], table: Table | None) -> ChangeBlock:
    kept = [i for i, c in enumerate(block.table.columns) if c.name.casefold() in needed]
    if table is None:
        table = replace(block.table, columns=tuple(block.table.columns[i] for i in kept))
    before, after = ([image[i] for i in kept] for image in (block.before, block.after))
    return replace(block, table=table, before=tuple(before), after=tuple(after))
