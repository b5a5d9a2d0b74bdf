"""Google Cloud Storage: objects are put under conditions on the generation of the one that they replace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trailgate.storage.accounts.google import google_place
from trailgate.storage.stores.bucket import BucketStore
from trailgate.storage.stores.conditions import put_decided
from trailgate.storage.stores.google_client import GONE, Asked, GoogleBucket, check_installed
from trailgate.storage.stores.google_parts import CONDITION, UPLOADS, GoogleParts, put
from trailgate.storage.stores.object_store import ObjectStore, Pending, Range, UnmetError
from trailgate.storage.stores.parted_upload import (
    PartedUpload,
    compose_by_reading,
    upload_file,
)

DELETING: Final = 8  # objects at once
LISTED: Final = "items(name,size),nextPageToken"


def google_store(address: str) -> tuple[ObjectStore, str]:
    """Return the bucket of an address and the key in it; raises OptionError and MissingDependencyError."""
    place = google_place(address)
    check_installed()
    return GoogleStore(GoogleBucket(place)), place.key


class GoogleStore(BucketStore[GoogleBucket]):
    """One bucket."""

    def put(self, key: str, data: bytes, over: str | None) -> str | None:
        """Write an object where the condition holds; return its generation where it has these bytes now."""
        own = {"ifGenerationMatch": 0 if over is None else int(over)}
        return put_decided(self, key, lambda: put(self.bucket, key, data, **own), data, over)

    def upload(self, key: str, path: Path) -> None:
        """Write a local file as an object."""
        upload_file(GoogleParts(self.bucket, key, fresh=False), path)

    def compose(self, key: str, pieces: Sequence[bytes | Range]) -> None:
        """Write an object of bytes and parts of others; they are read, since the store copies whole objects alone."""
        compose_by_reading(GoogleParts(self.bucket, key, fresh=False), pieces, self.part)

    def begin(self, key: str, *, later: bool = False) -> PartedUpload:
        """Begin an object that must not be there when it is finished."""
        return PartedUpload(GoogleParts(self.bucket, key, fresh=True, later=later), fresh=True)

    def complete(self, pending: Pending) -> None:
        """Give an upload that was left its name, by a copy in the store."""
        source, target = self.bucket.path(pending.upload), self.bucket.path(pending.key, "")
        asked = Asked("POST", f"{source}/rewriteTo{target}", b"", {}, (GONE, CONDITION))
        own: dict[str, Any] = {"ifGenerationMatch": 0}
        with self.completing(pending):
            while not (found := self.bucket.call("copy", pending.key, asked, **own).json())["done"]:
                own["rewriteToken"] = found["rewriteToken"]
        self.delete([pending.upload])

    def listed(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        for key, size in self._listed(prefix, after):
            if key > after and not key.startswith(UPLOADS):
                yield key, size

    def _listed(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        own: dict[str, Any] = {"prefix": prefix, "fields": LISTED}
        if after:
            own["startOffset"] = after
        while True:
            found = self.bucket.call(
                "list", prefix, Asked("GET", self.bucket.objects), **own
            ).json()
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
            asked = Asked("DELETE", self.bucket.path(key), unmet=(GONE,))
            self.bucket.call("delete", key, asked)

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete uploads that were left."""
        found = [name for name, _ in self._listed(UPLOADS + prefix)]
        self.delete(n for n in found if wanted(n.removeprefix(UPLOADS).rpartition("/")[0]))
