"""Pages of Python's own codecs that are not one byte a character: UTF-8, Shift-JIS, ..."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.columnar.code_pages.page_text import Text, decode_each, encode_each
from trailgate.columnar.gather import fixed_rows


@dataclass(frozen=True, slots=True)
class CodecPage:
    """A page by the name of a Python codec; each distinct value is decoded once."""

    name: str

    @property
    def blank(self) -> bytes:
        """Return the bytes that pad."""
        return " ".encode(self.name)

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes."""
        return decode_each(matrix, lambda raw: raw.decode(self.name))

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text; raises EncodeError with its row as the record."""
        return encode_each(values, self.name, lambda text: text.encode(self.name))


@dataclass(frozen=True, slots=True)
class Utf8Page:
    """UTF-8, which Arrow checks by itself."""

    name: str = "utf-8"

    @property
    def blank(self) -> bytes:
        """Return the byte that pads."""
        return b" "

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes."""
        try:
            return Text(fixed_rows(matrix).cast(pa.string()))
        except pa.ArrowInvalid:
            return decode_each(matrix, bytes.decode)

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text."""
        return values.cast(pa.binary())
