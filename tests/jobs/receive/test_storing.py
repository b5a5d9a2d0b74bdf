"""Messages that a thread stores: those that were sent before are left out, also after a start."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from received_messages import ListReceiver, received
from trailgate.errors import TrailgateError
from trailgate.live.files.journal_writer import Journal, JournalOptions
from trailgate.live.jobs.storing_receiver import StoringReceiver
from trailgate.messages.message_ids import MessageIdRule

SMALL = JournalOptions(segment_bytes=1)
Sent = tuple[int, str]  # id, body


def store(folder: Path, windows: Sequence[Sequence[Sent]], first: int = 0) -> list[int]:
    """Receive windows of messages, and remove all that is stored; return the windows that were acknowledged."""
    batches = []
    for window in windows:
        ids = [f"broker:{first + at}" for at in range(len(window))]
        headers = [{"Own": f"{own:04}"} for own, _ in window]
        batches.append(received([body for _, body in window], ids, headers))
        first += len(window)
    receiver = ListReceiver(*batches)
    storing = StoringReceiver(receiver, folder, SMALL, MessageIdRule("Own", remembered=50))
    try:
        while not storing.is_quiet(0):
            storing.check()
            time.sleep(0.001)
        storing.release(storing.end)
    finally:
        storing.close()
    storing.check()
    return receiver.acknowledged


def bodies(folder: Path) -> list[str]:
    with Journal(folder) as journal:
        return [
            body.decode()
            for stored in journal.read(journal.first)
            for body in stored.messages["body"].to_pylist()
        ]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_messages_sent_again_are_stored_once_across_starts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], starts: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("j")
    windows: list[list[Sent]] = []
    last = 0
    for more, again in steps:
        new = [(own, f"body {own}") for own in range(last, last + more)]
        last += more
        windows.append([*new, *[(own, f"body {own}") for own in range(last)][-again or last :]])
    first, waiting = 0, []
    for window, start in zip(windows, [*starts[: len(windows) - 1], True], strict=False):
        waiting.append(window)
        if start:
            assert store(folder, waiting, first) == [len(one) for one in waiting]
            first += sum(map(len, waiting))
            waiting = []
    if waiting:
        store(folder, waiting, first)

    assert bodies(folder) == [f"body {own}" for own in range(last)]


def test_an_id_that_is_wrong_stops_after_those_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "trailgate"),
        pytest.raises(TrailgateError, match="0001 was received before with a different body"),
    ):
        store(tmp_path, [[(1, "a"), (1, "a"), (2, "b"), (1, "c"), (3, "d")]])

    assert bodies(tmp_path) == ["a", "b"]
    assert "whose ids (jms.id) were seen before: 1" in caplog.text
