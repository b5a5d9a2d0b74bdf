"""National text: UTF-16, big-endian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.columnar.code_pages.page_text import Text, decode_each, encode_each, from_codes

_CODEC: Final = "utf-16-be"


@dataclass(frozen=True, slots=True)
class NationalPage:
    """Two bytes a character, four for those beyond the first 65,536."""

    name: str = "UTF-16"

    @property
    def blank(self) -> bytes:
        """Return the two bytes that pad."""
        return " ".encode(_CODEC)

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes."""
        if matrix.shape[1] % 2:
            return decode_each(matrix, lambda raw: raw.decode(_CODEC))
        codes = np.ascontiguousarray(matrix).view(">u2").astype(np.uint16)
        if ((codes & 0xF800) == 0xD800).any():  # surrogates: pairs are decoded one by one
            return decode_each(matrix, lambda raw: raw.decode(_CODEC))
        return Text(from_codes(codes, np.ones(codes.shape, bool)))

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text; raises EncodeError with its row as the record."""
        return encode_each(values, self.name, lambda text: text.encode(_CODEC))


NATIONAL: Final = NationalPage()
