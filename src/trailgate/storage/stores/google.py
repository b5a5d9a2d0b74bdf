"""Google Cloud Storage by its JSON protocol, with the logins of google-auth (the extra ``gs``).

Objects are put under conditions on the generation of the one that they replace. An object in parts is a resumable upload. The store
copies whole objects alone, so parts of others are read, and what gets its name later has a hidden name until it is copied.
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

from trailgate.storage.files.accounts import GooglePlace, google_place
from trailgate.storage.stores.object_store import (
    BucketStore,
    ObjectStore,
    Parts,
    Pending,
    Stored,
    UnmetError,
    check_imports,
)

TRIED: Final = 5  # times that a request is sent again where the store is busy or not reached
BUSY: Final = (408, 429, 500, 502, 503, 504)
SECONDS: Final = (10, 300)  # that connecting, and waiting for more of an answer, last
SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
GONE: Final = 404
CONTINUED: Final = 308  # the answer to a part of an upload that is not the last one
LISTED: Final = "items(name,size),nextPageToken"
DELETING: Final = 8  # objects at once
UPLOADED: Final = "/upload/storage/v1"
CONDITION: Final = 412
UPLOADS: Final = ".trailgate-uploads/"  # what is uploaded and gets its name later, in each bucket


class Asked(NamedTuple):
    """A request: its address after the server's, its body, and the answers other than success that the caller understands."""

    method: str
    path: str
    data: bytes | None = None
    headers: Mapping[str, str] = {}
    unmet: tuple[int, ...] = ()


@dataclass(frozen=True)
class GoogleStore(BucketStore):
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

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write an object where the condition holds."""
        return put(self, key, data, ifGenerationMatch=0 if over is None else int(over))

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> GoogleParts:
        """Return what takes an object in parts."""
        return GoogleParts(self, key, fresh=fresh, later=later)

    def complete_once(self, pending: Pending) -> None:
        """Give an upload that was left its name, by a copy in the store."""
        source, target = self.path(pending.upload), self.path(pending.key, "")
        asked = Asked("POST", f"{source}/rewriteTo{target}", b"", {}, (GONE, CONDITION))
        own: dict[str, Any] = {"ifGenerationMatch": 0}
        while not (found := self.call("copy", pending.key, asked, **own).json())["done"]:
            own["rewriteToken"] = found["rewriteToken"]

    def complete(self, pending: Pending) -> None:
        """Give an upload that was left its name, and delete its hidden one."""
        super().complete(pending)
        self.delete([pending.upload])

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        for key, size in self._list(prefix, after):
            if key > after and not key.startswith(UPLOADS):
                yield key, size

    def _list(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        own: dict[str, Any] = {"prefix": prefix, "fields": LISTED}
        if after:
            own["startOffset"] = after
        while True:
            found = self.call("list", prefix, Asked("GET", self.objects), **own).json()
            for entry in found.get("items", ()):
                yield str(entry["name"]), int(entry["size"])
            if not found.get("nextPageToken"):
                return
            own["pageToken"] = found["nextPageToken"]

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        with ThreadPoolExecutor(DELETING) as pool:
            for _ in pool.map(self._delete, list(keys)):
                pass

    def _delete(self, key: str) -> None:
        with suppress(UnmetError):
            asked = Asked("DELETE", self.path(key), unmet=(GONE,))
            self.call("delete", key, asked)

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete uploads that were left."""
        found = [name for name, _ in self._list(UPLOADS + prefix)]
        self.delete(n for n in found if wanted(n.removeprefix(UPLOADS).rpartition("/")[0]))


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


class GoogleParts(Parts[GoogleStore]):
    """A resumable upload, whose last part makes the object; so each part is held until there is another one.

    What gets its name later is an object of another name until then, since only its last part ends an upload.
    """

    def __init__(self, store: GoogleStore, key: str, *, fresh: bool, later: bool = False) -> None:
        super().__init__(store, key, fresh=fresh)
        self._name = f"{UPLOADS}{key}/{uuid.uuid4().hex}" if later else key
        self._condition: dict[str, Any] = {"ifGenerationMatch": 0} if fresh and not later else {}
        self._at, self._held = 0, b""

    def whole(self, data: bytes) -> None:
        """Make the object of bytes in one request."""
        put(self._store, self._name, data, **self._condition)

    def send(self, data: bytes) -> None:
        """Take the next part, and send the one before it."""
        if self._held:
            self._send("*")
        self._held = data

    def _send(self, size: str) -> None:
        """Send the part that is held; the store makes the object where it infers its size."""
        if not self._upload:
            asked = Asked("POST", f"{UPLOADED}/b/{self._store.place.bucket}/o", b"")
            own = {"uploadType": "resumable", "name": self._name, **self._condition}
            found = self._store.call("begin_upload", self._key, asked, **own)
            self._upload = found.headers["Location"]
        end = self._at + len(self._held)
        headers = {"Content-Range": f"bytes {self._at}-{end - 1}/{size}"}
        asked = Asked("PUT", self._upload, self._held, headers, (CONDITION,))
        self._store.call("upload_part", self._key, asked)
        self._at, self._held = end, b""

    def complete(self) -> None:
        """Make the object of its parts."""
        if self._upload:
            self._send(str(self._at + len(self._held)))
        else:
            self.whole(self._held)

    def left(self) -> Pending:
        """Make the object that gets its name later."""
        self.complete()
        return Pending(self._key, self._name, ())

    def discard(self) -> None:
        """Delete the parts."""
        if self._upload:
            asked = Asked("DELETE", self._upload, unmet=(499, 404, 405))
            with suppress(UnmetError):  # which is how the store answers
                self._store.call("abort_upload", self._key, asked)


def put(store: GoogleStore, key: str, data: bytes, **condition: Any) -> str:
    """Put an object in one request, and return its generation; raises UnmetError where the condition does not hold."""
    headers = {"Content-Type": "application/octet-stream"}
    path = f"{UPLOADED}/b/{store.place.bucket}/o"
    asked = Asked("POST", path, data, headers, (CONDITION,))
    own = {"uploadType": "media", "name": key, **condition}
    return str(store.call("put", key, asked, **own).json()["generation"])


def google_store(address: str) -> tuple[ObjectStore, str]:
    """Return the bucket of an address and the key in it; raises OptionError and MissingDependencyError."""
    place = google_place(address)
    problem = "writing to gs:// needs google-auth and requests"
    check_imports(problem, "gs", "google.auth", "requests")
    return GoogleStore(place), place.key
