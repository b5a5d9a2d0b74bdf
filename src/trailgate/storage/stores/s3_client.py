"""Requests to one bucket through botocore (the extra ``s3``), and what its answers mean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from trailgate.errors import MissingDependencyError
from trailgate.storage.accounts.s3 import S3Settings
from trailgate.storage.stores.bucket import BucketClient
from trailgate.storage.stores.object_store import Stored, UnmetError

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
REGION: Final = "us-east-1"  # where neither the address nor the environment states one


@dataclass(frozen=True)
class S3Bucket(BucketClient):
    """One bucket, and how it is reached."""

    settings: S3Settings

    @property
    def name(self) -> str:
        """Return the bucket's name."""
        return self.settings.bucket

    def shown(self, key: str) -> str:
        """Return the address of an object without credentials."""
        return f"s3://{self.name}/{key}"

    def call(self, operation: str, key: str = "", **arguments: Any) -> Any:
        """Return the store's answer; raises WriteError, and UnmetError."""
        arguments = {"Bucket": self.name, **arguments}
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

    def complete(self, key: str, upload: str, tags: Sequence[str], **condition: str) -> None:
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


def check_installed() -> None:
    """Raise MissingDependencyError where botocore is not installed."""
    try:
        import botocore  # noqa: F401, PLC0415  an extra
    except ImportError:
        problem = "writing to s3:// needs botocore"
        raise MissingDependencyError.of_extra(problem, "s3") from None
