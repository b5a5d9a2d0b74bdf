"""The blocks of one blob of Azure."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from trailgate.errors import WriteError
from trailgate.storage.stores.azure_client import AzureContainer
from trailgate.storage.stores.object_store import Pending, UnmetError


class AzureParts:
    """Blocks that are staged, and become a blob by a list of them.

    Names of blocks are an upload's own, since blocks of all uploads to one name are in one set. Who commits a list discards the blocks of
    the others, whose lists are refused then; blocks of nobody are discarded by the store after a week.
    """

    def __init__(self, container: AzureContainer, key: str, *, fresh: bool) -> None:
        self._container, self._key, self._fresh = container, key, fresh
        self._upload, self._blocks = uuid.uuid4().hex, list[str]()

    @property
    def count(self) -> int:
        """Return how many blocks were staged."""
        return len(self._blocks)

    def whole(self, data: bytes) -> None:
        """Make the blob of bytes in one request."""
        self._container.call("upload_blob", self._key, data=data, overwrite=not self._fresh)

    def send(self, data: bytes) -> None:
        """Stage the next block; one of no bytes is none."""
        if data:
            name = self._next()
            own = {"block_id": name, "length": len(data)}
            self._container.call("stage_block", self._key, data=data, **own)
            self._blocks.append(name)

    def copy(self, source: str, begin: int, end: int) -> None:
        """Have the store copy bytes [begin, end) of another blob as the next block."""
        name = self._next()
        span = {"source_offset": begin, "source_length": end - begin}
        asked = {"block_id": name, **span, **self._container.source(source)}
        try:
            self._container.call("stage_block_from_url", self._key, **asked)
        except UnmetError:
            raise self._container.error("the object is gone", source) from None
        self._blocks.append(name)

    def _next(self) -> str:
        return f"{self._upload}-{len(self._blocks):05}"

    def complete(self) -> None:
        """Make the blob of its blocks."""
        commit(self._container, self._key, self._blocks, fresh=self._fresh)

    def left(self) -> Pending:
        """Return what completes it."""
        return Pending(self._key, self._upload, tuple(self._blocks))

    def discard(self) -> None:
        """Do nothing: nobody sees the blocks, and the store discards them."""

    def error(self, problem: str) -> WriteError:
        """Return an error about the blob."""
        return self._container.error(problem, self._key)


def commit(container: AzureContainer, key: str, blocks: Sequence[str], *, fresh: bool) -> None:
    """Make a blob of blocks; raises UnmetError where they are gone, or a blob is there that is not replaced."""
    from azure.core import MatchConditions  # noqa: PLC0415  an extra
    from azure.storage.blob import BlobBlock  # noqa: PLC0415  an extra

    condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing} if fresh else {}
    listed = [BlobBlock(name) for name in blocks]
    container.call("commit_block_list", key, block_list=listed, **condition)
