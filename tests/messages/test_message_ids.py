"""Ids of messages by ``jms.id``: unique, ascending, of one length; what comes again is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.message_ids import MessageIdRule, MessageIds, read_message_ids

Sent = tuple[str | None, str]  # id and body
Known = tuple[str, str]


def batch(sent: Sequence[Sent], header: str = "Id") -> MessageBatch:
    bodies = [body.encode() for _, body in sent]
    sizes = np.array([len(body) for body in bodies], np.int64)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    headers = tuple({} if own is None else {header: own} for own, _ in sent)
    numbers = np.arange(len(sent), dtype=np.int64)
    return MessageBatch(
        data=pa.py_buffer(b"".join(bodies)),
        starts=starts,
        ends=ends,
        files=numbers * 0,
        offsets=numbers,
        headers=headers,
    )


def found(sent: Sequence[Sent], sizes: Sequence[int], rule: MessageIdRule) -> list[str]:
    """Return what becomes of each message, the messages cut into batches."""
    ids, at, became = MessageIds(rule), 0, []
    for size in [*sizes, len(sent)]:
        part = sent[at : at + size]
        at += len(part)
        deduplicated = ids.deduplicate(batch(part))
        own = ["kept"] * len(part)
        for place in set(range(len(part))) - set(
            range(len(part)) if deduplicated.kept is None else deduplicated.kept.tolist()
        ):
            own[place] = "left out"
        for problem in deduplicated.problems:
            own[problem.message] = "bad"
        became += own
        assert deduplicated.duplicates == own.count("left out")
        assert len(deduplicated.last) == len(part)
    return became


def expected(sent: Sequence[Known], rule: MessageIdRule) -> list[str]:
    """Return the same, looked at one by one, as short as can be."""
    known: list[Known] = []
    highest: str | None = None
    became = []
    for own, body in sent:
        falls = rule.ordered and highest is not None and own < highest
        other = highest is not None and len(own) != len(highest)
        if (own, body) in known:
            became.append("left out")
        elif other or falls or own in [name for name, _ in known]:
            became.append("bad")
        else:
            became.append("kept")
            known.append((own, body))
            highest = max(highest or "", own)
    return became


IDS = st.sampled_from(["01", "02", "03", "04", "1", "005"])


@given(
    st.lists(st.tuples(IDS, st.sampled_from(["a", "b"])), max_size=12),
    st.lists(st.integers(0, 4), max_size=6),
    st.booleans(),
)
def test_messages_are_judged_as_one_by_one_however_they_are_cut(
    sent: list[Known], sizes: list[int], ordered: bool
) -> None:
    rule = MessageIdRule("Id", ordered)

    assert found(sent, sizes, rule) == expected(sent, rule)


def test_an_id_of_another_length_is_an_error_that_names_both() -> None:
    ids = MessageIds(MessageIdRule("Id"))
    (problem,) = ids.deduplicate(batch([("0009", "a"), ("00010", "b")])).problems

    assert problem.message == 1
    assert (
        problem.error.problem == "the message id 00010 has 5 characters, but 0009 before it has 4"
    )


def test_an_id_that_falls_is_an_error_that_names_both() -> None:
    ids = MessageIds(MessageIdRule("Id"))
    ids.deduplicate(batch([("5", "a")]))
    (problem,) = ids.deduplicate(batch([("4", "b")])).problems

    assert problem.error.problem == "the message id 4 follows the higher 5"
    assert "--unordered-ids" in problem.error.hint


def test_an_id_with_another_body_is_never_taken_for_the_same_message() -> None:
    ids = MessageIds(MessageIdRule("Id", ordered=False))
    deduplicated = ids.deduplicate(batch([("5", "a"), ("5", "b"), ("5", "a")]))

    assert [problem.message for problem in deduplicated.problems] == [1]
    assert deduplicated.kept is not None
    assert deduplicated.kept.tolist() == [0, 1]
    messages, problems = deduplicated.apply(batch([("5", "a"), ("5", "b"), ("5", "a")]), ())
    assert len(messages) == 2
    assert [problem.message for problem in problems] == [1]


def test_ids_are_forgotten_after_as_many_as_are_remembered() -> None:
    rule = MessageIdRule("Id", ordered=False, remembered=2)
    sent = [("1", ""), ("2", ""), ("3", ""), ("2", ""), ("1", "")]

    assert found(sent, [1] * 5, rule) == ["kept", "kept", "kept", "left out", "kept"]


def test_a_message_without_the_header_is_bad_where_others_have_it() -> None:
    ids = MessageIds(MessageIdRule("ogg"))
    (problem,) = ids.deduplicate(batch([("1", ""), (None, "")], "GG_ID")).problems

    assert (problem.message, problem.error.problem) == (
        1,
        "the message has no header GG_ID for its id",
    )
    assert MessageIds(MessageIdRule("ogg")).deduplicate(batch([(None, "")])).problems == ()


@pytest.mark.parametrize(
    ("given_id", "padded"),
    [
        (
            "ID:host-1-36049-1763800000000-3:2:-1:1:12",
            "ID:host-1-36049-1763800000000-0000000003:0000000002:00000000-1:0000000001:0000000012",
        ),
        (
            "ID:h-999-763800000000-0:1:1:1:9",
            "ID:h-00999-0763800000000-0000000000:0000000001:0000000001:0000000001:0000000009",
        ),
        ("ID:414d5120514d312020202020202020206", "ID:414d5120514d312020202020202020206"),
        (
            "ID:6d0c1c0e-c79f-11f0-8de9-0242ac120002",
            "ID:6d0c1c0e-c79f-11f0-8de9-0242ac120002",
        ),
        ("", ""),
    ],
)
def test_ids_of_activemq_are_padded_to_one_length(given_id: str, padded: str) -> None:
    sent = batch([(given_id, ""), (None, "")], "JMSMessageID")

    assert read_message_ids(sent, "activemq").to_pylist() == [padded, None]
    assert read_message_ids(sent, "wmq").to_pylist() == [given_id, None]


@given(st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=5))
def test_any_header_gives_an_id_or_none(strings: list[str | None]) -> None:
    ids = read_message_ids(batch([(text, "") for text in strings], "JMSMessageID"), "activemq")

    assert ids.is_null().to_pylist() == [text is None for text in strings]


def test_numbers_of_one_producer_ascend_as_text() -> None:
    sent = [(f"ID:h-36049-1763800000000-3:2:-1:1:{number}", "") for number in (9, 10, 100)]
    ids = read_message_ids(batch(sent, "JMSMessageID"), "activemq").to_pylist()

    assert ids == sorted(ids)
    assert len({len(one) for one in ids}) == 1
