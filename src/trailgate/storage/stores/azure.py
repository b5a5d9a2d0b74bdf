"""Azure's Blob Storage, through azure-storage-blob (the extra ``azure``).

Block blobs are put under the conditions If-None-Match and If-Match. A blob in parts is a list of blocks, which nobody sees before it is
committed; parts of other blobs are copied by the store itself.
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

from trailgate.storage.files.accounts import AzureAccount, AzurePlace, azure_place
from trailgate.storage.stores.object_store import (
    UNDECIDED,
    BucketStore,
    ObjectStore,
    Parts,
    Pending,
    Range,
    Stored,
    UnmetError,
    check_imports,
)

TRIED: Final = 4  # times that a request is repeated where the store is busy or not reached
# Codes of an error where a condition does not hold, or a blob or block is not there.
UNMET: Final = frozenset(
    {"ConditionNotMet", "BlobAlreadyExists", "BlobNotFound", "InvalidBlockList"}
)
SOURCE: Final = "CannotVerifyCopySource"  # where what is copied is not there, or may not be read
COPYING: Final = timedelta(hours=1)  # that a permission to read what is copied lasts
SCOPE: Final = "https://storage.azure.com/.default"
DELETED: Final = 256  # blobs in a request
GONE: Final = (200, 202, 404)  # answers to a deletion after which a blob is not there
COMPOSED: Final = 8  # times that an object is composed whose blocks another writer's list discards
APART: Final = 0.05  # seconds that writers wait then, at most twice as long each time
FOLDER: Final = "hdi_isfolder"  # what accounts with a hierarchy of folders note of these
WHOLE: Final = 5000 << 20  # bytes that are put or read in one request


@dataclass(frozen=True)
class AzureStore(BucketStore):
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

    def delete_some(self, keys: Sequence[str]) -> list[tuple[str, int, str]]:
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

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write a blob where the condition holds."""
        from azure.core import MatchConditions  # noqa: PLC0415  an extra

        condition: dict[str, Any] = {"overwrite": over is not None}
        if over is not None:
            condition |= {"etag": over, "match_condition": MatchConditions.IfNotModified}
        return str(self.call("upload_blob", key, data=data, **condition)["etag"])

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> AzureParts:
        """Return what takes a blob in blocks, which are not seen."""
        del later
        return AzureParts(self, key, fresh=fresh)

    def compose(self, key: str, pieces: Sequence[bytes | Range]) -> None:
        """Write a blob of bytes and parts of others; again where another writer's list has discarded its blocks."""
        for turn in range(COMPOSED):
            try:
                with self.filled(key, pieces) as made:
                    return made.make()
            except UnmetError:
                # Both would discard each other's for ever.
                time.sleep(random.uniform(0, APART * 2**turn))  # noqa: S311  no secret
        raise self.error(UNDECIDED, key)

    def complete_once(self, pending: Pending) -> None:
        """Make a blob of an upload that was left."""
        commit(self, pending.key, pending.tags, fresh=False)

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        token: str | None = None
        while True:
            found, token = self.page(prefix, token)
            for blob in found:
                is_folder = str((blob.metadata or {}).get(FOLDER, "")).casefold() == "true"
                if blob.name > after and not is_folder:
                    yield str(blob.name), int(blob.size)
            if not token:
                return

    def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs."""
        to_delete = list(keys)
        for at in range(0, len(to_delete), DELETED):
            some = to_delete[at : at + DELETED]
            found = self.delete_some(some)
            for key, status, reason in found:
                if status not in GONE:
                    problem = f"the store refuses to delete it: {reason}"
                    raise self.error(problem, key)


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


class AzureParts(Parts[AzureStore]):
    """Blocks that are staged, and become a blob by a list of them.

    Names of blocks are an upload's own, since blocks of all uploads to one name are in one set. Who commits a list discards the blocks of
    the others, whose lists are refused then; blocks of nobody are discarded by the store after a week.
    """

    def __init__(self, store: AzureStore, key: str, *, fresh: bool) -> None:
        super().__init__(store, key, fresh=fresh)
        self._upload = uuid.uuid4().hex

    @property
    def least(self) -> int:
        """Return that blocks may have any size."""
        return 0

    def whole(self, data: bytes) -> None:
        """Make the blob of bytes in one request."""
        self._store.call("upload_blob", self._key, data=data, overwrite=not self._fresh)

    def send(self, data: bytes) -> None:
        """Stage the next block; one of no bytes is none."""
        if data:
            name = self._next()
            own = {"block_id": name, "length": len(data)}
            self._store.call("stage_block", self._key, data=data, **own)
            self._tags.append(name)

    def copy(self, source: str, begin: int, end: int) -> None:
        """Have the store copy bytes [begin, end) of another blob as the next block."""
        name = self._next()
        span = {"source_offset": begin, "source_length": end - begin}
        asked = {"block_id": name, **span, **self._store.source(source)}
        self._store.call("stage_block_from_url", self._key, **asked)
        self._tags.append(name)

    def _next(self) -> str:
        return f"{self._upload}-{len(self._tags):05}"

    def complete(self) -> None:
        """Make the blob of its blocks."""
        commit(self._store, self._key, self._tags, fresh=self._fresh)


def commit(store: AzureStore, key: str, blocks: Sequence[str], *, fresh: bool) -> None:
    """Make a blob of blocks; raises UnmetError where they are gone, or a blob is there that is not replaced."""
    from azure.core import MatchConditions  # noqa: PLC0415  an extra
    from azure.storage.blob import BlobBlock  # noqa: PLC0415  an extra

    condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing} if fresh else {}
    listed = [BlobBlock(name) for name in blocks]
    store.call("commit_block_list", key, block_list=listed, **condition)


def azure_store(address: str) -> tuple[ObjectStore, str]:
    """Return the container of an address and the key in it; raises OptionError and MissingDependencyError."""
    place = azure_place(address)
    problem = "writing to abfs:// needs azure-storage-blob and azure-identity"
    check_imports(problem, "azure", "azure.identity", "azure.storage.blob")
    return AzureStore(place), place.key
