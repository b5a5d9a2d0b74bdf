"""Text: one code page, or two bytes a character; padding is trimmed and added."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.cobol.copybook.layouts import Field, Usage
from trailgate.cobol.values.codec import (
    Decoded,
    Decoder,
    Encoder,
    Explain,
    Reason,
    encode_error,
    no_nulls,
    page_of,
)
from trailgate.cobol.values.options import ValueOptions
from trailgate.columnar.code_pages.national import NATIONAL
from trailgate.columnar.code_pages.page_text import CodePage
from trailgate.columnar.code_pages.registry import double_byte_page
from trailgate.columnar.rows import byte_view

_WIDE_BLANK = "\N{IDEOGRAPHIC SPACE}"


def text_page(field: Field, options: ValueOptions) -> CodePage:
    """Return what turns the bytes of a text field into characters; raises OptionError."""
    if field.usage is Usage.NATIONAL:
        return NATIONAL
    page = page_of(field, options)
    return double_byte_page(page) if field.usage is Usage.DBCS else page


def decode_text(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of text; trimmed at the end, or at the begin if JUST RIGHT."""
    page = text_page(field, options)
    trim = _trimmer(field, options)

    def decode(matrix: Octets) -> Decoded:
        found = page.decode(matrix)
        return Decoded(trim(found.values), found.bad)

    return decode


def _trimmer(field: Field, options: ValueOptions) -> Callable[[pa.Array], pa.Array]:
    if not options.trim:
        return lambda values: values
    if field.usage is Usage.DBCS:
        cut = pc.utf8_ltrim if field.justified else pc.utf8_rtrim
        return lambda values: cut(values, _WIDE_BLANK)
    plain = pc.ascii_ltrim if field.justified else pc.ascii_rtrim
    return lambda values: plain(values, " ")


def encode_text(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of text, padded with blanks; raises EncodeError for what is too long."""
    page, size = text_page(field, options), field.size
    padding = np.resize(np.frombuffer(page.blank, np.uint8), size)

    def encode(values: pa.Array) -> Octets:
        no_nulls(values)
        made = page.encode(values.cast(pa.string()))
        offsets, data = byte_view(made)
        lengths = np.diff(offsets)
        if (lengths > size).any():
            row = int(np.argmax(lengths > size))
            problem = f"{lengths[row]} bytes in a field of {size}"
            raise encode_error(problem, row, repr(values[row].as_py()))
        found = np.tile(padding, (len(values), 1))
        column = np.arange(size)
        first = (size - lengths)[:, None] if field.justified else 0
        inside = (column >= first) & (column < first + lengths[:, None])
        found[inside] = data[offsets[0] : offsets[-1]]
        return found

    return encode


def explain_text(field: Field, options: ValueOptions) -> Explain:
    """Return what explains why bytes are not a text."""
    page = text_page(field, options)

    def explain(raw: bytes) -> Reason:
        del raw
        return Reason(f"bytes that are not characters of {page.name}", "Is it another code page?")

    return explain
