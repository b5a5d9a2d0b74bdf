"""Encode columns as records of several kinds: from one struct column per kind, or from the table of one kind.

This is the reverse of ``kinds_decoding``. The rows of each kind are encoded together by their layout,
and put back in row order. Then the kind of each record is determined from its bytes as a reader
would do it. A record that would be read as a different kind is an error.
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
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.records.kinds_decoding import KIND_COLUMN, KindsDecoder, SingleKindDecoder
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.cobol.records.record_ids import ID_COLUMN, is_level_column
from trailgate.columnar.gather import gather
from trailgate.columnar.strings import byte_view
from trailgate.errors import DecodeError, EncodeError, Where, did_you_mean


class RowsOfKind(NamedTuple):
    """The rows of one record kind: their columns, and the indexes of their records in the output.

    With nested lists, ``above`` are the indexes of the parent records (-1 for rows that are not in
    a list); otherwise it is None.
    """

    name: str
    columns: Mapping[str, pa.Array]
    rows: Longs
    above: Longs | None = None


class KindsEncoder:
    """Encodes rows of several record kinds, each kind with its own encoder.

    With ``only``, all rows are of that kind, and the columns are the columns of its table.
    """

    def __init__(
        self,
        decoder: KindsDecoder,
        kinds: RecordKinds,
        encoders: Mapping[str, RecordEncoder],
        only: str | None = None,
    ) -> None:
        self._decoder, self._kinds, self._encoders = decoder, kinds, encoders
        self._only = None if only is None else SingleKindDecoder(decoder, only).name

    def encode(self, columns: pa.RecordBatch) -> RecordBytes:
        """Encode a batch of rows of several kinds as records. Raises EncodeError with record and field."""
        given = dict(zip(columns.schema.names, columns.columns, strict=True))
        parts = self._parts(given, len(columns))
        names = list(self._encoders)
        kind: Longs = np.zeros(sum(len(part.rows) for part in parts), np.int64)
        for part in parts:
            kind[part.rows] = names.index(part.name)
        records = self._encode_parts(parts, len(kind))
        self._check(records, kind, parts)
        return records

    def _parts(self, given: Mapping[str, pa.Array], rows: int) -> list[RowsOfKind]:
        """Split a batch into the rows of each record kind. Id columns are dropped."""
        if self._kinds.parents:
            # Reading adds ids to kinds with parents. They are not part of a record.
            given = {name: column for name, column in given.items() if not _is_id(name)}
        if self._only is not None:
            return [RowsOfKind(self._only, given, np.arange(rows))]
        self._check_names(given)
        kind = self._kind_of(given, rows)
        parts = []
        for number, name in enumerate(self._encoders):
            if name not in given:
                continue
            rows_of_kind = np.flatnonzero(kind == number)
            # In the rows of other kinds this struct is NULL.
            struct = given[name].take(pa.array(rows_of_kind))
            columns = dict(
                zip((field.name for field in struct.type), struct.flatten(), strict=True)
            )
            if RAW_COLUMN in given:
                columns[RAW_COLUMN] = given[RAW_COLUMN].take(pa.array(rows_of_kind))
            parts.append(RowsOfKind(name, columns, rows_of_kind))
        return parts

    @property
    def _added_names(self) -> frozenset[str]:
        return next(iter(self._encoders.values())).added

    def _check_names(self, columns: Mapping[str, pa.Array]) -> None:
        """Raise EncodeError if a column to write belongs to no record kind."""
        known = [KIND_COLUMN, *self._decoder.names, *self._added_names]
        tables = {kind: set(self._decoder.table_schema(kind).names) for kind in self._decoder.names}
        alone = next((kind for kind, names in tables.items() if set(columns) <= names), None)
        for name in (name for name in columns if name not in known):
            hint = did_you_mean(name, known) or f"Kinds: {', '.join(self._decoder.names)}"
            if alone is not None:
                hint = f"These are columns of {alone}: the option segment={alone} writes rows of this kind alone"
            raise EncodeError(f"no kind of record for the column {name}", hint=hint)

    def _kind_of(self, columns: Mapping[str, pa.Array], rows: int) -> Longs:
        """Return the number of each row's kind: that of its only struct column that is not NULL.

        Raises EncodeError if a row has no struct or several, or if ``_record`` names a different
        kind.
        """
        # One row per kind and one column per record. Example: of three records the first and the last
        # are of kind 0: present = [[1, 0, 1], [0, 1, 0]], and argmax finds the kinds 0, 1, 0.
        present = np.zeros((len(self._encoders), rows), bool)
        for number, name in enumerate(self._encoders):
            if name not in columns:
                continue
            if not pa.types.is_struct(columns[name].type):
                problem = f"a column of {columns[name].type}, but a struct is expected"
                raise EncodeError(problem, where=Where(field=name))
            present[number] = columns[name].is_valid().to_numpy(zero_copy_only=False)
        wrong = present.sum(axis=0) != 1
        if wrong.any():
            row = int(np.argmax(wrong))
            names = [name for name, has in zip(self._encoders, present[:, row], strict=True) if has]
            problem = f"values of {len(names)} kinds in one record: {' and '.join(names)}"
            if not names:
                problem = f"no values of any kind of record: {', '.join(self._encoders)}"
            raise EncodeError(problem, where=Where(record=row + 1))
        kind: Longs = present.argmax(axis=0) if rows else np.zeros(0, np.int64)
        if KIND_COLUMN in columns:
            named = pa.array(list(self._encoders)).take(pa.array(kind))
            same = pc.equal(columns[KIND_COLUMN].cast(pa.string()), named).fill_null(False)
            different: Mask = ~same.to_numpy(zero_copy_only=False)
            if different.any():
                row = int(np.argmax(different))
                problem = f"a record of {columns[KIND_COLUMN][row].as_py()} has the values of {named[row].as_py()}"
                raise EncodeError(problem, where=Where(record=row + 1, field=KIND_COLUMN))
        return kind

    def _encode_parts(self, parts: Sequence[RowsOfKind], count: int) -> RecordBytes:
        """Encode the rows of each kind, and put the records in row order."""
        data, starts, ends = [], np.zeros((2, count), np.int64), 0
        for part in parts:
            try:
                encoded = self._encoders[part.name].encode(part.columns)
            except EncodeError as error:
                raise _at_row(error, part.rows) from None
            if len(parts) == 1:
                return encoded
            # Row 0 of ``starts`` has the starts, row 1 the ends, both within the concatenated
            # bytes. ``gather`` then copies the records in the order of the rows.
            starts[:, part.rows] = encoded.starts + ends, encoded.ends + ends
            data.append(encoded.data)
            ends += len(encoded.data)
        offsets, joined = byte_view(gather(np.concatenate([*data, np.zeros(0, np.uint8)]), *starts))
        return RecordBytes(joined[: int(offsets[-1])], offsets[:-1], offsets[1:])

    def _check(self, records: RecordBytes, kinds: Longs, parts: Sequence[RowsOfKind]) -> None:
        """Raise EncodeError if a reader would assign a record to a different kind, or to no kind."""
        del parts
        try:
            kinds_read = self._decoder.kinds_of(records)
        except DecodeError as error:
            where = Where(record=error.where.record, field=error.where.field)
            raise EncodeError(error.problem, where=where, hint=error.hint) from None
        if (kinds_read != kinds).any():
            row = int(np.argmax(kinds_read != kinds))
            names = [*self._encoders, "none"]
            problem = f"a record of {names[kinds[row]]} would be read as a record of {names[kinds_read[row]]}"
            raise EncodeError(problem, where=Where(record=row + 1, field=self._kinds.field))


def _is_id(name: str) -> bool:
    return name in (FILE_COLUMN, ID_COLUMN) or is_level_column(name)


def _at_row(error: EncodeError, rows: Longs) -> EncodeError:
    """Replace an error's record number, which counts in one kind, by that in the batch."""
    record = error.where.record
    if record is None:
        return error
    where = Where(record=int(rows[record - 1]) + 1, field=error.where.field)
    return EncodeError(error.problem, where=where, hint=error.hint)
