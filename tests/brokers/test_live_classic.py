"""From a real ActiveMQ Classic to a trail, by the command line."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable

from brokers.classic import LOGIN, Classic
from brokers.live_place import LivePlace, messages, row, transactions
from brokers.receivers import PATIENCE
from brokers.stomp_sender import Sender
from laws import chance


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def test_messages_of_a_jms_client_become_operations_with_their_jms_id(
    classic: Classic, place: LivePlace
) -> None:
    text = place.properties.read_text().replace("delim.seqid=*seqid", "delim.seqid=$jmsid")
    place.properties.write_text(text)
    classic.produce("jms", row(7, "W"))
    place.run("--from", classic.address("jms"))

    assert place.captured() == [(7, "W")]
    assert place.column("csn")[0].startswith("ID:")


def test_ids_of_a_jms_client_of_activemq_have_one_length_and_ascend(
    classic: Classic, place: LivePlace
) -> None:
    text = place.properties.read_text().replace("delim.seqid=*seqid", "delim.seqid=$jmsid")
    place.properties.write_text(text + "jms.id=activemq\n")
    classic.produce("ids", row(7, "W"), count=12)
    reports = place.run("--from", classic.address("ids"))

    ids = place.column("csn")
    assert len(ids) == 12
    assert len({len(own) for own in ids}) == 1
    assert all(a < b for a, b in pairwise(ids))
    assert sum(report["duplicates"] for report in reports) == 0


def test_captured_operations_are_applied_while_the_capture_runs(
    classic: Classic, place: LivePlace
) -> None:
    lake = place.folder / "lake"
    address = classic.address("tables")
    to = ("--apply", f"delta:{lake}")
    process = place.start("--from", address, "--follow", *to, output=subprocess.DEVNULL)

    def rows() -> int:
        found = [one.parent for one in lake.glob("*/*/_delta_log") if "_trailgate" not in one.parts]
        return sum(DeltaTable(one).to_pyarrow_table().num_rows for one in found)

    for count in (1, 2):
        classic.produce("tables", row(count, "W"))
        until = time.monotonic() + PATIENCE
        while rows() < count:
            assert process.poll() is None, place.log.read_text()
            assert time.monotonic() < until
            time.sleep(0.1)
    process.terminate()
    assert process.wait(PATIENCE) == 0, place.log.read_text()
    place.run("--from", address, *to)
    assert rows() == 2


def test_each_operation_is_captured_once_whatever_is_killed(
    classic: Classic, place: LivePlace
) -> None:
    drawn = chance("killed classic")
    wanted = transactions(drawn, 20_000)
    bodies = list(messages(drawn, wanted))
    address = classic.address("killed")
    process = place.start("--from", address, "--follow")
    third = len(bodies) // 3 + 1
    for turn in range(3):
        sender = Sender(classic.stomp, "/queue/killed", LOGIN)
        sender.send(bodies[turn * third : (turn + 1) * third])
        sender.close()
        time.sleep(drawn.uniform(0.0, 2.5))
        if turn == 1:
            classic.process.kill()
            classic.process.start()
        else:
            place.kill(process)
            time.sleep(1)
            process = place.start("--from", address, "--follow")
    place.kill(process)
    place.run_until(20_000, "--from", address)

    assert place.captured() == [one for transaction in wanted for one in transaction]
