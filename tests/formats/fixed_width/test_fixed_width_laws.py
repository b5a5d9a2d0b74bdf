"""What holds for all fixed-width messages: read as value by value, nothing lost, cuts do not matter."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from held_captures import fixed_capture
from oracles.fixed_naive import BadRecordError, Cell, images, signed, text, whole
from trailgate.capture.capture import Capture
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.units import TransactionState
from trailgate.model.operations_table import to_operations

COPYBOOK = """
01 HEADER.
   05 OP      PIC X.
   05 REC     PIC X(4).
01 ROW.
* KEY
   05 ID      PIC 9(2).
   05 FILLER  PIC X.
   05 NAME    PIC X(4).
   05 AMOUNT  PIC S9(3)V99.
01 LIST.
   05 A       PIC X(2).
   05 B       PIC 9(3) OCCURS 2.
"""
TABLES = {
    "ROW": (
        Cell("ID", 0, 2, whole, key=True),
        Cell("NAME", 3, 4, text),
        Cell("AMOUNT", 7, 5, signed),
    ),
    "LIST": (Cell("A", 0, 2, text), Cell("B_1", 2, 3, whole), Cell("B_2", 5, 3, whole)),
}
PROPERTIES = """fixed.copybook=a.cpy
fixed.header=HEADER
fixed.schema=S
fixed.optype=OP
fixed.table=REC
fixed.signs=strict
"""
HOST = """
01 HEADER.
   05 OP      PIC X.
   05 REC     PIC X(4).
   05 AT      PIC 9(8) COMP.
01 ROW.
   05 ID      PIC 9(4) COMP.
   05 PACKED  PIC S9(5)V99 COMP-3.
   05 ZONED   PIC S9(3).
   05 NAME    PIC X(4).
   05 RATE    COMP-2.
* YYMMDD
   05 DAY     PIC 9(6).
   05 EDITED  PIC Z9.9.
   05 WIDE    PIC S9(20) COMP-3.
   05 NATIONAL PIC N(2).
"""
LINES = fixed_capture(PROPERTIES, {"a.cpy": COPYBOOK})
MAINFRAME = PROPERTIES.replace("strict", "lenient")
CAPTURES = {
    "lines": LINES,
    "long delimiters": fixed_capture(f"{PROPERTIES}fixed.linedelim=||\n", {"a.cpy": COPYBOOK}),
    "lengths": fixed_capture(f"{PROPERTIES}fixed.recordlength=9\n", {"a.cpy": COPYBOOK}),
    "host": fixed_capture(
        f"{MAINFRAME}fixed.codepage=cp1047\nfixed.records=message\nfixed.txid=AT\n", {"a.cpy": HOST}
    ),
    "host in UTF-8": fixed_capture(f"{MAINFRAME}fixed.blank=null\n", {"a.cpy": HOST}),
    "double bytes": fixed_capture(
        f"{MAINFRAME}fixed.codepage=cp930\nfixed.recordlength=40\n", {"a.cpy": HOST}
    ),
}


def batch_of(bodies: Sequence[bytes], gap: bytes = b"") -> MessageBatch:
    lengths = np.array([len(body) for body in bodies], np.int64)
    starts = np.cumsum(lengths + len(gap)) - lengths - len(gap)
    numbers = np.arange(len(bodies))
    data = pa.py_buffer(gap.join(bodies))
    return MessageBatch(data, starts, starts + lengths, numbers, np.zeros(len(bodies), np.int64))


def outcome(capture: Capture, batch: MessageBatch, cuts: Sequence[int] = ()) -> Any:
    """Return all rows, and each bad message's error, of the batch parsed in parts."""
    rows: list[Any] = []
    errors: dict[int, str] = {}
    state = TransactionState()
    for first, last in pairwise([0, *sorted(cuts), len(batch)]):
        parsed = capture.parse(batch.slice(first, last), state)
        rows += to_operations(parsed.batch).to_pylist(maps_as_pydicts="strict")
        errors |= {problem.message + first: str(problem.error) for problem in parsed.problems}
        state = parsed.state
    return rows, errors


CHARACTERS = st.sampled_from([*"IUDT ROWLISTrow019AJ}{!.", "ä", "😀", "\r", "\n", "|"])
WELL = st.sampled_from(
    [
        "IROW 01.name0012A",
        "UROW 02.n  e0012}",
        "DROW 03",
        "IROW 04.äöü😀00000",
        "Ilistab012034",
        "ULISTab012034   ",
        "DLISTab",
        "IROW 05.name",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Return a record that is good, or cut, lengthened or changed anywhere."""
    line: str = draw(WELL)
    if draw(st.booleans()):
        return line
    at = draw(st.integers(0, len(line)))
    change = draw(st.sampled_from(["cut", "put in", "replace"]))
    if change == "cut":
        return line[:at]
    put: str = draw(CHARACTERS)
    return line[:at] + put + line[at + (change == "replace") :]


BODIES = st.lists(
    st.builds(
        lambda parts, end: "\n".join(parts) + end,
        st.lists(lines(), max_size=4),
        st.sampled_from(["", "\n", "\r\n"]),
    ),
    max_size=5,
)


@given(BODIES)
def test_messages_are_read_as_value_by_value(bodies: list[str]) -> None:
    rows, errors = outcome(LINES, batch_of([body.encode() for body in bodies]))

    expected, bad = [], set()
    for number, body in enumerate(bodies):
        try:
            expected += images(body, 5, TABLES)
        except BadRecordError:
            bad.add(number)
    assert set(errors) == bad
    assert [(row["op_type"], row["after"] or row["before"]) for row in rows] == expected


@pytest.mark.parametrize("name", CAPTURES)
@given(
    bodies=st.lists(st.one_of(st.binary(max_size=50), lines().map(str.encode)), max_size=5),
    gap=st.sampled_from([b"", b"\n", b"\xff\x00", b"|"]),
)
def test_any_bytes_give_operations_or_errors(name: str, bodies: list[bytes], gap: bytes) -> None:
    capture = CAPTURES[name]
    alone = [capture.parse(batch_of([body])) for body in bodies]

    parsed = capture.parse(batch_of(bodies, gap))

    bad = {problem.message for problem in parsed.problems}
    assert bad == {i for i, own in enumerate(alone) if own.problems}
    assert parsed.batch.rows == sum(own.batch.rows for own in alone if not own.problems)


@given(st.data(), BODIES, st.sampled_from([b"", b"\n", b"\xff"]))
def test_cuts_into_batches_change_nothing(
    data: st.DataObject, bodies: list[str], gap: bytes
) -> None:
    batch = batch_of([body.encode() for body in bodies], gap)
    cuts = data.draw(st.lists(st.integers(0, len(bodies)), max_size=3))

    assert outcome(LINES, batch, cuts) == outcome(LINES, batch)


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_travels_between_processes(name: str) -> None:
    capture = CAPTURES[name]
    batch = batch_of([b"IROW 01.name0012A", b"X", bytes(60)], b"\n")
    before = outcome(capture, batch)

    copy = pickle.loads(pickle.dumps(capture))

    assert copy == capture
    assert outcome(copy, batch) == before
