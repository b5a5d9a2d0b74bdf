"""Promises about files in which every message is bad: each has its own error, and no message costs a step in Python.

Steps are calls of Python functions, which are the same on any machine: twice as many messages take as many.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from counted_calls import counted
from held_captures import messages_of
from messages.test_byte_order_marks import FORMS, shop
from publication_strings import capture_of, record
from trailgate.capture.capture import Capture
from trailgate.errors import DecodeError, TransactionError, Where
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch

COUNT = 400
RUNS = 3
WARM = 4000  # messages after which all loops are compiled
FEW = 100  # calls that are not of messages: loops adapt to where bad values are
TIME = "2020-01-01 00:00:00"


def of_json() -> Capture:
    return shop("json.model=op")


def of_events() -> Capture:
    return shop("debezium.txid=*txid")


def of_transactions() -> Capture:
    return shop("debezium.txid=source.txId")


def of_text() -> Capture:
    columns = (
        "delim.header=op,table,ts\ndelim.optype=op\ndelim.schemaandtable=table\ndelim.timestamp=ts"
    )
    return shop(columns)


def of_publications() -> Capture:
    return capture_of(properties="content=row")


def json(image: str, table: str = "OGG.PAIR", kind: str = "I", time: str = TIME) -> str:
    return f'{{"table":"{table}","op_type":"{kind}","op_ts":"{time}","after":{image}}}'


def event(image: str, op: str = "c", time: object = 1, table: str = "PAIR", more: str = "") -> str:
    source = f'{{"ts_ms":{time},"schema":"OGG","table":"{table}"{more}}}'
    return f'{{"before":null,"after":{image},"op":"{op}","source":{source}}}'


class Fault(NamedTuple):
    """One fault: the capture, and the bad message by its number; ``@`` is the number."""

    capture: Callable[[], Capture]
    message: str


XML = FORMS["XML"].capture
FIXED = FORMS["fixed width"].capture
FAULTS = {
    "JSON: syntax": Fault(of_json, '{"table":@'),
    "JSON: unknown table": Fault(of_json, json('{"ID":1}', table="OGG.NO")),
    "JSON: operation": Fault(of_json, json('{"ID":1}', kind="X")),
    "JSON: time": Fault(of_json, json('{"ID":1}', time="x@")),
    "JSON: the same value": Fault(of_json, json('{"ID":"x"}')),
    "JSON: different values": Fault(of_json, json('{"ID":"x@"}')),
    "JSON: an array": Fault(of_json, json('{"ID":[@]}')),
    "JSON: no key": Fault(of_json, json("{}")),
    "JSON: unknown column": Fault(of_json, json('{"ID":1,"NO":@}')),
    "JSON: too long": Fault(of_json, json(f'{{"ID":1,"NAME":"{"a" * 30}"}}')),
    "events: a value": Fault(of_events, event('{"ID":"x@"}')),
    "events: an object": Fault(of_events, event('{"ID":{"a":1}}')),
    "events: a time": Fault(of_events, event('{"ID":1}', time='"x@"')),
    "events: a time of no year": Fault(of_events, event('{"ID":1}', time=9999999999999999)),
    "events of transactions: a value": Fault(of_transactions, event('{"ID":"x"}', more=',"txId":@')),
    "events of transactions: syntax": Fault(of_transactions, '{"a":'),
    "text: different values": Fault(of_text, f"I,OGG.PAIR,{TIME},x@,a"),
    "text: different times": Fault(of_text, "I,OGG.PAIR,x@,1,a"),
    "text: too few fields": Fault(of_text, "I"),
    "text: too many fields": Fault(of_text, f"I,OGG.PAIR,{TIME},1,a,b,c,d"),
    "fixed width: a value": Fault(FIXED, "IROW x@@ abcd"),
    "fixed width: too short": Fault(FIXED, "I"),
    "XML: different values": Fault(XML, "<t><o><ID>x@</ID></o></t>"),
    "XML: syntax": Fault(XML, "<t><o@>"),
    "XML: another tag": Fault(XML, "<t><o><ID>@</ID></t>"),
    "text: not UTF-8": Fault(of_text, "I,OGG.PAIR,\udcff@,1,a"),
    "publications: fields": Fault(of_publications, record(',,"a",,,', tx="@").decode()),
    "publications: no header": Fault(of_publications, '10,"IBM",@\n'),
}  # fmt: skip


def texts_of(capture: Capture, batch: MessageBatch) -> list[str]:
    texts: list[str] = capture.parse(batch).problems.errors.texts().to_pylist()
    return texts


@pytest.mark.parametrize("name", FAULTS)
def test_twice_as_many_bad_messages_take_as_many_steps(name: str) -> None:
    fault = FAULTS[name]
    capture = fault.capture()
    least = dict.fromkeys((COUNT, 2 * COUNT), sys.maxsize)

    for count in [WARM, *[*least] * RUNS]:
        numbers = range(1000, 1000 + count)
        bodies = [fault.message.replace("@", str(at)) for at in numbers]
        batch = messages_of([body.encode(errors="surrogateescape") for body in bodies])
        calls, texts = counted(partial(texts_of, capture, batch))
        least[count] = min(least.get(count, calls), calls)

    assert len(texts) == 2 * COUNT
    assert least[2 * COUNT] - least[COUNT] <= FEW, least


def test_errors_of_many_values_are_those_of_each() -> None:
    values = ["x1", "1", "", "2.5", "99999999999999999999", "x2", "-", "3", " 4 ", "1e400", "x1"]
    bodies = [json(f'{{"ID":"{value}"}}').encode() for value in values]

    together = {p.message: str(p.error) for p in of_json().parse(messages_of(bodies)).problems}

    for number, body in enumerate(bodies):
        alone = of_json().parse(messages_of([body])).problems
        expected = [str(one.error).replace("file 0", f"file {number}") for one in alone]
        assert [text for at, text in together.items() if at == number] == expected


TEXTS = [
    "",
    "a",
    "a'b",
    'a"b',
    "a'\"b",
    "a\\b",
    "a\nb",
    " a ",
    "é",
    "\x01",
    "\u00a0",
    "s3://k:p@h",
    "?sig=x y",
    "a" * 61,
    "é" * 250,
]


def test_texts_of_columns_are_those_of_exceptions() -> None:
    draw = random.Random(3)
    known = [None, *TEXTS]
    raws = [
        None,
        b"",
        b"\xff\x00",
        bytes(range(33)),
        "é".encode() * 31 + b"\xff",
        *(text.encode() for text in TEXTS),
    ]
    errors = [
        draw.choice((DecodeError, TransactionError))(
            draw.choice(TEXTS),
            where=draw.choice((Where(), Where(
                source=draw.choice(known), line=draw.choice((None, 0, 7)), offset=draw.choice((None, 12)), table=draw.choice(known),
                field=draw.choice(known), raw=draw.choice(raws), text=draw.choice((None, None, *TEXTS)),
            ))),
            hint=draw.choice(TEXTS),
        )
        for _ in range(3000)
    ]  # fmt: skip

    columns = ErrorColumns.of_errors(errors)

    assert columns.texts().to_pylist() == [str(error) for error in errors]
    assert [(type(one), str(one), one.where) for one in columns] == [
        (type(one), str(one), one.where) for one in errors
    ]
    for few in ([], errors[:1], [DecodeError("x")] * 2):
        assert ErrorColumns.of_errors(few).texts().to_pylist() == [str(error) for error in few]
