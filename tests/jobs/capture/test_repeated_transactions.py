"""Transactions that come again: dropped where they are the same, and never where they are not, however the input is cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trailgate
from laws import examples
from publication_strings import record
from trailgate.errors import TransactionError
from trailgate.jobs.capture.repeated_transactions import RepeatedTransactions

_Transactions = list[tuple[str, list[int]]]


def _captured(transactions: _Transactions, cuts: list[int]) -> tuple[str, list[int]]:
    """Return what was kept, as numbers of the first operation and the others of each, or the error."""
    flat = [(name, at == 0, own) for name, owns in transactions for at, own in enumerate(owns)]
    repeats, kept = RepeatedTransactions(), list[int]()
    bounds = [0, *sorted({cut % (len(flat) + 1) for cut in cuts}), len(flat)]
    try:
        for begin, end in pairwise(bounds):
            part = flat[begin:end]
            csn = pa.array([name for name, _, _ in part], pa.string())
            begins = np.array([first for _, first, _ in part], bool)
            numbers = np.array([own for _, _, own in part], np.int64)
            keep = repeats.select_new(csn, begins, numbers)
            kept += [begin + int(at) for at in np.flatnonzero(keep)]
    except TransactionError:
        return "error", []
    return "kept", kept


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.lists(st.integers(0, 2), min_size=1, max_size=3)),
        max_size=6,
    ),
    st.lists(st.integers(0, 20), max_size=4),
)
def test_what_comes_again_is_the_same_or_an_error(
    transactions: _Transactions, cuts: list[int]
) -> None:
    known: dict[str, list[int]] = {}
    expected, place, error = list[int](), 0, False
    for number, (name, owns) in enumerate(transactions):
        seen = known.setdefault(name, owns)
        last = number == len(transactions) - 1
        # The input may end within a transaction: its last one may have fewer operations.
        same = owns[0] == seen[0] and len(owns) < len(seen) if last else False
        error |= seen != owns and not same
        if seen is owns:
            expected += range(place, place + len(owns))
        place += len(owns)

    assert _captured(transactions, cuts) == (("error", []) if error else ("kept", expected))


@pytest.mark.parametrize("kind", ["xml", "delimited"])
def test_other_publications_of_a_known_id_are_refused(tmp_path: Path, kind: str) -> None:
    def body(number: int, value: str) -> str:
        if kind == "delimited":
            return record(f',,"k","{value}"', tx=f"{number:04}", lsn=f"{number:04}").decode()
        return (
            '<msg><trans isLast="1" segmentNum="1" cmitLSN="'
            f'{number:04}" cmitTime="2026-01-31T10:11:12.000000"><insertRow subName="s" srcOwner="S" srcName="T">'
            f'<col name="K" isKey="1"><varchar>k</varchar></col><col name="V"><varchar>{value}</varchar></col></insertRow></trans></msg>'
        )

    definitions = (
        "event_publishing.userdefs.tables=S.T\nevent_publishing.userdefs.S.T.columns=K,V\n"
    )
    columns = "event_publishing.userdefs.S.T.K=vchar 9\nevent_publishing.userdefs.S.T.V=vchar 9\n"
    properties = tmp_path / "p.properties"
    properties.write_text(f"parser.type=event_publishing\n{definitions}{columns}")

    def run(name: str, *messages: str) -> trailgate.CaptureSummary:
        folder = tmp_path / name
        folder.mkdir()
        for at, text in enumerate(messages):
            (folder / f"{at}.txt").write_text(text)
        return trailgate.capture_files(
            folder, tmp_path / f"{name}.out" / "ot", properties=properties, message_per="file"
        )

    same = run("same", body(1, "a"), body(2, "b"), body(1, "a"), body(3, "c"))
    assert (same.operations, same.repeated_operations) == (3, 1)
    with pytest.raises(TransactionError, match="is repeated with other operations"):
        run("other", body(1, "a"), body(2, "b"), body(1, "c"), body(3, "c"))
