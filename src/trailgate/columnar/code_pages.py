"""Code pages by name: those of Python, and mainframe code pages that Python does not have.

`code_page` accepts names such as ``cp037``, ``IBM-930`` and ``utf-16-be``, and returns a page of
one of these types:

- `SingleBytePage`: one byte per character. A complete column is decoded in one translation.
- `DoubleBytePage`: two bytes per character, for DBCS fields.
- `MixedPage`: single bytes, and double bytes between shift-out (0E) and shift-in (0F).
- `Utf16Page`: UTF-16 in either byte order.
- `Utf8Page`: UTF-8, which Arrow checks.
- `CodecPage`: any other codec of Python (such as Shift-JIS), which decodes each distinct value once.

Every page decodes to a string column and a mask of the bad rows. The bytes of a bad row are not
characters of the page, and its string is null. The tables that Python does not have are data in
``reference/code_pages``, written by ``tools/code_pages.py``.
"""

from __future__ import annotations

import codecs
import json
import pkgutil
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.code_pages_kernels import NO_CHARACTER, NO_ROOM, ONE_BYTE, translate_rows
from trailgate.columnar.gather import flat_rows, gather_matrix
from trailgate.columnar.rows import mask_as_null
from trailgate.columnar.strings import byte_view, matrix_to_binary, strings_from_lengths
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import EncodeError, OptionError, Where, did_you_mean

NONE: Final = "\ufffe"  # marks a byte without a character, as in Python's charmap codecs

Codes = npt.NDArray[np.uint16]
SHIFT_OUT, SHIFT_IN = 0x0E, 0x0F
# The table of each page's double bytes, and the pairs that differ from it.
DOUBLE_BYTES: Final[Mapping[str, tuple[str, Mapping[int, str]]]] = MappingProxyType(
    {
        "300": ("300", MappingProxyType({})),
        "930": ("300", MappingProxyType({0x4260: "\N{MINUS SIGN}"})),
        "933": ("933", MappingProxyType({})),
        "935": ("935", MappingProxyType({})),
        "937": ("937", MappingProxyType({})),
        "939": ("300", MappingProxyType({})),
        "1364": ("1364", MappingProxyType({})),
        "1388": ("1388", MappingProxyType({})),
        "1390": ("1390", MappingProxyType({})),
        "1399": ("1390", MappingProxyType({})),
    }
)

# Each Thai tone mark has two byte values. These are the ones that Java and ICU do not write.
UNWRITTEN: Final[Mapping[str, bytes]] = MappingProxyType(
    {"838": b"\x51\xca\xe1\xfd\xfe", "1160": b"\x51\xca\xe1\xfd"}
)

FIRST_SEQUENCE: Final = 0xD800  # the code of sequence 0; surrogates have no other use in the tables

# Python's EBCDIC codecs that agree with IBM's tables. Others do not: cp273 has an overline where IBM has a
# macron, and cp875 decodes bytes without a character as the control character SUB.
OF_PYTHON: Final = ("37", "424", "500", "1026", "1140")

# Matches cp037, IBM-037, ibm01140, x-IBM930, EBCDIC-CP-37, CCSID 500, and bare numbers, all without separators.
_NUMBERED: Final = re.compile(r"^(?:x-?)?(?:ebcdic|ccsid|ibm|cp)*0*(\d+)$")


class DecodedText(NamedTuple):
    """The text of rows that a code page has decoded.

    Rows marked in ``bad`` are null: their bytes are not characters of the code page.
    """

    values: pa.Array
    bad: Mask | None = None


class CodePage(Protocol):
    """A code page: converts bytes to characters and back. ``blank`` is the padding of a field."""

    @property
    def name(self) -> str:
        """The code page's name, for messages."""
        ...

    @property
    def blank(self) -> bytes:
        """The bytes of a blank in this code page."""
        ...

    def decode(self, matrix: Octets) -> DecodedText:
        """Decode each row of a byte matrix with the code page."""
        ...

    def encode(self, values: pa.Array) -> pa.Array:
        """Encode each string as bytes of the code page.

        Raises EncodeError for a character that the code page does not have; `where.record` is the
        row.
        """
        ...


def decode_with_page(raw: bytes, page: CodePage) -> str:
    """Decode one byte string with a code page, or return "" if it is not valid in the page."""
    return page.decode(np.frombuffer(raw, np.uint8)[None, :]).values[0].as_py() or "" if raw else ""


def decode_values(raw: pa.BinaryArray, page: CodePage) -> pa.StringArray:
    """Decode a column of byte strings with a code page. A value that is not valid in the page becomes "".

    If all values have the same length, they are decoded together, otherwise once per distinct
    value.
    """
    begins, data = byte_view(raw)
    sizes = np.diff(begins)
    width = int(sizes.max(initial=0))
    if width and (sizes == width).all():
        return page.decode(gather_matrix(data, begins[:-1], width)).values.fill_null("")
    coded = raw.dictionary_encode()
    each = [decode_with_page(value, page) for value in coded.dictionary.to_pylist()]
    return pa.array(each, pa.string()).take(coded.indices)


def from_codes(codes: npt.NDArray[np.uint16], kept: Mask) -> pa.Array:
    """Convert each row of a code page's UTF-16 codes to text. Codes that the mask ``kept`` does not mark are skipped.

    A code c from 0xD800 to 0xDFFF is not a surrogate here, but stands for a text of two units:
    number c - 0xD800 of `PairSequences`.
    """
    # Bytes in UTF-8: 1 up to 0x7F, 2 up to 0x7FF, else 3. Sequences have their own sizes.
    sizes = np.ones(codes.shape, np.int8)
    sizes += codes > 0x7F
    sizes += codes > 0x7FF
    units = codes[kept]
    double = (units & 0xF800) == FIRST_SEQUENCE
    if double.any():
        all_sequences = sequences()
        number = units[double] - FIRST_SEQUENCE
        sizes[kept & ((codes & 0xF800) == FIRST_SEQUENCE)] = all_sequences.sizes[number]
        # Repeat the code of each sequence, then overwrite both copies with its two units.
        last = np.cumsum(1 + double)[double] - 1
        units = np.repeat(units, 1 + double)
        units[last - 1], units[last] = all_sequences.units[number].T
    lengths = np.where(kept, sizes, 0).sum(axis=1, dtype=np.int64)
    return strings_from_lengths(units.astype("<u2").tobytes().decode("utf-16-le").encode(), lengths)


def mask_or_none(mask: Mask) -> Mask | None:
    """Return a mask of the rows that a code page cannot decode, or None if there are none, as `DecodedText` has it."""
    return mask if mask.any() else None


def decode_each(matrix: Octets, decode: Callable[[bytes], str]) -> DecodedText:
    """Decode the rows of a byte matrix with a code page's function, which is called once per distinct value.

    A row for which it raises UnicodeError is bad.
    """
    return decode_distinct(matrix_to_binary(matrix), decode)


def decode_distinct(raws: pa.BinaryArray, decode: Callable[[bytes], str]) -> DecodedText:
    """Decode a binary column without nulls with a code page's function, which is called once per distinct value.

    A value for which it raises UnicodeError is bad.
    """
    # Data files repeat values, so the slow codec is called once per distinct value.
    encoded = raws.dictionary_encode()
    rows: list[str | None] = []
    for raw in encoded.dictionary.to_pylist():
        try:
            text = decode(raw)
            text.encode()  # half a surrogate pair is not text
        except UnicodeError:
            rows.append(None)
        else:
            rows.append(text)
    values = pa.array(rows, pa.string()).take(encoded.indices)
    bad = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return DecodedText(values, bad)


def encode_each(values: pa.Array, page: str, encode: Callable[[str], bytes]) -> pa.Array:
    """Encode a string column with a code page's function, which is called once per distinct value.

    Raises EncodeError, which names the code page ``page``, if the function raises UnicodeError.
    """
    encoded = values.dictionary_encode()
    results: list[bytes] = []
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            results.append(encode(text))
        except UnicodeError:
            # The first row with this value.
            row = encoded.indices.to_pylist().index(number)
            raise unencodable_error(page, text, row) from None
    return pa.array(results, pa.binary()).take(encoded.indices)


def unencodable_error(page: str, text: str, row: int) -> EncodeError:
    """Build the error for a string that a code page cannot represent."""
    return EncodeError(
        f"{text!r} cannot be encoded in the code page {page}", where=Where(record=row)
    )


@dataclass(frozen=True, slots=True)
class SingleBytePage:
    """A code page of one byte per character, such as cp037: ``characters[b]`` is the character of byte b.

    If the page has no character for the byte, ``characters[b]`` is the placeholder ``NONE``.
    ``sizes[b]`` is the size of the character in UTF-8, or 0 if there is none.
    """

    name: str
    characters: str
    unwritten: bytes = b""  # bytes that are only read: their characters are written as other bytes
    _ascii: npt.NDArray[np.uint8] = field(init=False, repr=False, compare=False)
    _utf8: Longs = field(init=False, repr=False, compare=False)
    sizes: npt.NDArray[np.uint8] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ascii_of = [min(ord(c), 0x80) for c in self.characters]
        utf8 = [b"" if c == NONE else c.encode() for c in self.characters]
        sizes = [len(text) for text in utf8]
        units = [int.from_bytes(text, "little") + len(text) * ONE_BYTE for text in utf8]
        object.__setattr__(self, "_ascii", np.array(ascii_of, np.uint8))
        object.__setattr__(self, "_utf8", np.array(units, np.int64))
        object.__setattr__(self, "sizes", np.array(sizes, np.uint8))

    @property
    def blank(self) -> bytes:
        """The single-byte page's byte for a blank."""
        return bytes([self.characters.index(" ")])

    @property
    def codes(self) -> npt.NDArray[np.uint16]:
        """The Unicode code point of each byte's character."""
        return np.array([ord(c) for c in self.characters], np.uint16)

    def decode_if_valid(
        self, matrix: Octets, *, left: bool = False, right: bool = False
    ) -> pa.Array | None:
        """Decode rows with a single-byte page, trimmed on the left or right, if all bytes are characters.

        Returns None if any byte is not a character.
        """
        rows, size = matrix.shape
        data, step = flat_rows(matrix)
        table = (self._ascii, self._utf8, self.blank[0], left, right)
        offsets = np.empty(rows + 1, np.int32)
        # Usually one byte of UTF-8 per character is enough. If not, try again with the most there can be.
        for most in (1, int(self.sizes.max())):
            out = np.empty(rows * size * most + 2 * SPARE, np.uint8)
            done = translate_rows(data, step, size, *table, offsets, out)
            if done != NO_ROOM:
                break
        if done == NO_CHARACTER:
            return None
        # A copy frees an array that is mostly unused.
        text = out[:done] if 2 * done >= len(out) else out[:done].copy()
        return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))

    def decode(self, matrix: Octets, *, left: bool = False, right: bool = False) -> DecodedText:
        """Decode rows with a single-byte page, trimmed on the left or right."""
        values = self.decode_if_valid(matrix, left=left, right=right)
        if values is not None:
            return DecodedText(values)
        bad = (self.sizes[matrix] == 0).any(axis=1)
        # Decode bad rows as blanks, and make them null afterwards.
        filled = np.where(bad[:, None], self.blank[0], matrix)
        return DecodedText(
            mask_as_null(self.decode_if_valid(filled, left=left, right=right), bad), bad
        )

    def encode(self, values: pa.Array) -> pa.Array:
        """Encode strings with a single-byte page: one byte per character.

        Raises EncodeError for a character that the page does not have; `where.record` is the row.
        """
        offsets, data = byte_view(values)
        text = data[offsets[0] : offsets[-1]].tobytes().decode()
        # Of two bytes with the same character only one is written; the other is set to a mark that
        # no text has.
        written = "".join(NONE if b in self.unwritten else c for b, c in enumerate(self.characters))
        try:
            encoded, _ = codecs.charmap_encode(text, "strict", codecs.charmap_build(written))
        except UnicodeEncodeError as error:
            # error.start is an index into all texts together; find the row that contains it.
            ends = pc.cumulative_sum(pc.utf8_length(values)).to_numpy()
            row = int(np.searchsorted(ends, error.start, "right"))
            raise unencodable_error(self.name, values[row].as_py(), row) from None
        lengths = pc.utf8_length(values).to_numpy().astype(np.int64)
        return strings_from_lengths(encoded, lengths).view(pa.binary())


def _table(name: str) -> bytes:
    """Read a table of code pages that ``tools/code_pages.py`` has written."""
    # importlib.resources would import zipfile and tempfile: 10 ms of each command.
    data = pkgutil.get_data("trailgate", f"reference/code_pages/{name}")
    if data is None:
        raise FileNotFoundError(name)
    return data


SINGLE_BYTE: Final[Mapping[str, str]] = MappingProxyType(json.loads(_table("single_byte.json")))


class PairSequences(NamedTuple):
    """The texts of two UTF-16 units that a page can have for one byte pair.

    They are characters above U+FFFF, and letters with a combining mark.
    """

    strings: tuple[str, ...]
    units: Codes  # two per row
    sizes: npt.NDArray[np.int8]  # in UTF-8


@cache
def sequences() -> PairSequences:
    """Read the two-unit texts of all code pages: characters above U+FFFF ("𠀋") and letters with a combining mark ("か゚")."""
    texts = tuple(json.loads(_table("sequences.json")))
    units = np.frombuffer("".join(texts).encode("utf-16-le"), "<u2").astype(np.uint16)
    sizes = np.array([len(text.encode()) for text in texts], np.int8)
    return PairSequences(texts, units.reshape(-1, 2), sizes)


@cache  # read when it is first needed
def double_codes(page: str) -> Codes:
    """Return a double-byte page's UTF-16 code for each byte pair: 0 for no character, ``FIRST_SEQUENCE`` + n for sequence n."""
    table, changes = DOUBLE_BYTES[page]
    halves = np.frombuffer(zlib.decompress(_table(f"double_{table}.bin")), np.uint8)
    # The file has the differences between successive codes, which compress well: 65,536 low bytes, then
    # the high bytes.
    steps = halves[:65536].astype(np.uint16) | halves[65536:].astype(np.uint16) << 8
    codes = np.cumsum(steps, dtype=np.uint16)
    for pair, character in changes.items():
        codes[pair] = ord(character)
    codes.flags.writeable = False
    return codes


@cache
def _pair_of(page: str) -> Mapping[str, bytes]:
    codes = double_codes(page)
    pairs = np.flatnonzero(codes)[::-1]  # reversed, so that the lowest pair of a character is kept
    numbers = codes[pairs].tolist()
    strings = {FIRST_SEQUENCE + n: text for n, text in enumerate(sequences().strings)}
    return {
        strings.get(code, chr(code)): pair.to_bytes(2, "big")
        for code, pair in zip(numbers, pairs.tolist(), strict=True)
    }


def _parts(text: str, pairs: Mapping[str, bytes]) -> Iterator[str]:
    """Split a text into the parts that a double-byte page encodes: characters, or a letter with its combining mark.

    The two are one part if they share a pair of bytes in the page; ``pairs`` maps its parts to
    bytes.
    """
    at = 0
    while at < len(text):
        width = 2 if text[at : at + 2] in pairs else 1
        yield text[at : at + width]
        at += width


@dataclass(frozen=True, slots=True)
class DoubleBytePage:
    """A code page of two bytes per character without shifts, for DBCS fields."""

    name: str

    @property
    def blank(self) -> bytes:
        """The two bytes of the double-byte page's wide blank."""
        return _pair_of(self.name)["\N{IDEOGRAPHIC SPACE}"]

    def decode(self, matrix: Octets) -> DecodedText:
        """Decode rows of byte pairs. If rows have an odd number of bytes, all of them are bad."""
        rows, width = matrix.shape
        if width % 2:
            return DecodedText(pa.nulls(rows, pa.string()), np.ones(rows, bool))
        codes = double_codes(self.name)[_pairs(matrix)]
        bad = mask_or_none((codes == 0).any(axis=1))
        return DecodedText(mask_as_null(from_codes(codes, np.ones(codes.shape, bool)), bad), bad)

    def encode(self, values: pa.Array) -> pa.Array:
        """Encode strings with a double-byte page: two bytes per character.

        Raises EncodeError for a character that the page does not have; `where.record` is the row.
        """
        return encode_each(values, self.name, self._encode)

    def _encode(self, text: str) -> bytes:
        pairs = _pair_of(self.name)
        try:
            return b"".join(pairs[part] for part in _parts(text, pairs))
        except KeyError:
            raise UnicodeError from None


@dataclass(frozen=True, slots=True)
class MixedPage:
    """A code page of single bytes, and of byte pairs between shift-out (0E) and shift-in (0F)."""

    name: str
    single: SingleBytePage
    double: DoubleBytePage
    _codes: Codes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_codes", self.single.codes)

    @property
    def blank(self) -> bytes:
        """The mixed page's byte for a blank, which is a single byte."""
        return self.single.blank

    def decode(self, matrix: Octets) -> DecodedText:
        """Decode rows with a mixed page: single bytes and shifted byte pairs. Shifts are not characters."""
        shifted = ((matrix == SHIFT_OUT) | (matrix == SHIFT_IN)).any(axis=1)
        if not shifted.any():
            return self.single.decode(matrix)
        if shifted.all():
            return self._shift(matrix)
        plain, mixed = self.single.decode(matrix[~shifted]), self._shift(matrix[shifted])
        # The two groups are decoded separately. ``order`` is where each row is in their
        # concatenation: for shifted 0 1 0 the values are row 0, row 2, row 1, and order is 0 2 1.
        order = np.empty(len(matrix), np.int64)
        order[~shifted] = np.arange(len(plain.values))
        order[shifted] = np.arange(len(mixed.values)) + len(plain.values)
        values = pa.concat_arrays([plain.values, mixed.values]).take(pa.array(order))
        bad = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return DecodedText(values, bad)

    def _shift(self, matrix: Octets) -> DecodedText:
        """Decode rows of a mixed page that have shifts."""
        # Example: A 0E 42 C1 42 C2 0F B. ``last`` is the column of the last shift at or before each byte:
        # -1 1 1 1 1 1 6 6. A byte is ``double`` after a shift-out, and the ``first`` of its pair at an odd
        # distance from it. Kept are single bytes and the first bytes of pairs.
        column = np.arange(matrix.shape[1])
        shift = (matrix == SHIFT_OUT) | (matrix == SHIFT_IN)
        last = np.maximum.accumulate(np.where(shift, column, -1), axis=1)
        opened = np.take_along_axis(matrix, np.maximum(last, 0), axis=1) == SHIFT_OUT
        double = opened & (last >= 0) & ~shift
        first = double & ((column - last) % 2 == 1)
        # At each byte the number that it forms with the next one. Only those at ``first`` are used.
        pairs = matrix.astype(np.uint16) << 8
        pairs[:, :-1] |= matrix[:, 1:]
        codes = np.where(double, double_codes(self.double.name)[pairs], self._codes[matrix])
        kept = ~shift & (first | ~double)
        unknown = kept & ((codes == ord(NONE)) | (double & (codes == 0)))
        bad = mask_or_none(unknown.any(axis=1) | _is_unbalanced(matrix, shift, column))
        if bad is not None:
            kept &= ~bad[:, None]
        return DecodedText(mask_as_null(from_codes(codes, kept), bad), bad)

    def encode(self, values: pa.Array) -> pa.Array:
        """Encode strings with a mixed page, with shifts around double-byte characters.

        Raises EncodeError for a character that the page does not have; `where.record` is the row.
        """
        return encode_each(values, self.name, self._encode)

    def _encode(self, text: str) -> bytes:
        out = bytearray()
        pairs, single = _pair_of(self.double.name), self.single.characters
        wide = False
        for character in _parts(text, pairs):
            narrow = character != NONE and character in single
            if narrow == wide:
                out.append(SHIFT_IN if wide else SHIFT_OUT)
                wide = not wide
            if narrow:
                out.append(single.index(character))
            elif character in pairs:
                out += pairs[character]
            else:
                raise UnicodeError
        if wide:
            out.append(SHIFT_IN)
        return bytes(out)


def _pairs(matrix: Octets) -> Codes:
    return np.ascontiguousarray(matrix).view(">u2").astype(np.uint16)


def _is_unbalanced(matrix: Octets, shift: Mask, column: npt.NDArray[np.int64]) -> Mask:
    """Return a mask of the rows whose shifts do not alternate, or have half a byte pair between them."""
    # depth is 1 between shift-out and shift-in; other values mean that they do not alternate.
    # ``shift_before`` is the column of the shift before each byte: an even distance to a shift-in leaves
    # an odd number of bytes between.
    depth = np.cumsum(
        np.where(shift, np.where(matrix == SHIFT_OUT, 1, -1), 0), axis=1, dtype=np.int32
    )
    shift_before = np.full(matrix.shape, -1)
    shift_before[:, 1:] = np.maximum.accumulate(np.where(shift, column, -1), axis=1)[:, :-1]
    half = (matrix == SHIFT_IN) & ((column - shift_before) % 2 == 0)
    turned = (depth < 0) | (depth > 1)
    unbalanced: Mask = turned.any(axis=1) | (depth[:, -1] != 0) | half.any(axis=1)
    return unbalanced


@dataclass(frozen=True, slots=True)
class CodecPage:
    """A code page that uses a Python codec, such as Shift-JIS. Each distinct value is decoded once."""

    name: str

    @property
    def blank(self) -> bytes:
        """The bytes of a blank in Python's codec."""
        return " ".encode(self.name)

    def decode(self, matrix: Octets) -> DecodedText:
        """Decode rows with Python's codec, once per distinct value."""
        return decode_each(matrix, lambda raw: raw.decode(self.name))

    def encode(self, values: pa.Array) -> pa.Array:
        """Encode strings with Python's codec.

        Raises EncodeError for a character that the codec does not have; `where.record` is the row.
        """
        return encode_each(values, self.name, lambda text: text.encode(self.name))


@dataclass(frozen=True, slots=True)
class Utf8Page:
    """The code page UTF-8, whose bytes Arrow checks."""

    name: str = "utf-8"

    @property
    def blank(self) -> bytes:
        """The UTF-8 byte of a blank."""
        return b" "

    def decode(self, matrix: Octets) -> DecodedText:
        """Check which rows are UTF-8, and return them as strings."""
        try:
            return DecodedText(matrix_to_binary(matrix).cast(pa.string()))
        except pa.ArrowInvalid:
            return decode_each(matrix, bytes.decode)

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the UTF-8 bytes of each string."""
        return values.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class Utf16Page:
    """The code page UTF-16: two bytes per character, or four above U+FFFF."""

    name: str = "utf-16-be"
    order: str = ">"

    @property
    def blank(self) -> bytes:
        """The two UTF-16 bytes of a blank."""
        return " ".encode(self.name)

    def decode(self, matrix: Octets) -> DecodedText:
        """Decode rows of UTF-16 in the page's byte order."""
        # An odd number of bytes cannot be UTF-16. Python's codec marks all rows as bad.
        if matrix.shape[1] % 2:
            return decode_each(matrix, lambda raw: raw.decode(self.name))
        codes = np.ascontiguousarray(matrix).view(f"{self.order}u2").astype(np.uint16)
        if ((codes & 0xF800) == 0xD800).any():  # surrogates: pairs are decoded one by one
            return decode_each(matrix, lambda raw: raw.decode(self.name))
        return DecodedText(from_codes(codes, np.ones(codes.shape, bool)))

    def encode(self, values: pa.Array) -> pa.Array:
        """Encode strings as UTF-16 in the page's byte order.

        Raises EncodeError if a string cannot be encoded; `where.record` is the row.
        """
        return encode_each(values, self.name, lambda text: text.encode(self.name))


NATIONAL: Final = Utf16Page()
NATIONAL_LITTLE: Final = Utf16Page("utf-16-le", "<")


def decode_column(page: CodePage, values: pa.BinaryArray) -> DecodedText:
    """Decode a binary column with a code page. Null stays null and does not count as bad."""
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    filled = values.fill_null(b"") if values.null_count else values
    decoded = _decode_together(page, filled) if isinstance(page, SingleBytePage) else None
    if decoded is None:
        decoded = _decode_separately(page, filled)
    return DecodedText(mask_as_null(decoded.values, nulls), decoded.bad)


def _decode_together(page: SingleBytePage, values: pa.BinaryArray) -> DecodedText | None:
    """Decode all values in one translation, or return None if a byte is not a character."""
    offsets, data = byte_view(values)
    flat = data[offsets[0] : offsets[-1]].reshape(1, -1)
    text = page.decode(flat)
    if text.bad is not None:
        return None
    sizes = page.sizes[flat[0]]
    # ends[i] is the size in UTF-8 of the first i bytes, so it translates offsets of bytes to offsets of text.
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    _, data_of_text = byte_view(text.values)
    return DecodedText(strings_from_lengths(data_of_text, np.diff(ends[offsets - offsets[0]])))


def _decode_separately(page: CodePage, values: pa.BinaryArray) -> DecodedText:
    """Decode a binary column with a code page, one distinct value after the other."""
    if isinstance(page, CodecPage):
        return decode_distinct(values, lambda raw: raw.decode(page.name))
    encoded = values.dictionary_encode()
    rows = []
    # A page decodes a matrix of values of equal length, which is here a matrix of one row. No
    # bytes make no matrix, and are the empty text.
    for raw in encoded.dictionary.to_pylist():
        row = np.frombuffer(raw, np.uint8).reshape(1, -1)
        rows.append(page.decode(row).values[0].as_py() if raw else "")
    decoded = pa.array(rows, pa.string()).take(encoded.indices)
    bad = decoded.is_null().to_numpy(zero_copy_only=False) if decoded.null_count else None
    return DecodedText(decoded, bad)


PAGES: Final = tuple(sorted({*OF_PYTHON, *SINGLE_BYTE, *DOUBLE_BYTES}, key=int))


@cache
def code_page(name: str) -> CodePage:
    """Look up a code page by name. Raises OptionError, which suggests similar names, if it is unknown."""
    number = _NUMBERED.match(re.sub(r"[\s_-]+", "", name.lower()))
    if number and number[1] in PAGES:
        return _mainframe(number[1])
    return _of_python(f"cp{number[1]}" if number else name, name)


def double_byte_page(page: CodePage) -> DoubleBytePage:
    """Return the double-byte code page that is part of a mixed one, for DBCS fields.

    Raises OptionError if the page has no such part.
    """
    if isinstance(page, MixedPage):
        return page.double
    if isinstance(page, DoubleBytePage):
        return page
    known = ", ".join(sorted(DOUBLE_BYTES, key=int))
    raise OptionError(f"the code page {page.name} has no double bytes", hint=f"{known} have")


def _mainframe(number: str) -> CodePage:
    if number in OF_PYTHON:
        codec = f"cp{number.zfill(3)}"
        return SingleBytePage(codec, _characters(codec) or "")
    if number not in DOUBLE_BYTES:
        return SingleBytePage(f"cp{number}", SINGLE_BYTE[number], UNWRITTEN.get(number, b""))
    if number not in SINGLE_BYTE:
        return DoubleBytePage(number)
    single = SingleBytePage(f"cp{number}", SINGLE_BYTE[number])
    return MixedPage(f"cp{number}", single, DoubleBytePage(number))


def _of_python(codec: str, name: str) -> CodePage:
    try:
        known = codecs.lookup(codec).name
        " 0".encode(known)
    except (LookupError, UnicodeError, ValueError):
        raise _unknown_error(name) from None
    if known in ("utf-8", "utf-8-sig"):
        return Utf8Page()
    if known == "utf-16":
        hint = "Name the order of the bytes: utf-16-be or utf-16-le"
        raise OptionError(f"the code page {name} has no byte order", hint=hint)
    for page in (NATIONAL, NATIONAL_LITTLE):
        if known == page.name:
            return page
    characters = _characters(known)
    return CodecPage(known) if characters is None else SingleBytePage(known, characters)


def _characters(codec: str) -> str | None:
    """Return the 256 characters of a codec, or None if it does not have one byte per character."""
    characters = []
    for byte in range(256):
        try:
            text = bytes([byte]).decode(codec)
        except UnicodeDecodeError as error:
            # A codec with several bytes per character. Other reasons mean that the byte has no character.
            if re.search("incomplete|truncated|unexpected end|multibyte", error.reason):
                return None
            text = NONE
        if len(text) != 1:
            return None
        characters.append(text)
    return "".join(characters) if "0" in characters else None


def _unknown_error(name: str) -> OptionError:
    names = [*(f"cp{page.zfill(3)}" for page in PAGES), "ascii", "latin-1", "utf-8", "cp1252"]
    hint = did_you_mean(name, names, cutoff=0.5) or f"There are {', '.join(names)}, ..."
    return OptionError(f"no code page {name!r}", hint=hint)
