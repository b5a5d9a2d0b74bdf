"""Columns of structs for groups and of lists for OCCURS: build them, and flatten them again.

Reading decodes one flat column per elementary item; ``record_members`` builds structs and lists
from these. For writing, ``flatten_nested_columns`` flattens structs and lists to flat columns. A list must
then have as many elements as the record's counter states. Missing members and elements become NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as member

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.cobol.copybook.flat_columns import make_column_names_distinct
from trailgate.cobol.copybook.placed_items import (
    GroupItem,
    ItemNode,
    PlacedItem,
    RepeatedItem,
    columns_below,
)
from trailgate.errors import EncodeError, Where, did_you_mean

Columns = Mapping[PlacedItem, pa.Array]


def _build_members(node: ItemNode, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the names and columns that an item or group adds to its parent's struct.

    A nameless group adds its members directly; an item without a column adds nothing.
    """
    if isinstance(node, PlacedItem):
        return [(node.field.name, columns[node])] if node in columns else []
    if isinstance(node, RepeatedItem):
        array = _build_list(node, columns, rows)
        return [] if array is None else [(node.field.name, array)]
    below = _build_group_members(node, columns, rows)
    if node.field.filler:
        return below
    return [(node.field.name, _build_struct(below))] if below else []


def _build_group_members(
    group: GroupItem, columns: Columns, rows: int
) -> list[tuple[str, pa.Array]]:
    below: list[tuple[str, pa.Array]] = []
    for child in group.members:
        if isinstance(child, PlacedItem):  # nearly all are; a list for each would take time
            if child in columns:
                below.append((child.field.name, columns[child]))
        else:
            below += _build_members(child, columns, rows)
    names = make_column_names_distinct([name for name, _ in below])
    return list(zip(names, (array for _, array in below), strict=True))


def record_members(root: ItemNode, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the names and columns of a record in nested form: the members of its root."""
    if not isinstance(root, GroupItem):
        return _build_members(root, columns, rows)
    return _build_group_members(root, columns, rows)


def _build_struct(below: list[tuple[str, pa.Array]]) -> pa.Array:
    return pa.StructArray.from_arrays([array for _, array in below], [name for name, _ in below])


def _build_list(node: RepeatedItem, columns: Columns, rows: int) -> pa.Array | None:
    elements = [_build_element(element, columns, rows) for element in node.elements]
    arrays = [array for array in elements if array is not None]
    if not arrays:
        return None
    most = len(arrays)
    # The elements are concatenated one after the other: element e of row r is at e * rows + r. For
    # 2 elements of 3 rows the indexes are 0 3, 1 4, 2 5. With counts 1, 2, 0 only 0, 1, 4 remain.
    indexes = np.arange(rows)[:, None] + np.arange(most)[None, :] * rows
    if node.count is None:
        counts = np.full(rows, most)
        chosen = indexes.reshape(-1)
    else:
        counts = np.minimum(node.count, most)
        chosen = indexes[np.arange(most)[None, :] < counts[:, None]]
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    values = pa.concat_arrays(arrays).take(pa.array(chosen))
    mask = None if node.unknown is None else pa.array(node.unknown)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _build_element(node: ItemNode, columns: Columns, rows: int) -> pa.Array | None:
    member_arrays = _build_members(node, columns, rows)
    if not member_arrays:
        return None
    if isinstance(node, GroupItem) and node.field.filler:
        return _build_struct(member_arrays)
    return member_arrays[0][1]


def has_nested_columns(kinds: Mapping[str, pa.DataType]) -> bool:
    """Return True if any column's type is a struct or a list, so that rows are written from nested columns."""
    return any(pa.types.is_nested(kind) for kind in kinds.values())


@dataclass(slots=True)
class FlattenedColumns:
    """The flat columns of a record's structs and lists by name, and the lengths of its lists.

    For each list, in the order of ``_lists_of``, ``lengths`` has a column with its length in each
    record, or None if the list has no column. A length is NULL if the list is NULL.
    """

    columns: dict[str, pa.Array] = member(default_factory=dict)
    lengths: list[pa.Array | None] = member(default_factory=list)

    def add(self, node: ItemNode, values: pa.Array | None) -> None:
        """Add the flat columns of an item, a group or an OCCURS, from its column ``values``."""
        if isinstance(node, RepeatedItem):
            self._add_list(node, values)
        elif isinstance(node, GroupItem):
            self.add_members(node, None if values is None else _struct_members(node, values))
        elif values is not None and not node.field.filler:
            self.columns[node.name] = values

    def add_members(self, group: GroupItem, values: Mapping[str, pa.Array] | None) -> None:
        """Add the flat columns of a group. Raises EncodeError if a column has no item in the group."""
        named = dict(named_struct_members(group))
        for name in values or ():
            if name not in named:
                hint = did_you_mean(name, named) or f"Known: {', '.join(named)}"
                problem = f"the group {group.field.name} has no item for the column {name}"
                raise EncodeError(problem, where=Where(field=name), hint=hint)
        for name, node in named.items():
            self.add(node, None if values is None else values.get(name))

    def _add_list(self, node: RepeatedItem, values: pa.Array | None) -> None:
        if values is not None and not is_list_type(values.type):
            raise nested_type_error(node.field.name, values.type, "an array")
        self.lengths.append(None if values is None else pc.list_value_length(values))
        for index, element in enumerate(node.elements):
            self.add(element, None if values is None else _element(values, index))

    def check_lengths(self, root: ItemNode) -> None:
        """Raise EncodeError if a list has more or fewer elements than its record allows."""
        for node, lengths in zip(_lists_of(root), self.lengths, strict=True):
            if lengths is None:
                continue
            counts = lengths.fill_null(-1).to_numpy(zero_copy_only=False)
            expected = np.broadcast_to(
                node.field.repeats if node.count is None else node.count, counts.shape
            )
            wrong = (counts >= 0) & (counts != expected)
            if wrong.any():
                row = int(np.argmax(wrong))
                occurs = node.field.occurs
                counter = occurs.counter if occurs is not None and occurs.counter else "OCCURS"
                problem = (
                    f"an array of {counts[row]} elements, but {counter} states {expected[row]}"
                )
                raise EncodeError(problem, where=Where(record=row + 1, field=node.field.name))


def flatten_nested_columns(root: ItemNode, columns: Mapping[str, pa.Array]) -> FlattenedColumns:
    """Flatten a record's nested columns, structs and lists, to flat columns.

    Raises EncodeError if a column has the wrong shape.
    """
    tree = FlattenedColumns()
    if isinstance(root, GroupItem):
        tree.add_members(root, columns)
    else:
        tree.add(root, columns.get(root.field.name))
    return tree


def named_struct_members(
    group: GroupItem, selected: frozenset[str] | None = None
) -> Iterator[tuple[str, ItemNode]]:
    """Yield the members of a group's struct column by their names, including the members of nameless groups.

    ``selected`` are the flat columns that the tree contains, None for all.
    """
    pairs = [pair for node in group.members for pair in _named_nodes(node, selected)]
    names = make_column_names_distinct([name for name, _ in pairs])
    return zip(names, (node for _, node in pairs), strict=True)


def _named_nodes(node: ItemNode, selected: frozenset[str] | None) -> list[tuple[str, ItemNode]]:
    if not any(selected is None or item.name in selected for item in columns_below(node)):
        return []
    if isinstance(node, GroupItem) and node.field.filler:
        return list(named_struct_members(node, selected))
    return [(node.field.name, node)]


def _lists_of(node: ItemNode) -> Iterator[RepeatedItem]:
    """Yield the OCCURS lists of a record in the order in which ``FlattenedColumns`` adds them."""
    if isinstance(node, RepeatedItem):
        yield node
        for element in node.elements:
            yield from _lists_of(element)
    elif isinstance(node, GroupItem):
        for _, below in named_struct_members(node):
            yield from _lists_of(below)


def _struct_members(group: GroupItem, values: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(values.type):
        raise nested_type_error(group.field.name, values.type, "a struct")
    return dict(zip((field.name for field in values.type), values.flatten(), strict=True))


def is_list_type(data_type: pa.DataType) -> bool:
    """Return True if the Arrow type of a nested column is a list type."""
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    )


def _element(values: pa.Array, index: int) -> pa.Array:
    """Return element ``index`` of each list of a column, or NULL if the list is shorter."""
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    # A NULL list has no elements, so the mask below also covers it.
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.asarray(values.offsets)[:-1].astype(np.int64)
    return values.values.take(pa.array(starts + index, mask=lengths <= index))


def nested_type_error(name: str, data_type: pa.DataType, expected: str) -> EncodeError:
    """Build an error for a nested column that is not the struct or list that the layout has there."""
    return EncodeError(
        f"a column of {data_type}, but {expected} is expected", where=Where(field=name)
    )
