"""What of a trail's operations is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Column


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tables, and which columns of them in lower case; None: all.

    Cells of other columns are found and checked, but their values are not decoded. So are ``tokens``, the ``ids`` of
    transactions and ``positions``, each of which may be left out; the latter two are null then. Without ``values`` their indicators and lengths are checked, and no value is decoded.
    Without ``undone`` operations that are the backout of another one are left out.
    """

    tables: TablePatterns | None = None
    columns: frozenset[str] | None = None
    tokens: bool = True
    ids: bool = True
    positions: bool = True
    values: bool = True
    undone: bool = True

    def has_table(self, name: str) -> bool:
        """Return whether a table's operations are decoded."""
        return self.tables is None or self.tables.fits(name)

    def has_column(self, column: Column) -> bool:
        """Return whether a column's values are decoded."""
        return self.columns is None or column.name.casefold() in self.columns


EVERYTHING: Final = Wanted()
