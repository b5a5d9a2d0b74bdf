"""Write the journal between a broker and a trail: messages are stored on disk before they are acknowledged.

So a message is not lost even after the broker has deleted it. ``PREFIX.journal`` is a folder of
numbered segment files. Each stored message gets a number, from 0. A segment is deleted once the
trail contains all its messages. Their ids are kept longer, in an id file, because the broker may
redeliver messages (docs/guarantees.md): a message with a known id is not stored again. The number
of ids that are kept is limited (``JournalOptions.remembered``).
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
from trailgate.columnar.gather import checksums
from trailgate.columnar.strings import byte_view
from trailgate.errors import BrokerError, StorageError, Where
from trailgate.live.files.journal_segments import (
    HEAD,
    IDS,
    RESTORE,
    SEGMENT,
    GrowingSegment,
    JournalFile,
    encode_frame,
    file_path,
    journal_files,
    read_frames,
    segment_frames,
)
from trailgate.messages.message_ids import REMEMBERED
from trailgate.storage.files.durable import convert_write_errors, replace_whole_file, sync_folder
from trailgate.storage.files.locks import lock

# The rows of an id file: each id and the CRC-32 of the message's body, which old files do not have.
IDS_SCHEMA: Final = pa.schema([pa.field("id", pa.string()), pa.field("checksum", pa.int64())])
_UNIQUE: Final = (
    "An id must be unique. Let the sender set a unique id for each message (by STOMP, ActiveMQ sets ids itself). "
    "The broker still has the message"
)

SEGMENT_BYTES: Final = 64 << 20


def checksums_of(messages: pa.RecordBatch) -> pa.Array:
    """Return the CRC-32 of each journal message's body.

    ``messages`` are messages, or rows of an id file. The checksum is null for rows of an old id
    file, which has none.
    """
    if "body" in messages.schema.names:
        bounds, data = byte_view(messages["body"])
        return pa.array(checksums(data, bounds[:-1], bounds[1:]), pa.int64())
    if "checksum" in messages.schema.names:
        return messages["checksum"]
    return pa.nulls(len(messages), pa.int64())


def ids_of(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Build the rows of a journal's id file for these messages."""
    return pa.RecordBatch.from_arrays([messages["id"], checksums_of(messages)], schema=IDS_SCHEMA)


class KnownIds:
    """The ids of the journal's last ``limit`` messages, with the checksums of their bodies, to recognize duplicates."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sums: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def mask_new(self, ids: pa.RecordBatch) -> Mask:
        """Return a mask of the messages whose ids are new: neither among the journal's known ids, nor earlier in this batch.

        ``ids`` are rows of an id file. Raises BrokerError if a known id comes with a different
        body, because that is a different message.
        """
        names = ids["id"].to_pylist()
        found = np.ones(len(names), bool)
        # The usual case: no id is known, and none occurs twice.
        if self._sums.keys().isdisjoint(names) and len(set(names)) == len(names):
            return found
        seen: dict[str, int | None] = {}
        for at, (id_, checksum) in enumerate(zip(names, ids["checksum"].to_pylist(), strict=True)):
            known = self._sums if id_ in self._sums else seen
            if id_ in known:
                found[at] = False
                if known[id_] not in (checksum, None):
                    problem = f"the message id {id_} was received before with a different body"
                    raise BrokerError(problem, hint=_UNIQUE)
            else:
                seen[id_] = checksum
        return found

    def add(self, ids: pa.RecordBatch) -> None:
        """Add message ids (rows of an id file), and drop the oldest ids if there are more than the limit."""
        self._sums.update(zip(ids["id"].to_pylist(), ids["checksum"].to_pylist(), strict=True))
        # A dict keeps the order in which keys were added, so its first keys are the oldest.
        excess = len(self._sums) - self._limit
        for one in list(islice(self._sums, max(0, excess))):
            del self._sums[one]


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """The options of a journal: the size of segments, and the number of message ids to remember."""

    segment_bytes: int = SEGMENT_BYTES
    remembered: int = REMEMBERED


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """Consecutive messages of one journal segment. ``number`` is the number of the first message.

    ``segment`` is the number of the segment. ``segment`` and ``offsets`` together identify each
    message: they are the same each time that the messages are read. ``begin`` is the offset of the
    frame in the segment. If earlier messages of the frame were skipped (``after``), it is higher,
    so that ``offsets`` stay the same.
    """

    number: int
    segment: int
    begin: int
    messages: pa.RecordBatch

    @property
    def end(self) -> int:
        """The number of the last stored message plus one."""
        return self.number + len(self.messages)

    @property
    def offsets(self) -> Longs:
        """A number for each stored message, ascending and unique in the segment, as its identity.

        It is the offset that the body would have if the frame contained only its head and the
        bodies, and an empty body were a byte long. For example, in a frame at offset 100 with
        bodies of 7, 0 and 9 bytes, it is 100 + HEAD, 107 + HEAD and 108 + HEAD.
        """
        bodies = self.messages["body"]
        # Arrow's offsets buffer of the bodies, read without copying.
        bounds = np.frombuffer(bodies.buffers()[1], np.int32, len(bodies) + 1, 4 * bodies.offset)
        # A frame has many more bytes than these, so the next frame's offsets are higher.
        lengths = np.maximum(np.diff(bounds).astype(np.int64), 1)
        return self.begin + HEAD + np.cumsum(lengths) - lengths

    def after(self, number: int) -> StoredMessages:
        """Return the stored messages from a number on, or all if it is lower than the first number.

        The number must not be higher than that of the last message.
        """
        skipped = number - self.number
        if skipped <= 0:
            return self
        begin = int(self.offsets[skipped]) - HEAD
        return StoredMessages(number, self.segment, begin, self.messages.slice(skipped))


class Journal:
    """A journal that is open for writing. One process can open it at a time.

    ``wait`` is the number of seconds to wait for another process to close it. ``next`` is the
    number that the next stored message gets.
    """

    def __init__(
        self, folder: Path, options: JournalOptions | None = None, wait: float = 0.0
    ) -> None:
        self.folder, self._options = folder, options or JournalOptions()
        self._known = KnownIds(self._options.remembered)
        self._firsts: dict[int, int] = {}  # the number of each segment's first message
        self._ids: dict[int, list[pa.RecordBatch]] = {}  # ids of segments written by this process
        self.next = 0
        # If opening fails halfway, the stack releases the lock and closes the files. `pop_all` at
        # the end hands them over to the journal, whose `close` releases them.
        with ExitStack() as resources:
            resources.enter_context(lock(str(folder), wait, "journal"))
            with convert_write_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
            self._open(resources)
            self._resources = resources.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def first(self) -> int:
        """The number of the first message that is still in the journal."""
        return self._firsts[min(self._firsts)]

    def append(self, messages: pa.RecordBatch) -> StoredMessages:
        """Store the messages that are not in the journal yet, and return these. They are on disk then.

        Raises WriteError if the disk is full, and BrokerError if messages have no ids or an id was
        used for a different body. None of the messages is stored then.
        """
        if messages["id"].null_count:
            raise BrokerError(
                "the broker's messages have no ids, so redelivered ones could not be recognised",
                hint="Let the sender set message ids, or use a different protocol (docs/guarantees.md)",
            )
        ids = ids_of(messages)
        fresh = self._known.mask_new(ids)
        if not fresh.all():
            new_rows = pa.array(fresh)
            messages, ids = messages.filter(new_rows), ids.filter(new_rows)
        if not len(messages):
            return StoredMessages(self.next, self._growing.number, self._growing.size, messages)
        if self._growing.size >= self._options.segment_bytes:
            self._begin_segment(self._growing.number + 1)
        stored = StoredMessages(self.next, self._growing.number, self._growing.size, messages)
        self._growing.append(*encode_frame(self.next, messages))
        self._known.add(ids)
        self._cache_ids(ids)
        self.next = stored.end
        return stored

    def read(self, number: int) -> Iterator[StoredMessages]:
        """Yield the journal's messages from a number on.

        Yields nothing if it is the number of the next message. Raises StorageError if the journal
        does not have the message with this number (any more).
        """
        if not self.first <= number <= self.next:
            last, before = self.next - 1, f"no messages before {self.next}"
            held = f"messages {self.first} to {last}" if self.first <= last else before
            problem = f"message {number} is not in the journal, which has {held}"
            hint = "The journal does not belong to the trail's checkpoint: restore the right one"
            raise StorageError(problem, where=Where(source=str(self.folder)), hint=hint)
        for file, frame in segment_frames(self.folder):
            stored = StoredMessages(frame.number, file.number, frame.begin, frame.batch)
            if stored.end > number:
                yield stored.after(number)

    def release(self, number: int) -> None:
        """Delete the journal segments whose messages all have lower numbers, and keep their ids.

        The last segment, to which messages are appended, is never deleted.
        """
        # The last segment is still being written.
        for segment in sorted(self._firsts)[:-1]:
            if self._firsts[segment + 1] > number:
                break
            path = file_path(self.folder, segment, SEGMENT)
            ids = self._ids.pop(segment, None)
            if ids is None:
                ids = [ids_of(frame.batch) for frame in read_frames(path)]
            table = pa.Table.from_batches(ids, IDS_SCHEMA).combine_chunks()
            frame = b"".join(encode_frame(self._firsts[segment], *table.to_batches()))
            # The ids first: if the process is killed in between, both files exist, and ``_open`` deletes the
            # segment.
            replace_whole_file(file_path(self.folder, segment, IDS), frame)
            with convert_write_errors(path):
                path.unlink()
            del self._firsts[segment]
            self._forget()

    def close(self) -> None:
        """Close the journal's files, and release its lock."""
        self._resources.close()

    def _open(self, resources: ExitStack) -> None:
        """Load the ids and numbers of the journal's files, and find the end of the last segment.

        Raises StorageError if an earlier segment ends inside a frame.
        """
        files = journal_files(self.folder)
        end = 0
        for file in files:
            end = self._load(file)
            if file.kind == IDS:
                # Deleting its segment may have been interrupted.
                file_path(self.folder, file.number, SEGMENT).unlink(missing_ok=True)
            elif file is not files[-1] and end != file.path.stat().st_size:
                problem = (
                    "the journal is damaged: a segment before the last one ends inside a frame"
                )
                where = Where(source=str(file.path), offset=end)
                raise StorageError(problem, where=where, hint=RESTORE)
        number = files[-1].number if files else 0
        # The last segment was released, so a new one begins after it.
        if files and files[-1].kind == IDS:
            number, end = number + 1, 0
        # An incomplete frame at the end was never acknowledged, since the writer was killed while writing
        # it. GrowingSegment truncates it.
        self._growing = GrowingSegment(self.folder, number, end)
        resources.callback(self._close_growing)
        self._firsts.setdefault(number, self.next)

    def _close_growing(self) -> None:
        self._growing.close()

    def _load(self, file: JournalFile) -> int:
        """Load the ids and numbers of one journal file. Returns the end of its last complete frame."""
        end = 0
        for frame in read_frames(file.path):
            if self.next and frame.number != self.next:
                problem = f"message {frame.number} follows {self.next - 1} in the journal"
                where = Where(source=str(file.path), offset=frame.begin)
                raise StorageError(problem, where=where, hint=RESTORE)
            if file.kind == SEGMENT:
                self._firsts.setdefault(file.number, frame.number)
            self._known.add(ids_of(frame.batch))
            self.next, end = frame.number + len(frame.batch), frame.end
        return end

    def _cache_ids(self, ids: pa.RecordBatch) -> None:
        """Cache the ids of stored messages until their segment is released.

        They are then written to an id file. Only ids of segments that this process began are
        cached, and only as many as the journal remembers. Others are read again from the segment.
        """
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
        """Delete the journal's id files that have none of the last ``remembered`` ids."""
        kept = self.next - self._options.remembered
        files = [file for file in journal_files(self.folder) if file.kind == IDS]
        for file in files:
            frame = next(read_frames(file.path))
            if frame.number + len(frame.batch) > kept:
                return
            with convert_write_errors(file.path):
                file.path.unlink()
                sync_folder(self.folder)
