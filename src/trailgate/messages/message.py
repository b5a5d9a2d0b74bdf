"""Messages in bulk: bodies in one buffer, headers, and where each stands in its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Consecutive messages: message i has the body data[starts[i]:ends[i]].

    Bodies ascend and do not overlap. ``files`` and ``offsets`` say where each stands: the
    number of its source file and its byte offset there. ``headers`` is None where the source
    has none.
    """

    data: pa.Buffer
    starts: Longs
    ends: Longs
    files: Longs
    offsets: Longs
    headers: tuple[Mapping[str, str], ...] | None = None
    source: str = ""

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, begin: int, end: int) -> MessageBatch:
        """Return the messages from ``begin`` to before ``end``."""
        part = slice(begin, end)
        return MessageBatch(
            self.data,
            self.starts[part],
            self.ends[part],
            self.files[part],
            self.offsets[part],
            None if self.headers is None else self.headers[part],
            self.source,
        )

    def place(self, message: int) -> tuple[str | None, int]:
        """Return the source's name and the byte offset of a message, for error texts."""
        return self.source or f"file {int(self.files[message])}", int(self.offsets[message])
