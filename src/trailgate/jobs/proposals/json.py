"""Propose properties for JSON messages of any tool.

`FORMS` lists the messages of tools whose form is known, such as Debezium (`debezium.py`) and
Maxwell (`maxwell.py`); they are tried in order. In all other messages, operations in GoldenGate's
JSON format or with different names are recognized here. A member is recognized by its name, and by
its values in all documents. Members with GoldenGate's usual names need no property.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from trailgate.errors import DecodeError, Where
from trailgate.formats.json.options import METADATA
from trailgate.jobs.proposals.debezium import (
    is_cassandra_event,
    is_cloud_event,
    is_event,
    is_event_row,
    propose_cloud_events,
    propose_event_rows,
    propose_events,
    refuse_cassandra_events,
)
from trailgate.jobs.proposals.drafts import (
    FILL_IN,
    IDENTIFIER,
    SCHEMA,
    STYLES,
    TABLE,
    WORDS,
    JsonObject,
    PropertiesDraft,
    TableDraft,
    add_images,
    begin_draft,
    propose_date_format,
    propose_operation_codes,
    take_first_for_key,
)
from trailgate.jobs.proposals.maxwell import is_canal, is_maxwell, propose_maxwell, refuse_canal

_BLANK: Final = re.compile(r"[\s\x1e]*")
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

# Time formats that need no property.
_DEFAULT_TIME: Final = re.compile(r"YYYY-MM-DD(?:[ T:]HH:MI(?::SS(?:\.F+)?)?)?\Z")


class JsonForm(NamedTuple):
    """A known form of JSON messages: a test of one object, and a function that proposes properties.

    `propose` gets the objects of all messages, and the number of messages.
    """

    fits: Callable[[JsonObject], bool]
    propose: Callable[[Sequence[JsonObject], int], str]


def propose_json(bodies: Sequence[bytes]) -> str:
    """Propose properties for JSON messages of any form.

    Raises DecodeError if a message is not JSON, if no operation is recognized, or if the messages
    have a known form that cannot be captured.
    """
    documents = [one for number, body in enumerate(bodies) for one in _documents_of(body, number)]
    objects = [one for one in documents if isinstance(one, dict)]
    if not objects:
        raise DecodeError("the messages have no JSON objects, and so no operations")
    propose = next((form.propose for form in FORMS if any(map(form.fits, objects))), None)
    return (propose or _propose_operations)(objects, len(bodies))


def _documents_of(body: bytes, number: int) -> Iterator[Any]:
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


class _Operations:
    """The structure that is recognized in JSON operations of any tool, and the properties for it.

    `types`, `table` and `time` are the paths of the members with the operation type, the table and
    the time, or "".
    """

    def __init__(self, objects: Sequence[JsonObject], count: int) -> None:
        self.objects, self.count = objects, count
        self.scalars = _scalars(objects)
        self.types = self._find(
            "op_type", _TYPES, lambda own: propose_operation_codes(own) is not None
        )
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
        return next((name for name, values in beside if propose_date_format(values)), "")

    def text(self) -> str:
        """Return the proposed properties for the JSON operations, with their tables."""
        formatter = self.types == "op_type" and self.table == "table"
        what = "operations of GoldenGate's JSON formatter" if formatter else "operations"
        draft = begin_draft(self.count, what, "json")
        images = self._put_model(draft)
        self._put_sources(draft)
        tables: dict[str, TableDraft] = {}
        rows: list[tuple[str, JsonObject]] = []
        named = all(isinstance(one.get("primary_keys"), list) for one in self.objects)
        for document in self.objects:
            name = str(_at(document, self.table)) if self.table else self.only_table
            table = tables.setdefault(name.upper(), TableDraft(name))
            before, after = images(document)
            add_images(table, [after, before])
            if named:
                table.keys += [
                    key
                    for key in document["primary_keys"]
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

    def _identifiers(self, named: re.Pattern[str]) -> list[str]:
        """Return the distinct values of a JSON member whose values are all identifiers, or [].

        This is the first such member whose name matches the pattern ``named``.
        """
        for name, values in self.scalars.items():
            fits = named.fullmatch(name.rpartition(".")[2]) and name != self.types
            if fits and all(map(IDENTIFIER.fullmatch, values)):
                return list(dict.fromkeys(values))
        return []

    def _put_sources(self, draft: PropertiesDraft) -> None:
        """Add the properties that name the JSON members of operation type, table and time."""
        if self.types != _HEADER_NAMES["optype"]:
            draft.put("json.optype", self.types)
        style = propose_operation_codes(self.scalars[self.types])
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
        form = propose_date_format(self.scalars[self.time])
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
        if any(key.startswith(("before.", "after.")) for one in self.objects for key in one):
            draft.put("json.model", "flat")
            return _flat_images
        draft.put("json.model", "row")
        sources = (self.types, self.table, self.time)
        others = METADATA | {path.partition(".")[0] for path in sources}

        def row(one: JsonObject) -> tuple[JsonObject, JsonObject]:
            return {}, {name: value for name, value in one.items() if name not in others}

        return row

    def _images(self) -> tuple[str, str]:
        """Return the paths of the JSON members with the before and after images; "" is none."""
        objects = {
            path for one in self.objects for path, value in _paths(one) if isinstance(value, dict)
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
    return numbers or bool(propose_date_format(values))


def _paths(document: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the members of a JSON document and of the objects in it, with paths: "after.ID"."""
    for name, value in document.items():
        yield name, value
        for below, inner in (value if isinstance(value, dict) else {}).items():
            yield f"{name}.{below}", inner


def _at(document: JsonObject, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(document, dict):
            return None
        document = document.get(name, {})
    return document


def _scalars(objects: Sequence[JsonObject]) -> dict[str, list[str]]:
    """Return the values of the JSON members that are text or numbers in every document, by path."""
    values_by_path: dict[str, list[str]] = {}
    for document in objects:
        for path, value in _paths(document):
            if isinstance(value, str) and value:
                values_by_path.setdefault(path, []).append(value)
    return {path: own for path, own in values_by_path.items() if len(own) == len(objects)}


def _flat_images(document: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return the before and after image of a flat JSON document.

    For example, ``{"before.ID": 1, "after.ID": 2}`` has ``{"ID": 1}`` and ``{"ID": 2}``.
    """
    before, after = (
        {
            name.removeprefix(prefix): value
            for name, value in document.items()
            if name.startswith(prefix)
        }
        for prefix in ("before.", "after.")
    )
    return before, after


def _propose_operations(objects: Sequence[JsonObject], count: int) -> str:
    return _Operations(objects, count).text()


FORMS: Final = (
    JsonForm(is_canal, refuse_canal),
    JsonForm(is_maxwell, propose_maxwell),
    JsonForm(is_cloud_event, propose_cloud_events),
    JsonForm(is_cassandra_event, refuse_cassandra_events),
    JsonForm(is_event, propose_events),
    JsonForm(is_event_row, propose_event_rows),
)
