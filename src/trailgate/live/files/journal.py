"""The journal between a broker and a trail: what it holds is never lost, though the broker has forgotten it.

``PREFIX.journal`` is a folder of numbered segments. Messages are numbered from 0 on; what has a number lasts. A segment is removed
when the trail has all of it; its ids are kept for as long as messages may be given again (docs/guarantees.md): what a broker gives
again is recognised by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.digits import checksums
from trailgate.columnar.rows import byte_view
from trailgate.errors import BrokerError, StorageError, Where
from trailgate.live.files.journal_segments import (
    HEAD,
    IDS,
    SEGMENT,
    GrowingSegment,
    JournalFile,
    encode_frame,
    file_path,
    journal_files,
    read_frames,
    segment_frames,
)
from trailgate.messages.metadata import REMEMBERED
from trailgate.storage.files.durable import lock, sync_folder, write_whole, writing

# The rows of a file of ids: the CRC-32 of the body beside each id. Files of earlier versions do not have it.
IDS_SCHEMA: Final = pa.schema([pa.field("id", pa.string()), pa.field("checksum", pa.int64())])
_UNIQUE: Final = (
    "An id is one message's. Let the sender give each message an id of its own, or receive by STOMP, where ActiveMQ gives ids itself. "
    "The message is still with the broker"
)


def checksums_of(messages: pa.RecordBatch) -> pa.Array:
    """Return the checksum of the body of each message, or row of a file of ids; null where it is not known."""
    if "body" in messages.schema.names:
        bounds, data = byte_view(messages["body"])
        return pa.array(checksums(data, bounds[:-1], bounds[1:]), pa.int64())
    if "checksum" in messages.schema.names:
        return messages["checksum"]
    return pa.nulls(len(messages), pa.int64())


def ids_of(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a file of ids."""
    return pa.RecordBatch.from_arrays([messages["id"], checksums_of(messages)], schema=IDS_SCHEMA)


class KnownIds:
    """Remembers so many ids, those that came last, each with the checksum of its message's body."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sums: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def fresh(self, ids: pa.RecordBatch) -> Mask:
        """Return which messages were not stored, and are not in this window before; ``ids`` are rows of a file of ids.

        Raises BrokerError for an id that came before with another body: that is not the same message.
        """
        names = ids["id"].to_pylist()
        found = np.ones(len(names), bool)
        if self._sums.keys().isdisjoint(names) and len(set(names)) == len(names):
            return found
        seen: dict[str, int | None] = {}
        for at, (own, checksum) in enumerate(zip(names, ids["checksum"].to_pylist(), strict=True)):
            known = self._sums if own in self._sums else seen
            if own in known:
                found[at] = False
                if known[own] not in (checksum, None):
                    problem = f"the message id {own} came before, with another body"
                    raise BrokerError(problem, hint=_UNIQUE)
            else:
                seen[own] = checksum
        return found

    def add(self, ids: pa.RecordBatch) -> None:
        """Remember ids, rows of a file of ids; the oldest ones are forgotten for them."""
        self._sums.update(zip(ids["id"].to_pylist(), ids["checksum"].to_pylist(), strict=True))
        surplus = len(self._sums) - self._limit
        for one in list(islice(self._sums, max(0, surplus))):
            del self._sums[one]


SEGMENT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """The size of segments, and how many messages are recognised when they are given again."""

    segment_bytes: int = SEGMENT_BYTES
    remembered: int = REMEMBERED


@dataclass(frozen=True, slots=True)
class Stored:
    """Consecutive messages of the journal: ``number`` is the first one's, ``segment`` and ``offsets`` are where their bodies are.

    A body's offset is the same whenever it is read.
    """

    number: int
    segment: int
    begin: int
    messages: pa.RecordBatch

    @property
    def end(self) -> int:
        """Return the number after the last message's."""
        return self.number + len(self.messages)

    @property
    def offsets(self) -> Longs:
        """Return the place of each body in its segment: ascending, and a body's length apart at least."""
        bodies = self.messages["body"]
        bounds = np.frombuffer(bodies.buffers()[1], np.int32, len(bodies) + 1, 4 * bodies.offset)
        return self.begin + HEAD + bounds[:-1].astype(np.int64) - int(bounds[0])

    def after(self, number: int) -> Stored:
        """Return the messages from a number on, which is among them."""
        left_out = number - self.number
        if left_out <= 0:
            return self
        begin = int(self.offsets[left_out]) - HEAD
        return Stored(number, self.segment, begin, self.messages.slice(left_out))


class Journal:
    """A journal that is written; one process holds it at a time, and ``wait`` seconds are waited for another one to end."""

    def __init__(
        self, folder: Path, options: JournalOptions | None = None, wait: float = 0.0
    ) -> None:
        self.folder, self._options = folder, options or JournalOptions()
        self._known = KnownIds(self._options.remembered)
        self._firsts: dict[int, int] = {}  # of each segment, its first message's number
        self._ids: dict[int, list[pa.RecordBatch]] = {}  # of segments that were written now
        self.next = 0
        with ExitStack() as held:
            held.enter_context(lock(str(folder), wait, "journal"))
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
            self._open(held)
            self._held = held.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def first(self) -> int:
        """Return the number of the first message that is there."""
        return self._firsts[min(self._firsts)]

    def append(self, messages: pa.RecordBatch) -> Stored:
        """Store the messages that are not known yet; they last when this returns.

        Raises WriteError where the disk is full, and BrokerError for messages that nothing would recognise when they come again, or whose id
        came before with another body; then none of them is stored.
        """
        if messages["id"].null_count:
            raise BrokerError(
                "the broker gives messages without an id: what it gives again could not be recognised",
                hint="Let the sender set message ids, or receive by another protocol (docs/guarantees.md)",
            )
        ids = ids_of(messages)
        fresh = self._known.fresh(ids)
        if not fresh.all():
            kept = pa.array(fresh)
            messages, ids = messages.filter(kept), ids.filter(kept)
        if not len(messages):
            return Stored(self.next, self._growing.number, self._growing.size, messages)
        if self._growing.size >= self._options.segment_bytes:
            self._begin_segment(self._growing.number + 1)
        stored = Stored(self.next, self._growing.number, self._growing.size, messages)
        self._growing.append(*encode_frame(self.next, messages))
        self._known.add(ids)
        self._note_ids(ids)
        self.next = stored.end
        return stored

    def read(self, number: int) -> Iterator[Stored]:
        """Yield what is there from a message on; raises StorageError where that was removed, or never there."""
        if not self.first <= number <= self.next:
            problem = f"the journal holds messages {self.first} to {self.next}, not {number}"
            hint = "It is not the journal that belongs to the trail's checkpoint: restore that one"
            raise StorageError(problem, where=Where(source=str(self.folder)), hint=hint)
        for file, frame in segment_frames(self.folder):
            stored = Stored(frame.number, file.number, frame.begin, frame.batch)
            if stored.end > number:
                yield stored.after(number)

    def release(self, number: int) -> None:
        """Remove the segments whose messages all have lower numbers; ids are kept as long as they are needed."""
        for segment in sorted(self._firsts)[:-1]:
            if self._firsts[segment + 1] > number:
                break
            path = file_path(self.folder, segment, SEGMENT)
            ids = self._ids.pop(segment, None)
            if ids is None:
                ids = [ids_of(frame.batch) for frame in read_frames(path)]
            table = pa.Table.from_batches(ids, IDS_SCHEMA).combine_chunks()
            frame = b"".join(encode_frame(self._firsts[segment], *table.to_batches()))
            write_whole(file_path(self.folder, segment, IDS), frame)
            with writing(path):
                path.unlink()
            del self._firsts[segment]
            self._forget()

    def close(self) -> None:
        """Let go of the journal."""
        self._held.close()

    def _open(self, held: ExitStack) -> None:
        """Read what is there: ids, numbers, and where the last segment ends."""
        files = journal_files(self.folder)
        end = 0
        for file in files:
            end = self._look_through(file)
            if file.kind == IDS:
                # The removal of its segment may have been interrupted.
                file_path(self.folder, file.number, SEGMENT).unlink(missing_ok=True)
            elif file is not files[-1] and end != file.path.stat().st_size:
                problem = (
                    "the journal is damaged: a segment before the last one ends inside a frame"
                )
                raise StorageError(problem, where=Where(source=str(file.path), offset=end))
        number = files[-1].number if files else 0
        if files and files[-1].kind == IDS:
            number, end = number + 1, 0
        # What follows the last whole frame was being written when the writer was killed: it was never acknowledged.
        self._growing = GrowingSegment(self.folder, number, end)
        held.callback(self._close_growing)
        self._firsts.setdefault(number, self.next)

    def _close_growing(self) -> None:
        self._growing.close()

    def _look_through(self, file: JournalFile) -> int:
        """Note what a file holds; return where its last whole frame ends."""
        end = 0
        for frame in read_frames(file.path):
            if self.next and frame.number != self.next:
                problem = f"message {frame.number} follows {self.next - 1} in the journal"
                raise StorageError(problem, where=Where(source=str(file.path), offset=frame.begin))
            if file.kind == SEGMENT:
                self._firsts.setdefault(file.number, frame.number)
            self._known.add(ids_of(frame.batch))
            self.next, end = frame.number + len(frame.batch), frame.end
        return end

    def _note_ids(self, ids: pa.RecordBatch) -> None:
        """Keep ids for the release of their segment, as many as are remembered anyway; others are read again then."""
        number = self._growing.number
        if number in self._ids or self._firsts[number] == self.next:
            self._ids.setdefault(number, []).append(ids)
        while len(self._ids) > 1 and (
            self.next - self._firsts[min(self._ids)] > self._options.remembered
        ):
            del self._ids[min(self._ids)]

    def _begin_segment(self, number: int) -> None:
        growing = GrowingSegment(self.folder, number, 0)
        self._growing.close()
        self._growing = growing
        self._firsts[number] = self.next

    def _forget(self) -> None:
        """Remove the ids that are not remembered any longer."""
        kept = self.next - self._options.remembered
        files = [file for file in journal_files(self.folder) if file.kind == IDS]
        for file in files:
            frame = next(read_frames(file.path))
            if frame.number + len(frame.batch) > kept:
                return
            with writing(file.path):
                file.path.unlink()
                sync_folder(self.folder)
