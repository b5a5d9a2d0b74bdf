"""The parts of one object of S3."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from trailgate.errors import WriteError
from trailgate.storage.stores.object_store import Pending, UnmetError
from trailgate.storage.stores.s3_client import S3Bucket

MIN_PART: Final = 5 << 20  # bytes that each part has at least, but for the last one


class S3Parts:
    """A multipart upload, which is begun with its first part."""

    def __init__(self, bucket: S3Bucket, key: str, *, fresh: bool) -> None:
        self._bucket, self._key = bucket, key
        self._condition = {"IfNoneMatch": "*"} if fresh else {}
        self._upload, self._tags = "", list[str]()

    @property
    def count(self) -> int:
        """Return how many parts were sent."""
        return len(self._tags)

    def whole(self, data: bytes) -> None:
        """Make the object of bytes in one request."""
        self._bucket.call("put_object", self._key, Body=data, **self._condition)

    def send(self, data: bytes) -> None:
        """Send the next part."""
        upload = {"UploadId": self._begun(), "PartNumber": len(self._tags) + 1}
        found = self._bucket.call("upload_part", self._key, **upload, Body=data)
        self._tags.append(found["ETag"])

    def copy(self, source: str, begin: int, end: int) -> None:
        """Have the store copy bytes [begin, end) of another object as the next part."""
        try:
            found = self._bucket.call(
                "upload_part_copy",
                self._key,
                UploadId=self._begun(),
                PartNumber=len(self._tags) + 1,
                CopySource={"Bucket": self._bucket.name, "Key": source},
                CopySourceRange=f"bytes={begin}-{end - 1}",
            )
        except UnmetError:
            raise self._bucket.error("the object is gone", source) from None
        self._tags.append(found["CopyPartResult"]["ETag"])

    def _begun(self) -> str:
        if not self._upload:
            found = self._bucket.call("create_multipart_upload", self._key)
            self._upload = str(found["UploadId"])
        return self._upload

    def complete(self) -> None:
        """Make the object of its parts."""
        self._bucket.complete(self._key, self._upload, self._tags, **self._condition)

    def left(self) -> Pending:
        """Return what completes it."""
        return Pending(self._key, self._upload, tuple(self._tags))

    def discard(self) -> None:
        """Delete the parts."""
        if self._upload:
            with suppress(UnmetError):  # it is gone, or finished and only the answer was lost
                self._bucket.call("abort_multipart_upload", self._key, UploadId=self._upload)

    def error(self, problem: str) -> WriteError:
        """Return an error about the object."""
        return self._bucket.error(problem, self._key)
