"""Rows of a split chosen by position and by commit sequence number."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.model.table_patterns import TablePatterns
from trailgate.storage.reading.trail.options import ReadOptions

POSITIONS: Final = (("after", pc.greater), ("from_position", pc.greater_equal))
DIGITS: Final = r"^[0-9]+$"


def choosing_columns(options: ReadOptions, *, typed: bool) -> tuple[str, ...]:
    """Return the columns that ``chosen_rows`` compares with the options."""
    prefix = "_" if typed else ""
    position = any((options.after, options.from_position, options.to_position))
    csn = any((options.from_csn, options.to_csn))
    return tuple(f"{prefix}{name}" for name, used in (("position", position), ("csn", csn)) if used)


def chosen_rows(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    """Return the rows of a batch, of any shape, that the options ask for."""
    prefix = "_" if {"_position", "_csn"} & set(batch.schema.names) else ""
    masks = []
    for name, holds in (*POSITIONS, ("to_position", pc.less_equal)):
        bound = getattr(options, name)
        if bound is not None:
            masks.append(holds(batch[f"{prefix}position"], bound))
    if options.from_csn is not None:
        masks.append(pc.invert(_below(batch[f"{prefix}csn"], options.from_csn)))
    if options.to_csn is not None:
        masks.append(pc.invert(_above(batch[f"{prefix}csn"], options.to_csn)))
    for mask in masks[1:]:
        masks[0] = pc.and_(masks[0], mask)
    # A row without a CSN is on neither side of a bound: it is left out.
    return batch.filter(masks[0]) if masks else batch


def _below(csn: pa.Array, bound: str) -> pa.Array:
    return _compared(csn, bound, pc.less)


def _above(csn: pa.Array, bound: str) -> pa.Array:
    return _compared(csn, bound, pc.greater)


def _compared(csn: pa.Array, bound: str, holds: Any) -> pa.Array:
    """Return a comparison with a bound: as numbers where both are digits, else as text.

    Numbers of any length: without leading zeros, the longer one is greater.
    """
    as_text = holds(csn, bound)
    if not (bound.isascii() and bound.isdigit()):
        return as_text
    digits = pc.utf8_ltrim(csn, "0")
    number = bound.lstrip("0")
    length = pc.utf8_length(digits)
    same = pc.equal(length, len(number))
    as_number = pc.if_else(same, holds(digits, number), holds(length, len(number)))
    return pc.if_else(pc.match_substring_regex(csn, DIGITS), as_number, as_text)


def of_tables(names: pa.Array, tables: TablePatterns) -> pa.Array:
    """Return which names are of these tables; a record without a name is of none."""
    found = names.dictionary_encode()
    fits = pa.array([tables.fits(name) for name in found.dictionary.to_pylist()], pa.bool_())
    return fits.take(found.indices)
