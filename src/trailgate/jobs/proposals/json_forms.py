"""Recognize JSON messages of other tools that capture changes, and propose properties for them.

`FORMS` are tried in order. A form that no properties can read raises an error that names it,
instead of a proposal that takes its members for columns. All other messages are proposed by
`json.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from trailgate.errors import DecodeError
from trailgate.jobs.proposals.drafts import FILL_IN, PropertiesDraft, TableDraft
from trailgate.jobs.proposals.json import (
    Member,
    add_images,
    begin_draft,
    documents_of,
    propose_documents,
    take_first_for_key,
)

_SECONDS: Final = 10  # digits of a time in seconds since 1970, from 2001 to 2286


class JsonForm(NamedTuple):
    """A known form of JSON messages: a test of one object, and a function that proposes properties.

    `propose` gets the objects of all messages, and the number of messages.
    """

    fits: Callable[[Member], bool]
    propose: Callable[[Sequence[Member], int], str]


def propose_json(bodies: Sequence[bytes]) -> str:
    """Propose properties for JSON messages of any form.

    Raises DecodeError if a message is not JSON, if no operation is recognized, or if the messages
    have a known form that cannot be captured.
    """
    documents = [one for number, body in enumerate(bodies) for one in documents_of(body, number)]
    members = [one for one in documents if isinstance(one, dict)]
    if not members:
        raise DecodeError("the messages have no JSON objects, and so no operations")
    propose = next((form.propose for form in FORMS if any(map(form.fits, members))), None)
    return (propose or propose_documents)(members, len(bodies))


def _is_canal(member: Member) -> bool:
    return "isDdl" in member and "database" in member and _is_list(member.get("data"))


def _is_list(value: Any) -> bool:
    return value is None or isinstance(value, list)


def _refuse_canal(_: Sequence[Member], __: int) -> NoReturn:
    problem = "the messages are Canal's: data and old are arrays of rows, and a capture reads one row of each JSON object"
    hint = (
        "Let a stream processor write an object for each row, then propose from those. "
        "Or capture with Debezium, whose events are read as they are"
    )
    raise DecodeError(problem, hint=hint)


def _is_maxwell(member: Member) -> bool:
    names = {"database", "table", "type", "ts", "data"}
    return (
        names <= member.keys() and isinstance(member["data"], dict) and str(member["ts"]).isdigit()
    )


def _propose_maxwell(members: Sequence[Member], count: int) -> str:
    """Draft the properties that capture Maxwell's rows, from the sampled messages."""
    rows = [one for one in members if _is_maxwell(one)]
    draft = begin_draft(count, "rows of Maxwell", "json")
    draft.put("json.model", "row")
    draft.put("json.row", "data")
    draft.note("The member old is not read: updates have no before values, and an update of a key")
    draft.note("is an update of the row with the new key.")
    draft.put("json.optype", "type")
    for word in ("insert", "update", "delete"):
        draft.put(f"json.optype.{word}val", word)
    if all(one.get("xid") is not None for one in rows):
        draft.note("Rows that follow one another with the same xid are a transaction.")
        draft.put("json.txid", "xid")
    _put_only_table(draft, [f"{one['database']}.{one['table']}" for one in rows])
    if all(len(str(one["ts"])) <= _SECONDS for one in rows):
        draft.note("The member ts has seconds since 1970, which a capture does not read as a time:")
        draft.note("operations have the time of the capture. Milliseconds, of 13 digits, are read.")
        draft.put("json.timestamp", "*ts")
    else:
        draft.put("json.timestamp", "ts")
    _put_tables(draft, [(f"{one['database']}.{one['table']}", (None, one["data"])) for one in rows])
    return draft.text()


def _is_cloud_event(member: Member) -> bool:
    return "specversion" in member and "iodebeziumop" in member


def _propose_cloud_events(members: Sequence[Member], count: int) -> str:
    """Draft the properties that capture Debezium's events in CloudEvents, from the sampled messages.

    Raises DecodeError if their data are not JSON.
    """
    events = [one for one in members if _is_cloud_event(one)]
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
    _put_only_table(draft, tables)
    times = all(len(str(one.get("iodebeziumtsms"))) > _SECONDS for one in events)
    draft.put("json.timestamp", "iodebeziumtsms" if times else "*ts")
    if all(one.get("iodebeziumtxid") is not None for one in events):
        draft.put("json.txid", "iodebeziumtxid")
    draft.note("Values are taken as they are written: the data's schema is not read, and times and")
    draft.note("decimals need text (time.precision.mode=isostring, decimal.handling.mode=string).")
    data = [one["data"]["payload"] if wrapped else one["data"] for one in events]
    images = [(one.get("before"), one.get("after")) for one in data]
    _put_tables(draft, list(zip(tables, images, strict=True)))
    return draft.text()


def _schema_of(event: Member) -> str:
    return str(event.get("iodebeziumschema") or event.get("iodebeziumdb"))


def _is_cassandra(member: Member) -> bool:
    payload = member.get("payload", member)
    source = payload.get("source") if isinstance(payload, dict) else None
    return isinstance(source, dict) and source.get("connector") == "cassandra"


def _refuse_cassandra(_: Sequence[Member], __: int) -> NoReturn:
    problem = "the messages are Debezium's change events of Cassandra, in which each column is an object of value, deletion_ts and set"
    hint = "Let a transformation replace these objects by their values, and add source.schema (the keyspace)"
    raise DecodeError(problem, hint=hint)


def _put_only_table(draft: PropertiesDraft, names: Sequence[str]) -> None:
    """Add the only table as a literal, because no JSON member has SCHEMA.TABLE.

    Raises DecodeError if there are several tables.
    """
    tables = sorted(set(names))
    if len(tables) > 1:
        problem = f"the messages are for the tables {', '.join(tables)}, but no member has a table's name with its schema"
        hint = "Propose properties for each table separately: json.schemaandtable takes SCHEMA.TABLE from one member"
        raise DecodeError(problem, hint=hint)
    draft.note("No member has the table's name with its schema: all messages are of this table.")
    draft.put("json.schemaandtable", f'"{tables[0]}"')


def _put_tables(draft: PropertiesDraft, rows: Sequence[tuple[str, tuple[Any, Any]]]) -> None:
    """Add the definitions of tables to a proposal, from rows with their before and after images."""
    tables: dict[str, TableDraft] = {}
    for name, (before, after) in rows:
        add_images(tables.setdefault(name, TableDraft(name)), [after, before])
    take_first_for_key(tables, [(name, after or before or {}) for name, (before, after) in rows])
    draft.tables("json", tables.values())


FORMS: Final = (
    JsonForm(_is_canal, _refuse_canal),
    JsonForm(_is_maxwell, _propose_maxwell),
    JsonForm(_is_cloud_event, _propose_cloud_events),
    JsonForm(_is_cassandra, _refuse_cassandra),
)
