"""A REST catalog: the one with which Iceberg tests its own clients, for a catalog in an SQLite file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from brokers.real_brokers import Process, answers, copied_jars, fetched_jars, free_ports

# The classes of the server are in a jar of Iceberg's tests, which later versions do not publish.
TESTS: Final = "org.apache.iceberg:iceberg-core:1.9.2:jar:tests"
JARS: Final = (
    "org.apache.iceberg:iceberg-core:1.9.2",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.0.22",
    "org.xerial:sqlite-jdbc:3.54.1.0",
    "org.slf4j:slf4j-nop:2.0.17",
)
SOURCE: Final = Path(__file__).with_name("RestCatalog.java")
CONFIG: Final = b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class RestCatalog:
    """The server, with a catalog and a warehouse in a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("javac") is None:
            pytest.skip("no REST catalog: the program javac is not installed")
        path = f"{fetched_jars(*JARS)}/*:{copied_jars(TESTS)}/*"
        (self.port,) = free_ports(1)
        # A warehouse without a scheme: this FileIO knows only paths.
        words = [self.port, folder / "rest.db", folder / "rest"]
        self.process = Process(
            ["java", "-Xmx256m", "-cp", path, SOURCE, *words], folder / "log", self._ready
        )
        self.process.start()

    def _ready(self) -> bool:
        return answers(self.port, CONFIG, b" 200 ")

    @property
    def properties(self) -> dict[str, str]:
        """Return the catalog as pyiceberg's configuration names it."""
        return {"type": "rest", "uri": f"http://127.0.0.1:{self.port}"}
