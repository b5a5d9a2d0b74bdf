"""Buffer published messages until a broker takes their batch: in memory, beyond a limit in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Final

import numpy as np
import pyarrow as pa

from trailgate.messages.publishing import WrittenMessages
from trailgate.publish.message_origins import MessageOrigins
from trailgate.publish.senders.sender import OutgoingMessages

# The messages of a longer transaction go to a temporary file.
MEMORY_BYTES: Final = 64 << 20
HEADER: Final = "header."  # before the names of headers among the columns of a batch


class WaitingMessages:
    """A buffer of messages to publish that may not be sent yet. It can be iterated repeatedly.

    They wait for the end of their transaction, or for their batch. If more than ``most`` bytes are
    in memory, they are moved to a temporary file. ``count`` and ``bytes`` are sums over all
    messages, and ``memory`` the bytes that are in memory.
    """

    def __init__(self, most: int = MEMORY_BYTES) -> None:
        self._most = most
        self._parts: list[OutgoingMessages] = []
        self._file: IO[bytes] | None = None
        self._sizes: list[int] = []  # of the batches in the file
        self.count = self.bytes = self.memory = 0

    def append(self, part: OutgoingMessages) -> None:
        """Add messages to publish to the buffer."""
        if not len(part.messages):
            return
        size = part.messages.bodies.nbytes
        self._parts.append(part)
        self.count, self.bytes, self.memory = (
            self.count + len(part.messages),
            self.bytes + size,
            self.memory + size,
        )
        if self.memory > self._most:
            self._write()

    def move_to(self, other: WaitingMessages) -> None:
        """Move all waiting messages to the end of another buffer."""
        for part in self:
            other.append(part)
        self.clear()

    def clear(self) -> None:
        """Discard all waiting messages, and close the temporary file."""
        if self._file is not None:
            self._file.close()
        self._file, self._parts, self._sizes = None, [], []
        self.count = self.bytes = self.memory = 0

    def __iter__(self) -> Iterator[OutgoingMessages]:
        """Yield the waiting messages in the order in which they were added, in parts."""
        if self._file is not None:
            self._file.seek(0)
            for size in self._sizes:
                yield _decode(self._file.read(size))
        yield from self._parts

    def _write(self) -> None:
        """Move the waiting messages from memory to the temporary file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  closed by clear()
        self._file.seek(0, 2)
        for part in self._parts:
            data = _encode(part)
            self._file.write(data)
            self._sizes.append(len(data))
        self._parts, self.memory = [], 0


def _encode(part: OutgoingMessages) -> bytes:
    """Encode messages to publish as an Arrow stream of one batch, for the temporary file."""
    messages, origins = part
    columns = {
        "bodies": messages.bodies,
        "order": pa.array(messages.order),
        "positions": origins.positions,
        "tables": origins.tables,
        "op_types": pa.array(origins.op_types),
        "times": pa.array(origins.times),
        "numbers": pa.array(origins.numbers),
        "marks": pa.array(origins.marks),
        **({} if messages.keys is None else {"keys": messages.keys}),
        **{f"{HEADER}{name}": values for name, values in messages.headers.items()},
    }
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _decode(data: bytes) -> OutgoingMessages:
    """Decode messages to publish from an Arrow stream of the temporary file."""
    batch = pa.ipc.open_stream(data).read_next_batch()
    names = batch.schema.names
    headers = {name.removeprefix(HEADER): batch[name] for name in names if name.startswith(HEADER)}
    keys = batch["keys"] if "keys" in names else None
    numbers = {
        name: np.asarray(batch[name].to_numpy(zero_copy_only=False))
        for name in ("order", "op_types", "times", "numbers", "marks")
    }
    messages = WrittenMessages(batch["bodies"], numbers.pop("order"), headers, keys)
    return OutgoingMessages(
        messages, MessageOrigins(positions=batch["positions"], tables=batch["tables"], **numbers)
    )
