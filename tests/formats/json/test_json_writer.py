"""What is written as GoldenGate's JSON messages is what Python's module would write, and is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from operations_for_messages import capturable, captured, warnings
from trail.batches import batch_of
from trail.operation_strategies import DEFINITIONS, NARROW
from trailgate.errors import EncodeError, OptionError
from trailgate.formats.json.options import JsonPublishOptions
from trailgate.formats.json.writer import JsonWriter
from trailgate.model.tables import Column, Definitions, Table

MODEST: Final = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
Operation = dict[str, Any]


@MODEST
@given(capturable(), st.booleans())
def test_operations_are_read_again(operations: list[Operation], strings: bool) -> None:
    messages = JsonWriter(JsonPublishOptions(strings=strings)).write(
        batch_of(DEFINITIONS, operations)
    )

    assert messages.order.tolist() == list(range(len(operations)))
    found = captured("parser.type=json\njson.sourcedefs=x", messages.bodies.to_pylist())
    assert list(map(warnings, found)) == list(map(warnings, operations))
    assert messages.keys is None or messages.keys.to_pylist() == [op["table"] for op in operations]


def naive_message(operation: Operation) -> str:
    """Return a message as Python's module writes it."""
    table = DEFINITIONS.table(operation["table"])
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=operation["op_ts"])
    kind = operation["op_type"].replace("K", "U")
    time = f"{when:%m-%d}", when.time().isoformat("microseconds")
    date = f"{when.year:04}-{time[0]}"
    body: dict[str, Any] = {
        "table": table.name, "op_type": kind, "op_ts": f"{date} {time[1]}",
        "current_ts": f"{date}T{time[1]}", "pos": "",
        "primary_keys": [column.name for column in table.columns if column.key],
    }  # fmt: skip
    if operation["tokens"]:
        body["tokens"] = operation["tokens"]
    numbers: list[str] = []
    for side, kinds in (("before", "UKD"), ("after", "IUK")):
        image = {
            c.name: operation[side][c.name] for c in table.columns if c.name in operation[side]
        }
        if kind in kinds:
            body[side] = {name: _plain(value, numbers) for name, value in image.items()}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    for number in numbers:
        text = text.replace(f'"\x7f{number}"', number, 1)
    return text


def _plain(value: Any, numbers: list[str]) -> Any:
    if isinstance(value, Decimal):
        numbers.append(f"{value:f}")
        return f"\x7f{value:f}"
    return value


@MODEST
@given(capturable().map(lambda ops: ops[:1]))
def test_a_message_is_what_pythons_module_writes(operations: list[Operation]) -> None:
    operations = [
        op
        | {
            side: {k: v for k, v in op[side].items() if k != "NUMBER"}
            for side in ("before", "after")
        }
        for op in operations
        if "\x7f" not in str(op)
    ]
    bodies = JsonWriter(JsonPublishOptions()).write(batch_of(DEFINITIONS, operations)).bodies
    assert [body.decode() for body in bodies.to_pylist()] == [
        _without_empty(naive_message(op)) for op in operations
    ]


def _without_empty(text: str) -> str:
    """Return a message without the before image that no operation of a batch has."""
    return text.replace(',"before":{}', "") if '"op_type":"U"' in text else text


@MODEST
@given(capturable())
def test_the_row_model_is_read_again(operations: list[Operation]) -> None:
    without = [op | {"op_type": op["op_type"].replace("K", "U")} for op in operations]
    options = JsonPublishOptions(model="row", tokens=False, position=False)
    messages = JsonWriter(options).write(batch_of(DEFINITIONS, without))

    found = captured(
        "parser.type=json\njson.sourcedefs=x\njson.model=row", messages.bodies.to_pylist()
    )
    images = [op | {"before": {}} if op["op_type"] == "U" else op for op in without]
    assert list(map(warnings, found)) == list(map(warnings, images))


@MODEST
@given(capturable())
def test_transactions_are_read_again_where_messages_say_them(operations: list[Operation]) -> None:
    for number, operation in enumerate(operations):
        operation |= {"tx_id": operation["tx_id"] or "?", "csn": f"{number:05}"}
    messages = JsonWriter(JsonPublishOptions(transactions=True)).write(
        batch_of(DEFINITIONS, operations)
    )

    properties = (
        "parser.type=json\njson.sourcedefs=x\njson.txind=tx_ind\njson.txid=xid\njson.seqid=csn"
    )
    found = captured(properties, messages.bodies.to_pylist())
    assert [op["tx_ind"] for op in found] == [op["tx_ind"] for op in operations]


def test_tokens_are_read_again() -> None:
    one = {
        "table": "S.NARROW",
        "op_type": "I",
        "op_ts": 0,
        "tx_ind": "W",
        "tx_id": None,
        "csn": None,
    }
    operations = [
        one | {"before": {}, "after": {"A": str(at)}, "tokens": tokens}
        for at, tokens in enumerate([{"a": '"', "b": ""}, {}, {"c\n": "é"}])
    ]
    bodies = JsonWriter(JsonPublishOptions()).write(batch_of(DEFINITIONS, operations)).bodies

    found = captured("parser.type=json\njson.sourcedefs=x", bodies.to_pylist())
    assert [op["tokens"] for op in found] == [op["tokens"] for op in operations]


BYTES: Final = Table("S.B", (Column("A", 64, 20, key=True), Column("B", 64, 20, sub_type=4)))


@pytest.mark.parametrize(("binary", "text"), [("hex", "00FF10"), ("base64", "AP8Q")])
def test_bytes_are_written_as_is_set(binary: Literal["hex", "base64"], text: str) -> None:
    batch = _one_insert(BYTES, {"A": "k", "B": "00FF10"})
    body = JsonWriter(JsonPublishOptions(binary=binary)).write(batch).bodies[0].as_py()
    assert json.loads(body)["after"] == {"A": "k", "B": text}


def test_bytes_are_refused_where_it_is_not_set_how_they_are_written() -> None:
    with pytest.raises(EncodeError, match=r"column B has bytes.*table S\.B.*Set binary"):
        JsonWriter(JsonPublishOptions()).write(_one_insert(BYTES, {"A": "k", "B": "00"}))
    null = JsonWriter(JsonPublishOptions()).write(_one_insert(BYTES, {"A": "k", "B": None}))
    assert b'"B":null' in null.bodies[0].as_py()


def _one_insert(table: Table, after: Operation) -> Any:
    operation = {
        "table": table.name, "op_type": "I", "op_ts": 0, "tx_ind": "W", "tx_id": "t", "csn": "1",
        "before": {}, "after": after,
    }  # fmt: skip
    return batch_of(Definitions((table,)), [operation])


def test_a_message_that_is_too_long_is_refused() -> None:
    options = JsonPublishOptions(max_message_bytes=100)
    with pytest.raises(EncodeError, match=r"the message has \d+ bytes; the limit is 100"):
        JsonWriter(options).write(_one_insert(NARROW, {"A": "k"}))


def test_an_insert_with_a_before_image_is_refused() -> None:
    batch = _one_insert(NARROW, {"A": "k"})
    block = batch.blocks[0]
    odd = replace(batch, blocks=[replace(block, before=block.after)])
    with pytest.raises(EncodeError, match="an operation I has a value in its before image"):
        JsonWriter(JsonPublishOptions()).write(odd)


def test_values_that_the_row_model_cannot_represent_are_refused() -> None:
    batch = _one_insert(NARROW, {"A": "k"})
    block = batch.blocks[0]
    kinds = replace(block, op_type=block.op_type * 0 + ord("K"))
    with pytest.raises(EncodeError, match="model=op"):
        JsonWriter(JsonPublishOptions(model="row")).write(replace(batch, blocks=[kinds]))
    table = Table("S.T", (Column("POS", 64, 9, key=True),))
    with pytest.raises(EncodeError, match="column POS has the name of a metadata member"):
        JsonWriter(JsonPublishOptions(model="row")).write(_one_insert(table, {"POS": "k"}))


@pytest.mark.parametrize(
    "options", [{"model": "x"}, {"binary": "x"}, {"strings": "x"}, {"content": "transaction"}]
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        JsonPublishOptions(**options)


def test_nothing_is_written_of_nothing() -> None:
    writer = JsonWriter(JsonPublishOptions())
    assert (len(writer.write(batch_of(DEFINITIONS, []))), len(writer.finish())) == (0, 0)
    assert writer.finish().bodies.type == pa.large_binary()
