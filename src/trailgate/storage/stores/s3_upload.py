"""One object of S3 while it is written: in one request if it is small, else in parts."""

from __future__ import annotations

from contextlib import suppress
from io import RawIOBase
from typing import IO, Any, Final, cast

from trailgate.errors import StorageError, Where
from trailgate.storage.stores.object_store import Pending
from trailgate.storage.stores.s3_client import S3Bucket, UnmetError

MIN_PART: Final = 5 << 20  # bytes that each part has at least, but for the last one
PART: Final = 8 << 20
LONGER: Final = 1000  # parts of one size; then they double, since an upload has 10,000 at most


class S3Upload(RawIOBase):
    """A file to write to; the object is made by ``finish`` alone. ``fresh``: an object that is there is not replaced."""

    def __init__(self, bucket: S3Bucket, key: str, *, fresh: bool) -> None:
        self._bucket, self._key, self._fresh = bucket, key, fresh
        self._buffer, self._size = bytearray(), 0
        self._upload, self._tags = "", list[str]()
        self._done = False

    @property
    def file(self) -> IO[bytes]:
        """Return the file to write to."""
        return cast("IO[bytes]", self)

    @property
    def held(self) -> int:
        """Return how many bytes are not sent yet."""
        return len(self._buffer)

    def writable(self) -> bool:
        """Return that bytes can be written."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size

    def write(self, data: Any) -> int:
        """Take bytes, and send a part when there are enough of them."""
        view = memoryview(data).cast("B")
        self._buffer += view
        self._size += len(view)
        while len(self._buffer) >= self._part():
            part = self._part()
            self._send(bytes(self._buffer[:part]))
            del self._buffer[:part]
        return len(view)

    def _part(self) -> int:
        return PART << (len(self._tags) // LONGER)

    def _send(self, data: bytes) -> None:
        number = len(self._tags) + 1
        upload = {"UploadId": self._begun(), "PartNumber": number}
        found = self._bucket.call("upload_part", self._key, **upload, Body=data)
        self._tags.append(found["ETag"])

    def copy(self, source: str, begin: int, end: int) -> None:
        """Have the store copy bytes [begin, end) of another object as the next part."""
        if self._buffer:
            self._send(bytes(self._buffer))
            self._buffer.clear()
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
        self._size += end - begin
        self._tags.append(found["CopyPartResult"]["ETag"])

    def _begun(self) -> str:
        if not self._upload:
            found = self._bucket.call("create_multipart_upload", self._key)
            self._upload = str(found["UploadId"])
        return self._upload

    def finish(self) -> None:
        """Make the object; raises StorageError where one is there that is not replaced."""
        condition = {"IfNoneMatch": "*"} if self._fresh else {}
        try:
            if not self._upload:
                self._bucket.call("put_object", self._key, Body=bytes(self._buffer), **condition)
            else:
                self._send_held()
                self._bucket.complete(self._key, self._upload, self._tags, **condition)
        except UnmetError:
            problem = "the file is there already" if self._fresh else "the upload is gone"
            where = Where(source=self._bucket.shown(self._key))
            raise StorageError(problem, where=where) from None
        self._done = True

    def leave(self) -> Pending:
        """Send what is held, and return what another process completes."""
        self._begun()
        self._send_held()
        self._done = True
        return Pending(self._key, self._upload, tuple(self._tags))

    def _send_held(self) -> None:
        if self._buffer or not self._tags:
            self._send(bytes(self._buffer))
            self._buffer.clear()

    def abort(self) -> None:
        """Remove the parts of an upload that is neither finished nor left."""
        if self._upload and not self._done:
            self._done = True
            with suppress(UnmetError):  # it is gone, or finished and only the answer was lost
                self._bucket.call("abort_multipart_upload", self._key, UploadId=self._upload)
