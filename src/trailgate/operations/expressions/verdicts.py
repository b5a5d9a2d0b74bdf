"""Three-valued logic over whole columns, and what a missing column leaves undecided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask


@dataclass(frozen=True, slots=True)
class Verdicts:
    """By row, which outcomes a condition may have: true, false, or unknown because of a NULL.

    A row whose values are all known has exactly one. A missing column leaves several: its value might be anything.
    """

    true: Mask
    false: Mask
    unknown: Mask

    @classmethod
    def of(cls, result: pa.Array | pa.Scalar, missing: Mask | None, rows: int) -> Self:
        """Return the outcomes of a column of booleans, null where unknown; any is possible where ``missing``."""
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, rows)
        true = np.array(pc.fill_null(result, False))
        unknown = np.array(result.is_null()) if result.null_count else np.zeros(rows, bool)
        false = ~(true | unknown)
        if missing is not None:
            true, false, unknown = true | missing, false | missing, unknown | missing
        return cls(true, false, unknown)

    @classmethod
    def known(cls, true: Mask) -> Self:
        """Return outcomes that are true or false."""
        return cls(true, ~true, np.zeros(len(true), bool))

    def __invert__(self) -> Verdicts:
        return Verdicts(self.false, self.true, self.unknown)

    def __and__(self, other: Verdicts) -> Verdicts:
        return Verdicts(
            self.true & other.true,
            self.false | other.false,
            (self.unknown & (other.unknown | other.true)) | (self.true & other.unknown),
        )

    def __or__(self, other: Verdicts) -> Verdicts:
        return ~(~self & ~other)

    @property
    def selected(self) -> Mask:
        """Return the rows for which the condition is true."""
        return self.true & ~self.false & ~self.unknown

    @property
    def undecided(self) -> Mask:
        """Return the rows that a missing column decides."""
        return self.true & (self.false | self.unknown)


JUNCTIONS: Final[Mapping[str, Callable[[Verdicts, Verdicts], Verdicts]]] = MappingProxyType(
    {"AND": Verdicts.__and__, "OR": Verdicts.__or__}
)
