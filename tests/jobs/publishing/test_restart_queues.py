"""Restart queues: each group has one of its own, whose name every broker takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import OptionError
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.publish.senders.jms import LOCK, LONGEST, restart_queue

ADDRESS = parse_address("stomp://host/orders", direction=Direction.SENT)
# A byte takes up to three letters.
GROUPS = st.text(
    st.one_of(
        st.sampled_from("ab._-~/ 0123456789AFé*>#:.lock"), st.characters(exclude_categories=["Cs"])
    ),
    min_size=1,
    max_size=19,
)


def queue(group: str) -> str:
    return restart_queue(ADDRESS, group)


@pytest.mark.parametrize("group", ["ot", "a.b", "a_b", "A-1", "orders.2026_11"])
def test_a_common_group_has_a_queue_of_its_name(group: str) -> None:
    assert queue(group) == f"trailgate.restart.{group}"


@given(GROUPS, GROUPS)
def test_two_groups_share_no_queue(one: str, other: str) -> None:
    names = {queue(one), queue(other), queue(one) + LOCK, queue(other) + LOCK}
    assert len(names) == (2 if one == other else 4)
    assert all(re.fullmatch("[A-Za-z0-9._~-]+", name) for name in names)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a/b", "a_b"), ("a b", "a_b"), ("é", "_"), ("a~2Fb", "a/b"), ("a", "a.lock"), ("a", "A")],
)
def test_groups_that_look_alike_have_their_own_queues(one: str, other: str) -> None:
    assert queue(one) != queue(other)
    assert queue(one) + LOCK != queue(other)


@pytest.mark.parametrize(("letter", "width"), [("a", 1), ("/", 3), ("é", 6)])
def test_a_group_whose_queue_would_have_too_long_a_name_is_refused(letter: str, width: int) -> None:
    most = (LONGEST - len(queue("a")) + 1 - len(LOCK)) // width
    assert len(queue(letter * most) + LOCK) <= LONGEST
    with pytest.raises(OptionError, match=r"too long for its restart queue: \d+ bytes.*--group"):
        queue(letter * (most + 1))
