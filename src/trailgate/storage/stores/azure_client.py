"""Requests to one container of Azure through azure-storage-blob (the extra ``azure``), and what its answers mean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from trailgate.errors import MissingDependencyError
from trailgate.storage.accounts.azure import AzureAccount, AzurePlace
from trailgate.storage.stores.bucket import BucketClient
from trailgate.storage.stores.object_store import Stored, UnmetError

TRIED: Final = 4  # times that a request is repeated where the store is busy or not reached
# Codes of an error where a condition does not hold, or a blob or block is not there.
UNMET: Final = frozenset(
    {"ConditionNotMet", "BlobAlreadyExists", "BlobNotFound", "InvalidBlockList"}
)
SOURCE: Final = "CannotVerifyCopySource"  # where what is copied is not there, or may not be read
COPYING: Final = timedelta(hours=1)  # that a permission to read what is copied lasts
SCOPE: Final = "https://storage.azure.com/.default"
WHOLE: Final = 5000 << 20  # bytes that are put or read in one request


@dataclass(frozen=True)
class AzureContainer(BucketClient):
    """One container, and how it is reached."""

    place: AzurePlace

    def shown(self, key: str) -> str:
        """Return the address of a blob without credentials."""
        return f"{self.place.shown}/{key}"

    def call(self, operation: str, key: str = "", *named: Any, **arguments: Any) -> Any:
        """Return the store's answer; raises WriteError, and UnmetError."""
        client = _client(self.place.account, self.place.container, os.getpid())
        with self.asking(key):
            target = client.get_blob_client(key) if key else client
            return getattr(target, operation)(*named, **arguments)

    def body(self, key: str, begin: int = 0, end: int | None = None) -> Stored:
        """Return bytes of a blob, and its tag; raises as ``call`` does."""
        span = {} if end is None else {"offset": begin, "length": end - begin}
        found = self.call("download_blob", key, **span)
        with self.asking(key):
            return Stored(bytes(found.readall()), str(found.properties.etag))

    def page(self, prefix: str, token: str | None) -> tuple[list[Any], str | None]:
        """Return some blobs and what the next ones follow; raises as ``call`` does."""
        found = self.call("list_blobs", name_starts_with=prefix, include=["metadata"])
        with self.asking(prefix):
            pages = found.by_page(token)
            return list(next(pages)), pages.continuation_token

    def delete(self, keys: Sequence[str]) -> list[tuple[str, int, str]]:
        """Delete blobs, and return the status and reason that each was answered with; raises as ``call`` does."""
        found = self.call("delete_blobs", "", *keys, raise_on_any_failure=False)
        with self.asking(keys[0]):
            return [
                (key, int(answer.status_code), str(answer.reason))
                for key, answer in zip(keys, found, strict=True)
            ]

    def source(self, key: str) -> dict[str, str]:
        """Return what names a blob to the store as one that it copies from, with the permission to read it."""
        account, container = self.place.account, self.place.container
        client = _client(account, container, os.getpid())
        url = client.get_blob_client(key).url
        if account.sas:
            return {"source_url": f"{url}?{account.sas}"}
        if account.key:
            from azure.storage.blob import generate_blob_sas  # noqa: PLC0415  an extra

            until = datetime.now(UTC) + COPYING
            token = generate_blob_sas(
                account.name,
                container,
                key,
                account_key=account.key,
                permission="r",
                expiry=until,
            )
            return {"source_url": f"{url}?{token}"}
        with self.asking(key):
            token = _credential(account, os.getpid()).get_token(SCOPE).token
        return {"source_url": url, "source_authorization": f"Bearer {token}"}

    def exceptions(self) -> tuple[type[Exception], ...]:
        """Return those of azure-core."""
        from azure.core.exceptions import AzureError  # noqa: PLC0415  an extra

        return (AzureError,)

    def problem_of(self, error: Exception) -> str:
        """Return what it means: only answers of the store have a status."""
        status = getattr(error, "status_code", None)
        if status is None:
            return f"the store cannot be reached: {_first_line(error)}"
        stated = getattr(error, "error_code", None) or status
        code = str(getattr(stated, "value", stated))
        if code in UNMET or (status == 404 and code == SOURCE):
            raise UnmetError(code)
        return f"the store refuses it: ({code}) {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@lru_cache(maxsize=32)
def _credential(account: AzureAccount, _process: int) -> Any:
    """Return the login of a process."""
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential  # noqa: PLC0415  an extra
    from azure.identity import ClientSecretCredential, DefaultAzureCredential  # noqa: PLC0415  an extra

    if account.sas:
        return AzureSasCredential(account.sas)
    if account.key:
        return AzureNamedKeyCredential(account.name, account.key)
    if account.client:
        return ClientSecretCredential(*account.client)
    return DefaultAzureCredential()


@lru_cache(maxsize=32)
def _client(account: AzureAccount, container: str, process: int) -> Any:
    """Return the client of a process, which all of its threads use."""
    from azure.storage.blob import ContainerClient, ExponentialRetry  # noqa: PLC0415  an extra

    return ContainerClient(
        account.url,
        container,
        credential=_credential(account, process),
        retry_policy=ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=TRIED),
        # One request is one state of a blob, and puts are under one condition.
        max_single_put_size=WHOLE,
        max_single_get_size=WHOLE,
    )


def check_installed() -> None:
    """Raise MissingDependencyError where azure-storage-blob or azure-identity is not installed."""
    try:
        import azure.identity  # noqa: PLC0415  an extra
        import azure.storage.blob  # noqa: F401, PLC0415  an extra
    except ImportError:
        problem = "writing to abfs:// needs azure-storage-blob and azure-identity"
        raise MissingDependencyError.of_extra(problem, "azure") from None
