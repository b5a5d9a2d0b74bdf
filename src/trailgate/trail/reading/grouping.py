"""Drop the records that are not operations, and group the others into operations.

An operation is one change record, or a before and an after image that follow each other (trail
format §10.3). Each may be followed by fragments and pieces of large objects (trail format §11). For
example the record types 15 (before), 15 (after), 116, 5 are two operations: an update with a large
object, and an insert.

Assumed (trail format §11): the data of a fragment (161) continue the data of the change, in the
order of the records. Continued is Y in all of these records except the last. If fragments follow a
before image, they belong to that image.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import as_slice
from trailgate.model.kernels import BEGINS
from trailgate.trail.format.record_types import IO_COMMENT, IO_UPDATE, ROLE_OF, RecordRole
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.kernels import MIN_RECORD, SYSTEM_KEY, SYSTEM_KEY_AT, UNDO
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.records.record_view import RecordColumns
from trailgate.trail.records.table_metadata import (
    RecordTables,
    TrailTables,
)
from trailgate.trail.records.transactions import CLOSES, INDICATORS, LAST, is_separate

SHOWN = 64  # bytes of a record that an error shows

NOTE: Final = IO_COMMENT  # a type of records that are not operations


@dataclass(frozen=True, slots=True)
class OperationRecords:
    """The records of a trail portion that belong to operations, and the tables known after them.

    Only the first ``cut`` records of the portion are included; the others must be read with other
    tables. ``kept[i]`` is the index of record i of ``view`` among all records of the portion; None
    means that no record was dropped.
    """

    view: RecordColumns
    tables: TrailTables
    cut: int
    kept: Longs | None = None

    def count_consumed(self, records: int) -> int:
        """Convert a number of consumed operation records to the number of consumed records of the portion."""
        if self.kept is None:
            return records
        return int(self.kept[records]) if records < len(self.kept) else self.cut


def turn_backouts_into_notes(view: RecordColumns) -> RecordColumns:
    """Change the role of backout records to notes before grouping: notes are not operations but still belong to their transactions."""
    rows = view.rows_with_mark(UNDO)
    if not len(rows):
        return view
    io_type, role = view.io_type.copy(), view.role.copy()
    io_type[rows], role[rows] = NOTE, ROLE_OF[NOTE]
    return replace(view, io_type=io_type, role=role)


def skip_system_keys(source: TrailBytes, view: RecordColumns) -> RecordColumns:
    """Move the start of each record's data span past its system key, so that grouped operations have only columns."""
    rows = view.rows_with_mark(SYSTEM_KEY)
    if not len(rows):
        return view
    starts = view.data.starts.copy()
    starts[rows] += source.data[view.offsets[rows] + SYSTEM_KEY_AT]
    return replace(view, data=Spans(starts, view.data.ends))


def drop_non_operations(
    source: TrailBytes, view: RecordColumns, tables: TrailTables, *, tx_open: bool
) -> OperationRecords:
    """Drop the records that are not operations: metadata, restart records, and notes that are a complete transaction.

    A note within a transaction (such as a sequence's) is kept, because it may begin or end the
    transaction. A note that is itself a transaction (such as a DDL record) does not belong to the
    transaction around it. If a metadata record changes the meaning of a table index, the result
    ends before it.

    ``tx_open``: a transaction is open before the first record. Raises DecodeError for a
    RestartAbend record inside a transaction: only a reader of the complete file can skip the
    abandoned records.
    """
    cut = len(view)
    # Roles from METADATA on change no rows.
    if view.only_changes or not (view.role >= RecordRole.METADATA).any():
        return OperationRecords(view, tables, cut)
    # Only metadata and RestartAbend records need a closer look; the other separate records are just dropped.
    dropped = is_separate(view)
    decisive = (view.role == RecordRole.METADATA) | (view.role == RecordRole.ABEND)
    for row in np.flatnonzero(decisive).tolist():
        if view.role[row] == RecordRole.ABEND:
            _check_closed(source, view, dropped[:row], tx_open=tx_open)
            continue
        offset = int(view.offsets[row])
        record = decode_record(source.data, offset, order=source.order, base=source.base)
        known = tables.with_record(record)
        # Earlier operations in this batch use the old meaning of the index: end the batch here.
        if _changes(tables, known, record) and (~dropped[:row]).any():
            cut = row
            break
        tables = known
    if not dropped.any():
        return OperationRecords(view, tables, cut)
    # ``together``: the kept records have no gap. kept = 3 4 5 has 5 - 3 == 3 - 1; kept = 3 5 has not.
    kept = np.flatnonzero(~dropped[:cut])
    together = len(kept) and kept[-1] - kept[0] == len(kept) - 1
    # Usually the dropped records come first. The rest is then a slice, which copies nothing.
    rows = slice(int(kept[0]), int(kept[-1]) + 1) if together else kept
    return OperationRecords(view.take(rows), tables, cut, kept)


def _changes(old: TrailTables, new: TrailTables, record: TrailRecord) -> bool:
    """Return whether a metadata record changed the meaning of a known table index."""
    index = record.metadata_indexes[1]
    before, after = old.tables.get(index), new.tables.get(index)
    if before is None or after is None:
        return False
    return (before.name, before.table) != (after.name, after.table)


def _check_closed(source: TrailBytes, view: RecordColumns, dropped: Mask, *, tx_open: bool) -> None:
    """Raise DecodeError if a transaction is open before a RestartAbend record.

    ``dropped`` has an item for each record before it, and marks those that are not operations.
    ``tx_open``: a transaction is open before the first of them.
    """
    rows = np.flatnonzero(~dropped)
    if len(rows):
        tx_open = bool(view.indicator[rows[-1]] < LAST)
    if tx_open:
        start = int(view.offsets[len(dropped)])
        raise source.error(
            "a restart record inside a transaction: the records before it were abandoned",
            (start, start + MIN_RECORD),
            hint="Read the complete trail, which skips the abandoned part",
        )


@dataclass(frozen=True, slots=True)
class GroupedOperations:
    """Consecutive trail records, grouped into operations.

    For each operation, ``first`` is the row in ``view`` of its first record. ``after`` is the row
    of the record with its after image: the second record of an update of two records, otherwise the
    first one. ``begins`` and ``ends`` mark the first and the last operation of a transaction. For
    each record, ``owner`` is the index of its operation, or -1 if no operation has begun yet (for
    example for a sequence's record, which changes no row). Only the first ``records`` records of
    ``view`` are grouped.
    """

    view: RecordColumns
    tables: RecordTables
    first: Longs
    after: Longs
    owner: Longs
    begins: Mask
    ends: Mask
    records: int

    def __len__(self) -> int:
        return len(self.first)

    def of_role(self, role: RecordRole) -> Longs:
        """Return the rows of the grouped trail records that have this role."""
        if self.view.only_changes and role != RecordRole.CHANGE:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.view.role[: self.records] == role)


def group_operations(
    source: TrailBytes, view: RecordColumns, tables: RecordTables, *, more: bool
) -> GroupedOperations:
    """Group trail records into operations. ``more`` means that other records may follow.

    A before image at the end, without its after image, is not grouped. With ``more``, the last
    operation of an open transaction is not grouped either, since its pieces may follow.
    """
    count = len(view)
    changes = view.changes
    rows = as_slice(changes)
    is_before = view.is_before[rows]
    if is_before.any():
        is_before = is_before & (view.io_type[rows] == IO_UPDATE)
    if len(changes) and is_before[-1]:
        count = int(changes[-1])
        changes, is_before = changes[:-1], is_before[:-1]
    elif more and count and _continues(view, count):
        # Drop the last operation, with its before image. If there is no operation at all, the
        # records are notes; keep none, since a note may begin the transaction that follows.
        kept = max(0, len(changes) - 1)
        kept -= bool(kept and is_before[kept - 1])
        count = int(changes[kept]) if len(changes) else 0
        changes, is_before = changes[:kept], is_before[:kept]
    first, after = _pair(source, view, tables, changes, np.flatnonzero(is_before))
    owner = _owners(source, view, tables, first, count)
    begins, ends = _transaction_bounds(view, count, first)
    return GroupedOperations(
        view=view,
        tables=tables,
        first=first,
        after=after,
        owner=owner,
        begins=begins,
        ends=ends,
        records=count,
    )


def find_last_change(operations: GroupedOperations, records: Longs) -> Longs:
    """Return the row of the change record that each of these fragments or large-object pieces continues."""
    changes = operations.of_role(RecordRole.CHANGE)
    return changes[np.searchsorted(changes, records) - 1]


def _continues(view: RecordColumns, count: int) -> bool:
    return bool(view.indicator[count - 1] < 2 or view.continued[count - 1])


def _pair(
    source: TrailBytes, view: RecordColumns, tables: RecordTables, changes: Longs, before: Longs
) -> tuple[Longs, Longs]:
    """Return the first record and the after-image record of each operation.

    ``changes`` are the rows of the change records, and ``before`` the indexes of the before images
    among these.
    """
    if not len(before):
        return changes, changes
    # Example: changes are the rows 0, 1, 2, 4 and before is [1]: the pair is (1, 2), so the
    # operations are first = [0, 1, 4] and after = [0, 2, 4].
    following = np.minimum(before + 1, len(changes) - 1)
    one, two = changes[before], changes[following]
    good = (following > before) & (view.io_type[two] == IO_UPDATE) & ~view.is_before[two]
    good &= tables.codes[two] == tables.codes[one]
    good &= (view.indicator[one] < 2) & np.isin(view.indicator[two], (1, 2))
    if not good.all():
        problem = "a before image must be followed by the after image of the same update"
        raise _about(source, view, int(one[int(np.argmin(good))]), problem)
    is_first = np.ones(len(changes), bool)
    is_first[following] = False
    first = changes[is_first]
    after = first.copy()
    after[np.searchsorted(first, one)] = two
    return first, after


def _owners(
    source: TrailBytes, view: RecordColumns, tables: RecordTables, first: Longs, count: int
) -> Longs:
    """Return the index of each record's operation, or -1 if none has begun yet.

    Raises DecodeError if a piece or fragment does not follow a change of its table.
    """
    rows = np.arange(count)
    if len(first) == count:
        return rows
    # The last operation that starts at or before each record. Example: operations start at records
    # 0 and 3, so records 0 to 4 belong to the operations 0 0 0 1 1.
    owner = np.searchsorted(first, rows, "right") - 1
    role = view.role[:count]
    pieces = np.flatnonzero((role == RecordRole.LARGE_OBJECT) | (role == RecordRole.FRAGMENT))
    if not len(pieces):
        return owner
    if owner[pieces[0]] < 0:
        problem = "a piece does not follow the change it belongs to"
        raise _about(source, view, int(pieces[0]), problem)
    changes = np.flatnonzero(role == RecordRole.CHANGE)
    # Compare the table of each piece with that of the last change before it.
    good = tables.same_table(pieces, changes[np.searchsorted(changes, pieces) - 1])
    if not good.all():
        problem = "a piece is of another table than its change"
        raise _about(source, view, int(pieces[int(np.argmin(good))]), problem)
    return owner


def _about(source: TrailBytes, view: RecordColumns, row: int, problem: str) -> Exception:
    at = int(view.offsets[row])
    return source.error(problem, (at, at + SHOWN))


def _transaction_bounds(view: RecordColumns, count: int, first: Longs) -> tuple[Mask, Mask]:
    """Return masks of the operations that begin a transaction and of those that end one.

    Every record has an indicator, so an operation begins (or ends) a transaction if one of its
    records does. A record that is not about rows, such as a sequence's, counts as a record of the
    next operation here.
    """
    marks = INDICATORS[view.indicator[:count]]
    begins, ends = marks & BEGINS != 0, marks & CLOSES != 0
    if len(first) == count:
        return begins, ends
    if not len(first):
        none = np.zeros(0, bool)
        return none, none
    # The indicator of a piece must not begin a transaction: it would count for the next operation.
    role = view.role[:count]
    begins = begins & ((role == RecordRole.CHANGE) | (role == RecordRole.NOTE))
    # An operation may begin with a note after the previous first record, and ends before the next.
    starts = np.concatenate([[0], first[:-1] + 1])
    following = np.concatenate([first[1:], [count]])
    return _any_between(begins, starts, first + 1), _any_between(ends, first, following)


def _any_between(marks: Mask, starts: Longs, stops: Longs) -> Mask:
    """Return for each range [start, stop) whether any of its marks is set."""
    total = np.concatenate([[0], np.cumsum(marks)])
    is_marked: Mask = total[stops] > total[starts]
    return is_marked


def join_fragments(
    source: TrailBytes, operations: GroupedOperations
) -> tuple[TrailBytes, GroupedOperations]:
    """Join the data of changes with the data of their fragments, at the end of the bytes.

    Returns the extended bytes, and the operations with the spans of the joined data. Raises
    DecodeError if no fragment follows a continued record, or if a fragment follows a record that is
    not continued.
    """
    is_continued = operations.view.continued[: operations.records] != 0
    fragments = operations.of_role(RecordRole.FRAGMENT)
    if not is_continued.any() and not len(fragments):
        return source, operations
    _check(source, operations, is_continued)
    if not len(fragments):
        return source, operations
    view = operations.view
    bases = np.unique(find_last_change(operations, fragments))
    rows = np.sort(np.concatenate([bases, fragments]))
    # Example: change 3 continues in the fragments 4 and 5, change 6 in 7. Copying the data of the
    # rows 3, 4, 5, 6, 7 in this order joins them: a change's data begin at its copy (first = 0, 3)
    # and end where the copy before the next change ends.
    parts = view.data.take(rows)
    source, starts = source.extend(parts)
    ends = starts + parts.sizes
    first = np.searchsorted(rows, bases)
    data = Spans(view.data.starts.copy(), view.data.ends.copy())
    data.starts[bases] = starts[first]
    data.ends[bases] = ends[np.append(first[1:], len(rows)) - 1]
    return source, replace(operations, view=replace(view, data=data))


def _check(source: TrailBytes, operations: GroupedOperations, is_continued: Mask) -> None:
    """Raise DecodeError unless fragments follow all records with the flag Continued, and only these.

    Such a change may also be followed by the pieces of its large objects.
    """
    role = operations.view.role[: operations.records]
    part = (role == RecordRole.CHANGE) | (role == RecordRole.FRAGMENT)
    # The role of the record after each one; REFUSED after the last record of all.
    follows = np.append(role[1:], operations.view.role[operations.records :][:1])
    follows = np.append(follows, RecordRole.REFUSED)[: len(role)]
    # A change with large objects may have Continued set for their pieces.
    fits = (follows == RecordRole.FRAGMENT) | (
        (role == RecordRole.CHANGE) & (follows == RecordRole.LARGE_OBJECT)
    )
    missing = part & is_continued & ~fits
    if missing.any():
        raise _about_fragments(
            source, operations, missing, "a record is continued, but no fragment follows it"
        )
    fragment = role == RecordRole.FRAGMENT
    fragment[1:] &= ~(part & is_continued)[:-1]
    if fragment.any():
        problem = "a fragment follows a record that is not continued"
        raise _about_fragments(source, operations, fragment, problem)


def _about_fragments(
    source: TrailBytes, operations: GroupedOperations, bad: Mask, problem: str
) -> Exception:
    start = int(operations.view.offsets[int(np.argmax(bad))])
    hint = "Is a record missing between this one and its neighbour?"
    return source.error(problem, (start, min(start + 64, len(source.data))), hint=hint)
