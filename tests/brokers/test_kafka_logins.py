"""Logins and encryption of a real Kafka: what is right is captured and sent, what is wrong is one line that says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from brokers import kafka as kafka_broker
from brokers.certificates import STORE_PASSWORD, Certificates
from brokers.kafka import Kafka
from brokers.live_place import LivePlace, row
from brokers.real_brokers import OneBroker, free_ports
from brokers.receivers import PATIENCE
from sample_trail import Op, write_trail
from trailgate.errors import BrokerRefusedError
from trailgate.publish.job import publish_trail

pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
PASSWORD: Final = "secret word"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# With a map of its own, a broker needs the names of all protocols.
MORE: Final = """\
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_me="{password}";
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_me="{password}";
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
ssl.keystore.location={store}
ssl.keystore.password={word}
ssl.keystore.type=PKCS12
"""


class Guarded(NamedTuple):
    """A broker with its ports by security protocol."""

    broker: Kafka
    ports: Mapping[str, int]
    certificates: Certificates

    def address(self, listener: str, topic: str, password: str = "", **options: object) -> str:
        scheme = "kafka+ssl" if listener.endswith("SSL") else "kafka"
        login = f"me:{password.replace(' ', '%20')}@" if password else ""
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{scheme}://{login}127.0.0.1:{self.ports[listener]}/{topic}?{asked}"


@pytest.fixture(scope="module")
def guarded(one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    one_broker.close()
    folder = tmp_path_factory.mktemp("guarded")
    certificates = Certificates(folder)
    names = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
    ports = dict(zip(names, free_ports(3), strict=True))
    more = MORE.format(password=PASSWORD, store=certificates.store, word=STORE_PASSWORD)
    scram = [f"{mechanism}=[name=me,password={PASSWORD}]" for mechanism in SCRAM]
    with kafka_broker.running(folder, ports, more, scram) as broker:
        yield Guarded(broker, ports, certificates)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def test_a_login_and_a_trusted_certificate_are_enough(
    guarded: Guarded, place: LivePlace, listener: str
) -> None:
    topic = listener.lower()
    guarded.broker.create(topic)
    guarded.broker.send(topic, [row(1, "W")])
    files = {"ca": guarded.certificates.ca} if listener.endswith("SSL") else {}
    password = PASSWORD if listener.startswith("SASL") else ""
    place.run("--from", guarded.address(listener, topic, password, **files))

    assert place.captured() == [(1, "W")]


@pytest.mark.parametrize(
    ("listener", "mechanism"), [("SASL_PLAINTEXT", one) for one in SCRAM] + [("SASL_SSL", SCRAM[1])]
)
def test_a_login_by_scram_is_enough(
    guarded: Guarded, place: LivePlace, listener: str, mechanism: str
) -> None:
    topic = f"{listener}.{mechanism}".lower()
    guarded.broker.create(topic)
    guarded.broker.send(topic, [row(1, "W")])
    files = {"ca": guarded.certificates.ca} if listener.endswith("SSL") else {}
    place.run("--from", guarded.address(listener, topic, PASSWORD, mechanism=mechanism, **files))

    assert place.captured() == [(1, "W")]


def test_a_wrong_password_by_scram_ends_the_run_with_one_line(
    guarded: Guarded, place: LivePlace
) -> None:
    address = guarded.address("SASL_PLAINTEXT", "wrong", "guessed", mechanism=SCRAM[0])
    process = place.start("--from", address)

    assert process.wait(PATIENCE) == 1
    (line,) = place.log.read_text().splitlines()
    assert line.startswith("error: ")
    assert "guessed" not in line


WRONG: Final = (
    ("SASL_PLAINTEXT", "guessed", None, "Authentication failed"),
    ("SASL_SSL", "guessed", "ca", "Authentication failed"),
    ("SSL", "", "other", "certificate"),
    ("SSL", "", None, "certificate"),
)


@pytest.mark.parametrize(("listener", "password", "trusted", "text"), WRONG)
def test_an_error_ends_the_run_with_one_line(
    guarded: Guarded,
    place: LivePlace,
    listener: str,
    password: str,
    trusted: str | None,
    text: str,
) -> None:
    files = {} if trusted is None else {"ca": getattr(guarded.certificates, trusted)}
    process = place.start("--from", guarded.address(listener, "wrong", password, **files))

    assert process.wait(PATIENCE) == 1
    lines = place.log.read_text().splitlines()
    assert len(lines) == 1
    assert lines[-1].startswith("error: ")
    assert text in lines[-1]
    assert "guessed" not in place.log.read_text()


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM[1]])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_login_is_enough_to_send(
    guarded: Guarded, tmp_path: Path, listener: str, mechanism: str
) -> None:
    files = {"ca": guarded.certificates.ca} if listener.endswith("SSL") else {}
    topic = f"sent.{listener}.{mechanism}".lower()
    address = guarded.address(listener, topic, PASSWORD, mechanism=mechanism, create="", **files)
    trail = write_trail(tmp_path / topic, [[[Op("I", 1, "one")]]])

    assert publish_trail(trail, address, "json").messages == 1
    assert publish_trail(trail, address, "json").messages == 0


def test_what_is_refused_to_a_receiver_is_refused_to_a_sender(
    guarded: Guarded, tmp_path: Path
) -> None:
    trail = write_trail(tmp_path / "refused", [[[Op("I", 1, "one")]]])
    for listener, password, trusted, text in WRONG:
        files = {} if trusted is None else {"ca": getattr(guarded.certificates, trusted)}
        with pytest.raises(BrokerRefusedError, match=text) as caught:
            publish_trail(trail, guarded.address(listener, "wrong", password, **files), "json")
        assert "guessed" not in str(caught.value)
