"""Bytes without a public meaning: pointers and indexes, as they are or in hex."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.cobol.copybook.layouts import Field
from trailgate.cobol.values.codec import (
    Decoded,
    Decoder,
    Encoder,
    Explain,
    Reason,
    encode_error,
    no_nulls,
)
from trailgate.cobol.values.options import RawForm, ValueOptions
from trailgate.columnar.gather import fixed_rows
from trailgate.columnar.rows import byte_view, strings_of

_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


def decode_raw(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder: the bytes, or their hex digits."""
    del field
    if options.raw is RawForm.BINARY:
        return lambda matrix: Decoded(fixed_rows(matrix))
    return lambda matrix: Decoded(strings_of(_hex(matrix)))


def _hex(matrix: Octets) -> Octets:
    found = np.empty((len(matrix), 2 * matrix.shape[1]), np.uint8)
    found[:, 0::2], found[:, 1::2] = _HEX[matrix >> 4], _HEX[matrix & 15]
    return found


def encode_raw(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of bytes or hex digits of the field's size."""
    hexed = options.raw is RawForm.HEX

    def encode(values: pa.Array) -> Octets:
        no_nulls(values)
        if hexed:
            raws = [_unhex(row, text) for row, text in enumerate(values.to_pylist())]
            values = pa.array(raws, pa.binary())
        offsets, data = byte_view(values.cast(pa.binary()))
        wrong = np.diff(offsets) != field.size
        if wrong.any():
            row = int(np.argmax(wrong))
            raise encode_error(f"not {field.size} bytes", row, values[row].as_py())
        return data[offsets[0] : offsets[-1]].reshape(len(values), field.size)

    return encode


def _unhex(row: int, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise encode_error("not hex digits", row, text) from None


def explain_raw(field: Field, options: ValueOptions) -> Explain:
    """Return what would explain bad bytes; no bytes are."""
    del field, options
    return lambda raw: Reason(f"{len(raw)} bytes")
