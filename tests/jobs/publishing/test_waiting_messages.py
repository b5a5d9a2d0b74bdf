"""Messages that wait for the end of their transaction."""

from __future__ import annotations

from pathlib import Path

from sample_trail import NOTES, Op, write_trail
from trailgate.capture.formats import publish_options, writer_for
from trailgate.publish.job import WHOLE_TRAIL, plan_publishing, read_changes
from trailgate.publish.message_origins import OriginFinder
from trailgate.publish.senders.message_buffer import WaitingMessages
from trailgate.publish.senders.sender import OutgoingMessages
from trailgate.storage.files.trail_files import find_trail

TRANSACTIONS = [[Op("I", 1), Op("I", 2, table=NOTES)], [Op("D", 1, ..., "old")]]


def test_a_long_open_transaction_waits_outside_memory(tmp_path: Path) -> None:
    waiting = WaitingMessages(most=100)
    trail = find_trail(write_trail(tmp_path / "open", [TRANSACTIONS]))
    options = publish_options("debezium", {})
    writer, origins = writer_for("debezium", options), OriginFinder(options)
    expected = []
    for _ in range(3):
        for batch in read_changes(trail, plan_publishing(trail, None, WHOLE_TRAIL)):
            messages = writer.write(batch)
            part = OutgoingMessages(messages, origins.find(batch, messages))
            expected.append(part)
            waiting.append(part)

    assert waiting.memory <= 100
    for found, wanted in zip(waiting, expected, strict=True):
        assert found.messages.bodies == wanted.messages.bodies
        assert found.messages.keys == wanted.messages.keys
        assert found.messages.headers == wanted.messages.headers
        assert found.messages.order.tolist() == wanted.messages.order.tolist()
        for name in ("positions", "tables"):
            assert getattr(found.origins, name) == getattr(wanted.origins, name)
        for name in ("op_types", "times", "numbers", "marks"):
            assert getattr(found.origins, name).tolist() == getattr(wanted.origins, name).tolist()
    waiting.clear()
    assert (list(waiting), waiting.count) == ([], 0)
