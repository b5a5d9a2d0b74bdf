"""Azure's Blob Storage: block blobs are put under the conditions If-None-Match and If-Match."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from trailgate.storage.accounts.azure import azure_place
from trailgate.storage.stores.azure_client import AzureContainer, check_installed
from trailgate.storage.stores.azure_parts import AzureParts, commit
from trailgate.storage.stores.bucket import BucketStore
from trailgate.storage.stores.conditions import UNDECIDED, put_decided
from trailgate.storage.stores.object_store import ObjectStore, Pending, Range, UnmetError
from trailgate.storage.stores.parted_upload import PartedUpload, upload_file

DELETED: Final = 256  # blobs in a request
GONE: Final = (200, 202, 404)  # answers to a deletion after which a blob is not there
COPIED: Final = 1 << 30  # bytes that the store copies in a request; it takes 4,000 MiB
COMPOSED: Final = 8  # times that an object is composed whose blocks another writer's list discards
APART: Final = 0.05  # seconds that writers wait then, at most twice as long each time
FOLDER: Final = "hdi_isfolder"  # what accounts with a hierarchy of folders note of these


def azure_store(address: str) -> tuple[ObjectStore, str]:
    """Return the container of an address and the key in it; raises OptionError and MissingDependencyError."""
    place = azure_place(address)
    check_installed()
    return AzureStore(AzureContainer(place)), place.key


class AzureStore(BucketStore[AzureContainer]):
    """One container."""

    def put(self, key: str, data: bytes, over: str | None) -> str | None:
        """Write a blob where the condition holds; return its tag where it has these bytes now."""
        from azure.core import MatchConditions  # noqa: PLC0415  an extra

        condition: dict[str, Any] = {"overwrite": over is not None}
        if over is not None:
            condition |= {"etag": over, "match_condition": MatchConditions.IfNotModified}

        def send() -> str:
            return str(self.bucket.call("upload_blob", key, data=data, **condition)["etag"])

        return put_decided(self, key, send, data, over)

    def upload(self, key: str, path: Path) -> None:
        """Write a local file as a blob."""
        upload_file(AzureParts(self.bucket, key, fresh=False), path)

    def compose(self, key: str, pieces: Sequence[bytes | Range]) -> None:
        """Write a blob of bytes and parts of others, which the store itself copies."""
        for turn in range(COMPOSED):
            parts = AzureParts(self.bucket, key, fresh=False)
            made = PartedUpload(parts, fresh=False)
            for piece in pieces:
                if isinstance(piece, bytes):
                    made.write(piece)
                    continue
                for at in range(piece.begin, piece.end, COPIED):
                    made.send_held()
                    parts.copy(piece.key, at, min(at + COPIED, piece.end))
            try:
                return made.make()
            except UnmetError:
                # Another writer's list has discarded the blocks: both would do so for ever.
                time.sleep(random.uniform(0, APART * 2**turn))  # noqa: S311  no secret
        raise self.bucket.error(UNDECIDED, key)

    def begin(self, key: str, *, later: bool = False) -> PartedUpload:
        """Begin a blob that must not be there when it is finished."""
        del later  # parts are not seen
        return PartedUpload(AzureParts(self.bucket, key, fresh=True), fresh=True)

    def complete(self, pending: Pending) -> None:
        """Make a blob of an upload that was left."""
        with self.completing(pending):
            commit(self.bucket, pending.key, pending.tags, fresh=False)

    def listed(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        token: str | None = None
        while True:
            found, token = self.bucket.page(prefix, token)
            for blob in found:
                is_folder = str((blob.metadata or {}).get(FOLDER, "")).casefold() == "true"
                if blob.name > after and not is_folder:
                    yield str(blob.name), int(blob.size)
            if not token:
                return

    def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs."""
        doomed = list(keys)
        for at in range(0, len(doomed), DELETED):
            some = doomed[at : at + DELETED]
            found = self.bucket.delete(some)
            for key, status, reason in found:
                if status not in GONE:
                    problem = f"the store refuses to delete it: {reason}"
                    raise self.bucket.error(problem, key)

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Do nothing: nobody sees blocks of unfinished uploads, and the store discards them after a week."""
