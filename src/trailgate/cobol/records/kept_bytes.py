"""Keep the original bytes of records (column ``_raw``) for all columns that are unchanged.

Records are written with the bytes that they were read from, except for items whose column has a new
value. FILLER, unusual signs and padding, and invalid values are thus preserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookLayout
from trailgate.cobol.records.added_columns import RAW_COLUMN
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import records_at
from trailgate.cobol.records.record_options import (
    BadFieldPolicy,
    ColumnShape,
    RecordOptions,
    TrailingBytesPolicy,
)
from trailgate.columnar.hex_digits import from_hex
from trailgate.columnar.strings import byte_view
from trailgate.errors import EncodeError, Where


class OriginalBytes:
    """The original bytes of the records to write (column ``_raw``), one value per row.

    ``present`` is a mask of the rows that have original bytes, and ``lengths`` their number in each
    row (0 if it has none).
    """

    def __init__(self, raws: pa.Array, layout: CopybookLayout, options: RecordOptions) -> None:
        if pa.types.is_string(raws.type):
            raws = from_hex(raws)  # JSON represents bytes as hex digits
        if not (pa.types.is_binary(raws.type) or pa.types.is_large_binary(raws.type)):
            problem = f"a column of {raws.type}, but bytes of records are expected"
            raise EncodeError(problem, where=Where(field=RAW_COLUMN))
        self._layout = layout
        self._options = replace(
            options,
            shape=ColumnShape.FLAT,
            errors=BadFieldPolicy.COLUMN,
            raw=False,
            surplus=TrailingBytesPolicy.DROP,
        )
        self.present: Mask = raws.is_valid().to_numpy(zero_copy_only=False)
        offsets, data = byte_view(raws.fill_null(b"").cast(pa.binary()))
        self._records = records_at(data, offsets[:-1], offsets[1:])
        self.lengths: Longs = np.diff(offsets)

    def copy_to(self, matrix: Octets) -> None:
        """Copy the original records into the rows of a matrix that is at least as wide as the longest record."""
        inside = np.arange(matrix.shape[1]) < self.lengths[:, None]
        begin, end = (self._records.starts[:1], self._records.ends[-1:])
        if len(begin):
            matrix[inside] = self._records.data[int(begin[0]) : int(end[0])]

    def values(self, names: Iterable[str]) -> dict[str, pa.Array]:
        """Decode columns from the original bytes of the records. Invalid values are NULL."""
        asked = tuple(names)
        if not asked:
            return {}
        decoder = RecordDecoder(self._layout, replace(self._options, columns=asked))
        original = decoder.decode(self._records)
        return {name: original[name] for name in asked}

    def find_changes(self, columns: Mapping[str, pa.Array]) -> dict[str, Mask]:
        """Return, for each column, a mask of the rows whose value differs from the original bytes.

        Rows without original bytes count as different.
        """
        original = self.values(columns)
        return {name: ~self.present | _differ(columns[name], original[name]) for name in columns}


def _differ(new: pa.Array, old: pa.Array) -> Mask:
    """Return a mask of the rows that differ. NULL equals NULL, and NaN equals NaN."""
    # A column that cannot be cast to the decoded type differs in every row: it is encoded, which
    # reports the error.
    if new.type != old.type:
        try:
            new = new.cast(old.type)
        except pa.ArrowException:
            return np.ones(len(new), bool)
    same = pc.or_(pc.equal(new, old).fill_null(False), pc.and_(new.is_null(), old.is_null()))
    if pa.types.is_floating(old.type):
        same = pc.or_(same, pc.and_(pc.is_nan(new), pc.is_nan(old)).fill_null(False))
    differs: Mask = ~same.to_numpy(zero_copy_only=False)
    return differs
