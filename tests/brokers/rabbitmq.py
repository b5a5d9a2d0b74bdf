"""RabbitMQ, where the system has it installed, in a folder of its own, with STOMP and AMQP 1.0."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from brokers.real_brokers import Process, answers, free_ports, limited_brokers, run

SERVER: Final = Path(
    "/usr/lib/rabbitmq/bin/rabbitmq-server"
)  # the one that does not change the user
CONTROL: Final = "/usr/lib/rabbitmq/bin/rabbitmqctl"
LOGIN: Final = ("guest", "guest")
CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"
PLUGINS: Final = "[rabbitmq_stomp,rabbitmq_amqp1_0].\n"
CONFIG: Final = """\
listeners.tcp.default = 127.0.0.1:{amqp}
stomp.listeners.tcp.default = 127.0.0.1:{stomp}
"""


class RabbitMQ:
    """A broker; ``stomp`` and ``amqp`` are its ports."""

    def __init__(self, folder: Path) -> None:
        self.stomp, self.amqp, nodes, names = free_ports(4)
        (folder / "rabbitmq.conf").write_text(CONFIG.format(amqp=self.amqp, stomp=self.stomp))
        (folder / "plugins").write_text(PLUGINS)
        settings = {
            "HOME": folder,
            "RABBITMQ_NODENAME": f"trailgate{nodes}@localhost",
            "RABBITMQ_DIST_PORT": nodes,
            "RABBITMQ_CONFIG_FILE": folder / "rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": folder / "none",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
            "RABBITMQ_MNESIA_BASE": folder / "data",
            "RABBITMQ_LOG_BASE": folder / "logs",
            "RABBITMQ_PID_FILE": folder / "pid",
            "ERL_EPMD_PORT": names,
            "RUNNING_UNDER_SYSTEMD": 1,  # the process that is started is Erlang's, and is what a kill ends
        }
        environment = [f"{name}={value}" for name, value in settings.items()]
        self._environment, self._node = environment, settings["RABBITMQ_NODENAME"]
        # The names of Erlang's nodes are kept by a process of its own, which is not left behind.
        self._names = Process(["epmd", "-port", names], folder / "names", lambda: True)
        self._names.start()
        command = ["env", *environment, SERVER]
        self.process = Process(command, folder / "log", self._ready)
        self.process.start()

    def _ready(self) -> bool:
        return answers(self.stomp, CONNECT, b"CONNECTED")

    def limit(self, queues: str, most: int, overflow: str) -> None:
        """Limit the length of queues whose names match."""
        policy = json.dumps({"max-length": most, "overflow": overflow})
        control = ["env", *self._environment, CONTROL, "-n", self._node]
        run([*control, "set_policy", f"limited-{overflow}", queues, policy])

    def close(self) -> None:
        """Stop what was started."""
        self.process.stop()
        self._names.stop()

    def address(self, queue: str, scheme: str, **options: str) -> str:
        """Return a queue's address."""
        port = {"stomp": self.stomp, "amqp": self.amqp}[scheme]
        asked = "&".join(f"{name.replace('_', '-')}={text}" for name, text in options.items())
        return f"{scheme}://{':'.join(LOGIN)}@127.0.0.1:{port}/{queue}{'?' if asked else ''}{asked}"


@contextmanager
def running(folder: Path) -> Iterator[RabbitMQ]:
    """Yield a running broker; skips the test where none is installed."""
    if not SERVER.exists() or shutil.which("epmd") is None or not os.access(SERVER, os.X_OK):
        pytest.skip("no broker: rabbitmq-server is not installed")
    with limited_brokers():
        broker = RabbitMQ(folder)
        try:
            yield broker
        finally:
            broker.close()
