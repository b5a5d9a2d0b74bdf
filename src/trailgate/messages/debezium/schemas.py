"""The schemas that Kafka Connect's JSON converter puts before values: what each column of an event is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trailgate.errors import DecodeError

Members = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldType:
    """A column's type: Connect's, and the name of its meaning if it has one. ``column`` is the column's own name."""

    type: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    column: str = ""


Schema = Mapping[str, FieldType]


def read_schema(text: bytes) -> Schema:
    """Return the types of columns, in their order, by their names in lower case; raises DecodeError where they are not there."""
    try:
        whole = json.loads(text)
    except ValueError as error:  # a number of thousands of digits
        raise DecodeError(f"the schema of the event cannot be read: {error}") from None
    for row in _fields(whole):
        if row.get("field") in ("after", "before"):
            types = map(_type, _fields(row))
            return {kind.column.casefold(): kind for kind in types}
    raise DecodeError("the schema of the event has no columns", hint="Is it an envelope's schema?")


def _fields(node: Any) -> list[Members]:
    fields = node.get("fields") if isinstance(node, dict) else None
    return [row for row in fields if isinstance(row, dict)] if isinstance(fields, list) else []


def _type(column: Members) -> FieldType:
    given = column.get("parameters")
    parameters = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
    name, own = str(column.get("name") or ""), str(column.get("field"))
    return FieldType(str(column.get("type")), name, parameters, own)
