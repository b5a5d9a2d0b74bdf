"""Code pages decode to a string column and the rows whose bytes are not characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import fixed_rows
from trailgate.errors import EncodeError, Where


class Text(NamedTuple):
    """Decoded text: null in the rows of ``bad``, whose bytes are not characters of the page."""

    values: pa.Array
    bad: Mask | None = None


class CodePage(Protocol):
    """Bytes to characters and back; ``blank`` is what pads a field."""

    @property
    def name(self) -> str:
        """Return what it is called in messages."""
        ...

    @property
    def blank(self) -> bytes:
        """Return the bytes of a blank."""
        ...

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes."""
        ...

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text; raises EncodeError with its row as the record."""
        ...


def page_text(raw: bytes, page: CodePage) -> str:
    """Return bytes as text; empty where they are not characters of the page."""
    return page.decode(np.frombuffer(raw, np.uint8)[None, :]).values[0].as_py() or "" if raw else ""


def strings(data: bytes | npt.NDArray[np.uint8], lengths: Longs) -> pa.Array:
    """Return values that follow each other in UTF-8 ``data``."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def from_codes(codes: npt.NDArray[np.uint16], kept: Mask) -> pa.Array:
    """Return a text for each row: its UTF-16 codes where ``kept``, none of them half a pair."""
    sizes = np.ones(codes.shape, np.int8)
    sizes += codes > 0x7F
    sizes += codes > 0x7FF
    lengths = np.where(kept, sizes, 0).sum(axis=1, dtype=np.int64)
    return strings(codes[kept].astype("<u2").tobytes().decode("utf-16-le").encode(), lengths)


def without(values: pa.Array, nulls: Mask | None) -> pa.Array:
    """Return the values with null in the rows of ``nulls``."""
    if nulls is None or not nulls.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=nulls))


def some(mask: Mask) -> Mask | None:
    """Return the mask, or None where no row is in it."""
    return mask if mask.any() else None


def decode_each(matrix: Octets, decode: Callable[[bytes], str]) -> Text:
    """Return the text of each row by a function of one value, called once a distinct value."""
    return decode_distinct(fixed_rows(matrix), decode)


def decode_distinct(raws: pa.BinaryArray, decode: Callable[[bytes], str]) -> Text:
    """Return the text of each value, of which none is null, called once a distinct value."""
    found = raws.dictionary_encode()
    texts: list[str | None] = []
    for raw in found.dictionary.to_pylist():
        try:
            text = decode(raw)
            text.encode()  # half a surrogate pair is not text
        except UnicodeError:
            texts.append(None)
        else:
            texts.append(text)
    values = pa.array(texts, pa.string()).take(found.indices)
    bad = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return Text(values, bad)


def encode_each(values: pa.Array, page: str, encode: Callable[[str], bytes]) -> pa.Array:
    """Return the bytes of each text by a function of one value, called once a distinct value."""
    found = values.dictionary_encode()
    made: list[bytes] = []
    for number, text in enumerate(found.dictionary.to_pylist()):
        try:
            made.append(encode(text))
        except UnicodeError:
            row = found.indices.to_pylist().index(number)
            raise not_in_page(page, text, row) from None
    return pa.array(made, pa.binary()).take(found.indices)


def not_in_page(page: str, text: str, row: int) -> EncodeError:
    """Return the error of a text that a page cannot hold."""
    return EncodeError(f"{text!r} has no form in the code page {page}", where=Where(record=row))
