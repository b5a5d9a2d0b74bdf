"""Amazon S3, and stores that speak its protocol: objects are put under its conditions If-None-Match and If-Match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from trailgate.storage.accounts.s3 import s3_settings
from trailgate.storage.stores.bucket import BucketStore
from trailgate.storage.stores.conditions import put_decided
from trailgate.storage.stores.object_store import ObjectStore, Pending, Range, UnmetError
from trailgate.storage.stores.parted_upload import PartedUpload, upload_file
from trailgate.storage.stores.s3_client import S3Bucket, check_installed
from trailgate.storage.stores.s3_parts import MIN_PART, S3Parts

DELETED: Final = 1000  # keys in a request
COPIED: Final = 1 << 30  # bytes that the store copies in a request; it takes 5 GiB


def s3_store(address: str) -> tuple[ObjectStore, str]:
    """Return the bucket of an address and the key in it; raises OptionError and MissingDependencyError."""
    settings, key = s3_settings(address)
    check_installed()
    return S3Store(S3Bucket(settings)), key


class S3Store(BucketStore[S3Bucket]):
    """One bucket."""

    def put(self, key: str, data: bytes, over: str | None) -> str | None:
        """Write an object where the condition holds; return its tag where it has these bytes now."""
        condition = {"IfNoneMatch": "*"} if over is None else {"IfMatch": over}

        def send() -> str:
            return str(self.bucket.call("put_object", key, Body=data, **condition)["ETag"])

        return put_decided(self, key, send, data, over)

    def upload(self, key: str, path: Path) -> None:
        """Write a local file as an object."""
        upload_file(S3Parts(self.bucket, key, fresh=False), path)

    def compose(self, key: str, pieces: Sequence[bytes | Range]) -> None:
        """Write an object of bytes and parts of others; long parts are copied by the store itself."""
        parts = S3Parts(self.bucket, key, fresh=False)
        made = PartedUpload(parts, fresh=False)
        try:
            for piece in pieces:
                if isinstance(piece, bytes):
                    made.write(piece)
                else:
                    self._compose(made, parts, piece)
            made.finish()
        finally:
            made.abort()

    def _compose(self, made: PartedUpload, parts: S3Parts, piece: Range) -> None:
        """Add a range: what is held is filled up to the least size of a part, then the store copies the rest."""
        key, at, end = piece
        while at < end:
            filled = MIN_PART - made.held if made.held else 0
            left = end - at - max(filled, 0)
            if filled > 0 or left < MIN_PART:
                stop = min(end, at + (MIN_PART if left < MIN_PART else filled))
                made.write(self.part(Range(key, at, stop)))
            else:
                stop = end if left <= COPIED + MIN_PART else at + COPIED
                made.send_held()
                parts.copy(key, at, stop)
            at = stop

    def begin(self, key: str, *, later: bool = False) -> PartedUpload:
        """Begin an object that must not be there when it is finished."""
        del later  # parts are not seen
        return PartedUpload(S3Parts(self.bucket, key, fresh=True), fresh=True)

    def complete(self, pending: Pending) -> None:
        """Make an object of an upload that was left."""
        with self.completing(pending):
            self.bucket.complete(pending.key, pending.upload, pending.tags)

    def listed(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        more = {"StartAfter": after} if after else {}
        while True:
            found = self.bucket.call("list_objects_v2", Prefix=prefix, **more)
            for entry in found.get("Contents", ()):
                yield str(entry["Key"]), int(entry["Size"])
            if not found.get("IsTruncated"):
                return
            more = {"ContinuationToken": found["NextContinuationToken"]}

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        doomed = [{"Key": key} for key in keys]
        for at in range(0, len(doomed), DELETED):
            some = {"Objects": doomed[at : at + DELETED], "Quiet": True}
            found = self.bucket.call("delete_objects", Delete=some)
            for error in found.get("Errors", ()):
                problem = f"the store refuses to delete it: {error.get('Message')}"
                raise self.bucket.error(problem, error["Key"])

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete the parts of unfinished uploads."""
        for key, upload in self._unfinished(prefix):
            if wanted(key):
                with suppress(UnmetError):  # it was finished just now
                    self.bucket.call("abort_multipart_upload", key, UploadId=upload)

    def _unfinished(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the keys of unfinished uploads and their ids, of which an answer has 1,000 at most."""
        more: dict[str, str] = {}
        while True:
            found = self.bucket.call("list_multipart_uploads", Prefix=prefix, **more)
            for entry in found.get("Uploads", ()):
                yield str(entry["Key"]), str(entry["UploadId"])
            if not found.get("IsTruncated"):
                return
            more = {
                "KeyMarker": found["NextKeyMarker"],
                "UploadIdMarker": found["NextUploadIdMarker"],
            }
