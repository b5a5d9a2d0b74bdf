"""Requests to one bucket of Google Cloud Storage by its JSON protocol, with the logins of google-auth (the extra ``gs``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from trailgate.errors import MissingDependencyError
from trailgate.storage.accounts.google import GooglePlace
from trailgate.storage.stores.bucket import BucketClient
from trailgate.storage.stores.object_store import Stored, UnmetError

TRIED: Final = 5  # times that a request is sent again where the store is busy or not reached
BUSY: Final = (408, 429, 500, 502, 503, 504)
SECONDS: Final = (10, 300)  # that connecting, and waiting for more of an answer, last
SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
GONE: Final = 404
CONTINUED: Final = 308  # the answer to a part of an upload that is not the last one


class Asked(NamedTuple):
    """A request: its address after the server's, its body, and the answers other than success that the caller understands."""

    method: str
    path: str
    data: bytes | None = None
    headers: Mapping[str, str] = {}
    unmet: tuple[int, ...] = ()


@dataclass(frozen=True)
class GoogleBucket(BucketClient):
    """One bucket, and how it is reached."""

    place: GooglePlace

    def shown(self, key: str) -> str:
        """Return the address of an object without credentials."""
        return f"gs://{self.place.bucket}/{key}"

    def path(self, key: str, of: str = "/storage/v1") -> str:
        """Return the path of an object."""
        return f"{of}/b/{quote(self.place.bucket, safe='')}/o/{quote(key, safe='')}"

    @property
    def objects(self) -> str:
        """Return the path of all objects."""
        return self.path("").rstrip("/")

    def call(self, operation: str, key: str, asked: Asked, **parameters: Any) -> Any:
        """Return the store's answer; raises WriteError, and UnmetError for an answer in ``asked.unmet``."""
        del operation  # for those who watch
        url = asked.path if "://" in asked.path else f"{self.place.server}{asked.path}"
        with self.asking(key):
            found = _session(self.place.anonymous, os.getpid()).request(
                asked.method,
                url,
                params=parameters,
                data=asked.data,
                headers={"Accept-Encoding": "identity", **asked.headers},
                timeout=SECONDS,
                allow_redirects=False,
            )
        if found.status_code in asked.unmet:
            raise UnmetError(str(found.status_code))
        if not (found.ok or found.status_code == CONTINUED):
            raise self.error(f"the store refuses it: {_reason(found)}", key)
        return found

    def body(self, key: str, begin: int = 0, end: int | None = None) -> Stored:
        """Return bytes of an object, and its generation; raises as ``call`` does."""
        span = {} if end is None else {"Range": f"bytes={begin}-{end - 1}"}
        found = self.call(
            "read", key, Asked("GET", self.path(key), None, span, (GONE,)), alt="media"
        )
        return Stored(bytes(found.content), str(found.headers.get("x-goog-generation", "")))

    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return those of requests and google-auth."""
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415  an extra
        from requests import RequestException  # noqa: PLC0415  an extra

        return (GoogleAuthError, RequestException)

    def problem_of(self, error: Exception) -> str:
        """Return what it means: answers of the store are not exceptions."""
        return f"the store cannot be reached: {error}"


def _reason(found: Any) -> str:
    """Return the store's own words."""
    try:
        text = found.json()["error"]["message"]
    except (ValueError, LookupError, TypeError):
        text = found.text[:200].strip() or found.reason
    return f"({found.status_code}) {text}"


@lru_cache(maxsize=32)
def _session(anonymous: bool, _process: int) -> Any:
    """Return the session of a process, which all of its threads use."""
    import google.auth  # noqa: PLC0415  an extra
    import requests  # noqa: PLC0415  an extra
    from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415  an extra
    from requests.adapters import HTTPAdapter  # noqa: PLC0415  an extra
    from urllib3.util import Retry  # noqa: PLC0415  an extra

    again = Retry(
        TRIED,
        backoff_factor=0.5,
        status_forcelist=BUSY,
        allowed_methods=None,
        raise_on_status=False,
    )
    session = requests.Session()
    if not anonymous:
        make: Any = AuthorizedSession
        session = make(google.auth.default(scopes=[SCOPE])[0])
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=32, max_retries=again))
    return session


def check_installed() -> None:
    """Raise MissingDependencyError where google-auth or requests is not installed."""
    try:
        import google.auth  # noqa: F401, PLC0415  an extra
        import requests  # noqa: F401, PLC0415  an extra
    except ImportError:
        problem = "writing to gs:// needs google-auth and requests"
        raise MissingDependencyError.of_extra(problem, "gs") from None
