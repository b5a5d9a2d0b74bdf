"""Amazon S3 and compatible stores, through botocore (the extra ``s3``).

Objects are put under the conditions If-None-Match and If-Match. An object in parts is a multipart
upload, which is invisible until it is completed; the store itself copies ranges of other objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from trailgate.storage.files.cloud_addresses import S3Settings, parse_s3_address
from trailgate.storage.stores.object_store import (
    BucketStore,
    ConditionNotMetError,
    ObjectStore,
    PendingUpload,
    StoredObject,
    UploadParts,
    check_imports,
)

TRIED: Final = 5  # attempts per request if the store is busy or cannot be reached
# Error codes for an unmet condition, or for an object or upload that does not exist.
UNMET: Final = frozenset(
    {
        "PreconditionFailed",
        "ConditionalRequestConflict",
        "412",
        "409",
        "NoSuchKey",
        "NoSuchUpload",
        "404",
    }
)
DELETED: Final = 1000  # keys per request
REGION: Final = "us-east-1"  # if neither the address nor the environment states one

MIN_PART: Final = 5 << 20  # the minimum size of every part except the last one


@dataclass(frozen=True)
class S3Store(BucketStore):
    """One S3 bucket, and the settings to reach it."""

    settings: S3Settings

    def shown(self, key: str) -> str:
        """Return the s3:// address of an object without credentials."""
        return f"s3://{self.settings.bucket}/{key}"

    def call(self, operation: str, key: str = "", **arguments: Any) -> Any:
        """Call an operation of the S3 client. Raises WriteError or ConditionNotMetError."""
        arguments = {"Bucket": self.settings.bucket, **arguments}
        if key:
            arguments["Key"] = key
        with self.asking(key):
            return getattr(_client(self.settings, os.getpid()), operation)(**arguments)

    def body(self, key: str, begin: int = 0, end: int | None = None) -> StoredObject:
        """Read a range of an S3 object. Returns it with the object's tag. Raises WriteError or ConditionNotMetError."""
        span = {} if end is None else {"Range": f"bytes={begin}-{end - 1}"}
        answer = self.call("get_object", key, **span)
        with self.asking(key):
            return StoredObject(bytes(answer["Body"].read()), str(answer["ETag"]))

    def complete_upload(self, key: str, upload: str, tags: Sequence[str], **condition: str) -> None:
        """Complete an S3 multipart upload. Raises WriteError or ConditionNotMetError."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        arguments = {"UploadId": upload, "MultipartUpload": {"Parts": parts}, **condition}
        self.call("complete_multipart_upload", key, **arguments)

    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return botocore's exceptions."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  an extra

        return (BotoCoreError, ClientError)

    def problem_of(self, error: Exception) -> str:
        """Describe an exception of the S3 client: by the store's error code, or by the client's text if the store did not answer."""
        answer = getattr(error, "response", None)
        if answer is None:
            return f"the store cannot be reached: {error}"
        if answer["Error"].get("Code") in UNMET:
            raise ConditionNotMetError(str(error))
        return f"the store refused the request: {error}"

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write an S3 object if its tag is still ``over``, or if ``over`` is None and it does not exist."""
        condition = {"IfNoneMatch": "*"} if over is None else {"IfMatch": over}
        return str(self.call("put_object", key, Body=data, **condition)["ETag"])

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> S3Parts:
        """Begin an S3 multipart upload, which is invisible until it is completed."""
        del later
        return S3Parts(self, key, fresh=fresh)

    def complete_once(self, pending: PendingUpload) -> None:
        """Complete a pending S3 multipart upload."""
        self.complete_upload(pending.key, pending.upload, pending.tags)

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the keys and sizes of S3 objects."""
        first = {"StartAfter": after} if after else {}
        for page in self._pages("list_objects_v2", prefix, ("ContinuationToken",), first):
            for entry in page.get("Contents", ()):
                yield str(entry["Key"]), int(entry["Size"])

    def _pages(
        self,
        operation: str,
        prefix: str,
        markers: Sequence[str],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[Any]:
        """Yield the pages of an S3 listing, of at most 1,000 entries each.

        ``markers`` are the names of the parameters that request the next page. A page contains
        their values in fields with "Next" before the name.
        """
        while True:
            page = self.call(operation, Prefix=prefix, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {name: page[f"Next{name}"] for name in markers}

    def delete(self, keys: Iterable[str]) -> None:
        """Delete S3 objects."""
        to_delete = [{"Key": key} for key in keys]
        for at in range(0, len(to_delete), DELETED):
            batch = {"Objects": to_delete[at : at + DELETED], "Quiet": True}
            answer = self.call("delete_objects", Delete=batch)
            for error in answer.get("Errors", ()):
                problem = f"the store refused to delete it: {error.get('Message')}"
                raise self.error(problem, error["Key"])

    def abandon(self, prefix: str, condition: Callable[[str], bool]) -> None:
        """Delete the parts of unfinished S3 multipart uploads."""
        for page in self._pages("list_multipart_uploads", prefix, ("KeyMarker", "UploadIdMarker")):
            for entry in page.get("Uploads", ()):
                key, upload = str(entry["Key"]), str(entry["UploadId"])
                if condition(key):
                    with suppress(ConditionNotMetError):  # it has just been completed
                        self.call("abort_multipart_upload", key, UploadId=upload)


@lru_cache(maxsize=32)
def _client(settings: S3Settings, _process: int) -> Any:
    """Return the S3 client of a process, which all of its threads share."""
    from botocore.config import Config  # noqa: PLC0415  an extra
    from botocore.session import get_session  # noqa: PLC0415  an extra

    session = get_session()
    # Not all compatible stores support the checksums that botocore sends by default.
    config = Config(
        retries={"mode": "standard", "total_max_attempts": TRIED},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        max_pool_connections=32,
        s3={"addressing_style": "path"} if settings.path_style else {},
    )
    return session.create_client(
        "s3",
        region_name=settings.region or session.get_config_variable("region") or REGION,
        endpoint_url=settings.endpoint,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
        config=config,
    )


class S3Parts(UploadParts[S3Store]):
    """An S3 multipart upload, which is created with its first part."""

    @property
    def least_part_bytes(self) -> int:
        """The minimum size of a part of an S3 multipart upload."""
        return MIN_PART

    @property
    def _condition(self) -> dict[str, str]:
        return {"IfNoneMatch": "*"} if self._fresh else {}

    def create(self, data: bytes) -> None:
        """Create the S3 object from bytes in one request."""
        self._store.call("put_object", self._key, Body=data, **self._condition)

    def send(self, data: bytes) -> None:
        """Send the next part of the S3 multipart upload."""
        upload = {"UploadId": self._upload_id(), "PartNumber": len(self._tags) + 1}
        answer = self._store.call("upload_part", self._key, **upload, Body=data)
        self._tags.append(answer["ETag"])

    def copy(self, source: str, begin: int, end: int) -> None:
        """Make S3 copy the bytes [begin, end) of another object as the next part."""
        answer = self._store.call(
            "upload_part_copy",
            self._key,
            UploadId=self._upload_id(),
            PartNumber=len(self._tags) + 1,
            CopySource={"Bucket": self._store.settings.bucket, "Key": source},
            CopySourceRange=f"bytes={begin}-{end - 1}",
        )
        self._tags.append(answer["CopyPartResult"]["ETag"])

    def _upload_id(self) -> str:
        if not self._upload:
            answer = self._store.call("create_multipart_upload", self._key)
            self._upload = str(answer["UploadId"])
        return self._upload

    def complete(self) -> None:
        """Create the S3 object from its parts."""
        self._store.complete_upload(self._key, self._upload, self._tags, **self._condition)

    def discard(self) -> None:
        """Abort the S3 multipart upload, which deletes its parts."""
        if self._upload:
            with suppress(
                ConditionNotMetError
            ):  # it is gone, or it was completed and only the answer was lost
                self._store.call("abort_multipart_upload", self._key, UploadId=self._upload)


def s3_store(address: str) -> tuple[ObjectStore, str]:
    """Return the S3 bucket of an address and the key in it. Raises OptionError and MissingDependencyError."""
    settings, key = parse_s3_address(address)
    check_imports("writing to s3:// needs botocore", "s3", "botocore")
    return S3Store(settings), key
