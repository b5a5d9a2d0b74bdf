"""Apache Qpid Broker-J, as its package has it, with a configuration of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from brokers.real_brokers import Process, answers, fetched, free_ports, limited_brokers

COORDINATES: Final = "org.apache.qpid:apache-qpid-broker-j:9.2.1:tar.gz:bin"
LOGIN: Final = ("admin", "secret word")
SASL: Final = b"AMQP\x03\x01\x00\x00"
ANY_QUEUE: Final = {
    "pattern": ".*",
    "createdOnPublish": "true",
    "createdOnConsume": "true",
    "nodeType": "queue",
    "attributes": {},
}


def configuration(port: int, folder: Path) -> dict[str, object]:
    """Return a broker with a login, a port of AMQP 1.0, and queues that come when they are used, kept on the disk."""
    host = {
        "type": "DERBY",
        "storePath": str(folder / "store"),
        "nodeAutoCreationPolicies": json.dumps([ANY_QUEUE]),
    }
    return {
        "name": "b1",
        "modelVersion": "9.0",
        "authenticationproviders": [
            {
                "name": "own",
                "type": "Plain",
                "secureOnlyMechanisms": [],
                "users": [{"name": LOGIN[0], "type": "managed", "password": LOGIN[1]}],
            }
        ],
        "ports": [
            {
                "name": "amqp",
                "type": "AMQP",
                "port": str(port),
                "bindingAddress": "127.0.0.1",
                "authenticationProvider": "own",
                "protocols": ["AMQP_1_0"],
                "virtualhostaliases": [
                    {"name": kind, "type": kind} for kind in ("defaultAlias", "hostnameAlias")
                ],
            }
        ],
        "virtualhostnodes": [
            {
                "name": "default",
                "type": "JSON",
                "storePath": str(folder / "node"),
                "defaultVirtualHostNode": "true",
                "virtualHostInitialConfiguration": json.dumps(host),
            }
        ],
    }


class Qpid:
    """A broker; ``amqp`` is its port."""

    def __init__(self, home: Path, folder: Path) -> None:
        (self.amqp,) = free_ports(1)
        first = folder / "first.json"
        first.write_text(json.dumps(configuration(self.amqp, folder)))
        command = [
            "java", "-Xms64m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m", f"-Dqpid.work_dir={folder / 'work'}",
            "-cp", f"{home}/lib/*:{home}/lib/plugins/*", "org.apache.qpid.server.Main",
            "--initial-config-path", first, "--store-type", "JSON", "--store-path", folder / "config.json",
        ]  # fmt: skip
        self.process = Process(command, folder / "log", self._ready)
        self.process.start()

    def _ready(self) -> bool:
        """Return whether the virtual host is open, which is some time after the port is."""
        from proton import ProtonException  # noqa: PLC0415  an extra
        from proton.utils import BlockingConnection  # noqa: PLC0415  as above

        if not answers(self.amqp, SASL, b"AMQP"):
            return False
        user, password = LOGIN
        try:
            BlockingConnection(
                f"amqp://127.0.0.1:{self.amqp}",
                5,
                user=user,
                password=password,
                allowed_mechs="PLAIN",
            ).close()
        except ProtonException:
            return False
        return True

    def address(self, queue: str) -> str:
        return f"amqp://{LOGIN[0]}:{LOGIN[1].replace(' ', '%20')}@127.0.0.1:{self.amqp}/{queue}"


@contextmanager
def running(folder: Path) -> Iterator[Qpid]:
    """Yield a running broker."""
    home = fetched(COORDINATES)
    with limited_brokers():
        broker = Qpid(next(home.glob("*"), home) if not (home / "lib").exists() else home, folder)
        try:
            yield broker
        finally:
            broker.process.stop()
