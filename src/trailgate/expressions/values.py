"""Values of expressions, and the three-valued results of conditions.

A ``Value`` is a column or constant, with a mask of the rows in which it is missing because a column
was not logged. ``Verdicts`` contains for each row the possible results of a condition: a missing
column could have any value, so several results may be possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.numbers import format_integers
from trailgate.errors import OptionError
from trailgate.expressions.syntax import Node
from trailgate.model.changes import ChangeBlock
from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily


class ExpressionValueType(Enum):
    """The type of an expression's value, which determines how it is compared."""

    LITERAL = "a literal"  # text, interpreted by the value that it is compared with
    TEXT = "text"
    NUMBER = "a number"
    FLOAT = "a floating-point number"
    DATETIME = "a date or time"
    BYTES = "bytes"
    OTHER = "of a type that is not compared"


# By the family of a column's type: as what its values are compared.
KINDS: Final[Mapping[TypeFamily, ExpressionValueType]] = MappingProxyType(
    {
        TypeFamily.TEXT: ExpressionValueType.TEXT,
        TypeFamily.NUMBER_TEXT: ExpressionValueType.NUMBER,
        TypeFamily.INTEGER: ExpressionValueType.NUMBER,
        TypeFamily.UNSIGNED: ExpressionValueType.NUMBER,
        TypeFamily.FLOAT: ExpressionValueType.FLOAT,
        TypeFamily.DATETIME: ExpressionValueType.DATETIME,
        TypeFamily.BYTES: ExpressionValueType.BYTES,
    }
)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an expression: ``data`` is a constant (scalar) or a column.

    ``missing`` is a mask of the rows in which the value is missing; None means no rows. ``data`` has
    no meaning in these rows. Numbers are integers, decimals, or text. ``column`` is the table's
    column if the value is one.
    """

    data: pa.Array | pa.Scalar
    kind: ExpressionValueType
    missing: Mask | None = None
    column: Column | None = None

    def text(self) -> pa.Array | pa.Scalar:
        """Return the expression's value as text."""
        if pa.types.is_string(self.data.type):
            return self.data
        if self.kind is ExpressionValueType.NUMBER and isinstance(self.data, pa.Array):
            return format_integers(self.data)
        return pc.cast(self.data, pa.string())


def text_value(data: pa.Array | pa.Scalar, *values: Value) -> Value:
    """Build a function's text from its arguments ``values``: missing if any of them is."""
    return Value(data, ExpressionValueType.TEXT, missing_of(values))


def number_value(data: pa.Array | pa.Scalar, *values: Value) -> Value:
    """Build a function's integer from its arguments ``values``: missing if any of them is."""
    return Value(pc.cast(data, pa.int64()), ExpressionValueType.NUMBER, missing_of(values))


def missing_of(values: Sequence[Value]) -> Mask | None:
    """Return a mask of the rows in which any of these values is missing; None for no rows."""
    missing: Mask | None = None
    for value in values:
        if value.missing is not None:
            missing = value.missing if missing is None else missing | value.missing
    return missing


@dataclass(frozen=True, slots=True)
class GetenvValues:
    """The values of @GETENV that do not come from the operation itself.

    ``group`` is the name of the Extract or Replicat, ``group_type`` is EXTRACT or REPLICAT, and
    ``host`` and ``user`` are this machine's. ``has_transactions``: transaction ids and indicators
    are known. This is the case when tokens are created, but not when operations are selected.
    ``variables`` are environment variables of the operating system. ``now`` is the value of
    @DATENOW (YYYY-MM-DD HH:MI:SS), or None if it would make results irreproducible.
    ``is_whole_token``: the expression is a call of @GETENV and the whole value of a token, which
    the writer of the record may fill in.
    """

    group: str = ""
    host: str = ""
    user: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    has_transactions: bool = True
    group_type: str = "EXTRACT"
    now: str | None = None
    is_whole_token: bool = False


class EvaluationScope(Protocol):
    """The context in which a function of an expression is evaluated: the block of operations and the environment."""

    @property
    def block(self) -> ChangeBlock:
        """The operations over which the expression is evaluated."""
        ...

    @property
    def environment(self) -> GetenvValues:
        """The values of @GETENV and @DATENOW that do not come from the operations."""
        ...

    def value(self, node: Node) -> Value:
        """Evaluate a node of the expression as a value for each row."""
        ...

    def verdicts(self, node: Node) -> Verdicts:
        """Evaluate a node of the expression as a condition."""
        ...

    def error(self, problem: str, node: Node, hint: str = "") -> OptionError:
        """Build an error with a caret below a node of the expression."""
        ...


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The possible results of a condition: masks of the rows in which it may be true, false, or unknown (because of a NULL).

    A row with known values has exactly one possible result, so only one mask selects it. With a
    missing column several results are possible, because it could have any value.
    """

    true: Mask
    false: Mask
    unknown: Mask

    @classmethod
    def of(cls, result: pa.Array | pa.Scalar, missing: Mask | None, rows: int) -> Self:
        """Return the verdicts of a boolean column. NULL is unknown; a row that is ``missing`` may be anything."""
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, rows)
        true = np.array(pc.fill_null(result, False))
        unknown = np.array(result.is_null()) if result.null_count else np.zeros(rows, bool)
        false = ~(true | unknown)
        if missing is not None:
            # All three results remain possible for a row that lacks the column.
            true, false, unknown = true | missing, false | missing, unknown | missing
        return cls(true, false, unknown)

    @classmethod
    def known(cls, true: Mask) -> Self:
        """Build verdicts that are certainly true in the rows of ``true``, and certainly false in all others."""
        return cls(true, ~true, np.zeros(len(true), bool))

    def __invert__(self) -> Verdicts:
        return Verdicts(self.false, self.true, self.unknown)

    def __and__(self, other: Verdicts) -> Verdicts:
        # A result is possible if some possible results of both sides combine to it. Unknown needs one
        # unknown side, while the other one is unknown or true.
        return Verdicts(
            self.true & other.true,
            self.false | other.false,
            (self.unknown & (other.unknown | other.true)) | (self.true & other.unknown),
        )

    def __or__(self, other: Verdicts) -> Verdicts:
        return ~(~self & ~other)

    @property
    def true_rows(self) -> Mask:
        """The rows in which the condition is certainly true."""
        return self.true & ~self.false & ~self.unknown

    @property
    def undecided_rows(self) -> Mask:
        """The rows in which the condition may be true, depending on a missing column."""
        return self.true & (self.false | self.unknown)


# By the word that joins conditions.
JUNCTIONS: Final[Mapping[str, Callable[[Verdicts, Verdicts], Verdicts]]] = MappingProxyType(
    {"AND": Verdicts.__and__, "OR": Verdicts.__or__}
)
