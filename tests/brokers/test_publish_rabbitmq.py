"""Publishing to a real RabbitMQ: each message at least once, in order, and the same message again has the same id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.published import PublishPlace, received
from brokers.rabbitmq import RabbitMQ
from brokers.test_publish_jms import BY_AMQP, TRANSACTIONS, check_groups, check_once
from brokers.test_publish_killed import ROUNDS, kill_at_random
from laws import chance
from sample_trail import write_trail
from trailgate.errors import BrokerError, BrokerRefusedError
from trailgate.publish.job import Publication, PublicationSettings, publish_trail, read_status
from trailgate.publish.senders import confirmed
from trailgate.storage.files.trail_files import find_trail


def to(broker: RabbitMQ, queue: str) -> str:
    return broker.address(queue, "stomp", virtual_host="%2F")


def test_runs_continue(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    check_once(tmp_path / "rabbit", to(rabbitmq, "runs"), to(rabbitmq, "runs"))


def test_the_first_line_states_the_guarantee(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "line", [TRANSACTIONS])
    with PublishPlace(trail) as place:
        for more in ((), ("--follow",)):
            process = place.start("--to", to(rabbitmq, "line"), "--format", "json", *more)
            assert place.wait_for_output(process).startswith("at least once: stomp://")
            place.kill(process)


def test_another_run_of_the_group_is_refused(
    rabbitmq: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmed, "HELD_SECONDS", 1.0)
    trail, address = write_trail(tmp_path / "two", [TRANSACTIONS]), to(rabbitmq, "two")
    with Publication(trail, address, PublicationSettings(format="json")) as first:
        with pytest.raises(BrokerRefusedError, match="another run of the group two publishes"):
            publish_trail(trail, address, "json")
        assert publish_trail(trail, address, "json", group="other").messages == 5
        first.run()

    status = read_status(find_trail(trail), address)
    assert status is not None
    assert (status.position, status.messages) == (first.state.position, 5)
    assert read_status(find_trail(trail), address, "a new one") is None


@pytest.mark.parametrize("group", ["a/b é*>#", "a_b", "x" * 230])
def test_groups_of_any_name_have_positions_of_their_own(
    rabbitmq: RabbitMQ, tmp_path: Path, group: str
) -> None:
    check_groups(tmp_path, to(rabbitmq, "groups"), group)


@pytest.mark.parametrize("scheme", [BY_AMQP])
def test_by_amqp_it_is_refused(rabbitmq: RabbitMQ, tmp_path: Path, scheme: str) -> None:
    trail = write_trail(tmp_path / "refused", [TRANSACTIONS])
    with pytest.raises(BrokerError, match="Publish by STOMP"):
        publish_trail(trail, rabbitmq.address("refused", scheme), "json")


@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_nothing_is_lost(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    address = to(rabbitmq, "killed")
    operations = kill_at_random(
        tmp_path / "killed", rabbitmq, chance("rabbit"), "--to", address, "--format", "json"
    )

    found: dict[str, str] = {}
    for headers, body in received(address, len(operations)):
        known = found.setdefault(headers["amqp-message-id"], body)
        assert known == body
    assert [json.loads(body)["after"]["ID"] for body in found.values()] == [
        op.key for op in operations
    ]
