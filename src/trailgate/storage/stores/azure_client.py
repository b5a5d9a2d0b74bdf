"""Requests to one container of Azure through azure-storage-blob (the extra ``azure``), and what its answers mean."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from trailgate.errors import MissingDependencyError, Where, WriteError
from trailgate.storage.accounts.azure import AzureAccount, AzurePlace
from trailgate.storage.stores.object_store import UnmetError

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
class AzureContainer:
    """One container, and how it is reached."""

    place: AzurePlace

    def shown(self, key: str) -> str:
        """Return the address of a blob without credentials."""
        return f"{self.place.shown}/{key}"

    def call(self, operation: str, key: str = "", *named: Any, **arguments: Any) -> Any:
        """Return the store's answer; raises WriteError, and UnmetError."""
        client = _client(self.place.account, self.place.container, os.getpid())
        with self._asking(key):
            target = client.get_blob_client(key) if key else client
            return getattr(target, operation)(*named, **arguments)

    def body(self, key: str, **arguments: int) -> tuple[bytes, str]:
        """Return the bytes and the tag of a blob; raises as ``call`` does."""
        found = self.call("download_blob", key, **arguments)
        with self._asking(key):
            return bytes(found.readall()), str(found.properties.etag)

    def page(self, prefix: str, token: str | None) -> tuple[list[Any], str | None]:
        """Return some blobs and what the next ones follow; raises as ``call`` does."""
        found = self.call("list_blobs", name_starts_with=prefix, include=["metadata"])
        with self._asking(prefix):
            pages = found.by_page(token)
            return list(next(pages)), pages.continuation_token

    def delete(self, keys: Sequence[str]) -> list[tuple[str, int, str]]:
        """Delete blobs, and return the status and reason that each was answered with; raises as ``call`` does."""
        found = self.call("delete_blobs", "", *keys, raise_on_any_failure=False)
        with self._asking(keys[0]):
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
        with self._asking(key):
            token = _credential(account, os.getpid()).get_token(SCOPE).token
        return {"source_url": url, "source_authorization": f"Bearer {token}"}

    def error(self, problem: str, key: str) -> WriteError:
        """Return an error about a blob."""
        return WriteError(problem, where=Where(source=self.shown(key)))

    @contextmanager
    def _asking(self, key: str) -> Iterator[None]:
        from azure.core.exceptions import AzureError, HttpResponseError  # noqa: PLC0415  an extra

        try:
            yield
        except HttpResponseError as error:
            stated = getattr(error, "error_code", None) or error.status_code
            code = str(getattr(stated, "value", stated))
            gone = error.status_code == 404 and code == SOURCE
            if code in UNMET or gone:
                raise UnmetError(code) from None
            problem = f"the store refuses it: ({code}) {_first_line(error)}"
            raise self.error(problem, key) from None
        except AzureError as error:
            problem = f"the store cannot be reached: {_first_line(error)}"
            raise self.error(problem, key) from None


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
        hint = "Install it with pip install 'trailgate[azure]'"
        problem = "writing to abfs:// needs azure-storage-blob and azure-identity"
        raise MissingDependencyError(problem, hint=hint) from None
