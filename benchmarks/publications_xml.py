"""XML publications in and out on one core: read beside lxml parsing them alone, written beside a tree that lxml writes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from benchmarks.report import Figure, Target, fastest
from benchmarks.xml_messages import batches_of
from lxml import etree

from trailgate.capture.capture import Capture
from trailgate.capture.formats import find_parser_type, publish_options, writer_for
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.properties import parse_properties
from trailgate.messages.units import TransactionState
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

MEGABYTES: Final = 16
KINDS: Final = (("1 row a message", 1), ("10 rows a message", 10), ("1,000 rows a message", 1000))
NAME: Final = "SALES.ORDERS"
TABLE: Final = Table(
    NAME,
    (
        Column("ID", 134, 18, key=True, nullable=False),
        Column("CUSTOMER", 64, 40),
        Column("ORDER_DATE", 192, 10),
        Column("AMOUNT", 134, 18, scale=2),
        Column("STATUS", 64, 10),
        Column("NOTE", 64, 100),
    ),
)
DEFINITIONS: Final = Definitions((TABLE,))
TYPES: Final = ("bigint", "varchar", "date", "decimal", "char", "varchar")
ROWS: Final = {"I": "insertRow", "U": "updateRow", "D": "deleteRow"}
BEFORES: Final = CaptureRules(update_befores=True, compress_updates=False, compress_deletes=False)
HEAD: Final = (
    '<?xml version="1.0" encoding="UTF-8" ?><msg xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:noNamespaceSchemaLocation="mqcap.xsd" version="1.0.0" dbName="SAMPLE">'
)


class _NoFiles:
    def chosen(self, path: str) -> str:
        return path


def message(draw: random.Random, number: int, rows: int) -> bytes:
    """Return a transaction as Q Capture publishes it: changed columns, half of them with their befores."""
    given = f'isLast="1" segmentNum="1" cmitLSN="0000:0000:0000:{number:04x}"'
    parts = [
        f'{HEAD}<trans {given} cmitTime="2026-01-31T10:11:12.123456" authID="APP     " planName="PLAN">'
    ]
    for row in range(1, rows + 1):
        kind = draw.choice("IUUD")
        common = 'subName="S1" srcOwner="SALES" srcName="ORDERS" hasLOBCols="0"'
        parts.append(f'<{ROWS[kind]} {common} rowNum="{row}" intentSEQ="0000:0000:0000:{row:04x}">')
        parts += [cell(draw, kind, i) for i in range(1 if kind == "D" else len(TYPES))]
        parts.append(f"</{ROWS[kind]}>")
    return "".join([*parts, "</trans></msg>"]).encode()


def cell(draw: random.Random, kind: str, i: int) -> str:
    """Return a column with its value; 5 % are NULL, 2 % of the strings have references."""
    name, word = TABLE.columns[i].name, TYPES[i]
    note = "a note of some words about it" if draw.random() > 0.02 else "words &amp; more"
    value = (
        str(draw.randrange(10**9)), f"customer {draw.randrange(10**5)}", "2026-01-31",
        f"{draw.random() * 1000:.2f}", "OPEN      ", note,
    )[i]  # fmt: skip
    key = ' isKey="1"' if not i else ""
    begin, end = f'<col name="{name}"{key}><{word}', f"</{word}></col>"
    if kind == "U":
        before = f"<beforeVal>{value}</beforeVal>" if draw.random() < 0.5 else ""
        return f"{begin}>{before}<afterVal>{value}</afterVal>{end}"
    if i and draw.random() < 0.05:
        return f'{begin} xsi:nil="1"/></col>'
    return f"{begin}>{value}{end}"


def capture_of() -> Capture:
    properties = parse_properties(b"parser.type=event_publishing")
    options, _ = find_parser_type(properties).setup(properties, _NoFiles())  # type: ignore[arg-type]
    return Capture(options, DEFINITIONS, BEFORES)


def captured(batches: Sequence[MessageBatch], capture: Capture) -> list[ChangeBatch]:
    state, found = TransactionState(), []
    for batch in batches:
        parsed = capture.parse(batch, state)
        assert not parsed.problems, parsed.problems[0].error
        state = parsed.state
        found.append(parsed.batch)
    return [*found, capture.at_end(state).batch]


def run(*, quick: bool) -> list[Figure]:
    """Return MB/s and rows/s of reading and of writing, by how many rows a message has."""
    pa.set_cpu_count(1)
    figures = []
    for name, rows in KINDS:
        figures += _measured(name, rows, (4 if quick else MEGABYTES) << 20, 3 if quick else 7)
    return figures


def _measured(name: str, rows: int, size: int, times: int) -> list[Figure]:
    draw = random.Random(7)
    first = message(draw, 0, rows)
    bodies = [message(draw, n, rows) for n in range(max(2, size // len(first)))]
    batches, capture = batches_of(bodies), capture_of()
    whole = sum(map(len, bodies)) / 1e6
    count = sum(batch.rows for batch in captured(batches, capture))
    assert count == len(bodies) * rows
    few = bodies[: max(1, len(bodies) // 8)]
    alone = sum(map(len, few)) / 1e6 / fastest(lambda: [etree.fromstring(b) for b in few], times)
    seconds = fastest(lambda: captured(batches, capture), times)
    beside = "lxml, parsing alone"
    return [
        Figure(
            name=f"{name}: in",
            figure=whole / seconds,
            unit="MB/s",
            yardstick=beside,
            yardstick_figure=alone,
            target=Target(2),
        ),
        Figure(f"{name}: in", count / seconds / 1e3, "1,000 rows/s", "MB/s", whole / seconds),
        _written(name, rows, captured(batches, capture), times),
    ]


def _written(name: str, rows: int, batches: Sequence[ChangeBatch], times: int) -> Figure:
    options = publish_options("xml", {"content": "row" if rows == 1 else "transaction"})

    def write() -> int:
        writer = writer_for("xml", options)
        return sum(len(writer.write(batch)) for batch in batches) + len(writer.finish())

    assert write() > 0
    count = sum(batch.rows for batch in batches)
    own = count / fastest(write, times) / 1e3
    many = 2000
    tree = many / fastest(lambda: _by_lxml(many), times) / 1e3
    goal = Target(300, of="figure")
    return Figure(
        name=f"{name}: out",
        figure=own,
        unit="1,000 rows/s",
        yardstick="a tree, written by lxml",
        yardstick_figure=tree,
        target=goal,
    )


def _by_lxml(rows: int) -> bytes:
    """Return rows of the same columns, made as a tree."""
    root = etree.Element("msg")
    for number in range(rows):
        row = etree.SubElement(
            root, "insertRow", srcOwner="SALES", srcName="ORDERS", rowNum=str(number)
        )
        for column, word in zip(TABLE.columns, TYPES, strict=True):
            value = etree.SubElement(etree.SubElement(row, "col", name=column.name), word)
            value.text = "a value of 20 letters"
    return bytes(etree.tostring(root))
