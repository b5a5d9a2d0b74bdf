"""What helpers of these tests read of a server's output: each notices a change, since an assertion on what never changes cannot fail."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Final

import pytest

from brokers.artemis import messages_in
from brokers.live_place import LivePlace
from brokers.real_brokers import answers

# As ``artemis queue stat`` of 2.44 prints it: the widths are those of the longest cells.
SHORT: Final = """\
Connection brokerURL = tcp://127.0.0.1:44843
|NAME              |ADDRESS           |CONSUMER|MESSAGE|MESSAGES|DELIVERING|MESSAGES|SCHEDULED|ROUTING|INTERNAL|
|                  |                  | COUNT  | COUNT | ADDED  |  COUNT   | ACKED  |  COUNT  | TYPE  |        |
|$sys.mqtt.sessions|$sys.mqtt.sessions|   0    |   0   |   0    |    0     |   0    |    0    |ANYCAST|  true  |
|q                 |q                 |   0    |   3   |   7    |    1     |   4    |    0    |ANYCAST| false  |
|q.more            |q.more            |   0    |   5   |   5    |    0     |   0    |    0    |ANYCAST| false  |
"""
EXACT: Final = """\
Connection brokerURL = tcp://127.0.0.1:44843
|NAME   |ADDRESS|CONSUMER|MESSAGE|MESSAGES|DELIVERING|MESSAGES|SCHEDULED|ROUTING|INTERNAL|
|       |       | COUNT  | COUNT | ADDED  |  COUNT   | ACKED  |  COUNT  | TYPE  |        |
|s.trail|s.trail|   0    |  12   |   20   |    0     |   8    |    0    |ANYCAST| false  |
"""
LONG: Final = """\
|NAME                                          |ADDRESS                                       |CONSUMER|MESSAGE|MESSAGES|
|                                              |                                              | COUNT  | COUNT | ADDED  |
|a.queue.with.a.name.of.more.than.25.characters|a.queue.with.a.name.of.more.than.25.characters|   0    |   3   |   3    |
"""


@pytest.mark.parametrize(
    ("printed", "queue", "count"),
    [
        (SHORT, "q", 3),
        (SHORT, "q.more", 5),
        (SHORT, "gone", 0),
        (EXACT, "s.trail", 12),
        (EXACT.replace(" 12 ", "  0 "), "s.trail", 0),
        (EXACT.replace(" 12 ", "  1 "), "s.trail", 1),
        (LONG, "a.queue.with.a.name.of.more.than.25.characters", 3),
    ],
)
def test_the_messages_of_a_queue_are_those_that_artemis_prints(
    printed: str, queue: str, count: int
) -> None:
    assert messages_in(printed, queue) == count


@pytest.mark.parametrize("printed", ["", "Connection brokerURL = tcp://h:1\n", "|q|q|0|3|\n"])
def test_an_output_that_is_no_table_is_not_taken_for_an_empty_queue(printed: str) -> None:
    with pytest.raises(AssertionError):
        messages_in(printed, "q")


@pytest.mark.parametrize(
    ("said", "expected"), [(b"CONNECTED\n", True), (b"ERROR\n", False), (b"", False)]
)
def test_a_broker_is_ready_where_it_answers_as_expected(said: bytes, expected: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            taken, _ = server.accept()
            with taken:
                taken.recv(100)
                taken.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        assert answers(server.getsockname()[1], b"CONNECT", b"CONNECTED") is expected
        thread.join()


def test_waiting_for_a_line_of_the_log_needs_one_more_each_time(tmp_path: Path) -> None:
    place = LivePlace(tmp_path)
    place.log.write_text("receiving from x\n")

    place.wait("receiving from", seconds=0.1)
    with pytest.raises(AssertionError):
        place.wait("receiving from", seconds=0.1)
    place.log.write_text("receiving from x\nreceiving from x\n")
    place.wait("receiving from", seconds=0.1)
