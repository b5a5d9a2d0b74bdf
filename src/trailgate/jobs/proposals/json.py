"""Propose properties for JSON messages in general, and for those of Debezium.

The module recognizes Debezium's change events, rows that its transformation flattened, and
operations in GoldenGate's JSON format or with different names. A member is recognized by its name,
and by its values in all documents. Members with GoldenGate's usual names need no property.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from trailgate.errors import DecodeError, Where, count_noun
from trailgate.formats.json.options import METADATA
from trailgate.jobs.proposals.drafts import (
    FILL_IN,
    IDENTIFIER,
    SCHEMA,
    STYLES,
    TABLE,
    WORDS,
    PropertiesDraft,
    TableDraft,
    date_format,
    operation_style,
)

Member = dict[str, Any]
_BLANK: Final = re.compile(r"[\s\x1e]*")
_EVENTS: Final = tuple("crudtm")
_PREFIX: Final = "__"
# Names of members that are likely to have the operation type, the table and so on.
_TYPES: Final = re.compile(
    r"op(?:_?type|eration)?|.*(?:operation|action|event|dml|kind|verb|type).*", re.IGNORECASE
)
_TABLES: Final = re.compile(r".*(?:table|entity|object).*", re.IGNORECASE)
_SCHEMAS: Final = re.compile(r".*(?:schema|owner|database|db).*", re.IGNORECASE)
_TIMES: Final = re.compile(r".*(?:ts|time|stamp|commit).*", re.IGNORECASE)
_BEFORES: Final = ("before", "old", "oldData", "previous", "beforeImage", "before_image")
_AFTERS: Final = ("after", "new", "newData", "current", "afterImage", "after_image", "data", "row")
_HEADER_NAMES: Final = {"optype": "op_type", "schemaandtable": "table", "timestamp": "op_ts"}

# PostgreSQL's infinite times as Debezium writes them: in microseconds or milliseconds, or as text.
INFINITIES: Final = frozenset(
    {
        "9223372036825200000",
        "-9223372036832400000",
        "9223372036825200",
        "-9223372036832400",
        "infinity",
        "-infinity",
    }
)

# Time formats that need no property.
_DEFAULT_TIME: Final = re.compile(r"YYYY-MM-DD(?:[ T:]HH:MI(?::SS(?:\.F+)?)?)?\Z")


def propose_documents(members: Sequence[Member], count: int) -> str:
    """Propose properties for JSON objects, which come from `count` messages.

    Raises DecodeError if no operation is recognized.
    """
    payloads = [_payload(one) for one in members]
    if any(_is_event(one) for one in payloads):
        return _events(members, count)
    if any(f"{_PREFIX}op" in one for one in payloads):
        return _event_rows(members, count)
    return _Operations(members, count).text()


def documents_of(body: bytes, number: int) -> Iterator[Any]:
    """Yield the JSON documents of a sample message; for an array, each of its elements.

    `number` is the number of the message in errors. Raises DecodeError if it is not JSON.
    """
    # Numbers stay text, so that they keep all digits.
    decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
    try:
        text = body.decode("utf-8-sig")
        at = _end_of_blanks(text, 0)
        while at < len(text):
            document, at = decoder.raw_decode(text, at)
            yield from document if isinstance(document, list) else [document]
            at = _end_of_blanks(text, at)
    except (ValueError, RecursionError) as error:
        problem = f"the message is not JSON: {error}"
        raise DecodeError(problem, where=Where(message=number)) from None


def _end_of_blanks(text: str, at: int) -> int:
    """Return the offset of the next JSON document: after blanks and record separators (0x1E)."""
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _payload(member: Member) -> Member:
    """Return the payload of a Debezium event with a schema, or the document itself."""
    payload = member.get("payload")
    return payload if isinstance(payload, dict) else member


def _text(value: Any) -> str | None:
    """Return a JSON value as a column's text, or None for NULL."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def add_images(table: TableDraft, images: Sequence[Any]) -> None:
    """Enlarge the columns of a proposed table for the values of JSON images."""
    for image in images:
        for name, value in (image if isinstance(image, dict) else {}).items():
            table.add(name, _text(value))


def take_first_for_key(tables: dict[str, TableDraft], rows: Sequence[tuple[str, Member]]) -> None:
    """Mark the first column of each proposed table as its key, if all its sample rows have a value.

    `rows` are pairs of a table's name and a row.
    """
    for name, table in tables.items():
        first = next(iter(table.sizes), "")
        rows_of_table = [row for known, row in rows if known == name]
        if rows_of_table and all(row.get(first) is not None for row in rows_of_table):
            table.keys = [first]


def begin_draft(count: int, what: str, parser: str) -> PropertiesDraft:
    """Begin a draft for `count` JSON messages of the form `what`, for example "operations"."""
    draft = PropertiesDraft()
    draft.note(f"Proposed from {count_noun(count, 'message')}: {what}. Check each line.")
    draft.put("parser.type", parser)
    return draft


# Debezium's change events: {"op": "c", "source": {...}, "before": ..., "after": ...}, perhaps as the
# payload beside a schema.


def _is_event(payload: Member) -> bool:
    images = isinstance(payload.get("before"), dict) or isinstance(payload.get("after"), dict)
    return payload.get("op") in _EVENTS and isinstance(payload.get("source"), dict) and images


def _has_schema(member: Member) -> bool:
    return isinstance(member.get("schema"), dict) and isinstance(member.get("payload"), dict)


def _events(members: Sequence[Member], count: int) -> str:
    """Draft the properties that capture Debezium change events, from the sampled messages."""
    draft = begin_draft(count, "change events of Debezium", "debezium")
    events_only = [one for one in members if _is_event(_payload(one))]
    payloads = [_payload(one) for one in events_only]
    _put_transactions(draft, all(map(_has_transaction, payloads)))
    _note_infinity(draft, payloads)
    if all(map(_has_schema, events_only)):
        _note_schemas(draft)
        return draft.text()
    tables: dict[str, TableDraft] = {}
    rows = []
    for payload in payloads:
        source = payload["source"]
        name = f"{source.get('schema') or source.get('db')}.{source.get('table')}"
        images = [payload.get("before"), payload.get("after")]
        add_images(tables.setdefault(name, TableDraft(name)), images[::-1])
        rows.append((name, images[1] if isinstance(images[1], dict) else images[0] or {}))
    take_first_for_key(tables, rows)
    _note_untyped(draft)
    draft.tables("debezium", tables.values())
    return draft.text()


def _has_transaction(payload: Member) -> bool:
    transaction, source = payload.get("transaction"), payload["source"]
    named = isinstance(transaction, dict) and transaction.get("id") is not None
    return named or source.get("txId") is not None or source.get("gtid") is not None


def _put_transactions(draft: PropertiesDraft, named: bool) -> None:
    if named:
        draft.note("Events that follow one another with the same transaction id are a transaction.")
    else:
        draft.note("Not each event has a transaction id: each message is a transaction.")
        draft.put("debezium.txid", "*txid")


def _note_infinity(draft: PropertiesDraft, payloads: Sequence[Member]) -> None:
    """Add a comment that names the columns with PostgreSQL's time ``infinity``, which a trail cannot contain."""
    images = (one.get(name) for one in payloads for name in ("before", "after"))
    found = {
        f"{name} ({value})"
        for image in images
        for name, value in (image if isinstance(image, dict) else {}).items()
        if value in INFINITIES
    }
    if found:
        draft.note(
            f"PostgreSQL's infinity is in {', '.join(sorted(found))}. A trail has no such time:"
        )
        draft.note("a column of text takes it as it is written, a timestamp refuses it.")


def _note_schemas(draft: PropertiesDraft) -> None:
    draft.note(
        "The events have schemas, from which a capture of files takes the tables and the types."
    )
    draft.note("A live capture needs definitions: debezium.sourcedefs=FILE.")


def _note_untyped(draft: PropertiesDraft) -> None:
    draft.blank()
    draft.note(
        "The events have no schemas: values are taken as they are written. With definitions of the"
    )
    draft.note("database, times and decimals need debezium.time.precision.mode and")
    draft.note("debezium.decimal.handling.mode as the connector has them.")


def _event_rows(members: Sequence[Member], count: int) -> str:
    """Draft the properties for events of Debezium that ExtractNewRecordState has flattened."""
    draft = begin_draft(
        count, "rows that ExtractNewRecordState has made of Debezium's events", "debezium"
    )
    draft.put("debezium.model", "row")
    rows = [payload for one in members if f"{_PREFIX}op" in (payload := _payload(one))]
    ids = [
        f"{_PREFIX}{name}"
        for name in ("transaction_id", "txId", "source_txId", "gtid", "source_gtid")
    ]
    _put_transactions(draft, all(any(row.get(name) is not None for name in ids) for row in rows))
    names = ("__schema", "__source_schema", "__db", "__source_db")
    schema = next((name for name in names if all(row.get(name) for row in rows)), "")
    table = next(
        (name for name in ("__table", "__source_table") if all(row.get(name) for row in rows)), ""
    )
    if not schema:
        draft.note(
            f"{FILL_IN}the schema, which the rows do not have (add.fields of the transformation)."
        )
        draft.put("debezium.schema", f'"{SCHEMA}"')
    if not table:
        draft.note(
            f"{FILL_IN}the table, which the rows do not have (add.fields of the transformation)."
        )
        draft.put("debezium.table", '"TABLE"')
    times = ("__source_ts_us", "__source_ts_ms", "__ts_us", "__ts_ms")
    if not all(any(row.get(name) is not None for name in times) for row in rows):
        draft.note("Not each row has a time: operations have the time of the capture.")
        draft.put("debezium.timestamp", "*ts")
    if all(map(_has_schema, members)):
        _note_schemas(draft)
        return draft.text()
    tables: dict[str, TableDraft] = {}
    named = []
    for row in rows:
        name = f"{row[schema] if schema else SCHEMA}.{row[table] if table else 'TABLE'}"
        columns_only = {key: value for key, value in row.items() if not key.startswith(_PREFIX)}
        add_images(tables.setdefault(name, TableDraft(name)), [columns_only])
        named.append((name, columns_only))
    take_first_for_key(tables, named)
    _note_untyped(draft)
    draft.tables("debezium", tables.values())
    return draft.text()


class _Operations:
    """The structure that is recognized in JSON operations of any tool, and the properties for it.

    `types`, `table` and `time` are the paths of the members with the operation type, the table and
    the time, or "".
    """

    def __init__(self, members: Sequence[Member], count: int) -> None:
        self.members, self.count = members, count
        self.scalars = _scalars(members)
        self.types = self._find("op_type", _TYPES, lambda own: operation_style(own) is not None)
        self.table = self._find("table", _TABLES, lambda own: all(map(TABLE.fullmatch, own)))
        self.time = self._find(_HEADER_NAMES["timestamp"], _TIMES, _are_times) or self._other_time()
        if not self.types:
            hint = "A capture needs a member with the operation, as I, U and D, in each document: json.optype, and json.schemaandtable for the table"
            raise DecodeError("no member of the JSON documents has operation types", hint=hint)
        self.only_table = "" if self.table else self._only_table()

    def _find(self, usual: str, names: re.Pattern[str], fits: Any) -> str:
        """Return the path of the JSON member whose values satisfy ``fits``, or "".

        The usual name is preferred, then the first member whose name matches ``names``.
        """
        good = [name for name, values in self.scalars.items() if fits(values)]
        if usual in good:
            return usual
        return next((name for name in good if names.fullmatch(name.rpartition(".")[2])), "")

    def _other_time(self) -> str:
        """Return the first JSON member of any name whose values are all dates and times, or "".

        Only members beside the images are considered, because inside a row it would be a column.
        """
        if not any(self._images()):
            return ""
        beside = (item for item in self.scalars.items() if "." not in item[0])
        return next((name for name, values in beside if date_format(values)), "")

    def text(self) -> str:
        """Return the proposed properties for the JSON operations, with their tables."""
        formatter = self.types == "op_type" and self.table == "table"
        what = "operations of GoldenGate's JSON formatter" if formatter else "operations"
        draft = begin_draft(self.count, what, "json")
        images = self._put_model(draft)
        self._put_sources(draft)
        tables: dict[str, TableDraft] = {}
        rows: list[tuple[str, Member]] = []
        named = all(isinstance(one.get("primary_keys"), list) for one in self.members)
        for member in self.members:
            name = str(_at(member, self.table)) if self.table else self.only_table
            table = tables.setdefault(name.upper(), TableDraft(name))
            before, after = images(member)
            add_images(table, [after, before])
            if named:
                table.keys += [
                    key
                    for key in member["primary_keys"]
                    if isinstance(key, str) and key not in table.keys
                ]
            if before or after:
                rows.append((name.upper(), after or before))
        if not named:
            take_first_for_key(tables, rows)
        for table in tables.values():
            if not table.sizes:
                table.add("COL1", "")
        draft.tables("json", tables.values(), keys_named=named)
        return draft.text()

    def _only_table(self) -> str:
        """Return the only table of JSON operations in which no single member has SCHEMA.TABLE.

        Its name and schema come from two members, or are placeholders. Raises DecodeError if there
        are several tables, because properties take the table from one member.
        """
        names = self._identifiers(_TABLES)
        if len(names) > 1:
            hint = "json.schemaandtable takes SCHEMA.TABLE from one member: add such a member, or propose properties for each table separately"
            problem = f"the messages are for the tables {', '.join(names)}, but no member has a table's name with its schema"
            raise DecodeError(problem, hint=hint)
        schemas = self._identifiers(_SCHEMAS)
        schema = schemas[0] if len(schemas) == 1 else SCHEMA
        return f"{schema}.{names[0] if names else 'TABLE'}"

    def _identifiers(self, member: re.Pattern[str]) -> list[str]:
        """Return the distinct values of a JSON member whose values are all identifiers, or [].

        This is the first such member whose name matches the pattern ``member``.
        """
        for name, values in self.scalars.items():
            fits = member.fullmatch(name.rpartition(".")[2]) and name != self.types
            if fits and all(map(IDENTIFIER.fullmatch, values)):
                return list(dict.fromkeys(values))
        return []

    def _put_sources(self, draft: PropertiesDraft) -> None:
        """Add the properties that name the JSON members of operation type, table and time."""
        if self.types != _HEADER_NAMES["optype"]:
            draft.put("json.optype", self.types)
        style = operation_style(self.scalars[self.types])
        if style and style != STYLES[0]:
            for word, value in zip(WORDS, style, strict=True):
                draft.put(f"json.optype.{word}val", value)
        if not self.table:
            draft.note(
                f"{FILL_IN}no member has the table's name with its schema: all messages are taken for one table."
            )
            draft.put("json.schemaandtable", f'"{self.only_table}"')
        elif self.table != _HEADER_NAMES["schemaandtable"]:
            draft.put("json.schemaandtable", self.table)
        self._put_time(draft)

    def _put_time(self, draft: PropertiesDraft) -> None:
        if not self.time:
            draft.note("No time was recognized: operations have the time of the capture.")
            draft.put("json.timestamp", "*ts")
            return
        if self.time != _HEADER_NAMES["timestamp"]:
            draft.put("json.timestamp", self.time)
        form = date_format(self.scalars[self.time])
        if form and not _DEFAULT_TIME.match(form):
            draft.put("json.timestamp.format", form)

    def _put_model(self, draft: PropertiesDraft) -> Any:
        """Add the properties for the arrangement of columns in JSON operations (`json.model`).

        Returns a function that extracts the before and after image of a document.
        """
        before, after = self._images()
        if before or after:
            before, after = before or "before", after or "after"
            if before != "before":
                draft.put("json.before", before)
            if after != "after":
                draft.put("json.after", after)
            return lambda one: (_at(one, before) or {}, _at(one, after) or {})
        if any(key.startswith(("before.", "after.")) for one in self.members for key in one):
            draft.put("json.model", "flat")
            return _flat_images
        draft.put("json.model", "row")
        sources = (self.types, self.table, self.time)
        others = METADATA | {path.partition(".")[0] for path in sources}

        def row(one: Member) -> tuple[Member, Member]:
            return {}, {name: value for name, value in one.items() if name not in others}

        return row

    def _images(self) -> tuple[str, str]:
        """Return the paths of the JSON members with the before and after images; "" is none."""
        objects = {
            path for one in self.members for path, value in _paths(one) if isinstance(value, dict)
        }
        # Outer members come first: after, then payload.after.
        paths = sorted(objects, key=lambda path: path.count("."))

        def first(names: Sequence[str]) -> str:
            found = (path for name in names for path in paths if path.rpartition(".")[2] == name)
            return next(found, "")

        return first(_BEFORES), first(_AFTERS)


def _are_times(values: Sequence[str]) -> bool:
    """Return True if all values of a JSON member are times.

    These are texts in a known format, or milliseconds or microseconds since 1970.
    """
    # 13 digits are milliseconds, 16 digits are microseconds.
    numbers = all(one.isdigit() and len(one) in (13, 16) for one in values)
    return numbers or bool(date_format(values))


def _paths(member: Member) -> Iterator[tuple[str, Any]]:
    """Yield the members of a JSON document and of the objects in it, with paths: "after.ID"."""
    for name, value in member.items():
        yield name, value
        for below, inner in (value if isinstance(value, dict) else {}).items():
            yield f"{name}.{below}", inner


def _at(member: Member, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(member, dict):
            return None
        member = member.get(name, {})
    return member


def _scalars(members: Sequence[Member]) -> dict[str, list[str]]:
    """Return the values of the JSON members that are text or numbers in every document, by path."""
    values_by_path: dict[str, list[str]] = {}
    for member in members:
        for path, value in _paths(member):
            if isinstance(value, str) and value:
                values_by_path.setdefault(path, []).append(value)
    return {path: own for path, own in values_by_path.items() if len(own) == len(members)}


def _flat_images(member: Member) -> tuple[Member, Member]:
    """Return the before and after image of a flat JSON document.

    For example, ``{"before.ID": 1, "after.ID": 2}`` has ``{"ID": 1}`` and ``{"ID": 2}``.
    """
    before, after = (
        {
            name.removeprefix(prefix): value
            for name, value in member.items()
            if name.startswith(prefix)
        }
        for prefix in ("before.", "after.")
    )
    return before, after
