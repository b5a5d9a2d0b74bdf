"""However the input is cut into ranges: the same messages set aside, the same operations captured."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capture_place import QUARANTINE, Place, row
from held_captures import SHOP
from laws import examples
from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureOptions

UNREADABLE = "?"  # as a message's marks: its text is no record
NOT_JSON = "!"  # its line is none
LINES = replace(QUARANTINE, message_per_line=True)


def line_of(number: int, marks: str) -> str:
    """Return a JSON line: a message with one operation for each mark."""
    if marks == NOT_JSON:
        return "no message\n"
    body = "".join(row(10 * number + i, mark) for i, mark in enumerate(marks))
    body = "bad" if marks == UNREADABLE else body
    return json.dumps({"body": body}) + "\n"


def expected_of(messages: list[str]) -> tuple[list[str], list[int]]:
    """Return the names captured and the messages set aside, message by message (decision 0012)."""
    units: list[list[int]] = []
    closed = True
    for number, marks in enumerate(messages):
        if closed or marks[:1] in ("B", "W"):
            units.append([])
        units[-1].append(number)
        closed = marks[-1] in "EW" if marks else closed
    names, aside = [], []
    for unit in units:
        if re.fullmatch("(W|BM*E)*", "".join(messages[number] for number in unit)):
            names += [f"name {10 * n + i}" for n in unit for i in range(len(messages[n]))]
        else:
            aside += unit
    return names, aside


def captured(messages: list[str], split: int) -> tuple[list[str], list[int]]:
    """Return the names captured and the numbers of the messages set aside."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), spanning=True)
        lines = [line_of(number, marks) for number, marks in enumerate(messages)]
        source = place.folder / "in.jsonl"
        source.write_text("".join(lines))
        summary = place.run("ot", replace(QUARANTINE, split_bytes=split), source)
        names = place.names("ot") if summary.operations else []
        held = place.folder / "ot.quarantine.jsonl"
        text = held.read_text() if held.exists() else ""
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    places = [int(json.loads(line)["position"][10:]) for line in text.splitlines()]
    assert len(places) == summary.quarantined
    assert summary.messages == len(messages)
    aside = [starts.index(place) for place in places]
    empty = [at for at, marks in enumerate(messages) if not marks and at not in aside]
    assert summary.skipped_messages == len(empty)
    noted = [note.partition("message at byte ")[2] for note in summary.notes if "empty" in note]
    assert noted == [str(starts[at]) for at in empty[:1]]
    return names, aside


MESSAGES = st.lists(
    st.sampled_from(["W", "B", "M", "E", "BE", "WB", "EB", "EW", "", UNREADABLE, NOT_JSON]),
    min_size=1,
    max_size=9,
)


@settings(max_examples=examples(60), deadline=None)
@example(messages=["W", UNREADABLE, "W"], split=50)
@example(messages=["W", UNREADABLE, "E", "W"], split=50)
@example(messages=["B", UNREADABLE, "W"], split=50)
@example(messages=[NOT_JSON, "W"], split=1)
@given(messages=MESSAGES, split=st.integers(1, 300))
def test_however_ranges_are_cut_the_same_is_captured_and_set_aside(
    messages: list[str], split: int
) -> None:
    assert captured(messages, split) == expected_of(messages)


@pytest.mark.parametrize("split", [1, 30, 1 << 20])
def test_a_finished_transaction_stays_where_the_next_message_is_unreadable(
    tmp_path: Path, split: int
) -> None:
    place = Place(tmp_path, spanning=True)
    lines = tmp_path / "lines.txt"
    lines.write_text("".join([row(0, "W"), "bad\n", row(2, "B"), row(3, "E"), "bad\n", "bad\n"]))

    summary = place.run("ot", replace(LINES, split_bytes=split), lines)

    assert place.names("ot") == ["name 0", "name 2", "name 3"]
    assert (summary.quarantined, summary.transactions) == (3, 2)


@pytest.mark.parametrize("split", [1, 60, 1 << 20])
def test_messages_without_operations_are_counted_once_however_ranges_are_cut(
    tmp_path: Path, split: int
) -> None:
    (tmp_path / "shop.def").write_text(SHOP)
    (tmp_path / "p.properties").write_text(
        "parser.type=json\njson.sourcedefs=shop.def\njson.model=row\n"
    )
    good = '{"table":"OGG.PAIR","op_type":"I","op_ts":"2026-01-01 00:00:00","ID":1}'
    # Neither an empty line nor the newline at the end is a message.
    lines = [good, "", "[]", "  ", "[ ]", good, "\r", "[]", good, ""]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    job = plan_capture(
        load_capture(tmp_path / "p.properties", base=tmp_path),
        tmp_path / "in.txt",
        tmp_path / "ot",
        CaptureOptions(message_per_line=True, split_bytes=split),
    )
    summary = run_local(job)

    assert (summary.messages, summary.operations, summary.skipped_messages) == (7, 3, 4)
    name, first = tmp_path / "in.txt", len(good) + 2
    assert summary.notes == (
        f"1 message contains only blanks and was skipped: {name}, message at byte {first + 3}",
        f"3 messages contain only arrays without elements and were skipped: the first is {name}, message at byte {first}",
    )


def test_an_unreadable_first_message_is_set_aside_behind_an_empty_file(tmp_path: Path) -> None:
    place = Place(tmp_path, spanning=True)
    (place.messages / "a").write_text("")
    (place.messages / "b").write_text("bad\n" + row(1, "W"))

    summary = place.run("ot", replace(LINES, split_bytes=1))

    assert place.names("ot") == ["name 1"]
    assert summary.quarantined == 1


def test_a_run_that_begins_in_no_range_of_its_own_is_read_by_the_one_before(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, spanning=True)
    place.write(row(0, "W"), *["bad\n"] * 100, row(101, "W"))

    summary = place.run("ot", CaptureOptions(on_error="quarantine", split_bytes=40))

    assert place.names("ot") == ["name 0", "name 101"]
    assert summary.quarantined == 100


XML_RULES = """
parser.type=xml
xml.sourcedefs={folder}/orders.def
xml.rules=tx
tx.type=tx
tx.match=/t
tx.txid=@id
tx.subrules=op
op.type=op
op.match=./o
op.schemaandtable="MY.ORDERS"
op.optype=@k
op.timestamp=@ts
op.subrules=one,two
one.type=col
one.match=./ID
one.name="ID"
one.value=./text()
two.type=col
two.match=./NAME
two.name="NAME"
two.value=./text()
"""


@pytest.mark.parametrize("split", [80, 200, 1 << 20])
@pytest.mark.parametrize("bad", ["time", "value", "operation", "text"])
@pytest.mark.parametrize("good", [(), (0,), (5,), (29,), (3, 4, 20)])
def test_ranges_of_bad_xml_messages_are_all_captured(
    tmp_path: Path, bad: str, good: tuple[int, ...], split: int
) -> None:
    place = Place(tmp_path)
    (tmp_path / "p.properties").write_text(XML_RULES.format(folder=tmp_path))
    place.capture = load_capture(tmp_path / "p.properties")
    lines = []
    for number in range(30):
        fault = None if number in good else bad
        operation = "x" if fault == "operation" else "I"
        time = "2020-13-01" if fault == "time" else "2020-01-01"
        value = "12345" if fault == "value" else f"{number:04}"
        text = f'<t id="{number}"><o k="{operation}" ts="{time}"><ID>{value}</ID><NAME>name {number}</NAME></o></t>'
        lines.append(text[:-3] if fault == "text" else text)
    source = tmp_path / "in.txt"
    source.write_text("\n".join(lines) + "\n")

    summary = place.run("ot", replace(LINES, split_bytes=split), source)

    assert (summary.messages, summary.quarantined) == (30, 30 - len(good))
    assert summary.operations == len(good)
    if good:
        assert place.names("ot") == [f"name {number}" for number in good]


@pytest.mark.parametrize("split", [1, 60, 200, 1 << 20])
@pytest.mark.parametrize("letters", ["?--W", "-?-?--WW", "W?----?W-", "??--", "--?"])
def test_an_xml_message_without_operations_is_no_part_of_a_bad_transaction(
    tmp_path: Path, letters: str, split: int
) -> None:
    """Each message is a transaction of its own, or none (-)."""
    place = Place(tmp_path)
    (tmp_path / "p.properties").write_text(XML_RULES.format(folder=tmp_path))
    place.capture = load_capture(tmp_path / "p.properties")
    texts = {
        "W": '<t id="1"><o k="I" ts="2020-01-01"><ID>1</ID><NAME>name</NAME></o></t>',
        "?": '<t id="1"><o k="I" ts="2020-13-01"><ID>1</ID><NAME>name</NAME></o></t>',
        "-": "<heartbeat/>",
    }
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{texts[letter]}\n" for letter in letters))

    summary = place.run("ot", replace(LINES, split_bytes=split, max_bad=2), source)

    found = (summary.operations, summary.quarantined, summary.skipped_messages)
    assert found == (letters.count("W"), letters.count("?"), letters.count("-"))
