"""Values of expressions: columns or constants of a kind, with the rows that miss them.

Three-valued logic over whole columns, and what a missing column leaves undecided.
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
from trailgate.model.types import Family


class Kind(Enum):
    """What a value is, which decides how it is compared."""

    LITERAL = "a literal"  # text that is read as what it is compared with
    TEXT = "text"
    NUMBER = "a number"
    FLOAT = "a floating-point number"
    DATETIME = "a date or time"
    BYTES = "bytes"
    OTHER = "of a type that is not compared"


KINDS: Final[Mapping[Family, Kind]] = MappingProxyType(
    {
        Family.TEXT: Kind.TEXT,
        Family.NUMBER_TEXT: Kind.NUMBER,
        Family.INTEGER: Kind.NUMBER,
        Family.UNSIGNED: Kind.NUMBER,
        Family.FLOAT: Kind.FLOAT,
        Family.DATETIME: Kind.DATETIME,
        Family.BYTES: Kind.BYTES,
    }
)


@dataclass(frozen=True, slots=True)
class Value:
    """A constant (a scalar) or a column of values, null where NULL or missing.

    ``missing`` None: no row misses it. Numbers are integers, decimals, or text of a number.
    """

    data: pa.Array | pa.Scalar
    kind: Kind
    missing: Mask | None = None
    column: Column | None = None

    def text(self) -> pa.Array | pa.Scalar:
        """Return the value as text."""
        if pa.types.is_string(self.data.type):
            return self.data
        if self.kind is Kind.NUMBER and isinstance(self.data, pa.Array):
            return format_integers(self.data)
        return pc.cast(self.data, pa.string())


def text_value(data: pa.Array | pa.Scalar, *values: Value) -> Value:
    """Return text made of other values; it is missing where one of them is."""
    return Value(data, Kind.TEXT, missing_of(values))


def number_value(data: pa.Array | pa.Scalar, *values: Value) -> Value:
    """Return integers made of other values; they are missing where one of these is."""
    return Value(pc.cast(data, pa.int64()), Kind.NUMBER, missing_of(values))


def missing_of(values: Sequence[Value]) -> Mask | None:
    """Return the rows in which any of the values is missing."""
    found: Mask | None = None
    for value in values:
        if value.missing is not None:
            found = value.missing if found is None else found | value.missing
    return found


@dataclass(frozen=True, slots=True)
class Environment:
    """What @GETENV gives beside the operation itself.

    ``has_transactions``: ids and indicators of transactions are known, which is so when tokens are made but not when operations are
    selected. ``variables`` are names and values of the operating system's. ``now`` is what @DATENOW gives, as YYYY-MM-DD HH:MI:SS; None where that would differ from run to run.
    ``is_whole_token``: the expression is a call of @GETENV, and the value of a token, which the writer of its record may fill in.
    """

    group: str = ""
    host: str = ""
    user: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    has_transactions: bool = True
    group_type: str = "EXTRACT"
    now: str | None = None
    is_whole_token: bool = False


class Scope(Protocol):
    """What a function is evaluated in."""

    @property
    def block(self) -> ChangeBlock:
        """Return the operations."""
        ...

    @property
    def environment(self) -> Environment:
        """Return what is around them."""
        ...

    def value(self, node: Node) -> Value:
        """Return a node's value in each row."""
        ...

    def verdicts(self, node: Node) -> Verdicts:
        """Return the outcomes of a node as a condition."""
        ...

    def error(self, problem: str, node: Node, hint: str = "") -> OptionError:
        """Return an error with a caret below a node."""
        ...


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
    def true_rows(self) -> Mask:
        """Return the rows for which the condition is true."""
        return self.true & ~self.false & ~self.unknown

    @property
    def undecided_rows(self) -> Mask:
        """Return the rows that a missing column decides."""
        return self.true & (self.false | self.unknown)


JUNCTIONS: Final[Mapping[str, Callable[[Verdicts, Verdicts], Verdicts]]] = MappingProxyType(
    {"AND": Verdicts.__and__, "OR": Verdicts.__or__}
)
