"""Options for decoding records into columns: the shape of columns, and policies for unusual bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as member
from enum import Enum

from trailgate.cobol.copybook.flat_columns import column_names
from trailgate.cobol.copybook.layouts import CopybookLayout
from trailgate.cobol.records.added_columns import RAW_COLUMN
from trailgate.cobol.values.codec import ValueOptions
from trailgate.errors import OptionError

ERRORS_COLUMN = "_errors"


class ColumnShape(Enum):
    """How groups and OCCURS are represented in columns."""

    FLAT = "flat"  # one column per elementary item
    TREE = "tree"  # structs and lists


class DependingLength(Enum):
    """Whether an OCCURS DEPENDING ON has its real or its maximum number of elements in the record's bytes."""

    MOST = "most"  # always the maximum
    REAL = "real"  # as many as the counter states: the items after it move


class BadFieldPolicy(Enum):
    """What to do with a field whose bytes are not a valid value."""

    STOP = "stop"
    COLUMN = "column"  # NULL, with its error in the column _errors


class TrailingBytesPolicy(Enum):
    """What to do with trailing bytes after the last item of the layout."""

    ERROR = "error"
    DROP = "drop"
    PADDING = "padding"  # drop blanks and low-values; other bytes are errors


class ShortRecordPolicy(Enum):
    """What to do with items that are missing, or cut, because the record ends early."""

    ERROR = "error"
    PAD = "pad"  # missing bytes count as blanks; a binary number counts as a blank number
    NULL = "null"  # NULL, but text that is cut keeps its first characters


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The options by which COBOL records become columns.

    - ``columns`` are names of columns or groups to read; None means all.
    - ``added`` are names of extra columns that are not in the copybook (except the raw bytes).
    - ``indicators`` maps items to the items that state whether they are NULL.
    - ``renamed`` maps the names of flat columns to new names.
    - ``counts`` maps values of a counter to numbers, by the counter's name in capitals.
    """

    values: ValueOptions = member(default_factory=ValueOptions)
    shape: ColumnShape = ColumnShape.FLAT
    depending: DependingLength = DependingLength.MOST
    columns: tuple[str, ...] | None = None
    errors: BadFieldPolicy = BadFieldPolicy.STOP
    raw: bool = False
    surplus: TrailingBytesPolicy = TrailingBytesPolicy.ERROR
    short: ShortRecordPolicy = ShortRecordPolicy.ERROR
    added: tuple[str, ...] = ()
    renamed: Mapping[str, str] = member(default_factory=dict)
    indicators: Mapping[str, str] = member(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = member(default_factory=dict)

    @property
    def all_added(self) -> tuple[str, ...]:
        """The names of all columns that are not in the copybook, except the column ``_errors``."""
        return (RAW_COLUMN, *self.added) if self.raw else self.added

    def names(self, layout: CopybookLayout) -> tuple[str, ...]:
        """Return the names of a layout's flat columns, after the options have renamed them.

        Raises OptionError if two columns get the same name.
        """
        if not self.renamed:
            return column_names(layout)
        new = {old.upper(): name for old, name in self.renamed.items()}
        names = tuple(new.get(name.upper(), name) for name in column_names(layout))
        if len({name.upper() for name in names}) < len(names):
            raise OptionError(f"rename: two columns of {layout.name} have the same name")
        return names
