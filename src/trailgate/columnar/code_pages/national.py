"""National text: UTF-16 in either byte order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.columnar.code_pages.page_text import Text, decode_each, encode_each, from_codes


@dataclass(frozen=True, slots=True)
class NationalPage:
    """Two bytes a character, four for those beyond the first 65,536."""

    codec: str = "utf-16-be"
    order: str = ">"
    name: str = "UTF-16"

    @property
    def blank(self) -> bytes:
        """Return the two bytes that pad."""
        return " ".encode(self.codec)

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes."""
        if matrix.shape[1] % 2:
            return decode_each(matrix, lambda raw: raw.decode(self.codec))
        codes = np.ascontiguousarray(matrix).view(f"{self.order}u2").astype(np.uint16)
        if ((codes & 0xF800) == 0xD800).any():  # surrogates: pairs are decoded one by one
            return decode_each(matrix, lambda raw: raw.decode(self.codec))
        return Text(from_codes(codes, np.ones(codes.shape, bool)))

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text; raises EncodeError with its row as the record."""
        return encode_each(values, self.name, lambda text: text.encode(self.codec))


NATIONAL: Final = NationalPage()
NATIONAL_LITTLE: Final = NationalPage("utf-16-le", "<")
