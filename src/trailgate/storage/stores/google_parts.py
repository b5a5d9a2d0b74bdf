"""The parts of one object of Google Cloud Storage."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any, Final

from trailgate.errors import WriteError
from trailgate.storage.stores.google_client import Asked, GoogleBucket
from trailgate.storage.stores.object_store import Pending, UnmetError

UPLOADS: Final = ".trailgate-uploads/"  # what is uploaded and gets its name later, in each bucket
CONDITION: Final = 412
UPLOADED: Final = "/upload/storage/v1"


class GoogleParts:
    """A resumable upload, whose last part makes the object; so each part is held until there is another one.

    What gets its name later is an object of another name until then, since only its last part ends an upload.
    """

    def __init__(self, bucket: GoogleBucket, key: str, *, fresh: bool, later: bool = False) -> None:
        self._bucket, self._key = bucket, key
        self._name = f"{UPLOADS}{key}/{uuid.uuid4().hex}" if later else key
        self._condition: dict[str, Any] = {"ifGenerationMatch": 0} if fresh and not later else {}
        self._session, self._at, self._count = "", 0, 0
        self._held = b""

    @property
    def count(self) -> int:
        """Return how many parts were taken."""
        return self._count

    def whole(self, data: bytes) -> None:
        """Make the object of bytes in one request."""
        put(self._bucket, self._name, data, **self._condition)

    def send(self, data: bytes) -> None:
        """Take the next part, and send the one before it."""
        if self._held:
            self._send("*")
        self._held = data
        self._count += 1

    def _send(self, size: str) -> None:
        """Send the part that is held; the store makes the object where it learns its size."""
        if not self._session:
            asked = Asked("POST", f"{UPLOADED}/b/{self._bucket.place.bucket}/o", b"")
            own = {"uploadType": "resumable", "name": self._name, **self._condition}
            found = self._bucket.call("begin_upload", self._key, asked, **own)
            self._session = found.headers["Location"]
        end = self._at + len(self._held)
        headers = {"Content-Range": f"bytes {self._at}-{end - 1}/{size}"}
        asked = Asked("PUT", self._session, self._held, headers, (CONDITION,))
        self._bucket.call("upload_part", self._key, asked)
        self._at, self._held = end, b""

    def complete(self) -> None:
        """Make the object of its parts."""
        if self._session:
            self._send(str(self._at + len(self._held)))
        else:
            self.whole(self._held)

    def left(self) -> Pending:
        """Make the object that gets its name later."""
        self.complete()
        return Pending(self._key, self._name, ())

    def discard(self) -> None:
        """Delete the parts."""
        if self._session:
            asked = Asked("DELETE", self._session, unmet=(499, 404, 405))
            with suppress(UnmetError):  # which is how the store answers
                self._bucket.call("abort_upload", self._key, asked)

    def error(self, problem: str) -> WriteError:
        """Return an error about the object."""
        return self._bucket.error(problem, self._key)


def put(bucket: GoogleBucket, key: str, data: bytes, **condition: Any) -> str:
    """Put an object in one request, and return its generation; raises UnmetError where the condition does not hold."""
    headers = {"Content-Type": "application/octet-stream"}
    path = f"{UPLOADED}/b/{bucket.place.bucket}/o"
    asked = Asked("POST", path, data, headers, (CONDITION,))
    own = {"uploadType": "media", "name": key, **condition}
    return str(bucket.call("put", key, asked, **own).json()["generation"])
