"""Debezium's change events to records and images, a batch at a time.

``{"before": {...}, "after": {...}, "source": {...}, "op": "u", "ts_ms": ..., "transaction": {...}}``, as it is or as the payload beside its schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import DecodeError
from trailgate.messages.debezium.options import DebeziumOptions
from trailgate.messages.debezium.records import DebeziumRecords, event_records
from trailgate.messages.debezium.schemas import Schema, read_schema
from trailgate.messages.debezium.values import converter_for
from trailgate.messages.json_text.images import ConvertValues, JsonImages
from trailgate.messages.json_text.kernels.same import MANY, code_texts
from trailgate.messages.json_text.records import document_records
from trailgate.messages.json_text.scanner import Scanner
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, Image
from trailgate.model.tables import Table

_LEVELS: Final = 4  # payload, its members, those of its images, and those of numbers with a scale
_SCHEMA: Final = "schema"
_KEPT: Final = 256  # schemas, of which some make the next ones likely
_NO_SCHEMA: Final = b""


class DebeziumFormat(MessageFormat[DebeziumRecords]):
    """Reads change events by one set of options; what these and a schema decide is made once and kept."""

    def __init__(self, options: DebeziumOptions) -> None:
        self.options = options
        self._scanner = Scanner(_LEVELS, _SCHEMA)
        self._schemas: dict[bytes, Schema | None] = {_NO_SCHEMA: None}
        self._converters: dict[tuple[str, bytes], tuple[ConvertValues, ...]] = {}

    def records(self, messages: MessageBatch) -> DebeziumRecords:
        """Return the change events of the messages; raises BadMessagesError."""
        return event_records(document_records(messages, self._scanner.scan(messages)), self.options)

    def layouts(
        self,
        records: DebeziumRecords,
        tables: Sequence[Table],  # noqa: ARG002  columns are found by name
        table_of: Longs,  # noqa: ARG002
    ) -> Longs:
        """Return the number of each event's schema, 0 where it has none."""
        assert records.schema is not None
        nodes, schema = records.nodes, records.schema
        has = schema >= 0
        if not has.any():
            return np.zeros(len(schema), np.int64)
        starts = np.where(has, nodes.start[schema], 0)
        lengths = np.where(has, nodes.length[schema], -1)
        codes, known = np.empty(len(schema), np.int64), np.empty(_KEPT, np.int64)
        if code_texts(nodes.text, starts, lengths, codes, known) != MANY:
            return codes
        texts = nodes.texts(schema).dictionary_encode("encode")
        every: Longs = texts.indices.to_numpy().astype(np.int64)
        return every

    def images(
        self, records: DebeziumRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike events; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        group = JsonImages(records, table, rows, errors)
        try:
            converters = self._converters_of(records, table, int(rows[0]))
        except DecodeError as error:
            group.refuse(error.problem, error.hint)
            return absent, absent
        before, after = records.nodes.members(records.holder[rows], ["before", "after"])
        images: list[Image] = []
        for nodes, name, wanted, needed in (
            (before, "before", kind not in (INSERT, TRUNCATE), kind == DELETE),
            (after, "after", kind not in (DELETE, TRUNCATE), True),
        ):
            if not wanted:
                group.check_images(nodes, name, wanted=False)
                images.append(absent)
                continue
            if needed:
                group.check_images(nodes, name, wanted=True)
            images.append(group.image(nodes, converters, keyed=needed))
        return images[0], images[1]

    def _converters_of(
        self, records: DebeziumRecords, table: Table, row: int
    ) -> tuple[ConvertValues, ...]:
        """Return what makes values of a table's columns by the schema of a record; raises DecodeError for one that cannot be read."""
        assert records.schema is not None
        node = int(records.schema[row])
        raw = records.nodes.raw(node) if node >= 0 else _NO_SCHEMA
        raw = _NO_SCHEMA if raw == b"null" else raw
        found = self._converters.get((table.name, raw))
        if found is None:
            if len(self._schemas) > _KEPT:
                self._schemas, self._converters = {_NO_SCHEMA: None}, {}
            if raw not in self._schemas:
                self._schemas[raw] = read_schema(raw)
            schema, options = self._schemas[raw], self.options
            found = tuple(converter_for(column, schema, options) for column in table.columns)
            self._converters[table.name, raw] = found
        return found
