"""Capture of files in which every message is bad, beside files of the same number of good messages.

Figures are CPU time of one core for each message: of `capture_files`, and of the command with everything that it imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

import pyarrow as pa
from benchmarks import delimited, fixed_messages
from benchmarks.report import Figure, Target

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.capture.job import capture_files
from trailgate.model.tables import Column, Definitions, Table

ROWS: Final = 64_000
COMMAND_ROWS: Final = 200_000
ORDERS: Final = Table(
    "MY.ORDERS",
    (Column("ID", 134, 8, nullable=False, key=True), Column("NAME", 64, 60), Column("AT", 192, 26)),
)
DEFINITIONS: Final = Definitions((*delimited.DEFINITIONS, ORDERS))
Change = Callable[[bytes], bytes]

JSON_PROPERTIES: Final = "parser.type=json\njson.sourcedefs=bench.def\njson.model=op\n"
EVENT_PROPERTIES: Final = (
    "parser.type=debezium\ndebezium.sourcedefs=bench.def\ndebezium.txid=*txid\n"
)
XML_PROPERTIES: Final = """\
parser.type=xml
xml.sourcedefs=bench.def
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
c.value=./text()
"""


@dataclass(frozen=True, slots=True)
class Form:
    """A message format: its properties, a good message by number, the faults, and the most that a bad message may take."""

    name: str
    properties: str
    good: Callable[[int], bytes]
    faults: Mapping[str, tuple[Change, float]]
    files: Mapping[str, str] = field(default_factory=dict)


def json_message(rows: int) -> bytes:
    """Return operations in GoldenGate's JSON."""
    image = '{"ID":%d,"NAME":"customer %d","AT":"2025-01-02 03:27:05"}'
    text = '{"table":"MY.ORDERS","op_type":"I","op_ts":"2026-11-20 10:28:17","pos":"%020d","after":%s}\n'
    return "".join(text % (n, image % (n, n)) for n in range(rows)).encode()


def event_message(rows: int) -> bytes:
    """Return change events of Debezium."""
    image = '{"ID":%d,"NAME":"customer %d","AT":"2025-01-02T03:27:05Z"}'
    text = '{"before":null,"after":%s,"source":{"ts_ms":1763634497000,"schema":"MY","table":"ORDERS"},"op":"c"}\n'
    return "".join(text % (image % (n, n)) for n in range(rows)).encode()


def xml_message(rows: int) -> bytes:
    """Return XML messages of one operation."""
    columns = '<col name="ID">%d</col><col name="NAME">customer %d</col><col name="AT">2025-01-02 03:27:05</col>'
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><transaction id="%d" ts="2026-11-20:10:28:17">'
        f'<op type="I" table="MY.ORDERS">{columns}</op></transaction>\n'
    )
    return "".join(text % (n, n, n) for n in range(rows)).encode()


def replaced(old: bytes, new: bytes) -> Change:
    """Return a change that replaces one text in a message."""
    return lambda line: line.replace(old, new, 1)


def cut(line: bytes) -> bytes:
    """Return the first two thirds of a message."""
    return line[: 2 * len(line) // 3]


FORMS: Final = (
    Form(
        "delimited",
        delimited.PLAIN.properties,
        delimited.PLAIN.lines,
        {
            "too few fields": (delimited.FAULTS["too few fields"], 1.3),
            "a table without definitions": (delimited.FAULTS["a table without definitions"], 1.5),
            "numbers with letters": (delimited.FAULTS["numbers with letters"], 2),
            "times of another form": (delimited.FAULTS["times of another form"], 2),
            "another code page": (replaced(b",MY", b",\xe4MY"), 1.5),
        },
    ),
    Form(
        "JSON",
        JSON_PROPERTIES,
        json_message,
        {
            "cut off": (cut, 2),
            "numbers with letters": (replaced(b'"ID":', b'"ID":"x",'), 2),
        },
    ),
    Form(
        "change events",
        EVENT_PROPERTIES,
        event_message,
        {"cut off": (cut, 2), "no table": (replaced(b"ORDERS", b"ORDER"), 2)},
    ),
    Form(
        "XML",
        XML_PROPERTIES,
        xml_message,
        {
            "cut off": (cut, 2),
            "a wrong end tag": (replaced(b"</op>", b"</o>"), 2),
            "an ampersand": (replaced(b"customer", b"A&B"), 2),
            "numbers with letters": (replaced(b'"ID">', b'"ID">x'), 2),
            "no table": (replaced(b"ORDERS", b"ORDER"), 2),
        },
    ),
    Form(
        "fixed width",
        f"parser.type=fixed\n{fixed_messages.PROPERTIES}",
        fixed_messages.lines,
        {
            "too short": (cut, 2),
            "numbers with letters": (lambda line: line[:9] + b"x" + line[10:], 2),
        },
        {"a.cpy": fixed_messages.COPYBOOK},
    ),
)


def run(*, quick: bool) -> list[Figure]:
    """Return the CPU time of each fault, beside that of good messages of the format, in microseconds a message."""
    pa.set_cpu_count(1)
    figures = [figure for form in FORMS for figure in _measured(form, 3 if quick else 9)]
    return [*figures, _command(3 if quick else 9)]


def _measured(form: Form, times: int) -> list[Figure]:
    good = form.good(ROWS)
    beside = _capture_seconds(form, good, times)
    figures = []
    for name, (fault, most) in form.faults.items():
        bad = b"\n".join(map(fault, good.splitlines())) + b"\n"
        own = _capture_seconds(form, bad, times, bad=ROWS)
        figures.append(
            Figure(
                name=f"{form.name}, all bad: {name}",
                figure=own / ROWS * 1e6,
                unit="us of CPU",
                yardstick="good messages",
                yardstick_figure=beside / ROWS * 1e6,
                target=Target(most, at_most=True),
            )
        )
    return figures


def _capture_seconds(form: Form, lines: bytes, times: int, bad: int = 0) -> float:
    """Return the least CPU time of some captures of the lines into a trail, with a quarantine."""
    taken = []
    with TemporaryDirectory(prefix="trailgate-bench-") as name:
        folder = _folder(Path(name), form, lines)
        for number in range(times):
            start = process_time()
            summary = capture_files(
                folder / "messages",
                folder / f"{number}/ot",
                folder / "a.properties",
                message_per="line",
                on_error="quarantine",
                base=folder,
            )
            taken.append(process_time() - start)
            assert summary.quarantined == bad, summary.reasons
    return min(taken)


def _folder(folder: Path, form: Form, lines: bytes) -> Path:
    (folder / delimited.DEFINITIONS_NAME).write_bytes(write_sourcedefs(DEFINITIONS))
    (folder / "a.properties").write_text(form.properties)
    (folder / "messages").write_bytes(lines)
    for file, text in form.files.items():
        (folder / file).write_text(text)
    return folder


def _command(times: int) -> Figure:
    """Return the CPU time of the whole command for bad delimited messages, beside that for good ones."""
    form = FORMS[0]
    good = form.good(COMMAND_ROWS)
    fault, _ = form.faults["too few fields"]
    bad = b"\n".join(map(fault, good.splitlines())) + b"\n"
    own, beside = (_command_seconds(form, lines, times) for lines in (bad, good))
    return Figure(
        name=f"the command, {COMMAND_ROWS:,} messages, all bad: too few fields",
        figure=own,
        unit="s of CPU",
        yardstick="good messages",
        yardstick_figure=beside,
        target=Target(1.1, at_most=True),
    )


def _command_seconds(form: Form, lines: bytes, times: int) -> float:
    taken = []
    with TemporaryDirectory(prefix="trailgate-bench-") as name:
        folder = _folder(Path(name), form, lines)
        for number in range(times):
            words = ["capture", "--properties", "a.properties", "--from", "messages"]
            options = ["--to", f"{number}/ot", "--message-per", "line", "--on-error", "quarantine"]
            before = os.times()
            subprocess.run(
                [sys.executable, "-m", "trailgate", *words, *options],
                cwd=folder,
                check=False,
                capture_output=True,
            )
            after = os.times()
            user = after.children_user - before.children_user
            taken.append(user + after.children_system - before.children_system)
            assert (folder / f"{number}/ot.manifest.json").exists()
    return min(taken)
