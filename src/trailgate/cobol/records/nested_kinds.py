"""Files of several kinds as trees of records: a row for each record without a parent, which has the records below it as lists of structs.

A record is below the last one of its parent's kind before it, as ``record_ids`` has it. So the records from one root to the next one are a tree, which is decoded as a whole: those of
one kind together, and the lists' offsets are where the parents of a kind's records change.
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
    added_columns,
    added_fields,
    is_of_record,
)
from trailgate.cobol.records.decoding import ERRORS_COLUMN, OnError
from trailgate.cobol.records.fields import RecordBytes, records_at
from trailgate.cobol.records.record_ids import ID_COLUMN, RecordIds
from trailgate.cobol.records.record_kinds import ChosenRows, KindsDecoder, Trees, decode_rows
from trailgate.errors import DecodeError, OptionError, Where, mask_logins

MOST_BYTES: Final = 1 << 30  # of a root and all below it, which are decoded together


class Children(Enum):
    """What the records of kinds that have a parent become."""

    IDS = "ids"  # rows like others, with the ids of the records above them
    NESTED = "nested"  # lists in the rows of the records above them


class Orphans(Enum):
    """What becomes of a record without a parent before it, where its row would be in that of the parent."""

    ERROR = "error"
    DROP = "drop"


class NestedDecoder(KindsDecoder):
    """Decodes whole trees of records; ``whole`` gives the pieces that have them."""

    _path = ""

    def __init__(self, *given: Any, orphans: Orphans = Orphans.ERROR) -> None:
        super().__init__(*given)
        self._policy = orphans
        self._names, self._own_shown = list(self._decoders), self._shown
        chains = self._chains
        self._children = [
            [self._names[chain[-1]] for chain in chains if chain[-2:-1] == [number]]
            for number in range(len(chains))
        ]
        # Roots whose records end the tree before them; those of others are only between trees, or in one.
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
                    raise OptionError(problem, hint="The option rename gives one another name")

    def _is_shown(self, name: str) -> bool:
        """Return whether records of a kind have columns: items, errors, or others below them."""
        below = self._children[self._numbers[name]]
        is_root = len(self._chains[self._numbers[name]]) == 1
        errors = self._options.errors is OnError.COLUMN and not is_root
        return name in self._own_shown or errors or any(map(self._is_shown, below))

    def of_file(self, path: str) -> NestedDecoder:
        """Return the decoder of the records of one file."""
        made: NestedDecoder = super().of_file(path)  # type: ignore[assignment]  # a copy of this one
        made._path = mask_logins(path)
        return made

    def children_of(self, name: str) -> Sequence[str]:
        """Return the kinds whose records are in lists of those of a kind."""
        return self._children[self._numbers[name]]

    def has_trees(self, name: str) -> bool:
        """Return whether records of a kind begin trees: those of other kinds without a parent are only between trees, or in one."""
        return self._numbers[name] in self._ends

    @property
    def _with_rows(self) -> list[str]:
        return [self._names[chain[0]] for chain in self._chains if len(chain) == 1]

    def _id_fields(self) -> list[pa.Field]:
        return [pa.field(FILE_COLUMN, pa.string()), pa.field(ID_COLUMN, pa.int64())]

    def _own_schema(self, name: str) -> pa.Schema:
        """Return the fields of a kind's records, and a list for each kind below them."""
        own = self._own_fields(name)
        for child in self._shown_below(name):
            inner = [*self._own_schema(child), *added_fields(self._of_record)]
            own.append(pa.field(child, pa.list_(pa.struct(inner))))
        return pa.schema(own)

    def _own_fields(self, name: str) -> list[pa.Field]:
        """Return the fields that are asked for of what the decoder of a kind gives, and that of errors."""
        is_asked = name in self._own_shown
        schema = self._decoders[name].schema
        return [field for field in schema if is_asked or field.name == ERRORS_COLUMN]

    def _shown_below(self, name: str) -> list[str]:
        return [one for one in self._children[self._numbers[name]] if one in self._shown]

    def whole(self, chunks: Iterable[RecordBytes]) -> Iterator[RecordBytes]:
        """Yield records in pieces of whole trees; raises DecodeError for a tree of more than 1 GB."""
        held: list[RecordBytes] = []
        size = 0
        for records in chunks:
            ends = self._tree_begins(records)
            if len(ends):
                yield from _joined([*held, records.part(0, int(ends[-1]))])
                held, size, records = [], 0, records.part(int(ends[-1]), len(records))  # noqa: PLW2901  the rest
            elif not held:
                yield records
                continue
            held.append(records)
            size += int(records.ends[-1] - records.starts[0]) if len(records) else 0
            if size > MOST_BYTES:
                first = held[0]
                where = Where(record=first.number(0), offset=int(first.offsets[0]))
                problem = f"a record with more than {MOST_BYTES:,} bytes of records below it"
                raise DecodeError(problem, where=where, hint="Read it with children=ids")
        yield from _joined(held)

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return where a piece of whole trees can end that has the records before ``row`` at least."""
        ends = self._tree_begins(records)
        return int(next(iter(ends[ends >= row]), len(records)))

    def _tree_begins(self, records: RecordBytes) -> Longs:
        """Return the records at which trees begin."""
        return np.flatnonzero(np.isin(self._chosen(records)[2], self._ends))

    def _choose_rows(self, records: RecordBytes) -> ChosenRows:
        """Return the roots of trees, and all records that are in these."""
        kind = self.kinds_of(records)
        rows = np.flatnonzero(kind >= 0)
        kind = kind[rows]
        above, orphans = self.parents_of(kind)
        if orphans.any():
            self._check_orphans(records, rows[orphans], kind[orphans])
            moved = np.where(above >= 0, (np.cumsum(~orphans) - 1)[above], above)
            rows, kind, above = rows[~orphans], kind[~orphans], moved[~orphans]
        roots = above < 0
        ids = [pa.repeat(self._path, int(roots.sum())), pa.array(records.offsets[rows[roots]])]
        return ChosenRows(rows[roots], kind[roots], ids, trees=Trees(rows, kind, above))

    def parents_of(self, kind: Longs) -> tuple[Longs, Mask]:
        """Return for each record where the one above it is, -1 for roots, and which records lack one."""
        numbers = np.arange(len(kind))
        (_, _, *levels), _ = RecordIds("", self._chains).columns(kind, numbers)
        known = np.array([level.fill_null(-1).to_numpy(zero_copy_only=False) for level in levels])
        ends = np.where(np.isin(kind, self._ends), numbers, -1)
        # Below a root after which another tree has begun nothing can follow: its row is complete.
        last = np.maximum.accumulate(ends) if len(kind) else ends
        above, orphans = np.full(len(kind), -1), np.zeros(len(kind), bool)
        for number, chain in enumerate(self._chains):
            own, depth = np.flatnonzero(kind == number), len(chain) - 1
            if depth:
                above[own] = known[depth - 1, own]
                lacks = (known[:depth, own] < 0).any(axis=0)
                orphans[own] = lacks | (known[0, own] != last[own])
        return above, orphans

    def _orphans(self, kind: Longs) -> Mask:
        if self._policy is Orphans.ERROR:
            return self.parents_of(kind)[1]
        return super()._orphans(kind)

    def _check_orphans(self, records: RecordBytes, rows: Longs, kind: Longs) -> None:
        """Count records that are left out; raises DecodeError where they are not to be."""
        if self._policy is Orphans.DROP:
            for number, count in enumerate(np.bincount(kind).tolist()):
                if count:
                    self.tally["orphans=drop", self._names[number], ""] += count
            return
        row, own = int(rows[0]), int(kind[0])
        name, parent = self._names[own], self._names[self._chains[own][-2]]
        where = Where(record=records.number(row), offset=int(records.offsets[row]))
        problem = f"a record {name} that is not below any {parent}"
        hint = "It is left out with orphans=drop, and a row with children=ids"
        raise DecodeError(problem, where=where, hint=hint)

    def _decode(
        self, name: str, records: RecordBytes, chosen: ChosenRows, own: Longs
    ) -> pa.RecordBatch:
        """Return the columns of the rows of a kind, with lists of the records below them."""
        del own  # all of the kind
        assert chosen.trees is not None
        _, columns = self._tree(name, records, chosen.trees)
        return pa.RecordBatch.from_arrays(columns, schema=self._own_schema(name))

    def _tree(self, name: str, records: RecordBytes, trees: Trees) -> tuple[Longs, list[pa.Array]]:
        """Return which of the records are of a kind, and their columns; kinds below it that are not shown are decoded for their errors."""
        own = np.flatnonzero(trees.kind == self._numbers[name])
        found = decode_rows(self._decoders[name], records, trees.rows[own])
        columns = [found.column(field.name) for field in self._own_fields(name)]
        for child in self._children[self._numbers[name]]:
            below, inner = self._tree(child, records, trees)
            if child not in self._shown:
                continue
            inner += added_columns(self._of_record, records, trees.rows[below])
            fields = [*self._own_schema(child), *added_fields(self._of_record)]
            values = pa.StructArray.from_arrays(inner, fields=fields)
            # Parents ascend as their records do, so those of one parent are together.
            begins = np.searchsorted(trees.above[below], own)
            offsets = pa.array(np.append(begins, len(below)).astype(np.int32))
            columns.append(pa.ListArray.from_arrays(offsets, values))
        return own, columns


def _joined(parts: Sequence[RecordBytes]) -> Iterator[RecordBytes]:
    """Yield records that follow each other in a file as one piece; nothing where there are none."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        yield from filled
        return
    begins = [int(part.starts[0]) for part in filled]
    data = [part.data[at : int(part.ends[-1])] for part, at in zip(filled, begins, strict=True)]
    moves = np.cumsum([0, *map(len, data[:-1])]) - begins
    starts, ends = (
        np.concatenate(
            [getattr(part, name) + move for part, move in zip(filled, moves, strict=True)]
        )
        for name in ("starts", "ends")
    )
    found = records_at(np.concatenate(data), starts, ends, first=filled[0].first)
    offsets = np.concatenate([part.offsets for part in filled])
    numbers = [part.numbers(np.arange(len(part))) for part in filled]
    known = [own for own in numbers if own is not None]
    joined = np.concatenate(known) if len(known) == len(filled) else None
    yield replace(found, places=offsets, texts=filled[0].texts, given_numbers=joined)
