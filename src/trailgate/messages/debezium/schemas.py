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
    """A column's type: Connect's, and the name of its meaning if it has one."""

    type: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


Schema = Mapping[str, FieldType]


def read_schema(text: bytes) -> Schema:
    """Return the types of columns by their names in lower case; raises DecodeError where they are not there."""
    try:
        whole = json.loads(text)
    except ValueError as error:  # a number of thousands of digits
        raise DecodeError(f"the schema of the event cannot be read: {error}") from None
    for row in _fields(whole):
        if row.get("field") in ("after", "before"):
            return {str(column.get("field")).casefold(): _type(column) for column in _fields(row)}
    raise DecodeError("the schema of the event has no columns", hint="Is it an envelope's schema?")


def _fields(node: Any) -> list[Members]:
    fields = node.get("fields") if isinstance(node, dict) else None
    return [row for row in fields if isinstance(row, dict)] if isinstance(fields, list) else []


def _type(column: Members) -> FieldType:
    given = column.get("parameters")
    parameters = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
    return FieldType(str(column.get("type")), str(column.get("name") or ""), parameters)
