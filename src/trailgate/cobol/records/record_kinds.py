"""Files whose records are of several kinds, which a field in each record distinguishes.

The field has the same place in all layouts, so it is read first, for all records of a chunk. Records of one kind are decoded together by their layout and become a column
of structs, NULL in the rows of other kinds; rows stay in the order of the file. Or each kind is a table of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.layouts import Field, Layout, Usage
from trailgate.cobol.records.added_columns import FILE_COLUMN, added_columns, added_fields
from trailgate.cobol.records.decoding import (
    ERRORS_COLUMN,
    OnError,
    RecordDecoder,
    RecordOptions,
    Shape,
    Surplus,
    names_of_columns,
)
from trailgate.cobol.records.fields import (
    ERROR,
    Fault,
    FaultyRecords,
    PolicyCounts,
    RecordBytes,
    Tally,
)
from trailgate.cobol.records.key_fields import key_fields
from trailgate.cobol.records.kind_rules import PADDING, KeyColumn, RecordKinds
from trailgate.cobol.records.record_ids import RecordIds, chains_of
from trailgate.cobol.records.segments import layout_named
from trailgate.cobol.values.codec import Blank, Integers, Numbers, Reason, Why, page_of
from trailgate.columnar.code_pages import code_page, page_text
from trailgate.errors import DecodeError, OptionError, Where, did_you_mean, mask_logins

KIND_COLUMN = "_record"


class Trees(NamedTuple):
    """Records that are below each other: their numbers among the records, their kinds, and the numbers among these of the ones above, -1 for none."""

    rows: Longs
    kind: Longs
    above: Longs


class ChosenRows(NamedTuple):
    """The records that become rows: their numbers among the records, their kinds, the columns of their ids, and what these continue with.

    ``trees`` are the rows with the records below them, where these are in them.
    """

    rows: Longs
    kind: Longs
    ids: list[pa.Array]
    state: Longs | None = None
    trees: Trees | None = None


class KindsDecoder:
    """Decodes records of several layouts: one struct column a kind, null for the other kinds, or a table a kind.

    Of the columns asked for each kind has those that are its own; a kind with none of them has no struct column and no table. Records of kinds that have parents are
    decoded file by file (``of_file``).
    """

    def __init__(
        self,
        layouts: Sequence[Layout],
        kinds: RecordKinds,
        options: RecordOptions,
        tally: PolicyCounts | None = None,
    ) -> None:
        self._kinds, self._options = kinds, options
        self.tally: PolicyCounts = Tally() if tally is None else tally
        self._layouts = {name: layout_named(layouts, name) for name in kinds.records}
        self._fields = key_fields(list(self._layouts.values()), kinds.fields)
        self._key, self._strict_key = self._key_decoders()
        types = [field.type for field in self._key.schema][: len(self._fields)]
        self._choose = kinds.chooser(
            [
                KeyColumn(type_, field.size, page_of(field, options.values))
                for type_, field in zip(types, self._fields, strict=True)
            ]
        )
        self._chains = chains_of(kinds.records, kinds.parents) if kinds.parents else []
        self.ids: RecordIds | None = None
        # The ids have the file's name.
        given = FILE_COLUMN if self._chains else None
        self._added = tuple(name for name in options.all_added if name != given)
        inner = replace(options, raw=False, added=())
        columns = _own_columns(self._layouts, options)
        self._shown = {name for name, own in columns.items() if own != ()}
        # Of a kind that is not shown the records are still to have their length: the field of the kinds is known to be good.
        self._decoders = {
            name: RecordDecoder(
                own,
                replace(inner, columns=columns[name] if name in self._shown else kinds.fields),
                self.tally,
            )
            for name, own in self._layouts.items()
        }
        self._numbers = {name: number for number, name in enumerate(self._decoders)}

    def _key_decoders(self) -> tuple[RecordDecoder, RecordDecoder]:
        """Return the decoder of the fields of the kinds, and one that stops at their errors."""
        values = replace(
            self._options.values,
            integers=Integers.INT64,
            numbers=Numbers.VALUE,
            blank=Blank.NULL,
        )
        name = next(iter(self._layouts.values())).name
        end = max(field.offset + field.size for field in self._fields)
        layout = Layout(Field(name, Usage.GROUP, 0, end, level=1, children=self._fields))
        own = RecordOptions(values, Shape.FLAT, surplus=Surplus.DROP)
        return RecordDecoder(layout, replace(own, errors=OnError.COLUMN)), RecordDecoder(
            layout, own
        )

    def of_file(self, path: str) -> KindsDecoder:
        """Return the decoder of the records of one file, from its first one on."""
        if not self._chains:
            return self
        made = copy(self)
        made.ids = RecordIds(mask_logins(path), self._chains)
        return made

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of all batches."""
        members = [pa.field(KIND_COLUMN, pa.string()), *self._id_fields()]
        for name in self.names:
            inner = [field for field in self._own_schema(name) if field.name != ERRORS_COLUMN]
            members.append(pa.field(name, pa.struct(inner)))
        if self._options.errors is OnError.COLUMN:
            members.append(pa.field(ERRORS_COLUMN, pa.list_(ERROR)))
        return pa.schema([*members, *added_fields(self._added)])

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the kinds that have columns."""
        return tuple(name for name in self._with_rows if name in self._shown)

    def is_below(self, name: str) -> bool:
        """Return whether a name is that of a kind whose records are in the rows of others."""
        known = {one.upper() for one in self._decoders}
        return name.upper() in known - {one.upper() for one in self._with_rows}

    @property
    def _with_rows(self) -> Sequence[str]:
        """Return the kinds whose records are rows."""
        return tuple(self._decoders)

    def table_schema(self, name: str) -> pa.Schema:
        """Return the schema of the table of a kind."""
        return pa.schema([*self._id_fields(), *self._own_schema(name), *added_fields(self._added)])

    def _own_schema(self, name: str) -> pa.Schema:
        """Return the fields of a kind's records."""
        return self._decoders[name].schema

    def _id_fields(self) -> list[pa.Field]:
        return RecordIds.fields(self._chains) if self._chains else []

    def whole(self, chunks: Iterable[RecordBytes]) -> Iterable[RecordBytes]:
        """Return records in pieces that can be decoded apart from each other, one after the other."""
        return chunks

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return where a piece can end that has the records before ``row`` at least."""
        return min(row, len(records))

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the records, in their order."""
        chosen = self._choose_rows(records)
        rows, kind = chosen.rows, chosen.kind
        columns = [pa.array(list(self._decoders)).take(pa.array(kind)), *chosen.ids]
        errors = np.zeros(len(rows), np.int64)
        pool: list[pa.Array] = []
        for name in self._with_rows:
            own = np.flatnonzero(kind == self._numbers[name])
            batch = self._decode(name, records, chosen, own)
            slots = np.zeros(len(rows), np.int64)
            slots[own] = np.arange(len(own))
            if self._options.errors is OnError.COLUMN:
                errors[own] = np.arange(len(own)) + sum(len(part) for part in pool)
                pool.append(batch.column(ERRORS_COLUMN))
                batch = batch.drop_columns([ERRORS_COLUMN])
            if name not in self._shown:
                continue
            struct = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            mask = np.ones(len(rows), bool)
            mask[own] = False
            columns.append(struct.take(pa.array(slots, mask=mask)))
        if pool:
            columns.append(pa.concat_arrays(pool).take(pa.array(errors)))
        columns += added_columns(self._added, records, rows)
        self._advance(chosen.state)
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def tables(
        self, records: RecordBytes, only: str | None = None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the columns of the records of each kind, or of one kind alone: the others are not decoded then."""
        chosen = self._choose_rows(records)
        found = []
        for name in self._with_rows:
            if only not in (None, name):
                continue
            own = np.flatnonzero(chosen.kind == self._numbers[name])
            batch = self._decode(name, records, chosen, own)
            if name not in self._shown or not (len(own) or only):
                continue
            columns = [column.take(pa.array(own)) for column in chosen.ids] + batch.columns
            columns += added_columns(self._added, records, chosen.rows[own])
            found.append(
                (name, pa.RecordBatch.from_arrays(columns, schema=self.table_schema(name)))
            )
        self._advance(chosen.state)
        yield from found

    def _choose_rows(self, records: RecordBytes) -> ChosenRows:
        """Return which records are rows, in their order."""
        kind = self.kinds_of(records)
        rows = np.flatnonzero(kind >= 0)
        ids, state = self._id_columns(records, kind, rows)
        return ChosenRows(rows, kind[rows], ids, state)

    def _decode(
        self, name: str, records: RecordBytes, chosen: ChosenRows, own: Longs
    ) -> pa.RecordBatch:
        """Return the columns of those of the rows that are of a kind."""
        return decode_rows(self._decoders[name], records, chosen.rows[own])

    def _id_columns(
        self, records: RecordBytes, kind: Longs, rows: Longs
    ) -> tuple[list[pa.Array], Longs | None]:
        """Return the columns of ids, and what they continue with after these records."""
        if not self._chains:
            return [], None
        ids = self.ids or RecordIds("", self._chains)
        return ids.columns(kind[rows], records.offsets[rows])

    def _advance(self, state: Longs | None) -> None:
        """Continue the ids after records that were decoded."""
        if self.ids is not None and state is not None:
            self.ids.advance(state)

    def faults(self, records: RecordBytes, only: str | None = None) -> Iterator[FaultyRecords]:
        """Yield the records of each kind, or of one, with what is wrong in them, and those whose kind is not known."""
        _, bad, kind = self._chosen(records)
        unknown = bad | ((kind < 0) & (not self._kinds.others))
        known = np.flatnonzero((kind >= 0) & ~unknown)
        self._count_skipped(len(records) - int(unknown.sum()) - len(known))
        orphans = self._orphans(kind[known])
        if unknown.any():
            field = self._fields[0]
            reason = Reason("the record is not of a kind that is known", self._known())
            wrong = Fault(field.name, field.size, field.offset, unknown, lambda _: reason, Why.KIND)
            yield FaultyRecords("", records, [wrong])
        for number, (name, decoder) in enumerate(self._decoders.items()):
            if only not in (None, name):
                continue
            rows = known[kind[known] == number]
            lone = orphans[kind[known] == number]
            numbers = records.numbers(rows)
            at = 0
            for one in decoder.faults(records.take(rows)):
                end = at + len(one.records)
                own = None if numbers is None else numbers[at:end]
                if lone[at:end].any():
                    one.faults.append(self._orphan_fault(number, lone[at:end]))
                yield one._replace(record=name, numbers=own)
                at = end

    def _orphans(self, kind: Longs) -> Mask:
        """Return which records cannot be rows for want of a parent."""
        return np.zeros(len(kind), bool)

    def _orphan_fault(self, number: int, rows: Mask) -> Fault:
        names, chain = list(self._decoders), self._chains[number]
        reason = Reason(f"the {names[chain[-2]]} that it is below is not before it")
        return Fault(names[chain[-2]], 0, 0, rows, lambda _: reason, Why.ORPHAN)

    def kinds_of(self, records: RecordBytes) -> Longs:
        """Return each record's kind as a number; -1 where it is left out."""
        values, bad, kind = self._chosen(records)
        if bad.any():
            row = int(np.argmax(bad))
            self._strict_key.decode(records.part(row, row + 1))
        if not self._kinds.others and (kind < 0).any():
            row = int(np.argmax(kind < 0))
            raise self._unknown_error(records, row, [one[row].as_py() for one in values])
        self._count_skipped(int(np.count_nonzero(kind < 0)))
        return kind

    def _count_skipped(self, skipped: int) -> None:
        if skipped:
            self.tally["kinds, *", "skipped", ""] += skipped

    def _chosen(self, records: RecordBytes) -> tuple[list[pa.Array], Mask, Longs]:
        """Return the values of the fields of the kinds, where one has none and is not blank, and the kinds as numbers, -1 for none."""
        found = self._key.decode(records)
        columns = found.columns[: len(self._fields)]
        bad = np.zeros(len(records), bool)
        if any(column.null_count for column in columns):
            bad = _not_blank(found.column(ERRORS_COLUMN))
        # Each distinct combination of values is chosen for once.
        codes, distinct = np.zeros(len(records), np.int64), [()]
        for column in columns:
            values = column.dictionary_encode()
            own = [*values.dictionary.to_pylist(), None]
            inner = values.indices.fill_null(len(own) - 1).to_numpy(zero_copy_only=False)
            used, codes = np.unique(codes * len(own) + inner, return_inverse=True)
            distinct = [
                (*distinct[code // len(own)], own[code % len(own)]) for code in used.tolist()
            ]
        chosen = self._choose(distinct) if len(records) else []
        numbers = [self._numbers.get(name, -1) if name else -1 for name in chosen]
        kind: Longs = np.array(numbers, np.int64)[codes]
        return columns, bad, kind

    def _known(self) -> str:
        """Return the values and ranges that kinds have."""
        return f"Known: {', '.join(map(str, self._kinds.rules))}"

    def _unknown_error(
        self, records: RecordBytes, row: int, values: Sequence[object]
    ) -> DecodeError:
        start, end = int(records.starts[row]), int(records.ends[row])
        raw = records.data[start : min(end, start + 64)].tobytes()
        where = Where(
            record=records.number(row),
            offset=int(records.offsets[row]),
            field=self._kinds.field,
            raw=raw,
            text=page_text(raw, code_page(self._options.values.dialect.code_page)),
        )
        shown = " + ".join(repr("" if one is None else str(one).strip(PADDING)) for one in values)
        return DecodeError(f"{shown} is not a kind of record", where=where, hint=self._known())


class SegmentDecoder:
    """Decodes the records of one kind among others, as its table."""

    def __init__(self, kinds: KindsDecoder, name: str) -> None:
        known = {one.upper(): one for one in kinds.names}
        if name.upper() not in known:
            hint = did_you_mean(name, known) or f"Known: {', '.join(known.values())}"
            problem = "is below another one" if kinds.is_below(name) else "is not a kind of record"
            raise OptionError(f"segment: {name} {problem}", hint=hint)
        self._kinds, self.name = kinds, known[name.upper()]
        self.tally = kinds.tally

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of all batches."""
        return self._kinds.table_schema(self.name)

    def whole(self, chunks: Iterable[RecordBytes]) -> Iterable[RecordBytes]:
        """Return records in pieces that can be decoded apart from each other."""
        return self._kinds.whole(chunks)

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return where a piece can end that has the records before ``row`` at least."""
        return self._kinds.piece_end(records, row)

    def of_file(self, path: str) -> SegmentDecoder:
        """Return the decoder of the records of one file, from its first one on."""
        return SegmentDecoder(self._kinds.of_file(path), self.name)

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the records of the kind."""
        for _, batch in self._kinds.tables(records, self.name):
            yield batch

    def faults(self, records: RecordBytes) -> Iterator[FaultyRecords]:
        """Yield the records of the kind with what is wrong in them."""
        return self._kinds.faults(records, self.name)


def _not_blank(errors: pa.Array) -> Mask:
    """Return the records in which a field has no value, and is not of blanks or low-values."""
    low = pc.match_substring_regex(errors.flatten().field("raw"), "^00( 00)*$")
    wrong = ~low.to_numpy(zero_copy_only=False)
    found = np.zeros(len(errors), bool)
    found[np.repeat(np.arange(len(errors)), pc.list_value_length(errors))[wrong]] = True
    return found


def _own_columns(
    layouts: Mapping[str, Layout], options: RecordOptions
) -> dict[str, tuple[str, ...] | None]:
    """Return which of the columns asked for each layout has; raises OptionError for one that none has."""
    columns = options.columns
    if columns is None:
        return dict.fromkeys(layouts)
    known = {name: names_of_columns(layout, options) for name, layout in layouts.items()}
    for column in columns:
        if not any(column.upper() in names for names in known.values()):
            hint = did_you_mean(column, frozenset[str]().union(*known.values()))
            problem = f"no field {column} in any kind of record"
            raise OptionError(problem, where=Where(field=column), hint=hint)
    return {
        name: tuple(column for column in columns if column.upper() in names)
        for name, names in known.items()
    }


def decode_rows(decoder: RecordDecoder, records: RecordBytes, rows: Longs) -> pa.RecordBatch:
    """Return the columns of some records; an error names the record by its own number."""
    try:
        return decoder.decode(records.take(rows))
    except DecodeError as error:
        if error.where.record is not None:
            number = records.number(int(rows[error.where.record - 1]))
            error.where = replace(error.where, record=number)
        raise
