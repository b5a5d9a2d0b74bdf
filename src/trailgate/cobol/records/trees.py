"""Columns of items to the tree of the copybook: structs for groups, lists for OCCURS."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from trailgate.cobol.copybook.flat_columns import distinct_names
from trailgate.cobol.copybook.item_positions import GroupItem, Item, ItemNode, RepeatedItem

Columns = Mapping[Item, pa.Array]


def members_of(node: ItemNode, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the names and columns that a node gives to what it is in.

    A nameless group gives its own members; an item that is not among the columns gives none.
    """
    if isinstance(node, Item):
        return [(node.field.name, columns[node])] if node in columns else []
    if isinstance(node, RepeatedItem):
        found = _list(node, columns, rows)
        return [] if found is None else [(node.field.name, found)]
    below = _members(node, columns, rows)
    if node.field.filler:
        return below
    return [(node.field.name, _struct(below))] if below else []


def _members(group: GroupItem, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    below = [pair for member in group.members for pair in members_of(member, columns, rows)]
    names = distinct_names([name for name, _ in below])
    return list(zip(names, (array for _, array in below), strict=True))


def record_members(root: ItemNode, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the columns of a record: the members of its root."""
    if not isinstance(root, GroupItem):
        return members_of(root, columns, rows)
    return _members(root, columns, rows)


def _struct(below: list[tuple[str, pa.Array]]) -> pa.Array:
    return pa.StructArray.from_arrays([array for _, array in below], [name for name, _ in below])


def _list(node: RepeatedItem, columns: Columns, rows: int) -> pa.Array | None:
    elements = [_element(element, columns, rows) for element in node.elements]
    arrays = [array for array in elements if array is not None]
    if not arrays:
        return None
    most = len(arrays)
    places = np.arange(rows)[:, None] + np.arange(most)[None, :] * rows
    if node.count is None:
        counts = np.full(rows, most)
        chosen = places.reshape(-1)
    else:
        counts = np.minimum(node.count, most)
        chosen = places[np.arange(most)[None, :] < counts[:, None]]
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    values = pa.concat_arrays(arrays).take(pa.array(chosen))
    mask = None if node.unknown is None else pa.array(node.unknown)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _element(node: ItemNode, columns: Columns, rows: int) -> pa.Array | None:
    found = members_of(node, columns, rows)
    if not found:
        return None
    if isinstance(node, GroupItem) and node.field.filler:
        return _struct(found)
    return found[0][1]
