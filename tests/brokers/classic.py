"""Apache ActiveMQ Classic, as its package has it, with a configuration of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from brokers.real_brokers import Process, answers, fetched, free_ports, limited_brokers, run

COORDINATES: Final = "org.apache.activemq:apache-activemq:5.18.3:tar.gz:bin"
LOGIN: Final = ("admin", "secret word")
CONNECT: Final = (
    f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{LOGIN[0]}\npasscode:{LOGIN[1]}\n\n\0".encode()
)
CONFIGURATION: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
  http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="b1" dataDirectory="{data}" useJmx="false">
    <persistenceAdapter><kahaDB directory="{data}/kahadb"/></persistenceAdapter>
    <systemUsage><systemUsage><memoryUsage><memoryUsage limit="256 mb"/></memoryUsage></systemUsage></systemUsage>
    <plugins><simpleAuthenticationPlugin><users>
      <authenticationUser username="{user}" password="{password}" groups="all"/>
    </users></simpleAuthenticationPlugin></plugins>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{core}"/>
      <transportConnector name="amqp" uri="amqp://127.0.0.1:{amqp}?transport.transformer=jms"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
      <transportConnector name="short" uri="stomp://127.0.0.1:{short}?wireFormat.maxDataLength=20000"/>
    </transportConnectors>
  </broker>
</beans>
"""


class Classic:
    """A broker; ``stomp``, ``amqp`` and ``core`` (OpenWire) are its ports, and ``short`` is one by STOMP for short messages."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.core, self.stomp, self.amqp, self.short = free_ports(4)
        config, data = folder / "activemq.xml", folder / "data"
        config.write_text(
            CONFIGURATION.format(
                data=data, core=self.core, amqp=self.amqp, stomp=self.stomp,
                short=self.short, user=LOGIN[0], password=LOGIN[1],
            )
        )  # fmt: skip
        self._java = [
            "java", "-Xms64m", "-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED",
            f"-Dactivemq.home={home}", f"-Dactivemq.base={folder}", f"-Dactivemq.conf={folder}",
            f"-Dactivemq.data={data}", "-cp", f"{home}/lib/*:{home}/lib/optional/*:{home}/lib/extra/*",
            "org.apache.activemq.console.Main",
        ]  # fmt: skip
        command = [*self._java, "start", f"xbean:file:{config}"]
        self.process = Process(command, folder / "log", self._ready)
        self.process.start()

    def _ready(self) -> bool:
        return answers(self.stomp, CONNECT, b"CONNECTED")

    def address(self, queue: str, scheme: str = "stomp") -> str:
        port = {"stomp": self.stomp, "amqp": self.amqp}[scheme]
        return f"{scheme}://{LOGIN[0]}:{LOGIN[1].replace(' ', '%20')}@127.0.0.1:{port}/{queue}"

    def produce(self, queue: str, text: str, count: int = 1) -> None:
        """Send a text by the broker's own JMS producer, over OpenWire."""
        run(
            [
                *self._java, "producer", "--brokerUrl", f"tcp://127.0.0.1:{self.core}", "--user", LOGIN[0],
                "--password", LOGIN[1], "--destination", f"queue://{queue}", "--messageCount", count, "--message", text,
                "--persistent", "true",
            ]
        )  # fmt: skip


@contextmanager
def running(folder: Path) -> Iterator[Classic]:
    """Yield a running broker."""
    home = fetched(COORDINATES)
    with limited_brokers():
        broker = Classic(home, folder)
        try:
            yield broker
        finally:
            broker.process.stop()
