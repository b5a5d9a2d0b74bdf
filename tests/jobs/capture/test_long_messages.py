"""A file that is one long XML message is captured part by part, as it would be whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from capture_place import DEFINITIONS, QUARANTINE
from trailgate.errors import DecodeError
from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.storage.reading.trails import read_trail

PROPERTIES = """\
parser.type=xml
xml.sourcedefs={folder}/orders.def
xml.rules=t
t.type=tx
t.match=/feed/t
t.timestamp=../@day
t.timestamp.format=YYYY-MM-DD
t.subrules=o
o.type=op
o.match=./o
o.schemaandtable="MY.ORDERS"
o.optype="I"
o.subrules=i,n
i.type=col
i.name="ID"
i.value=@id
n.type=col
n.match=./name
n.name="NAME"
n.value=text()
"""
GOOD = [f'<t><o id="{n}"><name>one {n}</name></o><o id="{n + 1}"/></t>' for n in (1, 3, 5)]
BAD = '<t><o id="12345"><name>x</name></o></t>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.def").write_text(DEFINITIONS)
    (tmp_path / "p.properties").write_text(PROPERTIES.format(folder=tmp_path))
    return tmp_path


def job(folder: Path, text: str, target: str, cut_from: int) -> CaptureJob:
    """Return a job over one message; one of more than ``cut_from`` bytes is cut."""
    (folder / "feed.xml").write_text(text)
    capture = load_capture(folder / "p.properties")
    options: CaptureOptions = QUARANTINE
    prepared = plan_capture(capture, folder / "feed.xml", folder / target, options)
    return replace(prepared, source=replace(prepared.source, cut_from=cut_from))


def document(*transactions: str) -> str:
    return f'<feed day="2020-01-02">\n{"".join(transactions)}</feed>\n'


def test_the_trail_is_that_of_the_whole_message(folder: Path) -> None:
    text = document(*GOOD)

    summaries = [
        run_local(job(folder, text, target, cut_from))
        for target, cut_from in (("aa", 1 << 20), ("bb", 10))
    ]

    whole, cut = (read_trail(folder / target).read_all() for target in ("aa", "bb"))
    assert whole.num_rows == 6
    assert cut.equals(whole)
    assert [summary.messages for summary in summaries] == [1, 3]
    assert [summary.transactions for summary in summaries] == [3, 3]


def test_a_bad_transaction_is_quarantined_alone_with_its_place(folder: Path) -> None:
    text = document(GOOD[0], BAD, GOOD[1])

    summary = run_local(job(folder, text, "aa", 10))

    assert (summary.operations, summary.quarantined) == (4, 1)
    (line,) = (folder / "aa.quarantine.jsonl").read_text().splitlines()
    held = json.loads(line)
    assert held["body"] == f'<feed day="2020-01-02">{BAD}</feed>'
    assert f"byte {text.index(BAD) + len('<t>')}," in held["reason"]


def test_the_quarantined_transaction_is_a_message_of_the_same_rules(folder: Path) -> None:
    run_local(job(folder, document(GOOD[0], BAD), "aa", 10))
    (line,) = (folder / "aa.quarantine.jsonl").read_text().splitlines()
    mended = json.loads(line)["body"].replace("12345", "9")

    assert run_local(job(folder, mended, "aa", 1 << 20)).operations == 1


def test_a_message_that_is_not_well_formed_is_refused_whole(folder: Path) -> None:
    text = document(*GOOD).replace("</feed>", "</fed>")

    with pytest.raises(DecodeError) as caught:
        run_local(job(folder, text, "aa", 10))

    where = caught.value.where
    assert (where.line, where.offset) == (2, text.index("</fed>") + 2)
    assert not list(folder.glob("aa0*"))


def test_rules_that_need_the_whole_message_are_the_reason_that_it_is_too_long(folder: Path) -> None:
    properties = folder / "p.properties"
    properties.write_text(properties.read_text().replace("/feed/t", "/feed/t[1]"))
    long = job(folder, document(*GOOD), "aa", 10)

    assert run_local(long).operations == 2
    with pytest.raises(DecodeError, match="It cannot be cut: the match of t counts elements"):
        run_local(replace(long, source=replace(long.source, longest=20)))


def test_a_message_without_transactions_is_noted_as_a_short_one_is(folder: Path) -> None:
    text = f'<?xml version="1.0"?><!-- <a> --><feed day="2020-01-02">{"<other/>" * 9}</feed>'

    summaries = [
        run_local(job(folder, text, target, cut_from))
        for target, cut_from in (("aa", 1 << 20), ("bb", 10))
    ]

    for summary in summaries:
        assert (summary.messages, summary.operations, summary.skipped_messages) == (1, 0, 1)
    short, long = (
        [note for note in summary.notes if "matches no rule" in note] for summary in summaries
    )
    assert short == long
    assert len(long) == 1
