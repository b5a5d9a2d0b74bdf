"""Messages whose ids ``jms.id`` selects, received live: what is sent again is left out and counted, also after a start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_place import Place
from received_messages import ListFeed
from trailgate.errors import TransactionError
from trailgate.jobs.capture.loading import load_capture
from trailgate.live.jobs.run import BatchReport, LiveCapture, ReceiveOptions
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender

STOP = ReceiveOptions("stop", until_empty=True, idle_seconds=0)
GO = ReceiveOptions("quarantine", until_empty=True, idle_seconds=0)
Sent = tuple[str, str, int]  # id, indicator, number


def made(folder: Path) -> Place:
    place = Place(folder, spanning=True)
    properties = folder / "p.properties"
    text = properties.read_text().replace("delim.seqid=*seqid", "delim.seqid=$jmsid")
    properties.write_text(text + "jms.id=Own\n")
    place.capture = load_capture(properties)
    return place


def feed(sent: Sequence[Sent], sizes: Sequence[int] = (), kept: int = 1 << 30) -> ListFeed:
    bodies = [f"I,MY.ORDERS,2026-01-01,{mark},1,{number}" for _, mark, number in sent]
    return ListFeed(bodies, sizes, [{"Own": own} for own, _, _ in sent], kept)


@contextmanager
def live(place: Place, source: ListFeed, options: ReceiveOptions = STOP) -> Iterator[LiveCapture]:
    prefix = str(place.folder / "ot")
    tables = Definitions(tuple(place.capture.definitions), place.capture.definitions.database)
    with TrailAppender(prefix, tables, options.append) as appender:
        yield LiveCapture(place.capture, source, appender, prefix, options)


def run(place: Place, source: ListFeed, options: ReceiveOptions = STOP) -> list[BatchReport]:
    with live(place, source, options) as running:
        return list(running.run())


def test_a_message_that_is_sent_again_is_skipped_and_counted(tmp_path: Path) -> None:
    place = made(tmp_path)
    sent = [
        ("1", "W", 1),
        ("2", "B", 2),
        ("3", "M", 3),
        ("2", "B", 2),
        ("3", "M", 3),
        ("4", "E", 4),
    ]
    (report,) = run(place, feed(sent))

    assert (report.messages, report.operations, report.duplicates, report.number) == (6, 4, 2, 6)
    assert place.names("ot") == ["1", "2", "3", "4"]


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.lists(st.integers(1, 4), max_size=6),
    st.lists(st.integers(1, 3), max_size=3),
    st.sampled_from([0, 1, 100]),
)
def test_starts_in_between_change_nothing_or_stop(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[int],
    sizes: list[int],
    stops: list[int],
    kept: int,
) -> None:
    place = made(tmp_path_factory.mktemp("ids"))
    sent: list[Sent] = []
    for step in steps:  # a step back sends again what was sent before
        begin = max(0, len({own for own, _, _ in sent}) - step // 2)
        sent += [(f"{number:03}", "W", number) for number in range(begin, begin + 2)]
    wanted = sorted({str(number) for _, _, number in sent}, key=int)
    # Without what was before the start, only the last message's id is known then.
    with nullcontext() if kept >= 100 else suppress(TransactionError):
        for stop in stops:
            with live(place, feed(sent, sizes, kept)) as running:
                for _, _report in zip(range(stop), running.run(), strict=False):
                    pass
        run(place, feed(sent, sizes, kept))
    found = place.names("ot") if place.files("ot") else []

    assert found == wanted[: len(found)]
    assert kept < 100 or found == wanted


def test_another_length_stops_and_names_both(tmp_path: Path) -> None:
    place = made(tmp_path)
    with pytest.raises(TransactionError, match="id 10 has 2 characters, but 9 before it has 1"):
        run(place, feed([("9", "W", 9), ("10", "W", 10)], [1, 1]))

    assert place.names("ot") == ["9"]


def test_after_a_start_the_length_and_the_highest_id_are_known(tmp_path: Path) -> None:
    place = made(tmp_path)
    sent = [("8", "W", 8), ("9", "B", 9), ("7", "M", 7)]
    with pytest.raises(TransactionError, match="the message id 7 follows the higher 9"):
        run(place, feed(sent))
    with pytest.raises(TransactionError, match="the message id 7 follows the higher 9"):
        run(place, feed(sent, kept=0))
    with pytest.raises(TransactionError, match="the message id 07 has 2 characters, but 8 before"):
        run(place, feed([("8", "W", 8), ("07", "W", 7)], kept=0))

    assert place.names("ot") == ["8"]


def test_ids_that_fall_are_captured_where_that_is_asked_for(tmp_path: Path) -> None:
    place = made(tmp_path)
    options = ReceiveOptions(until_empty=True, idle_seconds=0, unordered_ids=True)
    (report,) = run(place, feed([("8", "W", 8), ("7", "W", 7), ("8", "W", 8)]), options)

    assert place.names("ot") == ["8", "7"]
    assert report.duplicates == 1


def test_the_ids_of_a_trail_without_repeats_are_those_of_the_messages(tmp_path: Path) -> None:
    place = made(tmp_path)
    sent = [(f"{number:02}", "W", number) for number in range(20)]
    run(place, feed([*sent, *sent], [3] * 20), GO)

    assert place.names("ot") == [str(number) for number in range(20)]
    assert all(int(a) < int(b) for a, b in pairwise(place.names("ot")))
