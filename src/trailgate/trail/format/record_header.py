"""The record headers (GHDR) and the frames around them, of many records at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, Structs
from trailgate.columnar.gather import gather
from trailgate.columnar.views import rows_at
from trailgate.errors import DecodeError, Where
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.metadata import NO_TABLES, TrailTable, TrailTables
from trailgate.trail.format.origins import NOT_JOINED, Joined
from trailgate.trail.format.record_layout import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    BY_PARTITION,
    BY_TABLE,
    FIELD_COMP,
    H_FIXED,
    INDICATOR,
    NAME_AT,
    RECORD_HEADS,
    SHORTEST,
)
from trailgate.trail.format.record_types import OP_TYPE_OF, RECORD_TYPES, ROLE_OF, Role, type_name
from trailgate.trail.format.times import JULIAN_EPOCH
from trailgate.trail.format.tokens import DATA, FRAME, GGS_TOKENS, HEADER, USER_TOKENS

SPARE = 8  # bytes behind joined data: no word is wider


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes being read, as a buffer and as an array, where they stand in the file, their order.

    ``charset`` is Python's name of what texts are in; ``joined`` tells of bytes copied behind the data.
    """

    buffer: pa.Buffer
    data: Octets
    base: int = 0
    order: ByteOrder = ByteOrder.BIG
    charset: str = "utf-8"
    joined: Joined = NOT_JOINED

    def error(
        self, problem: str, span: tuple[int, int], *, table: str | None = None, hint: str = ""
    ) -> DecodeError:
        """Return an error about the bytes [start, end) of the data."""
        start, end = span
        raw = self.data[start : max(start, end)].tobytes()
        where = Where(offset=self.base + self.joined.origin(start), table=table, raw=raw)
        return DecodeError(problem, where=where, hint=hint)

    def part(self, start: int, end: int) -> Source:
        """Return the bytes [start, end) as a source of their own."""
        return replace(
            self,
            buffer=self.buffer.slice(start, end - start),
            data=self.data[start:end],
            base=self.base + start,
        )

    def extended(self, spans: Spans) -> tuple[Source, Longs]:
        """Return a source with copies of these bytes behind its own, and where each copy begins."""
        sizes = spans.ends - spans.starts
        ends = len(self.data) + np.cumsum(sizes)
        places = ends - sizes
        # Whoever reads a word at the last value's begin must not reach beyond the end.
        data = np.zeros(int(ends[-1]) + SPARE, np.uint8)
        data[: len(self.data)] = self.data
        for place, start, end in zip(places, spans.starts, spans.ends, strict=True):
            data[place : place + end - start] = self.data[start:end]
        joined = self.joined.and_then(Joined(places, spans.starts))
        return replace(self, buffer=pa.py_buffer(data), data=data, joined=joined), places


@dataclass(frozen=True, slots=True)
class Spans:
    """Where things lie in the data: [starts, ends), one slot a record."""

    starts: Longs
    ends: Longs

    def take(self, rows: Longs) -> Spans:
        """Return the slots named."""
        return Spans(self.starts[rows], self.ends[rows])


@dataclass(frozen=True, slots=True)
class Heads:
    """Record headers in columns, one slot a record; places are offsets in the data."""

    offsets: Longs
    op_type: npt.NDArray[np.uint8]
    io_type: npt.NDArray[np.uint8]
    role: npt.NDArray[np.uint8]
    is_before: Mask
    op_ts: Longs
    trans_ind: npt.NDArray[np.uint8]
    table: npt.NDArray[np.int64]  # index into ``tables``
    tables: list[TrailTable]
    data: Spans
    tokens: Spans
    user: Spans


def read_heads(
    source: Source, offsets: Longs, lengths: Longs, tables: TrailTables = NO_TABLES
) -> Heads:
    """Return the headers of the records at these offsets; raises DecodeError for a bad one."""
    spans = Spans(offsets, offsets + lengths)
    _require(source, spans, lengths >= SHORTEST, "a record is too short for its header")
    head = rows_at(source.data, offsets, NAME_AT).view(RECORD_HEADS[source.order]).reshape(-1)
    _check_fixed(source, spans, head)
    name_end = offsets + 2 * FRAME + head["h_length"]
    table, known = _tables(source, spans, (head, name_end), tables)
    data = _data_area(source, spans, name_end, head["data_length"])
    tokens, user = _token_areas(source, spans, data.ends)
    io_type = np.ascontiguousarray(head["io_type"])
    return Heads(
        offsets,
        OP_TYPE_OF[io_type],
        io_type,
        ROLE_OF[io_type],
        head["image"] == BEFORE_IMAGE,
        head["io_time"].astype(np.int64) - JULIAN_EPOCH,
        _transaction_indicators(source, spans, head),
        table,
        known,
        data,
        tokens,
        user,
    )


def _require(source: Source, spans: Spans, good: Mask, problem: str) -> None:
    """Raise about the first record that is not good."""
    if not good.all():
        raise _about(source, spans, int(np.argmin(good)), problem)


def _about(source: Source, spans: Spans, bad: int, problem: str, hint: str = "") -> DecodeError:
    return source.error(problem, (int(spans.starts[bad]), int(spans.ends[bad])), hint=hint)


def _check_fixed(source: Source, spans: Spans, head: Structs) -> None:
    rest = spans.ends - spans.starts - 3 * FRAME
    _require(source, spans, head["h_id"] == HEADER, "a record must begin with its header (48)")
    fits = (head["h_length"] > H_FIXED) & (head["h_length"] <= rest)
    _require(source, spans, fits, "the record header's length does not fit its record")
    _require(source, spans, head["indicator"] == INDICATOR, "a record header must begin with 45")
    role = ROLE_OF[head["io_type"]]
    if not role.all():
        raise _refused(source, spans, head, int(np.argmin(role)))
    before = head["image"] == BEFORE_IMAGE
    _require(source, spans, before | (head["image"] == AFTER_IMAGE), "the image must be A or B")
    wrong = np.where(before, _NEVER_BEFORE[head["io_type"]], _NEVER_AFTER[head["io_type"]])
    _require(source, spans, ~wrong, "the record's type and its image (A or B) contradict")
    # Without this bit the data are laid out in a way that no public dump shows.
    listed = head["partition"] & FIELD_COMP != 0
    plain = (role != Role.CHANGE) | (head["data_length"] == 0) | listed
    _require(source, spans, plain, "the data are not index, length and value (partition byte)")


def _never(image: str) -> Mask:
    table = np.zeros(256, bool)
    for row in RECORD_TYPES.values():
        table[row.code] = image not in row.image
    table.setflags(write=False)
    return table


_NEVER_BEFORE, _NEVER_AFTER = _never("B"), _never("A")


def _refused(source: Source, spans: Spans, head: Structs, bad: int) -> DecodeError:
    code = int(head["io_type"][bad])
    return _about(
        source,
        spans,
        bad,
        f"a record of type {code} ({type_name(code)}) is no operation that can be read",
        hint="trailgate logdump shows it; so does reading records instead of operations",
    )


def _transaction_indicators(source: Source, spans: Spans, head: Structs) -> npt.NDArray[np.uint8]:
    indicators = head["trans_ind"]
    odd = indicators > 3
    if odd.any():
        indicators = np.where(odd, swapped_indicators(head, source.order), indicators)
        _require(source, spans, indicators <= 3, "a transaction indicator must be 0 to 3")
    return np.ascontiguousarray(indicators)


def swapped_indicators(head: Structs, order: ByteOrder) -> npt.NDArray[np.uint8]:
    """Return the byte where one printed 11.2.1.0.1 record has TransInd (trail format §5)."""
    shift = 24 if order is ByteOrder.BIG else 0
    swapped: npt.NDArray[np.uint8] = (head["audit_rba"] >> shift).astype(np.uint8)
    return swapped


def _tables(
    source: Source, spans: Spans, area: tuple[Structs, Longs], tables: TrailTables
) -> tuple[Longs, list[TrailTable]]:
    """Return each record's table as an index into a list of them."""
    head, name_end = area
    by_index = head["partition"] & BY_TABLE != 0
    if not by_index.any():
        return _named(source, spans, name_end)
    if by_index.all():
        return _indexed(source, spans, head, tables)
    rows, others = np.flatnonzero(by_index), np.flatnonzero(~by_index)
    table = np.zeros(len(head), np.int64)
    table[rows], known = _indexed(source, spans.take(rows), head[rows], tables)
    own, more = _named(source, spans.take(others), name_end[others])
    table[others] = own + len(known)
    return table, known + more


def _named(source: Source, spans: Spans, name_end: Longs) -> tuple[Longs, list[TrailTable]]:
    _require(source, spans, source.data[name_end - 1] == 0, "a table name must end with a NUL")
    try:
        texts = gather(source.buffer, spans.starts + NAME_AT, name_end - 1, text=True)
    except DecodeError as error:
        start = error.where.offset or 0
        span = (start, start + len(error.where.raw or b""))
        raise source.error("a table name is not UTF-8", span) from None
    names = texts.dictionary_encode()
    known = [TrailTable(0, name) for name in names.dictionary.to_pylist()]
    return names.indices.to_numpy().astype(np.int64), known


def _indexed(
    source: Source, spans: Spans, head: Structs, tables: TrailTables
) -> tuple[Longs, list[TrailTable]]:
    sizes = H_FIXED + np.where(head["partition"] & BY_PARTITION, 4, 2)
    fits = head["h_length"] == sizes
    _require(source, spans, fits, "the record header's length does not fit its table index")
    index = source.order.words(source.data, "u2")[spans.starts + NAME_AT]
    found, codes = np.unique(index, return_inverse=True)
    unknown = [number for number in found.tolist() if number not in tables.tables]
    if unknown:
        problem = f"table index {unknown[0]} is not in the metadata in front of the record"
        hint = "Is a part of the file missing, or does reading begin behind its metadata?"
        raise _about(source, spans, int(np.argmax(index == unknown[0])), problem, hint)
    return codes.reshape(-1), [tables.tables[number] for number in found.tolist()]


def _data_area(source: Source, spans: Spans, place: Longs, length: npt.NDArray[np.uint16]) -> Spans:
    """Return where D's payload lies; a record without data has an empty one."""
    has_data = length > 0
    start = place + FRAME * has_data
    end: Longs = start + length.astype(np.int64)
    _require(source, spans, end <= spans.ends - FRAME, "the data area runs over its record")
    expected = source.order.frame(DATA, 0, length)
    good = source.order.frames(source.data)[place] == expected
    _require(source, spans, good | ~has_data, "the data token does not agree with the header")
    return Spans(start, end)


def _token_areas(source: Source, spans: Spans, place: Longs) -> tuple[Spans, Spans]:
    """Return where T's and U's payloads lie; empty where a record has none."""
    limit = spans.ends - FRAME
    tokens = _optional_area(source, spans, place, GGS_TOKENS)
    user = Spans(tokens.ends, tokens.ends)
    if (tokens.ends < limit).any():
        user = _optional_area(source, spans, tokens.ends, USER_TOKENS)
        done = user.ends == limit
        _require(source, spans, done, "a record holds more than header, data and tokens")
    return tokens, user


def _optional_area(source: Source, spans: Spans, place: Longs, code: int) -> Spans:
    """Return where the payload of a token lies that may stand at ``place``."""
    limit = spans.ends - FRAME
    order = source.order
    frames = order.frames(source.data)[place]
    there = (order.codes(frames) == code) & (place < limit)
    start = place + FRAME * there
    end = start + np.where(there, order.lengths(frames), 0)
    _require(source, spans, end <= limit, "the token area runs over its record")
    return Spans(start, end)
