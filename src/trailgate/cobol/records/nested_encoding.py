"""Encode rows with nested lists of records, and write each record after its parent.

This is the reverse of ``nested_decoding``. A record is followed by the records in its lists, list by
list. If the records have their original offsets (column ``_offset``), the records of a tree are
written in that order instead. Reading the file again must produce the same trees, so a record that
would be read as another's child is an error, and so are records with original bytes (``_raw``)
whose order is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.cobol.records.added_columns import OFFSET_COLUMN, RAW_COLUMN
from trailgate.cobol.records.kinds_encoding import KindsEncoder, RowsOfKind
from trailgate.cobol.records.nested_columns import is_list_type, nested_type_error
from trailgate.cobol.records.nested_decoding import NestedDecoder
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.cobol.records.record_ids import ID_COLUMN
from trailgate.errors import EncodeError, Where

UNKNOWN: Final = -1  # an offset
_KNOWN: Final = "Read with offsetColumn=true, so that the order is known, or drop the column _raw"


class _Branch(NamedTuple):
    """The records of one kind that come from the same list column, for all trees.

    ``path`` has a row per record: its row in the batch, then for each level the number of its list
    column and its index among all elements of this column. For example, ``4 1 7``: in row 4, in the
    list column 1, the element 7 of all lists of the column. ``above`` are the indexes of the parent
    records in the branch ``parent``. ``unsure`` selects records whose original bytes are kept, but
    whose order among their siblings is unknown.
    """

    name: str
    columns: Mapping[str, pa.Array]
    path: Longs
    offsets: Longs
    unsure: Mask
    parent: int = -1
    above: Longs = np.zeros(0, np.int64)


class NestedEncoder(KindsEncoder):
    """Encodes trees of records for one file, batch by batch: the rows of nested lists become records after their parent record."""

    _decoder: NestedDecoder

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # Facts of the last row that begins a tree, and of the last row, for the checks of the next
        # batch. Rows: offset, largest offset below it, 1 if it begins a tree, 1 if an offset below it
        # is unknown, 1 if its original bytes are kept.
        self._last: Longs = np.zeros((5, 0), np.int64)

    def _parts(self, columns: Mapping[str, pa.Array], rows: int) -> list[RowsOfKind]:
        """Return the records of each kind, including those in lists, with their numbers in the file."""
        column = OFFSET_COLUMN if OFFSET_COLUMN in self._added_names else ID_COLUMN
        offsets = _offsets(columns.get(column), rows)
        branches: list[_Branch] = []
        for part in super()._parts(columns, rows):
            none = np.zeros(len(part.rows), bool)
            self._walk(
                branches,
                _Branch(part.name, part.columns, part.rows[:, None], offsets[part.rows], none),
            )
        order = _order(branches)
        # The inverse of ``order``: it lists rows by number, and ``numbers`` has the number of each row. Example:
        # order 2 0 1 gives numbers 1 2 0.
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        ends = np.cumsum([len(branch.path) for branch in branches])
        branch_numbers = np.split(numbers, ends[:-1]) if branches else []
        self._check_order(branches, branch_numbers)
        self._check_between(branches, branch_numbers, offsets)
        return [
            RowsOfKind(
                branch.name,
                branch.columns,
                own_numbers,
                branch_numbers[branch.parent][branch.above]
                if branch.parent >= 0
                else np.full(len(own_numbers), -1),
            )
            for branch, own_numbers in zip(branches, branch_numbers, strict=True)
        ]

    def _walk(self, branches: list[_Branch], branch: _Branch) -> None:
        """Add a branch of record trees, and the branches of the lists in its records."""
        children = self._decoder.children_of(branch.name)
        columns = dict(branch.columns)
        lists = [_list_of(child, columns.pop(child, None), branch.name) for child in children]
        parent = len(branches)
        branches.append(branch._replace(columns=columns))
        filled = np.zeros(len(branch.path), np.int64)
        for values in lists:
            filled += pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False) > 0
        for number, (child, values) in enumerate(zip(children, lists, strict=True)):
            structs = pc.list_flatten(values)
            above = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
            if pa.types.is_null(structs.type) and not len(structs):
                continue
            inner = _members(child, structs)
            offsets = _offsets(
                inner.get(OFFSET_COLUMN) if OFFSET_COLUMN in self._added_names else None, len(above)
            )
            # The path of a child is its parent's, followed by the list's number and the index in
            # it.
            steps = np.column_stack([np.full(len(above), number), np.arange(len(above))])
            path = np.hstack([branch.path[above], steps])
            lost = self._kept(inner, len(above)) & (offsets == UNKNOWN)
            unsure = lost & (filled[above] > 1)
            self._walk(
                branches,
                _Branch(
                    name=child,
                    columns=inner,
                    path=path,
                    offsets=offsets,
                    unsure=unsure,
                    parent=parent,
                    above=above,
                ),
            )

    def _kept(self, columns: Mapping[str, pa.Array], rows: int) -> Mask:
        """Return a mask of the records that have original bytes (column ``_raw``)."""
        if RAW_COLUMN not in self._added_names or RAW_COLUMN not in columns:
            return np.zeros(rows, bool)
        branches: Mask = columns[RAW_COLUMN].is_valid().to_numpy(zero_copy_only=False)
        return branches

    def _check_order(self, branches: Sequence[_Branch], branch_numbers: Sequence[Longs]) -> None:
        """Raise EncodeError if the order of a record among its siblings is unknown."""
        for branch, numbers in zip(branches, branch_numbers, strict=True):
            if branch.unsure.any():
                first = int(numbers[branch.unsure].min())
                problem = f"the order of {branch.name} among the records below {branches[branch.parent].name} is unknown"
                raise EncodeError(problem, where=Where(record=first + 1), hint=_KNOWN)

    def _check_between(
        self, branches: Sequence[_Branch], branch_numbers: Sequence[Longs], offsets: Longs
    ) -> None:
        """Raise EncodeError if a row without children was originally inside the tree before it.

        Such a row would be written after the tree, not at its original position. The error is also
        raised if this is only possible, because original bytes are kept and offsets are unknown.
        """
        if not len(offsets):
            return
        facts = np.hstack([self._last, self._facts(branches, offsets)])
        offsets, last, begins, unknown, kept = facts
        # An offset that is not larger than the one before belongs to another file.
        another_file = np.append(False, (offsets[1:] >= 0) & (offsets[1:] <= offsets[:-1]))
        # For each row, the last row at or before it that begins a tree, or a file.
        tree = np.maximum.accumulate(
            np.where((begins > 0) | another_file, np.arange(len(offsets)), 0)
        )
        without_children = (begins == 0) & (begins[tree] > 0)
        # Rows whose offset is between the first and last record of the tree before them.
        inside = without_children & (offsets > offsets[tree]) & (offsets < last[tree])
        unsure = without_children & (kept > 0) & (unknown[tree] > 0)
        new = slice(self._last.shape[1], None)
        self._last = facts[:, np.unique([tree[-1], len(tree) - 1])]
        if not (inside | unsure)[new].any():
            return
        row = int(np.argmax((inside | unsure)[new]))
        pairs = zip(branches, branch_numbers, strict=True)
        branch, numbers = next(pair for pair in pairs if row in pair[0].path[:, 0])
        problem = (
            f"a record {branch.name} was inside the tree before it, and would be moved after it"
        )
        hint = "Read with children=ids, which keeps the order of such records"
        if not inside[new][row]:
            problem = (
                f"the order of {branch.name} and the records below the previous one is unknown"
            )
            hint = _KNOWN
        number = int(numbers[branch.path[:, 0] == row][0])
        raise EncodeError(problem, where=Where(record=number + 1), hint=hint)

    def _facts(self, branches: Sequence[_Branch], offsets: Longs) -> Longs:
        """Return the facts that ``_last`` stores (five rows), with one column per row of the batch."""
        last, begins, unknown, kept = np.zeros((4, len(offsets)), np.int64)
        for branch in branches:
            rows, has_bytes = branch.path[:, 0], self._kept(branch.columns, len(branch.path))
            if branch.parent < 0:
                begins[rows], kept[rows] = self._decoder.has_trees(branch.name), has_bytes
            else:
                # The highest offset of any record below each row.
                np.maximum.at(last, rows, branch.offsets)
                unknown[rows[has_bytes & (branch.offsets == UNKNOWN)]] = 1
        return np.array([offsets, last, begins, unknown, kept])

    def _check(self, records: RecordBytes, kinds: Longs, parts: Sequence[RowsOfKind]) -> None:
        """Raise EncodeError if a record would be read as a different kind, or below a different parent."""
        super()._check(records, kinds, parts)
        above = np.full(len(kinds), -1)
        for part in parts:
            above[part.rows] = part.above
        wrong = self._decoder.parents_of(kinds)[0] != above
        if wrong.any():
            row = int(np.argmax(wrong))
            names = list(self._encoders)
            problem = f"a record {names[kinds[row]]} would not be read below its {names[kinds[above[row]]]}"
            hint = f"{OFFSET_COLUMN} moves it elsewhere in the file: drop this column"
            raise EncodeError(problem, where=Where(record=row + 1, field=OFFSET_COLUMN), hint=hint)


def _order(branches: Sequence[_Branch]) -> Longs:
    """Return the order in which the records of all branches, concatenated, are written.

    The order is by row; within a row by the records' original offsets, or list by list if offsets
    are unknown.
    """
    width = max((branch.path.shape[1] for branch in branches), default=1)
    if not branches:
        return np.zeros(0, np.int64)
    paths = np.concatenate(
        [
            np.pad(branch.path, ((0, 0), (0, width - branch.path.shape[1])), constant_values=-1)
            for branch in branches
        ]
    )
    # Order by row, then by list, then by index in the list, and so on: the order of the lists.
    order = np.lexsort(paths.T[::-1])
    offsets = np.concatenate([branch.offsets for branch in branches])[order]
    roots = np.concatenate([np.full(len(branch.path), branch.parent < 0) for branch in branches])[
        order
    ]
    # A new record without an offset takes the offset of the record before it in list order.
    stated = np.where(roots | (offsets != UNKNOWN), np.arange(len(order)), 0)
    offsets = offsets[np.maximum.accumulate(stated)] if len(order) else offsets
    # Within a row, records with offsets are sorted by these; the sort is stable for the others.
    return order[np.lexsort((offsets, paths[order, 0]))]


def _offsets(column: pa.Array | None, rows: int) -> Longs:
    if column is None:
        return np.full(rows, UNKNOWN)
    branches: Longs = pc.cast(column, pa.int64()).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return branches


def _list_of(child: str, values: pa.Array | None, name: str) -> pa.Array:
    """Return the list column of a child kind. Raises EncodeError if the column is not a list."""
    if values is None:
        problem = f"no column for the records {child} below {name}"
        raise EncodeError(
            problem,
            where=Where(field=child),
            hint="Use an empty array, or NULL, if it has no such records",
        )
    if not is_list_type(values.type):
        raise nested_type_error(child, values.type, "an array of structs")
    return values


def _members(child: str, structs: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(structs.type):
        raise nested_type_error(child, structs.type, "a struct")
    if structs.null_count:
        raise EncodeError("NULL in an array of records", where=Where(field=child))
    return dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))
