"""Publishing a trail into files, run after run, and capturing them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trailgate
from publication_strings import record
from sample_trail import NOTES, ORDERS, Op, write_trail
from trailgate.capture.formats import publish_options
from trailgate.errors import DefinitionError, EncodeError, OptionError, StorageError
from trailgate.model.changes import ChangeBatch
from trailgate.model.transactions import OperationDropper
from trailgate.publish.job import publish_trail, read_status
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.splits import SplitReader, TrailSplit
from trailgate.storage.reading.trails import read_trail

TRANSACTIONS = [[Op("I", n), Op("D", n + 1, ..., "old")] for n in range(0, 12, 2)]


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    return write_trail(tmp_path / "ot", [TRANSACTIONS[:2], TRANSACTIONS[2:]])


def publish(trail: Path, to: Path, options: dict[str, Any]) -> None:
    """Publish with options of the format, or of the call."""
    tables = options.pop("tables", None)
    publish_trail(trail, to, "delimited", tables=tables, options=options)


def bodies(folder: Path) -> list[str]:
    """Return the bodies of all messages in a folder."""
    files = sorted(folder.glob("messages-*"))
    return [json.loads(line)["body"] for path in files for line in path.read_text().splitlines()]


def test_a_transaction_is_a_message(trail: Path, tmp_path: Path) -> None:
    summary = publish_trail(trail, tmp_path / "to", "delimited")

    found = bodies(tmp_path / "to")
    assert len(found) == summary.messages == summary.transactions == len(TRANSACTIONS)
    assert summary.counts == {ORDERS.name: {"I": 6, "D": 6}}
    assert summary.files == ("messages-000000001.jsonl",)
    assert [body.count("\n") for body in found] == [2] * 6


def test_a_later_run_continues_after_the_one_before(trail: Path, tmp_path: Path) -> None:
    publish_trail(trail, tmp_path / "all", "delimited")
    first = write_trail(tmp_path / "two/ot".replace("two/", "2"), [TRANSACTIONS[:2]])
    publish_trail(first, tmp_path / "to", "delimited")

    again = publish_trail(first, tmp_path / "to", "delimited")
    write_trail(first, [TRANSACTIONS[:2], TRANSACTIONS[2:]])
    rest = publish_trail(first, tmp_path / "to", "delimited")

    assert (again.messages, again.files) == (0, ())
    assert rest.messages == len(TRANSACTIONS) - 2
    assert bodies(tmp_path / "to") == bodies(tmp_path / "all")


def test_a_position_after_the_end_is_refused(trail: Path, tmp_path: Path) -> None:
    last = publish_trail(trail, tmp_path / "all", "json").position
    assert publish_trail(trail, tmp_path / "to", "json", after=last).messages == 0
    with pytest.raises(OptionError, match="position 9:1 is after the trail's end, which is 1:"):
        publish_trail(trail, tmp_path / "none", "json", after="9:1")


def test_files_end_where_transactions_end(trail: Path, tmp_path: Path) -> None:
    publish_trail(trail, tmp_path / "all", "delimited", content="row")
    summary = publish_trail(trail, tmp_path / "to", "delimited", content="row", file_bytes=1)

    assert len(summary.files) == 2
    assert bodies(tmp_path / "to") == bodies(tmp_path / "all")


def test_an_error_leaves_what_was_whole(tmp_path: Path) -> None:
    bad = [[Op("U", 1, "new", ...)]]
    trail = write_trail(tmp_path / "ot", [TRANSACTIONS[:2], bad])

    with pytest.raises(EncodeError, match="column ID is missing"):
        publish_trail(trail, tmp_path / "to", "delimited", file_bytes=1)
    assert len(bodies(tmp_path / "to")) == 2

    write_trail(trail, [TRANSACTIONS[:2], TRANSACTIONS[2:]])
    publish_trail(trail, tmp_path / "to", "delimited", file_bytes=1)
    assert len(bodies(tmp_path / "to")) == len(TRANSACTIONS)


def test_an_open_transaction_is_left_for_later(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", [TRANSACTIONS])
    whole = publish_trail(trail, tmp_path / "all", "delimited")
    file = Path(f"{trail}000000000")
    file.write_bytes(file.read_bytes()[: int(whole.position[10:])])  # without its last operation

    cut = publish_trail(trail, tmp_path / "to", "delimited", content="row")

    assert (cut.transactions, cut.operations) == (len(TRANSACTIONS) - 1, 10)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"content": "row"}, "published with content transaction, not row"),
        ({"missing": "null"}, "published with missing error, not null"),
        ({"tables": "MY.*"}, "published without tables, not with MY"),
    ],
)
def test_a_folder_has_messages_of_one_form(
    trail: Path, tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    publish_trail(trail, tmp_path / "to", "delimited")

    with pytest.raises(StorageError, match=problem):
        publish(trail, tmp_path / "to", options)


def test_another_format_is_named_before_its_options(trail: Path, tmp_path: Path) -> None:
    publish_trail(trail, tmp_path / "to", "json", tables="MY.*")

    with pytest.raises(StorageError, match="published with format json, not debezium"):
        publish_trail(trail, tmp_path / "to", "debezium", tables="MY.*")
    with pytest.raises(StorageError, match=r"published with tables MY\.\*, not without"):
        publish_trail(trail, tmp_path / "to", "json")


def test_a_run_that_wrote_nothing_leaves_the_folder_to_any_form(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", [TRANSACTIONS])
    with pytest.raises(EncodeError):
        publish_trail(trail, tmp_path / "to", "delimited", max_message_bytes=1)

    assert publish_trail(trail, tmp_path / "to", "delimited").operations


def test_a_folder_of_something_else_is_left_alone(trail: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to/notes.txt").write_text("mine")

    with pytest.raises(StorageError, match=r"not empty.*notes\.txt"):
        publish_trail(trail, tmp_path / "to", "delimited")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"content": "both"}, "content must be transaction or row, not 'both'"),
        ({"max_message_bytes": "many"}, "max_message_bytes must be a number above 0, not 'many'"),
        ({"delimiter": ";"}, "the format delimited has no option delimiter"),
        ({"fielddelim": "-"}, "fielddelim is a sign of numbers"),
        ({"fielddelim": "\n"}, "recorddelim and fielddelim are the same"),
        ({"quote": "ab"}, "expected one character"),
        ({"quote": "Q"}, "letter or digit"),
        ({"quote": "«"}, "has 2 bytes in the code page"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    trail: Path, tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        publish(trail, tmp_path / "to", options)


def test_published_files_are_captured_again(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", [TRANSACTIONS])
    publish_trail(trail, tmp_path / "to", "delimited")
    properties = tmp_path / "p.properties"
    properties.write_text(
        f"parser.type=event_publishing\nevent_publishing.sourcedefs={trail}.def\n"
    )

    summary = trailgate.capture_files(tmp_path / "to", tmp_path / "again/ot", properties)
    again = trailgate.capture_files(
        tmp_path / "to", tmp_path / "again/ot", properties, again=True, unordered_ids=True
    )

    assert summary.counts == {ORDERS.name: {"I": 6, "D": 6}}
    assert again.operations == summary.operations
    columns = ("table", "op_type", "op_ts", "after")
    found = trailgate.read_trail(tmp_path / "again/ot").read_all().select(columns)
    assert found.slice(0, 12).equals(trailgate.read_trail(trail).read_all().select(columns))


def test_columns_of_tables_that_nothing_defines_are_numbered(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", [TRANSACTIONS])
    publish_trail(trail, tmp_path / "to", "delimited")
    properties = tmp_path / "p.properties"
    properties.write_text("parser.type=event_publishing\n")

    trailgate.capture_files(tmp_path / "to", tmp_path / "again/ot", properties)

    rows = trailgate.read_trail(tmp_path / "again/ot").read_all().to_pylist()
    assert rows[0]["after"] == [("COL1", "0"), ("COL2", "text")]
    assert len(rows) == 2 * len(TRANSACTIONS)


def test_records_of_different_lengths_need_definitions(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(record(',,"a","b"') + record(',,,"a","b","c"', tx="2"))
    properties = tmp_path / "p.properties"
    properties.write_text("parser.type=event_publishing\n")

    with pytest.raises(DefinitionError, match=r"records of S\.T have 2 columns, and others 3"):
        trailgate.capture_files(tmp_path / "in.txt", tmp_path / "ot", properties)


@pytest.mark.parametrize("together", [True, False])
def test_transactions_that_come_again_are_captured_once(tmp_path: Path, together: bool) -> None:
    one, two, three = (record(f',,"{n}",', tx=f"000{n}", lsn=f"000{n}") for n in (1, 2, 3))
    properties = tmp_path / "p.properties"
    properties.write_text("parser.type=event_publishing\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1").write_bytes(one + two)
    (tmp_path / "in/2").write_bytes(one + two + three)
    first = tmp_path / "in" if together else tmp_path / "in/1"

    summary = trailgate.capture_files(first, tmp_path / "ot", properties)
    if not together:
        summary = trailgate.capture_files(tmp_path / "in", tmp_path / "ot", properties)

    counts = (summary.repeated_operations, summary.skipped_operations)
    assert counts == ((2, 0) if together else (0, 2))
    after = trailgate.read_trail(tmp_path / "ot").read_all()["after"].to_pylist()
    assert [row[0][1] for row in after] == ["1", "2", "3"]


def batches_of(trail: Path) -> list[ChangeBatch]:
    found = find_trail(trail)
    return list(SplitReader(found, TrailSplit(found.begin, found.end, whole=True)).batches())


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=5), max_size=6),
    st.lists(st.integers(1, 4), max_size=8),
)
def test_indicators_fit_what_is_chosen(
    tmp_path_factory: pytest.TempPathFactory, transactions: list[list[bool]], cuts: list[int]
) -> None:
    flags = [flag for own in transactions for flag in own]
    folder = tmp_path_factory.mktemp("trail")
    keys = iter(range(len(flags)))
    trail = write_trail(
        folder / "ot", [[[Op("I", next(keys)) for _ in own] for own in transactions]]
    )
    expected = [
        "W" if kept == 1 else "B" if not i else "E" if i == kept - 1 else "M"
        for kept in map(sum, transactions)
        for i in range(kept)
    ]
    done = 0

    def wanted(batch: ChangeBatch) -> Any:
        nonlocal done
        found = np.array(flags[done : done + batch.rows], bool)
        done += batch.rows
        return found

    chosen, letters = OperationDropper(), ""
    for batch in batches_of(trail):
        begin, sizes = 0, iter(cuts)
        while begin < batch.rows:
            stop = begin + next(sizes, batch.rows)
            rows = np.arange(batch.rows)
            part = batch.where((rows >= begin) & (rows < stop))
            remaining = chosen.take(part, wanted(part))
            letters += bytes(remaining.tx_indicators()).decode()
            begin = stop

    assert letters == "".join(expected)


@pytest.mark.parametrize("name", [None, 5, "", "jso"])
def test_a_format_that_is_none_is_an_option_error(name: Any) -> None:
    with pytest.raises(OptionError, match=f"published in the format {name!r}"):
        publish_options(name, {})


@pytest.mark.parametrize(
    "tables", ["NO.*,MY.ORD*", " NO.* , MY.ORD* ", ["NO.*,MY.ORD*"], ["NO.*", "MY.ORD*"]]
)
def test_a_list_of_patterns_may_be_written_in_each_way(
    tmp_path: Path, tables: str | list[str]
) -> None:
    trail = write_trail(tmp_path / "ot", [[[Op("I", 1, "a"), Op("I", 2, "b", table=NOTES)]]])

    published = publish_trail(trail, tmp_path / "messages", "json", tables=tables)
    read = read_trail(trail, tables=tables).read_all()

    assert published.operations == read.num_rows == 1
    assert published.unmatched == ("NO.*",)


@pytest.mark.parametrize("to", ["http://localhost/orders", "mysql://h/d", "mqtt://h/t"])
def test_an_address_that_is_neither_a_broker_nor_a_store_is_refused(trail: Path, to: str) -> None:
    scheme = to.partition(":")[0]

    with pytest.raises(OptionError, match=f"^{scheme}:// is neither .*kafka://.*s3://"):
        publish_trail(trail, to, "json")


@pytest.mark.parametrize(
    ("form", "named", "problem"),
    [
        ("xml", {"content": "row", "options": {"content": "transaction"}}, "content is set twice"),
        (
            "xml",
            {"max_message_bytes": 9, "options": {"max-message-bytes": "10"}},
            "max_message_bytes is set twice: 9, and '10'",
        ),
        ("xml", {"options": {"queue": "Q"}}, "only schema messages name a queue"),
        ("debezium", {"options": {"placeholder": "x"}}, "but missing is error"),
        ("json", {"options": {"now": "9" * 30}}, "in the years 1 to 9999"),
        ("json", {"options": {"now": 253_402_300_800_000_000}}, "0 is the commit time"),
        ("json", {"file_bytes": 0}, "file_bytes must be a number above 0, not 0"),
        ("json", {"group": "a"}, "a group applies only to brokers"),
    ],
)
def test_contradictions_and_options_without_effect_are_refused(
    trail: Path, tmp_path: Path, form: str, named: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        publish_trail(trail, tmp_path / "to", form, **named)

    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("to", "named", "problem"),
    [
        ("kafka://h:1/q", {"message_per": "line"}, "message_per applies only to files of a folder"),
        ("kafka://h:1/q?tombstones=false", {}, "the format json has no tombstones"),
        ("stomp://h:1/q.${table}", {}, "a queue has all tables .*Only topics of Kafka"),
        ("amqp://h:1/${schema}", {}, "a queue has all tables"),
    ],
)
def test_what_a_broker_cannot_obey_is_refused_before_it_is_asked(
    trail: Path, to: str, named: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        publish_trail(trail, to, "json", **named)


def test_a_trail_may_be_named_by_another_path(
    trail: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ot", "./ot", str(trail), "../" + tmp_path.name + "/ot"):
        publish_trail(name, "to", "json")

    assert len(bodies(tmp_path / "to")) == 12
    status = read_status(find_trail("ot"), "to")
    assert status is not None
    assert (status.source, status.messages) == (str(trail), 12)


def test_the_status_is_refused_for_another_trail(trail: Path, tmp_path: Path) -> None:
    publish_trail(trail, tmp_path / "to", "json")
    other = write_trail(tmp_path / "other", [TRANSACTIONS[:1]])

    with pytest.raises(StorageError, match=f"published from {trail}, not from {other}"):
        read_status(find_trail(other), tmp_path / "to")
    with pytest.raises(OptionError, match="a group applies only to brokers"):
        read_status(find_trail(trail), tmp_path / "to", "a")


def test_a_publication_that_began_at_the_end_is_continued_there(
    trail: Path, tmp_path: Path
) -> None:
    end = find_trail(trail).end
    publish_trail(trail, tmp_path / "to", "json", after=f"{end.number}:{end.offset}")
    later = write_trail(tmp_path / "ot", [TRANSACTIONS[:2], TRANSACTIONS[2:], TRANSACTIONS[:1]])

    assert publish_trail(later, tmp_path / "to", "json").messages == 2


def test_a_position_after_the_published_one_is_not_skipped_to_in_silence(tmp_path: Path) -> None:
    first = publish_trail(write_trail(tmp_path / "ot", [TRANSACTIONS[:2]]), tmp_path / "to", "json")
    later = write_trail(tmp_path / "ot", [TRANSACTIONS[:2], TRANSACTIONS[2:]])
    end = find_trail(later).end

    summary = publish_trail(later, tmp_path / "to", "json", after=f"{end.number}:{end.offset}")
    again = publish_trail(later, tmp_path / "to", "json", after=first.position)

    assert summary.messages == 8
    assert len(summary.notices) == 1
    assert "the publication continues after 0:" in summary.notices[0]
    assert again.notices == ()


def test_a_corrected_start_counts_as_long_as_nothing_is_published(
    trail: Path, tmp_path: Path
) -> None:
    """The first run began too late, and so did a second one that found no transaction that had ended."""
    end = find_trail(trail).end
    whole = publish_trail(trail, tmp_path / "all", "json")
    first = publish_trail(trail, tmp_path / "all2", "json", after="0:0")
    for to in ("same", "later"):
        late = publish_trail(trail, tmp_path / to, "json", after=f"{end.number}:{end.offset}")
        assert late.messages == 0

    corrected = publish_trail(trail, tmp_path / "same", "json", after="0:0")
    again = publish_trail(trail, tmp_path / "later", "json")

    assert corrected.messages == first.messages == whole.messages
    assert bodies(tmp_path / "same") == bodies(tmp_path / "all")
    assert again.messages == 0
