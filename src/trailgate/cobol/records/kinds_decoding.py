"""Decode files with several kinds of records, which a field in each record distinguishes.

The field has the same offset in all layouts, so it is decoded first, for all records of a chunk.
The records of each kind are then decoded together by their own layout. Each kind becomes a struct
column, which is NULL in the rows of other kinds, and rows stay in file order; or each kind becomes
a separate table.
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
from trailgate.cobol.copybook.flat_columns import names_of_columns
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, Usage
from trailgate.cobol.copybook.placed_items import columns_below, place_items
from trailgate.cobol.copybook.segment_layouts import find_layout_or_segment
from trailgate.cobol.records.added_columns import FILE_COLUMN, make_added_columns, make_added_fields
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.field_faults import ERROR, FaultyRecords, FieldFault
from trailgate.cobol.records.key_fields import key_fields
from trailgate.cobol.records.kind_rules import PADDING, REST, KeyColumn, RecordKinds
from trailgate.cobol.records.policy_counts import PolicyCounts, PolicyTally
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.cobol.records.record_ids import RecordIds, ancestors_of_kinds
from trailgate.cobol.records.record_options import (
    ERRORS_COLUMN,
    BadFieldPolicy,
    ColumnShape,
    RecordOptions,
    TrailingBytesPolicy,
)
from trailgate.cobol.values.code_pages import page_of_field
from trailgate.cobol.values.codec import (
    BlankPolicy,
    FaultExplanation,
    FaultReason,
    IntegerRepresentation,
    NumberRepresentation,
)
from trailgate.columnar.code_pages import code_page, decode_with_page
from trailgate.errors import DecodeError, OptionError, Where, did_you_mean, shown_source

KIND_COLUMN = "_record"


class RecordTrees(NamedTuple):
    """Records in trees: their indexes in the input, their kinds, and their parents.

    ``above[i]`` is the index, among the records of the trees, of the parent of record i; -1 if it
    is a root.
    """

    rows: Longs
    kind: Longs
    above: Longs


class ChosenRows(NamedTuple):
    """The records that become rows: their indexes, kinds, and id columns.

    ``state`` contains the last id of each kind, so that the ids of later records can continue.
    ``trees`` are all records of the trees, if child records become lists; otherwise None.
    """

    rows: Longs
    kind: Longs
    ids: list[pa.Array]
    state: Longs | None = None
    trees: RecordTrees | None = None


def find_kind_layouts(
    layouts: Sequence[CopybookLayout], kinds: RecordKinds
) -> dict[str, CopybookLayout]:
    """Return the copybook layout of each kind of record.

    Raises OptionError, with the field and its value, if a rule names an unknown record or segment.
    """
    found = {}
    for name in kinds.records:
        try:
            found[name] = find_layout_or_segment(layouts, name)
        except OptionError as error:
            values = next((str(rule) for rule in kinds.rules if rule.record == name), REST)
            problem = f"kinds: {values}={name}: {error.problem}"
            raise OptionError(problem, where=Where(field=kinds.field), hint=error.hint) from None
    return found


class KindsDecoder:
    """Decodes records of several kinds, into one struct column per kind, or one table per kind.

    If columns are selected, each kind has the selected columns of its layout; a kind without any
    has no struct and no table. If kinds have parents, each file needs its own decoder
    (``of_file``), which remembers the last record of each kind.
    """

    def __init__(
        self,
        layouts: Sequence[CopybookLayout],
        kinds: RecordKinds,
        options: RecordOptions,
        tally: PolicyCounts | None = None,
    ) -> None:
        self._kinds, self._options = kinds, options
        self.tally: PolicyCounts = PolicyTally() if tally is None else tally
        self._layouts = find_kind_layouts(layouts, kinds)
        self._fields = key_fields(list(self._layouts.values()), kinds.fields)
        self._key, self._strict_key = self._key_decoders()
        types = [field.type for field in self._key.schema][: len(self._fields)]
        self._choose = kinds.chooser(
            [
                KeyColumn(type_, field.size, page_of_field(field, options.values))
                for type_, field in zip(types, self._fields, strict=True)
            ]
        )
        self._chains = ancestors_of_kinds(kinds.records, kinds.parents) if kinds.parents else []
        self.ids: RecordIds | None = None
        # The id columns include the file's name, so it is not added a second time.
        file_column = FILE_COLUMN if self._chains else None
        self._added = tuple(name for name in options.all_added if name != file_column)
        inner = replace(options, raw=False, added=())
        columns = _own_columns(self._layouts, options)
        self._shown = {name for name, layout in columns.items() if layout != ()}
        # The records of a kind without columns are still decoded, to check their length. The key fields
        # serve as their columns, since these are known to be valid.
        self._decoders = {
            name: RecordDecoder(
                layout,
                replace(inner, columns=columns[name] if name in self._shown else kinds.fields),
                self.tally,
            )
            for name, layout in self._layouts.items()
        }
        self._numbers = {name: number for number, name in enumerate(self._decoders)}

    def _key_decoders(self) -> tuple[RecordDecoder, RecordDecoder]:
        """Return two decoders of the key fields. The first collects errors, the second raises them."""
        values = replace(
            self._options.values,
            integers=IntegerRepresentation.INT64,
            numbers=NumberRepresentation.VALUE,
            blank=BlankPolicy.NULL,
        )
        name = next(iter(self._layouts.values())).name
        end = max(field.offset + field.size for field in self._fields)
        layout = CopybookLayout(
            CopybookField(name, Usage.GROUP, 0, end, level=1, children=self._fields)
        )
        own = RecordOptions(values, ColumnShape.FLAT, surplus=TrailingBytesPolicy.DROP)
        return RecordDecoder(layout, replace(own, errors=BadFieldPolicy.COLUMN)), RecordDecoder(
            layout, own
        )

    def of_file(self, path: str) -> KindsDecoder:
        """Return the decoder for the records of one file.

        It is a copy if kinds have parents, because files cannot share the ids of parent records.
        """
        if not self._chains:
            return self
        bound = copy(self)
        bound.ids = RecordIds(shown_source(path), self._chains)
        return bound

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of all batches: one struct column per record kind."""
        members = [pa.field(KIND_COLUMN, pa.string()), *self._id_fields()]
        for name in self.names:
            inner = [field for field in self._own_schema(name) if field.name != ERRORS_COLUMN]
            members.append(pa.field(name, pa.struct(inner)))
        if self._options.errors is BadFieldPolicy.COLUMN:
            members.append(pa.field(ERRORS_COLUMN, pa.list_(ERROR)))
        return pa.schema([*members, *make_added_fields(self._added)])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the record kinds that have columns."""
        return tuple(name for name in self._with_rows if name in self._shown)

    def is_below(self, name: str) -> bool:
        """Return True if the records of this kind are nested in the rows of another kind."""
        known = {one.upper() for one in self._decoders}
        return name.upper() in known - {one.upper() for one in self._with_rows}

    @property
    def _with_rows(self) -> Sequence[str]:
        """The kinds whose records become rows, not elements of lists."""
        return tuple(self._decoders)

    def table_schema(self, name: str) -> pa.Schema:
        """Return the schema of the table of one record kind."""
        return pa.schema(
            [*self._id_fields(), *self._own_schema(name), *make_added_fields(self._added)]
        )

    def _own_schema(self, name: str) -> pa.Schema:
        """Return the schema of a kind's records, without ids and added columns."""
        return self._decoders[name].schema

    def _id_fields(self) -> list[pa.Field]:
        return RecordIds.fields(self._chains) if self._chains else []

    def independent_pieces(self, chunks: Iterable[RecordBytes]) -> Iterable[RecordBytes]:
        """Return the chunks unchanged, because they can be decoded one after the other."""
        return chunks

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return the index of the first record from ``row`` on before which the records can be split.

        Here this is ``row`` itself, or the number of records if it is less.
        """
        return min(row, len(records))

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Decode the records in file order, with one struct column per kind."""
        chosen = self._choose_rows(records)
        rows, kind = chosen.rows, chosen.kind
        columns = [pa.array(list(self._decoders)).take(pa.array(kind)), *chosen.ids]
        errors = np.zeros(len(rows), np.int64)
        pool: list[pa.Array] = []
        for name in self._with_rows:
            own_rows = np.flatnonzero(kind == self._numbers[name])
            batch = self._decode(name, records, chosen, own_rows)
            # ``slots`` maps each row to its row in this kind's batch; rows of other kinds are
            # masked and become NULL. Example: kinds A B A give for A the slots 0 - 1.
            slots = np.zeros(len(rows), np.int64)
            slots[own_rows] = np.arange(len(own_rows))
            if self._options.errors is BadFieldPolicy.COLUMN:
                # The position of each row's error list in the concatenation of all kinds' lists.
                errors[own_rows] = np.arange(len(own_rows)) + sum(len(part) for part in pool)
                pool.append(batch.column(ERRORS_COLUMN))
                batch = batch.drop_columns([ERRORS_COLUMN])
            if name not in self._shown:
                continue
            struct = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            mask = np.ones(len(rows), bool)
            mask[own_rows] = False
            columns.append(struct.take(pa.array(slots, mask=mask)))
        if pool:
            columns.append(pa.concat_arrays(pool).take(pa.array(errors)))
        columns += make_added_columns(self._added, records, rows)
        self._advance(chosen.state)
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def tables(
        self, records: RecordBytes, only: str | None = None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Decode the records of each kind into its table, and yield kinds that have records.

        With ``only``, the table of that kind is yielded alone, and also if it has no rows.
        """
        chosen = self._choose_rows(records)
        decoded = []
        for name in self._with_rows:
            if only not in (None, name):
                continue
            own_rows = np.flatnonzero(chosen.kind == self._numbers[name])
            batch = self._decode(name, records, chosen, own_rows)
            if name not in self._shown or not (len(own_rows) or only):
                continue
            columns = [column.take(pa.array(own_rows)) for column in chosen.ids] + batch.columns
            columns += make_added_columns(self._added, records, chosen.rows[own_rows])
            decoded.append(
                (name, pa.RecordBatch.from_arrays(columns, schema=self.table_schema(name)))
            )
        self._advance(chosen.state)
        yield from decoded

    def _choose_rows(self, records: RecordBytes) -> ChosenRows:
        """Return the records that become rows, in order: those of a known kind."""
        kind = self.kinds_of(records)
        rows = np.flatnonzero(kind >= 0)
        ids, state = self._id_columns(records, kind, rows)
        return ChosenRows(rows, kind[rows], ids, state)

    def _decode(
        self, name: str, records: RecordBytes, chosen: ChosenRows, rows: Longs
    ) -> pa.RecordBatch:
        """Decode the rows of one kind. ``rows`` are their indexes among the chosen rows."""
        return decode_rows_of_kind(self._decoders[name], records, chosen.rows[rows])

    def _id_columns(
        self, records: RecordBytes, kinds: Longs, rows: Longs
    ) -> tuple[list[pa.Array], Longs | None]:
        """Return the id columns of the records ``rows``, and the state after them.

        If no kind has a parent, these are [] and None.
        """
        if not self._chains:
            return [], None
        ids = self.ids or RecordIds("", self._chains)
        return ids.columns(kinds[rows], records.offsets[rows])

    def _advance(self, state: Longs | None) -> None:
        """Let the ids of later records continue from ``state``, once these records are decoded."""
        if self.ids is not None and state is not None:
            self.ids.advance(state)

    def faults(self, records: RecordBytes, only: str | None = None) -> Iterator[FaultyRecords]:
        """Yield the records of each kind (or of the kind ``only``) in parts, with their problems.

        If any records are of unknown kind, all records are yielded first, under the name "", with
        this problem.
        """
        _, bad, kind = self._decode_kinds(records)
        unknown = bad | ((kind < 0) & (not self._kinds.skips_others))
        known = np.flatnonzero((kind >= 0) & ~unknown)
        self._count_skipped(len(records) - int(unknown.sum()) - len(known))
        orphans = self._orphans(kind[known])
        if unknown.any():
            field = self._fields[0]
            reason = FaultExplanation("the record is not of a known kind", self._known())
            wrong = FieldFault(
                field=field.name,
                size=field.size,
                at=field.offset,
                rows=unknown,
                explain=lambda _: reason,
                why=FaultReason.KIND,
            )
            yield FaultyRecords("", records, [wrong])
        # A decoder yields its records in parts, in order: a part has the records [at, end) of ``rows``.
        for number, (name, decoder) in enumerate(self._decoders.items()):
            if only not in (None, name):
                continue
            rows = known[kind[known] == number]
            orphaned = orphans[kind[known] == number]
            numbers = records.numbers(rows)
            at = 0
            for part in decoder.faults(records.take(rows)):
                end = at + len(part.records)
                own_numbers = None if numbers is None else numbers[at:end]
                if orphaned[at:end].any():
                    part.faults.append(self._orphan_fault(number, orphaned[at:end]))
                yield part._replace(record=name, numbers=own_numbers)
                at = end

    def _orphans(self, kinds: Longs) -> Mask:
        """Return a mask of the records that cannot become rows because they have no parent."""
        return np.zeros(len(kinds), bool)

    def _orphan_fault(self, number: int, rows: Mask) -> FieldFault:
        names, chain = list(self._decoders), self._chains[number]
        reason = FaultExplanation(
            f"no {names[chain[-2]]} comes before it, which would be its parent"
        )
        return FieldFault(
            field=names[chain[-2]],
            size=0,
            at=0,
            rows=rows,
            explain=lambda _: reason,
            why=FaultReason.ORPHAN,
        )

    def kinds_of(self, records: RecordBytes) -> Longs:
        """Return each record's kind as an index, or -1 if the record is skipped.

        Raises DecodeError if a key field is bad, or if a kind is unknown and unknown kinds are not
        skipped.
        """
        values, bad, kind = self._decode_kinds(records)
        if bad.any():
            row = int(np.argmax(bad))
            self._strict_key.decode(records.part(row, row + 1))
        if not self._kinds.skips_others and (kind < 0).any():
            row = int(np.argmax(kind < 0))
            raise self._unknown_error(records, row, [one[row].as_py() for one in values])
        self._count_skipped(int(np.count_nonzero(kind < 0)))
        return kind

    def _count_skipped(self, skipped: int) -> None:
        if skipped:
            self.tally["kinds, *", "skipped", ""] += skipped

    def _decode_kinds(self, records: RecordBytes) -> tuple[list[pa.Array], Mask, Longs]:
        """Return the key columns, a mask of the records with bad keys, and the kinds as numbers (-1 if unknown)."""
        decoded = self._key.decode(records)
        columns = decoded.columns[: len(self._fields)]
        bad = np.zeros(len(records), bool)
        # NULL means a bad value or a blank one; only the former is an error.
        if any(column.null_count for column in columns):
            bad = _not_blank(decoded.column(ERRORS_COLUMN))
        # Choose the kind once for each distinct combination of values. ``codes`` numbers the
        # combinations: for columns A, B with the values (x 1) (y 1) (x 1) they are 0 1 0.
        codes, distinct = np.zeros(len(records), np.int64), [()]
        for column in columns:
            values = column.dictionary_encode()
            known_values = [*values.dictionary.to_pylist(), None]
            inner = values.indices.fill_null(len(known_values) - 1).to_numpy(zero_copy_only=False)
            used, codes = np.unique(codes * len(known_values) + inner, return_inverse=True)
            distinct = [
                (*distinct[code // len(known_values)], known_values[code % len(known_values)])
                for code in used.tolist()
            ]
        chosen = self._choose(distinct) if len(records) else []
        numbers = [self._numbers.get(name, -1) if name else -1 for name in chosen]
        kind: Longs = np.array(numbers, np.int64)[codes]
        return columns, bad, kind

    def _known(self) -> str:
        """Return a hint that lists the values of the known kinds."""
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
            text=decode_with_page(raw, code_page(self._options.values.dialect.code_page)),
        )
        shown = " + ".join(repr("" if one is None else str(one).strip(PADDING)) for one in values)
        return DecodeError(f"{shown} is not a kind of record", where=where, hint=self._known())


class SingleKindDecoder:
    """Decodes the records of one kind into a table, from a file with records of several kinds. Other records are skipped."""

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
        """The schema of the table of this record kind."""
        return self._kinds.table_schema(self.name)

    def independent_pieces(self, chunks: Iterable[RecordBytes]) -> Iterable[RecordBytes]:
        """Yield pieces that can be decoded independently, by the decoder of all kinds."""
        return self._kinds.independent_pieces(chunks)

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return the index of the first record from ``row`` on before which the records can be split."""
        return self._kinds.piece_end(records, row)

    def of_file(self, path: str) -> SingleKindDecoder:
        """Return the decoder for one kind of records of one file. See ``KindsDecoder.of_file``."""
        return SingleKindDecoder(self._kinds.of_file(path), self.name)

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Decode the records of this kind into batches of its table."""
        for _, batch in self._kinds.tables(records, self.name):
            yield batch

    def faults(self, records: RecordBytes) -> Iterator[FaultyRecords]:
        """Yield the records of this kind in parts, each with its problems.

        Records of unknown kind are yielded too, as by ``KindsDecoder.faults``.
        """
        return self._kinds.faults(records, self.name)


def _not_blank(errors: pa.Array) -> Mask:
    """Return a mask of the records whose key field is bad, unless it consists of low-values.

    Blank key fields are not errors; they are decoded as NULL.
    """
    low = pc.match_substring_regex(errors.flatten().field("raw"), "^00( 00)*$")
    wrong = ~low.to_numpy(zero_copy_only=False)
    mask = np.zeros(len(errors), bool)
    # ``repeat`` gives the record of each error: lists of 2 and 1 errors are records 0 0 1.
    mask[np.repeat(np.arange(len(errors)), pc.list_value_length(errors))[wrong]] = True
    return mask


def _own_columns(
    layouts: Mapping[str, CopybookLayout], options: RecordOptions
) -> dict[str, tuple[str, ...] | None]:
    """Return the selected columns that each kind's layout has (None: all columns are selected).

    Raises OptionError if a selected column is in no layout.
    """
    columns = options.columns
    if columns is None:
        return dict.fromkeys(layouts)
    known = {
        name: names_of_columns(columns_below(place_items(layout, options.names(layout)).root))
        for name, layout in layouts.items()
    }
    for column in columns:
        if not any(column.upper() in names for names in known.values()):
            hint = did_you_mean(column, frozenset[str]().union(*known.values()))
            problem = f"no field {column} in any kind of record"
            raise OptionError(problem, where=Where(field=column), hint=hint)
    return {
        name: tuple(column for column in columns if column.upper() in names)
        for name, names in known.items()
    }


def decode_rows_of_kind(
    decoder: RecordDecoder, records: RecordBytes, rows: Longs
) -> pa.RecordBatch:
    """Decode the records of one kind at these indexes into Arrow columns.

    An error names a record by its number in the source.
    """
    try:
        return decoder.decode(records.take(rows))
    except DecodeError as error:
        if error.where.record is not None:
            number = records.number(int(rows[error.where.record - 1]))
            error.where = replace(error.where, record=number)
        raise
