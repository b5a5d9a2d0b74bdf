"""A real server of S3's protocol (moto's) in a thread, which counts the requests that it is sent."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, cast
from unittest.mock import patch

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from trailgate.storage.stores.kinds import writable_store

ACCESS, SECRET = "AKIAEXAMPLE", "wJalrXUt/SECRET+KEY"
NUMBERS = itertools.count(1)


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_request(self, *_: object) -> None:
        """Do nothing."""


class S3Server:
    """The server, its address, and the requests by method."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        app = DomainDispatcherApplication(create_backend_app)

        def counting(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            self.requests[environ["REQUEST_METHOD"]] += 1
            answer: Iterable[bytes] = app(environ, start)
            return answer

        self._server = make_server("127.0.0.1", 0, counting, threaded=True, request_handler=Quiet)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find the server."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.host}",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Bucket:
    """A bucket of its own for a test."""

    def __init__(self, server: S3Server) -> None:
        self.server, self.name = server, f"bucket{next(NUMBERS)}"
        self.url = f"s3://{self.name}"
        self.store = cast("Any", writable_store(self.url, "a test")[0])
        self.store.bucket.call("create_bucket")

    def put(self, key: str, data: bytes | str) -> str:
        """Write an object and return its address."""
        body = data.encode() if isinstance(data, str) else data
        self.store.bucket.call("put_object", key, Body=body)
        return f"{self.url}/{key}"

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys of all objects."""
        return [key for key, _ in self.store.listed(prefix)]

    def get(self, key: str) -> bytes:
        """Return an object."""
        found = self.store.read(key)
        assert found is not None, key
        return bytes(found.data)

    def contents(self, prefix: str = "") -> dict[str, bytes]:
        """Return all objects."""
        return {key: self.get(key) for key in self.keys(prefix)}

    def uploads(self) -> list[str]:
        """Return the keys of unfinished uploads."""
        found = self.store.bucket.call("list_multipart_uploads")
        return [entry["Key"] for entry in found.get("Uploads", ())]


@contextmanager
def serving() -> Iterator[S3Server]:
    """Give a server that the environment of this process and its children names."""
    server = S3Server()
    try:
        with patch.dict("os.environ", server.environment):
            yield server
    finally:
        server.stop()
