"""Transactions of change events, which are known by their ids: cuts into batches change nothing, whatever is bad."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damaged_publications import debezium_runs
from held_captures import EVENTS, json_capture, messages_of
from publication_files import captured


@pytest.mark.assumed
@given(debezium_runs(), st.lists(st.integers(0, 12), max_size=4))
def test_cuts_into_batches_change_nothing(bodies: list[bytes], cuts: list[int]) -> None:
    capture, messages = json_capture(EVENTS), messages_of(bodies)
    inside = [cut for cut in cuts if cut < len(bodies)]

    whole = captured(capture, messages)

    assert captured(capture, messages, inside) == whole
