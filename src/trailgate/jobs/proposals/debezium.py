"""Propose properties for JSON messages of Debezium.

They are change events, rows into which a transformation has flattened them, or events in
CloudEvents. Events of Cassandra cannot be captured. If events have schemas, a capture takes the
tables from these; otherwise tables are proposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from trailgate.errors import DecodeError
from trailgate.jobs.proposals.drafts import (
    FILL_IN,
    SCHEMA,
    SECONDS_DIGITS,
    JsonObject,
    PropertiesDraft,
    TableDraft,
    add_images,
    begin_draft,
    put_only_table,
    put_tables,
    take_first_for_key,
)

_EVENTS: Final = tuple("crudtm")
_PREFIX: Final = "__"

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


def _payload(document: JsonObject) -> JsonObject:
    """Return the payload of a Debezium event with a schema, or the document itself."""
    payload = document.get("payload")
    return payload if isinstance(payload, dict) else document


def is_event(document: JsonObject) -> bool:
    """Return True if a JSON object is a change event of Debezium, perhaps beside its schema.

    For example ``{"op": "c", "source": {...}, "before": null, "after": {...}}``.
    """
    return _is_plain_event(_payload(document))


def is_event_row(document: JsonObject) -> bool:
    """Return True if a JSON object is a flattened event of Debezium: a row with ``__op``."""
    return f"{_PREFIX}op" in _payload(document)


def _is_plain_event(payload: JsonObject) -> bool:
    images = isinstance(payload.get("before"), dict) or isinstance(payload.get("after"), dict)
    return payload.get("op") in _EVENTS and isinstance(payload.get("source"), dict) and images


def _has_schema(document: JsonObject) -> bool:
    return isinstance(document.get("schema"), dict) and isinstance(document.get("payload"), dict)


def propose_events(objects: Sequence[JsonObject], count: int) -> str:
    """Draft the properties that capture change events of Debezium, from sample messages."""
    draft = begin_draft(count, "change events of Debezium", "debezium")
    events_only = [one for one in objects if is_event(one)]
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


def _has_transaction(payload: JsonObject) -> bool:
    transaction, source = payload.get("transaction"), payload["source"]
    named = isinstance(transaction, dict) and transaction.get("id") is not None
    return named or source.get("txId") is not None or source.get("gtid") is not None


def _put_transactions(draft: PropertiesDraft, named: bool) -> None:
    if named:
        draft.note("Events that follow one another with the same transaction id are a transaction.")
    else:
        draft.note("Not each event has a transaction id: each message is a transaction.")
        draft.put("debezium.txid", "*txid")


def _note_infinity(draft: PropertiesDraft, payloads: Sequence[JsonObject]) -> None:
    """Add a comment that names the columns of events with PostgreSQL's time ``infinity``.

    A trail cannot contain this time.
    """
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


def propose_event_rows(objects: Sequence[JsonObject], count: int) -> str:
    """Draft the properties that capture flattened events of Debezium, from sample messages.

    The transformation ExtractNewRecordState flattens events to rows.
    """
    draft = begin_draft(
        count, "rows that ExtractNewRecordState has made of Debezium's events", "debezium"
    )
    draft.put("debezium.model", "row")
    rows = [payload for one in objects if f"{_PREFIX}op" in (payload := _payload(one))]
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
    if all(map(_has_schema, objects)):
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


def is_cloud_event(document: JsonObject) -> bool:
    """Return True if properties for Debezium's CloudEvents should be proposed: a sample message has their members."""
    return "specversion" in document and "iodebeziumop" in document


def propose_cloud_events(objects: Sequence[JsonObject], count: int) -> str:
    """Draft the properties that capture Debezium's events in CloudEvents, from sample messages.

    Raises DecodeError if their data are not JSON.
    """
    events = [one for one in objects if is_cloud_event(one)]
    if not all(isinstance(one.get("data"), dict) for one in events):
        problem = "the messages are CloudEvents whose data are not JSON objects"
        hint = "Set the converter's serializer.type=json and data.serializer.type=json"
        raise DecodeError(problem, hint=hint)
    wrapped = all("payload" in one["data"] for one in events)
    draft = begin_draft(count, "change events of Debezium in CloudEvents", "json")
    path = "data.payload" if wrapped else "data"
    draft.put("json.before", f"{path}.before")
    draft.put("json.after", f"{path}.after")
    draft.put("json.optype", "iodebeziumop")
    types = {one["iodebeziumop"] for one in events}
    inserts = sorted(types & {"c", "r"}) or ["c"]
    if len(inserts) > 1:
        draft.note(f"{FILL_IN}rows of a snapshot (r) and inserts (c) are captured separately.")
    for word, value in (("insert", inserts[0]), ("update", "u"), ("delete", "d")):
        draft.put(f"json.optype.{word}val", value)
    tables = [f"{_schema_of(one)}.{one.get('iodebeziumtable')}" for one in events]
    put_only_table(draft, tables)
    times = all(len(str(one.get("iodebeziumtsms"))) > SECONDS_DIGITS for one in events)
    draft.put("json.timestamp", "iodebeziumtsms" if times else "*ts")
    if all(one.get("iodebeziumtxid") is not None for one in events):
        draft.put("json.txid", "iodebeziumtxid")
    draft.note("Values are taken as they are written: the data's schema is not read, and times and")
    draft.note("decimals need text (time.precision.mode=isostring, decimal.handling.mode=string).")
    data = [one["data"]["payload"] if wrapped else one["data"] for one in events]
    images = [(one.get("before"), one.get("after")) for one in data]
    put_tables(draft, list(zip(tables, images, strict=True)))
    return draft.text()


def _schema_of(event: JsonObject) -> str:
    return str(event.get("iodebeziumschema") or event.get("iodebeziumdb"))


def is_cassandra_event(document: JsonObject) -> bool:
    """Return True if a sample is an event of Debezium for Cassandra, for which nothing can be proposed."""
    payload = document.get("payload", document)
    source = payload.get("source") if isinstance(payload, dict) else None
    return isinstance(source, dict) and source.get("connector") == "cassandra"


def refuse_cassandra_events(_: Sequence[JsonObject], __: int) -> NoReturn:
    """Raise DecodeError instead of proposing properties for Debezium's events of Cassandra, which none can read."""
    problem = "the messages are Debezium's change events of Cassandra, in which each column is an object of value, deletion_ts and set"
    hint = "Let a transformation replace these objects by their values, and add source.schema (the keyspace)"
    raise DecodeError(problem, hint=hint)
