"""What a change event with one column beside its key gives: the column's value, that it is missing, or the error."""

from __future__ import annotations

import json
from typing import Any, Final

from held_captures import json_capture, messages_of
from message_cases import rows_of
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.tables import Column, Definitions, Table

MISSING: Final = "missing"
TEXT: Final = Column("V", 64, 4000)
NUMBER: Final = Column("V", 64, 50, sub_type=2)
INTEGER: Final = Column("V", 134, 8)
BYTES: Final = Column("V", 64, 400, sub_type=4)
DATE_TIME: Final = Column("V", 192, 26)
DATE: Final = Column("V", 192, 10)
ZONED: Final = Column("V", 192, 36)
SOURCE: Final = {"ts_ms": 1705611172576, "schema": "S", "table": "T"}


def event(value: Any, field: dict[str, Any] | None, op: str = "u") -> bytes:
    """Return an event whose column V has this value; ``field`` is its type in the schema, None for an event without one."""
    payload = {"before": None, "after": {"ID": "1", "V": value}, "op": op, "source": SOURCE}
    whole: Any = payload
    if field is not None:
        columns = [{"type": "string", "field": "ID"}, {**field, "field": "V", "optional": True}]
        whole = {"schema": {"fields": [{"field": "after", "fields": columns}]}, "payload": payload}
    return json.dumps(whole).encode()


def value_of(
    column: Column, value: Any, field: dict[str, Any] | None = None, properties: str = ""
) -> str | None:
    """Return the value that is captured, ``MISSING``, or None for NULL; raises the error of a refused event."""
    (found,) = values_of(column, [event(value, field)], properties)
    return found


def values_of(column: Column, events: list[bytes], properties: str = "") -> list[str | None]:
    """Return what is captured of column V in each event; raises the first error."""
    table = Table("S.T", (Column("ID", 64, 10, key=True), column))
    capture = json_capture(
        f"parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=*txid\n{properties}",
        write_sourcedefs(Definitions((table,))).decode(),
    )
    parsed = capture.parse(messages_of(events))
    for problem in parsed.problems:
        raise problem.error
    return [dict(row["after"]).get("V", MISSING) for row in rows_of(parsed)]
