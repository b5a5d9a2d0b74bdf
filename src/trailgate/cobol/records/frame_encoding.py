"""Encode the frames of records in a file: line ends, descriptor words, blocks, and file headers.

This is the reverse of ``framing.py``. ``encode_frames`` adds them to the records that an encoder
returns, and finds the records again to be sure that a reader gets the same ones. Records that
share a block are collected up to its ``BlockLimits``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.cobol.records.framing import (
    HEADER_BYTES,
    MICRO_FOCUS_HEADERS,
    FrameKind,
    Framing,
    find_frames,
    word_width,
)
from trailgate.cobol.records.framing_kernels import DATA, DESCRIPTOR
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.errors import DecodeError, EncodeError, Where

_BLOCKED: Final = (FrameKind.SPANNED, FrameKind.BDW)


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """The limits of a block of a record file: the number of records, and the number of bytes including the descriptor word.

    A limit that is None does not apply. A record that is too long for a block is an error if
    ``strict``; otherwise it becomes a block by itself.
    """

    records: int | None = 1
    length: int | None = None
    strict: bool = True

    def begins(self, sizes: Longs) -> Longs:
        """Return the indexes of the records at which blocks of the file begin.

        ``sizes`` are the sizes of the records in the file, including their descriptor words.

        Raises EncodeError if a record is too long for a block.
        """
        if self.length is None:
            return np.arange(0, len(sizes), self.records or 1)
        room = self.length - DESCRIPTOR
        if self.strict and (sizes > room).any():
            row = int(np.argmax(sizes > room))
            problem = f"a record of {sizes[row]} bytes with its descriptor does not fit a block of {self.length}"
            raise EncodeError(problem, where=Where(record=row + 1), hint="blockLength is too small")
        ends, found, at = np.cumsum(sizes), list[int](), 0
        while at < len(sizes):
            found.append(at)
            # The bytes before this record; the block takes records while their total fits ``room``,
            # but at least one.
            before = int(ends[at] - sizes[at])
            end = max(at + 1, int(np.searchsorted(ends, before + room, side="right")))
            at = end if self.records is None else min(end, at + self.records)
        return np.array(found, np.int64)


ONE_A_BLOCK: Final = BlockLimits()


FILLED: Final = BlockLimits(records=None, length=32_760, strict=False)  # the maximum on z/OS


def count_in_complete_blocks(records: RecordBytes, framing: Framing, blocks: BlockLimits) -> int:
    """Return how many of the records to write fill complete blocks, to which no later record can be added.

    If the file has no blocks, or one record a block, these are all records.
    """
    if framing.kind not in _BLOCKED or blocks == ONE_A_BLOCK or not len(records):
        return len(records)
    # The last block has room, so it begins at the first record that is not complete.
    return int(blocks.begins(records.ends - records.starts + DESCRIPTOR)[-1])


def encode_frames(
    records: RecordBytes, framing: Framing, blocks: BlockLimits = ONE_A_BLOCK
) -> Octets:
    """Frame encoded records as the bytes of a file. The records must be contiguous in their buffer.

    Raises EncodeError if the records would not be read back as they are, for example because a line
    contains the delimiter.
    """
    if framing.kind is FrameKind.MICRO_FOCUS:
        return _frame_typed(records, framing)
    lengths = records.ends - records.starts
    record_word, block_word = framing.words.reshape(2, 3).tolist()
    heads = np.zeros((len(lengths), 0), np.uint8)
    if framing.kind in (*_BLOCKED, FrameKind.RDW):
        heads = _words(lengths + DESCRIPTOR, record_word)
    mark = np.frombuffer(framing.delimiter if framing.kind is FrameKind.LINE else b"", np.uint8)
    sizes = heads.shape[1] + lengths + len(mark)
    firsts = blocks.begins(sizes) if framing.kind in _BLOCKED else np.zeros(0, np.int64)
    # ``before`` is the space for the block descriptor that precedes the first record of each block.
    before = np.zeros(len(sizes), np.int64)
    before[firsts] = DESCRIPTOR
    # Example, VB without delimiters: records of 3 and 2 bytes in one block. sizes = 7 6 with their
    # descriptors, before = 4 0, ends = 11 17, begins = 8 15, and the block has 13 bytes plus its own 4.
    ends = np.cumsum(before + sizes)
    begins = ends - len(mark) - lengths
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    body = np.ones(len(data), bool)
    block_bytes = np.add.reduceat(sizes, firsts) if len(firsts) else firsts
    # Write the record descriptors, delimiters and block descriptors at their offsets. The bytes
    # left over in ``body`` are exactly those of the records, in order.
    for at, values in (
        (begins - heads.shape[1], heads),
        (ends - len(mark), mark[None, :]),
        (
            (begins - heads.shape[1])[firsts] - DESCRIPTOR,
            _words(block_bytes + DESCRIPTOR, block_word),
        ),
    ):
        targets = at[:, None] + np.arange(values.shape[1])
        data[targets], body[targets] = values, False
    if len(records):
        data[body] = records.data[int(records.starts[0]) : int(records.ends[-1])]
    _check_readable(data, begins, begins + lengths, framing)
    return data


def _frame_typed(records: RecordBytes, framing: Framing) -> Octets:
    """Return the bytes of a Micro Focus file without its header.

    Each record has a word with its type and length, and is padded to a multiple of four bytes.
    """
    width, lengths = word_width(framing), records.ends - records.starts
    if len(lengths) and int(lengths.max()) > framing.length:
        row = int(lengths.argmax())
        problem = (
            f"a record of {lengths[row]} bytes is longer than the copybook allows: {framing.length}"
        )
        raise EncodeError(problem, where=Where(record=row + 1))
    # (n + 3) & ~3 rounds up to a multiple of four: 9 becomes 12.
    padded = np.maximum(8, (lengths + width + 3) & ~3)
    ends = np.cumsum(padded)
    begins = ends - padded + width
    data = np.full(int(ends[-1]) if len(ends) else 0, ord(" "), np.uint8)
    # The type is in the top four bits of a word of ``width`` bytes.
    # Example: 20 bytes of type 4, in a word of two bytes: 4 << 12 | 20 is 40 14.
    words = (lengths | DATA << (8 * width - 4)).astype(">u4").view(np.uint8).reshape(-1, 4)
    data[(begins - width)[:, None] + np.arange(width)] = words[:, 4 - width :]
    if len(records):
        # How far the bytes of each record move, repeated for each byte, plus the old offset of each byte.
        inside = np.repeat(begins - records.starts, lengths) + np.arange(
            int(records.starts[0]), int(records.ends[-1])
        )
        data[inside] = records.data[int(records.starts[0]) : int(records.ends[-1])]
    _check_readable(data, begins, begins + lengths, replace(framing, left=width))
    return data


def _words(counted: Longs, form: Sequence[int]) -> Octets:
    """Return the descriptor words of records or blocks, one row of four bytes each.

    ``counted`` are the lengths including the descriptor word. ``form`` has three numbers: 1 if
    little-endian, 1 if the length is in the second half, and the adjustment to subtract.
    """
    little, twisted, adjustment = form
    words = np.zeros((len(counted), DESCRIPTOR), np.uint8)
    # Example: a record of 80 bytes with its descriptor, big-endian and in the first half: 00 54 00 00.
    half = (counted - adjustment).astype("<u2" if little else ">u2").view(np.uint8).reshape(-1, 2)
    words[:, 2 * twisted : 2 * twisted + 2] = half
    return words


def _check_readable(data: Octets, begins: Longs, ends: Longs, framing: Framing) -> None:
    """Raise EncodeError unless reading the written file returns the same records."""
    try:
        frames = find_frames(data, framing, finish=True)
    except DecodeError as error:
        raise EncodeError(f"the records do not fit the framing: {error.problem}") from None
    if not (np.array_equal(frames.starts, begins) and np.array_equal(frames.ends, ends)):
        # If all records that both have are equal, the first one that only one has is at fault: hence
        # the appended True.
        both = min(len(frames.starts), len(begins))
        different = (frames.starts[:both] != begins[:both]) | (frames.ends[:both] != ends[:both])
        where = Where(record=int(np.append(different, True).argmax()) + 1)
        raise EncodeError("the record would not be read as it was written", where=where)


def encode_file_header(framing: Framing) -> bytes:
    """Return the header to write before the first record of a file: empty except for Micro Focus files."""
    if framing.kind is not FrameKind.MICRO_FOCUS:
        return b""
    head = bytearray(HEADER_BYTES)
    head[:4] = MICRO_FOCUS_HEADERS[word_width(framing)]
    head[36:38], head[39], head[48] = b"\x00\x3e", 1, 1
    head[54:58] = framing.length.to_bytes(4, "big")
    return bytes(head)
