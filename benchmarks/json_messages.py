"""GoldenGate's JSON messages and Debezium's change events, in and out on one core, beside orjson with the same messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
from benchmarks.report import Figure, Target

from trailgate.capture.capture import Capture
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.formats.debezium.options import DebeziumPublishOptions, debezium_options
from trailgate.formats.debezium.writer import DebeziumWriter
from trailgate.formats.json.options import JsonPublishOptions, json_options
from trailgate.formats.json.scanner import JsonScanner
from trailgate.formats.json.writer import JsonWriter
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.properties import parse_properties
from trailgate.messages.publishing import MessageWriter
from trailgate.model.changes import WHOLE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

CHUNK: Final = 16_384  # messages at once
ORDERS: Final = Table(
    "SALES.ORDERS",
    (
        Column("ID", 134, 19, key=True),
        Column("CUSTOMER", 64, 40),
        Column("PLACED", 192, 19),
        Column("AMOUNT", 134, 19, scale=2),
        Column("QUANTITY", 134, 19),
        Column("STATUS", 64, 10),
        Column("NOTE", 64, 100),
    ),
)
ALL: Final = CaptureRules(compress_updates=False, compress_deletes=False, update_befores=True)
JSON: Final = json_options(parse_properties(b"parser.type=json\njson.sourcedefs=x"))
EVENTS: Final = debezium_options(
    parse_properties(
        b"parser.type=debezium\ndebezium.sourcedefs=x\ndebezium.decimal.handling.mode=string"
    )
)
OUT: Final[Mapping[str, MessageWriter]] = {
    "JSON operations": JsonWriter(JsonPublishOptions()),
    "Debezium": DebeziumWriter(DebeziumPublishOptions(transactions=False)),
    "Debezium with schemas": DebeziumWriter(
        DebeziumPublishOptions(schemas=True, transactions=False)
    ),
}


def first_messages(count: int) -> list[bytes]:
    """Return updates as JSON operations; 2 % of the notes have escapes."""
    draw = random.Random(7)
    return [_message(draw, number) for number in range(count)]


def _message(draw: random.Random, number: int) -> bytes:
    note = "a note of some words about it"
    before = {
        "ID": number,
        "CUSTOMER": f"customer {draw.randrange(10**5)}",
        "PLACED": "2026-11-21 10:11:12",
        "AMOUNT": draw.randrange(10**6) / 100,
        "QUANTITY": draw.randrange(100),
        "STATUS": "OPEN",
        "NOTE": note + '\n"é"' if draw.random() < 0.02 else note,
    }
    message = {
        "table": "SALES.ORDERS",
        "op_type": "U",
        "op_ts": "2026-11-21 10:11:12.123456",
        "current_ts": "2026-11-21T10:11:13.654321",
        "pos": f"{number:020}",
        "primary_keys": ["ID"],
        "before": before,
        "after": before | {"STATUS": "PAID", "AMOUNT": draw.randrange(10**6) / 100},
    }
    return orjson.dumps(message)


def batch_of(bodies: Sequence[bytes]) -> MessageBatch:
    lengths = np.array([len(body) for body in bodies], np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    numbers = np.arange(len(bodies))
    return MessageBatch(
        pa.py_buffer(b"\n".join(bodies)), starts, starts + lengths, numbers, numbers * 0
    )


def parsed(capture: Capture, batch: MessageBatch) -> ChangeBatch:
    done = capture.parse(batch)
    assert not done.problems, done.problems[0].error
    return done.batch


def run(*, quick: bool) -> list[Figure]:
    """Return the rates of each format, in 1,000 messages a second of processor time."""
    pa.set_cpu_count(1)
    times = 3 if quick else 9
    operations = parsed(Capture(JSON, Definitions((ORDERS,)), ALL), batch_of(first_messages(CHUNK)))
    assert bool((operations.tx_indicators() == WHOLE).all())
    figures = []
    for name, writer in OUT.items():
        options = JSON if name == "JSON operations" else EVENTS
        capture = Capture(options, Definitions((ORDERS,)), ALL)
        bodies = writer.write(operations).bodies.to_pylist()
        figures += _measured(name, writer, capture, operations, bodies, times)
    return figures


def _measured(
    name: str,
    writer: MessageWriter,
    capture: Capture,
    operations: ChangeBatch,
    bodies: list[bytes],
    times: int,
) -> list[Figure]:
    batch, size = batch_of(bodies), sum(map(len, bodies)) / 1e6
    documents = [orjson.loads(body) for body in bodies]
    scanner = JsonScanner(3, "schema")
    loads = _seconds(lambda: [orjson.loads(body) for body in bodies], times)
    places = _seconds(lambda: scanner.scan(batch), times)
    columns = _seconds(lambda: parsed(capture, batch), times)
    arrow = _seconds(lambda: _columns(bodies), times)
    dumps = _seconds(lambda: [orjson.dumps(document) for document in documents], times)
    written = _seconds(lambda: writer.write(operations), times)
    own, unit = f"{name}, {1e6 * size / len(bodies):.0f} bytes", "1,000 messages/s"
    goal = Target(500, of="figure") if "schemas" not in name else None

    def rate(seconds: float) -> float:
        return len(bodies) / seconds / 1e3

    objects = "orjson.loads to objects"
    return [
        Figure(f"{own}: to places", size / places, "MB/s", objects, size / loads),
        Figure(
            name=f"{own}: to operations",
            figure=rate(columns),
            unit=unit,
            yardstick=objects,
            yardstick_figure=rate(loads),
            target=Target(1),
        ),
        Figure(f"{own}: to operations", rate(columns), unit, "orjson.loads to Arrow", rate(arrow)),
        Figure(
            name=f"{own}: out",
            figure=rate(written),
            unit=unit,
            yardstick="orjson.dumps of objects",
            yardstick_figure=rate(dumps),
            target=goal,
        ),
    ]


def _columns(bodies: Sequence[bytes]) -> list[pa.RecordBatch]:
    """Return the images of messages as columns: Python's way to Arrow."""
    documents = [orjson.loads(body) for body in bodies]
    payloads = [document.get("payload", document) for document in documents]
    return [
        pa.RecordBatch.from_pylist([payload[image] for payload in payloads])
        for image in ("before", "after")
    ]


def _seconds(act: Callable[[], Any], times: int) -> float:
    """Return the least processor time of some runs."""
    act()
    act()
    found = []
    for _ in range(times):
        begin = process_time()
        act()
        found.append(process_time() - begin)
    return min(found)
