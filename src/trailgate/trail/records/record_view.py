"""Parse many records into columns: header fields, spans of their parts, names, and problems.

`view_records` returns one `RecordColumns` for a portion of a trail: arrays with one element per
record, such as ``io_type`` and the span of ``data``. All code that handles records in bulk uses it.
Readers raise the first problem (`record_problems`); checks, tables of records and Logdump
report them all. For a single record as a value see ``record.TrailRecord``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Structs
from trailgate.columnar.gather import gather_matrix
from trailgate.errors import DecodeError
from trailgate.trail.format.header_fields import JULIAN_EPOCH
from trailgate.trail.format.record_header import (
    BEFORE_IMAGE,
    BY_TABLE,
    MOVED_AT,
    NAME_AT,
    ONLY,
    RECORD_HEADS,
    SHORTEST,
)
from trailgate.trail.format.record_types import RECORD_TYPES, ROLE_OF, RecordRole, type_name
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records import kernels
from trailgate.trail.records.framing import RecordSpans, Spans, TrailBytes
from trailgate.trail.records.record_problems import (
    MISTYPED,
    REFUSED,
    UNREADABLE,
    first_problem,
)

_CHANGE: Final = int(RecordRole.CHANGE)
FEW_NAMES: Final = 10  # bits: the hash table of names has 1024 slots at first


def _types() -> Octets:
    table = np.zeros(256, np.uint8)
    for row in RECORD_TYPES.values():
        table[row.code] |= kernels.KNOWN if row.role is not RecordRole.REFUSED else 0
        table[row.code] |= kernels.CHANGE if row.role is RecordRole.CHANGE else 0
        table[row.code] |= kernels.OTHER_LAYOUT if row.layout else 0
        # One lookup by IOType replaces all tests of the type in the kernel. Codes without a row
        # keep 0, and so are not KNOWN.
        table[row.code] |= kernels.NEVER_AFTER if "A" not in row.image else 0
        table[row.code] |= kernels.NEVER_BEFORE if "B" not in row.image else 0
        table[row.code] |= kernels.WITHOUT_COLUMNS if row.role >= RecordRole.METADATA else 0
    table.setflags(write=False)
    return table


TYPE_BITS: Final = _types()  # by IOType


@dataclass(frozen=True)
class RecordColumns:
    """Parsed trail records as columns with one element per record.

    All offsets are relative to the beginning of the parsed data.

    The parts and name of an ``UNREADABLE`` record (see ``problems``) are unknown. If a record is
    too short, its fields are unknown too. A missing part has an empty span. ``image``,
    ``partition``, ``continued`` and ``indicator`` are the bytes BeforeAfter, partition, Continued
    and TransInd of the header; one release stores TransInd elsewhere (trail format §5). ``end`` is
    the offset after the last record.
    """

    offsets: Longs
    lengths: Longs
    end: int
    io_type: Octets
    role: Octets  # role of the type; ``RecordRole.REFUSED`` if the record is unreadable or its type damaged
    image: Octets
    partition: Octets
    indicator: Octets
    continued: Octets
    marks: Octets  # bits of rare properties: ``kernels.UNDO`` and others
    io_time: Longs  # microseconds since 1970 UTC
    data_length: Longs  # as stated in the header
    name_ends: Longs
    data: Spans
    tokens: Spans
    user: Spans
    problems: Longs
    names: RecordNames | None = field(default=None, init=False, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def only_changes(self) -> bool:
        """Return whether all of the parsed trail records are changes, which is the usual case."""
        return bool((self.role == _CHANGE).all())

    @cached_property
    def changes(self) -> Longs:
        """Return the rows of the change records: an operation, or one image of an update."""
        return np.arange(len(self)) if self.only_changes else np.flatnonzero(self.role == _CHANGE)

    def rows_with_mark(self, mark: int) -> Longs:
        """Return the rows of the records with a rare property. ``mark`` is its bit, such as ``kernels.UNDO``."""
        return np.flatnonzero(self.marks & mark) if self.has_marks else np.zeros(0, np.int64)

    @cached_property
    def has_marks(self) -> bool:
        """Return whether any record has a rare property, such as an undo flag (a bit of ``marks``)."""
        return bool(self.marks.any())

    @cached_property
    def is_before(self) -> Mask:
        """Return a mask of the records whose data are a before image: of an update or of a delete."""
        is_before: Mask = self.image == BEFORE_IMAGE
        return is_before

    @cached_property
    def readable(self) -> Mask:
        """Return a mask of the trail records whose header can be read."""
        if not self.has_problems:
            return np.ones(len(self), bool)
        readable: Mask = self.problems & UNREADABLE == 0
        return readable

    @cached_property
    def has_problems(self) -> bool:
        """Return whether any of the parsed trail records has a problem."""
        return bool(self.problems.any())

    def take(self, rows: Longs | slice) -> RecordColumns:
        """Select some of the parsed trail records. A slice shares the arrays."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        return RecordColumns(
            offsets=self.offsets[rows],
            lengths=self.lengths[rows],
            end=self._end(rows),
            io_type=self.io_type[rows],
            role=self.role[rows],
            image=self.image[rows],
            partition=self.partition[rows],
            indicator=self.indicator[rows],
            continued=self.continued[rows],
            marks=self.marks[rows],
            io_time=self.io_time[rows],
            data_length=self.data_length[rows],
            name_ends=self.name_ends[rows],
            data=self.data.take(rows),
            tokens=self.tokens.take(rows),
            user=self.user.take(rows),
            problems=self.problems[rows],
        )

    def _end(self, rows: Longs | slice) -> int:
        """Return the end offset of a selection: the start of the next record after a slice, otherwise the end of all records."""
        if not isinstance(rows, slice):
            return self.end
        stop = rows.indices(len(self))[1]
        return int(self.offsets[stop]) if stop < len(self) else self.end

    def move(self, by: int) -> RecordColumns:
        """Return the same trail records with all offsets increased by ``by``, for data with another beginning."""
        return replace(
            self,
            offsets=self.offsets + by,
            end=self.end + by,
            name_ends=self.name_ends + by,
            data=Spans(self.data.starts + by, self.data.ends + by),
            tokens=Spans(self.tokens.starts + by, self.tokens.ends + by),
            user=Spans(self.user.starts + by, self.user.ends + by),
        )

    def span_of(self, row: int) -> tuple[int, int]:
        """Return the start and end offset of the trail record at ``row``."""
        start = int(self.offsets[row])
        return start, start + int(self.lengths[row])

    def headers(self, data: Octets, order: ByteOrder) -> Structs:
        """Return the fixed headers of the trail records as an array of structs.

        A record that is too short for a header gets zeros.
        """
        layout = RECORD_HEADS[order]
        complete = self.lengths >= SHORTEST
        if complete.all():
            return _restore(gather_matrix(data, self.offsets, NAME_AT), layout)
        heads = np.zeros(len(self), layout)
        heads[complete] = _restore(gather_matrix(data, self.offsets[complete], NAME_AT), layout)
        heads["io_time"][~complete] = JULIAN_EPOCH
        return heads


def _restore(raw: Octets, layout: np.dtype[np.void]) -> Structs:
    """Return raw headers as structs, with TransInd and AuditRBA moved to their usual fields (trail format §5)."""
    heads: Structs = raw.view(layout).reshape(-1)
    # TransInd is at most 3 (ONLY). A greater value is the last byte of AuditRBA in the release that
    # stores TransInd first: XX 00 00 00 2A with XX <= 3 instead of 00 00 00 2A XX.
    moved = (heads["trans_ind"] > ONLY) & (raw[:, MOVED_AT] <= ONLY)
    if moved.any():
        fields = raw[moved, MOVED_AT : MOVED_AT + 5]
        heads["trans_ind"][moved] = fields[:, 0]
        heads["audit_rba"][moved] = np.ascontiguousarray(fields[:, 1:]).view(">u4").reshape(-1)
    return heads


def view_records(source: TrailBytes, spans: RecordSpans) -> RecordColumns:
    """Parse the trail records at these offsets into columns, without raising for damaged records."""
    count = len(spans.offsets)
    # The kernel writes all columns into two arrays. Each row of the reshaped arrays is one column.
    small = np.empty(kernels.SMALL_COLUMNS * count, np.uint8)
    longs = np.empty(kernels.LONG_COLUMNS * count, np.int64)
    faulty = kernels.read_records(
        source.data, spans.offsets, spans.lengths, source.big, TYPE_BITS, small, longs
    )
    if faulty == kernels.OUTSIDE:
        raise DecodeError(f"a record lies outside the {len(source.data)} bytes read")
    columns = small.reshape(kernels.SMALL_COLUMNS, count)
    io_type, image, partition, indicator, continued, marks = columns
    column = longs.reshape(kernels.LONG_COLUMNS, count)
    column[kernels.IO_TIME] -= JULIAN_EPOCH
    role = ROLE_OF[io_type]
    if faulty:  # the type of these records is unknown or damaged
        role[column[kernels.PROBLEMS] & (UNREADABLE | MISTYPED) != 0] = RecordRole.REFUSED
    return RecordColumns(
        offsets=spans.offsets,
        lengths=spans.lengths,
        end=spans.end,
        io_type=io_type,
        role=role,
        image=image,
        partition=partition,
        indicator=indicator,
        continued=continued,
        marks=marks,
        io_time=column[kernels.IO_TIME],
        data_length=column[kernels.STATED_LENGTH],
        name_ends=column[kernels.NAME_STOP],
        data=Spans(column[kernels.DATA_START], column[kernels.DATA_STOP]),
        tokens=Spans(column[kernels.TOKENS_START], column[kernels.TOKENS_STOP]),
        user=Spans(column[kernels.USER_START], column[kernels.USER_STOP]),
        problems=column[kernels.PROBLEMS],
    )


@dataclass(frozen=True, slots=True)
class RecordNames:
    """The distinct table names of records in order of appearance, and for each record a code.

    ``names[codes[r]]`` is the name of record r: the bytes of the name area, or the table index in
    its place. A record without a name has the code -1. ``firsts`` are the rows of the first record
    with each name.
    """

    codes: Longs
    firsts: Longs
    names: list[bytes | int]

    def strings(self, of_index: Callable[[int], str | None]) -> list[str | None]:
        """Return the table names as strings, each up to its NUL.

        ``of_index`` returns the name for a table index.
        """
        return [
            of_index(name)
            if isinstance(name, int)
            else name.partition(b"\0")[0].decode("utf-8", "backslashreplace")
            for name in self.names
        ]

    def indexes(self) -> Longs:
        """Return the table index in each record's name area, or -1 if the area has a name in text, or no name."""
        known = [name if isinstance(name, int) else -1 for name in self.names]
        # The code -1 selects the last item.
        return np.array([*known, -1], np.int64)[self.codes]


def find_names(source: TrailBytes, view: RecordColumns) -> RecordNames:
    """Find the table names of the readable records, and cache the result in ``view``."""
    if view.names is None:
        object.__setattr__(view, "names", _find_names(source, view))
    assert view.names is not None
    return view.names


def _find_names(source: TrailBytes, view: RecordColumns) -> RecordNames:
    count = len(view)
    codes, firsts = np.empty(count, np.int64), np.empty(count, np.int64)
    most = (2 * count).bit_length()
    name_count = kernels.CROWDED
    # Usually there are few names, so try a small hash table first. The second one has room for a
    # name per record: at least twice as many slots as records, so it is never CROWDED.
    for bits in (min(FEW_NAMES, most), most):
        if name_count == kernels.CROWDED:
            name_count = kernels.number_names(
                source.data,
                view.offsets,
                view.name_ends,
                view.partition,
                view.readable,
                codes,
                firsts,
                np.full(1 << bits, -1, np.int64),
            )
    assert name_count >= 0, "names lie in records, which are within the data"
    firsts = firsts[:name_count].copy()
    return RecordNames(codes, firsts, [_name(source, view, row) for row in firsts.tolist()])


def _name(source: TrailBytes, view: RecordColumns, row: int) -> bytes | int:
    start = int(view.offsets[row]) + NAME_AT
    if view.partition[row] & BY_TABLE:
        return source.order.number(source.data[start : start + 2].tobytes())
    return source.data[start : int(view.name_ends[row])].tobytes()


def raise_first_problem(source: TrailBytes, view: RecordColumns) -> None:
    """Raise DecodeError for the first trail record with a problem, if there is one."""
    if not view.has_problems:
        return
    row = int(np.argmax(view.problems != 0))  # the first one
    problem = first_problem(int(view.problems[row]))
    code = int(view.io_type[row])
    text = problem.text
    if problem.bit in (REFUSED, MISTYPED):
        text = text.format(code=code, name=type_name(code))
    raise source.error(text, view.span_of(row), hint=problem.hint)
