"""Azurite, Microsoft's own emulator of Blob Storage, from its package for Node, in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from brokers.real_brokers import FETCH_SECONDS, Process, answers, free_ports, run, unpacked

PACKAGE: Final = "azurite@3.37.0"
LENGTHS: Final = Path(__file__).with_name("lengths.cjs")
ACCOUNT, KEY = "trailgateaccount", "a/SECRET+key/SECRET+key/SECRET+keyAAAA=="


def installed() -> Path:
    """Return the program; skips the test where it cannot be had."""
    with unpacked(PACKAGE) as (folder, target):
        if not folder.exists():
            if shutil.which("npm") is None:
                pytest.skip("no server of Azure's protocol: the program npm is not installed")
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", target, PACKAGE]
            target.mkdir(parents=True)
            try:
                run(command, seconds=FETCH_SECONDS)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"no server of Azure's protocol: npm cannot install it: {error}"[:300])
            target.rename(folder)
        return folder / "node_modules/.bin/azurite-blob"


class AzureServer:
    """The server, and how it is reached."""

    kind = "azure"
    secret = "SECRET"
    asking = frozenset({"download_blob", "list_blobs"})

    def __init__(self, folder: Path) -> None:
        program = installed()
        (port,) = free_ports(1)
        self.host = f"127.0.0.1:{port}"
        # The client's version of the protocol is newer than the newest that the emulator knows.
        options = [
            "--inMemoryPersistence",
            "--disableTelemetry",
            "--silent",
            "--skipApiVersionCheck",
        ]
        login = f"AZURITE_ACCOUNTS={ACCOUNT}:{KEY}"
        self._process = Process(
            ["env", login, "node", "-r", LENGTHS, program, "--blobPort", port, *options],
            folder / "log",
            lambda: answers(port, b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.1"),
        )
        self._process.start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find the server."""
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": ACCOUNT,
            "AccountKey": KEY,
            "BlobEndpoint": f"http://{self.host}/{ACCOUNT}",
        }
        joined = "".join(f"{name}={value};" for name, value in parts.items())
        return {"AZURE_STORAGE_CONNECTION_STRING": joined, "NO_PROXY": "127.0.0.1"}

    def url(self, name: str) -> str:
        return f"abfs://{name}@{ACCOUNT}.dfs.core.windows.net"

    def base(self, name: str) -> str:
        return f"abfs://{ACCOUNT}:{quote(KEY, safe='')}@{self.host}/{name}?enable_tls=false"

    def whole_url(self, name: str, key: str) -> str:
        return self.base(name).replace("?", f"/{key}?")

    def create(self, store: Any) -> None:
        store.call("create_container")

    def uploads(self, _: Any) -> list[str]:
        return []  # blocks of nobody are discarded by the store

    def stop(self) -> None:
        """End the server."""
        self._process.stop()
