"""Change events that are written are read again, and transactions' events are what Debezium's documentation prints."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from held_captures import messages_of
from laws import examples
from operations_for_messages import capturable, captured, warnings
from trail.batches import batch_of
from trail.operation_strategies import DEFINITIONS, KEYLESS, NARROW
from trailgate.errors import EncodeError, OptionError
from trailgate.formats.debezium.options import DebeziumPublishOptions, debezium_options
from trailgate.formats.debezium.reader import DebeziumTableInference
from trailgate.formats.debezium.writer import DebeziumWriter
from trailgate.messages.properties import parse_properties
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Definitions, Table

MODEST: Final = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# An event names a table by two names, and its database beside them.
TABLES: Final = Definitions((*DEFINITIONS.tables[:2], replace(KEYLESS, name="S.KEYLESS")))
BARE: Final = "debezium.decimal.handling.mode=string\ndebezium.binary.handling.mode=bytes\n"
PROPERTIES: Final = "parser.type=debezium\ndebezium.sourcedefs=x\n"
Operation = dict[str, Any]


def _renamed(operations: list[Operation]) -> list[Operation]:
    """Return operations of ``TABLES``, each with a transaction id of its own run."""
    run, found = 0, []
    for operation in operations:
        run += operation["tx_ind"] in "BW"
        table = operation["table"].removeprefix("C.")
        found.append(operation | {"table": table, "tx_id": f"t{run}", "csn": f"{run:09}"})
    return found


def _documents(batch: ChangeBatch, **options: Any) -> list[Any]:
    messages = DebeziumWriter(DebeziumPublishOptions(**options)).write(batch)
    return [json.loads(body) for body in messages.bodies.to_pylist()]


@MODEST
@given(capturable().map(_renamed), st.booleans(), st.booleans())
def test_operations_are_read_again(
    operations: list[Operation], schemas: bool, transactions: bool
) -> None:
    options = DebeziumPublishOptions(
        schemas=schemas, transactions=transactions, missing="omit", key_updates="update"
    )
    messages = DebeziumWriter(options).write(batch_of(TABLES, operations))

    properties = PROPERTIES + ("" if schemas else BARE)
    found = captured(properties, messages.bodies.to_pylist(), TABLES)
    # An update without any before value has null for its image; one that has none of an image has an empty one.
    assert list(map(warnings, found)) == list(map(warnings, operations))
    assert [op["tx_ind"] for op in found] == [op["tx_ind"] for op in operations]
    assert [op["tx_id"] for op in found] == [op["tx_id"] for op in operations]


@MODEST
@given(capturable().map(_renamed), st.integers(0, 9))
def test_operations_are_read_again_with_the_tables_that_their_schemas_describe(
    operations: list[Operation], cut: int
) -> None:
    options = DebeziumPublishOptions(schemas=True, missing="omit", key_updates="update")
    bodies = DebeziumWriter(options).write(batch_of(TABLES, operations)).bodies.to_pylist()
    properties = "parser.type=debezium\n"
    tables = DebeziumTableInference(debezium_options(parse_properties(properties.encode())))
    for part in (bodies[:cut], bodies[cut:]):
        tables.add(messages_of(part))

    found = captured(properties, bodies, tables.definitions())
    assert [_strings(warnings(op)) for op in found] == [_strings(warnings(op)) for op in operations]


def _strings(operation: Operation) -> Operation:
    """Return an operation with strings for its values; times to the second are inferred with nine digits more."""

    def text(value: Any) -> Any:
        return None if value is None else str(value)

    images = {side: operation[side] or {} for side in ("before", "after")}
    found = {side: {c: text(v) for c, v in image.items()} for side, image in images.items()}
    for image in found.values():
        if image.get("SECOND"):
            image["SECOND"] = image["SECOND"].removesuffix(".000000000")
    return operation | found


@MODEST
@given(capturable().map(_renamed), st.data())
def test_events_do_not_depend_on_how_operations_are_cut(
    operations: list[Operation], data: st.DataObject
) -> None:
    options = DebeziumPublishOptions(missing="omit", key_updates="update")
    whole = DebeziumWriter(options).write(batch_of(TABLES, operations)).bodies.to_pylist()
    cuts = data.draw(st.lists(st.integers(0, len(operations)), min_size=1, max_size=3).map(sorted))
    writer, parts = DebeziumWriter(options), []
    for begin, end in pairwise([0, *cuts, len(operations)]):
        parts += writer.write(batch_of(TABLES, operations[begin:end])).bodies.to_pylist()

    assert parts == whole


@MODEST
@given(capturable().map(_renamed))
def test_events_do_not_depend_on_how_blocks_are_split(operations: list[Operation]) -> None:
    batch = batch_of(TABLES, operations)
    kinds = [
        (b, np.flatnonzero(b.op_type == k)) for b in batch.blocks for k in np.unique(b.op_type)
    ]
    split = ChangeBatch([block.take(rows) for block, rows in reversed(kinds)], batch.rows)
    options: dict[str, Any] = {"missing": "omit", "key_updates": "update"}

    assert _documents(split, **options) == _documents(batch, **options)


@MODEST
@given(capturable().map(_renamed))
def test_end_events_count_tables_in_the_order_of_their_first_events(
    operations: list[Operation],
) -> None:
    events = _documents(batch_of(TABLES, operations), missing="omit", key_updates="update")

    seen: dict[str, int] = {}
    for event in events:
        if event.get("status") == "BEGIN":
            seen = {}
        elif event.get("status") == "END":
            assert event["event_count"] == sum(seen.values())
            listed = {c["data_collection"]: c["event_count"] for c in event["data_collections"]}
            assert list(listed.items()) == list(seen.items())
        else:
            name = f"{event['source']['schema']}.{event['source']['table']}"
            seen[name] = seen.get(name, 0) + 1
            block = event["transaction"]
            assert block["total_order"] == sum(seen.values())
            assert block["data_collection_order"] == seen[name]
            assert block["id"] == event["source"]["txId"]
    assert sum("op" in event for event in events) == len(operations)


def _one(kind: str, before: Operation, after: Operation, table: Table = NARROW) -> ChangeBatch:
    operation = {
        "table": table.name, "op_type": kind, "op_ts": 1_486_500_577_691_123, "tx_ind": "W",
        "tx_id": "571", "csn": "34", "before": before, "after": after,
    }  # fmt: skip
    return batch_of(Definitions((table,)), [operation])


def test_an_event_is_as_debezium_documents_it() -> None:
    begin, event, end = _documents(_one("U", {"A": "k", "B": "x"}, {"A": "k", "B": None}))

    assert begin == {
        "status": "BEGIN", "id": "571", "ts_ms": 1486500577691, "event_count": None,
        "data_collections": None,
    }  # fmt: skip
    assert event == {
        "before": {"A": "k", "B": "x"},
        "after": {"A": "k", "B": None},
        "source": {
            "version": "1", "connector": "trailgate", "name": "trailgate", "ts_ms": 1486500577691,
            "ts_us": 1486500577691123, "ts_ns": 1486500577691123000, "snapshot": "false", "db": None,
            "schema": "S", "table": "NARROW", "txId": "571", "scn": "34",
        },
        "op": "u",
        "ts_ms": 1486500577691,
        "ts_us": 1486500577691123,
        "ts_ns": 1486500577691123000,
        "transaction": {"id": "571", "total_order": 1, "data_collection_order": 1},
    }  # fmt: skip
    assert end == {
        "status": "END", "id": "571", "ts_ms": 1486500577691, "event_count": 1,
        "data_collections": [{"data_collection": "S.NARROW", "event_count": 1}],
    }  # fmt: skip


def test_messages_have_their_topics_and_the_order_of_their_operations() -> None:
    messages = DebeziumWriter(DebeziumPublishOptions(prefix="p")).write(
        _one("D", {"A": "k", "B": ""}, {})
    )
    assert messages.order.tolist() == [0, 0, 0]
    assert messages.headers["topic"].to_pylist() == ["p.transaction", "p.S.NARROW", "p.transaction"]


def _keys(batch: ChangeBatch, **options: Any) -> list[Any]:
    messages = DebeziumWriter(DebeziumPublishOptions(transactions=False, **options)).write(batch)
    assert messages.keys is not None
    return [None if key is None else json.loads(key) for key in messages.keys.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "before", "after", "key"),
    [
        ("I", {}, {"A": "k", "B": "x"}, {"A": "k"}),
        ("U", {"A": "k", "B": "x"}, {"B": "y"}, {"A": "k"}),
        ("K", {"A": "k"}, {"A": "l"}, {"A": "l"}),
        ("D", {"A": "k"}, {}, {"A": "k"}),
        ("T", {}, {}, None),
    ],
)
def test_the_key_of_an_event_is_that_of_its_row(
    kind: str, before: Operation, after: Operation, key: Operation | None
) -> None:
    options = {"missing": "omit", "key_updates": "update"}
    assert _keys(_one(kind, before, after), **options) == [key]


@MODEST
@given(capturable().map(_renamed))
def test_keys_are_the_key_columns_of_images(operations: list[Operation]) -> None:
    options = DebeziumPublishOptions(missing="omit", key_updates="update")
    messages = DebeziumWriter(options).write(batch_of(TABLES, operations))
    keys = [] if messages.keys is None else messages.keys.to_pylist()
    pairs = zip(messages.bodies.to_pylist(), keys, strict=True)
    for body, key in pairs:
        event, found = json.loads(body), None if key is None else json.loads(key)
        if "status" in event:
            assert found == {"id": event["id"]}
            continue
        image = event["before"] if event["op"] == "d" else event["after"]
        table = TABLES.table(f"{event['source']['schema']}.{event['source']['table']}")
        names = [column.name for column in table.columns if column.key]
        assert found == ({name: image[name] for name in names} if image and names else None)


def test_a_key_has_its_schema_beside_it() -> None:
    (key,) = _keys(_one("I", {}, {"A": "k", "B": "x"}), schemas=True)
    field = {"type": "string", "optional": False, "field": "A"}
    assert key == {
        "schema": {
            "type": "struct", "fields": [field], "optional": False,
            "name": "trailgate.S.NARROW.Key",
        },
        "payload": {"A": "k"},
    }  # fmt: skip


TYPES: Final[dict[str, Any]] = {"string": str, "int64": int, "array": list, "struct": dict}


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether a payload is of its schema, by the rules of Connect's JSON converter."""
    if value is None:
        return bool(schema["optional"])
    if not isinstance(value, TYPES[schema["type"]]):
        return False
    if schema["type"] == "array":
        return all(_fits(item, schema["items"]) for item in value)
    if schema["type"] != "struct":
        return True
    fields = {field["field"]: field for field in schema["fields"]}
    return set(value) <= set(fields) and all(
        _fits(value.get(name), field) for name, field in fields.items()
    )


def test_begin_and_end_events_have_their_schemas_beside_them() -> None:
    batch = _one("I", {}, {"A": "k", "B": "x"})
    messages = DebeziumWriter(DebeziumPublishOptions(schemas=True)).write(batch)
    assert messages.keys is not None
    documents = [json.loads(body) for body in messages.bodies.to_pylist()]
    keys = [json.loads(key) for key in messages.keys.to_pylist()]

    plain = _documents(batch)
    assert [document["payload"] for document in documents] == plain
    assert [key["payload"] for key in keys] == [{"id": "571"}, {"A": "k"}, {"id": "571"}]
    for at in (0, 2):
        assert _fits(plain[at], documents[at]["schema"])
        assert _fits(keys[at]["payload"], keys[at]["schema"])
    name = "io.debezium.connector.common.TransactionMetadata"
    found = {documents[0]["schema"]["name"], keys[0]["schema"]["name"]}
    assert found == {f"{name}Value", f"{name}Key"}


def test_an_event_without_its_key_is_refused() -> None:
    with pytest.raises(EncodeError, match=r"key column A is missing.*table S\.NARROW, field A"):
        _keys(_one("U", {}, {"B": "x"}), missing="omit")


def test_a_missing_column_is_refused_omitted_or_marked_by_the_placeholder() -> None:
    batch = _one("U", {}, {"A": "k"})
    with pytest.raises(
        EncodeError, match=r"column B is missing.*table S\.NARROW, field B.*missing=omit"
    ):
        _documents(batch)
    assert _documents(batch, missing="omit")[1]["after"] == {"A": "k"}
    placed = _documents(batch, missing="placeholder")[1]
    assert placed["after"] == {"A": "k", "B": "__debezium_unavailable_value"}
    assert placed["before"] is None
    with pytest.raises(EncodeError, match=r"column X is missing.*only text columns"):
        _documents(_one("I", {}, {"Y": "k"}, TABLES.tables[2]), missing="placeholder")


def test_key_updates_are_refused_unless_they_may_be_updates() -> None:
    batch = _one("K", {"A": "k", "B": ""}, {"A": "l", "B": ""})
    with pytest.raises(EncodeError, match=r"the key changes.*key_updates=update"):
        _documents(batch)
    assert _documents(batch, key_updates="update")[1]["op"] == "u"


@pytest.mark.parametrize(
    "options",
    [{"missing": "x"}, {"key_updates": "x"}, {"schemas": "x"}, {"content": "transaction"}],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        DebeziumPublishOptions(**options)
