"""XML publications for tests: their tables, messages around rows, and captures of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from held_captures import held_setup
from message_cases import Case, rows_of
from trailgate.capture.capture import Capture
from trailgate.definitions.defgen_layout import complete_table
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.formats.publications.options import EventPublishingOptions
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.units import TransactionState
from trailgate.model.tables import Column, Definitions, Table

EVERYTHING: Final = CaptureRules(
    update_befores=True, compress_updates=False, compress_deletes=False
)
BINARY: Final = 4  # the sub type of binary text
TABLE: Final = complete_table(
    Table(
        "USER1.T1",
        (
            Column("ID", 132, 10, key=True, nullable=False),
            Column("C", 0, 10),
            Column("V", 64, 60),
            Column("D", 192, 10),
            Column("TM", 64, 8),
            Column("TS", 192, 26),
            Column("N", 134, 9, scale=2),
            Column("F", 143, 8),
            Column("B", 64, 40, sub_type=BINARY),
            Column("L", 64, 4000),
        ),
    )
)
DEFINITIONS: Final = Definitions((TABLE,))
NAMESPACE: Final = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
COMMON: Final = 'subName="S1" srcOwner="USER1" srcName="T1"'


def message(inner: str) -> str:
    """Return a publication with an element in its root."""
    return f'<msg {NAMESPACE} version="1.0.0" dbName="SAMPLE">{inner}</msg>'


def transaction(
    *rows: str, segment: int = 1, last: int = 1, commit: str = "0000:00AA", more: str = ""
) -> str:
    """Return a trans message."""
    given = f'isLast="{last}" segmentNum="{segment}" cmitLSN="{commit}" cmitTime="2026-01-31T10:11:12.000001"{more}'
    return message(f"<trans {given}>{''.join(rows)}</trans>")


def row(kind: str, *columns: str, number: int = 1, more: str = "") -> str:
    """Return a row element."""
    return f'<{kind} {COMMON} rowNum="{number}"{more}>{"".join(columns)}</{kind}>'


def column(name: str, inner: str, *, key: bool = False) -> str:
    """Return a column element."""
    return f'<col name="{name}"{" isKey=" + chr(34) + "1" + chr(34) if key else ""}>{inner}</col>'


def xml_publications(
    properties: str = "", definitions: Definitions = DEFINITIONS, rules: CaptureRules = EVERYTHING
) -> Capture:
    """Return a capture of publications of tables held in memory; properties are without their prefix."""
    lines = [f"event_publishing.{line}" for line in properties.splitlines()]
    options, _ = held_setup("\n".join(["parser.type=event_publishing", *lines]), {})
    assert isinstance(options, EventPublishingOptions)
    return Capture(replace(options, definitions=definitions, infers=False), definitions, rules)


class Captured(NamedTuple):
    """What a capture gives: rows of the operations table, problems by the number of their message, and notes."""

    rows: list[Case]
    problems: list[tuple[int, str]]
    notes: frozenset[str]


def _last_of_rows(messages: MessageBatch, before: int) -> int:
    """Return the last message with rows before another one."""
    whole = bytes(messages.data)
    starts, ends = messages.starts.tolist(), messages.ends.tolist()
    return max(
        (at for at in range(before) if b"<trans" in whole[starts[at] : ends[at]]), default=-1
    )


def captured(capture: Capture, messages: MessageBatch, cuts: Iterable[int] = ()) -> Captured:
    """Return what is captured of messages, read in parts that begin at ``cuts``, to the end of the input.

    Rows of units with a bad message are left out.
    """
    state, unit = TransactionState(), 0
    rows: list[tuple[int, Case]] = []
    problems: list[tuple[int, str]] = []
    bad: set[int] = set()
    notes: frozenset[str] = frozenset()
    parts = [*pairwise(sorted({0, len(messages), *cuts})), None]
    for part in parts:
        begin, own = (0, None) if part is None else (part[0], messages.slice(*part))
        parsed = capture.at_end(state) if own is None else capture.parse(own, state)
        state, notes = parsed.state, notes | parsed.notes
        units = np.append(unit + np.cumsum(parsed.starts_unit), unit)  # -1 is the one before
        rows += zip(units[parsed.message].tolist(), rows_of(parsed), strict=True)
        for problem in parsed.problems:
            number = begin + problem.message
            if problem.message < 0:  # of a part before: a job states the place
                last = (_last_of_rows(messages, begin), 0)
                number, place = problem.place or last  # each message is a file of its own
                problem.error.with_place(source=messages.source, message=place)
            problems.append((number, str(problem.error)))
            bad.add(int(units[problem.message]))
        unit = int(units[:-1].max(initial=unit))
    good = [row for own, row in rows if own not in bad]
    return Captured(good, sorted(problems), capture.warnings(notes))
