"""Google Cloud Storage through its JSON API, with the logins of google-auth (the extra ``gs``).

Objects are put under conditions on the generation of the object that they replace. An object in
parts is a resumable upload. The store can only copy complete objects, so ranges of other objects
are read and written. An upload that gets its name later is an object with a hidden name, which is
then copied.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from trailgate.storage.files.cloud_addresses import GooglePath, parse_google_address
from trailgate.storage.stores.object_store import (
    BucketStore,
    ConditionNotMetError,
    ObjectStore,
    PendingUpload,
    StoredObject,
    UploadParts,
    check_imports,
)

TRIED: Final = 5  # retries of a request if the store is busy or cannot be reached
BUSY: Final = (408, 429, 500, 502, 503, 504)
SECONDS: Final = (10, 300)  # timeouts for connecting, and for waiting for more of an answer
SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
# HTTP status: the object does not exist.
GONE: Final = 404
CONTINUED: Final = 308  # the answer to a part that is not the last one
LISTED: Final = "items(name,size),nextPageToken"
DELETING: Final = 8  # objects at once
UPLOADED: Final = "/upload/storage/v1"
# HTTP status: a condition of the request is not met.
CONDITION: Final = 412
UPLOADS: Final = ".trailgate-uploads/"  # in each bucket: uploads that get their names later


class GoogleRequest(NamedTuple):
    """A request to Google Cloud Storage: its method, path, body and headers.

    ``unmet`` are the HTTP statuses for which ``GoogleStore.call`` raises ConditionNotMetError.
    """

    method: str
    path: str
    data: bytes | None = None
    headers: Mapping[str, str] = {}
    unmet: tuple[int, ...] = ()


@dataclass(frozen=True)
class GoogleStore(BucketStore):
    """One Google bucket, and the settings to reach it."""

    place: GooglePath

    def shown(self, key: str) -> str:
        """Return the gs:// address of an object without credentials."""
        return f"gs://{self.place.bucket}/{key}"

    def path(self, key: str, of: str = "/storage/v1") -> str:
        """Return the path of an object in Google's JSON API below the root ``of``."""
        return f"{of}/b/{quote(self.place.bucket, safe='')}/o/{quote(key, safe='')}"

    @property
    def objects(self) -> str:
        """The path of all objects of the bucket in Google's JSON API."""
        return self.path("").rstrip("/")

    def call(self, operation: str, key: str, request: GoogleRequest, **parameters: Any) -> Any:
        """Send a request to Google.

        Raises WriteError, or ConditionNotMetError if the status of the answer is in
        ``request.unmet``.
        """
        del operation  # only for tests that record calls
        url = request.path if "://" in request.path else f"{self.place.server}{request.path}"
        with self.asking(key):
            answer = _session(self.place.anonymous, os.getpid()).request(
                request.method,
                url,
                params=parameters,
                data=request.data,
                headers={"Accept-Encoding": "identity", **request.headers},
                timeout=SECONDS,
                allow_redirects=False,
            )
        if answer.status_code in request.unmet:
            raise ConditionNotMetError(str(answer.status_code))
        if not (answer.ok or answer.status_code == CONTINUED):
            raise self.error(f"the store refused the request: {_reason(answer)}", key)
        return answer

    def body(self, key: str, begin: int = 0, end: int | None = None) -> StoredObject:
        """Read a range of a Google object. Returns it with the object's generation. Raises WriteError or ConditionNotMetError."""
        span = {} if end is None else {"Range": f"bytes={begin}-{end - 1}"}
        answer = self.call(
            "read", key, GoogleRequest("GET", self.path(key), None, span, (GONE,)), alt="media"
        )
        return StoredObject(bytes(answer.content), str(answer.headers.get("x-goog-generation", "")))

    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of requests and google-auth."""
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415  an extra
        from requests import RequestException  # noqa: PLC0415  an extra

        return (GoogleAuthError, RequestException)

    def problem_of(self, error: Exception) -> str:
        """Describe an exception of a request to Google that got no answer.

        Answers with an error status are not exceptions here.
        """
        return f"the store cannot be reached: {error}"

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write a Google object if its generation is still ``over``, or if ``over`` is None and it does not exist."""
        return put_google_object(
            self, key, data, ifGenerationMatch=0 if over is None else int(over)
        )

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> GoogleParts:
        """Begin a resumable upload of a Google object."""
        return GoogleParts(self, key, fresh=fresh, later=later)

    def complete_once(self, pending: PendingUpload) -> None:
        """Copy the hidden object of a pending upload to its final name."""
        source, target = self.path(pending.upload), self.path(pending.key, "")
        asked = GoogleRequest("POST", f"{source}/rewriteTo{target}", b"", {}, (GONE, CONDITION))
        parameters: dict[str, Any] = {"ifGenerationMatch": 0}
        while not (answer := self.call("copy", pending.key, asked, **parameters).json())["done"]:
            parameters["rewriteToken"] = answer["rewriteToken"]

    def complete(self, pending: PendingUpload) -> None:
        """Copy a pending upload to its final name, and delete the hidden object."""
        super().complete(pending)
        self.delete([pending.upload])

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of Google objects."""
        for key, size in self._list(prefix, after):
            if key > after and not key.startswith(UPLOADS):
                yield key, size

    def _list(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        parameters: dict[str, Any] = {"prefix": prefix, "fields": LISTED}
        if after:
            parameters["startOffset"] = after
        while True:
            page = self.call(
                "list", prefix, GoogleRequest("GET", self.objects), **parameters
            ).json()
            for entry in page.get("items", ()):
                yield str(entry["name"]), int(entry["size"])
            if not page.get("nextPageToken"):
                return
            parameters["pageToken"] = page["nextPageToken"]

    def delete(self, keys: Iterable[str]) -> None:
        """Delete Google objects."""
        with ThreadPoolExecutor(DELETING) as pool:
            for _ in pool.map(self._delete, list(keys)):
                pass

    def _delete(self, key: str) -> None:
        with suppress(ConditionNotMetError):
            asked = GoogleRequest("DELETE", self.path(key), unmet=(GONE,))
            self.call("delete", key, asked)

    def abandon(self, prefix: str, condition: Callable[[str], bool]) -> None:
        """Delete the hidden objects of pending uploads that were never completed."""
        names = [name for name, _ in self._list(UPLOADS + prefix)]
        self.delete(n for n in names if condition(n.removeprefix(UPLOADS).rpartition("/")[0]))


def _reason(answer: Any) -> str:
    """Return the HTTP status and the error message of Google's answer."""
    try:
        text = answer.json()["error"]["message"]
    except (ValueError, LookupError, TypeError):
        text = answer.text[:200].strip() or answer.reason
    return f"({answer.status_code}) {text}"


@lru_cache(maxsize=32)
def _session(anonymous: bool, _process: int) -> Any:
    """Return the HTTP session for Google of a process, which all of its threads share."""
    import google.auth  # noqa: PLC0415  an extra
    import requests  # noqa: PLC0415  an extra
    from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415  an extra
    from requests.adapters import HTTPAdapter  # noqa: PLC0415  an extra
    from urllib3.util import Retry  # noqa: PLC0415  an extra

    retries = Retry(
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
        session.mount(scheme, HTTPAdapter(pool_maxsize=32, max_retries=retries))
    return session


class GoogleParts(UploadParts[GoogleStore]):
    """A resumable upload to Google.

    Its last part creates the object, so each part is held back until another one follows. An upload
    that gets its name later is written as a complete object with a hidden name, because an upload
    can only be ended by its last part.
    """

    def __init__(self, store: GoogleStore, key: str, *, fresh: bool, later: bool = False) -> None:
        super().__init__(store, key, fresh=fresh)
        self._name = f"{UPLOADS}{key}/{uuid.uuid4().hex}" if later else key
        self._condition: dict[str, Any] = {"ifGenerationMatch": 0} if fresh and not later else {}
        self._at, self._last_part = 0, b""

    def create(self, data: bytes) -> None:
        """Create the Google object from bytes in one request."""
        put_google_object(self._store, self._name, data, **self._condition)

    def send(self, data: bytes) -> None:
        """Send the part that was held back to Google, and hold back this part."""
        if self._last_part:
            self._send("*")
        self._last_part = data

    def _send(self, size: str) -> None:
        """Send the part that is held back.

        If ``size`` is the total size instead of "*", the store creates the object.
        """
        if not self._upload:
            asked = GoogleRequest("POST", f"{UPLOADED}/b/{self._store.place.bucket}/o", b"")
            parameters = {"uploadType": "resumable", "name": self._name, **self._condition}
            answer = self._store.call("begin_upload", self._key, asked, **parameters)
            self._upload = answer.headers["Location"]
        end = self._at + len(self._last_part)
        headers = {"Content-Range": f"bytes {self._at}-{end - 1}/{size}"}
        asked = GoogleRequest("PUT", self._upload, self._last_part, headers, (CONDITION,))
        self._store.call("upload_part", self._key, asked)
        self._at, self._last_part = end, b""

    def complete(self) -> None:
        """Send the last part to Google, which creates the object."""
        if self._upload:
            self._send(str(self._at + len(self._last_part)))
        else:
            self.create(self._last_part)

    def suspend(self) -> PendingUpload:
        """Create a hidden Google object, which gets its name later."""
        self.complete()
        return PendingUpload(self._key, self._name, ())

    def discard(self) -> None:
        """Cancel the resumable upload at Google."""
        if self._upload:
            asked = GoogleRequest("DELETE", self._upload, unmet=(499, 404, 405))
            with suppress(
                ConditionNotMetError
            ):  # 499 is the store's usual answer to a cancelled upload
                self._store.call("abort_upload", self._key, asked)


def put_google_object(store: GoogleStore, key: str, data: bytes, **condition: Any) -> str:
    """Put a Google object in one request, and return its generation.

    Raises ConditionNotMetError if the condition is not met.
    """
    headers = {"Content-Type": "application/octet-stream"}
    path = f"{UPLOADED}/b/{store.place.bucket}/o"
    asked = GoogleRequest("POST", path, data, headers, (CONDITION,))
    parameters = {"uploadType": "media", "name": key, **condition}
    return str(store.call("put", key, asked, **parameters).json()["generation"])


def google_store(address: str) -> tuple[ObjectStore, str]:
    """Return the Google bucket of an address and the key in it.

    Raises OptionError and MissingDependencyError.
    """
    place = parse_google_address(address)
    problem = "writing to gs:// needs google-auth and requests"
    check_imports(problem, "gs", "google.auth", "requests")
    return GoogleStore(place), place.key
