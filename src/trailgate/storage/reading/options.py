"""The options for reading a part of a trail, as one frozen value for Python, Spark and the command line.

``select_rows_by_position`` filters batches by position and commit sequence number (``model/csns.py``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.errors import OptionError
from trailgate.model.csns import above_csn, below_csn, is_number
from trailgate.model.positions import long_position, parse_position
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Definitions
from trailgate.options import NAMES, TEXT, Options, OptionType, choice, field_options, instance
from trailgate.trail.values.charsets import find_charset

ALL_RECORDS: Final = "all"
# Options for operations, not for records: their names in errors. Spark, Python and the command line
# spell the options differently.
OF_OPERATIONS: Final = {
    "table": "a table in its types",
    "times": "the form of times",
    "from_csn": "a range of CSNs",
    "to_csn": "a range of CSNs",
    "undo": "the choice of backed-out operations",
    "open_transactions": "the choice of open transactions",
}
EXCLUDE: Final = "exclude"
AS_TEXT: Final = "text"
DEFINITIONS: Final = OptionType(
    "a path or definitions", TEXT.read, instance(os.PathLike, Definitions)
)

RANGES: Final = (
    ("from_position", "to_position"),
    ("after", "to_position"),
    ("from_csn", "to_csn"),
)
POSITIONS: Final = (("after", pc.greater), ("from_position", pc.greater_equal))


def _patterns(value: Any) -> TablePatterns:
    """Convert the value of the option ``tables``, patterns or strings, to patterns."""
    return value if isinstance(value, TablePatterns) else TablePatterns.of(NAMES.passed(value))


def _position(text: str) -> str:
    """Normalize a position to 20 digits, so that positions compare as text."""
    return long_position(*parse_position(text))


POSITION: Final = OptionType("a position", _position)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of reading a trail: which operations, and in which form.

    A limit of None means no limit.
    """

    table: Annotated[str | None, TEXT, "this table's operations in the types of its columns"] = None
    tables: Annotated[
        TablePatterns | None,
        OptionType("patterns of tables", TablePatterns.read, _patterns),
        "only these tables, such as HR.*; * and ? are wildcards",
    ] = None
    records: Annotated[
        str | None,
        choice({"operations": None, ALL_RECORDS: ALL_RECORDS}),
        "all: every record with its header, instead of operations",
    ] = None
    definitions: Annotated[
        str | os.PathLike[str] | Definitions | None,
        DEFINITIONS,
        "the definitions file, if it is not PREFIX.def",
    ] = None
    charset: Annotated[
        str | None,
        OptionType("a character set", find_charset),
        "the character set of the source's texts",
    ] = None
    after: Annotated[str | None, POSITION, "only operations after this position"] = None
    from_position: Annotated[
        str | None, POSITION, "only operations at this position or after it"
    ] = None
    to_position: Annotated[
        str | None, POSITION, "only operations at this position or before it"
    ] = None
    from_csn: Annotated[
        str | None, TEXT, "only transactions of this commit sequence number or a later one"
    ] = None
    to_csn: Annotated[
        str | None, TEXT, "only transactions of this commit sequence number or an earlier one"
    ] = None
    columns: Annotated[
        tuple[str, ...] | None,
        NAMES,
        "only these columns, comma-separated; others are not decoded",
    ] = None
    times: Annotated[
        str | None,
        choice({"timestamp": None, AS_TEXT: AS_TEXT}),
        "text: return date times of the table as text with all their digits; timestamps have only microseconds",
    ] = None
    undo: Annotated[
        str | None,
        choice({"show": None, EXCLUDE: EXCLUDE}),
        "exclude: skip operations that back out an earlier one (UndoFlag of NonStop)",
    ] = None
    open_transactions: Annotated[
        bool | None,
        choice({"hold": None, "show": True}),
        "show: also return the last operation of a transaction that is still open at the trail's end",
    ] = None

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Self:
        """Build reading options from names and values. Raises OptionError if a name or value is wrong."""
        return cls(**OPTIONS.read(named))

    def __post_init__(self) -> None:
        if self.records is not None:
            for row in OPTIONS:
                if row.name in OF_OPERATIONS and getattr(self, row.name) is not None:
                    raise OptionError(
                        f"{OF_OPERATIONS[row.name]} applies to operations, but all records are read",
                        hint="Records are selected by tables and by positions",
                    )
        if self.table is not None and self.tables is not None:
            raise OptionError(
                "table and tables cannot be combined",
                hint="table returns one table in its types, tables selects several in the general form",
            )
        if self.times is not None and self.table is None:
            raise OptionError(
                "times applies to the columns of a table, but no table is given",
                hint="Without table, the values of operations are text as in the trail",
            )
        for first, last in RANGES:
            low, high = getattr(self, first), getattr(self, last)
            if low is not None and high is not None and _is_above(low, high):
                what = "CSN" if first == "from_csn" else "position"
                raise OptionError(f"the range is empty: the {what} {low} is above {high}")

    @property
    def csn_limits(self) -> dict[str, str | None]:
        """The limits that are CSNs, each with its name for errors."""
        return {"the range's first CSN": self.from_csn, "the range's last CSN": self.to_csn}


OPTIONS: Final = Options("trail", field_options(ReadOptions))


def _is_above(low: str, high: str) -> bool:
    """Return True if a lower limit of positions or CSNs is above the upper one: the range is empty.

    Numbers compare as numbers, positions as text of equal length.
    """
    numbers = is_number(low) and is_number(high)
    return int(low) > int(high) if numbers else low > high


def columns_for_selection(options: ReadOptions, *, typed: bool) -> tuple[str, ...]:
    """Return the names of the columns that ``select_rows_by_position`` needs.

    With ``typed``, these are the names in the rows of a single table, such as ``_position``.
    """
    prefix = "_" if typed else ""
    position = any((options.after, options.from_position, options.to_position))
    csn = any((options.from_csn, options.to_csn))
    return tuple(f"{prefix}{name}" for name, used in (("position", position), ("csn", csn)) if used)


def select_rows_by_position(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    """Return the rows of operations or records within the options' limits of positions and CSNs.

    Rows without a CSN are dropped if a CSN limit is set.
    """
    prefix = "_" if {"_position", "_csn"} & set(batch.schema.names) else ""
    masks = []
    for name, holds in (*POSITIONS, ("to_position", pc.less_equal)):
        bound = getattr(options, name)
        if bound is not None:
            masks.append(holds(batch[f"{prefix}position"], bound))
    if options.from_csn is not None:
        # NULL stays NULL when inverted.
        masks.append(pc.invert(below_csn(batch[f"{prefix}csn"], options.from_csn)))
    if options.to_csn is not None:
        masks.append(pc.invert(above_csn(batch[f"{prefix}csn"], options.to_csn)))
    for mask in masks[1:]:
        masks[0] = pc.and_(masks[0], mask)
    # A row without a CSN compares as NULL, so filter drops it.
    return batch.filter(masks[0]) if masks else batch
