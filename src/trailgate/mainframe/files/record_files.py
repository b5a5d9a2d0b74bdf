"""Read files of fixed-width records: list files, plan splits, and read complete records in chunks.

Files of fixed-length records or of lines can be split at any byte. In other formats, splits must
start at record boundaries. These are found by the surrounding descriptor words
(``find_common_begin``), or by an index that a pass over all record lengths creates.
"""

from __future__ import annotations

import codecs
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from trailgate.arrays import CHUNK, Longs, octets
from trailgate.cobol.records.framing import (
    FrameKind,
    Framing,
    RecordFrames,
    find_common_begin,
    find_frames,
)
from trailgate.errors import (
    DecodeError,
    StorageError,
    TrailgateError,
    TruncatedError,
    Where,
    mask_logins,
)
from trailgate.mainframe.files.record_index import IndexKey, RecordIndex, SplitStart, StoredIndex
from trailgate.storage.files.addresses import Addresses, absolute, addresses_of
from trailgate.storage.files.even_parts import even_part_size
from trailgate.storage.files.file_search import describe_empty_files, find_files
from trailgate.storage.files.opened_file import (
    CompressedFile,
    OpenedFile,
    codec_of,
    is_empty_file,
)

RECORD_SPLIT_BYTES: Final = 64 << 20
WHOLE_FILE: Final = 1 << 61  # as the size of a split: larger than any file
UNKNOWN: Final = 1 << 62  # as the end of a compressed file
LONGEST: Final = 1 << 30  # bytes of a record; a longer one is taken as a wrong length
# How much to read to find the start of a split, in multiples of the maximum record length.
WINDOWS: Final = (2, 4, 16)
KEPT_BYTES: Final = 1 << 20  # the approximate distance of the offsets in a stored index
WHAT: Final = "file of records"
NOT_FIXED: Final = "Is the record length right? Files with descriptor words, or lines, have another recordFormat: V, VB, line"
NO_FILES: Final = "%s: there are no files of records in its folders, so there are no rows"
NULL_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"  # the folder value that stands for NULL
LOG: Final = logging.getLogger(__name__)


class SplitSearch(Enum):
    """How to find the starts of splits in a record file whose records vary in length."""

    WORDS = "words"  # by the descriptor words around; by an index if these are ambiguous
    INDEX = "index"  # by one pass over the lengths of all records
    KEPT = "kept"  # by an index stored beside the file, which the first read creates


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of fixed-width records.

    Its records are in the bytes [begin, size). ``codec`` is set if it is compressed.

    ``partitions`` are the names and values of the folders ``NAME=VALUE`` that contain it.
    """

    path: str
    size: int
    codec: str | None = None
    begin: int = 0
    modified: int | None = None
    partitions: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordSplit:
    """The records that begin in the bytes [start, end) of a record file.

    An ``exact`` split starts and ends at record boundaries. ``first`` is the number of records
    before it (None if unknown). If the split starts inside a block, ``left`` is the number of bytes
    up to the block's end.
    """

    file: RecordFile
    start: int
    end: int
    first: int | None = None
    exact: bool = False
    left: int = 0

    def anywhere(self) -> RecordSplit:
        """Return the split with an absolute path, because workers have different working directories."""
        return replace(self, file=replace(self.file, path=absolute(self.file.path)))


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Complete records read from a file: ``data[starts[i]:ends[i]]``.

    ``base`` is the data's offset in the file. If the data starts inside a block, ``left`` is the
    number of bytes up to the block's end. ``first`` is the number of records before these in the
    file (None if unknown). If records were joined from segments, ``places`` are their offsets in the
    file.
    """

    path: str
    data: pa.Buffer
    starts: Longs
    ends: Longs
    base: int
    first: int | None = None
    left: int = 0
    places: Longs | None = None


def find_record_files(path: Addresses, partitions: tuple[str, ...] = ()) -> tuple[RecordFile, ...]:
    """Find the files at one or several addresses with ``find_files``, and return those that are not empty.

    Warnings are logged for empty files. With ``partitions`` (names of folders ``NAME=VALUE``), all
    subfolders are searched, and a warning is logged if there are no files. Raises StorageError if a
    file is not in a folder for each name.
    """
    found = find_files(path, "records", "there is no file or folder", deep=bool(partitions))
    if not found:
        LOG.warning(NO_FILES, mask_logins(", ".join(addresses_of(path))))
    empty = [file.path for file in found if is_empty_file(file.path, file.size, WHAT)]
    if empty:
        LOG.warning("%s", describe_empty_files(empty))
    return tuple(
        RecordFile(
            f.path,
            f.size,
            codec_of(f.path),
            modified=f.modified,
            partitions=_partitions(f.path, partitions),
        )
        for f in found
        if f.size
    )


def _partitions(path: str, names: tuple[str, ...]) -> tuple[tuple[str, str | None], ...]:
    """Return the partition values of a record file, from its folders ``NAME=VALUE``."""
    folders = [part.partition("=") for part in path.split("/")[:-1]]
    values = {name: unquote(value) for name, equals, value in folders if equals}
    for name in names:
        if name not in values:
            problem = f"the file is not in a folder {name}=VALUE"
            raise StorageError(
                problem, where=Where(source=path), hint="The option partitions needs it"
            )
    return tuple((name, None if values[name] == NULL_VALUE else values[name]) for name in names)


def plan_record_splits(
    files: tuple[RecordFile, ...],
    framing: Framing,
    split_bytes: int = RECORD_SPLIT_BYTES,
    search: SplitSearch = SplitSearch.WORDS,
    *,
    numbered: bool = False,
) -> list[RecordSplit]:
    """Plan splits of record files that together contain every record once.

    With ``numbered``, each split states the number of records before it. A compressed file is a
    single split.
    """
    framing.check()
    splits: list[RecordSplit] = []
    for file in filter(_has_bytes, (_without_head(file, framing) for file in files)):
        if file.codec is not None:
            splits.append(RecordSplit(file, file.begin, UNKNOWN))
        elif framing.kind is FrameKind.FIXED:
            splits += _fixed_splits(file, framing, split_bytes)
        else:
            step = even_part_size(file.size - file.begin, split_bytes)
            splits += _splits(file, framing, step, search, numbered)
    return splits


def _without_head(file: RecordFile, framing: Framing) -> RecordFile:
    """Return a record file without its header and trailer bytes."""
    if framing.trailer_bytes and file.codec is not None:
        hint = "Unpack it first"
        problem = f"a trailer of {framing.trailer_bytes} bytes cannot be found in a compressed file"
        raise DecodeError(problem, where=Where(source=file.path), hint=hint)
    end = file.size - framing.trailer_bytes
    if file.codec is None and end < framing.header_bytes:
        ends_text = f"a header of {framing.header_bytes} and a trailer of {framing.trailer_bytes}"
        problem = f"{file.size} bytes are fewer than {ends_text}"
        raise DecodeError(problem, where=Where(source=file.path))
    return replace(file, begin=framing.header_bytes, size=end)


def _has_bytes(file: RecordFile) -> bool:
    return file.codec is not None or file.size > file.begin


def _splits(
    file: RecordFile, framing: Framing, step: int, search: SplitSearch, numbered: bool
) -> list[RecordSplit]:
    """Return the splits of a record file whose records vary in length."""
    if step >= file.size - file.begin:
        return [RecordSplit(file, file.begin, file.size)]
    skips = framing.skip_first or framing.skip_last
    if framing.kind is FrameKind.LINE and not (
        skips or numbered or search is not SplitSearch.WORDS
    ):
        starts = range(file.begin, file.size, step)
        return [RecordSplit(file, start, min(start + step, file.size)) for start in starts]
    cuts = None
    if search is SplitSearch.WORDS and not numbered:
        cuts = _searched_cuts(file, framing, step)
    cuts = cuts or _index(file, framing, search, step).choose(step, framing)
    ends = [*(cut.start for cut in cuts[1:]), file.size]
    return [
        RecordSplit(file, cut.start, end, cut.first, exact=True, left=cut.left)
        for cut, end in zip(cuts, ends, strict=True)
    ]


def _searched_cuts(file: RecordFile, framing: Framing, step: int) -> list[SplitStart] | None:
    """Find a split start about every ``step`` bytes that the surrounding descriptor words confirm.

    Returns None if any of the starts cannot be confirmed.
    """
    longest = framing.longest
    # The minimum number of records in the first and last split. Skipped records must all be there.
    # The last split has at least half a step of bytes, and a border may move by the largest window.
    # Even if all its records are of maximum length, it has this many.
    certain = 0 if longest is None else (step // 2 - WINDOWS[-1] * longest) // longest
    if longest is None or max(framing.skip_first, framing.skip_last) > certain:
        return None
    cuts = [SplitStart(file.begin, 0)]
    with OpenedFile(file.path, file.size, WHAT) as opened:
        # The last split may be up to half a step longer, rather than leaving a tiny one.
        for border in range(file.begin + step, file.size - step // 2, step):
            # A record that contains the border begins at most its length before it.
            at = border - longest
            boundary = None
            for windows in WINDOWS:
                data = opened.read(at, windows * longest)
                last = opened.is_at_end(at + data.size)
                boundary = find_common_begin(octets(data), framing, last=last)
                # More bytes can settle an ambiguous beginning, except at the file's end, where
                # there are no more.
                if boundary is not None or last:
                    break
            if boundary is None:
                return None
            cuts.append(SplitStart(at + boundary, None))
    return cuts


def _index(file: RecordFile, framing: Framing, search: SplitSearch, step: int) -> RecordIndex:
    """Return the index of a file's records: the stored index, or a new one from a pass over all lengths.

    If that pass fails, the index ends early, and reading the last split raises the error.
    """
    key = IndexKey(file.path, file.size, file.modified, framing)
    is_kept = search is SplitSearch.KEPT
    if is_kept and (kept := StoredIndex.load(key)) is not None:
        return kept.index
    cuts = [SplitStart(file.begin, 0)]
    count = 0
    all_records = RecordSplit(file, file.begin, file.size)
    # A kept index serves later reads with other splits, so its cuts have a fixed distance.
    # Otherwise a quarter of a split is fine enough: each split begins at most that far from its
    # ideal place.
    size = KEPT_BYTES if is_kept else min(CHUNK, max(1, step // 4))
    try:
        for chunk in _chunks(all_records, framing, size):
            assert chunk.first is not None, "one split has all records"
            # The first chunk begins at the file's begin, which is already the first cut.
            if chunk.base > file.begin:
                cuts.append(SplitStart(chunk.base, chunk.first, chunk.left))
            count = chunk.first + len(chunk.starts)
    except DecodeError:
        return RecordIndex(cuts, count)
    index = RecordIndex(cuts, count)
    if is_kept:
        StoredIndex(key, index).keep()
    return index


def _fixed_splits(file: RecordFile, framing: Framing, split_bytes: int) -> list[RecordSplit]:
    """Return the splits of a record file of fixed-length records."""
    length = framing.length
    size = file.size - file.begin
    if size % length:
        problem = f"{size} bytes are not a multiple of the record length {length}"
        where = Where(source=file.path, offset=file.size - size % length)
        raise DecodeError(problem, where=where, hint=NOT_FIXED)
    first = file.begin + framing.skip_first * length
    stop = file.size - framing.skip_last * length
    # Counted in records, so that every split begins at one.
    step = even_part_size((stop - first) // length, max(1, split_bytes // length)) * length
    return [RecordSplit(file, at, min(at + step, stop)) for at in range(first, stop, step)]


def read_record_split(
    split: RecordSplit, framing: Framing, chunk: int = CHUNK
) -> Iterator[RecordChunk]:
    """Read the complete records of a split, in chunks of about ``chunk`` bytes.

    Raises DecodeError with file and offset if the framing is wrong.
    """
    try:
        yield from _without_ends(_chunks(split, framing, chunk), split, framing)
    except TrailgateError as error:
        raise error.with_place(source=split.file.path) from None


def _chunks(split: RecordSplit, framing: Framing, chunk: int) -> Iterator[RecordChunk]:
    """Yield the records of a split of a record file in chunks.

    If a chunk contains no complete record, its size is doubled.
    """
    with _open(split) as file:
        at, first = _first(file, split, framing, chunk), _records_before(split, framing)
        size, left = chunk, split.left
        while at < split.end:
            framing = replace(framing, left=left)
            data = file.read(at, size)
            if at == 0 and _has_mark(data, framing):
                at = len(codecs.BOM_UTF8)
                data = data.slice(at)
            finish = file.is_at_end(at + data.size)
            try:
                frames, damage = _frames_at(data, framing, at, finish=finish), None
            except DecodeError as error:  # yield the complete records before the damage first
                data = data.slice(0, (error.where.offset or at) - at)
                frames, damage = _frames_at(data, framing, at, finish=False), error
            owned = len(frames.starts)
            # Records that begin after the split's end belong to the next split.
            if split.end < split.file.size and not split.exact:
                owned = int(np.searchsorted(frames.starts + at, split.end))
            if owned:
                starts, ends = frames.starts[:owned], frames.ends[:owned]
                places = None if frames.places is None else frames.places + at
                own_data = data if frames.data is None else pa.py_buffer(frames.data)
                yield RecordChunk(
                    path=split.file.path,
                    data=own_data,
                    starts=starts,
                    ends=ends,
                    base=at,
                    first=first,
                    left=left,
                    places=places,
                )
                first = None if first is None else first + owned
            # Damage after the split's end is in records of the next split, which raises the error.
            if damage is not None and owned == len(frames.starts):
                raise _split_error(damage, split)
            if finish or owned < len(frames.starts):
                return
            # Not even one record is complete in these bytes: read the same place again, with more
            # of them.
            if not frames.end:
                size = _larger(size, at)
                continue
            at, left, size = at + frames.end, frames.left, chunk


def _has_mark(data: pa.Buffer, framing: Framing) -> bool:
    """Return True if a file of lines begins with a UTF-8 byte order mark, which is not part of its first record."""
    is_text = framing.kind is FrameKind.LINE and framing.delimiter.endswith(b"\n")
    return is_text and bool(data[: len(codecs.BOM_UTF8)] == codecs.BOM_UTF8)


def _open(split: RecordSplit) -> OpenedFile | CompressedFile:
    file = split.file
    if file.codec is None:
        return OpenedFile(file.path, split.end if split.exact else file.size, WHAT)
    return CompressedFile(file.path, file.codec, WHAT)


def _split_error(error: DecodeError, split: RecordSplit) -> DecodeError:
    """Return a clearer error if a record of an exact split extends past its end."""
    if not (isinstance(error, TruncatedError) and split.exact and split.end < split.file.size):
        return error
    problem = f"the records do not end at byte {split.end}, where the file's next split begins"
    hint = "Is a length damaged, or a block longer than 64 KB? splitSearch=index reads all lengths to find splits"
    return DecodeError(problem, where=error.where, hint=hint)


def _records_before(split: RecordSplit, framing: Framing) -> int | None:
    """Return the number of records before a split, or None if unknown."""
    if framing.kind is FrameKind.FIXED:
        return (split.start - split.file.begin) // framing.length
    return split.first if split.start > split.file.begin else 0


def _larger(size: int, at: int) -> int:
    if size >= LONGEST:
        problem = f"a record has more than {LONGEST} bytes"
        raise DecodeError(problem, where=Where(offset=at), hint="Is the framing wrong?")
    return 2 * size


def _frames_at(data: pa.Buffer, framing: Framing, at: int, *, finish: bool) -> RecordFrames:
    try:
        return find_frames(octets(data), framing, finish=finish)
    except DecodeError as error:
        where = replace(error.where, offset=at + (error.where.offset or 0))
        raise type(error)(error.problem, where=where, hint=error.hint) from None


def _first(
    file: OpenedFile | CompressedFile, split: RecordSplit, framing: Framing, chunk: int
) -> int:
    """Return the offset of the first record that starts in a split of a record file.

    A split may start inside a line. That line belongs to the previous split, so the first record
    starts after the next delimiter.
    """
    begins = split.exact or split.start == split.file.begin
    if framing.kind is not FrameKind.LINE or begins:
        return split.start
    mark = framing.delimiter
    # If a delimiter ends where the split begins, a line begins there.
    at = max(split.file.begin, split.start - len(mark))
    while at < split.end:
        data = file.read(at, chunk + len(mark))
        mark_at = data.to_pybytes().find(mark)
        if mark_at >= 0:
            return int(at + mark_at + len(mark))
        # Keep the last bytes, as a delimiter may begin in them.
        at += max(1, data.size - len(mark) + 1)
    return split.end


def _without_ends(
    chunks: Iterator[RecordChunk], split: RecordSplit, framing: Framing
) -> Iterator[RecordChunk]:
    """Yield chunks of records without the file's header and trailer records.

    A chunk is held back as long as it may contain trailer records.
    """
    if framing.kind is FrameKind.FIXED and split.file.codec is None:
        yield from chunks  # the splits exclude them already
        return
    before = framing.skip_first if split.start == split.file.begin else 0
    after = framing.skip_last if split.end >= split.file.size else 0
    pending: deque[RecordChunk] = deque()
    for chunk in chunks:
        skipped = min(before, len(chunk.starts))
        before -= skipped
        pending.append(_part(chunk, skipped, len(chunk.starts)))
        # Yield the oldest chunk once enough records follow for the trailer.
        while pending and _records(pending) - len(pending[0].starts) >= after:
            yield pending.popleft()
    # All chunks are read, so the last `after` records of those kept back are the trailer.
    remaining = _records(pending) - after
    for chunk in pending:
        if remaining <= 0:
            return
        yield _part(chunk, 0, min(remaining, len(chunk.starts)))
        remaining -= len(chunk.starts)


def _records(chunks: deque[RecordChunk]) -> int:
    return sum(len(chunk.starts) for chunk in chunks)


def _part(chunk: RecordChunk, begin: int, end: int) -> RecordChunk:
    first = None if chunk.first is None else chunk.first + begin
    cut = slice(begin, end)
    places = None if chunk.places is None else chunk.places[cut]
    return replace(
        chunk, starts=chunk.starts[cut], ends=chunk.ends[cut], first=first, places=places
    )
