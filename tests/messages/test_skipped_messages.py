"""Nothing is skipped silently: a message without operations is bad, named by a note of its format, or counted with its reason."""

from __future__ import annotations

import codecs
import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from capture_place import Place, row
from held_captures import messages_of
from messages.test_byte_order_marks import FORMS
from received_messages import ListFeed
from trailgate.cli.main import run
from trailgate.errors import DecodeError
from trailgate.formats.debezium.reader import TOMBSTONES
from trailgate.live.jobs.repaired import capture_repaired
from trailgate.live.jobs.run import BatchReport, LiveCapture, ReceiveOptions
from trailgate.messages.problems import Problem
from trailgate.messages.skipped import SkipReason, add_skipped, count_skipped, skipped_notes
from trailgate.storage.live.appender import TrailAppender

BODIES = (
    b"", b" ", b"\t \n", b"\n", b"\r\n", codecs.BOM_UTF8, codecs.BOM_UTF8 + b" \n", b"\0", b"\x1a",
    b"null", b"{}", b"[]", b" [ ]\n[]", b"[[]]", b"[{}]", b"[null]", b"true", b"0", b'""', b"<a/>",
)  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("body", BODIES)
def test_no_message_is_skipped_silently(name: str, body: bytes) -> None:
    good = FORMS[name].message.encode()

    parsed = FORMS[name].capture().parse(messages_of([good, body, body]))
    alone = FORMS[name].capture().parse(messages_of([body]))

    named = {problem.message for problem in parsed.problems} | set(parsed.skipped.message.tolist())
    assert named == {1, 2} or TOMBSTONES in parsed.notes
    assert not set(parsed.skipped.message) & {problem.message for problem in parsed.problems}
    # Whether a message is bad does not depend on the messages beside it.
    assert bool(alone.problems) == bool(parsed.problems)
    assert len(alone.skipped) == len(parsed.skipped) / 2


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("delimited text", b"", SkipReason.EMPTY),
        ("delimited text", codecs.BOM_UTF8, SkipReason.MARK),
        ("fixed width", b"", SkipReason.EMPTY),
        ("JSON", b"", SkipReason.EMPTY),
        ("JSON", codecs.BOM_UTF8 + b"\n", SkipReason.BLANK),
        ("JSON", b"\r\n", SkipReason.BLANK),
        ("JSON", b"[] []", SkipReason.EMPTY_ARRAY),
        ("change events", b" ", SkipReason.BLANK),
        ("change events", b"[]", SkipReason.EMPTY_ARRAY),
        ("XML", b"<t/>", SkipReason.NO_MATCH),
    ],
)
def test_the_reason_is_named(name: str, body: bytes, reason: SkipReason) -> None:
    skipped = FORMS[name].capture().parse(messages_of([body])).skipped

    assert [*skipped.totals(lambda at: f"message {at}")] == [reason]


@pytest.mark.parametrize("name", ["delimited publications", "XML publications", "XML"])
def test_an_empty_message_is_bad_in_formats_whose_messages_have_content(name: str) -> None:
    (problem,) = FORMS[name].capture().parse(messages_of([b""])).problems

    assert "empty" in str(problem.error)


@pytest.mark.parametrize("name", FORMS)
def test_a_message_that_could_not_be_read_keeps_its_own_error(name: str) -> None:
    fault = DecodeError("a map message has no text")
    messages = messages_of([FORMS[name].message.encode(), b""])

    parsed = FORMS[name].capture().parse(messages, unreadable=[Problem(1, fault)])

    assert [one.error.problem for one in parsed.problems] == [fault.problem]
    assert not len(parsed.skipped)


def test_totals_have_the_first_place_of_each_reason() -> None:
    capture = FORMS["JSON"].capture()
    batches = [[b"[]", b""], [b" ", b"", b""], [b"[]"]]

    found = [capture.parse(messages_of(bodies)).skipped for bodies in batches]
    totals = add_skipped(*(one.totals(partial("{}.{}".format, at)) for at, one in enumerate(found)))

    assert count_skipped(totals) == 6
    assert [*skipped_notes(totals)] == [
        "3 messages are empty and were skipped: the first is 0.1",
        "1 message contains only blanks and was skipped: 1.0",
        "2 messages contain only arrays without elements and were skipped: the first is 0.0",
    ]


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "1 message skipped: it contains no operation"),
        (2, "2 messages skipped: they contain no operation"),
    ],
)
def test_the_sentence_agrees_with_the_number_of_messages(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], count: int, sentence: str
) -> None:
    place = Place(tmp_path)
    (place.messages / "a.jsonl").write_text('{"body":""}\n' * count)

    properties = ["--properties", str(tmp_path / "p.properties")]
    run(["capture", *properties, "--from", str(place.messages), "--to", str(tmp_path / "ot")])

    assert sentence in capfd.readouterr().out.splitlines()


def test_a_capture_states_what_it_skipped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    lines = ['{"body":""}', '{"body":""}']
    (place.messages / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (place.messages / "b").touch()  # its note is the one of empty files

    properties = ["--properties", str(tmp_path / "p.properties")]
    code = run(
        ["capture", *properties, "--from", str(place.messages), "--to", str(tmp_path / "ot")]
    )

    printed = capfd.readouterr()
    assert code == 0
    assert "3 messages skipped: they contain no operation" in printed.out
    notes = [line for line in printed.err.splitlines() if line.startswith("note:")]
    assert [note.replace(f"{place.messages}/", "") for note in notes] == [
        "note: b is empty (0 bytes): was it written completely?",
        "note: 2 messages are empty and were skipped: the first is a.jsonl, message at byte 0",
    ]


@pytest.mark.parametrize("sizes", [[5], [1] * 5])
@pytest.mark.parametrize("until_empty", [True, False])
def test_a_live_capture_counts_them_and_notes_the_first(
    tmp_path: Path, sizes: list[int], caplog: pytest.LogCaptureFixture, *, until_empty: bool
) -> None:
    place = Place(tmp_path)
    mark = codecs.BOM_UTF8
    bodies = [row(1).encode(), mark, row(2).encode(), mark, mark]
    options = ReceiveOptions(until_empty=until_empty, idle_seconds=0)
    feed, prefix = ListFeed(bodies, sizes), str(tmp_path / "live")
    with (
        TrailAppender(prefix, place.capture.definitions, options.append) as appender,
        closing(feed),
    ):
        capture = LiveCapture(place.capture, feed, appender, prefix, options)
        reports: list[BatchReport] = []
        reports.extend(capture.run(lambda: sum(one.messages for one in reports) >= len(bodies)))

    assert sum(report.skipped for report in reports) == 3
    assert sum(report.operations for report in reports) == 2
    (note,) = capture.notes
    assert (
        note
        == "3 messages contain only a byte order mark and were skipped: the first is list, message 1"
    )
    # A capture that follows logs the first one at once, because its end may be days away.
    logged = [one for one in caplog.messages if "skipped" in one]
    assert len(logged) == (0 if until_empty else 1)


def test_repaired_messages_without_operations_are_noted(tmp_path: Path) -> None:
    place = Place(tmp_path)
    options, prefix = (
        ReceiveOptions(on_error="quarantine", until_empty=True),
        str(tmp_path / "live"),
    )
    with (
        TrailAppender(prefix, place.capture.definitions, options.append) as appender,
        closing(ListFeed([row(1), "bad", "bad"], [3])) as feed,
    ):
        list(
            LiveCapture(
                place.capture, feed, appender, prefix, replace(options, idle_seconds=0)
            ).run()
        )
    lines = [json.loads(one) for one in Path(f"{prefix}.quarantine.jsonl").read_text().splitlines()]
    repaired = tmp_path / "repaired.jsonl"
    repaired.write_text("".join(json.dumps(one | {"body": ""}) + "\n" for one in lines))

    summary = capture_repaired(place.capture, [str(repaired)], prefix, options.append)

    assert summary.notes == (
        f"2 messages are empty and were skipped: the first is {repaired}, line 1",
    )


def test_skipped_messages_do_not_hide_that_most_others_are_bad(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    (place.messages / "a.jsonl").write_text('{"body":""}\n' * 9 + '{"body":"bad"}\n')

    properties = ["--properties", str(tmp_path / "p.properties"), "--on-error", "quarantine"]
    code = run(
        ["capture", *properties, "--from", str(place.messages), "--to", str(tmp_path / "ot")]
    )

    assert code == 1
    assert "quarantined: 1 message, which is more than were captured" in capfd.readouterr().out


@pytest.mark.parametrize("sizes", [[5], [1] * 5, [2, 2, 1]])
def test_a_live_capture_skips_what_follows_a_bad_message_that_is_a_transaction(
    tmp_path: Path, sizes: list[int]
) -> None:
    form = FORMS["XML"]
    feed = ListFeed([form.message, "<t>", "<heartbeat/>", "<heartbeat/>", form.message], sizes)
    options = ReceiveOptions(on_error="quarantine", until_empty=True, idle_seconds=0)
    capture, prefix = form.capture(), str(tmp_path / "live")
    with (
        TrailAppender(prefix, capture.definitions, options.append) as appender,
        closing(feed),
    ):
        reports = list(LiveCapture(capture, feed, appender, prefix, options).run())

    found = [(one.operations, one.quarantined, one.skipped) for one in reports]
    assert [sum(counts) for counts in zip(*found, strict=True)] == [2, 1, 2]
