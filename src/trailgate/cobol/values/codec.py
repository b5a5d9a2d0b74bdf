"""What each kind of value has: a decoder and an encoder of whole columns, and reasons for bad values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import Field
from trailgate.cobol.values.options import ValueOptions
from trailgate.columnar.code_pages.page_text import CodePage
from trailgate.columnar.code_pages.registry import code_page
from trailgate.errors import EncodeError, Where


class Decoded(NamedTuple):
    """A column; the rows of ``bad`` are null because their bytes are not a value of the kind."""

    values: pa.Array
    bad: Mask | None = None


class Reason(NamedTuple):
    """Why bytes are not a value, and what to try."""

    problem: str
    hint: str = ""


Decoder = Callable[[Octets], Decoded]
Encoder = Callable[[pa.Array], Octets]
Explain = Callable[[bytes], Reason]


class ValueCodec(NamedTuple):
    """One kind of value: each function binds a field and the options once.

    ``explainer`` is called for bad values only, so that decoders need not distinguish reasons.
    """

    decoder: Callable[[Field, ValueOptions], Decoder]
    encoder: Callable[[Field, ValueOptions], Encoder]
    explainer: Callable[[Field, ValueOptions], Explain]


def page_of(field: Field, options: ValueOptions) -> CodePage:
    """Return the code page of a field."""
    return code_page(field.code_page or options.dialect.code_page)


def encode_error(problem: str, row: int, value: object = None) -> EncodeError:
    """Return the error of the value in a row that has no bytes."""
    problem = problem if value is None else f"{problem}: {value}"
    return EncodeError(problem, where=Where(record=row))


def no_nulls(values: pa.Array) -> None:
    """Raise EncodeError for the first NULL: its kind of value has no bytes for it."""
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise encode_error("NULL has no bytes in such a field", row)
