"""Azure Blob Storage, through azure-storage-blob (the extra ``azure``).

Block blobs are put under the conditions If-None-Match and If-Match. A blob in parts is a list of
blocks, which is invisible until it is committed; the store itself copies ranges of other blobs.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from trailgate.storage.files.cloud_addresses import AzureAccount, AzurePath, parse_azure_address
from trailgate.storage.stores.object_store import (
    UNDECIDED,
    BucketStore,
    ConditionNotMetError,
    ObjectRange,
    ObjectStore,
    PendingUpload,
    StoredObject,
    UploadParts,
    check_imports,
)

TRIED: Final = 4  # retries of a request if the store is busy or cannot be reached
# Error codes for an unmet condition, or for a blob or block that does not exist.
UNMET: Final = frozenset(
    {"ConditionNotMet", "BlobAlreadyExists", "BlobNotFound", "InvalidBlockList"}
)
SOURCE: Final = "CannotVerifyCopySource"  # the source of a copy does not exist or may not be read
COPYING: Final = timedelta(hours=1)  # validity of the permission to read the source of a copy
SCOPE: Final = "https://storage.azure.com/.default"
DELETED: Final = 256  # blobs per request
GONE: Final = (200, 202, 404)  # answers to a deletion after which the blob does not exist
COMPOSED: Final = 8  # attempts to compose an object whose blocks other writers discard
APART: Final = 0.05  # the maximum wait in seconds after the first attempt; it doubles each time
FOLDER: Final = "hdi_isfolder"  # the metadata of folders in accounts with hierarchical namespaces
WHOLE: Final = 5000 << 20  # bytes that are put or read in one request


@dataclass(frozen=True)
class AzureStore(BucketStore):
    """One Azure container, and the settings to reach it."""

    place: AzurePath

    def shown(self, key: str) -> str:
        """Return the address of a blob without credentials."""
        return f"{self.place.shown}/{key}"

    def call(self, operation: str, key: str = "", *named: Any, **arguments: Any) -> Any:
        """Call an operation of Azure's client. Raises WriteError or ConditionNotMetError."""
        client = _client(self.place.account, self.place.container, os.getpid())
        with self.asking(key):
            target = client.get_blob_client(key) if key else client
            return getattr(target, operation)(*named, **arguments)

    def body(self, key: str, begin: int = 0, end: int | None = None) -> StoredObject:
        """Read a range of a blob. Returns it with the blob's tag. Raises WriteError or ConditionNotMetError."""
        span = {} if end is None else {"offset": begin, "length": end - begin}
        download = self.call("download_blob", key, **span)
        with self.asking(key):
            return StoredObject(bytes(download.readall()), str(download.properties.etag))

    def page(self, prefix: str, token: str | None) -> tuple[list[Any], str | None]:
        """List one page of blobs. Returns them with the token of the next page. Raises WriteError or ConditionNotMetError."""
        blobs = self.call("list_blobs", name_starts_with=prefix, include=["metadata"])
        with self.asking(prefix):
            pages = blobs.by_page(token)
            return list(next(pages)), pages.continuation_token

    def delete_some(self, keys: Sequence[str]) -> list[tuple[str, int, str]]:
        """Delete blobs. Returns the key, HTTP status and reason of each. Raises WriteError or ConditionNotMetError."""
        answers = self.call("delete_blobs", "", *keys, raise_on_any_failure=False)
        with self.asking(keys[0]):
            return [
                (key, int(answer.status_code), str(answer.reason))
                for key, answer in zip(keys, answers, strict=True)
            ]

    def source(self, key: str) -> dict[str, str]:
        """Return the arguments that name a blob as the source of a copy, including the permission to read it."""
        account, container = self.place.account, self.place.container
        client = _client(account, container, os.getpid())
        url = client.get_blob_client(key).url
        if account.sas:
            return {"source_url": f"{url}?{account.sas}"}
        # An account key cannot be sent for the source of a copy, so sign a permission to read it.
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
        """Return azure-core's exceptions."""
        from azure.core.exceptions import AzureError  # noqa: PLC0415  an extra

        return (AzureError,)

    def problem_of(self, error: Exception) -> str:
        """Describe an exception of Azure's client: by the store's HTTP status, or by the client's text if the store did not answer."""
        status = getattr(error, "status_code", None)
        if status is None:
            return f"the store cannot be reached: {_first_line(error)}"
        stated = getattr(error, "error_code", None) or status
        code = str(getattr(stated, "value", stated))
        if code in UNMET or (status == 404 and code == SOURCE):
            raise ConditionNotMetError(code)
        return f"the store refused the request: ({code}) {_first_line(error)}"

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write a blob if its tag is still ``over``, or if ``over`` is None and it does not exist."""
        from azure.core import MatchConditions  # noqa: PLC0415  an extra

        condition: dict[str, Any] = {"overwrite": over is not None}
        if over is not None:
            condition |= {"etag": over, "match_condition": MatchConditions.IfNotModified}
        return str(self.call("upload_blob", key, data=data, **condition)["etag"])

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> AzureParts:
        """Begin an upload to Azure in blocks, which are invisible until they are committed."""
        del later
        return AzureParts(self, key, fresh=fresh)

    def compose(self, key: str, pieces: Sequence[bytes | ObjectRange]) -> None:
        """Write a blob from bytes and ranges of other blobs.

        If another writer's commit has discarded the staged blocks, the upload is repeated.
        """
        for turn in range(COMPOSED):
            try:
                with self.upload_pieces(key, pieces) as upload:
                    return upload.create()
            except ConditionNotMetError:
                # Wait for a random time, or two writers would discard each other's blocks for ever.
                time.sleep(random.uniform(0, APART * 2**turn))  # noqa: S311  no secret
        raise self.error(UNDECIDED, key)

    def complete_once(self, pending: PendingUpload) -> None:
        """Create the blob of a pending upload by committing its blocks."""
        commit_blocks(self, pending.key, pending.tags, fresh=False)

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of blobs."""
        token: str | None = None
        while True:
            blobs, token = self.page(prefix, token)
            for blob in blobs:
                is_folder = str((blob.metadata or {}).get(FOLDER, "")).casefold() == "true"
                if blob.name > after and not is_folder:
                    yield str(blob.name), int(blob.size)
            if not token:
                return

    def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs, many with one request."""
        to_delete = list(keys)
        for at in range(0, len(to_delete), DELETED):
            batch = to_delete[at : at + DELETED]
            answers = self.delete_some(batch)
            for key, status, reason in answers:
                if status not in GONE:
                    problem = f"the store refused to delete it: {reason}"
                    raise self.error(problem, key)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@lru_cache(maxsize=32)
def _credential(account: AzureAccount, _process: int) -> Any:
    """Return the login to an Azure account, for use in one process."""
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
    """Return the client of an Azure container for a process, which all of its threads share."""
    from azure.storage.blob import ContainerClient, ExponentialRetry  # noqa: PLC0415  an extra

    return ContainerClient(
        account.url,
        container,
        credential=_credential(account, process),
        retry_policy=ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=TRIED),
        # Several requests could see different states of a blob, and a put could not have one condition.
        max_single_put_size=WHOLE,
        max_single_get_size=WHOLE,
    )


class AzureParts(UploadParts[AzureStore]):
    """An upload to Azure: staged blocks, which become a blob when a list of them is committed.

    All uploads to one name share one set of uncommitted blocks, so the names of blocks are unique
    to an upload. Committing one list discards all other blocks, and the lists of other uploads are
    then refused. The store discards blocks that nobody commits after a week.
    """

    def __init__(self, store: AzureStore, key: str, *, fresh: bool) -> None:
        super().__init__(store, key, fresh=fresh)
        self._upload = uuid.uuid4().hex

    @property
    def least_part_bytes(self) -> int:
        """Return 0: blocks may have any size."""
        return 0

    def create(self, data: bytes) -> None:
        """Create the blob from bytes in one request to Azure."""
        self._store.call("upload_blob", self._key, data=data, overwrite=not self._fresh)

    def send(self, data: bytes) -> None:
        """Stage the next block in Azure. An empty block is skipped."""
        if data:
            name = self._next()
            block = {"block_id": name, "length": len(data)}
            self._store.call("stage_block", self._key, data=data, **block)
            self._tags.append(name)

    def copy(self, source: str, begin: int, end: int) -> None:
        """Make Azure copy the bytes [begin, end) of another blob as the next block."""
        name = self._next()
        span = {"source_offset": begin, "source_length": end - begin}
        block = {"block_id": name, **span, **self._store.source(source)}
        self._store.call("stage_block_from_url", self._key, **block)
        self._tags.append(name)

    def _next(self) -> str:
        return f"{self._upload}-{len(self._tags):05}"

    def complete(self) -> None:
        """Create the blob by committing its blocks."""
        commit_blocks(self._store, self._key, self._tags, fresh=self._fresh)


def commit_blocks(store: AzureStore, key: str, blocks: Sequence[str], *, fresh: bool) -> None:
    """Create an Azure blob from staged blocks.

    Raises ConditionNotMetError if they are gone, or if a blob exists that must not be replaced.
    """
    from azure.core import MatchConditions  # noqa: PLC0415  an extra
    from azure.storage.blob import BlobBlock  # noqa: PLC0415  an extra

    # The store itself checks that no blob exists, at the moment at which it creates this one.
    condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing} if fresh else {}
    listed = [BlobBlock(name) for name in blocks]
    store.call("commit_block_list", key, block_list=listed, **condition)


def azure_store(address: str) -> tuple[ObjectStore, str]:
    """Return the Azure container of an address and the key in it.

    Raises OptionError and MissingDependencyError.
    """
    place = parse_azure_address(address)
    problem = "writing to abfs:// needs azure-storage-blob and azure-identity"
    check_imports(problem, "azure", "azure.identity", "azure.storage.blob")
    return AzureStore(place), place.key
