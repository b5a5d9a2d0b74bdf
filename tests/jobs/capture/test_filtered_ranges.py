"""Whichever operations a FILTER drops, and however the input is cut: what remains are whole transactions."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capture_place import QUARANTINE, Place
from laws import examples
from trailgate.expressions.capture_rules import CaptureRules, SelectCondition, TableRule
from trailgate.expressions.parser import parse_condition
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.units import TransactionState
from trailgate.model.operations_table import to_operations
from trailgate.storage.reading.trails import read_trail

KEPT = SelectCondition("FILTER", parse_condition("NAME <> 'dropped'"))
RULES = CaptureRules(tables=(TableRule("MY.ORDERS", conditions=(KEPT,)),))
Found = list[tuple[str, str]]


def body_of(number: int, marks: str) -> str:
    """Return a message with one operation for each mark; that of a small letter is dropped."""
    text = ""
    for place, mark in enumerate(marks):
        name = f"{number}.{place}" if mark.isupper() else "dropped"
        text += f"I,MY.ORDERS,2026-01-01,{mark.upper()},{number},{name}\n"
    return text


def expected_of(messages: list[str]) -> Found:
    """Return the names and indicators of the operations that remain, unit by unit (decision 0012)."""
    units: list[list[int]] = []
    closed = True
    for number, marks in enumerate(messages):
        if closed or marks[:1] in tuple("BWbw"):
            units.append([])
        units[-1].append(number)
        closed = marks[-1] in "EWew" if marks else closed
    found: Found = []
    for unit in units:
        marks = "".join(messages[number] for number in unit)
        if not re.fullmatch("(W|BM*E)*", marks.upper()):
            continue
        names = [f"{number}.{i}" for number in unit for i in range(len(messages[number]))]
        for one in re.finditer("W|BM*E", marks.upper()):
            kept = [i for i in range(one.start(), one.end()) if marks[i].isupper()]
            for i in kept:
                first, last = i == kept[0], i == kept[-1]
                letter = {(1, 1): "W", (1, 0): "B", (0, 1): "E", (0, 0): "M"}[first, last]
                found.append((names[i], letter))
    return found


def place_of(folder: str) -> Place:
    place = Place(Path(folder), spanning=True)
    place.capture = replace(place.capture, rules=RULES)
    return place


MARKS = [
    "W",
    "w",
    "B",
    "b",
    "M",
    "m",
    "E",
    "e",
    "Bm",
    "bM",
    "BE",
    "be",
    "bE",
    "Be",
    "WB",
    "eB",
    "Ew",
    "mM",
]
MESSAGES = st.lists(st.sampled_from([*MARKS, "", "?"]), min_size=1, max_size=10)
GOOD = st.lists(
    st.from_regex("[Ww]|[Bb][Mm]{0,4}[Ee]", fullmatch=True), min_size=1, max_size=4
).map("".join)


@st.composite
def good_messages(draw: st.DrawFn) -> list[str]:
    """Return whole transactions, cut into messages anywhere."""
    marks = draw(GOOD)
    cuts = sorted(draw(st.sets(st.integers(0, len(marks)), max_size=6)) | {0, len(marks)})
    return [marks[a:b] for a, b in itertools.pairwise(cuts)]


@settings(max_examples=examples(60), deadline=None)
@example(messages=["B", "m", "m", "e", "W"], split=30)
@example(messages=["b", "M", "e"], split=30)
@example(messages=["B", "M", "?", "W"], split=30)
@given(st.one_of(good_messages(), MESSAGES), st.integers(20, 400))
def test_however_ranges_are_cut_whole_transactions_remain(messages: list[str], split: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = place_of(folder)
        lines = [
            json.dumps({"body": "bad" if marks == "?" else body_of(number, marks)}) + "\n"
            for number, marks in enumerate(messages)
        ]
        source = place.folder / "in.jsonl"
        source.write_text("".join(lines))
        summary = place.run("ot", replace(QUARANTINE, split_bytes=split), source)
        rows = (
            [row for batch in read_trail(place.folder / "ot") for row in batch.to_pylist()]
            if summary.operations
            else []
        )

    found = [(dict(row["after"])["NAME"], row["tx_ind"]) for row in rows]
    expected = expected_of(messages)
    assert found == expected
    assert summary.operations == len(expected)
    assert summary.transactions == sum(letter in "BW" for _, letter in expected)


@settings(max_examples=examples(150), deadline=None)
@given(good_messages(), st.lists(st.integers(0, 20), max_size=5))
def test_however_batches_are_cut_whole_transactions_remain(
    messages: list[str], cuts: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        capture = place_of(folder).capture
    bodies = [body_of(number, marks).encode() for number, marks in enumerate(messages)]
    ends = np.cumsum([len(body) for body in bodies]).astype(np.int64)
    starts = ends - np.array([len(body) for body in bodies], np.int64)
    count = len(bodies)
    whole = MessageBatch(
        pa.py_buffer(b"".join(bodies)), starts, ends, np.arange(count), np.zeros(count, np.int64)
    )
    state, found = TransactionState(), []
    bounds = sorted({0, count, *(cut for cut in cuts if cut < count)})
    for begin, end in itertools.pairwise(bounds):
        parsed = capture.parse(whole.slice(begin, end), state)
        assert not parsed.problems
        state = parsed.state
        rows = to_operations(parsed.batch).to_pylist()
        found += [(dict(row["after"])["NAME"], row["tx_ind"]) for row in rows]

    assert found == expected_of(messages)
    assert state.held is None
