"""Trees of records to files: rows with lists of the records below them. The mirror image of ``nested_kinds``.

A record is followed by those below it, kind by kind in the order of the lists. Where records state the offset that they were read from (``_offset``), those of a tree are in that
order instead. Read again, each record would be below the one that it is in: else it is an error, and so is an order that lists do not have, of records whose bytes are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.cobol.records.added_columns import OFFSET_COLUMN, RAW_COLUMN
from trailgate.cobol.records.fields import RecordBytes
from trailgate.cobol.records.kinds_encoding import KindRows, KindsEncoder
from trailgate.cobol.records.nested_kinds import NestedDecoder
from trailgate.cobol.records.record_ids import ID_COLUMN
from trailgate.cobol.records.trees import is_list, type_error
from trailgate.errors import EncodeError, Where

UNKNOWN: Final = -1  # an offset
_KNOWN: Final = "With offsetColumn=true the order is known; or leave out _raw"


class _Branch(NamedTuple):
    """Records of a kind, all from the same lists of the trees.

    ``path`` has for each record its row, and for each level below that the number of its list and its number in it. ``above`` are the numbers of the records above
    among those of the branch ``parent``. ``unsure`` are those whose order among others below the same record is not known, though their bytes are kept.
    """

    name: str
    columns: Mapping[str, pa.Array]
    path: Longs
    offsets: Longs
    unsure: Mask
    parent: int = -1
    above: Longs = np.zeros(0, np.int64)


class NestedEncoder(KindsEncoder):
    """Encodes rows of trees, batch after batch of one file."""

    _decoder: NestedDecoder

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # Of the last row that begins a tree, and of the last one: its offset, the last one below it, whether it begins a tree, whether offsets below it are not known, and
        # whether its bytes are kept.
        self._last: Longs = np.zeros((5, 0), np.int64)

    def _parts(self, given: Mapping[str, pa.Array], rows: int) -> list[KindRows]:
        """Return the records of each kind, in lists too."""
        column = OFFSET_COLUMN if OFFSET_COLUMN in self._added else ID_COLUMN
        offsets = _offsets(given.get(column), rows)
        found: list[_Branch] = []
        for part in super()._parts(given, rows):
            none = np.zeros(len(part.rows), bool)
            self._walk(
                found,
                _Branch(part.name, part.columns, part.rows[:, None], offsets[part.rows], none),
            )
        order = _order(found)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        ends = np.cumsum([len(one.path) for one in found])
        own = np.split(numbers, ends[:-1]) if found else []
        self._check_order(found, own)
        self._check_between(found, own, offsets)
        return [
            KindRows(
                one.name,
                one.columns,
                mine,
                own[one.parent][one.above] if one.parent >= 0 else np.full(len(mine), -1),
            )
            for one, mine in zip(found, own, strict=True)
        ]

    def _walk(self, found: list[_Branch], one: _Branch) -> None:
        """Add a branch, and those of the lists in its records."""
        children = self._decoder.children_of(one.name)
        columns = dict(one.columns)
        lists = [_list_of(child, columns.pop(child, None), one.name) for child in children]
        parent = len(found)
        found.append(one._replace(columns=columns))
        filled = np.zeros(len(one.path), np.int64)
        for values in lists:
            filled += pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False) > 0
        for number, (child, values) in enumerate(zip(children, lists, strict=True)):
            structs = pc.list_flatten(values)
            above = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
            if pa.types.is_null(structs.type) and not len(structs):
                continue
            inner = _members(child, structs)
            offsets = _offsets(
                inner.get(OFFSET_COLUMN) if OFFSET_COLUMN in self._added else None, len(above)
            )
            steps = np.column_stack([np.full(len(above), number), np.arange(len(above))])
            path = np.hstack([one.path[above], steps])
            lost = self._kept(inner, len(above)) & (offsets == UNKNOWN)
            unsure = lost & (filled[above] > 1)
            self._walk(found, _Branch(child, inner, path, offsets, unsure, parent, above))

    def _kept(self, columns: Mapping[str, pa.Array], rows: int) -> Mask:
        """Return the records whose bytes are kept."""
        if RAW_COLUMN not in self._added or RAW_COLUMN not in columns:
            return np.zeros(rows, bool)
        found: Mask = columns[RAW_COLUMN].is_valid().to_numpy(zero_copy_only=False)
        return found

    def _check_order(self, found: Sequence[_Branch], own: Sequence[Longs]) -> None:
        """Raise EncodeError for a record whose order is not known."""
        for one, numbers in zip(found, own, strict=True):
            if one.unsure.any():
                first = int(numbers[one.unsure].min())
                problem = f"the order of {one.name} and of other records below one {found[one.parent].name} is not known"
                raise EncodeError(problem, where=Where(record=first + 1), hint=_KNOWN)

    def _check_between(
        self, found: Sequence[_Branch], own: Sequence[Longs], offsets: Longs
    ) -> None:
        """Raise EncodeError for a row of a kind without children that was, or may have been, inside of the tree before it."""
        if not len(offsets):
            return
        held = np.hstack([self._last, self._facts(found, offsets)])
        offsets, last, begins, unknown, kept = held
        # Offsets that do not ascend are those of another file.
        other = np.append(False, (offsets[1:] >= 0) & (offsets[1:] <= offsets[:-1]))
        tree = np.maximum.accumulate(np.where((begins > 0) | other, np.arange(len(offsets)), 0))
        lone = (begins == 0) & (begins[tree] > 0)
        inside = lone & (offsets > offsets[tree]) & (offsets < last[tree])
        unsure = lone & (kept > 0) & (unknown[tree] > 0)
        new = slice(self._last.shape[1], None)
        self._last = held[:, np.unique([tree[-1], len(tree) - 1])]
        if not (inside | unsure)[new].any():
            return
        row = int(np.argmax((inside | unsure)[new]))
        pairs = zip(found, own, strict=True)
        one, numbers = next(pair for pair in pairs if row in pair[0].path[:, 0])
        problem = f"a record {one.name} that was among those of the tree before it"
        hint = "Such records keep their order with children=ids"
        if not inside[new][row]:
            problem = f"the order of {one.name} and of records below the one before it is not known"
            hint = _KNOWN
        number = int(numbers[one.path[:, 0] == row][0])
        raise EncodeError(problem, where=Where(record=number + 1), hint=hint)

    def _facts(self, found: Sequence[_Branch], offsets: Longs) -> Longs:
        """Return of each row the facts that ``_last`` has of some."""
        last, begins, unknown, kept = np.zeros((4, len(offsets)), np.int64)
        for one in found:
            rows, has_bytes = one.path[:, 0], self._kept(one.columns, len(one.path))
            if one.parent < 0:
                begins[rows], kept[rows] = self._decoder.has_trees(one.name), has_bytes
            else:
                np.maximum.at(last, rows, one.offsets)
                unknown[rows[has_bytes & (one.offsets == UNKNOWN)]] = 1
        return np.array([offsets, last, begins, unknown, kept])

    def _check(self, records: RecordBytes, kind: Longs, parts: Sequence[KindRows]) -> None:
        """Raise EncodeError for a record that would be read as one of another kind, or below another one."""
        super()._check(records, kind, parts)
        above = np.full(len(kind), -1)
        for part in parts:
            above[part.rows] = part.above
        wrong = self._decoder.parents_of(kind)[0] != above
        if wrong.any():
            row = int(np.argmax(wrong))
            names = list(self._encoders)
            problem = f"a record {names[kind[row]]} that would not be read as one below its {names[kind[above[row]]]}"
            hint = f"By {OFFSET_COLUMN} it is elsewhere in the file: leave this column out"
            raise EncodeError(problem, where=Where(record=row + 1, field=OFFSET_COLUMN), hint=hint)


def _order(found: Sequence[_Branch]) -> Longs:
    """Return the records of all branches, one after the other, in the order in which they are written."""
    width = max((one.path.shape[1] for one in found), default=1)
    if not found:
        return np.zeros(0, np.int64)
    paths = np.concatenate(
        [
            np.pad(one.path, ((0, 0), (0, width - one.path.shape[1])), constant_values=-1)
            for one in found
        ]
    )
    order = np.lexsort(paths.T[::-1])
    offsets = np.concatenate([one.offsets for one in found])[order]
    roots = np.concatenate([np.full(len(one.path), one.parent < 0) for one in found])[order]
    # A new record is after the one that it would be after without offsets.
    stated = np.where(roots | (offsets != UNKNOWN), np.arange(len(order)), 0)
    offsets = offsets[np.maximum.accumulate(stated)] if len(order) else offsets
    return order[np.lexsort((offsets, paths[order, 0]))]


def _offsets(column: pa.Array | None, rows: int) -> Longs:
    if column is None:
        return np.full(rows, UNKNOWN)
    found: Longs = pc.cast(column, pa.int64()).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return found


def _list_of(child: str, values: pa.Array | None, name: str) -> pa.Array:
    """Return the lists of the records of a kind; raises EncodeError for a column that is not one of lists."""
    if values is None:
        problem = f"no column for the records {child} below {name}"
        raise EncodeError(
            problem,
            where=Where(field=child),
            hint="A record without such records has an empty array, or NULL",
        )
    if not is_list(values.type):
        raise type_error(child, values.type, "an array of structs")
    return values


def _members(child: str, structs: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(structs.type):
        raise type_error(child, structs.type, "a struct")
    if structs.null_count:
        raise EncodeError("NULL in an array of records", where=Where(field=child))
    return dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))
