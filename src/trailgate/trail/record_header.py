"""The record header (GHDR) and the frames around it, of many records at once.

``RECORD_HEAD`` lays out the frame of G, the frame of H and the 34 fixed bytes of GHDR (format
notes 5); reader and writer share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.columnar.gather import gather
from trailgate.columnar.views import Octets, rows_at, words
from trailgate.errors import DecodeError, Where
from trailgate.trail.record_types import (
    IO_DELETE,
    IO_INSERT,
    IO_KEY_UPDATE,
    OP_TYPE_OF,
    RECORD_TYPES,
)
from trailgate.trail.times import JULIAN_EPOCH
from trailgate.trail.tokens import DATA, FRAME, GGS_TOKENS, HEADER, USER_TOKENS

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

RECORD_HEAD: Final = np.dtype(
    [
        ("g_id", "u1"),
        ("g_info", "u1"),
        ("g_length", ">u2"),
        ("h_id", "u1"),
        ("h_info", "u1"),
        ("h_length", ">u2"),
        ("indicator", "u1"),
        ("partition", "u1"),
        ("undo", "u1"),
        ("image", "u1"),
        ("data_length", ">u2"),
        ("io_type", "u1"),
        ("node", "u1"),
        ("io_time", ">i8"),
        ("audit_pos", ">u8"),
        ("audit_rba", ">u4"),
        ("trans_ind", "u1"),
        ("format", "u1"),
        ("syskey_length", "u1"),
        ("incomplete", "u1"),
        ("continued", "u1"),
        ("record_count", "u1"),
    ]
)
NAME_AT: Final = RECORD_HEAD.itemsize  # the table's name and a NUL follow
H_FIXED: Final = 34  # bytes of GHDR in front of the name
INDICATOR: Final = ord("E")
BEFORE_IMAGE, AFTER_IMAGE = ord("B"), ord("A")
FIELD_COMP: Final = 0x04  # partition bit: index, length, value (format notes 5.1)
BY_INDEX: Final = 0x88  # partition bits: table or partition named by index, not by text
SHORTEST: Final = NAME_AT + 1 + FRAME  # an empty name, no data, no tokens


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes being read, as a buffer and as an array, and where they stand in the file."""

    buffer: pa.Buffer
    data: Octets
    base: int

    def error(
        self, problem: str, span: tuple[int, int], *, table: str | None = None, hint: str = ""
    ) -> DecodeError:
        """Return an error about the bytes [start, end) of the data."""
        start, end = span
        raw = self.data[start : max(start, end)].tobytes()
        where = Where(offset=self.base + start, table=table, raw=raw)
        return DecodeError(problem, where=where, hint=hint)


@dataclass(frozen=True, slots=True)
class Heads:
    """Record headers in columns, one slot a record; places are offsets in the data."""

    offsets: Longs
    op_type: npt.NDArray[np.uint8]
    io_type: npt.NDArray[np.uint8]
    is_before: Mask
    op_ts: Longs
    trans_ind: npt.NDArray[np.uint8]
    table: npt.NDArray[np.int32]  # index into ``names``
    names: list[str]
    data_start: Longs
    data_end: Longs
    token_start: Longs
    token_end: Longs


def read_heads(source: Source, offsets: Longs, lengths: Longs) -> Heads:
    """Return the headers of the records at these offsets; raises DecodeError for a bad one."""
    spans = (offsets, offsets + lengths)
    _require(source, spans, lengths >= SHORTEST, "a record is too short for its header")
    head = rows_at(source.data, offsets, NAME_AT).view(RECORD_HEAD).reshape(-1)
    _check_fixed(source, spans, head)
    name_end = offsets + 2 * FRAME + head["h_length"]
    _require(source, spans, source.data[name_end - 1] == 0, "a table name must end with a NUL")
    names = gather(source.buffer, offsets + NAME_AT, name_end - 1, text=True).dictionary_encode()
    data_start, data_end = _data_area(source, spans, name_end, head["data_length"])
    token_start, token_end = _token_area(source, spans, data_end)
    return Heads(
        offsets,
        OP_TYPE_OF[head["io_type"]],
        np.ascontiguousarray(head["io_type"]),
        head["image"] == BEFORE_IMAGE,
        head["io_time"].astype(np.int64) - JULIAN_EPOCH,
        _transaction_indicators(source, spans, head),
        names.indices.to_numpy(),
        names.dictionary.to_pylist(),
        data_start,
        data_end,
        token_start,
        token_end,
    )


def _require(source: Source, spans: tuple[Longs, Longs], good: Mask, problem: str) -> None:
    """Raise about the first record that is not good."""
    if good.all():
        return
    bad = int(np.argmin(good))
    raise source.error(problem, (int(spans[0][bad]), int(spans[1][bad])))


def _check_fixed(source: Source, spans: tuple[Longs, Longs], head: npt.NDArray[np.void]) -> None:
    rest = spans[1] - spans[0] - 3 * FRAME
    _require(source, spans, head["h_id"] == HEADER, "a record must begin with its header (48)")
    fits = (head["h_length"] > H_FIXED) & (head["h_length"] <= rest)
    _require(source, spans, fits, "the record header's length does not fit its record")
    _require(source, spans, head["indicator"] == INDICATOR, "a record header must begin with 45")
    known = OP_TYPE_OF[head["io_type"]] != 0
    if not known.all():
        raise _refused(source, spans, head, int(np.argmin(known)))
    by_name = head["partition"] & BY_INDEX == 0
    problem = "the record names its table by index, which level 3 does not (partition byte)"
    _require(source, spans, by_name, problem)
    problem = "continued records are not read by this version"
    _require(source, spans, head["continued"] == 0, problem)
    before = head["image"] == BEFORE_IMAGE
    _require(source, spans, before | (head["image"] == AFTER_IMAGE), "the image must be A or B")
    io_type = head["io_type"]
    wrong = np.where(
        before, (io_type == IO_INSERT) | (io_type == IO_KEY_UPDATE), io_type == IO_DELETE
    )
    _require(source, spans, ~wrong, "the record's type and its image (A or B) contradict")


def _refused(
    source: Source, spans: tuple[Longs, Longs], head: npt.NDArray[np.void], bad: int
) -> DecodeError:
    code = int(head["io_type"][bad])
    name = RECORD_TYPES[code].name if code in RECORD_TYPES else "unknown type"
    return source.error(
        f"a record of type {code} ({name}) is not read",
        (int(spans[0][bad]), int(spans[1][bad])),
        hint="This version reads the data records of level 3: insert, update, delete, truncate",
    )


def _transaction_indicators(
    source: Source, spans: tuple[Longs, Longs], head: npt.NDArray[np.void]
) -> npt.NDArray[np.uint8]:
    indicators = head["trans_ind"]
    odd = indicators > 3
    if odd.any():
        # Format notes 5: one printed 11.2.1.0.1 record has TransInd at byte 24, AuditRBA at 25.
        swapped = (head["audit_rba"] >> 24).astype(np.uint8)
        indicators = np.where(odd, swapped, indicators)
        _require(source, spans, indicators <= 3, "a transaction indicator must be 0 to 3")
    return np.ascontiguousarray(indicators)


def _data_area(
    source: Source, spans: tuple[Longs, Longs], place: Longs, length: npt.NDArray[np.uint16]
) -> tuple[Longs, Longs]:
    """Return where D's payload starts and ends; a record without data has an empty one."""
    has_data = length > 0
    start = place + FRAME * has_data
    end: Longs = start + length.astype(np.int64)
    _require(source, spans, end <= spans[1] - FRAME, "the data area runs over its record")
    good = words(source.data, "u4")[place] == (DATA << 24) + length.astype(np.uint32)
    _require(source, spans, good | ~has_data, "the data token does not agree with the header")
    return start, end


def _token_area(source: Source, spans: tuple[Longs, Longs], place: Longs) -> tuple[Longs, Longs]:
    """Return where T's payload starts and ends (empty without T); U behind it is passed over."""
    limit = spans[1] - FRAME
    head = words(source.data, "u4")[place]
    has_tokens = (head >> 24 == GGS_TOKENS) & (place < limit)
    start = place + FRAME * has_tokens
    end = start + np.where(has_tokens, head & 0xFFFF, 0)
    _require(source, spans, end <= limit, "the token area runs over its record")
    rest = end < limit
    if rest.any():
        head = words(source.data, "u4")[end]
        good = (head >> 24 == USER_TOKENS) & (end + FRAME + (head & 0xFFFF) == limit)
        _require(source, spans, good | ~rest, "a record holds more than header, data and tokens")
    return start, end
