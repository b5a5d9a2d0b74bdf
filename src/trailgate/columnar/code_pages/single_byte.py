"""Pages of one byte a character: the whole column in one translation."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.columnar.code_pages.page_text import Text, not_in_page, some, strings, without
from trailgate.columnar.rows import byte_view, strings_of

NONE: Final = "\ufffe"  # a byte without a character; Python's charmap codecs mean the same by it


@dataclass(frozen=True, slots=True)
class SingleBytePage:
    """A page of 256 characters."""

    name: str
    characters: str
    _ascii: bytes = field(init=False, repr=False, compare=False)
    sizes: npt.NDArray[np.uint8] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A byte that is not an ASCII character becomes 0x80, so that one test finds whether all are.
        ascii_of = (min(ord(c), 0x80) for c in self.characters)
        sizes = [0 if c == NONE else len(c.encode()) for c in self.characters]
        object.__setattr__(self, "_ascii", bytes(ascii_of))
        object.__setattr__(self, "sizes", np.array(sizes, np.uint8))

    @property
    def blank(self) -> bytes:
        """Return the byte that pads."""
        return bytes([self.characters.index(" ")])

    @property
    def codes(self) -> npt.NDArray[np.uint16]:
        """Return the code of each byte's character."""
        return np.array([ord(c) for c in self.characters], np.uint16)

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes."""
        data = matrix.tobytes()
        plain = data.translate(self._ascii)
        if plain.isascii():
            return Text(strings_of(np.frombuffer(plain, np.uint8).reshape(matrix.shape)))
        sizes = self.sizes[matrix]
        bad = some((sizes == 0).any(axis=1)) if NONE in self.characters else None
        if bad is not None:
            filled = np.where(bad[:, None], self.blank[0], matrix)
            return Text(without(self.decode(filled).values, bad), bad)
        text, _ = codecs.charmap_decode(data, "strict", self.characters)
        return Text(strings(text.encode(), sizes.sum(axis=1, dtype=np.int64)))

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text; raises EncodeError with its row as the record."""
        offsets, data = byte_view(values)
        text = data[offsets[0] : offsets[-1]].tobytes().decode()
        try:
            made, _ = codecs.charmap_encode(text, "strict", codecs.charmap_build(self.characters))
        except UnicodeEncodeError as error:
            ends = pc.cumulative_sum(pc.utf8_length(values)).to_numpy()
            row = int(np.searchsorted(ends, error.start, "right"))
            raise not_in_page(self.name, values[row].as_py(), row) from None
        lengths = pc.utf8_length(values).to_numpy().astype(np.int64)
        return strings(made, lengths).view(pa.binary())
