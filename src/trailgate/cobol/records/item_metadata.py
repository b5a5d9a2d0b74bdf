"""Describe the items of the copybook in a schema, as metadata of its Arrow fields.

A field's metadata contains its item's picture, usage, offset, length and more, for example
``comment``: "PIC S9(5) packed, offset 3, length 3". A struct or list describes its group or
repeated item. Offsets assume that every OCCURS has its maximum number of elements.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from trailgate.cobol.copybook.layouts import CopybookField
from trailgate.cobol.copybook.placed_items import (
    GroupItem,
    ItemNode,
    PlacedItem,
    RepeatedItem,
    columns_below,
)
from trailgate.cobol.records.nested_columns import named_struct_members


def item_metadata(field: CopybookField, offset: int | None = None) -> dict[str, str]:
    """Return the Arrow field metadata of a copybook item.

    ``comment`` summarizes picture, usage, offset, length and OCCURS. ``offset`` is the offset of
    one element of an OCCURS (None: the field's own).
    """
    offset = field.offset if offset is None else offset
    facts = {
        "item": field.name,
        "level": f"{field.level:02d}",
        "picture": field.picture,
        "usage": field.usage.value,
        "offset": str(offset),
        "length": str(field.size),
        "occurs": field.occurs.described if field.occurs else "",
        "redefines": field.redefines or "",
        "key": "true" if field.key else "",
    }
    if field.number is not None:
        facts |= {"digits": str(field.number.digits), "scale": str(field.number.scale)}
    picture = f"PIC {field.picture} " if field.picture else ""
    occurs = f", occurs {facts['occurs']}" if field.occurs else ""
    facts["comment"] = f"{picture}{field.usage.value}, offset {offset}, length {field.size}{occurs}"
    return {name: value for name, value in facts.items() if value}


def describe_flat(schema: pa.Schema, root: ItemNode) -> pa.Schema:
    """Add the metadata of copybook items to a schema of flat columns."""
    items = {item.name: item for item in columns_below(root)}
    return pa.schema([_with_item(field, items.get(field.name)) for field in schema])


def describe_tree(schema: pa.Schema, root: ItemNode, names: frozenset[str]) -> pa.Schema:
    """Add the metadata of items and groups to a schema of structs and lists.

    ``names`` are the flat columns that the tree contains.
    """
    if isinstance(root, GroupItem):
        return pa.schema(_describe_all(schema, dict(named_struct_members(root, names)), names))
    return pa.schema(_describe_all(schema, {root.field.name: root}, names))


def _describe_all(
    fields: pa.Schema | pa.StructType, nodes: Mapping[str, ItemNode], names: frozenset[str]
) -> list[pa.Field]:
    return [
        _describe_field(field, nodes[field.name], names) if field.name in nodes else field
        for field in fields
    ]


def _describe_field(field: pa.Field, node: ItemNode, names: frozenset[str]) -> pa.Field:
    kind = _type(field.type, node, names)
    return pa.field(field.name, kind, field.nullable, item_metadata(node.field))


def _type(data_type: pa.DataType, node: ItemNode, names: frozenset[str]) -> pa.DataType:
    if isinstance(node, RepeatedItem):
        element = data_type.value_field
        # All elements of an OCCURS have the same items, so the first one describes them.
        return pa.list_(element.with_type(_type(element.type, node.elements[0], names)))
    if isinstance(node, GroupItem):
        return pa.struct(_describe_all(data_type, dict(named_struct_members(node, names)), names))
    return data_type


def _with_item(field: pa.Field, item: PlacedItem | None) -> pa.Field:
    if item is None:
        return field
    assert isinstance(item.offset, int), "the items of a layout alone have fixed offsets"
    return field.with_metadata(item_metadata(item.field, item.offset))
