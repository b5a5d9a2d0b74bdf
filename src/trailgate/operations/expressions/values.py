"""Values of expressions: columns or constants of a kind, with the rows that miss them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.numbers import format_integers
from trailgate.errors import OptionError
from trailgate.model.changes import ChangeBlock
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.operations.expressions.nodes import Node


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
class Surroundings:
    """What @GETENV gives beside the operation itself.

    ``settled``: ids and indicators of transactions are known, which is so when tokens are made but not when operations are
    selected. ``variables`` are names and values of the operating system's.
    """

    group: str = ""
    host: str = ""
    user: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    settled: bool = True


class Scope(Protocol):
    """What a function is evaluated in."""

    @property
    def block(self) -> ChangeBlock:
        """Return the operations."""
        ...

    @property
    def surroundings(self) -> Surroundings:
        """Return what is around them."""
        ...

    def value(self, node: Node) -> Value:
        """Return a node's value in each row."""
        ...

    def error(self, problem: str, node: Node, hint: str = "") -> OptionError:
        """Return an error with a caret below a node."""
        ...
