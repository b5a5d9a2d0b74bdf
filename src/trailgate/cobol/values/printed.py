"""Numbers in national characters, and floating point as it is printed (external floating point, as ``+9(3).99E+99``)."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import Endian, Field, Usage
from trailgate.cobol.values.codec import (
    Blank,
    Decoded,
    Decoder,
    Encoder,
    Explain,
    Note,
    Reason,
    ValueCodec,
    ValueOptions,
    page_of,
)
from trailgate.errors import EncodeError

ASCII: Final = "iso8859-1"  # in which the second byte of a national digit is read
NO_DIGIT: Final = 0xFF


# Usages of national characters, and what their second bytes are.
_NARROW: Final = MappingProxyType(
    {
        Usage.NATIONAL_DIGITS: Usage.ZONED,
        Usage.NATIONAL_EDITED: Usage.EDITED,
        Usage.NATIONAL_FLOAT: Usage.FLOAT_TEXT,
    }
)


def _narrow(field: Field) -> Field:
    """Return the field of the second bytes of national characters."""
    return replace(field, usage=_NARROW[field.usage], size=field.size // 2, code_page=ASCII)


def national(codec: ValueCodec) -> ValueCodec:
    """Return the codec of numbers that are in UTF-16 as the codec reads and writes them in bytes."""

    def decode_national(field: Field, options: ValueOptions) -> Decoder:
        decode = codec.decoder(_narrow(field), options)
        first = options.national is Endian.LITTLE

        def decode_pairs(matrix: Octets) -> Decoded:
            high, low = matrix[:, first::2], matrix[:, 1 - first :: 2]
            return decode(np.where(high == 0, low, NO_DIGIT).astype(np.uint8))

        return decode_pairs

    def encode_national(field: Field, options: ValueOptions) -> Encoder:
        encode = codec.encoder(_narrow(field), options)

        def encode_pairs(values: pa.Array) -> Octets:
            made = encode(values)
            found = np.zeros((len(made), field.size), np.uint8)
            found[:, options.national is Endian.BIG :: 2] = made
            return found

        return encode_pairs

    return ValueCodec(decode_national, encode_national, codec.explainer)


_SIGNS: Final = {"+": "[+-]", "-": "[ -]"}
_PARTS: Final = re.compile(r"[+-.VE]|9(?:\((\d+)\))?")


def _pattern(picture: str) -> str:
    """Return the pattern of a picture's text."""
    symbols = {".": "[.]", "V": "", "E": "E", **_SIGNS}
    parts = (symbols.get(part[0], f"[0-9]{{{part[1] or 1}}}") for part in _PARTS.finditer(picture))
    return f"^{''.join(parts)}$"


def decode_float_text(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of floating point that is printed: a float64 of the number nearest to it."""
    page = page_of(field, options)
    pattern = _pattern(field.picture)
    point = field.picture.index("V") if "V" in field.picture else None
    places = None if point is None else _width(field.picture[:point])

    def decode(matrix: Octets) -> Decoded:
        text = page.decode(matrix).values
        if field.comma:
            text = pc.replace_substring(text, ",", ".")
        fits = pc.fill_null(pc.match_substring_regex(text, pattern), False)
        if places is not None:
            head, tail = (
                pc.utf8_slice_codeunits(text, 0, places),
                pc.utf8_slice_codeunits(text, places),
            )
            text = pc.binary_join_element_wise(head, tail, ".")
        plain = pc.replace_substring(pc.replace_substring(text, "+", ""), " ", "")
        values = pc.cast(pc.if_else(fits, plain, None), pa.float64())
        bad: Mask = ~fits.to_numpy(zero_copy_only=False)
        if options.blank is Blank.ERROR:
            return Decoded(values, bad if bad.any() else None)
        blank = pc.fill_null(pc.equal(pc.utf8_trim(text, " ."), ""), False)
        empty: Mask = bad & blank.to_numpy(zero_copy_only=False)
        if options.blank is Blank.ZERO:
            values = pc.if_else(pa.array(empty), 0.0, values)
        notes = (Note(f"blank={options.blank.value}", empty),)
        return Decoded(values, bad & ~empty if (bad & ~empty).any() else None, notes)

    return decode


def _width(picture: str) -> int:
    """Return the characters of a part of a picture."""
    return sum(int(part[1] or 1) for part in _PARTS.finditer(picture))


def encode_float_text(field: Field, _: ValueOptions) -> Encoder:
    """Raise EncodeError: a float64 has several texts, and which of them is written is not known."""
    raise EncodeError(f"{field.name}: floating point of the picture {field.picture} is read alone")


def explain_float_text(field: Field, _: ValueOptions) -> Explain:
    """Return what explains why bytes are not a printed number."""
    reason = Reason(f"not a number as {field.picture} prints it")
    return lambda _: reason
