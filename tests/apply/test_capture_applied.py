"""A capture that applies what it captures gives the source's rows, however messages come and wherever it is stopped and started again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from apply.bank import rows_of
from apply.naive_batches import TABLE
from apply.sources import TARGETS, tries
from held_captures import EVENTS, SHOP
from laws import chance, examples
from oracles.apply_naive import COLUMNS, Operation, Source
from received_messages import ListFeed
from trailgate import verify_tables
from trailgate.apply.jobs.writing import BatchWriter
from trailgate.cli import companion_apply
from trailgate.cli.main import run
from trailgate.jobs.capture.loading import load_capture
from trailgate.live.commands.output import LiveOutput, print_live
from trailgate.live.jobs.metrics import ReportOptions
from trailgate.live.jobs.run import LiveCapture, ReceiveOptions
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender

PROPERTIES: Final = """\
parser.type=delim
delim.sourcedefs={0}/hr.def
delim.header=optype,table,ts,tx,ind
delim.optype=optype
delim.optype.truncateval=T
delim.schemaandtable=table
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD HH:MI:SS
delim.txid=tx
delim.txind=ind
delim.seqid=*seqid
delim.fielddelim=,
delim.nullindicator=NULL
delim.hasbefores=true
"""
DEFINITIONS: Final = f"""\
Definition for table {TABLE.name}
Record length: 48
Syskey: 0
Columns: 4
ID  134  23  0  0  0 1 0  8  8  8 0 0 0 0 1  0 1 3
A   134  23 12  0  0 1 0  8  8  8 0 0 0 0 1  0 0 3
B   134  23 24  0  0 1 0  8  8  8 0 0 0 0 1  0 0 3
C   134  23 36  0  0 1 0  8  8  8 0 0 0 0 1  0 0 3
End of definition
"""
LIVE: Final = ReceiveOptions("quarantine", until_empty=True, idle_seconds=0)
Row = dict[str, Any]


class KilledError(Exception):
    """The process was killed."""


def records(log: Sequence[Operation]) -> Iterator[tuple[str, str]]:
    """Yield the record of each operation, with its place in its transaction; it has all columns before and after the operation."""
    held: dict[int, list[Row]] = {}  # during a transaction a key may have several rows
    for at, one in enumerate(log):
        begins = not at or log[at - 1].transaction != one.transaction
        ends = at + 1 == len(log) or log[at + 1].transaction != one.transaction
        indicator = {(True, True): "W", (True, False): "B", (False, True): "E"}.get(
            (begins, ends), "M"
        )
        before: Row = {}
        after: Row = {}
        if one.kind == "T":
            held.clear()
        if one.kind in "UKD":
            before = {"id": one.old} | held[one.old].pop(0)
        if one.kind in "IUK":
            values = {name: before.get(name) for name in COLUMNS} | one.logged
            held.setdefault(one.key, []).append(values)
            after = {"id": one.key} | values
        kind = "U" if one.kind == "K" else one.kind
        header = f"{kind},{TABLE.name},2026-01-05 09:00:00,T{one.transaction},{indicator}"
        texts = [_text(image.get(name)) for name in ("id", *COLUMNS) for image in (before, after)]
        yield indicator, ",".join((header, *([] if kind == "T" else texts)))


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value)


def messages(own: random.Random, log: Sequence[Operation], ends: str = "BMEW") -> list[str]:
    """Return messages that are cut at random after records with some indicators, so that transactions may go over several messages."""
    found: list[list[str]] = [[]]
    for indicator, text in records(log):
        found[-1].append(text)
        if indicator in ends and own.random() < 0.6:
            found.append([])
    return ["\n".join(one) for one in found if one]


class Capturing:
    """A folder in which messages are captured and applied."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.to, self.prefix = folder, address.format(folder), str(folder / "ot")
        (folder / "hr.def").write_text(DEFINITIONS)
        self.properties = folder / "p.properties"
        self.properties.write_text(PROPERTIES.format(folder))
        self.capture = load_capture(self.properties)

    def receive(self, bodies: Sequence[str], sizes: Sequence[int]) -> None:
        """Receive messages that were not captured before, and apply them; so many at once."""
        tables = Definitions(tuple(self.capture.definitions), self.capture.definitions.database)
        output = LiveOutput("list", self.prefix, ReportOptions(frozenset()), as_json=True)
        with (
            TrailAppender(self.prefix, tables, LIVE.append) as appender,
            closing(ListFeed(bodies, sizes)) as feed,
            companion_apply.apply_beside(self.prefix, self.to, output) as beside,
        ):
            live = LiveCapture(self.capture, feed, appender, self.prefix, LIVE)
            print_live(live, output, [beside])

    def command(self, source: Path, *more: str) -> int:
        """Run the command on a folder or a file of messages."""
        return run(
            ["capture", "--from", str(source), "--properties", str(self.properties), "--to", self.prefix, "--apply", self.to, *more]
        )  # fmt: skip


@contextmanager
def killed_at(own: random.Random, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill a run before or after one of its commits to the target."""
    left, late = own.randrange(3), own.random() < 0.5
    apply: Callable[..., Any] = BatchWriter._apply

    def dying(self: BatchWriter, *given: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and not late:
            raise KilledError
        report = apply(self, *given)
        if left < 0:
            raise KilledError
        return report

    with monkeypatch.context() as patch:
        patch.setattr(BatchWriter, "_apply", dying)
        yield


@pytest.mark.parametrize("name", TARGETS)
def test_a_live_capture_applies_each_message_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped between messages, and killed at its commits."""
    monkeypatch.setattr(companion_apply, "PAUSE", 0.0)
    address, rows = TARGETS[name]
    kills = number = 0
    # One example may have no kill, by chance.
    while number < tries(name, 5) or not kills:
        number += 1
        assert number < 20
        own = chance(f"captured {name} {number}")
        source = Source(own)
        while not source.rows or len(source.log) < 12:
            source.transaction()
        bodies = messages(own, source.log)
        folder = tmp_path / str(number)
        folder.mkdir()
        place = Capturing(folder, address)
        done = 0
        while done < len(bodies):
            done = min(len(bodies), done + own.randint(1, len(bodies)))
            sizes = [own.randint(1, 3) for _ in bodies]
            if own.random() < 0.7:
                try:
                    with killed_at(own, monkeypatch):
                        place.receive(bodies[:done], sizes)
                except KilledError:
                    kills += 1
                    continue
            else:
                place.receive(bodies[:done], sizes)
        place.receive(bodies, [])
        assert rows(folder) == source.rows, bodies
        assert verify_tables(place.prefix, place.to).is_equal


def test_captured_files_are_applied_once(tmp_path: Path) -> None:
    """The command is repeated, with and without further messages."""
    address, rows = TARGETS["duckdb"]
    for number in range(examples(3)):
        own = chance(f"captured files {number}")
        source = Source(own)
        while not source.rows or len(source.log) < 12:
            source.transaction()
        folder = tmp_path / str(number)
        (folder / "in").mkdir(parents=True)
        place = Capturing(folder, address)
        for at, body in enumerate(messages(own, source.log, "EW")):
            (folder / "in" / f"m{at:04}").write_text(body)
            if own.random() < 0.3:
                assert place.command(folder / "in") == 0
        assert place.command(folder / "in") == 0
        assert place.command(folder / "in") == 0
        assert rows(folder) == source.rows


def test_an_array_that_was_not_logged_keeps_the_targets_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debezium writes its placeholder as the only element of the array."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.def").write_text(SHOP)
    (tmp_path / "p.properties").write_text(EVENTS)
    images = [
        ("c", {"ID": 1, "NAME": ["a", "b"], "QTY": 1}),
        ("u", {"ID": 1, "NAME": ["__debezium_unavailable_value"], "QTY": 2}),
    ]
    for number, (op, after) in enumerate(images):
        source = {"schema": "OGG", "table": "ORDERS", "ts_ms": 1, "txId": number}
        event = {"before": None, "after": after, "op": op, "source": source}
        (tmp_path / f"m{number}").write_text(json.dumps(event))
        given = ["--from", f"m{number}", "--properties", "p.properties"]
        assert run(["capture", *given, "--to", "ot", "--apply", "duckdb:x.duckdb"]) == 0

    rows = rows_of(tmp_path / "x.duckdb", "ogg.orders", "id, name, qty")
    assert rows == [(1, '["a", "b"]', 2)]


def test_a_capture_begins_with_messages_that_make_no_trail(tmp_path: Path) -> None:
    """The first message is bad, and the next one does not end its transaction."""
    log = [Operation("I", key, key, dict.fromkeys(COLUMNS, 1), 1) for key in (1, 2)]
    begin, end = (text for _, text in records(log))
    place = Capturing(tmp_path, TARGETS["duckdb"][0])
    place.receive(["bad", begin], [1, 1])
    assert not (tmp_path / "hr.duckdb").exists()
    place.receive(["bad", begin, end], [1, 1])
    assert set(TARGETS["duckdb"][1](tmp_path)) == {1, 2}


def test_files_without_a_good_message_are_not_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Capturing(tmp_path, TARGETS["duckdb"][0])
    (tmp_path / "m1").write_text("bad")
    assert place.command(tmp_path / "m1", "--on-error", "quarantine") == 1
    shown = capsys.readouterr()
    assert "no trail files here" not in shown.err
    assert not (tmp_path / "hr.duckdb").exists()


def test_repaired_messages_are_applied(tmp_path: Path) -> None:
    place = Capturing(tmp_path, TARGETS["duckdb"][0])
    one, two = (
        messages(chance("repaired"), [Operation("I", key, key, dict.fromkeys(COLUMNS, 1), key)])[0]
        for key in (1, 2)
    )
    place.receive([one, two.replace("NULL,2", "NULL,two")], [])
    assert set(TARGETS["duckdb"][1](tmp_path)) == {1}
    bad = (tmp_path / "ot.quarantine.jsonl").read_text()
    (tmp_path / "repaired.jsonl").write_text(bad.replace("NULL,two", "NULL,2"))
    assert place.command(tmp_path / "repaired.jsonl") == 0
    assert set(TARGETS["duckdb"][1](tmp_path)) == {1, 2}
