"""How long a broker that does not answer is tried: for ever by a receiver that lasts, else for a stated time."""

from __future__ import annotations

import math
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.live_place import LivePlace
from brokers.receivers import PATIENCE
from laws import one_of
from trailgate.errors import BrokerError, BrokerRefusedError
from trailgate.jobs.retries import Backoff

STEPS = st.lists(st.tuples(st.sampled_from(["failed", "reached"]), st.floats(0, 20)), max_size=12)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


@given(STEPS, st.booleans())
def test_a_broker_is_tried_for_as_long_as_it_was_not_reached(
    steps: list[tuple[str, float]], lasting: bool
) -> None:
    now = end = 0.0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("trailgate.jobs.retries.time.monotonic", lambda: now)
        tried = Backoff(30, lasting=lasting)
        end = 30.0
        reached = False
        for step, seconds in steps:
            now += seconds
            if step == "reached":
                tried.record_answer()
                reached, end = True, math.inf
                continue
            if reached and not lasting:
                end = min(end, now + 30)
            if now > end:
                with pytest.raises(BrokerError):
                    tried.record_failure(BrokerError("x"))
                return
            tried.record_failure(BrokerError("x"))


def test_a_refused_request_is_not_retried() -> None:
    with pytest.raises(BrokerRefusedError):
        Backoff().record_failure(BrokerRefusedError("x"))


@pytest.mark.parametrize("scheme", one_of(["stomp", "amqp", "kafka"], "nothing answers"))
def test_a_run_gives_up_with_the_reason_where_nothing_answers(
    place: LivePlace, scheme: str
) -> None:
    pytest.importorskip(
        {"stomp": "trailgate", "amqp": "proton", "kafka": "confluent_kafka"}[scheme]
    )
    with socket.socket() as taken:  # nobody listens there
        taken.bind(("127.0.0.1", 0))
        address = f"{scheme}://127.0.0.1:{taken.getsockname()[1]}/q?patience=1"
        process = place.start("--from", address, output=subprocess.DEVNULL)
        assert process.wait(PATIENCE) == 1

    last = place.log.read_text().splitlines()[-1]
    assert last.startswith("error: the broker cannot be reached: ")
    assert "refused" in last


def test_an_error_of_kafkas_library_is_one_line(place: LivePlace) -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    address = "kafka://u:p@127.0.0.1:1/q?mechanism=NONE"
    process = place.start("--from", address, output=subprocess.DEVNULL)

    assert process.wait(PATIENCE) == 2
    (line,) = place.log.read_text().splitlines()
    assert line.startswith("error: Kafka's library refuses the address: ")
    assert "NONE" in line


def test_a_protocol_with_a_mistake_is_not_taken_for_a_file(place: LivePlace) -> None:
    process = place.start("--from", "stmp://h/q", "--follow", output=subprocess.DEVNULL)

    assert process.wait(PATIENCE) == 2
    assert "Did you mean stomp?" in place.log.read_text()


def test_a_lost_connection_is_followed_by_a_pause() -> None:
    """A broker needs it to put the messages of a lost consumer back, also if it knows of the loss."""
    tried = Backoff(first=30.0)
    tried.record_answer()
    before = time.monotonic()
    tried.record_loss(0.0)

    assert tried.due >= before + 30.0
    assert not tried.is_due(before)
