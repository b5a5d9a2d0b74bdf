"""GoldenGate's JSON messages to records and images, a batch at a time.

``{"table": ..., "op_type": "U", "op_ts": ..., "pos": ..., "before": {...}, "after": {...}}``: the formatter's operation model. In its row model
columns are members of the message itself: those after an insert or update, those before a delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.formats.json.documents import JsonRecords, Scanner, document_records, text_maps
from trailgate.formats.json.images import ConvertValues, JsonImages, converter_for
from trailgate.formats.json.options import JsonOptions
from trailgate.messages.messages import MessageBatch
from trailgate.messages.parser import MessageFormat
from trailgate.messages.records import MessageErrors
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, Image
from trailgate.model.tables import Table

_LEVELS: Final = 2  # a message's members, and those of its images and tokens


@dataclass(frozen=True, slots=True)
class JsonOperations(JsonRecords):
    """Messages as records; ``token_member`` is the member that has their tokens."""

    token_member: str = ""

    def tokens(self) -> pa.Array | None:
        """Return each record's tokens, null where it has none; raises BadMessagesError for what is not an object of strings."""
        return text_maps(self, self.token_member)


_ROW_HINT: Final = "json.model=row reads messages whose columns are beside the metadata"


class JsonFormat(MessageFormat[JsonOperations]):
    """Reads messages by one set of options; what these decide is made once and kept."""

    def __init__(self, options: JsonOptions) -> None:
        self.options = options
        self._scanner = Scanner(_LEVELS)
        self._converters: dict[str, tuple[ConvertValues, ...]] = {}

    def records(self, messages: MessageBatch) -> JsonOperations:
        """Return the operations of the messages; raises BadMessagesError."""
        found = document_records(messages, self._scanner.scan(messages))
        records = JsonOperations(
            messages,
            found.message,
            found.offset,
            found.nodes,
            found.document,
            found.holder,
            token_member=self.options.tokens,
        )
        records.check_objects()
        return records

    def images(
        self, records: JsonOperations, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike operations; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        group = JsonImages(records, table, rows, errors)
        converters = self._converters_of(table)
        holders = records.holder[rows]
        if self.options.flat:
            if kind == TRUNCATE:
                return absent, absent
            image = group.image(holders, converters, self.options.others, keyed=True)
            return (image, absent) if kind == DELETE else (absent, image)
        names = self.options.before, self.options.after
        before, after = records.nodes.members(holders, names)
        return self._images(group, kind, (before, after), converters)

    def _images(
        self,
        group: JsonImages,
        kind: int,
        parents: tuple[Longs, Longs],
        converters: Sequence[ConvertValues],
    ) -> tuple[Image, Image]:
        images: list[Image] = []
        options = self.options
        for nodes, name, wanted, needed in (
            (parents[0], options.before, kind not in (INSERT, TRUNCATE), kind == DELETE),
            (parents[1], options.after, kind not in (DELETE, TRUNCATE), True),
        ):
            if not wanted:
                group.check_images(nodes, name, wanted=False)
                images.append((ABSENT,) * len(group.table.columns))
                continue
            if needed:
                group.check_images(nodes, name, wanted=True, hint=_ROW_HINT)
            images.append(group.image(nodes, converters, keyed=needed))
        return images[0], images[1]

    def _converters_of(self, table: Table) -> tuple[ConvertValues, ...]:
        if table.name not in self._converters:
            binary = self.options.binary
            made = tuple(converter_for(column, binary) for column in table.columns)
            self._converters[table.name] = made
        return self._converters[table.name]
