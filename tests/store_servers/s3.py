"""A real server of S3's protocol (moto's) in a thread, which counts the requests that it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Thread
from typing import Any
from urllib.parse import quote

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ACCESS, SECRET = "AKIAEXAMPLE", "wJalrXUt/SECRET+KEY"


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_request(self, *_: object) -> None:
        """Do nothing."""


class S3Server:
    """The server, its address, and the requests by method."""

    kind = "s3"
    secret = "SECRET"
    asking = frozenset({"get_object", "list_objects_v2", "head_object"})

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

    def url(self, name: str) -> str:
        return f"s3://{name}"

    def base(self, name: str) -> str:
        login = f"{ACCESS}:{quote(SECRET, safe='')}"
        parameters = f"scheme=http&region=us-east-1&endpoint_override={self.host}"
        return f"s3://{login}@{name}?{parameters}"

    def whole_url(self, name: str, key: str) -> str:
        return self.base(name).replace("?", f"/{key}?")

    def create(self, store: Any) -> None:
        store.call("create_bucket")

    def uploads(self, store: Any) -> list[str]:
        found = store.call("list_multipart_uploads")
        return [entry["Key"] for entry in found.get("Uploads", ())]

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
