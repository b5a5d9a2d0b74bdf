"""fake-gcs-server, an emulator of Google Cloud Storage, built from its Go module, in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.real_brokers import Process, answers, free_ports, run, unpacked
from trailgate.storage.stores.google import UPLOADS, GoogleRequest

MODULE: Final = (
    "github.com/fsouza/fake-gcs-server@v1.56.1"  # earlier ones ignore conditions of some uploads
)
BUILT_IN: Final = 900  # seconds


def installed() -> Path:
    """Return the program; skips the test where it cannot be had."""
    with unpacked(MODULE.rpartition("/")[2]) as (folder, target):
        if not folder.exists():
            if shutil.which("go") is None:
                pytest.skip("no server of Google's protocol: the program go is not installed")
            target.mkdir(parents=True)
            try:
                run(["env", f"GOBIN={target}", "go", "install", MODULE], seconds=BUILT_IN)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"no server of Google's protocol: Go cannot build it: {error}"[:300])
            target.rename(folder)
        return folder / "fake-gcs-server"


class GoogleServer:
    """The server, and how it is reached."""

    kind = "gs"
    secret = "anonymous@"
    asking = frozenset({"read", "list"})

    def __init__(self, folder: Path) -> None:
        program = installed()
        (port,) = free_ports(1)
        self.host = f"127.0.0.1:{port}"
        options = ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", port]
        names = ["-public-host", self.host, "-external-url", f"http://{self.host}"]
        self._process = Process(
            [program, *options, *names, "-log-level", "error"],
            folder / "log",
            lambda: answers(port, b"GET /storage/v1/b HTTP/1.0\r\n\r\n", b"HTTP/1"),
        )
        self._process.start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find the server."""
        return {"STORAGE_EMULATOR_HOST": f"http://{self.host}"}

    def url(self, name: str) -> str:
        return f"gs://{name}"

    def base(self, name: str) -> str:
        return f"gs://anonymous@{name}?scheme=http&endpoint_override={self.host}"

    def whole_url(self, name: str, key: str) -> str:
        return self.base(name).replace("?", f"/{key}?")

    def create(self, store: Any) -> None:
        body = json.dumps({"name": store.place.bucket}).encode()
        own = {"Content-Type": "application/json"}
        store.call("create", "", GoogleRequest("POST", "/storage/v1/b", body, own))

    def uploads(self, store: Any, /) -> list[str]:
        found = (name for name, _ in store._list(UPLOADS))
        return sorted(name.removeprefix(UPLOADS).rpartition("/")[0] for name in found)

    def stop(self) -> None:
        """End the server."""
        self._process.stop()
