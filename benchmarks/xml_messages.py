"""XML messages to columns and to a trail on one core, beside lxml parsing them alone and Spark's XML reader on two cores."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from benchmarks.report import Figure, Target, fastest
from lxml import etree

from trailgate.capture.capture import Capture
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.formats.xml.automaton import compile_rules
from trailgate.formats.xml.options import XmlOptions, xml_options
from trailgate.formats.xml.scanner import XmlScanner
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.writing.writer import encode

CHUNK: Final = 4 << 20  # bytes parsed at once
MEGABYTES: Final = 32
DIFFERENT: Final = 200  # messages, then they are repeated
FILES: Final = 8  # that Spark reads
NARROW: Final = ("ID", "CUSTOMER", "ORDER_DATE", "AMOUNT", "STATUS", "NOTE")
WIDE: Final = tuple(f"FIELD{i:02d}" for i in range(100))
TIME: Final = "2026-11-21:10:11:12"

DYNAMIC_RULES: Final = """parser.type=xml
xml.rules=t
t.type=tx
t.match=/transaction
t.timestamp=@ts
t.txid=@id
t.subrules=o
o.type=op
o.match=./op
o.schemaandtable=@table
o.optype=@type
o.subrules=c
c.type=col
c.match=./col
c.name=@name
c.before.value=./before/text()
c.before.ismissing=./before/@missing
c.after.value=./after/text()
c.after.isnull=./after/@null
c.after.ismissing=./after/@missing
"""
STATIC_RULES: Final = "\n".join(
    [
        'parser.type=xml\nxml.rules=t\nt.type=tx\nt.match=/entries\nt.subrules=o\no.type=op\no.match=./op\no.schemaandtable="SALES.WIDE"',
        f'o.optype="I"\no.timestamp=./Created/text()\no.subrules={",".join(f"c{i}" for i in range(len(WIDE)))}',
        *(
            f'c{i}.type=col\nc{i}.match=./{name}\nc{i}.name="{name}"\nc{i}.value=./text()\nc{i}.isnull=./@nil'
            for i, name in enumerate(WIDE)
        ),
    ]
)
DEFINITIONS: Final = Definitions(
    (
        Table("SALES.ORDERS", tuple(Column(name, 64, 100) for name in NARROW)),
        Table("SALES.WIDE", tuple(Column(name, 64, 100) for name in WIDE)),
    )
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of messages, how many operations each has, and what is asked beside Spark."""

    name: str
    operations: int
    rules: str
    message: Callable[[random.Random, int], bytes]
    beside_spark: float
    dynamic: bool = True


def value(draw: random.Random, number: int) -> str:
    """Return the text of a column; 2 % have references, 1 % are CDATA sections."""
    text = (
        str(draw.randrange(10**9)), f"customer {draw.randrange(10**5)}", "2026-11-21 10:11:12",
        f"{draw.random() * 1000:.2f}", "OPEN", "a note of some words about it",
    )[number % 6]  # fmt: skip
    kind = draw.random()
    if kind < 0.02:
        return text + draw.choice([" &amp; co", " &lt;b&gt;", "&#233;", "&quot;x&quot;"])
    return f"<![CDATA[{text} <raw>]]>" if kind < 0.03 else text


def dynamic(draw: random.Random, operations: int) -> bytes:
    """Return a message whose tables and columns are named by attributes; white space and quotes differ."""
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n'] if draw.random() < 0.5 else []
    parts.append(f'<transaction id="{draw.randrange(10**6)}" ts="{TIME}">')
    for _ in range(operations):
        line, tab = draw.choice([("\n", "  "), ("", ""), ("\n", "\t")])
        kind = draw.choice("IUUD")
        double = f'<op type="{kind}" table="SALES.ORDERS">'
        parts.append(
            f"{line}{tab}{double if draw.random() < 0.8 else double.replace(chr(34), chr(39))}"
        )
        for number, name in enumerate(NARROW):
            if number and draw.random() < 0.05:
                continue
            inner = f"{line}{tab * 3}"
            before = f"{inner}<before>{value(draw, number)}</before>" if kind != "I" else ""
            after = "" if kind == "D" else f"{inner}<after>{value(draw, number)}</after>"
            if after and draw.random() < 0.05:
                after = f'{inner}<after null="true"/>'
            parts.append(f'{line}{tab * 2}<col name="{name}">{before}{after}{line}{tab * 2}</col>')
        parts.append(f"{line}{tab}</op>")
    return "".join([*parts, "</transaction>"]).encode()


def static(draw: random.Random, operations: int) -> bytes:
    """Return a message whose elements are the columns."""
    parts = ['<?xml version="1.0"?>\n<entries>']
    for _ in range(operations):
        line, tab = draw.choice([("\n", "  "), ("", "")])
        parts.append(f"{line}<op>{line}{tab}<Created>{TIME}</Created>")
        for number, name in enumerate(WIDE):
            if draw.random() > 0.03:
                null = draw.random() < 0.02
                text = "" if null else f">{value(draw, number)}</{name}>"
                parts.append(f"{line}{tab}<{name}{' nil=' + chr(34) * 2 + '/>' if null else text}")
        parts.append(f"{line}</op>")
    return "".join([*parts, "\n</entries>"]).encode()


KINDS: Final = (
    Kind("10 operations a message", 10, DYNAMIC_RULES, dynamic, 10),
    Kind("1,000 operations a message", 1000, DYNAMIC_RULES, dynamic, 10),
    Kind("100 columns", 10, STATIC_RULES, static, 8, dynamic=False),
)


def messages_of(kind: Kind, size: int) -> list[bytes]:
    """Return messages of about that many bytes."""
    draw = random.Random(7)
    first = kind.message(draw, kind.operations)
    count = min(DIFFERENT, max(1, size // len(first)))
    base = [first, *(kind.message(draw, kind.operations) for _ in range(count - 1))]
    times = max(1, size // sum(map(len, base)))
    return base * times


def batches_of(bodies: Sequence[bytes]) -> list[MessageBatch]:
    """Return the messages in batches of about ``CHUNK`` bytes."""
    lengths = np.array([len(body) for body in bodies], np.int64)
    parts = np.cumsum(lengths) // CHUNK
    found = []
    for part in np.unique(parts).tolist():
        mine = np.flatnonzero(parts == part)
        starts = np.cumsum(lengths[mine] + 1) - lengths[mine] - 1
        data = pa.py_buffer(b"\n".join(bodies[at] for at in mine.tolist()))
        found.append(MessageBatch(data, starts, starts + lengths[mine], mine, mine))
    return found


def capture_of(kind: Kind) -> Capture:
    options = xml_options(parse_properties(kind.rules.encode()))
    return Capture(options, DEFINITIONS, CaptureRules(), now=1_577_836_800_000_000)


def parsed(batches: Sequence[MessageBatch], capture: Capture) -> int:
    """Return how many operations the messages hold."""
    count = 0
    for batch in batches:
        done = capture.parse(batch)
        assert not done.problems, done.problems[0].error
        count += done.batch.rows
    return count


def written(batches: Sequence[MessageBatch], capture: Capture) -> None:
    for batch in batches:
        encode(capture.parse(batch).batch)


def run(*, quick: bool) -> list[Figure]:
    """Return MB/s and operations/s of each kind, and the microseconds of one small message."""
    pa.set_cpu_count(1)
    spark = _spark()
    figures = []
    for kind in KINDS:
        figures += _measured(kind, spark, quick=quick)
    figures.append(_with_prefixes(quick=quick))
    figures += _one_message(KINDS[0], 20 if quick else 200)
    if spark is not None:
        spark.stop()
    return figures


def _with_prefixes(*, quick: bool) -> Figure:
    """Return the rate with a prefix in every path, beside that of the same messages and rules without."""
    kind = KINDS[0]
    bodies = messages_of(kind, (8 if quick else MEGABYTES) << 20)
    bodies = [body.replace(b"<transaction ", b'<transaction xmlns="urn:s" ', 1) for body in bodies]
    rules = re.sub(r"(=/|=\./|/)(?=[a-z])", r"\1s:", kind.rules.replace("text()", "text_"))
    rules = f"{rules.replace('s:text_', 'text()')}xml.namespaces.s=urn:s\n"
    batches, size = batches_of(bodies), sum(map(len, bodies)) / 1e6
    rates = []
    for each in (replace(kind, rules=rules), kind):
        capture = capture_of(each)
        assert parsed(batches, capture) == len(bodies) * kind.operations
        rates.append(size / fastest(lambda c=capture: parsed(batches, c), 3 if quick else 7))
    return Figure(
        name="a prefix in every path: to columns",
        figure=rates[0],
        unit="MB/s",
        yardstick="without",
        yardstick_figure=rates[1],
        target=Target(0.9),
    )


def _measured(kind: Kind, spark: Any, *, quick: bool) -> list[Figure]:
    bodies = messages_of(kind, (8 if quick else MEGABYTES) << 20)
    batches, capture = batches_of(bodies), capture_of(kind)
    size, operations = sum(map(len, bodies)) / 1e6, len(bodies) * kind.operations
    assert parsed(batches, capture) == operations
    times = 3 if quick else 7
    few = bodies[: max(1, len(bodies) // 8)]
    alone = sum(map(len, few)) / 1e6 / fastest(lambda: [etree.fromstring(b) for b in few], times)
    seconds = fastest(lambda: parsed(batches, capture), times)
    trail = size / fastest(lambda: written(batches, capture), times)
    rate, every = size / seconds, operations / seconds / 1e3
    goal, to_trail = Target(400, of="figure"), Target(150, of="figure")
    figures = [
        Figure(
            name=f"{kind.name}: to columns",
            figure=rate,
            unit="MB/s",
            yardstick="lxml, parsing alone",
            yardstick_figure=alone,
            target=goal,
        ),
        Figure(f"{kind.name}: to columns", every, "1,000 operations/s", "MB/s", rate),
        Figure(
            name=f"{kind.name}: to a trail",
            figure=trail,
            unit="MB/s",
            yardstick="lxml, parsing alone",
            yardstick_figure=alone,
            target=to_trail,
        ),
    ]
    if spark is not None:
        beside = size / _spark_seconds(spark, kind, bodies, 2 if quick else 4)
        target = Target(kind.beside_spark)
        name = "Spark's XML reader, local[2]"
        figures.append(
            Figure(
                name=f"{kind.name}: one core",
                figure=rate,
                unit="MB/s",
                yardstick=name,
                yardstick_figure=beside,
                target=target,
            )
        )
    return figures


def _one_message(kind: Kind, times: int) -> list[Figure]:
    bodies = messages_of(kind, 1 << 20)
    capture = capture_of(kind)
    parsed(batches_of(bodies), capture)
    one = batches_of(bodies[:1])
    own = 1e6 * fastest(lambda: parsed(one, capture), times)
    alone = 1e6 * fastest(lambda: etree.fromstring(bodies[0]), times)
    options = capture.options
    assert isinstance(options, XmlOptions)
    scanner = XmlScanner(compile_rules(options.rules, options.namespaces), options.limits)
    scanned = 1e6 * fastest(lambda: scanner.scan(one[0]), times)
    name, target = f"one message of {len(bodies[0]) / 1000:.1f} KB", Target(200, "figure", True)
    return [
        Figure(
            name=f"{name}: {what}",
            figure=figure,
            unit="microseconds",
            yardstick="lxml, parsing alone",
            yardstick_figure=alone,
            target=target,
        )
        for what, figure in (("to places", scanned), ("to columns", own))
    ]


def _spark() -> Any:
    """Return a session, or None where Spark is not installed."""
    if find_spec("pyspark") is None:
        return None
    from trailgate.spark import session  # noqa: PLC0415  not needed without Spark

    return session("local[2]", "trailgate-benchmarks")


def _spark_seconds(spark: Any, kind: Kind, bodies: Sequence[bytes], times: int) -> float:
    """Return the seconds that Spark's XML reader takes for the same messages, with their schema given.

    It stops after the first root of a file, so each file's messages are below one.
    """
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        for number in range(FILES):
            own = (re.sub(rb"^<\?xml.*?\?>\s*", b"", body) for body in bodies[number::FILES])
            text = b"<all>" + b"\n".join(own) + b"</all>"
            (Path(folder) / f"{number}.xml").write_bytes(text)
        read = spark.read.format("xml").option("rowTag", "op").schema(_schema(kind))
        frame = read.load(folder)
        assert frame.count() == len(bodies) * kind.operations

        def act() -> None:
            frame.write.format("noop").mode("overwrite").save()

        act()
        return fastest(act, times)


def _schema(kind: Kind) -> str:
    if not kind.dynamic:
        return ", ".join(f"{name} string" for name in ("Created", *WIDE))
    image = "struct<_VALUE: string, _null: string, _missing: string>"
    column = f"struct<_name: string, before: {image}, after: {image}>"
    return f"_type string, _table string, col array<{column}>"
