"""Transactions known by their ids alone are found as by hand, also around messages that cannot be read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from publication_files import column, message, row, xml_publications
from publication_strings import parse_all
from trailgate.errors import TransactionError
from trailgate.messages.by_id import chain_by_id
from trailgate.messages.problems import Problem
from trailgate.messages.raw_operations import RawOperations
from trailgate.messages.units import ChainedTransactions, TransactionState

# A message: the ids of its operations, or those of one that cannot be read (first and last, none, or not known).
IDS = st.sampled_from("123")
READ = st.tuples(st.just(True), st.lists(IDS, max_size=3))
UNREAD = st.tuples(st.just(False), st.one_of(st.none(), st.just(()), st.tuples(IDS, IDS)))
MESSAGES = st.lists(st.one_of(READ, READ, UNREAD), max_size=8)
BEFORE = st.sampled_from(
    [TransactionState(), TransactionState("1", "1", count=2), TransactionState(broken=True)]
)
Message = tuple[bool, list[str] | tuple[str, ...] | None]


def by_hand(
    messages: list[Message], before: TransactionState
) -> tuple[str, list[int], list[bool], str | None]:
    """Return the indicators and numbers of operations, the messages that start a unit, and the id that is open at the end."""
    open_id: str | None = before.tx_id or ("?" if before.broken else None)
    is_open, count = before.is_open, before.count
    found: list[list[bool]] = []
    numbers: list[int] = []
    starts = []
    last: list[bool] | None = None
    for is_read, ids in messages:
        known = ["?"] if ids is None else list(ids)
        begins = [own not in ("?", other) and other != "?" for own, other in _pairs(known, open_id)]
        starts.append(not is_open or begins[:1] == [True])
        for begun in begins:
            if begun and last is not None:
                last[1] = True
            last = None
            if is_read:
                count = 0 if begun else count
                last = [begun, False]
                found.append(last)
                numbers.append(count)
                count += 1
        if known:
            open_id, is_open = known[-1], True
    letters = "".join("MEBW"[2 * begun + ended] for begun, ended in found)
    return letters, numbers, starts, None if open_id == "?" else open_id


def _pairs(known: list[str], before: str | None) -> list[tuple[str, str | None]]:
    return list(zip(known, [before, *known], strict=False))


def followed(messages: list[Message], before: TransactionState) -> ChainedTransactions:
    operations = [(at, own) for at, (read, ids) in enumerate(messages) if read for own in ids or ()]
    ids = pa.array([own for _, own in operations], pa.string())
    own = np.array([at for at, _ in operations], np.int64)
    raw = RawOperations((), own, None, ids, ids, tx_ids_generated=False, by_id=True)
    problems = [
        Problem(at, TransactionError("bad"), None if ids is None else tuple(ids))
        for at, (read, ids) in enumerate(messages)
        if not read
    ]
    return chain_by_id(raw, len(messages), problems, before)


@settings(max_examples=examples(300))
@given(MESSAGES, BEFORE)
def test_ids_are_followed_as_by_hand(messages: list[Message], before: TransactionState) -> None:
    found = followed(messages, before)
    letters, numbers, starts, open_id = by_hand(messages, before)

    assert bytes(found.tx_ind).decode() == letters
    assert found.ordinals is not None
    assert found.ordinals.tolist() == numbers
    assert found.marks.starts.tolist() == starts
    assert found.state.tx_id == open_id


@pytest.mark.parametrize("at_start", [False, True])
def test_a_bad_message_without_operations_leaves_the_transactions_around_it_whole(
    *, at_start: bool
) -> None:
    def of(value: str, commit: str) -> bytes:
        one = row("insertRow", column("ID", f"<integer>{value}</integer>", key=True))
        time = 'cmitTime="2026-01-31T10:11:12.000001"'
        return message(f'<rowOp cmitLSN="{commit}" {time}>{one}</rowOp>').encode()

    unclosed = message("<heartbeat sendQName='Q'>").encode()
    bodies = [of("1", "0000:00AA"), unclosed, of("2", "0000:00BB")]

    rows, found = parse_all(xml_publications(), [bodies[:1], bodies[1:]] if at_start else [bodies])

    assert [problem.message for parsed in found for problem in parsed.problems] == [1 - at_start]
    assert [row["tx_ind"] for row in rows] == ["W", "W"]
