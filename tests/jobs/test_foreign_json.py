"""What `trailgate init` proposes for JSON of other tools that capture changes: properties that read it, or what it is and why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trailgate.errors import DecodeError
from trailgate.jobs.proposals.drafts import set_up_capture
from trailgate.jobs.proposals.proposal import propose
from trailgate.messages.message_batch import messages_from

MAXWELL = [
    '{"database":"shop","table":"orders","type":"insert","ts":1449786310,"xid":940752,"commit":true,"data":{"id":1,"note":"a"}}',
    '{"database":"shop","table":"orders","type":"update","ts":1449786341,"xid":940786,"commit":true,"data":{"id":1,"note":"b"},"old":{"note":"a"}}',
    '{"database":"shop","table":"orders","type":"delete","ts":1449786400,"xid":940800,"commit":true,"data":{"id":1,"note":"b"}}',
]
CANAL = (
    '{"data":[{"id":"1","name":"car"}],"database":"inventory","es":1589373515000,"id":3,"isDdl":false,"mysqlType":{"id":"int(11)"},'
    '"old":[{"name":"bus"}],"pkNames":["id"],"sqlType":{"id":4},"table":"products","ts":1589373515477,"type":"UPDATE"}'
)
CASSANDRA = (
    '{"ts_ms":1562202942832,"op":"c","source":{"connector":"cassandra","keyspace":"k","table":"t","ts_ms":1562202942666},'
    '"after":{"id":{"value":1001,"deletion_ts":null,"set":true}}}'
)


def cloud_event(op: str, **data: Any) -> str:
    event = {
        "id": "1", "source": "/debezium/postgresql/srv", "specversion": "1.0", "type": "io.debezium.postgresql.datachangeevent",
        "time": "2020-01-13T13:55:39.738Z", "datacontenttype": "application/json", "iodebeziumop": op, "iodebeziumtsms": "1578923739738",
        "iodebeziumdb": "shop", "iodebeziumschema": "s1", "iodebeziumtable": "a", "iodebeziumtxid": "565", "data": data,
    }  # fmt: skip
    return json.dumps(event)


def operations(*bodies: str) -> list[tuple[str, str, dict[str, str], dict[str, str]]]:
    """Return the operations that the proposed properties read from the same messages."""
    capture = set_up_capture(propose([body.encode() for body in bodies]).text)
    parsed = capture.parse(messages_from(bodies))
    assert not parsed.problems
    rows = [
        one
        for part in (parsed, capture.at_end(parsed.state))
        for one in part.operations().to_pylist()
    ]
    return [
        (one["op_type"], one["table"], dict(one["before"] or ()), dict(one["after"] or ()))
        for one in rows
    ]


def test_rows_of_maxwell_are_read_and_their_seconds_are_named() -> None:
    text = propose([body.encode() for body in MAXWELL]).text

    assert "seconds since 1970" in text
    assert "json.timestamp=*ts" in text.splitlines()
    first, second = {"id": "1", "note": "a"}, {"id": "1", "note": "b"}
    assert operations(*MAXWELL) == [
        ("I", "shop.orders", {}, first),
        ("U", "shop.orders", {}, second),
        ("D", "shop.orders", {"id": "1"}, {}),
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_change_events_in_cloud_events_are_read(*, wrapped: bool) -> None:
    images: list[tuple[str, dict[str, Any]]] = [
        ("c", {"before": None, "after": {"pk": 1, "name": "Bob"}}),
        ("u", {"before": {"pk": 1, "name": "Bob"}, "after": {"pk": 1, "name": "Ann"}}),
        ("d", {"before": {"pk": 1, "name": "Ann"}, "after": None}),
    ]
    bodies = [
        cloud_event(op, **({"schema": None, "payload": image} if wrapped else image))
        for op, image in images
    ]

    found = operations(*bodies)

    assert [(op, table) for op, table, _, _ in found] == [
        ("I", "s1.a"),
        ("U", "s1.a"),
        ("D", "s1.a"),
    ]
    assert found[0][3] == {"pk": "1", "name": "Bob"}


def test_rows_of_a_snapshot_among_inserts_are_to_fill_in() -> None:
    after = {"before": None, "after": {"pk": 1}}
    found = propose([cloud_event(op, **after).encode() for op in "rc"])

    assert any("rows of a snapshot (r) and inserts (c)" in one for one in found.open)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (CANAL, "the messages are Canal's: data and old are arrays of rows"),
        (CASSANDRA, "change events of Cassandra"),
        (cloud_event("c").replace('"data": {}', '"data": "AAEC"'), "CloudEvents whose data are not JSON"),
    ],
    ids=["Canal", "Cassandra", "CloudEvents of Avro"],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_named(body: str, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem) as caught:
        propose([body.encode()])

    assert caught.value.hint


def test_several_tables_without_a_member_that_names_them_are_refused() -> None:
    with pytest.raises(DecodeError, match=r"tables shop\.items, shop\.orders"):
        propose([MAXWELL[0].encode(), MAXWELL[0].replace('"orders"', '"items"').encode()])


@pytest.mark.parametrize("value", ["9223372036825200000", "-9223372036832400000", '"infinity"'])
def test_infinity_of_postgresql_is_named(value: str) -> None:
    event = (
        f'{{"before":null,"after":{{"id":1,"valid_to":{value}}},"op":"c",'
        '"source":{"connector":"postgresql","schema":"public","table":"t","ts_ms":1700000000000}}'
    )

    assert (
        f"# PostgreSQL's infinity is in valid_to ({value.strip(chr(34))})."
        in propose([event.encode()]).text
    )
