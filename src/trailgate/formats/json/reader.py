"""Read GoldenGate's JSON messages, a batch at a time.

In the formatter's operation model, images are nested objects:

    {"table":"GG.ORDERS","op_type":"U","op_ts":"...","pos":"...",
     "before":{"ID":7},"after":{"ID":7,"STATE":"new"}}

In its row model, the columns are members of the message: the after values of an insert or update,
the before values of a delete. In the flat model they are members such as `after.ID`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.formats.json.earlier_documents import documents_before
from trailgate.formats.json.images import ConvertValues, JsonImages, converter_for
from trailgate.formats.json.options import FLAT_MODEL, ROW_MODEL, JsonOptions
from trailgate.formats.json.records import JsonRecords, document_records, text_maps
from trailgate.formats.json.scanner import JsonScanner
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.parser import EarlierRecords, MessageFormat
from trailgate.messages.problems import MessageErrors
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, Image
from trailgate.model.tables import Table

ROW_MEMBERS: Final = frozenset({"__op", "__deleted"})
CHANGE_MEMBERS: Final = frozenset({"op", "source", "ts_ms"})


_ROW_HINT: Final = "json.model=row reads messages whose columns are beside the metadata"
_FLAT_HINT: Final = "The message has members such as {}: set json.model=flat"
_DELIMITER_HINT: Final = "The message has members such as {}: set json.delimiter={}"
_NESTED_HINT: Final = "The message has the member {}: json.model=op reads images that are objects"
_PATH_HINT: Final = "The message has the member payload: set paths, such as json.after=payload.after and json.optype=payload.op_type"
_CHANGE_HINT: Final = "It is a change event of Debezium: set parser.type=debezium"
_EVENT_HINT: Final = "It is a row of Debezium's ExtractNewRecordState: set parser.type=debezium and debezium.model=row"


@dataclass(frozen=True, slots=True)
class JsonOperations(JsonRecords):
    """GoldenGate's JSON messages as records.

    `token_member` is the path of the member that contains an operation's tokens.
    """

    token_member: str = ""

    def tokens(self) -> pa.Array | None:
        """Return the tokens of each JSON message, null if it has none.

        Raises BadMessagesError if the member is not an object of strings.
        """
        return text_maps(self, self.token_member)

    def missing_problem(self, name: str, what: str) -> tuple[str, str]:
        """Return the problem and the hint for a JSON message without the metadata member `name`.

        `what` is the metadata that the member is needed for. The hint names the member that
        encloses all others, if there is one, or the format that messages of this form have.
        """
        problem = JsonRecords.missing_problem(self, name, what)[0]
        names = self.nodes.names
        if CHANGE_MEMBERS.issubset(names):
            return problem, _CHANGE_HINT
        if not ROW_MEMBERS.isdisjoint(names):
            return problem, _EVENT_HINT
        return problem, _PATH_HINT if "payload" in names and "." not in name else ""


class JsonFormat(MessageFormat[JsonOperations]):
    """Reads GoldenGate's JSON messages with one set of options. Converters are created once per table."""

    def __init__(self, options: JsonOptions) -> None:
        self.options = options
        self._scanner = JsonScanner(options.levels, options.opaque)
        self._converters: dict[str, tuple[ConvertValues, ...]] = {}

    def records(self, messages: MessageBatch) -> JsonOperations:
        """Scan JSON messages into operations. Raises BadMessagesError."""
        documents = document_records(messages, self._scanner.scan(messages))
        records = JsonOperations(
            messages=messages,
            message=documents.message,
            offset=documents.offset,
            nodes=documents.nodes,
            document=documents.document,
            holder=documents.holder,
            token_member=self.options.tokens,
        )
        records.check_objects()
        return records

    def records_before(
        self, messages: MessageBatch, numbers: Longs, offsets: Longs
    ) -> EarlierRecords | None:
        """Return the JSON documents that precede the faults of bad messages, or None if there are none.

        `numbers` are the bad messages, and `offsets` the offset of the fault in each of them.
        """
        return documents_before(self._scanner, messages.only(numbers), offsets)

    def images(
        self, records: JsonOperations, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of JSON operations of one table and type.

        Errors are added to `errors`.
        """
        absent = (ABSENT,) * len(table.columns)
        group = JsonImages(records, table, rows, errors)
        converters = self._converters_of(table)
        options = self.options
        if options.model == ROW_MODEL:
            if kind == TRUNCATE:
                return absent, absent
            # Columns are in the object at json.row, or in the message itself.
            holders = records.node_at(options.row)[rows] if options.row else records.holder[rows]
            if options.row:
                group.check_images(holders, options.row, wanted=True)
            image = group.image(holders, converters, options.metadata_members, keyed=True)
            return (image, absent) if kind == DELETE else (absent, image)
        if options.model == FLAT_MODEL:
            return self._flat_images(group, kind, converters)
        parents = tuple(records.node_at(path)[rows] for path in (options.before, options.after))
        return self._images(group, kind, parents, converters)

    def _flat_images(
        self, group: JsonImages, kind: int, converters: Sequence[ConvertValues]
    ) -> tuple[Image, Image]:
        """Read images from JSON members named like `before.ID` and `after.ID`."""
        holders, delimiter = group.records.holder[group.rows], self.options.delimiter
        # For each image: its name, whether the operation type has it, and whether its keys are
        # required.
        parts = (
            (self.options.before, kind not in (INSERT, TRUNCATE), kind == DELETE),
            (self.options.after, kind not in (DELETE, TRUNCATE), True),
        )
        for name, wanted, _ in parts:
            if not wanted:
                group.refuse_prefixed(holders, name, f"{name}{delimiter}")
        before, after = (
            group.image(
                holders,
                converters,
                prefix=f"{name}{delimiter}",
                keyed=needed,
                key_hint=self._flat_hint(group.records.nodes.names, name),
            )
            if wanted
            else (ABSENT,) * len(group.table.columns)
            for name, wanted, needed in parts
        )
        return before, after

    def _hint(self, names: Sequence[str]) -> str:
        """Return the hint for a JSON message in which an image is missing or is not an object.

        `names` are the member names of the batch.
        """
        member, delimiter = _flat_member(names, self.options.after)
        if member:
            hint = _FLAT_HINT.format(member)
            is_default = delimiter == self.options.delimiter
            return hint if is_default else f"{hint} and json.delimiter={delimiter}"
        # Members of flattened Debezium rows.
        if not ROW_MEMBERS.isdisjoint(names):
            return _EVENT_HINT
        return _PATH_HINT if "payload" in names else _ROW_HINT

    def _flat_hint(self, names: Sequence[str], image: str) -> str:
        """Return the hint for a JSON message in which a flat image has no key.

        The hint corrects the delimiter, or the model if the image is a nested object; otherwise "".
        """
        member, delimiter = _flat_member(names, image)
        if member:
            is_set = delimiter == self.options.delimiter
            return "" if is_set else _DELIMITER_HINT.format(member, delimiter)
        return _NESTED_HINT.format(image) if image in names else ""

    def _images(
        self,
        group: JsonImages,
        kind: int,
        parents: Sequence[Longs],
        converters: Sequence[ConvertValues],
    ) -> tuple[Image, Image]:
        images: list[Image] = []
        options = self.options
        # `wanted`: the operation type may have this image. `needed`: it must.
        for nodes, name, wanted, needed in (
            (parents[0], options.before, kind not in (INSERT, TRUNCATE), kind == DELETE),
            (parents[1], options.after, kind not in (DELETE, TRUNCATE), True),
        ):
            if not wanted:
                group.check_images(nodes, name, wanted=False)
                images.append((ABSENT,) * len(group.table.columns))
                continue
            if needed:
                hint = self._hint(group.records.nodes.names)
                group.check_images(nodes, name, wanted=True, hint=hint)
            images.append(group.image(nodes, converters, keyed=needed))
        return images[0], images[1]

    def _converters_of(self, table: Table) -> tuple[ConvertValues, ...]:
        if table.name not in self._converters:
            binary = self.options.binary
            made = tuple(converter_for(column, binary) for column in table.columns)
            self._converters[table.name] = made
        return self._converters[table.name]


def _flat_member(names: Sequence[str], image: str) -> tuple[str, str]:
    """Return the first JSON member name like `after.ID` or `after_ID`, and the delimiter in it.

    Returns two empty strings if there is no such name.
    """
    for name in names:
        match = re.match(rf"{re.escape(image)}([^A-Za-z0-9]+)[A-Za-z0-9]", name)
        if match:
            return name, match[1]
    return "", ""
