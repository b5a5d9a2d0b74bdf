"""Pages of two bytes a character, alone or between shift-out and shift-in among single bytes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Mask, Octets
from trailgate.columnar.code_pages.page_text import Text, encode_each, from_codes, some, without
from trailgate.columnar.code_pages.single_byte import NONE, SingleBytePage

Codes = npt.NDArray[np.uint16]
SHIFT_OUT, SHIFT_IN = 0x0E, 0x0F
_TABLES: Final = "trailgate.columnar.code_pages.tables.double_"
# Which table a page's double bytes have, and what differs from it.
DOUBLE_BYTES: Final[Mapping[str, tuple[str, Mapping[int, str]]]] = MappingProxyType(
    {
        "300": ("300", MappingProxyType({})),
        "930": ("300", MappingProxyType({0x4260: "\N{MINUS SIGN}"})),
        "935": ("935", MappingProxyType({})),
        "937": ("937", MappingProxyType({})),
        "939": ("300", MappingProxyType({})),
        "1364": ("1364", MappingProxyType({})),
        "1388": ("1388", MappingProxyType({})),
    }
)


@cache  # a fact table, read once it is wanted
def double_codes(page: str) -> Codes:
    """Return the code of the character of each pair of bytes; 0 is none."""
    table, changes = DOUBLE_BYTES[page]
    halves = np.frombuffer(
        zlib.decompress(base64.b85decode(import_module(_TABLES + table).PACKED)), np.uint8
    )
    steps = halves[:65536].astype(np.uint16) | halves[65536:].astype(np.uint16) << 8
    codes = np.cumsum(steps, dtype=np.uint16)
    for pair, character in changes.items():
        codes[pair] = ord(character)
    codes.flags.writeable = False
    return codes


@cache
def _pair_of(page: str) -> Mapping[str, bytes]:
    codes = double_codes(page)
    pairs = np.flatnonzero(codes)[::-1]  # of two pairs for a character the first one stays
    texts = codes[pairs].tolist()
    return {chr(c): p.to_bytes(2, "big") for c, p in zip(texts, pairs.tolist(), strict=True)}


@dataclass(frozen=True, slots=True)
class DoubleBytePage:
    """Two bytes a character, without shifts: DBCS fields."""

    name: str

    @property
    def blank(self) -> bytes:
        """Return the two bytes that pad: the wide blank."""
        return _pair_of(self.name)["\N{IDEOGRAPHIC SPACE}"]

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes; an odd byte at its end is not a character."""
        rows, width = matrix.shape
        if width % 2:
            return Text(pa.nulls(rows, pa.string()), np.ones(rows, bool))
        codes = double_codes(self.name)[_pairs(matrix)]
        bad = some((codes == 0).any(axis=1))
        return Text(without(from_codes(codes, np.ones(codes.shape, bool)), bad), bad)

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text; raises EncodeError with its row as the record."""
        return encode_each(values, self.name, self._encoded)

    def _encoded(self, text: str) -> bytes:
        pairs = _pair_of(self.name)
        try:
            return b"".join(pairs[character] for character in text)
        except KeyError:
            raise UnicodeError from None


@dataclass(frozen=True, slots=True)
class MixedPage:
    """Single bytes, and pairs between shift-out and shift-in."""

    name: str
    single: SingleBytePage
    double: DoubleBytePage
    _codes: Codes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_codes", self.single.codes)

    @property
    def blank(self) -> bytes:
        """Return the byte that pads."""
        return self.single.blank

    def decode(self, matrix: Octets) -> Text:
        """Return the text of each row of bytes."""
        shifted = ((matrix == SHIFT_OUT) | (matrix == SHIFT_IN)).any(axis=1)
        if not shifted.any():
            return self.single.decode(matrix)
        if shifted.all():
            return self._shifted(matrix)
        plain, mixed = self.single.decode(matrix[~shifted]), self._shifted(matrix[shifted])
        order = np.empty(len(matrix), np.int64)
        order[~shifted] = np.arange(len(plain.values))
        order[shifted] = np.arange(len(mixed.values)) + len(plain.values)
        values = pa.concat_arrays([plain.values, mixed.values]).take(pa.array(order))
        bad = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return Text(values, bad)

    def _shifted(self, matrix: Octets) -> Text:
        column = np.arange(matrix.shape[1])
        shift = (matrix == SHIFT_OUT) | (matrix == SHIFT_IN)
        last = np.maximum.accumulate(np.where(shift, column, -1), axis=1)
        opened = np.take_along_axis(matrix, np.maximum(last, 0), axis=1) == SHIFT_OUT
        double = opened & (last >= 0) & ~shift
        first = double & ((column - last) % 2 == 1)
        pairs = matrix.astype(np.uint16) << 8
        pairs[:, :-1] |= matrix[:, 1:]
        codes = np.where(double, double_codes(self.double.name)[pairs], self._codes[matrix])
        kept = ~shift & (first | ~double)
        unknown = kept & ((codes == ord(NONE)) | (double & (codes == 0)))
        bad = some(unknown.any(axis=1) | _unbalanced(matrix, shift, column))
        if bad is not None:
            kept &= ~bad[:, None]
        return Text(without(from_codes(codes, kept), bad), bad)

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the bytes of each text; raises EncodeError with its row as the record."""
        return encode_each(values, self.name, self._encoded)

    def _encoded(self, text: str) -> bytes:
        made = bytearray()
        pairs, single = _pair_of(self.double.name), self.single.characters
        wide = False
        for character in text:
            narrow = character != NONE and character in single
            if narrow == wide:
                made.append(SHIFT_IN if wide else SHIFT_OUT)
                wide = not wide
            if narrow:
                made.append(single.index(character))
            elif character in pairs:
                made += pairs[character]
            else:
                raise UnicodeError
        if wide:
            made.append(SHIFT_IN)
        return bytes(made)


def _pairs(matrix: Octets) -> Codes:
    return np.ascontiguousarray(matrix).view(">u2").astype(np.uint16)


def _unbalanced(matrix: Octets, shift: Mask, column: npt.NDArray[np.int64]) -> Mask:
    """Return the rows whose shifts do not come in turn, or that have half a pair between them."""
    depth = np.cumsum(
        np.where(shift, np.where(matrix == SHIFT_OUT, 1, -1), 0), axis=1, dtype=np.int32
    )
    before = np.full(matrix.shape, -1)
    before[:, 1:] = np.maximum.accumulate(np.where(shift, column, -1), axis=1)[:, :-1]
    half = (matrix == SHIFT_IN) & ((column - before) % 2 == 0)
    turned = (depth < 0) | (depth > 1)
    found: Mask = turned.any(axis=1) | (depth[:, -1] != 0) | half.any(axis=1)
    return found
