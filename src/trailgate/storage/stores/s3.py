"""Amazon S3, and stores that speak its protocol, through botocore (the extra ``s3``).

Objects are put under the conditions If-None-Match and If-Match. An object in parts is a multipart upload, which nobody sees; parts of
other objects are copied by the store itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from trailgate.storage.files.accounts import S3Settings, s3_settings
from trailgate.storage.stores.object_store import (
    BucketStore,
    ObjectStore,
    Parts,
    Pending,
    Stored,
    UnmetError,
    check_imports,
)

TRIED: Final = 5  # times that a request is sent where the store is busy or not reached
# Codes of an error where a condition does not hold, or an object or upload is not there.
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
DELETED: Final = 1000  # keys in a request
REGION: Final = "us-east-1"  # where neither the address nor the environment states one


@dataclass(frozen=True)
class S3Store(BucketStore):
    """One bucket, and how it is reached."""

    settings: S3Settings

    def shown(self, key: str) -> str:
        """Return the address of an object without credentials."""
        return f"s3://{self.settings.bucket}/{key}"

    def call(self, operation: str, key: str = "", **arguments: Any) -> Any:
        """Return the store's answer; raises WriteError, and UnmetError."""
        arguments = {"Bucket": self.settings.bucket, **arguments}
        if key:
            arguments["Key"] = key
        with self.asking(key):
            return getattr(_client(self.settings, os.getpid()), operation)(**arguments)

    def body(self, key: str, begin: int = 0, end: int | None = None) -> Stored:
        """Return bytes of an object, and its tag; raises as ``call`` does."""
        span = {} if end is None else {"Range": f"bytes={begin}-{end - 1}"}
        found = self.call("get_object", key, **span)
        with self.asking(key):
            return Stored(bytes(found["Body"].read()), str(found["ETag"]))

    def complete_upload(self, key: str, upload: str, tags: Sequence[str], **condition: str) -> None:
        """Make an object of the parts of an upload; raises as ``call`` does."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        arguments = {"UploadId": upload, "MultipartUpload": {"Parts": parts}, **condition}
        self.call("complete_multipart_upload", key, **arguments)

    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return those of botocore."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  an extra

        return (BotoCoreError, ClientError)

    def problem_of(self, error: Exception) -> str:
        """Return what it means: only answers of the store have a code."""
        answer = getattr(error, "response", None)
        if answer is None:
            return f"the store cannot be reached: {error}"
        if answer["Error"].get("Code") in UNMET:
            raise UnmetError(str(error))
        return f"the store refuses it: {error}"

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write an object where the condition holds."""
        condition = {"IfNoneMatch": "*"} if over is None else {"IfMatch": over}
        return str(self.call("put_object", key, Body=data, **condition)["ETag"])

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> S3Parts:
        """Return what takes an object in parts, which are not seen."""
        del later
        return S3Parts(self, key, fresh=fresh)

    def complete_once(self, pending: Pending) -> None:
        """Make an object of an upload that was left."""
        self.complete_upload(pending.key, pending.upload, pending.tags)

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        first = {"StartAfter": after} if after else {}
        for found in self._pages("list_objects_v2", prefix, ("ContinuationToken",), first):
            for entry in found.get("Contents", ()):
                yield str(entry["Key"]), int(entry["Size"])

    def _pages(
        self,
        operation: str,
        prefix: str,
        markers: Sequence[str],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[Any]:
        """Yield the answers of a listing, each of which has 1,000 entries at most; ``markers`` name where the next one begins."""
        while True:
            found = self.call(operation, Prefix=prefix, **more)
            yield found
            if not found.get("IsTruncated"):
                return
            more = {name: found[f"Next{name}"] for name in markers}

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        to_delete = [{"Key": key} for key in keys]
        for at in range(0, len(to_delete), DELETED):
            some = {"Objects": to_delete[at : at + DELETED], "Quiet": True}
            found = self.call("delete_objects", Delete=some)
            for error in found.get("Errors", ()):
                problem = f"the store refuses to delete it: {error.get('Message')}"
                raise self.error(problem, error["Key"])

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete the parts of unfinished uploads."""
        for found in self._pages("list_multipart_uploads", prefix, ("KeyMarker", "UploadIdMarker")):
            for entry in found.get("Uploads", ()):
                key, upload = str(entry["Key"]), str(entry["UploadId"])
                if wanted(key):
                    with suppress(UnmetError):  # it was finished just now
                        self.call("abort_multipart_upload", key, UploadId=upload)


@lru_cache(maxsize=32)
def _client(settings: S3Settings, _process: int) -> Any:
    """Return the client of a process, which all of its threads use."""
    from botocore.config import Config  # noqa: PLC0415  an extra
    from botocore.session import get_session  # noqa: PLC0415  an extra

    session = get_session()
    # Other stores that speak the protocol do not all know the checksums that botocore adds by default.
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


MIN_PART: Final = 5 << 20  # bytes that each part has at least, but for the last one


class S3Parts(Parts[S3Store]):
    """A multipart upload, which is begun with its first part."""

    @property
    def least(self) -> int:
        """Return how many bytes a part has at least."""
        return MIN_PART

    @property
    def _condition(self) -> dict[str, str]:
        return {"IfNoneMatch": "*"} if self._fresh else {}

    def whole(self, data: bytes) -> None:
        """Make the object of bytes in one request."""
        self._store.call("put_object", self._key, Body=data, **self._condition)

    def send(self, data: bytes) -> None:
        """Send the next part."""
        upload = {"UploadId": self._begun(), "PartNumber": len(self._tags) + 1}
        found = self._store.call("upload_part", self._key, **upload, Body=data)
        self._tags.append(found["ETag"])

    def copy(self, source: str, begin: int, end: int) -> None:
        """Have the store copy bytes [begin, end) of another object as the next part."""
        found = self._store.call(
            "upload_part_copy",
            self._key,
            UploadId=self._begun(),
            PartNumber=len(self._tags) + 1,
            CopySource={"Bucket": self._store.settings.bucket, "Key": source},
            CopySourceRange=f"bytes={begin}-{end - 1}",
        )
        self._tags.append(found["CopyPartResult"]["ETag"])

    def _begun(self) -> str:
        if not self._upload:
            found = self._store.call("create_multipart_upload", self._key)
            self._upload = str(found["UploadId"])
        return self._upload

    def complete(self) -> None:
        """Make the object of its parts."""
        self._store.complete_upload(self._key, self._upload, self._tags, **self._condition)

    def discard(self) -> None:
        """Delete the parts."""
        if self._upload:
            with suppress(UnmetError):  # it is gone, or finished and only the answer was lost
                self._store.call("abort_multipart_upload", self._key, UploadId=self._upload)


def s3_store(address: str) -> tuple[ObjectStore, str]:
    """Return the bucket of an address and the key in it; raises OptionError and MissingDependencyError."""
    settings, key = s3_settings(address)
    check_imports("writing to s3:// needs botocore", "s3", "botocore")
    return S3Store(settings), key
