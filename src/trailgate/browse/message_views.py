"""Show how a capture's reader splits one message: the fields of its records with offsets and columns.

The format's own reader finds the records. A record whose table is unknown shows only its header
fields. If a message is rejected, each of its records is parsed separately, so that every bad record
gets its own error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from trailgate.arrays import octets
from trailgate.capture.capture import Capture, isolate_bad
from trailgate.capture.formats import parser_type_of
from trailgate.columnar.code_pages import CodePage, code_page, decode_with_page
from trailgate.columnar.delimited import index_fields
from trailgate.errors import DecodeError, TrailgateError
from trailgate.formats.delimited.options import DelimitedOptions
from trailgate.formats.delimited.reader import ColumnPairing, DelimitedFormat
from trailgate.formats.fixed_width.layouts import RecordLayout
from trailgate.formats.fixed_width.options import FixedWidthOptions
from trailgate.formats.fixed_width.reader import FixedWidthFormat
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.metadata import MetadataValues
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.parser import MessageParser
from trailgate.messages.property_reader import ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.records import BadMessagesError, MessageRecords

LISTED: Final = 100  # the most records shown
METADATA: Final = {
    "optype": "operation type",
    "schemaandtable": "table",
    "schema": "schema",
    "timestamp": "time",
    "txid": "transaction",
    "seqid": "sequence id",
    "txowner": "owner",
    "txname": "name of the transaction",
    "txind": "indicator",
}


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field of a message on the workbench: its byte span, name, role and text."""

    begin: int
    end: int
    name: str
    role: str
    text: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class MessageRecordView:
    """A record of a message on the workbench: its number, its table, and its fields in the order of their offsets."""

    number: int
    table: str
    fields: tuple[FieldView, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class MessageView:
    """The records of a message on the workbench. ``more`` is the number of records that are not shown."""

    records: tuple[MessageRecordView, ...] = ()
    more: int = 0


def view_of(capture: Capture, messages: MessageBatch) -> MessageView:
    """Return the records of one message with their fields, as the capture's reader splits them.

    The result is empty if the format has no fields at fixed offsets (XML, JSON), or if no
    records are found.
    """
    options = capture.options
    if isinstance(options, DelimitedOptions):
        return _view_delimited(capture, options, messages)
    if isinstance(options, FixedWidthOptions):
        return _fixed_width(capture, options, messages)
    return MessageView()


def find_record_errors(
    capture: Capture, view: MessageView, messages: MessageBatch
) -> list[TrailgateError]:
    """Parse each record of a message view separately, and return the errors with offsets within the message."""
    if not view.records:
        return []
    begins = np.array([one.begin for one in view.records])
    ends = np.array([one.end for one in view.records])
    count = len(begins)
    # a batch in which each record is one message
    one_per_record = replace(
        messages,
        starts=begins,
        ends=ends,
        files=np.zeros(count, np.int64),
        offsets=begins,
        headers=None if messages.headers is None else (messages.headers[0],) * count,
    )
    options = capture.options
    form = parser_type_of(options).format(options)
    parser = MessageParser(form, options, capture.definitions, capture.rules, capture.now)
    _, problems = isolate_bad(parser, one_per_record)
    errors = []
    for problem in sorted(problems, key=lambda one: one.message):
        where = problem.error.where
        moved = (where.offset or 0) + int(begins[problem.message])
        record = view.records[problem.message].number
        problem.error.where = replace(where, offset=moved, record=record, source=None)
        errors.append(problem.error)
    return errors


def field_roles(options: MetadataOptions) -> dict[str, str]:
    """Return the roles that a message view shows for header fields, such as "time" or "operation type", by field name."""
    roles_by_name: dict[str, list[str]] = {}
    sources = [(getattr(options, name), role) for name, role in METADATA.items()]
    sources += [(one, "table") for one in options.table]
    for source, role in sources:
        if isinstance(source, ValueSource) and source.kind is SourceKind.FIELD:
            roles_by_name.setdefault(source.name, []).append(role)
    return {name: ", ".join(dict.fromkeys(roles)) for name, roles in roles_by_name.items()}


def _tables(capture: Capture, records: MessageRecords) -> list[str]:
    """Return the table of each record of a message, or an empty list if the tables cannot be determined."""
    try:
        codes, names = MetadataValues(capture.options, records, capture.now).table_names()
    except (BadMessagesError, TrailgateError):
        return []
    return [names[code] for code in codes.tolist()]


def _view_delimited(
    capture: Capture, options: DelimitedOptions, messages: MessageBatch
) -> MessageView:
    form = DelimitedFormat(options)
    data = octets(messages.data)
    try:
        fields = index_fields(data, messages.starts, messages.ends, form.dialect)
    except DecodeError:
        return MessageView()
    try:
        tables = _tables(capture, form.records(messages))
    except BadMessagesError:  # a record with an incomplete header
        tables = []
    starts, ends = fields.starts.tolist(), fields.ends.tolist()
    # Record i has the fields bounds[i] up to bounds[i+1].
    bounds, roles = fields.bounds.tolist(), field_roles(options)
    data_bytes, shown = bytes(messages.data), []
    # Records of the same table and number of fields have the same labels.
    labels: dict[tuple[str, int], Sequence[tuple[str, str]]] = {}
    for number, (first, last) in enumerate(pairwise(bounds[: LISTED + 1])):
        key = tables[number] if tables else "", last - first
        if key not in labels:
            labels[key] = _labels(capture, options, roles, *key)
        named = zip(range(first, last), labels[key], strict=True)
        field_views = tuple(
            FieldView(starts[at], ends[at], name, role, _text(data_bytes[starts[at] : ends[at]]))
            for at, (name, role) in named
        )
        shown.append(
            MessageRecordView(number + 1, key[0], field_views, starts[first], ends[last - 1])
        )
    return MessageView(tuple(shown), max(0, len(bounds) - 1 - LISTED))


def _labels(
    capture: Capture, options: DelimitedOptions, roles: dict[str, str], name: str, count: int
) -> list[tuple[str, str]]:
    """Return the name and the role of each of the ``count`` fields of a delimited record of table ``name``.

    A role is for example "time", "before" or "column". Both are "" for a field that cannot be
    paired with a column.
    """
    labels = [(one, roles.get(one, "not used")) for one in options.header][:count]
    table = capture.definitions.get(name) if name else None
    rest = count - len(options.header)
    parts = 1 + options.hasnames + options.hasbefores
    # The fields after the header must be whole columns, each with a name and a before value if the
    # options say so.
    if table is None or rest <= 0 or rest % parts or rest // parts > len(table.columns):
        return labels + [("", "")] * (count - len(labels))
    pairing = ColumnPairing.of(options, rest // parts)
    labels += [("", "")] * rest
    sides = [(pairing.name, "name"), (pairing.before, "before"), (pairing.after, "after")]
    for i, column in enumerate(table.columns[: pairing.columns]):
        for place, role in sides:
            if place is not None:
                labels[place(i)] = column.name, role if parts > 1 else "column"
    return labels


def _text(raw: bytes, page: CodePage | None = None) -> str:
    """Decode a field of a message for the workbench.

    With a code page, bytes that are not printable text are returned in hex. Without one, the bytes
    are UTF-8, and invalid ones are replaced.
    """
    text = raw.decode(errors="replace") if page is None else decode_with_page(raw, page)
    if page is not None and (not all(map(str.isprintable, text)) or (raw and not text)):
        return raw.hex(" ")
    return text


def _fixed_width(
    capture: Capture, options: FixedWidthOptions, messages: MessageBatch
) -> MessageView:
    form = FixedWidthFormat(options)
    try:
        records = form.records(messages)
    except BadMessagesError:
        return MessageView()
    tables = _tables(capture, records)
    page = code_page(options.values.dialect.code_page)
    whole = bytes(records.messages.data)
    roles = field_roles(options)
    header = {slot.column.name: roles.get(slot.column.name, "") for slot in options.header.slots}
    layouts = {one.name.casefold(): one for one in options.records}
    shown = []
    for row, (start, end) in enumerate(
        zip(records.starts[:LISTED].tolist(), records.ends.tolist(), strict=False)
    ):
        units = records.units
        layout = layouts.get(tables[row].casefold()) if tables else None
        places = [
            *_slots(options.header, 0, header),
            *(_slots(layout, options.header.size, {}) if layout is not None else ()),
        ]
        own = []
        for begin, stop, name, role, kind in places:
            # A short record lacks its last fields.
            if start + begin >= end:
                break
            # Offsets of layouts are in characters or in bytes; `units` converts them to bytes.
            first, last = units.to_bytes(np.array([start + begin, min(start + stop, end)])).tolist()
            text = _text(whole[first:last], page)
            own.append(FieldView(begin=first, end=last, name=name, role=role, text=text, type=kind))
        first, last = units.to_bytes(np.array([start, end])).tolist()
        name = "" if layout is None else layout.name
        ordered = tuple(sorted(own, key=lambda one: one.begin))
        shown.append(MessageRecordView(row + 1, name, ordered, first, last))
    return MessageView(tuple(shown), max(0, len(records.starts) - LISTED))


def _slots(
    layout: RecordLayout, shift: int, roles: dict[str, str]
) -> Iterable[tuple[int, int, str, str, str]]:
    """Yield the fields of a fixed-width record's layout: start, end, name, role and type.

    ``shift`` is added to the offsets, and ``roles`` maps names of columns to roles.
    """
    for slot in layout.slots:
        kind = slot.field.usage.value
        yield (
            slot.offset + shift,
            slot.end + shift,
            slot.column.name,
            roles.get(slot.column.name, ""),
            kind,
        )


def format_message(raw: bytes) -> tuple[str, str]:
    """Format a message to view it on the workbench: as text, or as hex digits if text would lose bytes.

    Also returns the form: "lf", "crlf" (the line ends of the text) or "hex".
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        # Makes the condition below choose hex.
        text = "\0"
    returns, pairs = text.count("\r"), text.count("\r\n")
    # Text cannot show NUL, a CR without LF, or a mixture of LF and CR LF: use hex
    if "\0" in text or returns > pairs or (pairs and pairs < text.count("\n")):
        lines = (raw[at : at + 16].hex(" ") for at in range(0, len(raw), 16))
        return "\n".join(lines), "hex"
    return (text.replace("\r\n", "\n"), "crlf") if pairs else (text, "lf")
