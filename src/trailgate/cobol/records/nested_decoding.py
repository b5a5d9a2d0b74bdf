"""Decode files with several kinds of records as trees: child records become lists in their parent's row.

A record's parent is the last record of the parent kind before it, as in ``record_ids``. The records
from one root to the next therefore form a tree, and whole trees are decoded together: all records
of one kind at once. The offsets of a list column are the positions at which the parent of a kind's
records changes. For example, the records H D D H D become two rows of H with lists of two and one
D.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.cobol.records.added_columns import (
    FILE_COLUMN,
    is_of_record,
    make_added_columns,
    make_added_fields,
)
from trailgate.cobol.records.kinds_decoding import (
    ChosenRows,
    KindsDecoder,
    RecordTrees,
    decode_rows_of_kind,
)
from trailgate.cobol.records.record_bytes import RecordBytes, records_at
from trailgate.cobol.records.record_ids import ID_COLUMN, RecordIds
from trailgate.cobol.records.record_options import ERRORS_COLUMN, BadFieldPolicy
from trailgate.errors import DecodeError, OptionError, Where, shown_source

MOST_BYTES: Final = 1 << 30  # the maximum of one tree, which is decoded in one piece


class ChildRecords(Enum):
    """How child records become columns: as lists in their parent's row, or as separate rows."""

    IDS = "ids"  # as separate rows, with the ids of their ancestors
    NESTED = "nested"  # as lists in their parents' rows


class OrphanPolicy(Enum):
    """What to do with a child record whose parent is missing."""

    ERROR = "error"
    DROP = "drop"


class NestedDecoder(KindsDecoder):
    """Decodes trees of records. ``independent_pieces`` cuts the input between trees."""

    _path = ""

    def __init__(self, *given: Any, orphans: OrphanPolicy = OrphanPolicy.ERROR) -> None:
        super().__init__(*given)
        self._policy = orphans
        self._names, self._own_shown = list(self._decoders), self._shown
        chains = self._chains
        self._children = [
            [self._names[chain[-1]] for chain in chains if chain[-2:-1] == [number]]
            for number in range(len(chains))
        ]
        # The root kinds with children: each of their records ends the tree before it. Root kinds
        # without children can occur between trees, or inside one.
        self._ends = [n for n, below in enumerate(self._children) if below and len(chains[n]) == 1]
        self._of_record = tuple(filter(is_of_record, self._added))
        self._shown = set(filter(self._is_shown, self._names))
        for name in self._names:
            names = self._own_schema(name).names
            for one in names:
                if names.count(one) > 1:
                    problem = (
                        f"two columns of {name} have the name {one}: an item, and a kind below it"
                    )
                    raise OptionError(problem, hint="Rename one of them with the option rename")

    def _is_shown(self, name: str) -> bool:
        """Return True if the records of a kind have any columns: items, errors, or children with columns."""
        below = self._children[self._numbers[name]]
        is_root = len(self._chains[self._numbers[name]]) == 1
        errors = self._options.errors is BadFieldPolicy.COLUMN and not is_root
        return name in self._own_shown or errors or any(map(self._is_shown, below))

    def of_file(self, path: str) -> NestedDecoder:
        """Return the decoder for the record trees of one file."""
        bound: NestedDecoder = super().of_file(path)  # type: ignore[assignment]  # a copy of this one
        bound._path = shown_source(path)
        return bound

    def children_of(self, name: str) -> Sequence[str]:
        """Return the child kinds of the kind ``name``. Each is a list column in its rows."""
        return self._children[self._numbers[name]]

    def has_trees(self, name: str) -> bool:
        """Return whether each record of a root kind begins a tree: whether the kind has child kinds."""
        return self._numbers[name] in self._ends

    @property
    def _with_rows(self) -> list[str]:
        return [self._names[chain[0]] for chain in self._chains if len(chain) == 1]

    def _id_fields(self) -> list[pa.Field]:
        return [pa.field(FILE_COLUMN, pa.string()), pa.field(ID_COLUMN, pa.int64())]

    def _own_schema(self, name: str) -> pa.Schema:
        """Return the fields of a kind's records, and a list for each kind below it."""
        fields = self._own_fields(name)
        for child in self._shown_below(name):
            inner = [*self._own_schema(child), *make_added_fields(self._of_record)]
            fields.append(pa.field(child, pa.list_(pa.struct(inner))))
        return pa.schema(fields)

    def _own_fields(self, name: str) -> list[pa.Field]:
        """Return the selected columns of a record kind. Its column of errors is always included."""
        is_asked = name in self._own_shown
        schema = self._decoders[name].schema
        return [field for field in schema if is_asked or field.name == ERRORS_COLUMN]

    def _shown_below(self, name: str) -> list[str]:
        return [one for one in self._children[self._numbers[name]] if one in self._shown]

    def independent_pieces(self, chunks: Iterable[RecordBytes]) -> Iterator[RecordBytes]:
        """Yield records in pieces of complete trees. Raises DecodeError if a tree exceeds 1 GB."""
        pending: list[RecordBytes] = []
        size = 0
        for records in chunks:
            ends = self._tree_begins(records)
            # Everything before the last tree that begins here is complete.
            if len(ends):
                yield from _join_parts([*pending, records.part(0, int(ends[-1]))])
                pending, size, records = [], 0, records.part(int(ends[-1]), len(records))  # noqa: PLW2901  the rest
            elif not pending:
                yield records
                continue
            pending.append(records)
            size += int(records.ends[-1] - records.starts[0]) if len(records) else 0
            if size > MOST_BYTES:
                first = pending[0]
                where = Where(record=first.number(0), offset=int(first.offsets[0]))
                problem = f"a record has more than {MOST_BYTES:,} bytes of records below it"
                raise DecodeError(problem, where=where, hint="Read it with children=ids")
        yield from _join_parts(pending)

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return the first row, at least ``row``, at which a tree begins, or the end."""
        ends = self._tree_begins(records)
        return int(next(iter(ends[ends >= row]), len(records)))

    def _tree_begins(self, records: RecordBytes) -> Longs:
        """Return the indexes of the records that begin a tree of records."""
        return np.flatnonzero(np.isin(self._decode_kinds(records)[2], self._ends))

    def _choose_rows(self, records: RecordBytes) -> ChosenRows:
        """Choose the root records as rows, together with all records of their trees."""
        kind = self.kinds_of(records)
        rows = np.flatnonzero(kind >= 0)
        kind = kind[rows]
        above, orphans = self.parents_of(kind)
        if orphans.any():
            self._check_orphans(records, rows[orphans], kind[orphans])
            # Orphans are dropped, so the parents' indexes move down by the number of orphans before
            # them. Example: with the orphan mask 0 1 0 the new indexes are 0 - 1.
            moved = np.where(above >= 0, (np.cumsum(~orphans) - 1)[above], above)
            rows, kind, above = rows[~orphans], kind[~orphans], moved[~orphans]
        roots = above < 0
        ids = [pa.repeat(self._path, int(roots.sum())), pa.array(records.offsets[rows[roots]])]
        return ChosenRows(rows[roots], kind[roots], ids, trees=RecordTrees(rows, kind, above))

    def parents_of(self, kinds: Longs) -> tuple[Longs, Mask]:
        """Return the index of each record's parent (-1 for roots), and a mask of the orphans."""
        numbers = np.arange(len(kinds))
        (_, _, *levels), _ = RecordIds("", self._chains).columns(kinds, numbers)
        known = np.array([level.fill_null(-1).to_numpy(zero_copy_only=False) for level in levels])
        ends = np.where(np.isin(kinds, self._ends), numbers, -1)
        # For each record, the last record at or before it that began a tree. A row is complete once the
        # next tree begins, so a record after that cannot belong to it.
        last = np.maximum.accumulate(ends) if len(kinds) else ends
        above, orphans = np.full(len(kinds), -1), np.zeros(len(kinds), bool)
        for number, chain in enumerate(self._chains):
            own_rows, depth = np.flatnonzero(kinds == number), len(chain) - 1
            if depth:
                above[own_rows] = known[depth - 1, own_rows]
                lacks = (known[:depth, own_rows] < 0).any(axis=0)
                orphans[own_rows] = lacks | (known[0, own_rows] != last[own_rows])
        return above, orphans

    def _orphans(self, kinds: Longs) -> Mask:
        if self._policy is OrphanPolicy.ERROR:
            return self.parents_of(kinds)[1]
        return super()._orphans(kinds)

    def _check_orphans(self, records: RecordBytes, rows: Longs, kinds: Longs) -> None:
        """Count dropped orphans. Raises DecodeError for the first one unless ``orphans=drop``."""
        if self._policy is OrphanPolicy.DROP:
            for number, count in enumerate(np.bincount(kinds).tolist()):
                if count:
                    self.tally["orphans=drop", self._names[number], ""] += count
            return
        row, own_kind = int(rows[0]), int(kinds[0])
        name, parent = self._names[own_kind], self._names[self._chains[own_kind][-2]]
        where = Where(record=records.number(row), offset=int(records.offsets[row]))
        problem = f"a record {name} has no {parent} before it"
        hint = "orphans=drop drops it; children=ids keeps it as a row"
        raise DecodeError(problem, where=where, hint=hint)

    def _decode(
        self, name: str, records: RecordBytes, chosen: ChosenRows, rows: Longs
    ) -> pa.RecordBatch:
        """Decode the rows of a root kind, with lists of the records below them."""
        del rows  # every record of the kind is decoded
        assert chosen.trees is not None
        _, columns = self._tree(name, records, chosen.trees)
        return pa.RecordBatch.from_arrays(columns, schema=self._own_schema(name))

    def _tree(
        self, name: str, records: RecordBytes, trees: RecordTrees
    ) -> tuple[Longs, list[pa.Array]]:
        """Return the indexes of a kind's records in the trees, and their columns and child lists.

        Child kinds without columns are decoded too, so that their errors are found.
        """
        own_rows = np.flatnonzero(trees.kind == self._numbers[name])
        decoded = decode_rows_of_kind(self._decoders[name], records, trees.rows[own_rows])
        columns = [decoded.column(field.name) for field in self._own_fields(name)]
        for child in self._children[self._numbers[name]]:
            below, inner = self._tree(child, records, trees)
            if child not in self._shown:
                continue
            inner += make_added_columns(self._of_record, records, trees.rows[below])
            fields = [*self._own_schema(child), *make_added_fields(self._of_record)]
            values = pa.StructArray.from_arrays(inner, fields=fields)
            # Parent indexes ascend, so the children of one parent are adjacent. Example: parents at
            # 0 and 3, children with the parents 0 0 3, list offsets 0 2 3.
            begins = np.searchsorted(trees.above[below], own_rows)
            offsets = pa.array(np.append(begins, len(below)).astype(np.int32))
            columns.append(pa.ListArray.from_arrays(offsets, values))
        return own_rows, columns


def _join_parts(parts: Sequence[RecordBytes]) -> Iterator[RecordBytes]:
    """Yield consecutive parts as one piece, or nothing if all are empty."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        yield from filled
        return
    begins = [int(part.starts[0]) for part in filled]
    data = [part.data[at : int(part.ends[-1])] for part, at in zip(filled, begins, strict=True)]
    # How far the offsets of each part move. Example: parts with the bytes [2, 5) and [0, 4) of
    # their buffers are joined as [0, 3) and [3, 7), so they move by -2 and +3.
    moves = np.cumsum([0, *map(len, data[:-1])]) - begins
    starts, ends = (
        np.concatenate(
            [getattr(part, name) + move for part, move in zip(filled, moves, strict=True)]
        )
        for name in ("starts", "ends")
    )
    joined_records = records_at(np.concatenate(data), starts, ends, first=filled[0].first)
    offsets = np.concatenate([part.offsets for part in filled])
    numbers = [part.numbers(np.arange(len(part))) for part in filled]
    known = [own for own in numbers if own is not None]
    joined = np.concatenate(known) if len(known) == len(filled) else None
    yield replace(joined_records, places=offsets, texts=filled[0].texts, given_numbers=joined)
