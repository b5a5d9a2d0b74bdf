"""Topics by table: two tables never share one, nor two schemas without ``${table}``, nor does a table with the events of transactions, whatever their names are."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from sample_trail import Op, changes
from trailgate.capture.formats import publish_options, writer_for
from trailgate.errors import OptionError, Where
from trailgate.model.tables import Column, Table
from trailgate.publish.message_origins import MessageOrigins, OriginFinder
from trailgate.publish.senders.sender import PublishedState, StoredState
from trailgate.publish.senders.topics import TopicNames

# Pairs of tables, and a template by which both would have the same topic, or their schemas.
SAME = [
    ("${schema}.${table}", "A.B#", "A.B_"),
    ("${schema}.${table}", "A.B#", "A.B$"),
    ("${schema}.${table}", '"A.B".C', 'A."B.C"'),
    ("${table}", "S1.T", "S2.T"),
    ("${schema}_${table}", "A_B.C", "A.B_C"),
    ("${schema}${table}", "AB.C", "A.BC"),
    ("shop.${schema}", "A#.T", "A_.T"),
    ("shop.${schema}", "A#.T", "A_.U"),
    ("${schema}", '"A.B".T', "A.B.T"),
    ("shop.${schema}", "T", '".".T'),
]
EVENTS = None  # as a table: BEGIN and END events


def origins(*tables: str | None) -> MessageOrigins:
    """Return the origins of a message of each table."""
    count = len(tables)
    numbers = np.zeros(count, np.int64)
    return MessageOrigins(
        positions=pa.array([""] * count),
        tables=pa.array(tables, pa.string()),
        op_types=np.zeros(count, np.uint8),
        times=numbers,
        numbers=numbers,
        marks=np.array([name is EVENTS for name in tables]),
    )


@pytest.mark.parametrize(("template", "one", "other"), SAME)
def test_tables_with_one_topic_are_found_in_any_order(template: str, one: str, other: str) -> None:
    for first, second in permutations((one, other)):
        with pytest.raises(OptionError, match="would have the same topic"):
            TopicNames(template, "positions").of_messages(origins(first, second))
        earlier, later = TopicNames(template, "positions"), TopicNames(template, "positions")
        earlier.of_messages(origins(first))
        stored = StoredState("run", PublishedState("trail"), earlier.tables).encode()
        later.remember(StoredState.decode(stored, Where()).tables)
        assert later.of_messages(origins(first)) == earlier.of_messages(origins(first))
        with pytest.raises(OptionError, match="would have the same topic"):
            later.of_messages(origins(second))


def test_tables_of_a_schema_share_its_topic_and_the_state_has_one_of_them() -> None:
    names = TopicNames("shop.${schema}", "positions")

    topics = names.of_messages(origins("A.T", "A.U", "B.T", "A.T"))
    assert topics == ["shop.A", "shop.A", "shop.B", "shop.A"]
    assert names.tables == ("A.T", "B.T")


@pytest.mark.parametrize(
    ("template", "events"),
    [
        ("shop.${schema}.${table}", "shop.transaction"),
        ("shop.${schema}", "shop.transaction"),
        ("${schema}", "transaction"),
        ("shop", "shop.transaction"),
    ],
)
def test_events_of_transactions_have_a_topic_of_their_own(template: str, events: str) -> None:
    names = TopicNames(template, "positions")

    topics = names.of_messages(origins("MY.ORDERS", EVENTS, "MY.transaction"))
    assert topics[1] == events
    assert events not in (topics[0], topics[2])


@pytest.mark.parametrize("tables", [("MY.transaction", EVENTS), (EVENTS, "MY.transaction")])
def test_a_table_does_not_share_the_topic_of_events(tables: tuple[str | None, ...]) -> None:
    names = TopicNames("${table}", "positions")
    with pytest.raises(OptionError, match="BEGIN and END events would have the same topic"):
        names.of_messages(origins(*tables))


def test_a_table_may_be_called_as_the_topic_of_events() -> None:
    table = Table(
        "MY.transaction", (Column("ID", 134, 8, nullable=False, key=True), Column("NAME", 64, 60))
    )
    options = publish_options("debezium", {})
    batch = changes([[Op("I", 1, "one", table=table), Op("I", 2, "two")]])
    messages = writer_for("debezium", options).write(batch)
    found = OriginFinder(options).find(batch, messages)

    assert found.tables.to_pylist() == [None, "MY.transaction", "MY.ORDERS", None]
    assert found.marks.tolist() == [True, False, False, True]
