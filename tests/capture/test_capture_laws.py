"""What holds for all messages: read as value by value, nothing lost, batches do not matter."""

from __future__ import annotations

import codecs
import pickle
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from oracles.delimited_naive import images, split
from trailgate.capture.capture import Capture, Parsed
from trailgate.columnar.delimited import DelimitedDialect
from trailgate.errors import TrailgateError
from trailgate.expressions.capture_rules import CaptureRules, TableRule
from trailgate.formats.delimited.options import DelimitedOptions, delimited_options
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.parser import MessageParser
from trailgate.messages.properties import parse_properties
from trailgate.messages.raw_operations import RawOperations
from trailgate.messages.units import TransactionState
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Column, Definitions, Table

TABLE = Table(
    "S.T",
    (
        Column("A", 64, 30, key=True),
        Column("B", 64, 30),
        Column("C", 64, 30),
    ),
)
DEFINITIONS = Definitions((TABLE,))
WHOLE_IMAGES = CaptureRules(compress_updates=False, update_befores=True, compress_deletes=False)
PLAIN = """parser.type=delim
delim.sourcedefs=x
delim.header=optype,table
delim.optype=optype
delim.schemaandtable=table
delim.quote="
"""
TOLD = PLAIN.replace("optype,table", "optype,table,txid,ind") + "delim.txid=txid\ndelim.txind=ind\n"
Rows = list[dict[str, Any]]


def options_of(text: str) -> DelimitedOptions:
    return delimited_options(parse_properties(text.encode()))


def batch_of(bodies: Sequence[bytes], gap: bytes = b"") -> MessageBatch:
    lengths = np.array([len(body) for body in bodies], np.int64)
    starts = np.cumsum(lengths + len(gap)) - lengths - len(gap)
    count = len(bodies)
    numbers = np.arange(count)
    data = pa.py_buffer(gap.join(bodies))
    offsets = np.zeros(count, np.int64)
    return MessageBatch(data, starts, starts + lengths, numbers, offsets)


def rows_of(parsed: Parsed) -> Rows:
    rows: Rows = to_operations(parsed.batch).to_pylist(maps_as_pydicts="strict")
    return rows


def parsed_by_parts(
    capture: Capture, batch: MessageBatch, cuts: list[int]
) -> tuple[Rows, list[int], list[bool], set[int], TransactionState]:
    """Return rows, their messages, unit starts, bad messages and the state after all parts."""
    rows: Rows = []
    messages: list[int] = []
    starts: list[bool] = []
    bad: set[int] = set()
    state = TransactionState()
    bounds = [0, *sorted(cuts), len(batch)]
    for first, last in pairwise(bounds):
        parsed = capture.parse(batch.slice(first, last), state)
        rows += rows_of(parsed)
        messages += (parsed.message + first).tolist()
        starts += parsed.starts_unit.tolist()
        # A unit that is left open by earlier parts breaks where the next one begins.
        bad |= {
            problem.message + first if problem.message >= 0 else -1 for problem in parsed.problems
        }
        state = parsed.state
    return rows, messages, starts, bad, state


TOKENS = (
    (b",", b"\n", b'"', None),
    (b"|", b"\r\n", b"'", b"\\'"),
    (b"||", b"##", b"<>", b"<<>>"),
    (b"\x1f", b"\x1e", None, None),
    ("é".encode(), b"\n", b'"', b'"\'"'),
)


@st.composite
def options(draw: st.DrawFn) -> DelimitedOptions:
    field, line, quote, quote_escaped = draw(st.sampled_from(TOKENS))
    null = draw(st.sampled_from([None, b"NULL", b"-"]))
    return replace(
        options_of(PLAIN),
        fielddelim=field,
        linedelim=line,
        quote=quote,
        quote_escaped=quote_escaped,
        nullindicator=null,
        fielddelim_escaped=draw(st.sampled_from([None, b"$#$"])),
        linedelim_escaped=draw(st.sampled_from([None, b"%/%"])),
        nullindicator_escaped=draw(st.sampled_from([None, b"$N$"])) if null else None,
        hasbefores=draw(st.booleans()),
        hasnames=draw(st.booleans()),
        afterfirst=draw(st.booleans()),
        isgrouped=draw(st.booleans()),
    )


@st.composite
def fields(draw: st.DrawFn, chosen: DelimitedOptions) -> bytes:
    """Return a field as it stands on the wire: plain, NULL, escaped or quoted."""
    special = [chosen.nullindicator, chosen.nullindicator_escaped]
    escapes = [chosen.fielddelim_escaped, chosen.linedelim_escaped]
    known = [token for token in (*special, *escapes) if token]
    plain = st.lists(st.sampled_from([b"a", b"1", "ö".encode(), *known]), max_size=3)
    quote = chosen.quote
    if not quote or draw(st.booleans()):
        return b"".join(draw(plain))
    escaped = chosen.quote_escaped or quote * 2
    inner = st.sampled_from([b"x", escaped, chosen.fielddelim, chosen.linedelim, *known])
    return quote + b"".join(draw(st.lists(inner, max_size=4))) + quote


@st.composite
def records(draw: st.DrawFn, chosen: DelimitedOptions) -> bytes:
    count = draw(st.integers(1, 3))
    kind = draw(st.sampled_from([b"I", b"U", b"D"]))
    parts = ["name"] * chosen.hasnames + ["value"] * (1 + chosen.hasbefores)
    slots = [(part, i) for part in parts for i in range(count)]
    if not chosen.isgrouped:
        slots = [(part, i) for i in range(count) for part in parts]
    columns = [
        TABLE.columns[i].name.encode() if part == "name" else draw(fields(chosen))
        for part, i in slots
    ]
    return chosen.fielddelim.join([kind, b"S.T", *columns])


@settings(max_examples=examples(150))
@given(st.data(), options())
def test_images_are_those_of_a_reading_value_by_value(
    data: st.DataObject, chosen: DelimitedOptions
) -> None:
    message = st.lists(records(chosen), min_size=1, max_size=4)
    bodies = [chosen.linedelim.join(rows) for rows in data.draw(st.lists(message, max_size=3))]
    dialect = DelimitedDialect(
        chosen.fielddelim, chosen.linedelim, chosen.quote, chosen.quote_escaped
    )
    capture = Capture(chosen, DEFINITIONS, WHOLE_IMAGES)

    parsed = capture.parse(batch_of(bodies))

    expected = [
        (message, *images(record, chosen, ["A", "B", "C"]))
        for message, body in enumerate(bodies)
        for record in split(body, dialect)
    ]
    found = [
        (message, row["before"] or {}, row["after"] or {})
        for message, row in zip(parsed.message.tolist(), rows_of(parsed), strict=True)
    ]
    keyless = {message for message, before, _ in expected if before.get("A", "") is None}
    assert {problem.message for problem in parsed.problems} == keyless
    assert found == [row for row in expected if row[0] not in keyless]


GOOD = b"I,S.T,1,a\nU,S.T,1,b"
ANY_BODY = st.one_of(
    st.binary(max_size=20),
    st.lists(
        st.sampled_from([b"I,S.T", b"D,S.T", b",", b"\n", b'"', b'""', b"a", b"\xff", GOOD]),
        max_size=6,
    ).map(b"".join),
)


def numbers_of_filled(bodies: list[bytes]) -> set[int]:
    """Return the numbers of the messages that are not empty; a byte order mark belongs to no message."""
    return {i for i, body in enumerate(bodies) if body.removeprefix(codecs.BOM_UTF8)}


@given(st.lists(ANY_BODY, max_size=8), st.sampled_from([b"", b"\n"]))
def test_each_message_gives_operations_or_a_problem(bodies: list[bytes], gap: bytes) -> None:
    parsed = Capture(options_of(PLAIN), DEFINITIONS).parse(batch_of(bodies, gap))

    given_up = {problem.message for problem in parsed.problems}
    assert given_up.isdisjoint(parsed.message.tolist())
    seen = given_up | set(parsed.message.tolist())
    assert seen == numbers_of_filled(bodies)
    assert all(isinstance(problem.error, TrailgateError) for problem in parsed.problems)


@given(st.lists(ANY_BODY, max_size=8), st.binary(min_size=1, max_size=2))
def test_any_message_and_delimiter_is_parsed_or_refused(bodies: list[bytes], field: bytes) -> None:
    chosen = replace(options_of(TOLD), fielddelim=field)
    parsed = Capture(chosen, DEFINITIONS).parse(batch_of(bodies))

    seen = {problem.message for problem in parsed.problems} | set(parsed.message.tolist())
    assert seen - {-1} == numbers_of_filled(bodies)


@given(st.data(), st.lists(st.sampled_from([GOOD, b"I,S.T,2,x", b"", b"D,S.T,3\n"]), max_size=9))
def test_a_bad_message_leaves_the_others(data: st.DataObject, bodies: list[bytes]) -> None:
    capture = Capture(options_of(PLAIN), DEFINITIONS)
    place = data.draw(st.integers(0, len(bodies)))
    bad = data.draw(st.sampled_from([b"X", b'I,S.T,"', b"I,S.U,1", b"\xff", b"I,S.T,1,2,3,4"]))
    batch = batch_of([*bodies[:place], bad, *bodies[place:]], b"\n")
    kept = np.flatnonzero(np.arange(len(batch)) != place)
    without = replace(
        batch,
        starts=batch.starts[kept],
        ends=batch.ends[kept],
        files=batch.files[kept],
        offsets=batch.offsets[kept],
    )

    parsed = capture.parse(batch)

    assert [problem.message for problem in parsed.problems] == [place]
    assert rows_of(parsed) == rows_of(capture.parse(without))
    assert parsed.message.tolist() == kept[capture.parse(without).message].tolist()


WRONG = (
    b"I",
    b"X,S.T,1,a",
    b"I,S.U,1",
    b"U,S.R,1,2",
    b"I,S.T,1,a,b,c",
    b"D,S.R,1,9999-99-99",
    b"I,S.R,x,2026-01-01",
    b"I,S.R,y,2026-01-01",
    b'I,S.T,"',
    b'I,S.T,"a"b',
    b"\xff",
    b"I,S.T," + 31 * b"a",
)
TWO_TABLES = Definitions(
    (TABLE, Table("S.R", (Column("N", 134, 8, key=True), Column("D", 192, 19), Column("E", 64, 9))))
)


def facts_of(error: TrailgateError) -> tuple[object, ...]:
    return error.problem, error.hint, replace(error.where, source=None)


@given(
    st.lists(
        st.lists(
            st.sampled_from([*WRONG, GOOD, b"I,S.R,1,2026-01-01"]), min_size=1, max_size=3
        ).map(b"\n".join),
        max_size=8,
    ),
    st.sampled_from([b"", b"\n"]),
)
def test_a_bad_message_has_the_error_that_it_has_alone(bodies: list[bytes], gap: bytes) -> None:
    capture = Capture(options_of(PLAIN), TWO_TABLES)
    alone = [capture.parse(batch_of([body])).problems for body in bodies]

    parsed = capture.parse(batch_of(bodies, gap))

    found = {problem.message: facts_of(problem.error) for problem in parsed.problems}
    assert found == {i: facts_of(own[0].error) for i, own in enumerate(alone) if own}


def test_many_bad_messages_are_found_in_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [WRONG[i % len(WRONG)] if i % 3 else GOOD for i in range(3000)]
    passes = []
    parse = MessageParser.parse

    def counted(parser: MessageParser, messages: MessageBatch) -> RawOperations:
        passes.append(len(messages))
        return parse(parser, messages)

    monkeypatch.setattr(MessageParser, "parse", counted)
    parsed = Capture(options_of(PLAIN), TWO_TABLES).parse(batch_of(bodies, b"\n"))

    assert (len(parsed.problems), parsed.batch.rows) == (2000, 2000)
    assert len(passes) <= 8


def test_each_message_tells_by_itself_whether_its_times_are_milliseconds() -> None:
    chosen = replace(
        options_of(PLAIN.replace("optype,table", "optype,table,ts") + "delim.timestamp=ts\n"),
        timestamp_format=None,
    )
    bodies = [b"I,S.T,2026-01-01 00:00:00,1", b"I,S.T,1767225600000,2", b"I,S.T,1767225600000,3"]

    parsed = Capture(chosen, DEFINITIONS).parse(batch_of(bodies))

    assert not parsed.problems
    assert len({row["op_ts"] for row in rows_of(parsed)}) == 1


def told(*marks: str) -> bytes:
    """Return a message of operations, each an indicator and a transaction: "BA" begins A."""
    return b"\n".join(f"I,S.T,{mark[1]},{mark[0]},1".encode() for mark in marks)


RIGHT = st.lists(st.integers(1, 4), max_size=5)


@st.composite
def transactions(draw: st.DrawFn) -> list[bytes]:
    """Return messages of contiguous transactions, cut anywhere."""
    marks: list[str] = []
    for name, size in zip("ABCDE", draw(RIGHT), strict=False):
        kinds = "W" if size == 1 else "B" + "M" * (size - 2) + "E"
        marks += [kind + name for kind in kinds]
    messages, at = [], 0
    while at < len(marks):
        size = draw(st.integers(0, 3))
        messages.append(told(*marks[at : at + size]))
        at += size
    return messages


ANY_TOLD = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["BA", "MA", "EA", "WA", "BB", "EB"]), max_size=3).map(
            lambda marks: told(*marks)
        ),
        st.just(b"X"),
    ),
    max_size=6,
)


@given(st.data(), transactions())
def test_cuts_into_batches_change_nothing(data: st.DataObject, bodies: list[bytes]) -> None:
    capture, batch = Capture(options_of(TOLD), DEFINITIONS), batch_of(bodies, b"\n")
    cuts = data.draw(st.lists(st.integers(0, len(bodies)), max_size=4))

    whole = parsed_by_parts(capture, batch, [])

    assert parsed_by_parts(capture, batch, cuts) == whole
    assert whole[3] == set()
    assert capture.finish(whole[4]) is None


def good_units(result: tuple[Rows, list[int], list[bool], set[int], TransactionState]) -> Rows:
    """Return the rows of the units without a problem; -1 is a problem of the unit before it."""
    rows, messages, starts, bad, _ = result
    unit = np.cumsum(starts)
    broken = {int(unit[message]) for message in bad}
    return [row for row, m in zip(rows, messages, strict=True) if int(unit[m]) not in broken]


@given(st.data(), ANY_TOLD)
def test_cuts_change_nothing_for_broken_units(data: st.DataObject, bodies: list[bytes]) -> None:
    capture, batch = Capture(options_of(TOLD), DEFINITIONS), batch_of(bodies, b"\n")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(bodies)), max_size=3)))
    rows, messages, starts, bad = [], [], [], set()
    state = TransactionState()
    bounds = [0, *cuts, len(batch)]
    for first, last in pairwise(bounds):
        parsed = capture.parse(batch.slice(first, last), state)
        rows += rows_of(parsed)
        messages += (parsed.message + first).tolist()
        starts += parsed.starts_unit.tolist()
        # -1 is the unit that was open before this part: its last message stands for it.
        bad |= {p.message + first if p.message >= 0 else first - 1 for p in parsed.problems}
        state = parsed.state

    whole = parsed_by_parts(capture, batch, [])

    assert starts == whole[2]
    assert state == whole[4]
    assert good_units((rows, messages, starts, bad, state)) == good_units(whole)


@pytest.mark.parametrize("text", [PLAIN, TOLD])
def test_a_capture_travels_between_processes(text: str) -> None:
    capture = Capture(options_of(text), DEFINITIONS, WHOLE_IMAGES, 7)
    batch = batch_of([told("BA", "EA"), b"X"] if text == TOLD else [GOOD, b"X"], b"\n")
    before = capture.parse(batch)

    copy = pickle.loads(pickle.dumps(capture))

    assert copy == capture
    after = copy.parse(batch)
    assert rows_of(after) == rows_of(before)
    assert [str(p.error) for p in after.problems] == [str(p.error) for p in before.problems]
    assert pickle.loads(pickle.dumps(before.state)) == before.state


@pytest.mark.parametrize(
    ("more", "rules", "blocks"),
    [
        ("", CaptureRules(), 1),
        ("delim.hasbefores=true\n", CaptureRules(), 2),
        ("", CaptureRules(tables=(TableRule("S.T", ignored="D"),)), 2),
    ],
)
def test_inserts_and_updates_share_a_block_where_they_hold_the_same_images(
    more: str, rules: CaptureRules, blocks: int
) -> None:
    capture = Capture(options_of(PLAIN + more), DEFINITIONS, rules)
    bodies = [f"{kind},S.T,a,a".encode() for kind in "IUIU"]

    parsed = capture.parse(batch_of(bodies))

    assert not parsed.problems
    assert [row["op_type"] for row in rows_of(parsed)] == ["I", "U", "I", "U"]
    assert len(parsed.batch.blocks) == blocks
