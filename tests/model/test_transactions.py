"""Transactions are followed alike however rows are cut into batches, and each has one fate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE
from trailgate.model.kernels import (
    ABANDONS,
    APART,
    BEGINS,
    BEGINS_INSIDE,
    CONTINUES_NOTHING,
    ENDS,
    UNDOES,
    UNKNOWN,
)
from trailgate.model.transactions import (
    FollowedTransactions,
    TransactionOutcome,
    follow,
    indicator_marks,
    repair_indicators,
)

MARKS = {"B": BEGINS, "M": 0, "E": ENDS, "W": BEGINS | ENDS, "a": APART, "R": UNDOES, "?": UNKNOWN}
ROWS = st.text("BMEWaR?", max_size=14)
CUTS = st.sets(st.integers(0, 14), max_size=4)
FATES = dict(zip("wo-t", TransactionOutcome, strict=True))


def marks_of(rows: str) -> np.ndarray:
    """Return the marks of rows, each a letter; ``a`` is apart, ``R`` a restart and ``?`` unknown."""
    return np.array([MARKS[row] for row in rows], np.uint8)


def by_hand(rows: str, *, is_open: bool) -> tuple[list[int], list[int], list[TransactionOutcome]]:
    """Return the number and the fault of each row, and the outcomes, a row at a time."""
    number, numbers, faults = 0, [], []
    outcomes = [TransactionOutcome.WAITING if is_open else TransactionOutcome.TORN]
    for row in rows:
        fault = 0
        if row != "a":
            if row == "?" and is_open:
                outcomes[number] = TransactionOutcome.TORN
            elif row in "BWR" and is_open:
                fault = ABANDONS if row == "R" else BEGINS_INSIDE
                outcomes[number] = (
                    TransactionOutcome.ABANDONED if row == "R" else TransactionOutcome.TORN
                )
            elif row in "ME" and not is_open:
                fault = CONTINUES_NOTHING
                outcomes[number] = (
                    TransactionOutcome.TORN
                    if number or outcomes[0] != TransactionOutcome.ABANDONED
                    else outcomes[0]
                )
            if row in "BWR?" or not is_open:
                number += 1
                outcomes.append(
                    TransactionOutcome.WAITING if row in "BM" else TransactionOutcome.TORN
                )
                headed = row in "BWR"
            elif number == 0:
                headed = False
            is_open = row in "BM"
            if not is_open:
                outcomes[number] = (
                    TransactionOutcome.COMPLETE
                    if headed and row != "?"
                    else TransactionOutcome.TORN
                )
        numbers.append(number)
        faults.append(fault)
    return numbers, faults, outcomes


@settings(max_examples=examples(300))
@given(rows=ROWS, is_open=st.booleans())
def test_rows_are_followed_as_by_hand(rows: str, is_open: bool) -> None:
    found = follow(marks_of(rows), is_open=is_open)
    number, faults, outcomes = by_hand(rows, is_open=is_open)

    assert found.number.tolist() == number
    assert found.faults.tolist() == faults
    assert found.outcomes.tolist()[1:] == outcomes[1:]
    assert found.starts.tolist() == [
        row != "a" and own != before
        for row, (before, own) in zip(rows, pairwise([0, *number]), strict=True)
    ]


def in_batches(marks: np.ndarray, cuts: set[int], *, is_open: bool) -> FollowedTransactions:
    """Return what following gives batch by batch, put together."""
    places = sorted({0, *(cut for cut in cuts if cut < len(marks)), len(marks)})
    whole = follow(marks[:0], is_open=is_open)
    for begin, stop in pairwise(places):
        part = follow(marks[begin:stop], is_open=whole.is_open)
        before = len(whole.flags) - 1
        flags = whole.flags.copy()
        flags[-1] |= part.flags[0]
        whole = FollowedTransactions(
            marks=marks[:stop],
            number=np.append(whole.number, part.number + before),
            starts=np.append(whole.starts, part.starts),
            faults=np.append(whole.faults, part.faults),
            flags=np.append(flags, part.flags[1:]),
            is_open=part.is_open,
        )
    return whole


@settings(max_examples=examples(200))
@given(rows=ROWS, cuts=CUTS, is_open=st.booleans())
def test_batches_change_nothing(rows: str, cuts: set[int], is_open: bool) -> None:
    marks = marks_of(rows)
    whole, cut = follow(marks, is_open=is_open), in_batches(marks, cuts, is_open=is_open)

    for name in ("number", "starts", "faults", "flags", "outcomes"):
        assert getattr(whole, name).tolist() == getattr(cut, name).tolist(), name
    assert whole.is_open == cut.is_open


@settings(max_examples=examples(200))
@given(rows=ROWS)
def test_what_begins_ends_or_is_reported(rows: str) -> None:
    found = follow(marks_of(rows))

    outcomes, own = found.outcomes, np.array([row != "a" for row in rows], bool)
    assert outcomes[1:].size == found.starts.sum() == len(set(found.number[own].tolist()))
    for number, fate in enumerate(outcomes.tolist()[1:], 1):
        text = "".join(
            row for row, n in zip(rows, found.number.tolist(), strict=True) if n == number
        )
        text = text.replace("a", "")
        after = int(np.flatnonzero(found.number == number)[-1]) + 1
        following = next((found.faults[i] for i in range(after, len(rows)) if rows[i] != "a"), 0)
        if fate == TransactionOutcome.COMPLETE:
            assert text in ("W", "R") or (text[0], text[-1]) == ("B", "E")
        elif fate == TransactionOutcome.WAITING:
            assert text[-1] in "BM"
            assert number == len(outcomes) - 1
        elif fate == TransactionOutcome.ABANDONED:
            assert following == ABANDONS
        else:
            assert (
                text[0] in "ME?" or following in (BEGINS_INSIDE, CONTINUES_NOTHING) or "?" in rows
            )


@pytest.mark.parametrize(
    ("rows", "outcomes"),
    [
        ("WBMEW", "www"),
        ("BM", "o"),
        ("BMaME", "w"),
        ("BMRBMEW", "-www"),
        ("BRBRBE", "-w-ww"),
        ("BMBE", "tw"),
        ("WMEW", "ttw"),
        ("MEW", "tw"),
        ("B?W", "ttw"),
    ],
)
def test_each_transaction_has_one_fate(rows: str, outcomes: str) -> None:
    assert follow(marks_of(rows)).outcomes.tolist()[1:] == [FATES[fate] for fate in outcomes]


def remaining_by_hand(rows: str, keep: list[bool], *, begun: bool) -> tuple[list[int], int]:
    """Return the indicators of the kept rows, and the last one of an open transaction or -1."""
    letters, last = [0] * len(rows), -1
    for at, (row, kept) in enumerate(zip(rows, keep, strict=True)):
        if row in "BW":
            last, begun = -1, False
        if kept:
            letters[at] = MIDDLE if begun else BEGIN
            last, begun = at, True
        if row in "EW":
            if last >= 0:
                letters[last] = WHOLE if letters[last] == BEGIN else END
            last, begun = -1, False
    return letters, last


OPERATIONS = st.lists(st.tuples(st.sampled_from("BMEW"), st.booleans()), max_size=14)


@settings(max_examples=examples(200))
@given(operations=OPERATIONS)
def test_what_remains_of_transactions_begins_and_ends(operations: list[tuple[str, bool]]) -> None:
    rows, keep = "".join(row for row, _ in operations), [kept for _, kept in operations]
    marks = indicator_marks(np.frombuffer(rows.encode(), np.uint8))

    found = repair_indicators(marks, np.array(keep, bool))

    letters, last = remaining_by_hand(rows, keep, begun=False)
    assert marks.tolist() == marks_of(rows).tolist()
    assert found.tx_ind.tolist() == letters
    assert (found.last, found.held, found.released) == (last, None, None)
