"""Files of fixed-width records: listing, splits, and reading in chunks of whole records."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from trailgate.arrays import CHUNK, Longs
from trailgate.cobol.records.framing import FrameKind, Frames, Framing, common_begin, find_frames
from trailgate.columnar.rows import octets
from trailgate.errors import (
    DecodeError,
    StorageError,
    TrailgateError,
    TruncatedError,
    Where,
    mask_logins,
)
from trailgate.mainframe.files.record_index import Cut, IndexKey, KeptIndex, RecordIndex
from trailgate.storage.files.addresses import absolute
from trailgate.storage.files.found_files import Addresses, addresses_of, even_step, find_files
from trailgate.storage.files.opened_file import CompressedFile, OpenedFile, codec_of

SPLIT_BYTES: Final = 64 << 20
WHOLE_FILE: Final = 1 << 61  # bytes of a split that no file has
UNKNOWN: Final = 1 << 62  # the end of a compressed file
LONGEST: Final = 1 << 30  # bytes of one record, beyond which its length is taken to be wrong
# How much is read to find where a split begins, in lengths of the longest record.
WINDOWS: Final = (2, 4, 16)
KEPT_BYTES: Final = 1 << 20  # about so far from each other are the offsets of an index that is kept
WHAT: Final = "file of records"
NOT_FIXED: Final = "Is the record length right? Files with words before records, or lines, have another recordFormat: V, VB, line"
NO_FILES: Final = "%s: no file of records is in any of its folders, so there are no rows"
NULL_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"  # what a folder is named for NULL
LOG: Final = logging.getLogger(__name__)


class Search(Enum):
    """How is found where the splits of a file begin whose records have lengths of their own."""

    WORDS = "words"  # by the descriptor words around; by an index where they leave a doubt
    INDEX = "index"  # by one pass over the lengths of all records
    KEPT = "kept"  # by an index beside the file, which the first reading makes


@dataclass(frozen=True, slots=True)
class RecordFile:
    """One file whose records are in the bytes [begin, size); a compressed one has a codec.

    ``partitions`` are the names and values of folders that it is in.
    """

    path: str
    size: int
    codec: str | None = None
    begin: int = 0
    modified: int | None = None
    partitions: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordSplit:
    """The records that begin in the bytes [start, end) of a file.

    Of an ``exact`` split the records fill these bytes. ``first`` is how many records precede them, None if that is unknown, and ``left``
    how many bytes are left of the block in which they begin.
    """

    file: RecordFile
    start: int
    end: int
    first: int | None = None
    exact: bool = False
    left: int = 0

    def anywhere(self) -> RecordSplit:
        """Return the split with an absolute path: it is read in another working folder."""
        return replace(self, file=replace(self.file, path=absolute(self.file.path)))


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Whole records, data[starts[i]:ends[i]]; ``base`` is the data's offset in the file, in whose block ``left`` bytes are left.

    ``first`` is how many records of the file precede these, None if that is unknown. ``places`` are the offsets in the file of records that the data
    has joined from several places.
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
    """Return the files at an address or several, as ``find_files`` does; empty ones are left out.

    With ``partitions``, names of folders ``NAME=VALUE``, all folders below are searched. There may be no file in them, which is logged; raises
    StorageError for a file that is not in a folder of each name.
    """
    found = find_files(path, "records", "there is no file or folder", deep=bool(partitions))
    if not found:
        LOG.warning(NO_FILES, mask_logins(", ".join(addresses_of(path))))
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
    """Return the values that the folders of a file have for names."""
    folders = [part.partition("=") for part in path.split("/")[:-1]]
    values = {name: unquote(value) for name, equals, value in folders if equals}
    for name in names:
        if name not in values:
            problem = f"the file is not in a folder {name}=VALUE"
            raise StorageError(problem, where=Where(source=path), hint="It is named by partitions")
    return tuple((name, None if values[name] == NULL_VALUE else values[name]) for name in names)


def plan_record_splits(
    files: tuple[RecordFile, ...],
    framing: Framing,
    split_bytes: int = SPLIT_BYTES,
    search: Search = Search.WORDS,
    *,
    numbered: bool = False,
) -> list[RecordSplit]:
    """Return splits that together hold every record once; ``numbered`` ones have records whose numbers are known.

    A compressed file is one split.
    """
    framing.check()
    splits: list[RecordSplit] = []
    for file in filter(_has_bytes, (_without_head(file, framing) for file in files)):
        if file.codec is not None:
            splits.append(RecordSplit(file, file.begin, UNKNOWN))
        elif framing.kind is FrameKind.FIXED:
            splits += _fixed_splits(file, framing, split_bytes)
        else:
            step = even_step(file.size - file.begin, split_bytes)
            splits += _splits(file, framing, step, search, numbered)
    return splits


def _without_head(file: RecordFile, framing: Framing) -> RecordFile:
    """Return a file without the bytes of its header and trailer."""
    if framing.trailer_bytes and file.codec is not None:
        hint = "Unpack it first"
        problem = f"the trailer of {framing.trailer_bytes} bytes of a compressed file is not known"
        raise DecodeError(problem, where=Where(source=file.path), hint=hint)
    end = file.size - framing.trailer_bytes
    if file.codec is None and end < framing.header_bytes:
        both = f"a header of {framing.header_bytes} and a trailer of {framing.trailer_bytes}"
        problem = f"{file.size} bytes are fewer than {both}"
        raise DecodeError(problem, where=Where(source=file.path))
    return replace(file, begin=framing.header_bytes, size=end)


def _has_bytes(file: RecordFile) -> bool:
    return file.codec is not None or file.size > file.begin


def _splits(
    file: RecordFile, framing: Framing, step: int, search: Search, numbered: bool
) -> list[RecordSplit]:
    """Return the splits of a file whose records are of several lengths."""
    if step >= file.size - file.begin:
        return [RecordSplit(file, file.begin, file.size)]
    skips = framing.skip_first or framing.skip_last
    if framing.kind is FrameKind.LINE and not (skips or numbered or search is not Search.WORDS):
        starts = range(file.begin, file.size, step)
        return [RecordSplit(file, start, min(start + step, file.size)) for start in starts]
    cuts = None
    if search is Search.WORDS and not numbered:
        cuts = _searched_cuts(file, framing, step)
    cuts = cuts or _index(file, framing, search, step).choose(step, framing)
    ends = [*(cut.start for cut in cuts[1:]), file.size]
    return [
        RecordSplit(file, cut.start, end, cut.first, exact=True, left=cut.left)
        for cut, end in zip(cuts, ends, strict=True)
    ]


def _searched_cuts(file: RecordFile, framing: Framing, step: int) -> list[Cut] | None:
    """Return cuts at records that are certain by the descriptor words around them; None where they are not."""
    longest = framing.longest
    # So many records have the first and the last split at least.
    certain = 0 if longest is None else (step // 2 - WINDOWS[-1] * longest) // longest
    if longest is None or max(framing.skip_first, framing.skip_last) > certain:
        return None
    cuts = [Cut(file.begin, 0)]
    with OpenedFile(file.path, file.size, WHAT) as opened:
        for border in range(file.begin + step, file.size - step // 2, step):
            at = border - longest
            found = None
            for windows in WINDOWS:
                data = opened.read(at, windows * longest)
                last = opened.ended(at + data.size)
                found = common_begin(octets(data), framing, last=last)
                if found is not None or last:
                    break
            if found is None:
                return None
            cuts.append(Cut(at + found, None))
    return cuts


def _index(file: RecordFile, framing: Framing, search: Search, step: int) -> RecordIndex:
    """Return the index of a file's records: the one that is kept beside it if asked for, else that of one pass over all lengths.

    Where that pass fails, whoever reads the last split meets the error.
    """
    key = IndexKey(file.path, file.size, file.modified, framing)
    is_kept = search is Search.KEPT
    if is_kept and (kept := KeptIndex.load(key)) is not None:
        return kept.index
    cuts = [Cut(file.begin, 0)]
    count = 0
    whole = RecordSplit(file, file.begin, file.size)
    size = KEPT_BYTES if is_kept else min(CHUNK, max(1, step // 4))
    try:
        for chunk in _chunks(whole, framing, size):
            assert chunk.first is not None, "one split has all records"
            if chunk.base > file.begin:
                cuts.append(Cut(chunk.base, chunk.first, chunk.left))
            count = chunk.first + len(chunk.starts)
    except DecodeError:
        return RecordIndex(cuts, count)
    index = RecordIndex(cuts, count)
    if is_kept:
        KeptIndex(key, index).keep()
    return index


def _fixed_splits(file: RecordFile, framing: Framing, split_bytes: int) -> list[RecordSplit]:
    length = framing.length
    size = file.size - file.begin
    if size % length:
        problem = f"{size} bytes are not a whole number of records of {length}"
        where = Where(source=file.path, offset=file.size - size % length)
        raise DecodeError(problem, where=where, hint=NOT_FIXED)
    first = file.begin + framing.skip_first * length
    stop = file.size - framing.skip_last * length
    step = even_step((stop - first) // length, max(1, split_bytes // length)) * length
    return [RecordSplit(file, at, min(at + step, stop)) for at in range(first, stop, step)]


def read_record_split(
    split: RecordSplit, framing: Framing, chunk: int = CHUNK
) -> Iterator[RecordChunk]:
    """Yield a split's records; raises DecodeError with file and offset where the framing is wrong."""
    try:
        yield from _without_ends(_chunks(split, framing, chunk), split, framing)
    except TrailgateError as error:
        raise error.with_place(source=split.file.path) from None


def _chunks(split: RecordSplit, framing: Framing, chunk: int) -> Iterator[RecordChunk]:
    with _open(split) as file:
        at, first = _first(file, split, framing, chunk), _records_before(split, framing)
        size, left = chunk, split.left
        while at < split.end:
            framing = replace(framing, left=left)
            data = file.read(at, size)
            finish = file.ended(at + data.size)
            try:
                found, wrong = _found(data, framing, at, finish=finish), None
            except DecodeError as error:  # records before it are whole
                data = data.slice(0, (error.where.offset or at) - at)
                found, wrong = _found(data, framing, at, finish=False), error
            own = len(found.starts)
            if split.end < split.file.size and not split.exact:
                own = int(np.searchsorted(found.starts + at, split.end))
            if own:
                starts, ends = found.starts[:own], found.ends[:own]
                places = None if found.places is None else found.places + at
                own_data = data if found.data is None else pa.py_buffer(found.data)
                yield RecordChunk(split.file.path, own_data, starts, ends, at, first, left, places)
                first = None if first is None else first + own
            if wrong is not None and own == len(found.starts):
                raise _split_error(wrong, split)
            if finish or own < len(found.starts):
                return
            if not found.end:
                size = _larger(size, at)
                continue
            at, left, size = at + found.end, found.left, chunk


def _open(split: RecordSplit) -> OpenedFile | CompressedFile:
    file = split.file
    if file.codec is None:
        return OpenedFile(file.path, split.end if split.exact else file.size, WHAT)
    return CompressedFile(file.path, file.codec, WHAT)


def _split_error(error: DecodeError, split: RecordSplit) -> DecodeError:
    """Return the error of a split; records that go over its end are not those at which the next one begins."""
    if not (isinstance(error, TruncatedError) and split.exact and split.end < split.file.size):
        return error
    problem = f"the records do not end where the next split of the file begins, at byte {split.end}"
    hint = "Is a length damaged, or a block longer than 64 KB? splitSearch=index finds splits by all lengths"
    return DecodeError(problem, where=error.where, hint=hint)


def _records_before(split: RecordSplit, framing: Framing) -> int | None:
    """Return how many records precede a split in its file; None where that is unknown."""
    if framing.kind is FrameKind.FIXED:
        return (split.start - split.file.begin) // framing.length
    return split.first if split.start > split.file.begin else 0


def _larger(size: int, at: int) -> int:
    if size >= LONGEST:
        problem = f"a record of more than {LONGEST} bytes"
        raise DecodeError(problem, where=Where(offset=at), hint="Is the framing the right one?")
    return 2 * size


def _found(data: pa.Buffer, framing: Framing, at: int, *, finish: bool) -> Frames:
    try:
        return find_frames(octets(data), framing, finish=finish)
    except DecodeError as error:
        where = replace(error.where, offset=at + (error.where.offset or 0))
        raise type(error)(error.problem, where=where, hint=error.hint) from None


def _first(
    file: OpenedFile | CompressedFile, split: RecordSplit, framing: Framing, chunk: int
) -> int:
    """Return where the split's first record begins: lines begin after a delimiter."""
    begins = split.exact or split.start == split.file.begin
    if framing.kind is not FrameKind.LINE or begins:
        return split.start
    mark = framing.delimiter
    # A line begins here too if its delimiter ends where the split begins.
    at = max(split.file.begin, split.start - len(mark))
    while at < split.end:
        data = file.read(at, chunk + len(mark))
        place = data.to_pybytes().find(mark)
        if place >= 0:
            return int(at + place + len(mark))
        at += max(1, data.size - len(mark) + 1)
    return split.end


def _without_ends(
    chunks: Iterator[RecordChunk], split: RecordSplit, framing: Framing
) -> Iterator[RecordChunk]:
    """Yield chunks without the records of the file's header and trailer."""
    if framing.kind is FrameKind.FIXED and split.file.codec is None:
        yield from chunks  # the plan left them out
        return
    before = framing.skip_first if split.start == split.file.begin else 0
    after = framing.skip_last if split.end >= split.file.size else 0
    held: deque[RecordChunk] = deque()
    for chunk in chunks:
        skipped = min(before, len(chunk.starts))
        before -= skipped
        held.append(_part(chunk, skipped, len(chunk.starts)))
        while held and _records(held) - len(held[0].starts) >= after:
            yield held.popleft()
    left = _records(held) - after
    for chunk in held:
        if left <= 0:
            return
        yield _part(chunk, 0, min(left, len(chunk.starts)))
        left -= len(chunk.starts)


def _records(chunks: deque[RecordChunk]) -> int:
    return sum(len(chunk.starts) for chunk in chunks)


def _part(chunk: RecordChunk, begin: int, end: int) -> RecordChunk:
    first = None if chunk.first is None else chunk.first + begin
    cut = slice(begin, end)
    places = None if chunk.places is None else chunk.places[cut]
    return replace(
        chunk, starts=chunk.starts[cut], ends=chunk.ends[cut], first=first, places=places
    )
