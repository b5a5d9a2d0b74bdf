"""Repaired messages are those of their trail's quarantine, and of whole transactions."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture_place import Place
from jobs.receive.test_receive_laws import GO, bodies, live, names
from jobs.receive.test_receive_publications import delimited_publications
from laws import examples
from publication_strings import record
from received_messages import ListFeed
from trailgate.capture.capture import Capture
from trailgate.cli.main import run
from trailgate.errors import DecodeError, StorageError, TrailgateError, TransactionError
from trailgate.live.jobs.repaired import RepairSummary, capture_repaired
from trailgate.live.jobs.run import LiveCapture
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.reading.trails import read_trail

GOOD: Final = "I,MY.ORDERS,2026-01-01,{},1,{}"
SENT: Final = bodies([["W"], ["?"], ["W"], ["B"], ["?"], ["E"]])  # all but two are quarantined
IDS: Final = [{"JMSMessageID": f"ID:{number}"} for number in range(len(SENT))]
REPAIRED: Final = {0: GOOD.format("W", "r1"), 2: GOOD.format("M", "r2")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, spanning=True)
    with live(made, ListFeed(SENT, [], IDS)) as running:
        list(running.run())
    return made


def quarantine_of(place: Place) -> Path:
    return place.folder / "live.quarantine.jsonl"


def repaired_rows(place: Place) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in quarantine_of(place).read_text().splitlines()]
    assert len(rows) == 4
    return [row | ({"body": REPAIRED[at]} if at in REPAIRED else {}) for at, row in enumerate(rows)]


def write_rows(place: Place, rows: Sequence[Mapping[str, Any]]) -> str:
    path = place.folder / "fix.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def repair(place: Place, rows: Sequence[Mapping[str, Any]]) -> RepairSummary:
    return capture_repaired(
        place.capture, [write_rows(place, rows)], str(place.folder / "live"), GO.append
    )


OTHERS: Final[Mapping[str, tuple[Callable[[dict[str, Any]], object], str]]] = {
    "a position that is not in the quarantine": (
        lambda row: row.update(position=f"{9999:020}"),
        "the trail's quarantine has no message at position 0{16}9999",
    ),
    "the position of a message that is in the trail": (
        lambda row: row.update(position=f"{2000:020}"),
        "the trail's quarantine has no message at position 0{16}2000",
    ),
    "another source": (
        lambda row: row.update(source="stomp://other/q"),
        "was received from stomp://other/q, but the one at position .* from list",
    ),
    "no source": (lambda row: row.pop("source"), "has no source, which at position .* is list"),
    "another message id": (
        lambda row: row["headers"].update(JMSMessageID="ID:other"),
        "has the id ID:other, but the one at position .* ID:1",
    ),
}


@pytest.mark.parametrize("case", [*OTHERS])
def test_a_line_that_is_not_in_the_quarantine_is_refused(place: Place, case: str) -> None:
    change, problem = OTHERS[case]
    before, rows = names(place, "live"), repaired_rows(place)
    change(rows[0])
    with pytest.raises(DecodeError, match=problem) as raised:
        repair(place, [rows[3], rows[0]])

    where = raised.value.where
    assert (where.source, where.line) == (str(place.folder / "fix.jsonl"), 2)
    assert "live.quarantine.jsonl" in raised.value.hint
    assert names(place, "live") == before
    assert repair(place, repaired_rows(place)).messages == 4


def test_a_line_of_another_trail_is_refused_although_its_position_was_captured(
    place: Place,
) -> None:
    rows = repaired_rows(place)
    assert repair(place, rows).messages == 4
    with pytest.raises(DecodeError, match="was received from another"):
        repair(place, [rows[0] | {"source": "another"}])


def test_headers_may_be_repaired_too(place: Place) -> None:
    rows = repaired_rows(place)
    rows[0]["headers"] = {"more": "1"}

    assert repair(place, rows).messages == 4


CHANGES: Final[Mapping[str, tuple[Callable[[Path], object], str]]] = {
    "deleted": (Path.unlink, "the quarantine has 0 bytes, but the trail's last commit states"),
    "cut off": (
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        "bytes, but the trail's last commit states",
    ),
    "replaced by a longer one": (
        lambda path: path.write_bytes(path.read_bytes().replace(b"bad", b"repaired")),
        "the quarantine was changed: the line is not JSON",
    ),
}


@pytest.mark.parametrize("case", [*CHANGES])
def test_a_quarantine_that_was_changed_is_named_and_can_be_restored(
    place: Place, case: str
) -> None:
    change, problem = CHANGES[case]
    path, rows = quarantine_of(place), repaired_rows(place)
    data = path.read_bytes()
    change(path)
    with pytest.raises(StorageError, match=problem) as raised:
        repair(place, rows)
    path.write_bytes(data)

    assert raised.value.where.source == str(path)
    assert raised.value.hint.startswith("Restore the file")
    assert repair(place, rows).messages == 4


def test_lines_after_the_last_commit_are_not_in_the_quarantine(place: Place) -> None:
    path, rows = quarantine_of(place), repaired_rows(place)
    added = rows[0] | {"position": f"{9000:020}"}
    path.write_text(path.read_text() + json.dumps(added) + "\n")
    with pytest.raises(DecodeError, match="no message at position"):
        repair(place, [added])

    assert repair(place, rows).messages == 4


# The lines that are passed, and the number of the line that is missed, or None. Line 1 is a
# transaction, and lines 2 to 4 are another one.
PARTS: Final = [
    ([1], None),
    ([2, 3, 4], None),
    ([4, 2, 3], None),
    ([4, 1, 2, 3], None),
    ([2, 4], 3),
    ([4, 2], 3),
    ([1, 2, 4], 3),
    ([2, 3], 4),
    ([3, 4], 2),
    ([3], 2),
    ([2, 2, 4, 4], 3),
]


@pytest.mark.parametrize(("passed", "missing"), PARTS)
def test_a_part_of_a_transaction_is_refused(
    place: Place, passed: list[int], missing: int | None
) -> None:
    before, rows = names(place, "live"), repaired_rows(place)
    own = [rows[number - 1] for number in passed]
    if missing is None:
        assert repair(place, own).messages == len(own)
    else:
        position = rows[missing - 1]["position"]
        problem = f"a message of its transaction is missing: position {position}, which is line {missing} of .*live.quarantine.jsonl"
        with pytest.raises(TransactionError, match=problem):
            repair(place, own)
        assert names(place, "live") == before
    repair(place, rows)

    added = [("r1", "W"), ("2", "B"), ("r2", "M"), ("3", "E")]
    assert sorted(names(place, "live")) == sorted([*before, *added])


def test_a_message_whose_body_is_emptied_is_omitted(place: Place) -> None:
    before, rows = names(place, "live"), repaired_rows(place)
    rows[2]["body"] = ""
    assert repair(place, rows[2:3]).messages == 1  # alone, since it has no operations
    assert repair(place, [rows[1], rows[3]]).messages == 2

    assert names(place, "live") == [*before, ("2", "B"), ("3", "E")]


def test_a_message_that_is_still_bad_is_named_before_one_that_is_missing(place: Place) -> None:
    rows = repaired_rows(place)
    with pytest.raises(TrailgateError) as raised:
        repair(place, [rows[1], rows[2] | {"body": "bad"}])

    assert not isinstance(raised.value, TransactionError)
    assert raised.value.where.line == 2


Operations = list[tuple[str, str, str]]  # the transaction, the indicator and the name of each


@dataclass(frozen=True)
class Kind:
    """A kind of messages: its capture, the body of some operations, and bodies that are bad."""

    capture: Callable[[Path], Capture]
    body: Callable[[Operations], str]
    bad: tuple[Callable[[Operations], str], ...]


def _published(operations: Operations) -> str:
    return b"".join(record(f',,"{name}",', tx=f"{tx:>04}") for tx, _, name in operations).decode()


KINDS: Final = {
    "indicators": Kind(
        lambda folder: Place(folder, spanning=True).capture,
        lambda some: "\n".join(GOOD.format(own, name) for _, own, name in some),
        (
            lambda _: "bad",
            lambda some: "\n".join(GOOD.format(own, name) for _, own, name in some) + ",more,more",
        ),
    ),
    "ids": Kind(
        lambda _: delimited_publications(),
        _published,
        (lambda _: "bad", lambda some: _published(some).replace(",,", ",,,,,,,")),
    ),
}


def received(folder: Path, capture: Capture, feed: ListFeed) -> Iterator[object]:
    prefix = str(folder / "live")
    with TrailAppender(prefix, capture.definitions, GO.append) as appender, closing(feed):
        yield from LiveCapture(capture, feed, appender, prefix, GO).run()


def transactions_of(folder: Path) -> list[list[str]]:
    """Return the names of the operations of each transaction in the trail."""
    if not [*folder.glob("live000*")]:
        return []
    found: list[list[str]] = []
    for batch in read_trail(folder / "live"):
        for after, own in zip(batch["after"].to_pylist(), batch["tx_ind"].to_pylist(), strict=True):
            if own in "BW":
                found.append([])
            image = dict(after)
            found[-1].append(image.get("NAME") or image["K"])
    return found


@st.composite
def sent_messages(draw: st.DrawFn) -> list[tuple[Operations, int | None]]:
    """Return messages: the operations of each, and which kind of bad body it has, if any."""
    operations: Operations = []
    for tx, size in enumerate(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)), 1):
        letters = "W" if size == 1 else "B" + "M" * (size - 2) + "E"
        operations += [(str(tx), own, f"n{tx}.{at}") for at, own in enumerate(letters)]
    messages = []
    while operations:
        size = draw(st.sampled_from([1, 1, 1, 2, 3]))
        part, operations = operations[:size], operations[size:]
        messages.append((part, draw(st.sampled_from([None, 0, 1]))))
    return messages


@pytest.mark.parametrize("kind", [*KINDS])
@settings(max_examples=examples(60), suppress_health_check=[*HealthCheck])
@given(st.data())
def test_whatever_is_repaired_first_every_transaction_is_whole_in_the_end(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    own, folder = KINDS[kind], tmp_path_factory.mktemp("parts")
    capture, sent = own.capture(folder), data.draw(sent_messages())
    # Of a transaction that is known by its id, only the next one shows the end.
    ends: list[Operations] = [[(tx, "W", "last")] for tx in ("9998", "9999")]
    feed = [own.body(some) if bad is None else own.bad[bad](some) for some, bad in sent]
    list(received(folder, capture, ListFeed([*feed, *map(own.body, ends)], [])))
    path = folder / "live.quarantine.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for line in lines:
        number = int(line["position"]) // 1000
        line["body"] = own.body([*(some for some, _ in sent), *ends][number])

    def passed(rows: Sequence[Mapping[str, Any]]) -> None:
        fix = folder / "fix.jsonl"
        fix.write_text("".join(json.dumps(row) + "\n" for row in rows))
        capture_repaired(capture, [str(fix)], str(folder / "live"), GO.append)

    whole = [
        [name for _, _, name in some]
        for _, some in groupby((one for some, _ in sent for one in some), lambda one: one[0])
    ]
    for chosen in data.draw(st.lists(st.sets(st.sampled_from(range(len(lines) or 1))), max_size=3)):
        with suppress(TrailgateError):
            passed([lines[at] for at in chosen if lines])
        assert all(found in [*whole, ["last"]] for found in transactions_of(folder))
    passed(lines)

    found = [own for own in transactions_of(folder) if own != ["last"]]
    assert sorted(found) == sorted(whole)


def on_command_line(place: Place, *arguments: str) -> int:
    own = ["--properties", str(place.folder / "p.properties"), "--to", str(place.folder / "live")]
    return run(["capture", *own, *arguments])


# How the repaired lines are passed, whose text is in a file ``fix.jsonl``.
SOURCES: Final[Mapping[str, Callable[[Path], str]]] = {
    "a file": str,
    "a file of another name": lambda path: str(path.rename(path.with_suffix(".txt"))),
    "standard input": lambda _: "-",
    "standard input with its form": lambda _: "-.jsonl",
    "a pattern": lambda path: str(path.with_name("fi*.jsonl")),
    "a folder": lambda path: str(path.rename(_made(path.parent / "fixes") / path.name).parent),
    "a compressed file": lambda path: str(_compressed(path)),
}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _compressed(path: Path) -> Path:
    packed = path.with_name("fix.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


@pytest.mark.parametrize("case", [*SOURCES])
def test_repaired_messages_are_passed_as_messages_are(
    place: Place, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(write_rows(place, repaired_rows(place)))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))

    assert on_command_line(place, "--from", SOURCES[case](path)) == 0
    assert len(names(place, "live")) == 2 + 4


@pytest.mark.parametrize(
    "options",
    [
        ["--max-bad", "1"],
        ["--on-error", "quarantine"],
        ["--on-error", "quarantine", "--max-bad", "1"],
        ["--dry-run"],
        ["--again"],
        ["--master", "local[1]"],
        ["--threads", "2"],
        ["--message-per", "line"],
        ["--unordered-ids"],
        ["--remember-ids", "20000"],
    ],
    ids=" ".join,
)
def test_an_option_without_effect_on_repaired_messages_is_refused(
    place: Place, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(place, repaired_rows(place))
    assert on_command_line(place, "--from", path, *options) == 2

    error = capsys.readouterr().err
    assert any(f"error: {name}" in error for name in options)
    assert "cannot be used with the trail of a live capture. Repaired messages are added" in error
    assert len(names(place, "live")) == 2
