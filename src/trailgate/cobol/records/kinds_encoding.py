"""Columns to records of several kinds: a struct column a kind, or the table of one kind. The mirror image of ``record_kinds``.

Rows of one kind are encoded together by their layout, and put in the order of the rows. The field that chooses the kind is then read as a reader
would: a record that would be one of another kind is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.cobol.records.added_columns import FILE_COLUMN, RAW_COLUMN
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.cobol.records.fields import RecordBytes
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.records.record_ids import ID_COLUMN, is_level_column
from trailgate.cobol.records.record_kinds import KIND_COLUMN, KindsDecoder, SegmentDecoder
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import byte_view
from trailgate.errors import DecodeError, EncodeError, Where, did_you_mean


class KindRows(NamedTuple):
    """Rows of one kind: their columns, the numbers of their records among all, and of the records above these, where they are in rows of others."""

    name: str
    columns: Mapping[str, pa.Array]
    rows: Longs
    above: Longs | None = None


class KindsEncoder:
    """Encodes rows of several kinds, each by an encoder of its own.

    With ``only`` all rows are of that kind, whose columns they have.
    """

    def __init__(
        self,
        decoder: KindsDecoder,
        kinds: RecordKinds,
        encoders: Mapping[str, RecordEncoder],
        only: str | None = None,
    ) -> None:
        self._decoder, self._kinds, self._encoders = decoder, kinds, encoders
        self._only = None if only is None else SegmentDecoder(decoder, only).name

    def encode(self, columns: pa.RecordBatch) -> RecordBytes:
        """Return the records; raises EncodeError with record and field."""
        given = dict(zip(columns.schema.names, columns.columns, strict=True))
        parts = self._parts(given, len(columns))
        names = list(self._encoders)
        kind: Longs = np.zeros(sum(len(part.rows) for part in parts), np.int64)
        for part in parts:
            kind[part.rows] = names.index(part.name)
        found = self._encode_parts(parts, len(kind))
        self._check(found, kind, parts)
        return found

    def _parts(self, given: Mapping[str, pa.Array], rows: int) -> list[KindRows]:
        """Return the rows of each kind."""
        if self._kinds.parents:
            given = {name: column for name, column in given.items() if not _is_id(name)}
        if self._only is not None:
            return [KindRows(self._only, given, np.arange(rows))]
        self._check_names(given)
        kind = self._kind_of(given, rows)
        parts = []
        for number, name in enumerate(self._encoders):
            if name not in given:
                continue
            own = np.flatnonzero(kind == number)
            struct = given[name].take(pa.array(own))
            columns = dict(
                zip((field.name for field in struct.type), struct.flatten(), strict=True)
            )
            if RAW_COLUMN in given:
                columns[RAW_COLUMN] = given[RAW_COLUMN].take(pa.array(own))
            parts.append(KindRows(name, columns, own))
        return parts

    @property
    def _added(self) -> frozenset[str]:
        return next(iter(self._encoders.values())).added

    def _check_names(self, given: Mapping[str, pa.Array]) -> None:
        known = [KIND_COLUMN, *self._decoder.names, *self._added]
        for name in (name for name in given if name not in known):
            hint = did_you_mean(name, known) or f"Kinds: {', '.join(self._decoder.names)}"
            raise EncodeError(f"no kind of record for the column {name}", hint=hint)

    def _kind_of(self, given: Mapping[str, pa.Array], rows: int) -> Longs:
        """Return the number of the kind of each row: of the one struct that is not NULL, which is the one that ``_record`` names."""
        held = np.zeros((len(self._encoders), rows), bool)
        for number, name in enumerate(self._encoders):
            if name not in given:
                continue
            if not pa.types.is_struct(given[name].type):
                problem = f"a column of {given[name].type} where a struct is written"
                raise EncodeError(problem, where=Where(field=name))
            held[number] = given[name].is_valid().to_numpy(zero_copy_only=False)
        wrong = held.sum(axis=0) != 1
        if wrong.any():
            row = int(np.argmax(wrong))
            names = [name for name, has in zip(self._encoders, held[:, row], strict=True) if has]
            problem = f"values of {len(names)} kinds in one record: {' and '.join(names)}"
            if not names:
                problem = f"no values of any kind of record: {', '.join(self._encoders)}"
            raise EncodeError(problem, where=Where(record=row + 1))
        kind: Longs = held.argmax(axis=0) if rows else np.zeros(0, np.int64)
        if KIND_COLUMN in given:
            named = pa.array(list(self._encoders)).take(pa.array(kind))
            same = pc.equal(given[KIND_COLUMN].cast(pa.string()), named).fill_null(False)
            other: Mask = ~same.to_numpy(zero_copy_only=False)
            if other.any():
                row = int(np.argmax(other))
                problem = f"a record of {given[KIND_COLUMN][row].as_py()} with the values of {named[row].as_py()}"
                raise EncodeError(problem, where=Where(record=row + 1, field=KIND_COLUMN))
        return kind

    def _encode_parts(self, parts: Sequence[KindRows], count: int) -> RecordBytes:
        """Return the records of all kinds in their order."""
        data, starts, ends = [], np.zeros((2, count), np.int64), 0
        for part in parts:
            try:
                found = self._encoders[part.name].encode(part.columns)
            except EncodeError as error:
                raise _at_row(error, part.rows) from None
            if len(parts) == 1:
                return found
            starts[:, part.rows] = found.starts + ends, found.ends + ends
            data.append(found.data)
            ends += len(found.data)
        offsets, joined = byte_view(gather(np.concatenate([*data, np.zeros(0, np.uint8)]), *starts))
        return RecordBytes(joined[: int(offsets[-1])], offsets[:-1], offsets[1:])

    def _check(self, records: RecordBytes, kind: Longs, parts: Sequence[KindRows]) -> None:
        """Raise EncodeError for a record that would be read as one of another kind, or of none."""
        del parts
        try:
            found = self._decoder.kinds_of(records)
        except DecodeError as error:
            where = Where(record=error.where.record, field=error.where.field)
            raise EncodeError(error.problem, where=where, hint=error.hint) from None
        if (found != kind).any():
            row = int(np.argmax(found != kind))
            names = [*self._encoders, "none"]
            problem = (
                f"a record of {names[kind[row]]} that would be read as one of {names[found[row]]}"
            )
            raise EncodeError(problem, where=Where(record=row + 1, field=self._kinds.field))


def _is_id(name: str) -> bool:
    return name in (FILE_COLUMN, ID_COLUMN) or is_level_column(name)


def _at_row(error: EncodeError, rows: Longs) -> EncodeError:
    """Return an error with the number of its record among all."""
    record = error.where.record
    if record is None:
        return error
    where = Where(record=int(rows[record - 1]) + 1, field=error.where.field)
    return EncodeError(error.problem, where=where, hint=error.hint)
