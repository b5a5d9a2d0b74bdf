"""The value sources of metadata: header field, message header, generated value or literal.

Generated ids are the record's position in the source: 20 digits that ascend, fit 64 bits, and
are the same whenever the same messages are captured again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.temporal import DEFAULT_FORMAT, compile_format, parse_timestamps
from trailgate.errors import DecodeError
from trailgate.messages.properties import DelimitedOptions, Source, SourceKind
from trailgate.messages.records import Records

Longs = npt.NDArray[np.int64]

# jms.id names the header that holds the message id; "ogg" and the providers' words are aliases.
MESSAGE_ID_HEADERS: Final = {
    "ogg": "GG_ID",
    "wmq": "JMSMessageID",
    "activemq": "JMSMessageID",
}


class Sources:
    """Reads metadata of the records of one batch."""

    def __init__(self, options: DelimitedOptions, records: Records, now: int) -> None:
        self.options, self.records, self.now = options, records, now
        self._fields = {name.casefold(): i for i, name in enumerate(options.header)}

    def text(self, source: Source, generated: pa.Array | None, what: str) -> pa.Array:
        """Return a value for each record; raises DecodeError where a message lacks the header."""
        values = self.optional(source, generated)
        assert values is not None
        if values.null_count:
            row = int(np.flatnonzero(np.asarray(values.is_null()))[0])
            raise self.records.error(
                row,
                f"the message has no header {self._header(source)} for {what}",
                "Headers come with .jsonl files ({'body': ..., 'headers': {...}} a line), "
                "brokers and Kafka; plain files have none",
            )
        return values

    def optional(self, source: Source | None, generated: pa.Array | None) -> pa.Array | None:
        """Return a value for each record, null where a message lacks the header."""
        if source is None:
            return None
        if source.kind is SourceKind.FIELD:
            place = self._fields[source.name.casefold()]
            return self.records.values.text(self.records.fields.first + place)
        if source.kind is SourceKind.LITERAL:
            return pa.repeat(pa.scalar(source.name, pa.string()), len(self.records.message))
        if source.kind in (SourceKind.HEADER, SourceKind.MESSAGE_ID):
            if source.kind is SourceKind.MESSAGE_ID and self.options.message_id == "time":
                return generated
            return self._from_headers(self._header(source))
        return generated

    def _header(self, source: Source) -> str:
        if source.kind is SourceKind.MESSAGE_ID:
            name = self.options.message_id or "JMSMessageID"
            return MESSAGE_ID_HEADERS.get(name.casefold(), name)
        return source.name

    def _from_headers(self, name: str) -> pa.Array:
        headers = self.records.messages.headers
        count = len(self.records.messages)
        found = [_header_value(h, name) for h in headers] if headers else [None] * count
        return pa.array(found, pa.string()).take(pa.array(self.records.message))

    def times(self) -> Longs:
        """Return each record's commit time in microseconds since 1970 UTC."""
        source = self.options.timestamp
        if source.kind is SourceKind.TIMESTAMP:
            return np.full(len(self.records.message), self.now, np.int64)
        values = self.text(source, None, "timestamp")
        given = self.options.timestamp_format
        fmt = compile_format(given) if given else DEFAULT_FORMAT
        digits = not given and len(values) > 0 and (values[0].as_py() or "").isdigit()
        try:
            return parse_timestamps(values, None if digits else fmt)
        except DecodeError as error:
            row = error.where.record or 0
            placed = self.records.error(row, error.problem, error.hint, field="timestamp")
            raise placed from None

    def table_names(self) -> pa.Array:
        """Return each record's SCHEMA.TABLE."""
        options = self.options
        if options.schemaandtable is not None:
            return self.text(options.schemaandtable, None, "schemaandtable")
        assert options.table is not None
        table = self.text(options.table, None, "table")
        if options.schema is None:
            return table
        schema = self.text(options.schema, None, "schema")
        return pc.binary_join_element_wise(schema, table, ".")


def _header_value(headers: object, name: str) -> str | None:
    """Return a header's value; names are compared without case, as the manual's samples need."""
    mapping: dict[str, str] = headers  # type: ignore[assignment]
    value = mapping.get(name)
    if value is not None:
        return value
    folded = name.casefold()
    return next((v for k, v in mapping.items() if k.casefold() == folded), None)
