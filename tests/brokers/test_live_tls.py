"""Encrypted connections and logins to a real Artemis: what is trusted is captured and sent, all else is one line that says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from brokers import artemis as artemis_broker
from brokers.artemis import LOGIN, Artemis, sent
from brokers.certificates import STORE_PASSWORD, Certificates
from brokers.live_place import LivePlace, row
from brokers.real_brokers import OneBroker, free_ports
from brokers.receivers import PATIENCE
from laws import WHOLE
from sample_trail import Op, write_trail
from trailgate.errors import BrokerRefusedError, OptionError
from trailgate.publish.job import publish_trail

SECURE: Final = {"stomp": "stomp+ssl", "amqp": "amqps"}
BOTH: Final = pytest.mark.parametrize(
    "scheme",
    [
        "stomp",
        pytest.param(
            "amqp",
            marks=pytest.mark.skipif(
                find_spec("proton") is None, reason="AMQP needs the extra amqp"
            ),
        ),
    ],
)


class SecureArtemis:
    """A broker whose ports by protocol and kind are in ``ports``: plain, secure, of another name, asking for a certificate."""

    def __init__(self, certificates: Certificates) -> None:
        names = [(s, kind) for s in SECURE for kind in ("secure", "misnamed", "asking")]
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.certificates = certificates
        self.broker: Artemis | None = None

    @property
    def acceptors(self) -> list[str]:
        return [
            f"tcp://127.0.0.1:{port}?protocols={scheme.upper()};sslEnabled=true;{self._stores(kind)}"
            for (scheme, kind), port in self.ports.items()
        ]

    def _stores(self, kind: str) -> str:
        own = self.certificates.misnamed if kind == "misnamed" else self.certificates.store
        word = STORE_PASSWORD.replace(" ", "%20")
        text = f"keyStorePath={own};keyStorePassword={word};keyStoreType=PKCS12"
        if kind == "asking":
            trust = self.certificates.trust
            text += f";needClientAuth=true;trustStorePath={trust};trustStorePassword={word};trustStoreType=PKCS12"
        return text

    def address(self, scheme: str, kind: str, queue: str, **options: object) -> str:
        login = f"{LOGIN[0]}:{LOGIN[1].replace(' ', '%20')}"
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{SECURE[scheme]}://{login}@127.0.0.1:{self.ports[scheme, kind]}/{queue}?{asked}"


@pytest.fixture(scope="module")
def secure(
    one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureArtemis]:
    one_broker.close()
    folder = tmp_path_factory.mktemp("secure")
    found = SecureArtemis(Certificates(folder))
    with artemis_broker.running(folder, found.acceptors) as broker:
        found.broker = broker
        yield found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def refusal(place: LivePlace, address: str, code: int = 1) -> str:
    """Return the one line that a capture ends with."""
    process = place.start("--from", address)
    assert process.wait(PATIENCE) == code
    lines = place.log.read_text().splitlines()
    assert len([line for line in lines if line.startswith("error: ")]) == 1
    assert lines[-1].startswith("error: ")
    assert LOGIN[1] not in place.log.read_text()
    return lines[-1]


@BOTH
@pytest.mark.parametrize("kind", ["secure", "asking"])
def test_a_broker_with_a_certificate_of_the_given_authority_is_trusted(
    secure: SecureArtemis, place: LivePlace, scheme: str, kind: str
) -> None:
    assert secure.broker is not None
    queue, files = f"tls.{scheme}.{kind}", secure.certificates
    sent(secure.broker, queue, [row(1, "W")], scheme)
    own = {"cert": files.client, "key": files.key} if kind == "asking" else {}
    place.run("--from", secure.address(scheme, kind, queue, ca=files.ca, **own))

    assert place.captured() == [(1, "W")]


def wrong(secure: SecureArtemis) -> Mapping[str, tuple[str, dict[str, object], str]]:
    """Return kinds of wrong certificates: the port, the options, and what the error says."""
    files = secure.certificates
    return {
        "unknown": ("secure", {}, "certificate verify failed"),
        "of another authority": ("secure", {"ca": files.other}, "certificate verify failed"),
        "of another name": ("misnamed", {"ca": files.ca}, "certificate verify failed"),
        "none of the client": ("asking", {"ca": files.ca}, "certificate"),
    }


@BOTH
@pytest.mark.parametrize(
    "what",
    [
        "unknown",
        "of another authority",
        "of another name",
        "none of the client",
    ],
)
def test_a_certificate_that_is_not_trusted_ends_the_run_with_one_line(
    secure: SecureArtemis, place: LivePlace, scheme: str, what: str
) -> None:
    kind, options, text = wrong(secure)[what]
    line = refusal(place, secure.address(scheme, kind, "q", **options))

    assert text in line
    assert f"{SECURE[scheme]}://127.0.0.1" in line


def test_a_file_that_is_not_there_is_named(secure: SecureArtemis, place: LivePlace) -> None:
    address = secure.address("stomp", "secure", "q", ca=place.folder / "none")

    assert "none: No such file" in refusal(place, address, code=2)


@BOTH
@pytest.mark.parametrize("encrypted", [True, False])
def test_a_wrong_password_ends_the_run_with_one_line(
    secure: SecureArtemis, place: LivePlace, scheme: str, encrypted: bool
) -> None:
    assert secure.broker is not None
    address = secure.address(scheme, "secure", "q", ca=secure.certificates.ca)
    if not encrypted:
        address = secure.broker.address("q", scheme)
    line = refusal(place, address.replace(LOGIN[1].replace(" ", "%20"), "guessed"))

    assert "guessed" not in line
    assert "the broker refuses the login" in line
    assert place.log.read_text().count("\n") == 1


# By AMQP the broker answers at once that it speaks no other protocol; by STOMP it waits for more, and the run for the broker.
@pytest.mark.parametrize("scheme", ["amqp", *(["stomp"] if WHOLE else [])])
def test_encryption_that_the_broker_does_not_speak_ends_the_run(
    secure: SecureArtemis, place: LivePlace, scheme: str
) -> None:
    assert secure.broker is not None
    address = secure.broker.address("q", scheme).replace(f"{scheme}://", f"{SECURE[scheme]}://")

    assert "no encrypted connection: " in refusal(place, address)


@BOTH
@pytest.mark.parametrize("kind", ["secure", "asking"])
def test_messages_are_sent_to_a_broker_that_is_trusted(
    secure: SecureArtemis, tmp_path: Path, scheme: str, kind: str
) -> None:
    files = secure.certificates
    own = {"cert": files.client, "key": files.key} if kind == "asking" else {}
    address = secure.address(scheme, kind, f"sent.{scheme}.{kind}", ca=files.ca, **own)
    trail = write_trail(tmp_path / f"sent-{scheme}-{kind}", [[[Op("I", 1, "one")]]])

    assert publish_trail(trail, address, "json").messages == 1
    assert publish_trail(trail, address, "json").messages == 0


@BOTH
def test_what_is_refused_to_a_receiver_is_refused_to_a_sender(
    secure: SecureArtemis, tmp_path: Path, scheme: str
) -> None:
    trail = write_trail(tmp_path / "refused", [[[Op("I", 1, "one")]]])
    for kind, options, text in wrong(secure).values():
        with pytest.raises(BrokerRefusedError, match=text) as caught:
            publish_trail(trail, secure.address(scheme, kind, "q", **options), "json")
        assert str(caught.value.where.source).startswith(f"{SECURE[scheme]}://127.0.0.1")

    address = secure.address(scheme, "secure", "q", ca=secure.certificates.ca)
    guessed = address.replace(LOGIN[1].replace(" ", "%20"), "guessed")
    with pytest.raises(BrokerRefusedError, match="the broker refuses the login") as refused:
        publish_trail(trail, guessed, "json")
    assert "guessed" not in str(refused.value)
    with pytest.raises(OptionError, match="none: No such file"):
        publish_trail(trail, secure.address(scheme, "secure", "q", ca=tmp_path / "none"), "json")
