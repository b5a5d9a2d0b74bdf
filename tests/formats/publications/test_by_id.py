"""Transactions known by their ids alone, over messages and batches."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damaged_publications import delimited_runs
from publication_files import captured
from publication_strings import capture_of, parse_all, record
from trailgate.messages.message_batch import messages_from


@pytest.mark.assumed
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
)
def test_indicators_do_not_depend_on_messages_and_batches(
    messages: list[list[int]], cuts: list[int]
) -> None:
    bodies = [
        b"".join(record(f',,"{i}",', tx=f"{tx:04}") for i, tx in enumerate(m)) for m in messages
    ]
    bounds = sorted({0, len(bodies), *(cut for cut in cuts if cut <= len(bodies))})
    batches = [bodies[begin:end] for begin, end in pairwise(bounds)]
    runs = [len(list(run)) for _, run in groupby(tx for m in messages for tx in m)]
    expected = [
        ("W" if size == 1 else "B" if not i else "E" if i == size - 1 else "M", f"{i:010}")
        for size in runs
        for i in range(size)
    ]

    rows, found = parse_all(capture_of(properties="content=row"), batches)

    assert [problem for parsed in found for problem in parsed.problems] == []
    assert [(row["tx_ind"], str(row["seq_id"])[-10:]) for row in rows] == expected


def test_a_transaction_has_one_commit_sequence_number() -> None:
    bodies = [record(',,"a",', tx="0007", lsn="00ff") + record(',,"b",', tx="0007", lsn="00ff")]

    rows, _ = parse_all(capture_of(), [bodies])

    assert [row["csn"] for row in rows] == ["00ff.0007"] * 2
    assert [row["tx_id"] for row in rows] == ["0007"] * 2


@pytest.mark.assumed
def test_transactions_of_one_log_position_are_two() -> None:
    rows, _ = parse_all(capture_of(), [[record(',,"a",', tx="0001"), record(',,"b",', tx="0002")]])

    assert [row["tx_ind"] for row in rows] == ["W", "W"]


def test_a_message_with_a_bad_value_takes_its_own_transaction_along() -> None:
    bad = record(',,"x",', tx="0002").replace(b"-18.00", b"-99.00")
    bodies = [record(',,"a",', tx="0001"), record(',,"b",', tx="0002"), bad]
    bodies += [record(',,"c",', tx="0003")]

    _, (parsed,) = parse_all(capture_of(properties="content=row"), [bodies])

    assert [problem.message for problem in parsed.problems] == [2]
    assert parsed.starts_unit.tolist() == [True, True, False, True]


def test_a_message_that_cannot_be_read_takes_its_neighbours_along() -> None:
    bodies = [record(',,"a",', tx="0001"), b'10,"IBM', record(',,"b",', tx="0002")]
    bodies += [record(',,"c",', tx="0003")]

    _, (parsed,) = parse_all(capture_of(), [bodies])

    assert [problem.message for problem in parsed.problems] == [1]
    assert parsed.starts_unit.tolist() == [True, False, False, True]


@given(
    delimited_runs(),
    st.sampled_from(["auto", "row", "transaction"]),
    st.lists(st.integers(0, 12), max_size=4),
)
def test_cuts_into_batches_change_nothing(
    bodies: list[bytes], content: str, cuts: list[int]
) -> None:
    capture, messages = capture_of(properties=f"content={content}"), messages_from(bodies)
    inside = [cut for cut in cuts if cut < len(bodies)]

    assert captured(capture, messages, inside) == captured(capture, messages)
