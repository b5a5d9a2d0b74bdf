"""Files whose records are of several kinds, which a field in each record distinguishes.

The field has the same place in all layouts, so it is read first, for all records of a chunk. Records of one kind are decoded together by their layout and become a column
of structs, NULL in the rows of other kinds; rows stay in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.cobol.copybook.items import flat_columns
from trailgate.cobol.copybook.layouts import Layout
from trailgate.cobol.records.decoding import (
    ERRORS_COLUMN,
    RAW_COLUMN,
    OnError,
    RecordDecoder,
    RecordOptions,
    Shape,
    Surplus,
    names_of_columns,
)
from trailgate.cobol.records.fields import ERROR, RecordBytes
from trailgate.columnar.code_pages import code_page, page_text
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError, OptionError, Where, did_you_mean

KIND_COLUMN = "_record"


@dataclass(frozen=True, slots=True)
class RecordKinds:
    """Which records a file holds: ``field`` has the same place in all of them.

    ``names`` gives the record by the field's value. With ``others`` False a value that
    is not among them is an error, else such records are left out.
    """

    field: str
    names: Mapping[str, str]
    others: bool = False


def layout_named(layouts: Sequence[Layout], name: str | None) -> Layout:
    """Return the layout of a record by its name; without one there must be a single record."""
    known = {layout.name.upper(): layout for layout in layouts}
    if name is None:
        if len(layouts) == 1:
            return layouts[0]
        hint = f"Choose one by the option record: {', '.join(known)}"
        raise OptionError(f"the copybook has {len(layouts)} records", hint=hint)
    if name.upper() not in known:
        _check_level(layouts, name)
        hint = did_you_mean(name, known) or f"Known: {', '.join(known)}"
        raise OptionError(f"no record {name} in the copybook", hint=hint)
    return known[name.upper()]


def _check_level(layouts: Sequence[Layout], name: str) -> None:
    """Raise OptionError for the name of an item in a record."""
    for layout in layouts:
        for field in layout.root.walk():
            if field.name.upper() == name.upper():
                redefines = f", which redefines {field.redefines}," if field.redefines else ""
                problem = f"{field.name} is an item{redefines} of the record {layout.name}, not a record (level 01)"
                hint = f"Read {layout.name}, which has it as a column, or make it a level 01"
                raise OptionError(problem, hint=hint)


class KindsDecoder:
    """Decodes records of several layouts: one struct column a kind, null for the other kinds.

    Of the columns asked for each kind has those that are its own; a kind with none of them has no struct column.
    """

    def __init__(
        self, layouts: Sequence[Layout], kinds: RecordKinds, options: RecordOptions
    ) -> None:
        self._kinds, self._options = kinds, options
        chosen = dict.fromkeys(kinds.names.values())
        self._layouts = {name: layout_named(layouts, name) for name in chosen}
        if not self._layouts:
            raise OptionError("no kind of record is named")
        self._key = self._key_decoder()
        inner = replace(options, raw=False)
        columns = _own_columns(self._layouts, options.columns)
        self._shown = {name for name, own in columns.items() if own != ()}
        # Of a kind that is not shown the records are still to have their length: the field of the kinds is known to be good.
        self._decoders = {
            name: RecordDecoder(
                own,
                replace(inner, columns=columns[name] if name in self._shown else (kinds.field,)),
            )
            for name, own in self._layouts.items()
        }

    def _key_decoder(self) -> RecordDecoder:
        """Return the decoder of the field of the kinds; raises OptionError where its place differs."""
        wanted = self._kinds.field.upper()
        places = [
            {
                (column.offset, column.field.size)
                for column in flat_columns(layout)
                if column.field.name.upper() == wanted
            }
            for layout in self._layouts.values()
        ]
        if len(places[0]) != 1 or any(place != places[0] for place in places):
            problem = f"the field {self._kinds.field} does not distinguish the kinds of records"
            raise OptionError(problem, hint="It must be in each of them, once, at the same place")
        columns = (self._kinds.field,)
        own = RecordOptions(self._options.values, Shape.FLAT, columns=columns, surplus=Surplus.DROP)
        return RecordDecoder(next(iter(self._layouts.values())), own)

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of all batches."""
        members = [pa.field(KIND_COLUMN, pa.string())]
        for name, decoder in self._decoders.items():
            if name not in self._shown:
                continue
            inner = [field for field in decoder.schema if field.name != ERRORS_COLUMN]
            members.append(pa.field(name, pa.struct(inner)))
        if self._options.errors is OnError.COLUMN:
            members.append(pa.field(ERRORS_COLUMN, pa.list_(ERROR)))
        if self._options.raw:
            members.append(pa.field(RAW_COLUMN, pa.binary()))
        return pa.schema(members)

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the records, in their order."""
        kind = self._kind_of(records)
        rows = np.flatnonzero(kind >= 0)
        names = list(self._decoders)
        columns = [pa.array(names).take(pa.array(kind[rows]))]
        errors = np.zeros(len(rows), np.int64)
        pool: list[pa.Array] = []
        for number, (name, decoder) in enumerate(self._decoders.items()):
            own = np.flatnonzero(kind[rows] == number)
            batch = _decode(decoder, records, rows[own])
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
        if self._options.raw:
            columns.append(gather(records.data, records.starts[rows], records.ends[rows]))
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _kind_of(self, records: RecordBytes) -> Longs:
        """Return each record's kind as a number; -1 where it is left out."""
        values = self._key.decode(records).column(0).cast(pa.string()).dictionary_encode()
        numbers = {name: number for number, name in enumerate(self._decoders)}
        wanted = {value.strip(): numbers[name] for value, name in self._kinds.names.items()}
        found = [wanted.get((value or "").strip(), -1) for value in values.dictionary.to_pylist()]
        codes = values.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        kind: Longs = np.array([*found, -1], np.int64)[codes]
        if not self._kinds.others and (kind < 0).any():
            row = int(np.argmax(kind < 0))
            raise self._unknown_error(records, row, values[row].as_py())
        return kind

    def _unknown_error(self, records: RecordBytes, row: int, value: str | None) -> DecodeError:
        start, end = int(records.starts[row]), int(records.ends[row])
        raw = records.data[start : min(end, start + 64)].tobytes()
        where = Where(
            record=records.number(row),
            offset=records.base + start,
            field=self._kinds.field,
            raw=raw,
            text=page_text(raw, code_page(self._options.values.dialect.code_page)),
        )
        known = ", ".join(repr(name) for name in self._kinds.names)
        return DecodeError(
            f"{value!r} is not a kind of record", where=where, hint=f"Known: {known}"
        )


def _own_columns(
    layouts: Mapping[str, Layout], columns: tuple[str, ...] | None
) -> dict[str, tuple[str, ...] | None]:
    """Return which of the columns asked for each layout has; raises OptionError for one that none has."""
    if columns is None:
        return dict.fromkeys(layouts)
    known = {name: names_of_columns(layout) for name, layout in layouts.items()}
    for column in columns:
        if not any(column.upper() in names for names in known.values()):
            hint = did_you_mean(column, frozenset[str]().union(*known.values()))
            problem = f"no field {column} in any kind of record"
            raise OptionError(problem, where=Where(field=column), hint=hint)
    return {
        name: tuple(column for column in columns if column.upper() in names)
        for name, names in known.items()
    }


def _decode(decoder: RecordDecoder, records: RecordBytes, rows: Longs) -> pa.RecordBatch:
    """Return the columns of some records; an error names the record by its own number."""
    chosen = RecordBytes(records.data, records.starts[rows], records.ends[rows], 0, records.base)
    try:
        return decoder.decode(chosen)
    except DecodeError as error:
        if error.where.record is not None:
            number = records.number(int(rows[error.where.record - 1]))
            error.where = replace(error.where, record=number)
        raise
