"""Delimited text to columns on one core, beside pyarrow.csv on the same bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from tempfile import NamedTemporaryFile
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.report import Act, Figure, Target, fastest
from pyarrow import csv

from trailgate.arrays import CHUNK, octets
from trailgate.capture.capture import Capture
from trailgate.columnar.delimited import DelimitedDialect, find_token_offsets, index_fields
from trailgate.formats.delimited.options import DelimitedOptions, delimited_options
from trailgate.formats.delimited.reader import FieldValues
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Column, Definitions, Table

ROWS: Final = 64_000
Draw = np.random.Generator

SALES: Final = Table(
    "MY.SALES",
    (
        Column("ID", 134, 8, nullable=False, key=True),
        Column("NAME", 64, 60),
        Column("CITY", 64, 60),
        Column("AMOUNT", 64, 20),
        Column("NOTE", 64, 100),
        Column("AT", 192, 26),
    ),
)
EMPLOYEE: Final = Table(
    "TEST.EMPLOYEE",
    (
        Column("FIRST", 64, 40, key=True),
        Column("LAST", 64, 40, key=True),
        Column("POSITION", 64, 60),
        Column("DEPARTMENT", 64, 60),
        Column("SALARY", 134, 8),
        Column("COMMISSION", 134, 8),
    ),
)
DEFINITIONS: Final = Definitions((SALES, EMPLOYEE))
DEFINITIONS_NAME: Final = "bench.def"

PLAIN_PROPERTIES: Final = f"""\
parser.type=delim
delim.sourcedefs={DEFINITIONS_NAME}
delim.header=optype,table,ts,txid
delim.optype=optype
delim.schemaandtable=table
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD-HH.MI.SS
delim.txid=txid
delim.seqid=*seqid
delim.dateformat=YYYY-MM-DD HH:MI:SS
"""
QUOTED_PROPERTIES: Final = f"""\
parser.type=delim
delim.sourcedefs={DEFINITIONS_NAME}
delim.header=version,sender,day,time,owner,name,optype,txid,lsn,ts,plan,segment
delim.optype=optype
delim.optype.insertval=ISRT
delim.optype.updateval=REPL
delim.optype.deleteval=DLET
delim.schema=owner
delim.table=name
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD-HH.MI.SS
delim.txid=txid
delim.seqid=*seqid
delim.quote="
delim.quote.escaped=""
delim.hasbefores=true
delim.isgrouped=true
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of messages: how they are made and what reads them."""

    name: str
    columns: int
    properties: str
    lines: Callable[[int], bytes]
    line: bytes = b"\n"
    escape: str | None = None  # before a quote inside quotes; None: it is doubled

    def options(self) -> DelimitedOptions:
        return delimited_options(parse_properties(self.properties.encode()))


def plain_lines(rows: int) -> bytes:
    """Return rows of 10 columns without quotes."""
    draw = np.random.default_rng(11)
    return _joined(
        [
            _picked(draw, ["I", "U", "I", "U"], rows),
            "MY.SALES",
            _picked(draw, [f"2026-11-20-10.{i:02}.17" for i in range(60)], rows),
            _numbers(np.arange(10**8, 10**8 + rows)),
            _numbers(draw.integers(1, 10**7, rows)),
            _words(draw, rows),
            _words(draw, rows),
            _numbers(draw.integers(0, 10**6, rows)),
            _words(draw, rows, 4),
            _picked(draw, [f"2025-01-02 03:{i:02}:05" for i in range(60)], rows),
        ]
    )


def quoted_lines(rows: int) -> bytes:
    """Return rows of 24 columns as IBM's event publishing has them: 12 header, 6 + 6 values.

    One note in twenty holds a comma, one in twenty a doubled quote.
    """
    draw = np.random.default_rng(12)
    kinds = draw.choice(np.array(["ISRT", "REPL", "DLET"]), rows, p=[0.5, 0.4, 0.1])
    header = [
        "10",
        '"IBM"',
        '"2026030"',
        '"182318000005"',
        '"TEST"',
        '"EMPLOYEE"',
        _quoted(pa.array(kinds)),
        pc.binary_join_element_wise('"0000:0000:0388:', _numbers(np.arange(rows)), ':0000"', ""),
        '"0000:0000:0000:0271:000c:0000:0000"',
        _picked(draw, [f'"2026-06-30-18.{i:02}.52"' for i in range(60)], rows),
        '"ASNQC910"',
        "0000",
    ]
    none = pa.nulls(rows, pa.string()).fill_null("")
    images = [
        [pc.if_else(pa.array(kinds != gone), column, none) for column in _employee(draw, rows)]
        for gone in ("ISRT", "DLET")
    ]
    return _joined([*header, *images[0], *images[1]])


def _employee(draw: Draw, rows: int) -> list[pa.Array]:
    notes = [f"the {i}th sales office" for i in range(18)] + ["a, b and c", 'said ""yes"" to it']
    return [
        _quoted(_words(draw, rows)),
        _quoted(_words(draw, rows)),
        _picked(draw, [f'"{note}"' for note in notes], rows),
        _picked(draw, ['"SALES"', '"FINANCE"', '"RESEARCH"'], rows),
        _numbers(draw.integers(10_000, 200_000, rows)),
        _numbers(draw.integers(0, 20_000, rows)),
    ]


def _joined(columns: list[pa.Array | str]) -> bytes:
    lines = pc.binary_join_element_wise(*columns, ",")
    return (
        bytes(pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")[0].as_buffer())
        + b"\n"
    )


def _picked(draw: Draw, strings: list[str], rows: int) -> pa.Array:
    return pa.array(strings).take(pa.array(draw.integers(0, len(strings), rows)))


def _numbers(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _words(draw: Draw, rows: int, count: int = 1) -> pa.Array:
    words = ["ada", "berta", "caesar", "dora", "emil", "friedrich", "gustav", "heinrich"]
    made = [_picked(draw, words, rows) for _ in range(count)]
    return pc.binary_join_element_wise(*made, " ")


def _quoted(strings: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', strings, '"', "")


PLAIN: Final = Kind("plain, 10 columns", 10, PLAIN_PROPERTIES, plain_lines)
QUOTED: Final = Kind("quoted, 24 columns", 24, QUOTED_PROPERTIES, quoted_lines)
QUOTED_CRLF: Final = Kind(
    "quoted, CRLF",
    24,
    rf"{QUOTED_PROPERTIES}delim.linedelim=\x0d\x0a",
    lambda rows: quoted_lines(rows).replace(b"\n", b"\r\n"),
    line=b"\r\n",
)
BACKSLASH: Final = Kind(
    "quoted, backslash",
    24,
    QUOTED_PROPERTIES.replace('quote.escaped=""', 'quote.escaped=\\"'),
    lambda rows: quoted_lines(rows).replace(b'said ""yes""', b'said \\"yes\\"'),
    escape="\\",
)
KINDS: Final = (PLAIN, QUOTED, QUOTED_CRLF, BACKSLASH)


def csv_columns(data: bytes, kind: Kind) -> pa.Table:
    """Return the same bytes as pyarrow.csv reads them: one thread, all columns text."""
    names = [f"c{i}" for i in range(kind.columns)]
    escape = kind.escape or False
    return csv.read_csv(
        pa.BufferReader(data),
        parse_options=csv.ParseOptions(escape_char=escape, double_quote=not escape),
        read_options=csv.ReadOptions(use_threads=False, column_names=names),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def other_readers(data: bytes, kind: Kind) -> Iterator[tuple[str, Act]]:
    """Yield what else reads such text, on one thread, where it is installed (the ``bench`` extra)."""
    if kind.escape is None and find_spec("polars"):
        os.environ["POLARS_MAX_THREADS"] = "1"  # before the first import
        polars = import_module("polars")
        yield "polars", lambda: polars.read_csv(data, has_header=False, infer_schema=False)
    if find_spec("duckdb"):
        connection = import_module("duckdb").connect(config={"threads": 1})
        escape = (kind.escape or '"').replace("'", "''")
        with NamedTemporaryFile(suffix=".csv") as file:
            file.write(data)
            file.flush()
            query = (
                f"from read_csv('{file.name}', header=false, all_varchar=true, delim=',', "
                f"quote='\"', escape='{escape}', auto_detect=false, columns={_varchars(kind)})"
            )
            yield "duckdb", lambda: connection.sql(query).to_arrow_table()


def _varchars(kind: Kind) -> str:
    return "{" + ", ".join(f"'c{i}': 'varchar'" for i in range(kind.columns)) + "}"


def own_columns(data: bytes, kind: Kind) -> list[list[pa.Array]]:
    """Return the columns, found and gathered chunk by chunk, as a message's are."""
    options = kind.options()
    parts = []
    place = 0
    while place < len(data):
        end = len(data)
        if place + CHUNK < len(data):
            end = data.rindex(kind.line, 0, place + CHUNK)
        buffer = pa.py_buffer(data).slice(place, end - place)
        parts.append(_chunk_columns(_one_message(buffer), options, kind.columns))
        place = end + len(kind.line)
    return parts


def _one_message(buffer: pa.Buffer) -> MessageBatch:
    zero = np.zeros(1, np.int64)
    return MessageBatch(buffer, zero, zero + buffer.size, zero, zero)


def _chunk_columns(
    messages: MessageBatch, options: DelimitedOptions, columns: int
) -> list[pa.Array]:
    data = octets(messages.data)
    dialect = DelimitedDialect(
        options.fielddelim, options.linedelim, options.quote, options.quote_escaped
    )
    fields = index_fields(data, messages.starts, messages.ends, dialect)
    values = FieldValues(data, fields, options)
    values.check_text(messages)
    return values.columns(fields.first, range(columns), nullable=False)


def parsed(data: bytes, capture: Capture, line: bytes = b"\n") -> int:
    """Return how many operations the lines hold, each a message, parsed chunk by chunk."""
    count = 0
    for start in range(0, len(data), CHUNK):
        # Lines that a chunk's edge cuts are parsed with the chunk they begin in.
        first = data.rfind(b"\n", 0, start) + 1 if start else 0
        end = data.rfind(b"\n", 0, start + CHUNK) + 1
        buffer = pa.py_buffer(data).slice(first, end - first)
        done = capture.parse(_lines(buffer, line))
        assert not done.problems, done.problems[0].error
        count += done.batch.rows
    return count


def _lines(buffer: pa.Buffer, line: bytes = b"\n") -> MessageBatch:
    ends = find_token_offsets(octets(buffer), line)
    starts = np.concatenate([[0], ends[:-1] + len(line)])
    return MessageBatch(buffer, starts, ends, np.zeros(len(ends), np.int64), starts)


def run(*, quick: bool) -> list[Figure]:
    """Return the column step and the whole parse of both kinds, in MB/s on one core."""
    pa.set_cpu_count(1)
    return [figure for kind in KINDS for figure in _measured(kind, 3 if quick else 9)]


# Faults that every message of `bad_messages` has.
FAULTS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "too few fields": lambda line: b",".join(line.split(b",")[:3]),
    "a table without definitions": lambda line: line.replace(b"MY.SALES", b"MY.SALE"),
    "numbers with letters": lambda line: b",".join(
        [*line.split(b",")[:4], b"x" + line.split(b",")[4], *line.split(b",")[5:]]
    ),
    "times of another form": lambda line: line.replace(
        b".SALES,2026", b".SALES,x" + line.split(b",")[3]
    ),
}


def _measured(kind: Kind, times: int) -> list[Figure]:
    data = kind.lines(ROWS)
    _check_alike(data, kind)
    capture = Capture(kind.options(), DEFINITIONS)
    assert parsed(data, capture, kind.line) == ROWS
    megabytes = len(data) / 1e6
    beside = megabytes / fastest(lambda: csv_columns(data, kind), times)

    def figure(what: str, act: Act, target: Target | None) -> Figure:
        rate = megabytes / fastest(act, times)
        return Figure(
            name=f"{kind.name}: {what}",
            figure=rate,
            unit="MB/s",
            yardstick="pyarrow.csv",
            yardstick_figure=beside,
            target=target,
        )

    others = [
        Figure(
            f"{kind.name}: {name} to columns",
            megabytes / fastest(act, times),
            "MB/s",
            "pyarrow.csv",
            beside,
        )
        for name, act in other_readers(data, kind)
    ]
    return [
        figure(
            "to columns", lambda: own_columns(data, kind), Target(2.2 if kind is PLAIN else 1.5)
        ),
        figure("whole parse", lambda: parsed(data, capture, kind.line), Target(1.0)),
        *others,
    ]


def _check_alike(data: bytes, kind: Kind) -> None:
    whole = csv_columns(data, kind)
    parts = own_columns(data, kind)
    for i in range(kind.columns):
        own = pa.chunked_array([part[i] for part in parts])
        assert own.to_pylist() == whole.column(i).to_pylist(), f"column {i} of {kind.name} differs"
