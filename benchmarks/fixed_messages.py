"""Fixed-width messages to operations on one core, beside slicing lines and decoding them one by one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from benchmarks.report import Figure, Target, fastest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from held_captures import fixed_capture
from oracles.fixed_naive import Cell, images, signed, text, whole
from trailgate.capture.capture import Capture
from trailgate.messages.message_batch import MessageBatch

ROWS: Final = 400_000
CHUNK: Final = 1 << 20  # bytes parsed at once
NAIVE_ROWS: Final = 20_000
NEWLINE: Final = ord("\n")
COPYBOOK: Final = """
01 HEADER.
   05 OP       PIC X.
   05 REC      PIC X(8).
01 ACCOUNT.
* KEY
   05 NUM      PIC 9(10).
   05 HOLDER   PIC X(24).
   05 BRANCH   PIC X(6).
   05 BALANCE  PIC S9(9)V99.
   05 LIMITS   PIC S9(7)V99.
   05 COUNTED  PIC 9(5).
   05 CITY     PIC X(20).
   05 NOTE     PIC X(12).
01 TURNOVER.
* KEY
   05 NUM      PIC 9(10).
   05 AMOUNT   PIC S9(9)V99.
   05 KIND     PIC X(4).
"""
PROPERTIES: Final = """fixed.copybook=a.cpy
fixed.header=HEADER
fixed.schema=BANK
fixed.optype=OP
fixed.table=REC
"""
TABLES: Final = {
    "ACCOUNT": (
        Cell("NUM", 0, 10, whole, key=True),
        Cell("HOLDER", 10, 24, text),
        Cell("BRANCH", 34, 6, text),
        Cell("BALANCE", 40, 11, signed),
        Cell("LIMITS", 51, 9, signed),
        Cell("COUNTED", 60, 5, whole),
        Cell("CITY", 65, 20, text),
        Cell("NOTE", 85, 12, text),
    ),
    "TURNOVER": (
        Cell("NUM", 0, 10, whole, key=True),
        Cell("AMOUNT", 10, 11, signed),
        Cell("KIND", 21, 4, text),
    ),
}


def lines(rows: int) -> bytes:
    """Return records of two tables, inserts and updates, two accounts to a turnover."""
    draw = np.random.default_rng(17)
    numbers = draw.integers(0, 10**9, (rows, 3)).tolist()
    signs = "{ABCDEFGHI}JKLMNOPQR"
    found = []
    for number, (a, b, c) in enumerate(numbers):
        code, units = "IU"[a % 2], f"{b:010d}{signs[c % 20]}"
        if number % 3:
            names = f"{'A HOLDER OF AN ACCOUNT'[: 6 + a % 16]:24}{'BR' + str(c % 97):6}"
            money = f"{units}{units[-9:]}{c % 10**5:05d}"
            found.append(f"{code}ACCOUNT {a:010d}{names}{money}{'A CITY':20}{'':12}\n")
        else:
            found.append(f"{code}TURNOVER{a:010d}{units}CASH\n")
    return "".join(found).encode()


def messages(data: bytes, first: int, end: int) -> MessageBatch:
    """Return the lines between two places, each a message."""
    buffer = pa.py_buffer(data).slice(first, end - first)
    ends = np.flatnonzero(np.frombuffer(buffer, np.uint8) == NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    return MessageBatch(buffer, starts, ends, np.zeros(len(ends), np.int64), starts)


def parsed(data: bytes, capture: Capture) -> int:
    """Return how many operations the lines hold, parsed chunk by chunk."""
    count, first = 0, 0
    while first < len(data):
        end = data.rfind(b"\n", first, first + CHUNK) + 1
        done = capture.parse(messages(data, first, end))
        assert not done.problems, done.problems[0].error
        count, first = count + done.batch.rows, end
    return count


def naive(data: bytes) -> int:
    """Return how many operations the naive reading finds."""
    return len(images(data.decode(), 9, TABLES))


def run(*, quick: bool) -> list[Figure]:
    """Return the whole parse of two tables' records, a message each, in MB/s on one core."""
    pa.set_cpu_count(1)
    data, few = lines(ROWS // 4 if quick else ROWS), lines(NAIVE_ROWS)
    capture = fixed_capture(PROPERTIES, {"a.cpy": COPYBOOK})
    assert parsed(few, capture) == naive(few) == NAIVE_ROWS
    times = 3 if quick else 7
    rate = len(data) / 1e6 / fastest(lambda: parsed(data, capture), times)
    beside = len(few) / 1e6 / fastest(lambda: naive(few), times)
    name = "fixed-width messages: whole parse"
    return [
        Figure(
            name=name,
            figure=rate,
            unit="MB/s",
            yardstick="line by line",
            yardstick_figure=beside,
            target=Target(10),
        )
    ]
