"""Columns to records of several kinds: a struct column a kind, or the table of one kind. The mirror image of ``record_kinds``.

Rows of one kind are encoded together by their layout, and put in the order of the rows. The field that chooses the kind is then read as a reader
would: a record that would be one of another kind is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.cobol.records.added_columns import FILE_COLUMN, RAW_COLUMN
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.cobol.records.fields import RecordBytes
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.records.record_ids import ID_COLUMN, is_level_column
from trailgate.cobol.records.record_kinds import KIND_COLUMN, KindsDecoder
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import byte_view
from trailgate.errors import DecodeError, EncodeError, OptionError, Where, did_you_mean


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
        known = {name.upper(): name for name in kinds.records}
        if only is not None and only.upper() not in known:
            hint = did_you_mean(only, known) or f"Known: {', '.join(kinds.records)}"
            raise OptionError(f"segment: {only} is not a kind of record", hint=hint)
        self._only = None if only is None else known[only.upper()]

    def encode(self, columns: pa.RecordBatch) -> RecordBytes:
        """Return the records; raises EncodeError with record and field."""
        given = dict(zip(columns.schema.names, columns.columns, strict=True))
        if self._kinds.parents:
            given = {name: column for name, column in given.items() if not _is_id(name)}
        if self._only is not None:
            kind: Longs = np.full(len(columns), [*self._encoders].index(self._only))
            found = self._encoders[self._only].encode(given)
        else:
            self._check_names(given)
            kind = self._kind_of(given, len(columns))
            found = self._encode_kinds(given, kind)
        self._check_kinds(found, kind)
        return found

    def _check_names(self, given: Mapping[str, pa.Array]) -> None:
        added = next(iter(self._encoders.values())).added
        known = [KIND_COLUMN, *self._encoders, *added]
        for name in (name for name in given if name not in known):
            hint = did_you_mean(name, known) or f"Kinds: {', '.join(self._encoders)}"
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

    def _encode_kinds(self, given: Mapping[str, pa.Array], kind: Longs) -> RecordBytes:
        """Return the records of all kinds in the order of the rows."""
        data, starts, ends = [], np.zeros((2, len(kind)), np.int64), 0
        for number, (name, encoder) in enumerate(self._encoders.items()):
            if name not in given:
                continue
            rows = np.flatnonzero(kind == number)
            own = given[name].take(pa.array(rows))
            columns = dict(zip((field.name for field in own.type), own.flatten(), strict=True))
            if RAW_COLUMN in given:
                columns[RAW_COLUMN] = given[RAW_COLUMN].take(pa.array(rows))
            try:
                found = encoder.encode(columns)
            except EncodeError as error:
                raise _at_row(error, rows) from None
            starts[:, rows] = found.starts + ends, found.ends + ends
            data.append(found.data)
            ends += len(found.data)
        offsets, joined = byte_view(gather(np.concatenate([*data, np.zeros(0, np.uint8)]), *starts))
        return RecordBytes(joined[: int(offsets[-1])], offsets[:-1], offsets[1:])

    def _check_kinds(self, records: RecordBytes, kind: Longs) -> None:
        """Raise EncodeError for a record that would be read as one of another kind, or of none."""
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
