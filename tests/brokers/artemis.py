"""Apache ActiveMQ Artemis, as its package has it, in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from brokers.real_brokers import Process, answers, fetched, free_ports, limited_brokers, run
from brokers.stomp_sender import Sender

COORDINATES: Final = "org.apache.activemq:apache-artemis:2.44.0:tar.gz:bin"
LOGIN: Final = ("admin", "secret word")
CONNECT: Final = (
    f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{LOGIN[0]}\npasscode:{LOGIN[1]}\n\n\0".encode()
)


EXCLUSIVE: Final = """
<address-setting match="killed.#"><default-exclusive-queue>true</default-exclusive-queue></address-setting>
"""
SELDOM: Final = "seldom"  # the group whose restart message is delivered three times at most
DELIVERED: Final = f"""
<address-setting match="trailgate.restart.{SELDOM}"><max-delivery-attempts>3</max-delivery-attempts></address-setting>
"""
ROOM: Final = 200_000  # bytes of an address whose name begins with full
POLICIES: Final = ("BLOCK", "FAIL", "PAGE", "DROP")
LIMITED: Final = "".join(
    f'<address-setting match="full.{policy}.#"><max-size-bytes>{ROOM}</max-size-bytes>'
    f"<address-full-policy>{policy}</address-full-policy></address-setting>\n"
    for policy in POLICIES
)


class Artemis:
    """A broker; ``stomp``, ``amqp`` and ``core`` are its ports. ``acceptors`` are further addresses that it listens at."""

    def __init__(self, home: Path, folder: Path, acceptors: Sequence[str] = ()) -> None:
        self.core, self.stomp, self.amqp = free_ports(3)
        self.folder = folder / "broker"
        run(
            [
                home / "bin/artemis", "create", self.folder, "--user", LOGIN[0], "--password", LOGIN[1],
                "--require-login", "--host", "127.0.0.1", "--name", "b1", "--silent", "--no-web", "--no-autotune",
                "--default-port", self.core, "--no-mqtt-acceptor", "--no-hornetq-acceptor",
                "--java-options", "-Xms128m -Xmx512m",
            ]
        )  # fmt: skip
        config = self.folder / "etc/broker.xml"
        text = config.read_text()
        text = text.replace(":61613", f":{self.stomp}").replace(":5672", f":{self.amqp}")
        # A consumer that says nothing is given up after seconds, not a minute.
        text = text.replace("protocols=AMQP;", "protocols=AMQP;amqpIdleTimeout=10000;")
        # Else ten deliveries send a message to the dead-letter queue (docs/brokers.md).
        wanted = "<max-delivery-attempts>-1</max-delivery-attempts>"
        text = text.replace('<address-setting match="#">', f'<address-setting match="#">{wanted}')
        listed = (f'<acceptor name="more-{i}">{one}</acceptor>' for i, one in enumerate(acceptors))
        text = text.replace("</acceptors>", f"{''.join(listed)}</acceptors>")
        # A consumer that comes before the broker has noticed that another one is gone waits (docs/brokers.md).
        text = text.replace(
            "<address-settings>", f"<address-settings>{EXCLUSIVE}{DELIVERED}{LIMITED}"
        )
        config.write_text(text)
        self.process = Process([self.folder / "bin/artemis", "run"], folder / "log", self._ready)
        self.process.start()

    def _ready(self) -> bool:
        return answers(self.stomp, CONNECT, b"CONNECTED")

    def address(self, queue: str, scheme: str = "stomp", **options: object) -> str:
        """Return a queue's address."""
        port = {"stomp": self.stomp, "amqp": self.amqp}[scheme]
        asked = "&".join(f"{name.replace('_', '-')}={value}" for name, value in options.items())
        login = f"{LOGIN[0]}:{LOGIN[1].replace(' ', '%20')}"
        return f"{scheme}://{login}@127.0.0.1:{port}/{queue}{'?' if asked else ''}{asked}"

    def tool(self, *arguments: object) -> str:
        """Return what the broker's own command line prints."""
        login = [
            "--url",
            f"tcp://127.0.0.1:{self.core}",
            "--user",
            LOGIN[0],
            "--password",
            LOGIN[1],
        ]
        return run([self.folder / "bin/artemis", *arguments, *login])

    def waiting(self, queue: str) -> int:
        """Return how many messages a queue has, delivered or not."""
        wide = ("--maxColumnSize", -1)  # else names of more than 25 characters are cut
        return messages_in(self.tool("queue", "stat", "--queueName", queue, *wide), queue)

    def produce(self, queue: str, strings: list[str], **properties: str) -> None:
        """Send strings by the broker's own JMS producer."""
        for text in strings:
            self.tool(
                "producer", "--destination", f"queue://{queue}", "--message-count", 1, "--message", text,
                "--properties", json.dumps([_property(item) for item in properties.items()]),
            )  # fmt: skip


def messages_in(printed: str, queue: str) -> int:
    """Return how many messages a queue has, as ``artemis queue stat`` prints it; raises AssertionError for what is no such table.

    A queue that is not listed has none: an empty one that was made for a message is removed with its last consumer.
    """
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in printed.splitlines()
        if line.startswith("|")
    ]
    assert rows, printed
    assert rows[0][0] == "NAME", printed
    # A heading has two lines, as MESSAGE and COUNT; earlier versions print MESSAGE_COUNT.
    below = rows[1] if len(rows) > 1 and not rows[1][0] else [""] * len(rows[0])
    heads = [f"{one}_{more}".strip("_") for one, more in zip(rows[0], below, strict=True)]
    count = heads.index("MESSAGE_COUNT")
    return sum(int(row[count]) for row in rows if row[0] == queue)


def sent(broker: Artemis, queue: str, bodies: list[str], scheme: str = "stomp") -> None:
    """Send by a protocol's own sender: over AMQP only what has a JMS id can be received."""
    if scheme == "amqp":
        from brokers.amqp_sender import send  # noqa: PLC0415  an extra

        send(broker.amqp, LOGIN, queue, bodies)
        return
    sender = Sender(broker.stomp, queue, LOGIN, **{"destination-type": "ANYCAST"})
    sender.send(bodies)
    sender.close()


def _property(item: tuple[str, str]) -> Mapping[str, str]:
    name, value = item
    return {"type": "string", "key": name, "value": value}


@contextmanager
def running(folder: Path, acceptors: Sequence[str] = ()) -> Iterator[Artemis]:
    """Yield a running broker."""
    home = fetched(COORDINATES)
    with limited_brokers():
        broker = Artemis(home, folder, acceptors)
        try:
            yield broker
        finally:
            broker.process.stop()
