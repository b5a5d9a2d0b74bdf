"""Transactions of JSON messages, which are known by their ids: cuts into batches change nothing, whatever is bad."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_messages import json_capture, messages_of
from publication_files import captured
from xml_files import DEFINITIONS

EVENTS: Final = "parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=source.txId"


def event(tx: int, value: object, snapshot: str) -> bytes:
    source = {
        "ts_ms": 1705611172576,
        "db": "OGG",
        "table": "PAIR",
        "txId": tx,
        "snapshot": snapshot,
    }
    return json.dumps({"after": {"ID": value}, "source": source, "op": "c"}).encode()


@st.composite
def runs(draw: st.DrawFn) -> list[bytes]:
    """Return events of transactions, some of them lost, sent twice, unreadable or with a bad value."""
    bodies: list[bytes] = []
    for _ in range(draw(st.integers(1, 8))):
        tx, snapshot = draw(st.integers(1, 3)), draw(st.sampled_from(["false", "false", "true"]))
        good = event(tx, 1, snapshot)
        bad = event(tx, "x", snapshot)
        odd = [[good, good], [b"{"], [b"[]"], [b"null"], [bad], [good[: draw(st.integers(1, 90))]]]
        bodies += draw(st.sampled_from([*[[good]] * 8, *odd]))
    return bodies


@pytest.mark.assumed
@given(runs(), st.lists(st.integers(0, 12), max_size=4))
def test_cuts_into_batches_change_nothing(bodies: list[bytes], cuts: list[int]) -> None:
    capture, messages = json_capture(EVENTS, DEFINITIONS.read_text()), messages_of(bodies)
    inside = [cut for cut in cuts if cut < len(bodies)]

    whole = captured(capture, messages)

    assert captured(capture, messages, inside) == whole
